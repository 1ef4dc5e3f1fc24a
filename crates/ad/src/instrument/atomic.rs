//! Memory that several threads update in one step: data and shadow change together.
//!
//! An instruction that reads and writes memory at once, with anything active about it, is executed under a lock that belongs to the address. Shadow is
//! written before the instruction, data by the instruction itself: as with any store, who finds the new data finds the new shadow.
//!
//! Threads read memory without the lock before they come with a compare-and-exchange, and can have read data and shadow of different values. So the
//! exchange compares both. If the data agree and the shadows do not, it fails, as if the other thread's update, which is the reason, had changed the
//! value, and the program tries again. Many programs look at the accumulator rather than at the flag in order to know whether it has failed. So it
//! receives another value than the one in memory (see [`neighbour`]); the next exchange fails because of that, and finds the right pair. A comparison
//! fails only once because of its shadow: if the same one comes again, the program did not get its operand from there (a constant, say), and data
//! decide. So they do in a program that never had a second thread.
//!
//! While everything is passive the instruction is executed as it is, but for exchanges of eight bytes, which can be how a binary64 value is handed
//! over. Whether another thread has made the memory active meanwhile is seen afterwards, where it matters: if a register has received a value from
//! there.

use derivgrind_engine::context::Context;
use derivgrind_engine::thread;
use derivgrind_engine::translate::{Condition, Emitter, HelperNext};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::bit_tricks::Lane;
use crate::ir::{Address, BitOperand, Place, Span, Updated};

use super::active::any_active;
use super::bits::{
    SiteHelper, memory_address, operand_address, payload_for, read_shadow, read_value, site, write_shadow,
};
use super::layout::{Fields, WORDS, field, layers};
use super::places::{Shadow, pieces, store};
use super::stripes::{self, Stripes};
use super::undone::{Circumstances, trick};
use super::{ACTIVE, Mode, PASSIVE, Thread, lost_at};

/// A compare-and-exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub destination: Span,
    pub source: [Option<Span>; 2],
    pub accumulator: [Option<Span>; 2],
}

/// Another update in one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Update {
    pub memory: Span,
    pub becomes: Updated,
    pub previous: Option<Span>,
}

/// What a thread is doing, between the helpers around an instruction.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Progress {
    /// The lock that it holds.
    stripes: Stripes,
    /// Bytes of the memory whose shadow has been written, 0 if none; the shadow before is first in `bit_shadows`.
    written: u64,
    /// What a passive update has written, from the instruction on.
    value: u64,
    /// The last comparison that has failed because of the shadows, as a hash of the address and the shadows.
    refused: u64,
}

/// `rflags` bits.
const CARRY_FLAG: u64 = 1;
const PARITY_FLAG: u64 = 1 << 2;
const ZERO_FLAG: u64 = 1 << 6;
const STATUS_FLAGS: u64 = 0x8d5;

/// Emits a compare-and-exchange.
pub(super) fn emit_exchange(emitter: &mut Emitter<'_>, index: usize, exchange: Exchange) {
    let registers = exchange.source.into_iter().chain(exchange.accumulator).flatten();
    let spans: Vec<Span> = registers.chain([exchange.destination]).collect();
    let payload = payload_for(emitter, index, exchange);
    let join = emit_guarded(emitter, index, &spans, payload, [before_exchange, after_exchange]);
    emitter.copy(index);
    emitter.asm().bind(join);
}

/// Emits another update.
pub(super) fn emit_update<M: Mode>(emitter: &mut Emitter<'_>, index: usize, update: Update) {
    if is_always_guarded(&update) {
        emit_locked::<M>(emitter, index, update);
        return;
    }
    let spans: Vec<Span> = [Some(update.memory), update.becomes.operand()].into_iter().flatten().collect();
    let payload = payload_for(emitter, index, update);
    let join = emit_guarded(emitter, index, &spans, payload, [before_update::<M>, after_update]);
    emit_unguarded(emitter, index, &update, payload);
    emitter.asm().bind(join);
}

/// Emits an update in a block that assumes registers to be passive. Memory has been tested.
pub(super) fn emit_passive_update<M: Mode>(emitter: &mut Emitter<'_>, index: usize, update: Update) {
    if is_always_guarded(&update) {
        emit_locked::<M>(emitter, index, update);
        return;
    }
    let payload = payload_for(emitter, index, update);
    emit_unguarded(emitter, index, &update, payload);
}

