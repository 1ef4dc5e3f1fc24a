//! One or two bytes that become constants or are copied: they can be a part of a real number, which is then none any more.
//!
//! The shadow of such a number would be put together from what is left and what comes. Where the mode can tell this from the shadow of a number, it is asked to
//! make it so before ([`Mode::SPOIL`]); what comes afterwards with all its bytes is a number again.

use std::mem::offset_of;

use derivgrind_engine::translate::{Condition, Emitter};
use iced_x86::{Code, Instruction};

use super::bits::payload_for;
use super::layout::{Fields, field};
use super::places::{Shadow, load, reach_memory, store};
use super::{Mode, Restoring};
use crate::ir::{Place, Span};
use crate::shadow;

/// Whether an instruction writes such a part, and it is this span.
pub(super) fn is_part<M: Mode>(instruction: &Instruction, target: Span) -> bool {
    if M::SPOIL.is_none() || target.bytes > 2 || instruction.op_count() == 0 {
        return false;
    }
    let register = instruction.op0_register();
    match target.place {
        Place::Register(_) => {
            let own = shadow::of_register(register).map(|range| (range.offset, range.bytes));
            register.is_gpr() && target.register().map(|range| (range.offset, range.bytes)) == own
        }
        Place::Memory { .. } => instruction.memory_size().size() == usize::from(target.bytes),
    }
}

/// Makes such a part passive.
pub(super) fn clear<M: Mode>(emitter: &mut Emitter<'_>, index: usize, target: Span, restoring: Option<Restoring>) {
    let Some(spoil) = M::SPOIL else { return };
    let payload = payload_for(emitter, index, target);
    let memory = Shadow::of(emitter, index, target.place).in_layer(emitter, 0);
    let join = emitter.asm().label();
    emitter.if_nonzero(index, memory, target.bytes.into(), move |emitter| {
        emitter.call_helper_here(spoil, payload);
        if let Some(restoring) = restoring {
            restoring(emitter);
        }
        emitter.asm().jump(join);
    });
    emitter.asm().bind(join);
}

/// One or two bytes that are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    /// Where they go.
    pub target: Span,
    /// Where they come from.
    pub source: Place,
}

/// Copies such a part: what is passive makes it so.
pub(super) fn copy<M: Mode>(
    emitter: &mut Emitter<'_>,
    index: usize,
    target: Span,
    source: Place,
    restoring: Option<Restoring>,
) {
    reach_memory(emitter, index);
    emitter.save_flags(index);
    let register = emitter.scratch(0);
    let from = Shadow::of(emitter, index, source).in_layer(emitter, 0);
    load(emitter, register, from, target.bytes);
    let (active, join) = (emitter.asm().label(), emitter.asm().label());
    emitter.asm().push2(Code::Test_rm64_r64, register, register);
    emitter.asm().jump_if(Condition::NotEqual, active);
    clear::<M>(emitter, index, target, restoring);
    emitter.asm().jump(join);
    emitter.asm().bind(active);
    if let Some(put_back) = M::PUT_BACK.filter(|_| target.place.is_memory()) {
        let payload = payload_for(emitter, index, Stored { target, source });
        let changed = field(offset_of!(Fields, changed));
        let compare = Instruction::with2(Code::Cmp_rm64_imm8, changed, 0).expect("cmp takes memory and constant");
        emitter.asm().push(&compare);
        // Nothing is carried in registers by a mode that has indices: nothing is to be restored.
        let put = emitter.cold(move |emitter| {
            emitter.call_helper_here(put_back, payload);
            emitter.asm().jump(join);
        });
        emitter.asm().jump_if(Condition::NotEqual, put);
    }
    let to = Shadow::of(emitter, index, target.place).in_layer(emitter, 0);
    store(emitter, to, register, target.bytes);
    emitter.asm().bind(join);
}
