//! Bit tricks: tested inline, decided by helpers around the instruction when something is active.

use derivgrind_engine::context::{Context, Gpr};
use derivgrind_engine::memory::user;
use derivgrind_engine::translate::{Condition, Emitter, HelperNext};
use iced_x86::Instruction;

use crate::bit_tricks::{in_both_halves, widened};
use crate::ir::{Address, BitOperand, BitOperation, Mask, Place, Span};
use crate::shadow;

use super::active::any_active;
use super::layout::{WORDS, layers};
use super::places::clear;
use super::undone::Circumstances;
use super::{Mode, Restoring, Thread, masked, replaced, shadow_address, ternary};

/// An operation that may be a real one in disguise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trick {
    pub operation: BitOperation,
    pub target: Span,
    pub a: BitOperand,
    pub b: Option<BitOperand>,
    pub c: Option<BitOperand>,
    pub mask: Option<Mask>,
    /// See [`crate::ir::Operation::of_part`].
    pub of_part: bool,
}

impl Trick {
    fn operands(&self) -> [Option<BitOperand>; 3] {
        [Some(self.a), self.b, self.c]
    }
}

pub(crate) type SiteHelper = fn(&mut Context, u64) -> HelperNext;

/// What the helpers know about the instruction.
pub(crate) struct Site<T> {
    pub what: T,
    pub instruction: Instruction,
}

/// Emits the instruction with its bit trick: helpers before and behind it if an operand is active; otherwise the result is passive.
pub(super) fn emit<M: Mode>(emitter: &mut Emitter<'_>, index: usize, trick: Trick, restoring: Option<Restoring>) {
    let spans: Vec<Span> = trick.operands().into_iter().flatten().filter_map(span_of).collect();
    let is_terminator = index >= emitter.block().body_len();
    debug_assert!(!is_terminator, "no control transfer is a bit trick");
    let payload = payload_for(emitter, index, trick);
    emitter.save_flags(index);
    any_active(emitter, index, &spans);
    let join = emitter.asm().label();
    let cold = emitter.cold(move |emitter| {
        emitter.restore_flags();
        emitter.call_helper_here(before_trick, payload);
        emitter.copy(index);
        emitter.call_helper_here(after_trick::<M>, payload);
        if let Some(restoring) = restoring {
            restoring(emitter);
        }
        emitter.asm().jump(join);
    });
    emitter.asm().jump_if(Condition::NotEqual, cold);
    match trick.mask {
        // Bytes that are passive by themselves can be a part of an active number.
        None if replaced::is_store::<M>(&emitter.block().instructions()[index], trick.target) => {
            replaced::emit::<M>(emitter, index, replaced::Store { target: trick.target, source: None }, None);
            return emitter.asm().bind(join);
        }
        Some(mask) if !mask.zeroing => {
            let scratch = emitter.scratch_vector(0);
            masked::clear(emitter, index, trick.target, mask, scratch);
        }
        _ => clear(emitter, index, trick.target),
    }
    emitter.restore_flags();
    emitter.copy(index);
    emitter.asm().bind(join);
}

pub(super) fn span_of(operand: BitOperand) -> Option<Span> {
    match operand {
        BitOperand::Span(span) => Some(span),
        BitOperand::Immediate(_) | BitOperand::Count { .. } | BitOperand::Ones(_) => None,
    }
}

/// The payload of helpers around instruction `index` that stands for `what`.
pub(crate) fn payload_for<T: Send + 'static>(emitter: &mut Emitter<'_>, index: usize, what: T) -> u64 {
    let instruction = emitter.block().instructions()[index];
    emitter.keep(Site { what, instruction })
}

/// What a helper's payload stands for, while the helper runs.
///
/// # Safety
/// [`payload_for`] has made the payload, for a helper that is being called, with the same `T`.
pub(crate) unsafe fn site<'a, T>(payload: u64) -> &'a Site<T> {
    // SAFETY: as the caller promises; the site is kept as long as the code that calls the helper.
    unsafe { &*(payload as *const Site<T>) }
}