fn is_always_guarded(update: &Update) -> bool {
    matches!(update.becomes, Updated::Exchanged(_)) && update.memory.bytes == 8
}

/// The instruction under the lock, whatever is active.
fn emit_locked<M: Mode>(emitter: &mut Emitter<'_>, index: usize, update: Update) {
    let payload = payload_for(emitter, index, update);
    emitter.restore_flags();
    emitter.call_helper(before_update::<M>, payload);
    emitter.copy(index);
    emitter.call_helper(after_update, payload);
}

/// What is executed under the lock if one of `spans` is active, in the cold part. The passive way goes on behind, and ends at the label.
fn emit_guarded(
    emitter: &mut Emitter<'_>,
    index: usize,
    spans: &[Span],
    payload: u64,
    [before, after]: [SiteHelper; 2],
) -> derivgrind_engine::translate::Label {
    emitter.save_flags(index);
    any_active(emitter, index, spans);
    let join = emitter.asm().label();
    let cold = emitter.cold(move |emitter| {
        emitter.restore_flags();
        emitter.call_helper_here(before, payload);
        emitter.copy(index);
        emitter.call_helper_here(after, payload);
        emitter.asm().jump(join);
    });
    emitter.asm().jump_if(Condition::NotEqual, cold);
    emitter.restore_flags();
    join
}

/// The instruction without a lock. If it has read a value that another thread has just made active, a helper sees to it.
fn emit_unguarded(emitter: &mut Emitter<'_>, index: usize, update: &Update, payload: u64) {
    let instruction = emitter.block().instructions()[index];
    let Some(previous) = update.previous.filter(|_| !address_changes(&instruction)) else {
        emitter.copy(index);
        return;
    };
    if let Some(register) = operand_register(&instruction) {
        store(emitter, field(VALUE), register.full_register(), 8);
    }
    emitter.copy(index);
    debug_assert!(matches!(previous.place, Place::Register(_)));
    let resume = emitter.asm().label();
    let shadow = Shadow::of(emitter, index, update.memory.place);
    for layer in layers() {
        for (offset, size) in pieces(update.memory.bytes) {
            let memory = shadow.advanced(offset).in_layer(emitter, layer);
            emitter.if_nonzero(index + 1, memory, usize::from(size), move |emitter| {
                emitter.call_helper_here(overtaken, payload);
                emitter.asm().jump(resume);
            });
        }
    }
    emitter.asm().bind(resume);
}

const VALUE: usize = std::mem::offset_of!(Fields, atomic) + std::mem::offset_of!(Progress, value);

/// The register that an update exchanges with memory.
fn operand_register(instruction: &Instruction) -> Option<Register> {
    (0..2).find(|&k| instruction.op_kind(k) == OpKind::Register).map(|k| instruction.op_register(k))
}

/// Whether the address cannot be told any more behind the instruction.
fn address_changes(instruction: &Instruction) -> bool {
    let Some(register) = operand_register(instruction).map(Register::full_register) else { return true };
    [instruction.memory_base(), instruction.memory_index()].iter().any(|used| used.full_register() == register)
}

