//! Interception: a call of a math function with an active argument runs to its return without instrumentation and is recorded as one operation.

use derivgrind_engine::context::{Context, Gpr};
use derivgrind_engine::{Version, dispatcher};
use smallvec::SmallVec;

use super::passed::{self, Target};
use super::{Bytes, Call, MAX_INTEGERS, MAX_REALS, MAX_RESULTS, MathFunction, Partials, Width, passing};
use crate::bit_tricks::index_and_factor;
use crate::instrument::{MOST_LAYERS, Thread, layers, lost_at};
use crate::shadow::{self, narrow_index, of_narrow, of_wide};
use crate::x87::ExtendedShadow;

/// What interception needs of a mode: what shadow is, and what a known derivative does to it.
///
/// Shadow is given as that of a register: that of a `long double` in memory has been translated by [`ExtendedShadow`].
pub trait Differentiator: ExtendedShadow {
    /// What the shadow of a real argument of this width stands for; 0 if it is passive, `None` if it stands for nothing.
    fn operand(&self, context: &mut Context, width: Width, shadow: Bytes) -> Option<u64>;

    /// The shadow of a result whose derivative is the sum of operands times partial derivatives. No operand is 0.
    fn result(&self, context: &mut Context, width: Width, terms: &[(u64, f64)]) -> Bytes;

    /// The function at `address` has not returned (a fault whose handler jumped elsewhere or goes on inside): the activity of its arguments ends here.
    fn interrupted(&self, address: u64);
}

/// A mode whose shadow holds indices of records with two operands.
pub trait Recorder: ExtendedShadow {
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
    fn operand(&self, context: &mut Context, width: Width, shadow: Bytes) -> Option<u64> {
        match operand(width, shadow)? {
            (index, 1.0) => Some(index),
            (index, factor) => Some(self.record(context, width, [index, 0], [factor, 0.0])),
        }
    }

    fn result(&self, context: &mut Context, width: Width, terms: &[(u64, f64)]) -> Bytes {
        let Some((&(mut sum, mut partial), rest)) = terms.split_first() else {
            return Bytes::default();
        };
        let Some((&last, rest)) = rest.split_last() else {
            return shadow_of_index(width, self.record(context, width, [sum, 0], [partial, 0.0]));
        };
        for &(operand, by_operand) in rest {
            // A sum of some of the terms has no shadow, so that its index may be a wide one.
            sum = self.record(context, Width::Binary64, [sum, operand], [partial, by_operand]);
            partial = 1.0;
            if sum == 0 {
                return Bytes::default();
            }
        }
        shadow_of_index(width, self.record(context, width, [sum, last.0], [partial, last.1]))
    }

    fn interrupted(&self, address: u64) {
        Recorder::interrupted(self, address);
    }
}

/// The registers of arguments of class INTEGER, as many as functions of the table have.
const INTEGER_ARGUMENTS: [Gpr; MAX_INTEGERS] = [Gpr::Rdi, Gpr::Rsi, Gpr::Rdx];

/// General registers that a function need not preserve (System V ABI).
const CALLER_SAVED: [Gpr; 9] = [Gpr::Rax, Gpr::Rcx, Gpr::Rdx, Gpr::Rsi, Gpr::Rdi, Gpr::R8, Gpr::R9, Gpr::R10, Gpr::R11];

