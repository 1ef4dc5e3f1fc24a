//! Operations on bits that are none on real numbers by themselves, but are undone later.
//!
//! - *Selection:* `b ^ ((a ^ b) & mask)` is `a` where the mask is set, and `b` where it is not. Compilers and programs select so; with a mask of everything but the sign this is `copysign`.
//! - *Swaps* by three exclusive ors.
//! - *Shifts there and back:* `b << 1 >> 1` has no sign any more.
//! - *Hiding:* an exclusive or with a secret, a rotation, and the reverse. C libraries do so with registers that `setjmp` keeps, in which there may be a number.
//! - *Pieces:* one or two bytes that are loaded, changed and put back, as compilers at -O0 change a sign (`xor al, 80h`). Where the mode asks for it
//!   ([`Mode::PUT_BACK`]), their results keep the piece of shadow, and what the piece has become is told when it is stored.
//!
//! The first step counts as lost. It is remembered which numbers and shadows it had; when a later step gives one of the numbers back, or a mask leaves nothing of a
//! difference, the loss is taken back. In between the result has the shadow of the only active operand, so that the later steps are seen.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bit_tricks::Lane;
use crate::ir::BitOperation::{self, And, AndNot, Merge, Or, Other, Rotate, ShiftLeft, ShiftRight, Take, Xor};

use super::layout::PIECES_CHANGED;
use super::losses::{lost_at, not_lost_at};
use super::{Mode, Thread};

/// First steps that a thread remembers: loops that compilers have split have their steps some vectors apart.
const REMEMBERED: usize = 64;
/// The lower of two binary32 numbers.
const LOW: u64 = 0xffff_ffff;
/// Of a binary64 number, or of two binary32 ones.
const SIGNS: u64 = 1 << 63 | 1 << 31;

/// Eight bytes of an exclusive or, of a rotation, or of an operation on a piece, that is no real operation by itself.
#[derive(Clone, Copy)]
struct Step {
    /// What [`EPOCH`] was.
    epoch: u64,
    layer: usize,
    operation: BitOperation,
    /// The two numbers of an exclusive or; the second operand of other operations is none.
    values: [u64; 2],
    shadows: [u64; 2],
    result: u64,
    result_shadow: u64,
    piece: Option<Piece>,
    /// Where it counts as lost; `None` if that has been taken back.
    counted: Option<u64>,
}

/// What is known of a piece of a number besides.
#[derive(Clone, Copy)]
struct Piece {
    /// Its value before the first change.
    origin: u64,
    /// [`Memory::tricks`] at the last change.
    changed_at: u64,
}

/// Bit tricks that can be between the last change of a piece and its store: it is stored soon, and a later piece that looks like it is another one.
const SOON: u64 = 8;

/// What a thread remembers.
#[derive(Default)]
struct Memory {
    /// First steps, the newest one first.
    steps: VecDeque<Step>,
    /// How many bit tricks there have been with active operands.
    tricks: u64,
}

impl Memory {
    /// Changed pieces that could be put back now.
    fn pieces(&self) -> impl Iterator<Item = (&Step, Piece)> {
        let epoch = epoch();
        let pieces = self.steps.iter().filter_map(|step| Some((step, step.piece?)));
        pieces.filter(move |(step, piece)| step.epoch == epoch && self.tricks - piece.changed_at <= SOON)
    }
}

/// What the lane of a bit trick does not say of itself.
#[derive(Clone, Copy)]
pub(super) struct Circumstances {
    /// The shadow layer in question.
    pub layer: usize,
    /// Whether an operand is a constant in the instruction: no number, but a mask.
    pub with_constant: bool,
    /// Whether nothing but a piece of a number is in the register that is written.
    pub of_piece: bool,
    /// Whether the result is a part of a number that the block puts together: see [`crate::ir::Operation::of_part`].
    pub of_part: bool,
}

/// Counts how often all threads had to forget.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// What is remembered with another number means nothing any more.
pub(crate) fn epoch() -> u64 {
    EPOCH.load(Ordering::Relaxed)
}

/// What a thread remembers as long as shadow means the same.
pub(crate) struct Remembered<T> {
    /// What [`EPOCH`] was.
    epoch: u64,
    what: T,
}

