//! x87: operations are tested inline and computed by a helper if an operand is active; the stack of shadow registers moves inline.

use std::cell::OnceCell;

use derivgrind_engine::context::Context;
use derivgrind_engine::memory::user;
use derivgrind_engine::translate::{Condition, Emitter, HelperNext, Label};
use iced_x86::{Code, ConditionCode, Instruction};

use crate::ir::{Place, Span, StackChange, X87Format, X87Operand, X87Operation};
use crate::shadow;
use crate::x87::{self, Extended, Session, State};

use super::active::any_active;
use super::bits::{payload_for, site};
use super::layout::{file, layers};
use super::places::{Shadow, clear, load, pieces, reach_memory, store};
use super::{Mode, Restoring, Thread, operand_address};

/// An operation on x87 registers with at least one active operand.
pub(crate) struct X87Call {
    /// The operation.
    pub operation: X87Operation,
    /// Where its result's shadow goes.
    pub target: Place,
    /// The operands.
    pub operands: [Option<X87Operand>; 2],
    /// Address of the memory operand, if there is one.
    pub address: u64,
    /// Arithmetic.
    pub session: Session,
    /// The program's registers, if they have been looked at.
    state: OnceCell<State>,
}

impl X87Call {
    fn new(
        operation: X87Operation,
        target: Place,
        operands: [Option<X87Operand>; 2],
        instruction: &Instruction,
        context: &Context,
    ) -> X87Call {
        let in_memory = operands.iter().flatten().any(|operand| operand.place.is_memory());
        let address = if in_memory { operand_address(instruction, context).unwrap_or(0) } else { 0 };
        X87Call { operation, target, operands, address, session: Session::begin(), state: OnceCell::new() }
    }

    /// The program's x87 registers. Not to be called for the first time after arithmetic.
    pub fn state(&self, thread: &Thread<'_>) -> &State {
        self.state.get_or_init(|| State::of(thread.context()))
    }

    /// The values of the operands, widened; zero for one that does not exist.
    pub fn values(&self, thread: &Thread<'_>) -> [Extended; 2] {
        self.operands.map(|operand| operand.map_or(Extended::ZERO, |operand| self.value(thread, operand)))
    }

    /// Memory that cannot be read raises its fault in the instruction itself.
    fn value(&self, thread: &Thread<'_>, operand: X87Operand) -> Extended {
        let address = match operand.place {
            Place::Register(offset) => return self.state(thread).value(usize::from((offset - shadow::X87) / 16)),
            Place::Memory { offset, .. } => self.address.wrapping_add_signed(offset.into()),
        };
        match operand.format {
            X87Format::Binary32 => user::read(address).map(|bits| Extended::from_f32(f32::from_bits(bits))),
            X87Format::Binary64 => user::read(address).map(|bits| Extended::from_f64(f64::from_bits(bits))),
            X87Format::Extended => user::read(address).map(Extended::from_bytes),
            X87Format::Integer16 => {
                user::read(address).map(|bytes| Extended::from_i32(i16::from_le_bytes(bytes).into()))
            }
            X87Format::Integer32 => user::read(address).map(Extended::from_i32),
        }
        .unwrap_or(Extended::NAN)
    }

    /// Partial derivatives with respect to the operands.
    pub fn partials(&self, thread: &Thread<'_>) -> [Extended; 2] {
        let [a, b] = self.values(thread);
        self.operation.partials(&self.session, a, b)
    }

    /// If the operation adds or subtracts a constant that is as large as rounding needs: the other operand's position, and whether this can undo the addition
    /// that has made it ([`crate::rounding`]). Bit k of `passive` says whether operand k is passive.
    pub fn rounding(&self, thread: &Thread<'_>, passive: [bool; 2]) -> Option<(usize, bool)> {
        let is_sum = matches!(self.operation, X87Operation::Add | X87Operation::Subtract);
        let constant = passive.into_iter().position(|passive| passive)?;
        let sum = 1 - constant;
        if !is_sum || passive[sum] {
            return None;
        }
        let values = self.values(thread);
        let subtracts = self.operation == X87Operation::Subtract;
        x87::is_rounding_constant(values[constant], self.state(thread).control())
            .then(|| (sum, x87::cancels(subtracts, values[sum], values[constant])))
    }
}

/// A load or store of an x87 register whose source is active.
#[derive(Clone, Copy, Debug)]
pub(crate) struct X87Move {
    /// Where to.
    pub target: X87Operand,
    /// Where from.
    pub source: X87Operand,
}

