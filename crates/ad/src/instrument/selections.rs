//! Selection by exclusive or: `b ^ ((a ^ b) & mask)` is `a` where the mask is set, and `b` where it is not.
//!
//! The first step is no real operation. It is remembered which numbers and shadows it had, and it counts as lost; when the last step gives one of the two numbers
//! back, or the mask leaves nothing of the difference, that is taken back. In between the difference with a passive number has the shadow of the active one, so that the
//! last step is seen. (Numbers that change places by three exclusive ors, and bits that are hidden by one and brought back by another, come out right as well.)

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::bit_tricks::Lane;
use crate::ir::BitOperation;

use super::losses::{lost_at, not_lost_at};
use super::{Mode, Thread};

/// Differences that a thread remembers: loops that compilers have split have their steps some vectors apart.
const REMEMBERED: usize = 64;
/// The lower of two binary32 numbers.
const LOW: u64 = 0xffff_ffff;

/// Eight bytes of an exclusive or that is no real operation by itself.
#[derive(Clone, Copy)]
struct Difference {
    /// The shadow layer in question.
    layer: usize,
    values: [u64; 2],
    shadows: [u64; 2],
    /// The shadow of the difference.
    result: u64,
    /// Where it counts as lost; `None` if that has been taken back.
    counted: Option<u64>,
}

/// What the lane of a bit trick does not say of itself.
#[derive(Clone, Copy)]
pub(super) struct Circumstances {
    /// The shadow layer in question.
    pub layer: usize,
    /// Whether an operand is a constant in the instruction: no number, but a mask.
    pub with_constant: bool,
}

thread_local! {
    /// The newest one first.
    static DIFFERENCES: RefCell<VecDeque<Difference>> = const { RefCell::new(VecDeque::new()) };
}

/// The shadow of a bit trick's result in a layer. What is lost is counted.
pub(super) fn trick<M: Mode>(
    thread: &mut Thread<'_>,
    Circumstances { layer, with_constant }: Circumstances,
    lane: &Lane,
    operation: BitOperation,
) -> u64 {
    if let Some(shadow) = DIFFERENCES.with_borrow_mut(|known| selected(known, layer, lane, operation)) {
        return shadow;
    }
    let (shadow, lost) = M::trick(thread, lane, operation);
    if lost == 0 {
        return shadow;
    }
    let address = thread.context().rip;
    lost_at(address);
    if operation != BitOperation::Xor || with_constant {
        return shadow;
    }
    // The last step has to see it, even if the other number is passive.
    let kept = match [lane.shadow_a & lost, lane.shadow_b & lost] {
        [alone, 0] | [0, alone] => alone,
        _ => 0,
    };
    let (values, shadows) = ([lane.a, lane.b], [lane.shadow_a, lane.shadow_b]);
    let difference = Difference { layer, values, shadows, result: shadow | kept, counted: Some(address) };
    DIFFERENCES.with_borrow_mut(|known| {
        known.truncate(REMEMBERED - 1);
        known.push_front(difference);
    });
    difference.result
}

/// The shadow of the result if the operation is a later step of a selection.
fn selected(known: &mut VecDeque<Difference>, layer: usize, lane: &Lane, operation: BitOperation) -> Option<u64> {
    let mut known = known.iter_mut().filter(|difference| difference.layer == layer);
    match operation {
        BitOperation::Xor => known.find_map(|difference| difference.last_step(lane)),
        BitOperation::And | BitOperation::Take | BitOperation::AndNot if lane.result == 0 => {
            let operands = [(lane.a, lane.shadow_a), (lane.b, lane.shadow_b)];
            let masked = known.find(|difference| operands.contains(&(difference.bits(), difference.result)))?;
            masked.take_back();
            Some(0)
        }
        _ => None,
    }
}

impl Difference {
    fn bits(&self) -> u64 {
        self.values[0] ^ self.values[1]
    }

    fn take_back(&mut self) {
        if let Some(address) = self.counted.take() {
            not_lost_at(address);
        }
    }

    /// The shadow of the result if an operand is one of the two numbers, and the other one the difference behind a mask of whole numbers.
    fn last_step(&mut self, lane: &Lane) -> Option<u64> {
        let operands = [(lane.a, lane.shadow_a, lane.b), (lane.b, lane.shadow_b, lane.a)];
        let shadow = operands.into_iter().find_map(|(value, shadow, masked)| {
            let own = (0..2).find(|&k| (self.values[k], self.shadows[k]) == (value, shadow))?;
            self.chosen(own, masked)
        })?;
        self.take_back();
        Some(shadow)
    }

    /// The shadow of the number `own` where `masked` has nothing of the difference, and of the other one where it has all of it.
    fn chosen(&self, own: usize, masked: u64) -> Option<u64> {
        let (bits, [own, other]) = (self.bits(), [self.shadows[own], self.shadows[1 - own]]);
        match masked {
            0 => Some(own),
            _ if masked == bits => Some(other),
            // Two binary32 numbers, each with a mask of its own.
            _ if [LOW, !LOW].into_iter().all(|half| masked & half == 0 || masked & half == bits & half) => {
                Some(by_halves(|half| if masked & half == 0 { own } else { other }))
            }
            _ => None,
        }
    }
}

/// Puts eight bytes together from the halves of those that are chosen for each.
fn by_halves(choose: impl Fn(u64) -> u64) -> u64 {
    [LOW, !LOW].into_iter().fold(0, |word, half| word | choose(half) & half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(low: f32, high: f32) -> u64 {
        u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
    }

    /// What a selection between two numbers, or pairs of them, gives for a mask.
    fn select(values: [u64; 2], shadows: [u64; 2], mask: u64) -> Option<u64> {
        let mut known = VecDeque::from([Difference { layer: 0, values, shadows, result: shadows[0], counted: None }]);
        let masked = (values[0] ^ values[1]) & mask;
        let lane =
            Lane { a: masked, b: values[1], result: values[1] ^ masked, shadow_a: shadows[0], shadow_b: shadows[1] };
        assert_eq!(selected(&mut known, 1, &lane, BitOperation::Xor), None, "of another layer");
        selected(&mut known, 0, &lane, BitOperation::Xor)
    }

    #[test]
    fn the_number_that_is_chosen_gives_its_shadow() {
        let values = [1.5f64, 2.5].map(f64::to_bits);
        for shadows in [[7, 8], [7, 0], [0, 8]] {
            assert_eq!(select(values, shadows, u64::MAX), Some(shadows[0]));
            assert_eq!(select(values, shadows, 0), Some(shadows[1]));
            assert_eq!(select(values, shadows, 1 << 51), None);
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
        let values = [1.5f64, 2.7].map(f64::to_bits);
        let bits = values[0] ^ values[1];
        let mut known = VecDeque::from([Difference { layer: 0, values, shadows: [7, 0], result: 7, counted: None }]);
        let lane = Lane { a: bits, b: 0, result: 0, shadow_a: 7, shadow_b: 0 };
        assert_eq!(selected(&mut known, 0, &lane, BitOperation::And), Some(0));
        assert_eq!(selected(&mut known, 0, &Lane { a: 3, ..lane }, BitOperation::And), None);
        assert_eq!(selected(&mut known, 0, &Lane { shadow_a: 8, ..lane }, BitOperation::And), None);
        assert_eq!(selected(&mut known, 0, &Lane { result: bits, ..lane }, BitOperation::And), None);
    }
}
