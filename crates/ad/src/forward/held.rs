//! Moves of dot values between scratch registers and the shadow register files.

use derivgrind_engine::translate::{Emitter, Pending, registers};
use iced_x86::{Instruction, MemoryOperand, Register};

use crate::instrument::{file, place_in_context};
use crate::ir::Format;

use super::bundle::Assembly;
use super::codes::{Encoding, LOAD, STORE, Width};
use super::registers::{Held, Registers};

/// Loads what scratch registers, by their numbers, hold: behind a helper, which leaves nothing in them.
pub(super) fn load(emitter: &mut Emitter<'_>, held: &[(usize, Held)]) {
    for &(number, held) in held {
        let files = files(held);
        if !held.bundle.is_single() {
            assembly(emitter, number, held).gather(emitter, &files);
            continue;
        }
        let (format, width) = form(held);
        let load =
            Instruction::with2(LOAD.of(format, width, Encoding::of(emitter)), sized(emitter, number, width), files[0]);
        emitter.asm().push(&load.expect("a load takes register and memory"));
    }
}

/// Stores what scratch registers, by their numbers, hold.
pub(super) fn store(emitter: &mut Emitter<'_>, held: &[(usize, Held)]) {
    for &(number, held) in held {
        let files = files(held);
        if !held.bundle.is_single() {
            assembly(emitter, number, held).scatter(emitter, &files);
            continue;
        }
        let (format, width) = form(held);
        let store =
            Instruction::with2(STORE.of(format, width, Encoding::of(emitter)), files[0], sized(emitter, number, width));
        emitter.asm().push(&store.expect("a store takes memory and register"));
    }
}

/// Stores all that is not in the shadow register files yet.
pub(super) fn save_all(emitter: &mut Emitter<'_>, registers: &mut Registers) {
    store(emitter, &registers.take_all_unsaved());
    note(emitter, registers);
}

/// Tells what is not in the shadow register files, for the case of a fault: after each change of that.
pub(super) fn note(emitter: &mut Emitter<'_>, registers: &Registers) {
    let mut pending = Vec::new();
    for (number, Held { bundle, range }) in registers.unsaved() {
        for (piece, layer) in bundle.layers().enumerate() {
            pending.push(Pending {
                register: number as u8,
                within: (piece * usize::from(range.bytes)) as u8,
                bytes: range.bytes as u8,
                place: place_in_context(layer, range.offset) as u32,
            });
        }
    }
    emitter.set_pending(&pending);
}

/// Where the directions have it.
fn files(Held { bundle, range }: Held) -> Vec<MemoryOperand> {
    bundle.layers().map(|layer| file(layer, range.offset)).collect()
}

fn assembly(emitter: &Emitter<'_>, number: usize, held: Held) -> Assembly {
    let part = emitter.scratch_vector(emitter.scratch_vectors() - 1);
    Assembly { whole: emitter.scratch_vector(number), part, bytes: held.range.bytes }
}

/// How so many bytes of one direction are moved.
fn form(held: Held) -> (Format, Width) {
    match held.range.bytes {
        4 => (Format::Binary32, Width::Scalar),
        8 => (Format::Binary64, Width::Scalar),
        16 => (Format::Binary64, Width::Xmm),
        _ => (Format::Binary64, Width::Ymm),
    }
}

fn sized(emitter: &Emitter<'_>, number: usize, width: Width) -> Register {
    let xmm = emitter.scratch_vector(number);
    if width == Width::Ymm { registers::ymm(xmm.number()) } else { xmm }
}
