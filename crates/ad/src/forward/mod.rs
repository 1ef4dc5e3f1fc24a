//! Forward mode: shadow holds dot values, operations compute with them.
//!
//! A variable's dot value has the variable's own format: 8 bytes binary64 or 4 bytes binary32 at the same place in the shadow. Zero (all bytes zero) is
//! passive. Dot values are computed by vector instructions next to the program's own, with its rounding mode.

mod beside;
mod bits;
mod bundle;
mod codes;
mod constants;
mod held;
mod holes;
mod math;
mod real;
mod registers;
mod replaced;
mod requests;
mod rounding;
mod significands;
mod upper_bytes;
mod vector;
mod x87;

use derivgrind_engine::tool::Tool;
use derivgrind_engine::translate::{Emitter, Scratch};

use crate::analysis::Step;
use crate::bit_tricks::Lane;
use crate::declared::{self, Declared};
use crate::instrument::{
    ACTIVE, Instrument, MOST_LAYERS, Mode, Replacing, Reporting, Request, Restoring, SUSPENDED, Thread, X87Call,
    X87Move,
};
use crate::ir::{BitOperation, Effect, Format, Place, Span};
use crate::shadow;
use bundle::Bundle;
use codes::Width;
use constants::Constants;
use real::Group;
use registers::{Held, Registers};
use vector::Vector;

/// How a program is run in forward mode.
#[derive(Debug)]
pub struct Settings {
    /// What is told at exit about losses of activity.
    pub reporting: Reporting,
    /// Number of directions, 1 to [`MOST_DIRECTIONS`]: each variable has a dot value in each of them.
    pub directions: u32,
    /// Seed declared inputs and collect declared outputs. Without it, recording requests do nothing.
    pub declared: Option<Declared>,
}

/// Highest number of directions.
pub const MOST_DIRECTIONS: usize = MOST_LAYERS;

/// Forward mode.
pub struct DotValues {
    reporting: Reporting,
    directions: u32,
}

/// The tool that carries dot values along.
pub type Forward = Instrument<DotValues>;

impl Forward {
    /// There can be one in a process.
    pub fn new(settings: Settings) -> Forward {
        if let Some(declared) = settings.declared {
            declared::install(declared);
        }
        Instrument(DotValues { reporting: settings.reporting, directions: settings.directions })
    }
}

/// Forward mode as a tool of the engine.
pub fn tool(settings: Settings) -> Box<dyn Tool> {
    Box::new(Forward::new(settings))
}

impl Mode for DotValues {
    const SCRATCH: Scratch = Scratch { general: 4, vector: vector::Scratch::COUNT + 1 };
    const ARITHMETIC_GENERAL: usize = 0;
    const COPY_BYTES: u16 = 32;
    /// Dot values have ten bytes.
    const X87_BYTES: u16 = 16;
    const REPLACED: Option<Replacing> = Some(replaced::replace);
    const REQUESTS: &'static [Request] = requests::REQUESTS;

    const SPARE_VECTORS: usize = 4;
    const BORROWS_AVX512: bool = true;

    type Carried = Registers;

    fn layers(&self) -> u32 {
        self.directions
    }

    fn vectors_needed(steps: &[Step]) -> usize {
        match steps[0].operation.effect {
            Effect::Copy { target, source, bytes } if !moves_in_vectors(target, source, bytes) => 0,
            Effect::Copy { .. } => vector::Scratch::with_roles(1),
            // A masked store takes the mask and what is there.
            _ => Group::first(steps).map_or_else(
                || vector::Scratch::with_roles(if steps[0].operation.mask.is_some() { 3 } else { 1 }),
                |group| group.vectors_needed(),
            ),
        }
    }

    fn arithmetic(emitter: &mut Emitter<'_>, index: usize, steps: &[Step], registers: &mut Registers) -> usize {
        if let Some(group) = Group::first(steps) {
            group.emit(emitter, registers, index);
            return group.count;
        }
        if let Effect::Convert { to, target, source } = steps[0].operation.effect {
            for direction in Bundle::singles() {
                let vector = Vector::new(emitter, registers, index, direction, to, Width::Scalar);
                vector.under(steps[0].operation.mask).convert(target, source);
            }
        }
        1
    }

