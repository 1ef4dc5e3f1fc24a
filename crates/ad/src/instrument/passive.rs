//! The passive version, in which all shadow registers are zero, and the plain one.
//!
//! Shadow that is read from memory is tested: an active value continues in the active version. Shadow that is written is cleared. The
//! plain version does only the latter.

use derivgrind_engine::tool::Version;
use derivgrind_engine::translate::{Block, Emitter};

use crate::ir::{Effect, Ir, Span};

use super::layout::layers;
use super::places::{Shadow, clear, is_constant, pieces};
use super::{ACTIVE, Mode, PASSIVE, strings, transfers};

/// Emits the block.
pub(super) fn emit<M: Mode>(block: &Block, ir: &Ir, version: Version, emitter: &mut Emitter<'_>) {
    if ir.operations.iter().any(|operation| accesses_shadow_memory(&operation.effect)) {
        emitter.reserve_with_layers(0, 0);
    }
    let mut operations = ir.operations.iter().peekable();
    for index in 0..block.instructions().len() {
        let effects: Vec<Effect> = std::iter::from_fn(|| {
            operations
                .next_if(|operation| usize::from(operation.instruction) == index)
                .map(|operation| operation.effect)
        })
        .collect();
        emitter.begin(index);
        if version == PASSIVE {
            emit_tests(block, index, &effects, emitter);
        }
        for effect in &effects {
            emit_writes::<M>(index, effect, version, emitter);
        }
        if index < block.body_len() {
            emitter.copy(index);
        }
    }
}

/// Whether an effect is tested for, or clears shadow of memory: in blocks without such ones no scratch registers are needed.
fn accesses_shadow_memory(effect: &Effect) -> bool {
    let spans = effect.sources().into_iter().flatten().chain(effect.target());
    matches!(effect, Effect::CompareExchange { .. }) || spans.into_iter().any(|span| span.place.is_memory())
}

/// Leaves for the active version if something active is read. All tests of an instruction come before its writes, so that it can start
/// anew there.
fn emit_tests(block: &Block, index: usize, effects: &[Effect], emitter: &mut Emitter<'_>) {
    let mut tested: Vec<Span> = Vec::new();
    for effect in effects {
        if let Effect::Replay { masked: true, .. } = effect {
            // Which memory is read only the instruction itself knows.
            let active = to_active(emitter, index);
            emitter.asm().jump(active);
            return;
        }
        let compared = match effect {
            Effect::CompareExchange { destination, .. } => Some(*destination),
            _ => None,
        };
        for span in effect.sources().into_iter().flatten().chain(compared) {
            let covered = tested.iter().any(|other| other.place == span.place && other.bytes >= span.bytes);
            if !span.place.is_memory() || covered || is_constant(&block.instructions()[index], span) {
                continue;
            }
            tested.push(span);
            let shadow = Shadow::of(emitter, index, span.place);
            for layer in layers() {
                for (offset, size) in pieces(span.bytes) {
                    let memory = shadow.advanced(offset).in_layer(emitter, layer);
                    emitter.exit_if_nonzero(index, memory, usize::from(size), ACTIVE);
                }
            }
        }
    }
}

/// A cold label that continues in the active version at instruction `index`.
fn to_active(emitter: &mut Emitter<'_>, index: usize) -> derivgrind_engine::translate::Label {
    emitter.exit_to_version(index, ACTIVE)
}

fn emit_writes<M: Mode>(index: usize, effect: &Effect, version: Version, emitter: &mut Emitter<'_>) {
    match effect {
        // Plain code copies nothing that is active; in passive code memory can be.
        Effect::RepeatedMove { .. } if version == PASSIVE => strings::repeated_move(emitter, index),
        Effect::RepeatedMove { .. } | Effect::RepeatedStore { .. } => strings::repeated_clear(emitter, index),
        Effect::State { transfer } => {
            let (helper, payload) = transfers::helper::<M>(*transfer);
            emitter.call_helper(helper, payload);
        }
        Effect::CompareExchange { .. } => {}
        _ => {
            if let Some(target) = effect.target().filter(|target| target.place.is_memory()) {
                clear(emitter, index, target);
            }
        }
    }
}

/// The countdown starts anew whenever a thread becomes active; see `active::emit_countdown`.
pub(super) const FIRST_PATIENCE: u32 = 32;
