//! Interception: a call of a math function with an active argument runs to its return without instrumentation and is recorded as one operation.

use derivgrind_engine::context::{Context, Gpr};
use derivgrind_engine::memory::user;
use derivgrind_engine::{Version, dispatcher};

use super::{Call, MAX_REALS, MathFunction, Place, Width, lookup};
use crate::instrument::{MOST_LAYERS, Thread, file_start, layers};
use crate::shadow::{self, INDEX_BITS, WIDE_TAG};

/// What interception needs of a mode: what shadow is, and what a known derivative does to it.
pub trait Differentiator {
    /// What the shadow of a real argument of this width stands for, from the low 8 bytes of its place; 0 if it is passive.
    fn operand(&self, width: Width, shadow: u64) -> u64;

    /// The shadow of a result whose derivative is the sum of operands times partial derivatives. No operand is 0.
    fn result(&self, context: &mut Context, width: Width, terms: &[(u64, f64)]) -> u64;

    /// The function at `address` has not returned (a fault whose handler jumped elsewhere or goes on inside): the activity of its arguments ends here.
    fn interrupted(&self, address: u64);
}

/// A mode whose shadow holds indices of records with two operands.
pub trait Recorder {
    /// Records an operation on the calling thread whose result is differentiated as `partials[0]` times its first operand plus `partials[1]` times its second
    /// one, and returns its index. An operand that is missing has index 0.
    ///
    /// `width` is the format of the value that gets the index: for binary32 it must be below [`shadow::NARROW_LIMIT`]. 0 means that the result is
    /// passive (recording is disabled, or there is no index left, which the recorder reports).
    fn record(&self, context: &mut Context, width: Width, operands: [u64; 2], partials: [f64; 2]) -> u64;

    /// See [`Differentiator::interrupted`].
    fn interrupted(&self, address: u64);
}

impl<R: Recorder> Differentiator for R {
    fn operand(&self, width: Width, shadow: u64) -> u64 {
        index(width, shadow)
    }

    fn result(&self, context: &mut Context, width: Width, terms: &[(u64, f64)]) -> u64 {
        let index = match *terms {
            [] => 0,
            [a] => self.record(context, width, [a.0, 0], [a.1, 0.0]),
            [a, b] => self.record(context, width, [a.0, b.0], [a.1, b.1]),
            [a, b, c, ..] => {
                // The sum of two has no shadow, so that its index may be a wide one.
                match self.record(context, Width::Binary64, [a.0, b.0], [a.1, b.1]) {
                    0 => 0,
                    sum => self.record(context, width, [sum, c.0], [1.0, c.1]),
                }
            }
        };
        shadow_word(width, index)
    }

    fn interrupted(&self, address: u64) {
        Recorder::interrupted(self, address);
    }
}

/// Offset of the XMM registers in an XSAVE image, and bytes of each.
const XMM: usize = 160;
const XMM_BYTES: usize = 16;

/// The registers of arguments of class INTEGER, as many as functions of the table have.
const INTEGER_ARGUMENTS: [Gpr; super::MAX_INTEGERS] = [Gpr::Rdi, Gpr::Rsi];

/// General registers that a function need not preserve (System V ABI).
const CALLER_SAVED: [Gpr; 9] = [Gpr::Rax, Gpr::Rcx, Gpr::Rdx, Gpr::Rsi, Gpr::Rdi, Gpr::R8, Gpr::R9, Gpr::R10, Gpr::R11];

/// The tool's `function_entered`: `context` stands at the first instruction of the function `name`.
///
/// If an argument is active, this runs the function to its return in the version `plain`, which neither records nor moves shadow but clears that of
/// what is stored, gives the results their indices, and returns `true`. Otherwise it does nothing and returns `false`: the instructions
/// of the function cannot make anything active.
pub fn function_entered<D: Differentiator>(context: &mut Context, name: &str, plain: Version, mode: &D) -> bool {
    let Some(entry) = lookup(name).and_then(|function| Entry::new(function, context, mode)) else {
        return false;
    };
    let address = context.rip;
    if dispatcher::run_to_return(context, plain) {
        entry.complete(context, mode);
    } else {
        forget_caller_saved(context);
        mode.interrupted(address);
    }
    true
}

