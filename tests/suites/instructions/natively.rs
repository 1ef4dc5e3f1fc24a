//! What an instruction does with its operands, found out by executing it on the processor with other operands.
//!
//! This knows nothing of what instructions mean: a byte of the result that is always the same byte of an operand has been moved; one that is always the
//! same is constant; anything else has been computed. The slope of an operation on a number's bits is found in the same way.

use std::ops::Range;

use derivgrind_native::{Machine, Native, Pointer, Random, Registers};
use iced_x86::Instruction;

use crate::places;
use crate::values::Format;

/// Where a byte of the result comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Byte at this offset of the machine before the instruction.
    From(usize),
    /// It does not depend on data.
    Constant,
    /// It depends on data in another way.
    Computed,
}

/// Executions with other data.
const RUNS: usize = 4;

/// One instruction, executed several times with other data: everything random but `control`, pointers that it goes by, and flags.
pub struct Movement {
    data: Vec<Range<usize>>,
    runs: Vec<(Machine, Machine)>,
    candidates: Vec<Range<usize>>,
}

impl Movement {
    /// Executes the instruction; `before` and `after` are a run that has been made already.
    pub fn observe(
        native: &mut Native,
        instruction: &Instruction,
        (before, after): (&Machine, &Machine),
        control: &[Range<usize>],
        random: &mut Random,
    ) -> Movement {
        let data = places::data(Registers::of(instruction));
        let mut runs = vec![(before.clone(), after.clone())];
        let mut fixed: Vec<Range<usize>> = control.to_vec();
        for pointer in places::needed(instruction) {
            fixed.extend(places::register(pointer.register()));
        }
        for _ in 0..2 * RUNS {
            let mut changed = before.clone();
            for range in &data {
                random.fill(&mut changed.bytes_mut()[range.clone()]);
            }
            for range in &fixed {
                changed.bytes_mut()[range.clone()].copy_from_slice(&before.bytes()[range.clone()]);
            }
            let mut result = changed.clone();
            if native.run(instruction, &mut result).is_ok() {
                runs.push((changed, result));
            }
            if runs.len() > RUNS {
                break;
            }
        }
        let candidates = (0..instruction.op_count()).filter_map(|operand| places::operand(instruction, operand));
        let candidates = candidates.chain(data.iter().cloned()).collect();
        Movement { data, runs, candidates }
    }

    /// Where the byte at an offset comes from.
    pub fn origin(&self, offset: usize) -> Origin {
        let is_from =
            |source: usize| self.runs.iter().all(|(before, after)| after.bytes()[offset] == before.bytes()[source]);
        if is_from(offset) {
            return Origin::From(offset);
        }
        // With too few runs a coincidence is likely.
        if self.runs.len() <= RUNS {
            return Origin::Computed;
        }
        if let Some(source) = self.candidates.iter().cloned().flatten().find(|&source| is_from(source)) {
            return Origin::From(source);
        }
        let first = self.runs[0].1.bytes()[offset];
        if self.runs.iter().all(|(_, after)| after.bytes()[offset] == first) {
            Origin::Constant
        } else {
            Origin::Computed
        }
    }

    /// Whether everything that the instruction writes is moved or constant.
    pub fn only_moves(&self) -> bool {
        let mut offsets = self.data.iter().cloned().flatten();
        offsets.all(|offset| self.origin(offset) != Origin::Computed)
    }
}

/// What an operation on the bits of a number is, as a function of that number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slope {
    /// A constant.
    Constant,
    /// Multiplication by this.
    Factor(f64),
    /// Something else.
    Neither,
    /// The numbers are too special to tell.
    Unknown,
}

/// Executes the instruction with other mantissas of the number at `source`, and tells how the number at `target` depends on it.
pub fn slope(
    native: &mut Native,
    instruction: &Instruction,
    (before, after): (&Machine, &Machine),
    format: Format,
    [source, target]: [usize; 2],
    random: &mut Random,
) -> Slope {
    let value = |machine: &Machine, offset: usize| {
        let mut bytes = [0; 8];
        bytes[..format.bytes()].copy_from_slice(&machine.bytes()[offset..offset + format.bytes()]);
        u64::from_le_bytes(bytes)
    };
    let mantissa = (1u64 << format.mantissa_bits()) - 1;
    let original = value(before, source);
    let is_special = !format.is_normal(original) || original & mantissa == 0;
    let mut pairs = vec![(original, value(after, target))];
    // Each bit of the mantissa takes both values.
    let mantissas = (0..RUNS / 2).map(|_| random.bits()).flat_map(|bits| [bits, !bits]);
    for changed in mantissas.map(|bits| original & !mantissa | bits & mantissa) {
        let mut machine = before.clone();
        machine.bytes_mut()[source..source + format.bytes()].copy_from_slice(&changed.to_le_bytes()[..format.bytes()]);
        if native.run(instruction, &mut machine).is_err() {
            return Slope::Unknown;
        }
        pairs.push((changed, value(&machine, target)));
    }
    let first = pairs[0].1;
    if pairs.iter().all(|(_, result)| *result == first) {
        return Slope::Constant;
    }
    if pairs.iter().any(|(value, result)| (value ^ result) & mantissa != 0) {
        return if is_special { Slope::Unknown } else { Slope::Neither };
    }
    // Same mantissas, and signs and exponents do not depend on them.
    let (from, to) = (original & !mantissa, first & !mantissa);
    if pairs.iter().any(|(_, result)| result & !mantissa != to) {
        return Slope::Unknown;
    }
    let sign = if (from ^ to) & format.sign() == 0 { 1.0 } else { -1.0 };
    if (from ^ to) & !format.sign() == 0 {
        return Slope::Factor(sign);
    }
    if !format.is_normal(from) || !format.is_normal(to) {
        return Slope::Unknown;
    }
    let power = format.exponent(to) as i32 - format.exponent(from) as i32;
    if (-1022..=1023).contains(&power) { Slope::Factor(sign * 2f64.powi(power)) } else { Slope::Unknown }
}

/// The bytes of pointers that an instruction does not go by are data as any other.
pub fn free_pointers(instruction: &Instruction) -> impl Iterator<Item = Pointer> {
    let needed = places::needed(instruction);
    Pointer::ALL.into_iter().filter(move |pointer| !needed.contains(pointer))
}