/// An operation on x87 registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct X87Real {
    /// The operation.
    pub operation: X87Operation,
    /// Where its result's shadow goes.
    pub target: Place,
    /// The first operand.
    pub a: X87Operand,
    /// The second operand, if there are two.
    pub b: Option<X87Operand>,
}

/// Calls the helper if one of the spans is active; else makes the target passive, if there is one. Goes on at `join`, which is bound here.
fn emit_if_active(
    emitter: &mut Emitter<'_>,
    index: usize,
    spans: &[Span],
    (helper, payload): (fn(&mut Context, u64) -> HelperNext, u64),
    passive_target: Option<Span>,
    restoring: Option<Restoring>,
    join: Label,
) {
    reach_memory(emitter, index);
    emitter.save_flags(index);
    any_active(emitter, index, spans);
    let cold = emitter.cold(move |emitter| {
        emitter.call_helper_here(helper, payload);
        if let Some(restoring) = restoring {
            restoring(emitter);
        }
        emitter.asm().jump(join);
    });
    emitter.asm().jump_if(Condition::NotEqual, cold);
    if let Some(target) = passive_target {
        clear(emitter, index, target);
    }
    emitter.asm().bind(join);
}

/// An operation on real numbers.
pub(super) fn emit_real<M: Mode>(emitter: &mut Emitter<'_>, index: usize, real: X87Real, restoring: Option<Restoring>) {
    let spans: Vec<Span> = [Some(real.a), real.b].into_iter().flatten().filter_map(X87Operand::real).collect();
    let helper = (real_helper::<M> as fn(&mut Context, u64) -> HelperNext, payload_for(emitter, index, real));
    let target = Span::new(real.target, X87Format::Extended.bytes());
    let join = emitter.asm().label();
    M::x87_inline(emitter, index, real, join);
    emit_if_active(emitter, index, &spans, helper, Some(target), restoring, join);
}

/// A load or store.
pub(super) fn emit_move<M: Mode>(
    emitter: &mut Emitter<'_>,
    index: usize,
    moved: X87Move,
    restoring: Option<Restoring>,
) {
    if M::x87_move_inline(emitter, index, moved) {
        return;
    }
    let helper = (move_helper::<M> as fn(&mut Context, u64) -> HelperNext, payload_for(emitter, index, moved));
    let join = emitter.asm().label();
    emit_if_active(emitter, index, &[moved.source.span()], helper, Some(moved.target.span()), restoring, join);
}

/// A move of the stack that depends on data.
pub(super) fn emit_stack<M: Mode>(
    emitter: &mut Emitter<'_>,
    index: usize,
    change: StackChange,
    restoring: Option<Restoring>,
) {
    let slots: Vec<Span> =
        (0..8).map(|number| Span::new(Place::Register(shadow::x87(number)), M::X87_BYTES.min(10))).collect();
    let helper = (stack_helper::<M> as fn(&mut Context, u64) -> HelperNext, payload_for(emitter, index, change));
    let join = emitter.asm().label();
    emit_if_active(emitter, index, &slots, helper, None, restoring, join);
}

/// The shadow of ST(k) becomes that of ST(k + by).
pub(super) fn emit_rotate<M: Mode>(emitter: &mut Emitter<'_>, by: i8) {
    let (spare, moved) = (emitter.scratch(0), emitter.scratch(1));
    let by = by.rem_euclid(8) as u16;
    for (layer, offset) in layers().flat_map(|layer| (0..M::X87_BYTES).step_by(8).map(move |offset| (layer, offset))) {
        let slot = |number: u16| file(layer, shadow::x87(number) + offset);
        // The registers fall into cycles.
        let cycles = if by.is_multiple_of(4) {
            4
        } else if by.is_multiple_of(2) {
            2
        } else {
            1
        };
        for first in (0..cycles).filter(|_| by != 0) {
            emitter.asm().load(spare, slot(first));
            let mut target = first;
            loop {
                let source = (target + 8 - by) % 8;
                if source == first {
                    break;
                }
                emitter.asm().load(moved, slot(source));
                emitter.asm().store(slot(target), moved);
                target = source;
            }
            emitter.asm().store(slot(target), spare);
        }
    }
}