impl<T: Default> Remembered<T> {
    pub const fn new(what: T) -> Remembered<T> {
        Remembered { epoch: 0, what }
    }

    /// What is remembered now.
    pub fn current(&mut self) -> &mut T {
        if self.epoch != epoch() {
            *self = Remembered { epoch: epoch(), what: T::default() };
        }
        &mut self.what
    }
}

thread_local! {
    static MEMORY: RefCell<Memory> = const { RefCell::new(Memory { steps: VecDeque::new(), tricks: 0 }) };
}

/// The shadow of a bit trick's result in a layer. What is lost is counted.
pub(super) fn trick<M: Mode>(
    thread: &mut Thread<'_>,
    Circumstances { layer, with_constant, of_piece, of_part }: Circumstances,
    lane: &Lane,
    operation: BitOperation,
) -> u64 {
    let operation = lane.bitwise(operation);
    let undone = MEMORY.with_borrow_mut(|memory| {
        memory.tricks += 1;
        undone(&mut memory.steps, layer, lane, operation)
    });
    let (shadow, lost) = match undone {
        Some(Undone { shadow, value, changed: None }) => {
            debug_assert_eq!(value, lane.result);
            return shadow;
        }
        Some(Undone { shadow, value, changed: Some((operation, bits)) }) => {
            let changed = Lane { a: value, b: bits, result: lane.result, shadow_a: shadow, shadow_b: 0 };
            M::trick(thread, layer, &changed, operation)
        }
        None if operation == Xor && !with_constant && is_difference::<M>(lane) => (0, u64::MAX),
        None => M::trick(thread, layer, lane, operation),
    };
    if lost == 0 {
        return shadow;
    }
    let kept = match [lane.shadow_a & lost, lane.shadow_b & lost] {
        [alone, 0] | [0, alone] => alone,
        _ => 0,
    };
    if of_part {
        // It can be used for something else as well: that will be seen, and is lost there, as long as there is any shadow.
        if shadow | kept == 0 {
            lost_at(thread.context().rip);
        }
        return shadow | kept;
    }
    let address = thread.context().rip;
    lost_at(address);
    let is_piece = of_piece && undone.is_none() && M::PUT_BACK.is_some() && is_piece(lane.shadow_a | lane.shadow_b);
    let can_be_undone = match operation {
        Xor => is_piece || !with_constant && undone.is_none(),
        Rotate => true,
        // Sign and exponent, and no more.
        ShiftLeft => with_constant && [lane.b & LOW, lane.b >> 32].into_iter().all(|bits| bits <= 12),
        And | AndNot | Take | Or | Merge | Other => is_piece,
        _ => false,
    };
    if !can_be_undone {
        return shadow;
    }
    let mut step = Step {
        epoch: epoch(),
        layer,
        operation,
        values: [lane.a, lane.b],
        shadows: [lane.shadow_a, lane.shadow_b],
        result: lane.result,
        result_shadow: shadow | kept,
        piece: None,
        counted: Some(address),
    };
    if is_piece {
        thread.fields().changed |= PIECES_CHANGED;
    }
    MEMORY.with_borrow_mut(|memory| {
        if is_piece {
            let operand = step.active_operand();
            let before = memory.pieces().find(|(step, _)| (step.result, step.result_shadow) == operand);
            let origin = before.map_or(operand.0, |(_, piece)| piece.origin);
            step.piece = Some(Piece { origin, changed_at: memory.tricks });
        }
        memory.steps.truncate(REMEMBERED - 1);
        memory.steps.push_front(step);
    });
    step.result_shadow
}

/// Whether both operands of an exclusive or are active numbers: then the result is none, even if it looks like a power of two times one of them.
fn is_difference<M: Mode>(lane: &Lane) -> bool {
    let is_narrow = (lane.shadow_a | lane.shadow_b) & !LOW == 0;
    let number = if is_narrow { LOW } else { !LOW };
    let is_number = |value: u64, shadow: u64| shadow & number != 0 && value & number & !SIGNS != 0;
    lane.a != lane.b
        && is_number(lane.a, lane.shadow_a)
        && is_number(lane.b, lane.shadow_b)
        && (is_narrow || !M::are_two_numbers(&[lane.shadow_a, lane.shadow_b]))
}