/// The tool's `function_entered`: `context` stands at the first instruction of the function.
///
/// If an argument is active, this runs the function to its return in the version `plain`, which neither records nor moves shadow but clears that of
/// what is stored, gives the results their shadow, and returns `true`. Otherwise it does nothing and returns `false`: the instructions
/// of the function cannot make anything active.
pub fn function_entered<D: Differentiator>(
    context: &mut Context,
    function: &'static MathFunction,
    plain: Version,
    mode: &D,
) -> bool {
    let Some(entry) = Entry::new(function, context, mode) else {
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

/// What the shadow of each real argument stands for, in each layer.
type Operands = [[u64; MAX_REALS]; MOST_LAYERS];

/// A call with an active argument, as it was at entry.
struct Entry {
    function: &'static MathFunction,
    lanes: SmallVec<[Lane; 1]>,
}

/// What a lane of a vector function, or a scalar function, has in its arguments.
struct Lane {
    call: Call,
    operands: Operands,
    /// Where the results will be.
    results: [Target; MAX_RESULTS],
    /// An argument cannot be had in binary64.
    exceeds_binary64: bool,
}

impl Entry {
    /// Reads the arguments; `None` if all are passive.
    fn new<D: Differentiator>(function: &'static MathFunction, context: &mut Context, mode: &D) -> Option<Self> {
        let mut operands = SmallVec::<[Operands; 1]>::new();
        let mut active = false;
        for lane in function.lanes() {
            let own = operands_of(function.width, lane, context, mode);
            active |= own.is_some();
            operands.push(own.unwrap_or_default());
        }
        if !active {
            return None;
        }
        let integers = INTEGER_ARGUMENTS.map(|register| context.reg(register));
        let lane = |(lane, operands): (&passing::Lane, Operands)| {
            let mut call = Call { integers, ..Call::default() };
            let mut exceeds_binary64 = false;
            for (value, &location) in call.reals.iter_mut().zip(&lane.arguments) {
                let bytes = passed::argument(context, location, function.width);
                *value = function.width.widen(bytes);
                exceeds_binary64 |= function.width.exceeds_binary64(bytes);
            }
            let mut results = [Target::None; MAX_RESULTS];
            for (target, &location) in results.iter_mut().zip(&lane.results) {
                *target = Target::new(context, location, &integers);
            }
            Lane { call, operands, results, exceeds_binary64 }
        };
        Some(Self { function, lanes: function.lanes().iter().zip(operands).map(lane).collect() })
    }

    /// The function has returned: sets the shadow of its results.
    fn complete<D: Differentiator>(mut self, context: &mut Context, mode: &D) {
        let width = self.function.result_width;
        for lane in &mut self.lanes {
            for (value, target) in lane.call.results.iter_mut().zip(lane.results) {
                *value = target.value(context, width);
            }
        }
        forget_caller_saved(context);
        for lane in &self.lanes {
            if lane.operands == Operands::default() {
                continue;
            }
            let partials = lane.partials(self.function);
            for (row, &target) in partials.iter().zip(&lane.results).take(self.function.results.len()) {
                for layer in layers() {
                    let shadow = lane.shadow(context, mode, width, layer, row);
                    target.set_shadow::<D>(context, layer, width, shadow);
                }
            }
        }
    }
}

/// What the shadow of each argument stands for; `None` if all are passive.
fn operands_of<D: Differentiator>(
    width: Width,
    lane: &passing::Lane,
    context: &mut Context,
    mode: &D,
) -> Option<Operands> {
    let mut operands = Operands::default();
    let mut active = false;
    for layer in layers() {
        for (operand, &location) in operands[layer].iter_mut().zip(&lane.arguments) {
            let shadow = passed::argument_shadow::<D>(context, layer, location, width);
            *operand = mode.operand(context, width, shadow).unwrap_or_else(|| {
                lost_at(context.rip);
                0
            });
            active |= *operand != 0;
        }
    }
    active.then_some(operands)
}

impl Lane {
    fn partials(&self, function: &MathFunction) -> Partials {
        if self.exceeds_binary64 && !function.is_constant() {
            return [[f64::NAN; MAX_REALS]; MAX_RESULTS];
        }
        function.partials(&self.call)
    }

    /// The shadow of one result in a layer.
    fn shadow(
        &self,
        context: &mut Context,
        mode: &impl Differentiator,
        width: Width,
        layer: usize,
        partials: &[f64; MAX_REALS],
    ) -> Bytes {
        let mut terms = [(0, 0.0); MAX_REALS];
        let mut count = 0;
        for (&operand, &partial) in self.operands[layer].iter().zip(partials) {
            // A partial derivative of 0 is no dependence: the result of `floor` is passive.
            if operand != 0 && partial != 0.0 {
                terms[count] = (operand, partial);
                count += 1;
            }
        }
        mode.result(context, width, &terms[..count])
    }
}

/// The index in the shadow of a number in a register, and the factor that waits beside it; `None` if these are pieces of others.
fn operand(width: Width, shadow: Bytes) -> Option<(u64, f64)> {
    let [a, b, c, d, e, f, g, h, ..] = shadow;
    match width {
        Width::Binary32 => narrow_index(u32::from_le_bytes([a, b, c, d]).into()).map(|index| (index, 1.0)),
        Width::Binary64 | Width::Extended => index_and_factor(u64::from_le_bytes([a, b, c, d, e, f, g, h])),
    }
}

/// The shadow of a number in a register that has this index.
fn shadow_of_index(width: Width, index: u64) -> Bytes {
    let word = if width == Width::Binary32 { of_narrow(index) } else { of_wide(index) };
    let mut shadow = Bytes::default();
    shadow[..8].copy_from_slice(&word.to_le_bytes());
    shadow
}

/// Makes all registers passive that a call may change. The function has run without moving shadow, so that theirs belongs to values that are gone; the
/// x87 registers are empty but for a result.
pub(crate) fn forget_caller_saved(context: &mut Context) {
    let mut thread = Thread::new(context);
    for register in CALLER_SAVED {
        thread.clear_file(shadow::general(register as u16), 8);
    }
    thread.clear_file(shadow::VECTOR, shadow::TEMPORARY - shadow::VECTOR);
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use derivgrind_engine::context;
    use derivgrind_engine::memory::SHADOW_STRIDE;

    use derivgrind_engine::memory::user;

    use super::super::lookup;
    use super::*;
    use crate::shadow::WIDE_TAG;
    use crate::x87::{Extended, Shadow};

    /// Offset of the XMM registers in an XSAVE image, bytes of each, and the byte that says that they are there.
    const XMM: usize = 160;
    const XMM_BYTES: usize = 16;
    const XSTATE_BV: usize = 512;

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

    impl ExtendedShadow for Log {
        fn loaded(_: &mut Context, _: Extended, shadow: Shadow) -> Shadow {
            shadow
        }

        fn stored(_: &mut Context, _: Extended, shadow: Shadow) -> Shadow {
            shadow
        }
    }

    fn word(bytes: &[u8], offset: usize) -> u64 {
        u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
    }

    fn context() -> &'static mut Context {
        // SAFETY: each test has a thread of its own, takes its context once and runs no application code.
        unsafe { &mut *context::current() }
    }

    fn set_register(context: &mut Context, number: usize, bits: u64) {
        let offset = XMM + XMM_BYTES * number;
        context.vector_state[offset..offset + 8].copy_from_slice(&bits.to_le_bytes());
        context.vector_state[XSTATE_BV] |= 2;
    }

    fn set_shadow(context: &mut Context, offset: u16, shadow: u64) {
        let offset = usize::from(offset);
        context.tool[offset..offset + 8].copy_from_slice(&shadow.to_le_bytes());
    }

    fn vector_shadow(context: &Context, number: u16) -> u64 {
        word(&context.tool, shadow::vector(number).into())
    }

    fn entry(context: &mut Context, name: &str) -> Option<Entry> {
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
        assert_eq!(vector_shadow(context, 0), 100 | WIDE_TAG);
        assert_eq!(word(&context.tool, usize::from(shadow::vector(0)) + 8), 0);
        assert_eq!(vector_shadow(context, 5), 0);
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
        set_shadow(context, shadow::vector(0), of_narrow(5) | of_narrow(77) << 32);
        set_shadow(context, shadow::vector(1), of_narrow(6));
        let entry = entry(context, "hypotf").expect("active");
        set_register(context, 0, u64::from(5.0f32.to_bits()));
        let log = Log::default();
        entry.complete(context, &log);
        assert_eq!(*log.0.borrow(), [(Width::Binary32, [5, 6], [0.6, 0.8])]);
        assert_eq!(vector_shadow(context, 0), of_narrow(100));
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
        assert_eq!(vector_shadow(context, 0), 101 | WIDE_TAG);
    }

    /// A `float _Complex` is packed into one register; each part of the result depends on each part of the argument.
    #[test]
    fn complex_numbers_have_two_parts() {
        let context = context();
        let packed = |re: f32, im: f32| u64::from(re.to_bits()) | u64::from(im.to_bits()) << 32;
        set_register(context, 0, packed(3.0, 4.0));
        set_shadow(context, shadow::vector(0), of_narrow(5) | of_narrow(6) << 32);
        let entry = entry(context, "csqrtf").expect("active");
        set_register(context, 0, packed(2.0, 1.0));
        let log = Log::default();
        entry.complete(context, &log);
        let expected = [(Width::Binary32, [5, 6], [0.2, 0.1]), (Width::Binary32, [5, 6], [-0.1, 0.2])];
        assert_eq!(*log.0.borrow(), expected);
        assert_eq!(vector_shadow(context, 0), of_narrow(100) | of_narrow(101) << 32);
    }

    /// Each lane of a vector function by itself; passive ones record nothing.
    #[test]
    fn lanes_of_vector_functions() {
        let context = context();
        for (register, values) in [[2.0f64, 3.0], [4.0, 5.0]].into_iter().enumerate() {
            set_register(context, register, values[0].to_bits());
            let upper = XMM + XMM_BYTES * register + 8;
            context.vector_state[upper..upper + 8].copy_from_slice(&values[1].to_bits().to_le_bytes());
        }
        set_shadow(context, shadow::vector(1) + 8, 7 | WIDE_TAG);
        let entry = entry(context, "_ZGVbN2vv_hypot").expect("active");
        let (low, high) = (2f64.hypot(4.0), 3f64.hypot(5.0));
        set_register(context, 0, low.to_bits());
        context.vector_state[XMM + 8..XMM + 16].copy_from_slice(&high.to_bits().to_le_bytes());
        let log = Log::default();
        entry.complete(context, &log);
        assert_eq!(*log.0.borrow(), [(Width::Binary64, [7, 0], [5.0 / high, 0.0])]);
        assert_eq!([vector_shadow(context, 0), word(&context.tool, 128 + 8)], [0, 100 | WIDE_TAG]);
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
        assert_eq!(vector_shadow(context, 0), 0, "an integer does not depend on anything");
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
            let page = base & !4095;
            // SAFETY: a fresh mapping where nothing is; a page of shadow does not begin where a page does.
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
        assert_eq!(vector_shadow(context, 0), 0, "sincos has no result in a register");
    }

    #[test]
    fn indices_are_read_as_they_are_written() {
        for width in [Width::Binary32, Width::Binary64, Width::Extended] {
            for value in [0, 1, shadow::NARROW_LIMIT - 1] {
                assert_eq!(operand(width, shadow_of_index(width, value)), Some((value, 1.0)));
            }
        }
        let shadow = |word: u64| {
            let mut shadow = Bytes::default();
            shadow[..8].copy_from_slice(&word.to_le_bytes());
            shadow
        };
        assert_eq!(operand(Width::Binary64, shadow(of_narrow(5) | of_narrow(6) << 32)), None, "two binary32 numbers");
        assert_eq!(operand(Width::Binary64, shadow(WIDE_TAG)), None, "an upper half");
        assert_eq!(operand(Width::Binary32, shadow(5)), None, "a lower half");
    }
}