/// Where a helper finds the lanes of a trick.
#[derive(Clone, Copy)]
struct Lanes {
    /// The address of the memory operand, or that of the aligned eight bytes around it.
    address: u64,
    /// Where the operands begin in these, in bits; `None` if lanes are the operands themselves.
    shift: Option<u32>,
    /// What is written.
    target: Span,
}

impl Lanes {
    /// `address` is that of the memory operand. One or two bytes that are changed in memory can be the upper ones of a number: the lane is the aligned eight bytes that
    /// hold it, if it lies where numbers mostly do.
    fn of(target: Span, address: u64) -> Lanes {
        let within = address % 8;
        if !target.place.is_memory() || target.bytes >= 4 || within + u64::from(target.bytes) > 8 {
            return Lanes { address, shift: None, target };
        }
        Lanes { address: address - within, shift: Some(8 * within as u32), target: Span::new(target.place, 8) }
    }

    /// The value of an operand.
    fn value(self, thread: &Thread<'_>, trick: &Trick, operand: BitOperand) -> [u64; WORDS] {
        let words = match operand {
            BitOperand::Immediate(value) => [value; WORDS],
            BitOperand::Span(span) if span == trick.target => return read_value(thread, self.target, self.address),
            BitOperand::Span(span) => read_value(thread, span, self.address),
            BitOperand::Count { span, element: 0 } => {
                let count = Span::new(span.place, span.bytes.min(8));
                let value = read_value(thread, count, self.address)[0];
                // General registers take it modulo 64 or 32, elements of vectors shift everything out.
                let is_general = span.register().is_some_and(|register| register.offset < shadow::VECTOR);
                let modulus = if is_general { u64::from(8 * trick.target.bytes.max(4)) } else { u64::MAX };
                [in_both_halves(value % modulus); WORDS]
            }
            BitOperand::Ones(span) => {
                let count = read_value(thread, span.part(0, 1), self.address)[0];
                [u64::MAX.checked_shr(64 - count.min(64) as u32).unwrap_or(0); WORDS]
            }
            BitOperand::Count { span, element } => {
                let rotates = trick.operation == BitOperation::Rotate;
                read_value(thread, span, self.address).map(|counts| counts_of(counts, element, rotates))
            }
        };
        let Some(shift) = self.shift else { return words };
        let bytes = (1 << (8 * trick.target.bytes)) - 1;
        let mut lane = [0; WORDS];
        lane[0] = widened(trick.operation, words[0] & bytes, bytes, shift);
        lane
    }

    /// The shadow of an operand in a layer.
    fn shadow(self, thread: &Thread<'_>, trick: &Trick, layer: usize, operand: Option<BitOperand>) -> [u64; WORDS] {
        match operand.and_then(span_of) {
            None => [0; WORDS],
            Some(span) if span == trick.target => read_shadow(thread, layer, self.target, self.address),
            Some(span) => read_shadow(thread, layer, span, self.address).map(|word| word << self.shift.unwrap_or(0)),
        }
    }

    /// What is known of the operation on lanes.
    fn operation(self, trick: &Trick) -> BitOperation {
        match trick.operation {
            // Of a part of the lane.
            shift if shift.is_shift() && self.shift.is_some() => BitOperation::Other,
            operation => operation,
        }
    }
}

