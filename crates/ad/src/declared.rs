//! Inputs and outputs that the program declares, followed without a tape.
//!
//! The macros `DG_INPUTF` and `DG_OUTPUTF` speak of *indices*. Without a tape an index is a handle of a number here: its value and its dot value.
//! `NEW_INDEX` makes one from two others and partial derivatives, `SET_INDEX` and `GET_INDEX` move dot values between handles and
//! variables, and `INDEX_TO_FILE` declares one. That way the derivatives of declared variables come from forward mode; and with perturbed
//! values instead of dot values, difference quotients ([`crate::perturb`]).

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use derivgrind_engine::memory::{self, user};
use derivgrind_engine::report;

use crate::arrays::{Array, Role};
use crate::instrument::{MOST_LAYERS, layers};
use crate::x87::Extended;

/// What is done with the declared variables.
#[derive(Debug)]
pub struct Declared {
    /// What each input gets when it is declared (a dot value in each direction, or what is added to it), in the order of declaration; inputs and
    /// directions beyond get 0.
    pub seeds: Vec<Vec<f64>>,
    /// Where the result goes when the program ends, see [`Results`].
    pub results: PathBuf,
}

/// Dot values of a number in each direction; directions beyond those in use are 0.
pub type Dots = [f64; MOST_LAYERS];

/// The result of a run, a line for each declared variable in the order of declaration: `input VALUE BYTES` or `output VALUE DOT...`;
/// then `lost COUNT` if activity was lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Value and size in bytes of each input.
    pub inputs: Vec<(f64, u64)>,
    /// Value and dot values of each output.
    pub outputs: Vec<(f64, Vec<f64>)>,
    /// How often activity was lost.
    pub lost: u64,
}

impl Results {
    /// The values of the outputs.
    pub fn output_values(&self) -> impl Iterator<Item = f64> {
        self.outputs.iter().map(|(value, _)| *value)
    }

    fn write(&self, file: impl Write) -> io::Result<()> {
        let mut file = BufWriter::new(file);
        for (value, size) in &self.inputs {
            writeln!(file, "input {value:e} {size}")?;
        }
        for (value, dots) in &self.outputs {
            write!(file, "output {value:e}")?;
            for dot in dots {
                write!(file, " {dot:e}")?;
            }
            writeln!(file)?;
        }
        if self.lost != 0 {
            writeln!(file, "lost {}", self.lost)?;
        }
        file.flush()
    }

    /// Reads what a run has left; `None` if it is not well-formed.
    pub fn parse(text: &str) -> Option<Results> {
        let mut results = Results::default();
        for line in text.lines() {
            if let Some(count) = line.strip_prefix("lost ") {
                results.lost = count.parse().ok()?;
                continue;
            }
            let mut words = line.split(' ');
            match (words.next()?, words.next()?.parse().ok()?) {
                ("input", value) => results.inputs.push((value, words.next()?.parse().ok()?)),
                ("output", value) => {
                    results.outputs.push((value, words.map(str::parse).collect::<Result<_, _>>().ok()?));
                }
                _ => return None,
            }
        }
        Some(results)
    }
}

/// A variable that has the dot values of a handle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Handle {
    /// The variable.
    pub address: u64,
    /// Its size in bytes: 4, 8, or 10 for an 80-bit number.
    pub size: u64,
    /// The dot values, or another seed in place of the first one.
    pub dots: Dots,
}

/// Size of an 80-bit number, of which a `long double` has 10, 12 or 16 bytes.
const EXTENDED: u64 = Extended::BYTES as u64;

/// A number that stands for an index.
#[derive(Clone, Copy)]
struct Number {
    value: f64,
    dots: Dots,
}

/// Those of a passive number.
pub(crate) const PASSIVE: Dots = [0.0; MOST_LAYERS];

struct State {
    declared: Declared,
    /// By handle; the first one stands for passive values.
    numbers: Vec<Number>,
    /// The variable that a handle has been given to last.
    variables: HashMap<u64, (u64, u64)>,
    results: Results,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn state() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on declared variables are followed.
pub(crate) fn install(declared: Declared) {
    let passive = Number { value: 0.0, dots: PASSIVE };
    *state() = Some(State { declared, numbers: vec![passive], variables: HashMap::new(), results: Results::default() });
}

/// Whether they are.
pub(crate) fn is_followed() -> bool {
    state().is_some()
}

/// To be held across `fork`.
pub(crate) fn lock_for_fork() -> impl Sized + 'static {
    state()
}

/// In a child process: the result is the parent's affair.
pub(crate) fn forget() {
    *state() = None;
}

/// The process ends: writes the result.
pub(crate) fn finish() {
    // They stay: the process may go on, and end once more.
    let mut state = state();
    let Some(State { declared, results, .. }) = state.as_mut() else { return };
    results.lost = crate::instrument::lost_count();
    if let Err(error) = File::create(&declared.results).and_then(|file| results.write(file)) {
        report(&format!("cannot write {}: {error}", declared.results.display()));
    }
}

impl State {
    fn number(&self, handle: u64) -> Number {
        usize::try_from(handle).ok().and_then(|handle| self.numbers.get(handle)).copied().unwrap_or(self.numbers[0])
    }

    /// What the next input gets.
    fn next_seeds(&self) -> Dots {
        let seeds = self.declared.seeds.get(self.results.inputs.len());
        std::array::from_fn(|layer| seeds.and_then(|dots| dots.get(layer)).copied().unwrap_or(0.0))
    }

    fn add(&mut self, number: Number) -> u64 {
        self.numbers.push(number);
        self.numbers.len() as u64 - 1
    }
}

/// A handle of a variable's dot values.
pub(crate) fn handle_of(dots: Dots) -> u64 {
    match state().as_mut() {
        Some(state) if dots != PASSIVE => state.add(Number { value: 0.0, dots }),
        _ => 0,
    }
}