/// What a later step gives: a number that has been there before, or what a bitwise operation with a constant makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Undone {
    shadow: u64,
    value: u64,
    changed: Option<(BitOperation, u64)>,
}

impl Undone {
    /// Some bits, signs, are flipped.
    fn flipped(shadow: u64, value: u64, bits: u64) -> Undone {
        Undone { shadow, value, changed: (bits != 0).then_some((Xor, bits)) }
    }
}

/// Forgets all: no shadow from before means anything any more.
pub(crate) fn forget() {
    EPOCH.fetch_add(1, Ordering::Relaxed);
}

/// Whether a word of shadow has no more than one or two bytes of a number's.
fn is_piece(shadow: u64) -> bool {
    shadow != 0 && shadow >> 16 == 0
}

/// Whether a piece of a number, of so many bytes, has just been changed from one value to the other.
pub(crate) fn is_changed_piece(thread: &mut Thread<'_>, from: u64, to: u64, shadow: u64, bytes: u16) -> bool {
    MEMORY.with_borrow(|memory| {
        if memory.pieces().next().is_none() {
            thread.fields().changed &= !PIECES_CHANGED;
        }
        memory.pieces().any(|(step, piece)| step.has_changed(piece, from, to, shadow, bytes))
    })
}

/// The value that a piece of so many bytes had before it was changed to this, if it has just been.
pub(crate) fn origin_of_piece(to: u64, shadow: u64, bytes: u16) -> Option<u64> {
    MEMORY.with_borrow(|memory| {
        let mut changed = memory.pieces().filter(|(step, _)| step.is_piece(to, shadow, bytes));
        changed.next().map(|(_, piece)| piece.origin)
    })
}

/// That piece has been put back, and the number's derivative is known: nothing has been lost in the steps that have changed it.
pub(crate) fn piece_is_back(from: u64, to: u64, shadow: u64, bytes: u16) {
    MEMORY.with_borrow_mut(|memory| {
        let changed = memory.pieces().find(|(step, piece)| step.has_changed(*piece, from, to, shadow, bytes));
        let Some(mut wanted) = changed.map(|(step, _)| (step.result, step.result_shadow)) else { return };
        // Each step began with the result of an older one, or with what was loaded.
        memory.steps.retain_mut(|step| {
            if step.piece.is_none() || (step.result, step.result_shadow) != wanted {
                return true;
            }
            step.take_back();
            wanted = step.active_operand();
            false
        });
    });
}

/// Whether the lower bytes are the same.
fn is_same(value: u64, other: u64, bytes: u16) -> bool {
    (value ^ other) << (64 - 8 * bytes) == 0
}

/// The result if the operation is a later step than one that is remembered.
fn undone(steps: &mut VecDeque<Step>, layer: usize, lane: &Lane, operation: BitOperation) -> Option<Undone> {
    let epoch = epoch();
    let steps = steps.iter_mut().filter(|step| step.epoch == epoch && step.layer == layer && step.piece.is_none());
    match operation {
        Xor | Rotate => steps.filter(|step| step.operation == operation).find_map(|step| step.undo(lane)),
        ShiftRight => steps.filter(|step| step.operation == ShiftLeft).find_map(|step| step.shifted_back(lane)),
        And | Take | AndNot if lane.result == 0 => {
            let operands = [(lane.a, lane.shadow_a), (lane.b, lane.shadow_b)];
            let mut differences = steps.filter(|step| step.operation == Xor);
            let masked = differences.find(|step| operands.contains(&(step.result, step.result_shadow)))?;
            masked.take_back();
            Some(Undone { shadow: 0, value: 0, changed: None })
        }
        _ => None,
    }
}

impl Step {
    /// Whether it is the last step that has changed a piece of so many bytes from one value to the other.
    fn has_changed(&self, piece: Piece, from: u64, to: u64, shadow: u64, bytes: u16) -> bool {
        self.is_piece(to, shadow, bytes) && is_same(piece.origin, from, bytes)
    }

    /// Whether its result is a piece of so many bytes with this value.
    fn is_piece(&self, value: u64, shadow: u64, bytes: u16) -> bool {
        self.result_shadow == shadow && is_same(self.result, value, bytes)
    }

