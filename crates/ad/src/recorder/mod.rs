//! Recording mode: shadow holds indices, operations write the tape.
//!
//! The recorder does no floating-point arithmetic of its own.

mod arrays;
mod descending;
mod errors;
mod helpers;
mod holes;
mod layout;
mod math;
mod parts;
mod real;
mod replaced;
mod requests;
mod rescaled;
mod restart;
mod rounding;
mod state;
mod x87;

use std::any::Any;
use std::sync::OnceLock;

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::{Emitter, Label, Scratch};
use derivgrind_tape::{Operation, TapeWriter};

use crate::analysis::Step;
use crate::bit_tricks::{Lane, LaneOutcome, Outcome, index_and_factor};
use crate::instrument::{
    Instrument, Mode, Replacing, Reporting, Request, SiteHelper, Thread, X87Call, X87Move, X87Real,
};
use crate::ir::{BitOperation, Effect, Format};
use crate::rounding::sums as rounding_sums;
use crate::shadow::{NARROW_LIMIT, WIDE_MARK, narrow_index, of_narrow, of_wide};

use rescaled::Number;
use state::TapeThread;

/// How a recording is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// What is told at exit about losses of activity.
    pub reporting: Reporting,
}

/// Recording mode.
pub struct Recording {
    settings: Settings,
}

/// The tool that records.
pub type Recorder = Instrument<Recording>;

/// The tape of this process. It is not in the [`Recorder`] because helpers, which cached code calls, have no other way to it.
static TAPE: OnceLock<TapeWriter> = OnceLock::new();

fn tape() -> &'static TapeWriter {
    TAPE.get().expect("a recorder has been made before anything is recorded")
}

impl Recorder {
    /// A recorder that writes to `tape`. There can be one in a process.
    pub fn new(tape: TapeWriter, settings: Settings) -> Recorder {
        let _ = TAPE.set(tape);
        Instrument(Recording { settings })
    }
}

impl Mode for Recording {
    const SCRATCH: Scratch = Scratch { general: 4, vector: 4 };
    const ARITHMETIC_GENERAL: usize = 4;
    /// Indices are written lane by lane.
    const COPY_BYTES: u16 = 8;
    /// Indices have eight bytes.
    const X87_BYTES: u16 = 8;
    const SPOIL: Option<SiteHelper> = Some(parts::spoil);
    const PUT_BACK: Option<SiteHelper> = Some(parts::put_back);
    const REPLACED: Option<Replacing> = Some(replaced::replace);
    const REQUESTS: &'static [Request] = requests::REQUESTS;

    /// Whether the tape's cursor is in its scratch register.
    type Carried = bool;

    fn vectors_needed(steps: &[Step]) -> usize {
        match steps[0].operation.effect {
            Effect::Real { format, a, b, .. } => {
                std::iter::once(a).chain(b).map(|place| real::vectors_for(format, place)).max().unwrap_or(0)
            }
            _ => 0,
        }
    }

    fn arithmetic(emitter: &mut Emitter<'_>, index: usize, steps: &[Step], cursor_loaded: &mut bool) -> usize {
        let mask = steps[0].operation.mask;
        match steps[0].operation.effect {
            Effect::Real { operation, format, target, a, b } => {
                let operands = [Some(a), b].map(|place| place.map(|place| real::Operand { place, active: true }));
                let lane = real::Lane { operation, format, target, operands, mask }.with_passive(steps[0].passive);
                real::emit(emitter, index, &lane, *cursor_loaded);
                *cursor_loaded = true;
            }
            Effect::Convert { to, target, source } => {
                real::convert(emitter, index, to, target, source, mask);
                *cursor_loaded = false;
            }
            _ => {}
        }
        1
    }

    fn are_two_numbers(shadows: &[u64]) -> bool {
        !shadows.iter().copied().any(is_wide)
    }

    fn trick(thread: &mut Thread<'_>, _layer: usize, lane: &Lane, operation: BitOperation) -> (u64, u64) {
        let known = holes::shadow(thread, lane, operation);
        let known = known.or_else(|| match operation {
            BitOperation::Merge => parts::merged(thread, lane),
            _ => None,
        });
        known.unwrap_or_else(|| by_bytes(thread, lane, operation))
    }

    fn x87(thread: &mut Thread<'_>, call: &X87Call) {
        x87::record(thread, call);
    }

    fn x87_inline(emitter: &mut Emitter<'_>, index: usize, real: X87Real, join: Label) {
        x87::emit_sum(emitter, index, real, join);
    }

    fn x87_move_inline(emitter: &mut Emitter<'_>, index: usize, moved: X87Move) -> bool {
        x87::emit_move(emitter, index, moved);
        true
    }