fn before_trick(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit` pairs this helper with its site.
    let site = unsafe { site::<Trick>(payload) };
    let address = operand_address(&site.instruction, context).unwrap_or(0);
    let lanes = Lanes::of(site.what.target, address);
    let mut thread = Thread::new(context);
    thread.fields().bit_address = address;
    for (k, operand) in site.what.operands().into_iter().enumerate() {
        thread.fields().bit_values[k] = operand.map_or([0; WORDS], |operand| lanes.value(&thread, &site.what, operand));
        for layer in layers() {
            thread.fields().bit_shadows[layer][k] = lanes.shadow(&thread, &site.what, layer, operand);
        }
    }
    HelperNext::Resume
}

/// The numbers of bits of one eight-byte element or two four-byte ones, as [`crate::bit_tricks::Lane`] wants them. Rotations take them modulo the width.
fn counts_of(counts: u64, element: u16, rotates: bool) -> u64 {
    match (element, rotates) {
        (8, true) => in_both_halves(counts % 64),
        (8, false) => in_both_halves(counts),
        (_, true) => counts & (31 << 32 | 31),
        (_, false) => counts,
    }
}

fn after_trick<M: Mode>(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit` pairs this helper with its site.
    let site = unsafe { site::<Trick>(payload) };
    let mut thread = Thread::new(context);
    let lanes = Lanes::of(site.what.target, thread.fields().bit_address);
    let Lanes { address, target, .. } = lanes;
    let operation = lanes.operation(&site.what);
    let results = read_value(&thread, target, address);
    let elements = if site.what.mask.is_some() { thread.fields().elements } else { [u64::MAX; WORDS] };
    let with_constant = site.what.operands().into_iter().flatten().any(|operand| span_of(operand).is_none());
    for layer in layers() {
        let (values, shadows) = (thread.fields().bit_values, thread.fields().bit_shadows[layer]);
        let of_piece = is_alone(&thread, layer, target);
        let circumstances = Circumstances { layer, with_constant, of_piece, of_part: site.what.of_part };
        let mut new = match site.what.mask {
            Some(mask) if !mask.zeroing => read_shadow(&thread, layer, target, address),
            _ => [0; WORDS],
        };
        for (word, &selected) in elements.iter().enumerate().take(target.bytes.div_ceil(8).into()) {
            let mut lane = ternary::Lane {
                values: values.map(|value| value[word]),
                shadows: shadows.map(|shadow| shadow[word] & selected),
                result: results[word],
            };
            new[word] &= !selected;
            if lane.shadows != [0; 3] {
                if operation == BitOperation::Xor && site.what.mask.is_some_and(|mask| mask.zeroing) {
                    // The difference of two numbers as a mask of whole elements is going to leave it: see `undone`.
                    lane.shadows = shadows.map(|shadow| shadow[word]);
                    lane.result = lane.values[0] ^ lane.values[1];
                }
                new[word] |= lane.outcome::<M>(&mut thread, circumstances, operation) & selected;
            }
        }
        write_shadow(&mut thread, layer, target, address, &new);
    }
    HelperNext::Resume
}

/// Whether there is no shadow in a general register beside the low two bytes of what is written. (A byte by itself may have been written to a register before.)
fn is_alone(thread: &Thread<'_>, layer: usize, target: Span) -> bool {
    match target.place {
        Place::Register(offset) if offset < shadow::VECTOR && offset % 8 == 0 => {
            read_shadow(thread, layer, Span::new(target.place, 8), 0)[0] >> 16 == 0
        }
        _ => false,
    }
}

/// The address of the instruction's memory operand, if it has one.
pub(crate) fn operand_address(instruction: &Instruction, context: &Context) -> Option<u64> {
    let operand = (0..instruction.op_count()).find(|&k| instruction.op_kind(k) == iced_x86::OpKind::Memory);
    let operand = operand?;
    let value = |register: iced_x86::Register, _, _| {
        use iced_x86::Register;
        Some(match register {
            Register::FS => context.fs_base,
            Register::GS => context.gs_base,
            Register::CS | Register::DS | Register::ES | Register::SS => 0,
            _ if register.is_gpr32() => context.gpr[register.full_register().number()] & u64::from(u32::MAX),
            _ if register.is_gpr() => context.gpr[register.full_register().number()],
            _ => return None,
        })
    };
    instruction.virtual_address(operand, 0, value)
}

pub(crate) fn memory_address(context: &Context, base: Address, operand: u64) -> u64 {
    match base {
        Address::Operand => operand,
        Address::Stack => context.reg(Gpr::Rsp),
        Address::Frame => context.reg(Gpr::Rbp),
        Address::StringSource => context.reg(Gpr::Rsi),
        Address::StringDestination => context.reg(Gpr::Rdi),
    }
}