fn before_exchange(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit_exchange` pairs this helper with its site.
    let site = unsafe { site::<Exchange>(payload) };
    let Exchange { destination, source, accumulator } = site.what;
    let mut thread = Thread::new(context);
    let address = begin(&mut thread, &site.instruction, destination);
    let found = read_value(&thread, destination, address);
    let expected = joined(accumulator, |span| read_value(&thread, span, address));
    let mut comparison = Comparison::new(address);
    for layer in layers() {
        let old = read_shadow(&thread, layer, destination, address);
        let new = joined(source, |span| read_shadow(&thread, layer, span, address));
        comparison.add(&joined(accumulator, |span| read_shadow(&thread, layer, span, address)), &old);
        thread.fields().bit_shadows[layer] = [old, new, [0; WORDS]];
    }
    let fields = thread.fields();
    fields.bit_address = address;
    if found != expected {
        return HelperNext::Resume;
    }
    if destination.place.is_memory() {
        if !comparison.agrees && thread::several() && fields.atomic.refused != comparison.hash {
            fields.atomic.refused = comparison.hash;
            return refuse(context, &site.what, &site.instruction);
        }
        fields.atomic.refused = 0;
        announce(&mut thread, destination, address);
    }
    HelperNext::Resume
}

/// What a compare-and-exchange finds about shadow.
struct Comparison {
    agrees: bool,
    hash: u64,
}

impl Comparison {
    fn new(address: u64) -> Comparison {
        Comparison { agrees: true, hash: address }
    }

    fn add(&mut self, supposed: &[u64; WORDS], found: &[u64; WORDS]) {
        self.agrees &= supposed == found;
        for word in supposed.iter().chain(found) {
            self.hash = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
    }
}

/// Writes the memory's new shadow, before its data.
fn announce(thread: &mut Thread<'_>, memory: Span, address: u64) {
    thread.fields().atomic.written = memory.bytes.into();
    for layer in layers() {
        let [_, new, _] = thread.fields().bit_shadows[layer];
        write_shadow(thread, layer, memory, address, &new);
    }
}

/// A number that is not the same as `number`, which has so many bytes, and as near as can be: its own zero with the other sign, or a neighbour. What the
/// program computes of it is thrown away; nothing of that raises a floating-point exception that its own number would not raise.
fn neighbour(number: u64, bytes: u16) -> u64 {
    let sign = 1 << (8 * bytes.clamp(1, 8) - 1);
    let magnitude = number & (sign - 1);
    if magnitude == 0 { number ^ sign } else { number ^ 1 }
}

/// The comparison fails because of the shadows: nothing is stored, and the accumulator receives a neighbour of what is in memory.
fn refuse(context: &mut Context, exchange: &Exchange, instruction: &Instruction) -> HelperNext {
    // As a comparison of equal operands sets them, but for the one that says so. The wide forms set no others.
    context.rflags &= !ZERO_FLAG;
    if instruction.mnemonic() == Mnemonic::Cmpxchg {
        context.rflags = context.rflags & !STATUS_FLAGS | PARITY_FLAG;
    }
    for (half, span) in exchange.accumulator.into_iter().flatten().enumerate() {
        let Place::Register(offset) = span.place else { continue };
        let register = &mut context.gpr[usize::from(offset / 8)];
        if half == 0 {
            *register = neighbour(*register, span.bytes);
        }
        if span.bytes == 4 {
            *register &= u64::from(u32::MAX);
        }
    }
    let mut thread = Thread::new(context);
    receive(&mut thread, exchange.accumulator, OLD);
    end(&mut thread);
    context.rip = instruction.next_ip();
    HelperNext::Leave
}

fn after_exchange(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit_exchange` pairs this helper with its site.
    let site = unsafe { site::<Exchange>(payload) };
    let Exchange { destination, accumulator, .. } = site.what;
    let stored = context.rflags & ZERO_FLAG != 0;
    let mut thread = Thread::new(context);
    let address = thread.fields().bit_address;
    let announced = thread.fields().atomic.written != 0;
    // A plain store of another thread can have made the comparison end otherwise than foreseen.
    if stored && !announced {
        announce(&mut thread, destination, address);
    } else if !stored && announced {
        take_back(&mut thread);
    }
    match destination.place {
        Place::Register(_) if stored => receive(&mut thread, [Some(destination), None], NEW),
        _ if !stored => receive(&mut thread, accumulator, OLD),
        _ => {}
    }
    end(&mut thread);
    HelperNext::Resume
}