    fn x87_move(_: &mut Thread<'_>, _: X87Move, _: u64) {}

    fn disabled(thread: &mut Thread<'_>, now: bool) {
        // Without room each operation takes the slow path, and that makes its result passive.
        if now { thread.close_chunk() } else { thread.open_chunk() }
    }

    fn thread_start(&self, thread: &mut Thread<'_>) {
        thread.begin();
    }

    fn thread_exit(&self, thread: &mut Thread<'_>) {
        thread.end();
    }

    fn lock_for_fork(&self) -> Box<dyn Any> {
        Box::new(state::lock_for_fork())
    }

    fn fork_child(&self, context: &mut Context) {
        state::fork_child(context);
    }

    fn process_exit(&self) {
        state::finish();
    }

    fn process_goes_on(&self) {
        state::resume();
    }

    fn reporting(&self) -> Reporting {
        self.settings.reporting
    }
}

/// Whether eight bytes of shadow are that of a binary64 number, and not of two binary32 ones or of pieces. What a binary64 number's conversion to binary32 leaves is the new index, or
/// nothing, beside the upper half of the old one's shadow: that is the shadow of none, or has an index that has not been given out.
fn is_wide(word: u64) -> bool {
    /// More indices than threads have recorded and not handed in.
    const IN_WORK: u64 = 1 << 26;
    word & WIDE_MARK != 0
        && index_and_factor(word).is_some_and(|(index, _)| index < NARROW_LIMIT || index < tape().indices() + IN_WORK)
}

/// The shadow of a bit trick's result, with ones where it is lost, if the shadow of its bytes is what has come with them.
fn by_bytes(thread: &mut Thread<'_>, lane: &Lane, operation: BitOperation) -> (u64, u64) {
    if let Some((shadow, byte)) = lane.cleared_byte(operation) {
        return (parts::without_byte(shadow, byte), 0);
    }
    let lost_bits = |is_lost: bool, bits: u64| if is_lost { bits } else { 0 };
    let (shadow, lost) = match lane.outcome(operation, is_wide) {
        LaneOutcome::Wide(outcome) => {
            let (shadow, is_lost) = shadow_of(thread, outcome, Format::Binary64, lane);
            (shadow, lost_bits(is_lost, u64::MAX))
        }
        LaneOutcome::Narrow(halves) => [0, 1].into_iter().fold((0, 0), |(shadow, lost), half| {
            let number = lane.half(32 * half as u32);
            let (number, is_lost) = shadow_of(thread, halves[half], Format::Binary32, &number);
            (shadow | number << (32 * half), lost | lost_bits(is_lost, u64::from(u32::MAX) << (32 * half)))
        }),
    };
    let is_assembled = matches!(operation, BitOperation::Merge | BitOperation::Turn) && lost == 0;
    (if is_assembled { of_assembled(lane, shadow) } else { shadow }, lost)
}

/// The shadow of what bytes have been put together to, if it is `shadow` by these.
fn of_assembled(lane: &Lane, shadow: u64) -> u64 {
    const HALVES: [u64; 2] = [u32::MAX as u64, !0 << 32];
    let settled = rescaled::settled(Number { value: lane.result, shadow }, u64::MAX);
    let numbers = if is_wide(settled) { &[u64::MAX][..] } else { &HALVES };
    let assembled = numbers.iter().filter(|&&bits| lane.is_assembled(shadow, bits));
    assembled.fold(shadow, |whole, bits| whole & !bits | settled & bits)
}

/// The shadow of the result of a bit trick on one number, and whether it is lost. What is only moved may be a piece of an index.
fn shadow_of(thread: &mut Thread<'_>, outcome: Outcome, format: Format, lane: &Lane) -> (u64, bool) {
    match outcome {
        Outcome::Passive => (0, false),
        Outcome::Same(word) => (word, false),
        Outcome::Scaled { index: word, ratio } => {
            let operand = match format {
                Format::Binary64 => index_and_factor(word),
                Format::Binary32 => narrow_index(word).map(|index| (index, 1.0)),
            };
            let Some((index, factor)) = operand else { return (0, true) };
            let index = thread.record(Operation::Partials, format, [index, 0], [factor * ratio, 0.0]);
            let shadow = if format == Format::Binary64 { of_wide(index) } else { of_narrow(index) };
            let before = Number { value: if word == lane.shadow_a { lane.a } else { lane.b }, shadow: word };
            rescaled::remember(thread, format, before, Number { value: lane.result, shadow });
            (shadow, false)
        }
        // What is computed with the bits of a rounded number is no loss.
        Outcome::Lost => {
            (0, ![lane.shadow_a, lane.shadow_b].into_iter().all(|word| rounding_sums::only(word, |_, _| true)))
        }
    }
}
