//! The passive version, in which all shadow registers are zero, and the plain one.
//!
//! Shadow that is read from memory is tested: an active value continues in the active version. Shadow that is written is cleared. The
//! plain version does only the latter.

use derivgrind_engine::tool::Version;
use derivgrind_engine::translate::{Block, Emitter};

use crate::ir::{Effect, Ir, Operation, Span};
use crate::shadow::OPERAND;

use super::layout::{file, layers};
use super::places::{Shadow, clear, is_constant, pieces};
use super::replay::Replay;
use super::{ACTIVE, Mode, PASSIVE, atomic, loads, masked, parts, replaced, strings, transfers};

/// Emits the block.
pub(super) fn emit<M: Mode>(block: &Block, ir: &Ir, version: Version, emitter: &mut Emitter<'_>) {
    if ir.operations.iter().any(|operation| accesses_shadow_memory(&operation.effect)) {
        let replaces = |operation| store_of::<M>(block, operation).is_some();
        emitter.reserve_with_layers(usize::from(ir.operations.iter().any(replaces)), 0);
    }
    let mut operations = ir.operations.iter().peekable();
    for index in 0..block.instructions().len() {
        let own: Vec<&Operation> =
            std::iter::from_fn(|| operations.next_if(|operation| usize::from(operation.instruction) == index))
                .collect();
        emitter.begin(index);
        let mut executed = version == PASSIVE && loads::first(emitter, index, own.iter().copied());
        if version == PASSIVE {
            emit_tests(block, index, &own, emitter);
        }
        let mut results = own.iter().filter(|operation| !matches!(operation.effect, Effect::Lost { .. }));
        if let (Some(operation), None) = (results.next(), results.next())
            && !executed
            && let Some(store) = store_of::<M>(block, operation)
        {
            replaced::emit::<M>(emitter, index, store, None);
            continue;
        }
        for operation in &own {
            emit_writes::<M>(index, operation, version, emitter);
        }
        if let (PASSIVE, &[&Operation { effect: Effect::Update { memory, becomes, previous }, .. }]) =
            (version, &own[..])
        {
            atomic::emit_passive_update::<M>(emitter, index, atomic::Update { memory, becomes, previous });
            executed = true;
        }
        if index < block.body_len() && !executed {
            emitter.copy(index);
        }
    }
}

/// The operation if it replaces one or two bytes in memory that can be a part of a number. What comes has been tested, or is passive.
fn store_of<M: Mode>(block: &Block, operation: &Operation) -> Option<replaced::Store> {
    let target = match operation.effect {
        Effect::Clear { target } | Effect::BitTrick { target, .. } => target,
        Effect::Copy { target, bytes, .. } => Span::new(target, bytes),
        _ => return None,
    };
    let instruction = &block.instructions()[usize::from(operation.instruction)];
    let is_store = operation.mask.is_none() && replaced::is_store::<M>(instruction, target);
    is_store.then_some(replaced::Store { target, source: None })
}

/// Whether an effect is tested for, or clears shadow of memory: in blocks without such ones no scratch registers are needed.
fn accesses_shadow_memory(effect: &Effect) -> bool {
    let spans = effect.sources().into_iter().flatten().chain(effect.target());
    matches!(effect, Effect::CompareExchange { .. }) || spans.into_iter().any(|span| span.place.is_memory())
}

/// Leaves for the active version if something active is read. All tests of an instruction come before its writes, so that it can start
/// anew there.
fn emit_tests(block: &Block, index: usize, operations: &[&Operation], emitter: &mut Emitter<'_>) {
    let mut tested: Vec<Span> = Vec::new();
    for Operation { effect, mask, .. } in operations {
        match *effect {
            Effect::Replay { data, target, sources, masked: true } => {
                // Which memory is read only the instruction itself knows.
                if sources.into_iter().flatten().any(|source| source.place.is_memory()) {
                    test_by_replay(block, index, data, target, emitter);
                }
                continue;
            }
            Effect::Fetch { source, .. } if is_constant(&block.instructions()[index], source) => continue,
            Effect::Fetch { target, source, element } if mask.is_some() => {
                let vectors = emitter.borrow_vectors(index, 1);
                let fetch = masked::Fetch { target, source, element, mask: *mask };
                fetch.emit_shadow(emitter, index, vectors[0]);
                test_operand(index, target.bytes, emitter);
                emitter.return_vectors();
                continue;
            }
            _ => {}
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

/// Runs an instruction that moves data under a mask on shadow, and leaves for the active version if it brings something active.
fn test_by_replay(block: &Block, index: usize, data: u8, target: Span, emitter: &mut Emitter<'_>) {
    let vectors = emitter.borrow_vectors(index, Replay::vectors_needed(&block.instructions()[index], data));
    Replay { data, target, vectors: &vectors, result: Some(OPERAND) }.emit(emitter, index);
    test_operand(index, target.bytes, emitter);
    emitter.return_vectors();
}

/// Leaves for the active version if something active has been put at [`OPERAND`].
fn test_operand(index: usize, bytes: u16, emitter: &mut Emitter<'_>) {
    for layer in layers() {
        for (offset, size) in pieces(bytes) {
            emitter.exit_if_nonzero(index, file(layer, OPERAND + offset), usize::from(size), ACTIVE);
        }
    }
}

fn emit_writes<M: Mode>(index: usize, operation: &Operation, version: Version, emitter: &mut Emitter<'_>) {
    let target = operation.effect.target().filter(|target| target.place.is_memory());
    match (operation.effect, target) {
        // Plain code copies nothing that is active; in passive code memory can be.
        (Effect::RepeatedMove { .. }, _) if version == PASSIVE => strings::repeated_move(emitter, index),
        (Effect::RepeatedMove { .. } | Effect::RepeatedStore { .. }, _) => strings::repeated_clear(emitter, index),
        (Effect::State { transfer }, _) => {
            let (helper, payload) = transfers::helper::<M>(transfer);
            emitter.call_helper(helper, payload);
        }
        (Effect::CompareExchange { .. }, _) => {}
        // In passive code it is passive, and becomes so again if another thread has just made it active.
        (Effect::Update { memory, .. }, _) if version != PASSIVE => clear(emitter, index, memory),
        (Effect::Update { .. }, _) => {}
        (Effect::Replay { data, masked: true, .. }, Some(target)) => {
            // It stores the shadow of registers, which is zero.
            let instruction = emitter.block().instructions()[index];
            let vectors = emitter.borrow_vectors(index, Replay::vectors_needed(&instruction, data).max(1));
            Replay::new(data, target, &vectors).emit(emitter, index);
            emitter.return_vectors();
        }
        (_, Some(target)) => match operation.mask {
            Some(mask) => {
                let vectors = emitter.borrow_vectors(index, 1);
                masked::clear(emitter, index, target, mask, vectors[0]);
                emitter.return_vectors();
            }
            None if parts::is_part::<M>(&emitter.block().instructions()[index], target) => {
                parts::clear::<M>(emitter, index, target, None);
            }
            None => clear(emitter, index, target),
        },
        _ => {}
    }
}

/// The countdown starts anew whenever a thread becomes active; see `active::emit_countdown`.
pub(super) const FIRST_PATIENCE: u32 = 32;