fn before_update<M: Mode>(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit_update` pairs this helper with its site.
    let site = unsafe { site::<Update>(payload) };
    let Update { memory, becomes, .. } = site.what;
    let carry = context.rflags & CARRY_FLAG;
    let mut thread = Thread::new(context);
    let address = begin(&mut thread, &site.instruction, memory);
    thread.fields().bit_address = address;
    let (a, mnemonic) = (read_value(&thread, memory, address)[0], site.instruction.mnemonic());
    for layer in layers() {
        let old = read_shadow(&thread, layer, memory, address);
        let operand = becomes.operand().map_or([0; WORDS], |span| read_shadow(&thread, layer, span, address));
        let new = match becomes {
            Updated::Exchanged(_) => operand,
            Updated::Bits { operation, operand: other } => {
                let b = match other {
                    None => 0,
                    Some(BitOperand::Immediate(value)) => value & mask(memory.bytes),
                    // (Only the first kind occurs: shifts and masks of ones cannot be locked.)
                    Some(BitOperand::Span(span) | BitOperand::Count { span, .. } | BitOperand::Ones(span)) => {
                        read_value(&thread, span, address)[0]
                    }
                };
                let result = result_of(mnemonic, a, b, carry, memory.bytes);
                let lane = Lane { a, b, result, shadow_a: old[0], shadow_b: operand[0] };
                let passive = lane.shadow_a | lane.shadow_b == 0;
                let with_constant = matches!(other, Some(BitOperand::Immediate(_)));
                let circumstances = Circumstances { layer, with_constant, of_piece: false, of_part: false };
                one_word(if passive { 0 } else { trick::<M>(&mut thread, circumstances, &lane, operation) })
            }
        };
        thread.fields().bit_shadows[layer] = [old, new, [0; WORDS]];
    }
    announce(&mut thread, memory, address);
    HelperNext::Resume
}

fn after_update(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit_update` pairs this helper with its site.
    let site = unsafe { site::<Update>(payload) };
    let mut thread = Thread::new(context);
    receive(&mut thread, [site.what.previous, None], OLD);
    end(&mut thread);
    let received =
        site.what.previous.is_some() && layers().any(|layer| thread.fields().bit_shadows[layer][OLD][0] != 0);
    behind(context, &site.instruction, received)
}

/// Where a thread goes on behind an instruction that may have given an active value to a register.
fn behind(context: &mut Context, instruction: &Instruction, received: bool) -> HelperNext {
    if !received || context.version != PASSIVE {
        return HelperNext::Resume;
    }
    context.version = ACTIVE;
    context.rip = instruction.next_ip();
    HelperNext::Leave
}