    /// The value and the shadow of the operand that a piece is.
    fn active_operand(&self) -> (u64, u64) {
        let active = usize::from(self.shadows[0] == 0);
        (self.values[active], self.shadows[active])
    }

    fn take_back(&mut self) {
        if let Some(address) = self.counted.take() {
            not_lost_at(address);
        }
    }

    /// The result if that undoes this step.
    fn undo(&mut self, lane: &Lane) -> Option<Undone> {
        let undone = match self.operation {
            Rotate => {
                let is_reverse =
                    (lane.a, lane.shadow_a, lane.result) == (self.result, self.result_shadow, self.values[0]);
                is_reverse.then_some(Undone { shadow: self.shadows[0], value: lane.result, changed: None })?
            }
            _ => self.selected(lane)?,
        };
        self.take_back();
        Some(undone)
    }

    /// The result if that shifts this step's result back, by as many bits: the bits that the first shift has dropped are zero.
    fn shifted_back(&mut self, lane: &Lane) -> Option<Undone> {
        let is_back = (lane.a, lane.b, lane.shadow_a) == (self.result, self.values[1], self.result_shadow);
        let kept = !(self.values[0] ^ lane.result);
        if !is_back || self.values[0] & kept != lane.result {
            return None;
        }
        self.take_back();
        Some(Undone { shadow: self.shadows[0], value: self.values[0], changed: (!kept != 0).then_some((And, kept)) })
    }

    /// The result if an operand is one of the two numbers, and the other one their difference behind a mask of whole numbers, or of signs and the rest.
    fn selected(&self, lane: &Lane) -> Option<Undone> {
        let operands = [(lane.a, lane.shadow_a, lane.b), (lane.b, lane.shadow_b, lane.a)];
        operands.into_iter().find_map(|(value, shadow, masked)| {
            let own = (0..2).find(|&k| (self.values[k], self.shadows[k]) == (value, shadow))?;
            self.chosen(own, masked)
        })
    }