/// The bytes of a span, from registers or memory, as words; bytes beyond the span are zero.
pub(crate) fn read_value(thread: &Thread<'_>, span: Span, operand: u64) -> [u64; WORDS] {
    let mut bytes = [0; 8 * WORDS];
    let length = usize::from(span.bytes).min(bytes.len());
    let into = &mut bytes[..length];
    match span.place {
        Place::Register(offset) if offset < shadow::VECTOR => {
            let (number, within) = (usize::from(offset / 8), usize::from(offset % 8));
            into.copy_from_slice(&thread.context().gpr[number].to_le_bytes()[within..within + length]);
        }
        Place::Register(offset) if offset < shadow::X87 => {
            let (number, within) = ((offset - shadow::VECTOR) / shadow::VECTOR_BYTES, offset % shadow::VECTOR_BYTES);
            let register = thread.context().vector_register(usize::from(number));
            let within = usize::from(within);
            into.copy_from_slice(&register[within..within + length]);
        }
        Place::Register(offset) if offset < shadow::MASK => {
            let value = super::x87::mmx_value(thread.context(), offset);
            let length = length.min(value.len());
            into[..length].copy_from_slice(&value[..length]);
        }
        Place::Register(offset) if offset >= shadow::KEPT => {
            let within = usize::from(offset - shadow::KEPT);
            into.copy_from_slice(&bytes_of(&thread.shared_fields().kept)[within..within + length]);
        }
        Place::Register(offset) if offset >= shadow::OPERAND => {
            let within = usize::from(offset - shadow::OPERAND);
            into.copy_from_slice(&bytes_of(&thread.shared_fields().fetched)[within..within + length]);
        }
        // Masks are no numbers.
        Place::Register(_) => {}
        Place::Memory { base, offset } => {
            let address = memory_address(thread.context(), base, operand).wrapping_add_signed(offset.into());
            // Unreadable memory raises its fault in the instruction itself.
            let _ = user::read_bytes(address, into);
        }
    }
    words(&bytes)
}

/// The shadow of a span in a layer as words; bytes beyond the span are zero.
pub(crate) fn read_shadow(thread: &Thread<'_>, layer: usize, span: Span, operand: u64) -> [u64; WORDS] {
    let mut bytes = [0; 8 * WORDS];
    let length = usize::from(span.bytes).min(bytes.len());
    match span.place {
        Place::Register(offset) => bytes[..length].copy_from_slice(thread.shadow_file(layer, offset, length)),
        Place::Memory { base, offset } => {
            let address = memory_address(thread.context(), base, operand).wrapping_add_signed(offset.into());
            shadow_address::read_layer(layer, address, &mut bytes[..length]);
        }
    }
    words(&bytes)
}

/// Sets the shadow of a span in a layer to the low bytes of the words.
pub(crate) fn write_shadow(thread: &mut Thread<'_>, layer: usize, span: Span, operand: u64, new: &[u64]) {
    let bytes: Vec<u8> = new.iter().flat_map(|word| word.to_le_bytes()).take(usize::from(span.bytes)).collect();
    match span.place {
        Place::Register(offset) => thread.shadow_file_mut(layer, offset, bytes.len()).copy_from_slice(&bytes),
        Place::Memory { base, offset } => {
            let address = memory_address(thread.context(), base, operand).wrapping_add_signed(offset.into());
            shadow_address::write_layer(layer, address, &bytes);
        }
    }
}

fn bytes_of(words: &[u64; WORDS]) -> [u8; 8 * WORDS] {
    std::array::from_fn(|k| words[k / 8].to_le_bytes()[k % 8])
}

fn words(bytes: &[u8; 8 * WORDS]) -> [u64; WORDS] {
    std::array::from_fn(|k| u64::from_le_bytes(bytes[8 * k..8 * k + 8].try_into().expect("eight bytes")))
}