/// A passive update has been executed, and memory is active. If it was so before, the register holds an active value now.
fn overtaken(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit_unguarded` pairs this helper with its site.
    let site = unsafe { site::<Update>(payload) };
    let Update { memory, becomes, previous } = site.what;
    let mut thread = Thread::new(context);
    let address = begin(&mut thread, &site.instruction, memory);
    let received = previous.map_or(0, |register| read_value(&thread, register, address)[0]);
    let value = thread.fields().atomic.value;
    let wrote = match becomes {
        Updated::Exchanged(_) => value & mask(memory.bytes),
        Updated::Bits { .. } => result_of(site.instruction.mnemonic(), received, value, 0, memory.bytes),
    };
    let mut was_active = false;
    for layer in layers() {
        let old = read_shadow(&thread, layer, memory, address);
        was_active |= old[0] != 0;
        thread.fields().bit_shadows[layer] = [old, [0; WORDS], [0; WORDS]];
    }
    was_active &= read_value(&thread, memory, address)[0] == wrote;
    if was_active {
        receive(&mut thread, [previous, None], OLD);
        announce(&mut thread, memory, address);
    }
    if let (Updated::Bits { .. }, true) | (Updated::Exchanged(_), false) = (becomes, was_active) {
        // Nobody can say any more in which order it was: with something else in memory, it may have become active before or afterwards.
        lost_at(thread.context().rip);
    }
    end(&mut thread);
    behind(context, &site.instruction, was_active)
}

/// Takes the lock for the memory operand and returns its address.
fn begin(thread: &mut Thread<'_>, instruction: &Instruction, span: Span) -> u64 {
    // A helper is called anew if its instruction is: after a fault, for example.
    give_up(thread.context_mut());
    let operand = operand_address(instruction, thread.context()).unwrap_or(0);
    if let Place::Memory { base, offset } = span.place {
        let address = memory_address(thread.context(), base, operand).wrapping_add_signed(offset.into());
        thread.fields().atomic.stripes = stripes::lock(address, span.bytes.into());
    }
    operand
}

/// Gives the lock back: data and shadow are complete.
fn end(thread: &mut Thread<'_>) {
    let progress = &mut thread.fields().atomic;
    progress.written = 0;
    progress.stripes.unlock();
}

/// The instruction between the helpers has not been executed after all: there was a fault. What was announced is taken back.
pub(super) fn give_up(context: &mut Context) {
    let mut thread = Thread::new(context);
    if thread.fields().atomic.stripes.is_held() {
        take_back(&mut thread);
        end(&mut thread);
    }
}

/// Writes the shadow before once more, if another one has been announced.
fn take_back(thread: &mut Thread<'_>) {
    let (address, written) = (thread.fields().bit_address, thread.fields().atomic.written);
    let memory = Place::Memory { base: Address::Operand, offset: 0 };
    for layer in layers() {
        let [old, ..] = thread.fields().bit_shadows[layer];
        write_shadow(thread, layer, Span::new(memory, written as u16), address, &old);
    }
}

/// Which of two shadows in `bit_shadows`: the one before the instruction, or the one behind it.
const OLD: usize = 0;
const NEW: usize = 1;

/// Registers receive one of the shadows. What a 32-bit register has beyond is cleared.
fn receive(thread: &mut Thread<'_>, registers: [Option<Span>; 2], which: usize) {
    for layer in layers() {
        let shadow = thread.fields().bit_shadows[layer][which];
        let bytes: Vec<u8> = shadow.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut position = 0;
        for span in registers.into_iter().flatten() {
            let length = usize::from(span.bytes);
            if let Place::Register(offset) = span.place {
                thread.shadow_file_mut(layer, offset, length).copy_from_slice(&bytes[position..position + length]);
                if length == 4 {
                    thread.shadow_file_mut(layer, offset + 4, 4).fill(0);
                }
            }
            position += length;
        }
    }
}

/// Two registers as one operand, low half first.
fn joined(registers: [Option<Span>; 2], read: impl Fn(Span) -> [u64; WORDS]) -> [u64; WORDS] {
    let mut whole = [0; WORDS];
    let mut position = 0;
    for span in registers.into_iter().flatten() {
        whole[position / 8] |= read(span)[0] << (8 * (position % 8));
        position += usize::from(span.bytes);
    }
    whole
}

fn one_word(word: u64) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[0] = word;
    words
}

fn mask(bytes: u16) -> u64 {
    if bytes >= 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 }
}

/// What an integer operation stores; `b` is the other operand, if there is one.
fn result_of(mnemonic: Mnemonic, a: u64, b: u64, carry: u64, bytes: u16) -> u64 {
    use Mnemonic::*;
    let result = match mnemonic {
        // The bit comes as a mask.
        And | Btr => a & b,
        Or | Bts => a | b,
        Xor | Btc => a ^ b,
        Add | Xadd => a.wrapping_add(b),
        Adc => a.wrapping_add(b).wrapping_add(carry),
        Sub => a.wrapping_sub(b),
        Sbb => a.wrapping_sub(b).wrapping_sub(carry),
        Inc => a.wrapping_add(1),
        Dec => a.wrapping_sub(1),
        Neg => a.wrapping_neg(),
        Not => !a,
        // The processor takes the prefix with no others. As the result it is lost.
        _ => !a,
    };
    result & mask(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_operand_s_width() {
        use Mnemonic::*;
        let wide = |mnemonic, a, b| result_of(mnemonic, a, b, 1, 8);
        let narrow = |mnemonic, a, b| result_of(mnemonic, a, b, 1, 4);
        assert_eq!(wide(Add, u64::MAX, 2), 1);
        assert_eq!(narrow(Xadd, 0xffff_ffff, 2), 1);
        assert_eq!((narrow(Adc, 1, 2), wide(Sbb, 5, 2)), (4, 2));
        assert_eq!((narrow(Neg, 1, 0), narrow(Not, 0, 0), narrow(Dec, 0, 0)), (0xffff_ffff, 0xffff_ffff, 0xffff_ffff));
        assert_eq!((wide(Btc, 0, 1 << 63), narrow(Bts, 0, 2), wide(Btr, 6, !2)), (1 << 63, 2, 4));
        assert_eq!((wide(And, 6, 3), wide(Or, 6, 3), wide(Xor, 6, 3)), (2, 7, 5));
    }

    #[test]
    fn a_neighbour_is_another_number_nearby() {
        for number in [0.0, -0.0, 1.5, -2.0, f64::MAX] {
            let other = f64::from_bits(neighbour(number.to_bits(), 8));
            assert_ne!(other.to_bits(), number.to_bits());
            assert!((other - number).abs() <= number.abs() * f64::EPSILON, "{number} {other}");
        }
        assert_eq!(neighbour(0, 4), 1 << 31);
        assert_eq!(f32::from_bits(neighbour(3.5_f32.to_bits().into(), 4) as u32), 3.5_f32.next_up());
    }
}