    /// The number `own` where `masked` has nothing of the difference, and the other one where it has all of it.
    fn chosen(&self, own: usize, masked: u64) -> Option<Undone> {
        let difference = self.result;
        let of = |number: usize, flipped| Undone::flipped(self.shadows[number], self.values[number], flipped);
        match masked {
            0 => Some(of(own, 0)),
            _ if (masked ^ difference) & !SIGNS == 0 => Some(of(1 - own, masked ^ difference)),
            _ if masked & !SIGNS == 0 => Some(of(own, masked)),
            // Two binary32 numbers, each with a mask of its own.
            _ if [LOW, !LOW].into_iter().all(|half| masked & half == 0 || masked & half == difference & half) => {
                let number = |half: u64| if masked & half == 0 { own } else { 1 - own };
                let both = |words: [u64; 2]| words[number(LOW)] & LOW | words[number(!LOW)] & !LOW;
                Some(Undone { shadow: both(self.shadows), value: both(self.values), changed: None })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bit_tricks::in_both_halves;

    fn pair(low: f32, high: f32) -> u64 {
        u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
    }

    fn difference(values: [u64; 2], shadows: [u64; 2]) -> Step {
        Step {
            epoch: epoch(),
            layer: 0,
            operation: Xor,
            values,
            shadows,
            result: values[0] ^ values[1],
            result_shadow: shadows[0],
            piece: None,
            counted: None,
        }
    }

    /// What a selection between two numbers, or pairs of them, gives for a mask.
    fn select(values: [u64; 2], shadows: [u64; 2], mask: u64) -> Option<u64> {
        let mut steps = VecDeque::from([difference(values, shadows)]);
        let masked = (values[0] ^ values[1]) & mask;
        let lane =
            Lane { a: masked, b: values[1], result: values[1] ^ masked, shadow_a: shadows[0], shadow_b: shadows[1] };
        assert_eq!(undone(&mut steps, 1, &lane, Xor), None, "of another layer");
        let undone = undone(&mut steps, 0, &lane, Xor)?;
        let flipped = undone.changed.map_or(0, |(_, bits)| bits);
        assert_eq!(undone.value ^ flipped, lane.result);
        Some(undone.shadow)
    }

    #[test]
    fn the_number_that_is_chosen_gives_its_shadow() {
        let values = [1.5f64, 2.5].map(f64::to_bits);
        for shadows in [[7, 8], [7, 0], [0, 8]] {
            assert_eq!(select(values, shadows, u64::MAX), Some(shadows[0]));
            assert_eq!(select(values, shadows, 0), Some(shadows[1]));
            assert_eq!(select(values, shadows, 1 << 51), None);
            // copysign, either way.
            let values = [1.5f64, -2.7].map(f64::to_bits);
            assert_eq!(select(values, shadows, !(1 << 63)), Some(shadows[0]));
            assert_eq!(select(values, shadows, 1 << 63), Some(shadows[1]));
        }
    }

    #[test]
    fn each_of_two_numbers_has_its_own_mask() {
        let (values, shadows) = ([pair(1.5, -2.0), pair(0.3, 0.7)], [7 | 8 << 32, 9 | 10 << 32]);
        assert_eq!(select(values, shadows, LOW), Some(7 | 10 << 32));
        assert_eq!(select(values, shadows, !LOW), Some(9 | 8 << 32));
        // Of equal ones either will do.
        assert_eq!(select([pair(1.5, 2.0), pair(0.3, 2.0)], shadows, LOW), Some(7 | 8 << 32));
    }

    #[test]
    fn nothing_is_left_of_a_difference_behind_a_mask_of_zeros() {
        let step = difference([1.5f64, 2.7].map(f64::to_bits), [7, 0]);
        let mut steps = VecDeque::from([step]);
        let lane = Lane { a: step.result, b: 0, result: 0, shadow_a: 7, shadow_b: 0 };
        assert!(undone(&mut steps, 0, &lane, And).is_some_and(|undone| undone.shadow == 0));
        assert_eq!(undone(&mut steps, 0, &Lane { a: 3, ..lane }, And), None);
        assert_eq!(undone(&mut steps, 0, &Lane { shadow_a: 8, ..lane }, And), None);
        assert_eq!(undone(&mut steps, 0, &Lane { result: step.result, ..lane }, And), None);
    }

    #[test]
    fn a_shift_back_gives_the_number_without_the_bits_that_were_dropped() {
        for (value, kept) in [(-1.7f64, !(1 << 63)), (1.7, u64::MAX)] {
            let (value, count) = (value.to_bits(), in_both_halves(1));
            let shifted = Step { operation: ShiftLeft, result: value << 1, ..difference([value, count], [7, 0]) };
            let mut steps = VecDeque::from([shifted]);
            let back = Lane { a: value << 1, b: count, result: value << 1 >> 1, shadow_a: 7, shadow_b: 0 };
            for other in
                [Lane { shadow_a: 8, ..back }, Lane { a: value, ..back }, Lane { b: in_both_halves(2), ..back }]
            {
                assert_eq!(undone(&mut steps, 0, &other, ShiftRight), None);
            }
            let masked = Lane { a: value << 1, b: 0, result: 0, shadow_a: 7, shadow_b: 0 };
            assert_eq!(undone(&mut steps, 0, &masked, And), None, "no difference");
            let undone = undone(&mut steps, 0, &back, ShiftRight).unwrap();
            assert_eq!((undone.shadow, undone.value), (7, value));
            assert_eq!(undone.changed, (kept != u64::MAX).then_some((And, kept)));
        }
    }

    #[test]
    fn a_rotation_back_gives_the_shadow_back() {
        let value = 1.7f64.to_bits();
        let rotated = value.rotate_left(17);
        let mut steps =
            VecDeque::from([Step { operation: Rotate, result: rotated, ..difference([value, 17], [7, 0]) }]);
        let back = Lane { a: rotated, b: 17, result: value, shadow_a: 7, shadow_b: 0 };
        assert!(undone(&mut steps, 0, &back, Rotate).is_some_and(|undone| undone.shadow == 7));
        assert_eq!(undone(&mut steps, 0, &Lane { shadow_a: 8, ..back }, Rotate), None);
        assert_eq!(undone(&mut steps, 0, &Lane { result: value + 1, ..back }, Rotate), None);
    }
}