/// `NEW_INDEX(struct of pointers: index1, index2, diff1, diff2, new index, value)`
pub(crate) fn new_index(arguments: &[u64; 6], always: bool) -> Result<u64, user::Fault> {
    let mut state = state();
    let Some(state) = state.as_mut() else { return Ok(0) };
    let pointers: [u64; 6] = user::read(arguments[1])?;
    let operands = [user::read::<u64>(pointers[0])?, user::read::<u64>(pointers[1])?];
    let partials = [user::read::<u64>(pointers[2])?, user::read::<u64>(pointers[3])?].map(f64::from_bits);
    let value = user::read::<u64>(pointers[5]).map_or(f64::NAN, f64::from_bits);
    let handle = if operands == [0, 0] && !always {
        0
    } else {
        let operands = operands.map(|operand| state.number(operand).dots);
        let term = |k: usize, layer: usize| match operands[k][layer] {
            0.0 => 0.0,
            dot => dot * partials[k],
        };
        let dots = std::array::from_fn(|layer| term(0, layer) + term(1, layer));
        state.add(Number { value, dots })
    };
    user::write(pointers[4], handle)?;
    memory::clear_shadow(pointers[4], 8);
    Ok(0)
}

/// `SET_INDEX(address of variable, address of the index, size of variable)`: returns the variable and the dot values that it shall get.
pub(crate) fn set_index(arguments: &[u64; 6]) -> Result<Option<Handle>, user::Fault> {
    let [_, address, index, size, ..] = *arguments;
    let mut state = state();
    let Some(state) = state.as_mut() else { return Ok(None) };
    let handle: u64 = user::read(index)?;
    let number = state.number(handle);
    let narrow = user::read::<u32>(address)?;
    let size = match size {
        4 | 8 => size,
        10 | 12 | 16 => EXTENDED,
        // Programs for the Valgrind-based tool do not tell the size, but the value.
        _ if f64::from(f32::from_bits(narrow)).to_bits() == number.value.to_bits() && number.value != 0.0 => 4,
        _ if is_extended(address, number.value) => EXTENDED,
        _ => 8,
    };
    match size {
        4 => {}
        8 => drop(user::read::<u64>(address)?),
        _ => drop(user::read::<[u8; Extended::BYTES]>(address)?),
    }
    if handle != 0 {
        state.variables.insert(handle, (address, size));
    }
    Ok(Some(Handle { address, size, dots: number.dots }))
}

/// Whether the 80-bit number at an address has this value, which is not zero.
fn is_extended(address: u64, value: f64) -> bool {
    let Ok(bytes) = user::read(address) else { return false };
    let number = Extended::from_bytes(bytes);
    // Without its leading bit it is no x87 number.
    value != 0.0 && number.significand >> 63 != 0 && number.to_f64().to_bits() == value.to_bits()
}

/// `INDEX_TO_FILE(0 for inputs or 1 for outputs, address of the index)`: for an input, returns the variable and its seed.
pub(crate) fn declare(arguments: &[u64; 6]) -> Result<Option<Handle>, user::Fault> {
    let mut state = state();
    let Some(state) = state.as_mut() else { return Ok(None) };
    let handle: u64 = user::read(arguments[2])?;
    let number = state.number(handle);
    match arguments[1] {
        0 => {
            let dots = state.next_seeds();
            if let Some(number) = usize::try_from(handle).ok().and_then(|handle| state.numbers.get_mut(handle)) {
                number.dots = dots;
            }
            let variable = state.variables.remove(&handle);
            state.results.inputs.push((number.value, variable.map_or(8, |(_, size)| size)));
            Ok(variable.map(|(address, size)| Handle { address, size, dots }))
        }
        1 => {
            state.results.outputs.push((number.value, number.dots[layers()].to_vec()));
            Ok(None)
        }
        other => {
            report(&format!("client request INDEX_TO_FILE: no index file {other}; 0 is inputs, 1 outputs"));
            Ok(None)
        }
    }
}

/// `DECLARE_ARRAY(0 for inputs or 1 for outputs, address, number of elements, size of an element)`: `give` changes an input by its seeds,
/// `dots_of` tells an output's dot values. Returns the number of elements.
pub(crate) fn declare_array(
    arguments: &[u64; 6],
    mut give: impl FnMut(Handle) -> Result<(), user::Fault>,
    dots_of: impl Fn(u64, u64) -> Result<Dots, user::Fault>,
) -> Result<u64, user::Fault> {
    let mut state = state();
    let Some(state) = state.as_mut() else { return Ok(0) };
    let Some(array) = Array::of_request(arguments) else { return Ok(0) };
    let role = array.role;
    let size = if array.size > 8 { EXTENDED } else { array.size };
    array.blocks(|block| {
        for (address, value) in block.elements() {
            match role {
                Role::Inputs => {
                    let dots = state.next_seeds();
                    state.results.inputs.push((value, size));
                    give(Handle { address, size, dots })?;
                }
                Role::Outputs => state.results.outputs.push((value, dots_of(address, size)?[layers()].to_vec())),
            }
        }
        Ok(())
    })?;
    Ok(array.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_as_they_are_written() {
        let results = Results {
            inputs: vec![(0.1, 8), (f64::NAN, 4)],
            outputs: vec![(1e300, vec![-0.0]), (3.0, vec![1.5, f64::NEG_INFINITY])],
            lost: 7,
        };
        let mut text = Vec::new();
        results.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(format!("{:?}", Results::parse(&text).unwrap()), format!("{results:?}"));
        assert_eq!(Results::parse("input x 8"), None);
        assert_eq!(Results::parse("output 1 x"), None);
    }
}