/// The target becomes a copy of the source if the condition holds.
pub(super) fn emit_select(
    emitter: &mut Emitter<'_>,
    index: usize,
    condition: ConditionCode,
    target: Span,
    source: Place,
) {
    let code = match condition {
        ConditionCode::b => Code::Cmovb_r64_rm64,
        ConditionCode::ae => Code::Cmovae_r64_rm64,
        ConditionCode::e => Code::Cmove_r64_rm64,
        ConditionCode::ne => Code::Cmovne_r64_rm64,
        ConditionCode::be => Code::Cmovbe_r64_rm64,
        ConditionCode::a => Code::Cmova_r64_rm64,
        ConditionCode::p => Code::Cmovp_r64_rm64,
        _ => Code::Cmovnp_r64_rm64,
    };
    emitter.restore_flags();
    let (result, other) = (emitter.scratch(0), emitter.scratch(1));
    let to = Shadow::of(emitter, index, target.place);
    let from = Shadow::of(emitter, index, source);
    for layer in layers() {
        for (offset, size) in pieces(target.bytes) {
            let target = to.advanced(offset).in_layer(emitter, layer);
            load(emitter, result, target, size);
            load(emitter, other, from.advanced(offset).in_layer(emitter, layer), size);
            emitter.asm().push2(code, result, other);
            store(emitter, target, result, size);
        }
    }
}

fn real_helper<M: Mode>(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit_real` pairs this helper with its site.
    let site = unsafe { site::<X87Real>(payload) };
    let X87Real { operation, target, a, b } = site.what;
    let call = X87Call::new(operation, target, [Some(a), b], &site.instruction, context);
    M::x87(&mut Thread::new(context), &call);
    HelperNext::Resume
}

fn move_helper<M: Mode>(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit_move` pairs this helper with its site.
    let site = unsafe { site::<X87Move>(payload) };
    let address = operand_address(&site.instruction, context).unwrap_or(0);
    M::x87_move(&mut Thread::new(context), site.what, address);
    HelperNext::Resume
}

fn stack_helper<M: Mode>(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit_stack` pairs this helper with its site.
    let site = unsafe { site::<StackChange>(payload) };
    match site.what {
        StackChange::ToMmx => {
            let top = State::of(context).top();
            rotate(context, top);
        }
        StackChange::LoadEnvironment(status) => {
            let address = operand_address(&site.instruction, context).unwrap_or(0);
            if let Ok(status) = user::read::<[u8; 2]>(address.wrapping_add(status.into())) {
                let (old, new) = (State::of(context).top(), usize::from(status[1] >> 3 & 7));
                // Registers stay: the one that is ST(k) now becomes ST(k + old - new).
                rotate(context, old + 8 - new);
            }
        }
        StackChange::SineCosine => {
            trigonometric::<M>(context, &site.instruction, X87Operation::Sine, Some(X87Operation::Cosine));
        }
        StackChange::Tangent => trigonometric::<M>(context, &site.instruction, X87Operation::Tangent, None),
    }
    HelperNext::Resume
}

/// The first operation's result replaces ST(0), the second one's (or a constant) is pushed, unless the operand is out of range.
fn trigonometric<M: Mode>(
    context: &mut Context,
    instruction: &Instruction,
    replaced: X87Operation,
    pushed: Option<X87Operation>,
) {
    let value = State::of(context).value(0);
    if !x87::in_range(&Session::begin(), value) {
        return;
    }
    let operand = X87Operand::register(0);
    let mut compute = |operation, target| {
        let call = X87Call::new(operation, target, [Some(operand), None], instruction, context);
        M::x87(&mut Thread::new(context), &call);
    };
    // What is pushed goes where the register that becomes ST(0) is now.
    let next = X87Operand::register(7).place;
    if let Some(pushed) = pushed {
        compute(pushed, next);
    }
    compute(replaced, operand.place);
    if pushed.is_none() {
        Thread::new(context).clear_file(shadow::x87(7), X87Format::Extended.bytes());
    }
    rotate(context, 1);
}

/// The shadow of ST(k) becomes that of ST(k + by), counted modulo 8.
fn rotate(context: &mut Context, by: usize) {
    let mut thread = Thread::new(context);
    for layer in layers() {
        thread.shadow_file_mut(layer, shadow::X87, shadow::X87_BYTES.into()).rotate_right(16 * (by % 8));
    }
}

/// The value of MMX register `number`, as a span of the shadow register file names it.
pub(super) fn mmx_value(context: &Context, offset: u16) -> [u8; 8] {
    State::of(context).mmx(usize::from((offset - shadow::X87) / 16)).to_le_bytes()
}