/// A call with an active argument, as it was at entry.
struct Entry {
    function: &'static MathFunction,
    call: Call,
    /// What the shadow of each real argument stands for, in each layer.
    operands: [[u64; MAX_REALS]; MOST_LAYERS],
}

impl Entry {
    /// Reads the arguments; `None` if all are passive.
    fn new(function: &'static MathFunction, context: &Context, mode: &impl Differentiator) -> Option<Self> {
        let mut operands = [[0; MAX_REALS]; MOST_LAYERS];
        for layer in layers() {
            for (number, operand) in operands[layer].iter_mut().enumerate().take(function.reals()) {
                *operand = mode.operand(function.width, vector_shadow(context, layer, number));
            }
        }
        if operands == [[0; MAX_REALS]; MOST_LAYERS] {
            return None;
        }
        let mut call = Call::default();
        for (number, value) in call.reals.iter_mut().enumerate().take(function.reals()) {
            *value = function.width.widen(vector_register(context, number));
        }
        call.integers = INTEGER_ARGUMENTS.map(|register| context.reg(register));
        Some(Self { function, call, operands })
    }

    /// The function has returned: sets the shadow of its results.
    fn complete(mut self, context: &mut Context, mode: &impl Differentiator) {
        for (value, &place) in self.call.results.iter_mut().zip(self.function.results) {
            *value = match place {
                Place::Register => self.function.width.widen(vector_register(context, 0)),
                Place::Pointer(number) => read(self.function.width, self.call.integers[number]),
            };
        }
        let partials = self.function.partials(&self.call);
        forget_caller_saved(context);
        for (row, &place) in partials.iter().zip(self.function.results) {
            for layer in layers() {
                let shadow = self.result(context, mode, layer, row);
                match place {
                    Place::Register => set_vector_shadow(context, layer, shadow),
                    Place::Pointer(number) => {
                        let bytes = &shadow.to_le_bytes()[..self.function.width.bytes() as usize];
                        user::write_layer(layer, self.call.integers[number], bytes);
                    }
                }
            }
        }
    }

    /// The shadow of one result in a layer.
    fn result(
        &self,
        context: &mut Context,
        mode: &impl Differentiator,
        layer: usize,
        partials: &[f64; MAX_REALS],
    ) -> u64 {
        let mut terms = [(0, 0.0); MAX_REALS];
        let mut count = 0;
        for (&operand, &partial) in self.operands[layer].iter().zip(partials) {
            // A partial derivative of 0 is no dependence: the result of `floor` is passive.
            if operand != 0 && partial != 0.0 {
                terms[count] = (operand, partial);
                count += 1;
            }
        }
        mode.result(context, self.function.width, &terms[..count])
    }
}

/// The lowest 8 bytes of an XMM register.
fn vector_register(context: &Context, number: usize) -> u64 {
    word(&context.vector_state, XMM + XMM_BYTES * number)
}

/// The lowest 8 bytes of a vector register's shadow in a layer.
fn vector_shadow(context: &Context, layer: usize, number: usize) -> u64 {
    word(&context.tool, file_start(layer) + usize::from(shadow::vector(number as u16)))
}

fn word(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(word)
}

/// The index in the shadow of a number.
fn index(width: Width, shadow: u64) -> u64 {
    match width {
        Width::Binary32 => shadow & u64::from(u32::MAX),
        // Without the tag, something in the upper half is the index of another binary32 number.
        Width::Binary64 if shadow & WIDE_TAG != 0 || shadow >> 32 == 0 => shadow & INDEX_BITS,
        Width::Binary64 => 0,
    }
}

/// The shadow of a number that has this index.
fn shadow_word(width: Width, index: u64) -> u64 {
    match width {
        Width::Binary64 if index != 0 => index | WIDE_TAG,
        _ => index,
    }
}

/// Makes all registers passive that a call may change. The function has run without moving shadow, so that theirs belongs to values that are gone.
fn forget_caller_saved(context: &mut Context) {
    let mut thread = Thread::new(context);
    for register in CALLER_SAVED {
        thread.clear_file(shadow::general(register as u16), 8);
    }
    thread.clear_file(shadow::VECTOR, shadow::X87 - shadow::VECTOR);
    thread.clear_file(shadow::MASK, shadow::TEMPORARY - shadow::MASK);
}