    fn copy(
        emitter: &mut Emitter<'_>,
        index: usize,
        target: Place,
        source: Place,
        bytes: u16,
        registers: &mut Registers,
    ) -> bool {
        let piece = match bytes {
            32 => (Format::Binary64, Width::Ymm),
            16 => (Format::Binary64, Width::Xmm),
            8 => (Format::Binary64, Width::Scalar),
            4 => (Format::Binary32, Width::Scalar),
            _ => return false,
        };
        if !moves_in_vectors(target, source, bytes) {
            return false;
        }
        if bytes > 4 && registers.holds_less(Span::new(source, bytes)) {
            // The lower part has been written by itself, as scalar operations do: a load of the whole would wait for all of its parts to reach
            // the cache.
            let half = bytes / 2;
            // A shuffle can move two numbers by the place of one.
            let upwards =
                matches!((target, source), (Place::Register(target), Place::Register(source)) if target > source);
            return if upwards { [half, 0] } else { [0, half] }.into_iter().all(|offset| {
                Self::copy(emitter, index, target.advanced(offset), source.advanced(offset), half, registers)
            });
        }
        for bundle in Bundle::all(emitter, bytes) {
            Vector::new(emitter, registers, index, bundle, piece.0, piece.1).copy(target, source);
        }
        true
    }

    fn overwrite(emitter: &mut Emitter<'_>, registers: &mut Registers, span: Span) {
        if let Some(range) = span.register() {
            held::store(emitter, &registers.cut_by(Held { bundle: Bundle::EVERY, range }));
        }
        registers.overwritten(span);
        held::note(emitter, registers);
    }

    fn look_at(emitter: &mut Emitter<'_>, registers: &mut Registers, span: Span) {
        if let Some(range) = span.register() {
            held::store(emitter, &registers.missed_by(Held { bundle: Bundle::EVERY, range }));
            held::note(emitter, registers);
        }
    }

    fn settle(emitter: &mut Emitter<'_>, registers: &mut Registers) {
        held::save_all(emitter, registers);
    }

    fn restoring(registers: &Registers) -> Option<Restoring> {
        let held = registers.held();
        Some(Box::new(move |emitter| held::load(emitter, &held)))
    }

    fn trick(thread: &mut Thread<'_>, layer: usize, lane: &Lane, operation: BitOperation) -> (u64, u64) {
        bits::dot(thread, layer, lane, operation)
    }

    fn x87(thread: &mut Thread<'_>, call: &X87Call) {
        x87::compute(thread, call);
    }

    fn x87_move_inline(emitter: &mut Emitter<'_>, index: usize, moved: X87Move) -> bool {
        x87::emit_copy(emitter, index, moved)
    }

    fn x87_move(thread: &mut Thread<'_>, moved: X87Move, address: u64) {
        x87::convert(thread, moved, address);
    }

    fn disabled(thread: &mut Thread<'_>, now: bool) {
        thread.context_mut().version = if now { SUSPENDED } else { ACTIVE };
    }

    fn thread_start(&self, thread: &mut Thread<'_>) {
        Constants::of(thread).fill();
    }

    fn lock_for_fork(&self) -> Box<dyn std::any::Any> {
        Box::new(crate::declared::lock_for_fork())
    }

    fn fork_child(&self, _context: &mut derivgrind_engine::context::Context) {
        declared::forget();
    }

    fn process_exit(&self) {
        declared::finish();
    }

    fn reporting(&self) -> Reporting {
        self.reporting
    }
}

/// Whether a piece of shadow is moved by a vector register: what is in shadow of one, is computed with in one.
fn moves_in_vectors(target: Place, source: Place, bytes: u16) -> bool {
    let is_vector = |place| matches!(place, Place::Register(offset) if (shadow::VECTOR..shadow::X87).contains(&offset) || offset >= shadow::TEMPORARY);
    bytes >= 16 || is_vector(target) || is_vector(source)
}