/// Sets the shadow of the low 8 bytes of `xmm0` in a layer.
fn set_vector_shadow(context: &mut Context, layer: usize, shadow: u64) {
    let offset = file_start(layer) + usize::from(shadow::vector(0));
    context.tool[offset..offset + 8].copy_from_slice(&shadow.to_le_bytes());
}

/// A number in application memory; NaN if the memory is gone.
fn read(width: Width, address: u64) -> f64 {
    match width {
        Width::Binary32 => user::read::<u32>(address).map(u64::from),
        Width::Binary64 => user::read::<u64>(address),
    }
    .map_or(f64::NAN, |bits| width.widen(bits))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use derivgrind_engine::context;
    use derivgrind_engine::memory::SHADOW_STRIDE;

    use super::*;

    type Recorded = (Width, [u64; 2], [f64; 2]);

    /// Hands out indices from 100 on and keeps what was recorded.
    #[derive(Default)]
    struct Log(RefCell<Vec<Recorded>>);

    impl Recorder for Log {
        fn record(&self, _: &mut Context, width: Width, operands: [u64; 2], partials: [f64; 2]) -> u64 {
            let mut records = self.0.borrow_mut();
            records.push((width, operands, partials));
            99 + records.len() as u64
        }

        fn interrupted(&self, _: u64) {}
    }

    fn context() -> &'static mut Context {
        // SAFETY: each test has a thread of its own, takes its context once and runs no application code.
        unsafe { &mut *context::current() }
    }

    fn set_register(context: &mut Context, number: usize, bits: u64) {
        let offset = XMM + XMM_BYTES * number;
        context.vector_state[offset..offset + 8].copy_from_slice(&bits.to_le_bytes());
    }

    fn set_shadow(context: &mut Context, offset: u16, shadow: u64) {
        let offset = usize::from(offset);
        context.tool[offset..offset + 8].copy_from_slice(&shadow.to_le_bytes());
    }

    fn entry(context: &Context, name: &str) -> Option<Entry> {
        Entry::new(lookup(name).expect("known"), context, &Log::default())
    }

    #[test]
    fn a_call_with_passive_arguments_is_left_alone() {
        let context = context();
        set_shadow(context, shadow::vector(1), 7 | WIDE_TAG);
        assert!(entry(context, "sin").is_none(), "the second register is no argument");
        assert!(entry(context, "pow").is_some());
    }

    #[test]
    fn one_argument_gives_one_record_and_clobbered_registers_become_passive() {
        let context = context();
        set_register(context, 0, 2.0f64.to_bits());
        set_shadow(context, shadow::vector(0), 7 | WIDE_TAG);
        set_shadow(context, shadow::vector(0) + 8, 8 | WIDE_TAG);
        set_shadow(context, shadow::vector(5), 9 | WIDE_TAG);
        set_shadow(context, shadow::general(Gpr::Rax as u16), 10 | WIDE_TAG);
        set_shadow(context, shadow::general(Gpr::Rbx as u16), 11 | WIDE_TAG);
        let entry = entry(context, "log").expect("active");
        set_register(context, 0, 2.0f64.ln().to_bits());
        let log = Log::default();
        entry.complete(context, &log);
        assert_eq!(*log.0.borrow(), [(Width::Binary64, [7, 0], [0.5, 0.0])]);
        assert_eq!(vector_shadow(context, 0, 0), 100 | WIDE_TAG);
        assert_eq!(word(&context.tool, usize::from(shadow::vector(0)) + 8), 0);
        assert_eq!(vector_shadow(context, 0, 5), 0);
        assert_eq!(word(&context.tool, shadow::general(Gpr::Rax as u16).into()), 0);
        let preserved = word(&context.tool, shadow::general(Gpr::Rbx as u16).into());
        assert_eq!(preserved, 11 | WIDE_TAG, "rbx survives a call");
    }

    #[test]
    fn binary32_shadow_has_four_bytes() {
        let context = context();
        set_register(context, 0, u64::from(3.0f32.to_bits()) | 0xdead << 32);
        set_register(context, 1, u64::from(4.0f32.to_bits()));
        // The neighbour of the first argument is another number.
        set_shadow(context, shadow::vector(0), 5 | 77 << 32);
        set_shadow(context, shadow::vector(1), 6);
        let entry = entry(context, "hypotf").expect("active");
        set_register(context, 0, u64::from(5.0f32.to_bits()));
        let log = Log::default();
        entry.complete(context, &log);
        assert_eq!(*log.0.borrow(), [(Width::Binary32, [5, 6], [0.6, 0.8])]);
        assert_eq!(vector_shadow(context, 0, 0), 100);
    }

    #[test]
    fn three_arguments_give_two_records() {
        let context = context();
        for (number, value) in [2.0f64, 3.0, 4.0].into_iter().enumerate() {
            set_register(context, number, value.to_bits());
            set_shadow(context, shadow::vector(number as u16), (number as u64 + 1) | WIDE_TAG);
        }
        let entry = entry(context, "fma").expect("active");
        set_register(context, 0, 10.0f64.to_bits());
        let log = Log::default();
        entry.complete(context, &log);
        let expected = [(Width::Binary64, [1, 2], [3.0, 2.0]), (Width::Binary64, [100, 3], [1.0, 1.0])];
        assert_eq!(*log.0.borrow(), expected);
        assert_eq!(vector_shadow(context, 0, 0), 101 | WIDE_TAG);
    }

    #[test]
    fn only_active_arguments_with_influence_are_recorded() {
        let context = context();
        set_register(context, 0, 0.0f64.to_bits());
        set_register(context, 1, 2.0f64.to_bits());
        set_shadow(context, shadow::vector(0), 3 | WIDE_TAG);
        let floor = entry(context, "floor").expect("active");
        let log = Log::default();
        floor.complete(context, &log);
        assert_eq!(vector_shadow(context, 0, 0), 0, "an integer does not depend on anything");
        set_shadow(context, shadow::vector(1), 4 | WIDE_TAG);
        set_register(context, 0, 7.0f64.to_bits());
        let fmod = entry(context, "fmod").expect("active");
        set_register(context, 0, 1.0f64.to_bits());
        fmod.complete(context, &log);
        let expected = [(Width::Binary64, [4, 0], [-3.0, 0.0])];
        assert_eq!(*log.0.borrow(), expected, "the first argument is passive");
    }

    #[test]
    fn results_in_memory_get_their_shadow() {
        let context = context();
        let address = 0x0070_1234_0000u64;
        for base in [address, address + SHADOW_STRIDE] {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            // Shadow begins within a page.
            let page = base & !4095;
            // SAFETY: a fresh mapping where nothing is.
            let mapped = unsafe { libc::mmap(page as *mut libc::c_void, 8192, protection, flags, -1, 0) };
            assert_eq!(mapped as u64, page);
        }
        set_register(context, 0, 0.5f64.to_bits());
        set_shadow(context, shadow::vector(0), 3 | WIDE_TAG);
        context.set_reg(Gpr::Rdi, address);
        context.set_reg(Gpr::Rsi, address + 8);
        let entry = entry(context, "sincos").expect("active");
        // As the function leaves them: argument registers changed, results stored.
        context.set_reg(Gpr::Rdi, 0);
        user::write(address, 0.5f64.sin().to_bits()).expect("mapped");
        user::write(address + 8, 0.5f64.cos().to_bits()).expect("mapped");
        let log = Log::default();
        entry.complete(context, &log);
        let expected =
            [(Width::Binary64, [3, 0], [0.5f64.cos(), 0.0]), (Width::Binary64, [3, 0], [-0.5f64.sin(), 0.0])];
        assert_eq!(*log.0.borrow(), expected);
        // SAFETY: mapped above.
        let shadows: [u64; 2] = unsafe { std::ptr::read((address + SHADOW_STRIDE) as *const [u64; 2]) };
        assert_eq!(shadows, [100 | WIDE_TAG, 101 | WIDE_TAG]);
        assert_eq!(vector_shadow(context, 0, 0), 0, "sincos has no result in a register");
    }

    #[test]
    fn indices_are_read_as_they_are_written() {
        for width in [Width::Binary32, Width::Binary64] {
            for value in [0, 1, shadow::NARROW_LIMIT - 1] {
                assert_eq!(index(width, shadow_word(width, value)), value);
            }
        }
        assert_eq!(index(Width::Binary64, 5), 5, "SET_INDEX writes no tag");
        assert_eq!(index(Width::Binary64, 5 | 6 << 32), 0, "two binary32 numbers");
    }
}
