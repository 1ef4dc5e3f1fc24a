//! Operations on bits that are none on real numbers by themselves, but are undone later.
//!
//! - *Selection:* `b ^ ((a ^ b) & mask)` is `a` where the mask is set, and `b` where it is not. Compilers and programs select so.
//! - *Swaps* by three exclusive ors.
//! - *Hiding:* an exclusive or with a secret, a rotation, and the reverse. C libraries do so with registers that `setjmp` keeps, in which there may be a number.
//!
//! The first step counts as lost. It is remembered which numbers and shadows it had; when a later step gives one of the numbers back, or a mask leaves nothing of a
//! difference, the loss is taken back. In between the result has the shadow of the only active operand, so that the later steps are seen.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::bit_tricks::Lane;
use crate::ir::BitOperation;

use super::losses::{lost_at, not_lost_at};
use super::{Mode, Thread};

/// First steps that a thread remembers: loops that compilers have split have their steps some vectors apart.
const REMEMBERED: usize = 64;
/// The lower of two binary32 numbers.
const LOW: u64 = 0xffff_ffff;

/// Eight bytes of an exclusive or or a rotation that is no real operation by itself.
#[derive(Clone, Copy)]
struct Step {
    layer: usize,
    operation: BitOperation,
    /// The two numbers of an exclusive or. Of a rotation the second one is none.
    values: [u64; 2],
    shadows: [u64; 2],
    result: u64,
    result_shadow: u64,
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
    static STEPS: RefCell<VecDeque<Step>> = const { RefCell::new(VecDeque::new()) };
}

/// The shadow of a bit trick's result in a layer. What is lost is counted.
pub(super) fn trick<M: Mode>(
    thread: &mut Thread<'_>,
    Circumstances { layer, with_constant }: Circumstances,
    lane: &Lane,
    operation: BitOperation,
) -> u64 {
    if let Some(shadow) = STEPS.with_borrow_mut(|steps| undone(steps, layer, lane, operation)) {
        return shadow;
    }
    let (shadow, lost) = M::trick(thread, lane, operation);
    if lost == 0 {
        return shadow;
    }
    let address = thread.context().rip;
    lost_at(address);
    let can_be_undone = match operation {
        BitOperation::Xor => !with_constant,
        BitOperation::Rotate => true,
        _ => false,
    };
    if !can_be_undone {
        return shadow;
    }
    let kept = match [lane.shadow_a & lost, lane.shadow_b & lost] {
        [alone, 0] | [0, alone] => alone,
        _ => 0,
    };
    let step = Step {
        layer,
        operation,
        values: [lane.a, lane.b],
        shadows: [lane.shadow_a, lane.shadow_b],
        result: lane.result,
        result_shadow: shadow | kept,
        counted: Some(address),
    };
    STEPS.with_borrow_mut(|steps| {
        steps.truncate(REMEMBERED - 1);
        steps.push_front(step);
    });
    step.result_shadow
}

/// The shadow of the result if the operation is a later step than one that is remembered.
fn undone(steps: &mut VecDeque<Step>, layer: usize, lane: &Lane, operation: BitOperation) -> Option<u64> {
    let mut steps = steps.iter_mut().filter(|step| step.layer == layer);
    match operation {
        BitOperation::Xor | BitOperation::Rotate => {
            steps.filter(|step| step.operation == operation).find_map(|step| step.undo(lane))
        }
        BitOperation::And | BitOperation::Take | BitOperation::AndNot if lane.result == 0 => {
            let operands = [(lane.a, lane.shadow_a), (lane.b, lane.shadow_b)];
            let masked = steps.find(|step| operands.contains(&(step.result, step.result_shadow)))?;
            masked.take_back();
            Some(0)
        }
        _ => None,
    }
}

impl Step {
    fn take_back(&mut self) {
        if let Some(address) = self.counted.take() {
            not_lost_at(address);
        }
    }

    /// The shadow of the result if that undoes this step.
    fn undo(&mut self, lane: &Lane) -> Option<u64> {
        let shadow = match self.operation {
            BitOperation::Rotate => {
                let is_reverse =
                    (lane.a, lane.shadow_a, lane.result) == (self.result, self.result_shadow, self.values[0]);
                is_reverse.then_some(self.shadows[0])?
            }
            _ => self.selected(lane)?,
        };
        self.take_back();
        Some(shadow)
    }

    /// The shadow of the result if an operand is one of the two numbers, and the other one their difference behind a mask of whole numbers.
    fn selected(&self, lane: &Lane) -> Option<u64> {
        let operands = [(lane.a, lane.shadow_a, lane.b), (lane.b, lane.shadow_b, lane.a)];
        operands.into_iter().find_map(|(value, shadow, masked)| {
            let own = (0..2).find(|&k| (self.values[k], self.shadows[k]) == (value, shadow))?;
            self.chosen(own, masked)
        })
    }

    /// The shadow of the number `own` where `masked` has nothing of the difference, and of the other one where it has all of it.
    fn chosen(&self, own: usize, masked: u64) -> Option<u64> {
        let (difference, [own, other]) = (self.result, [self.shadows[own], self.shadows[1 - own]]);
        match masked {
            0 => Some(own),
            _ if masked == difference => Some(other),
            // Two binary32 numbers, each with a mask of its own.
            _ if [LOW, !LOW].into_iter().all(|half| masked & half == 0 || masked & half == difference & half) => {
                let of_half = |half: u64| if masked & half == 0 { own & half } else { other & half };
                Some(of_half(LOW) | of_half(!LOW))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(low: f32, high: f32) -> u64 {
        u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
    }

    fn difference(values: [u64; 2], shadows: [u64; 2]) -> Step {
        Step {
            layer: 0,
            operation: BitOperation::Xor,
            values,
            shadows,
            result: values[0] ^ values[1],
            result_shadow: shadows[0],
            counted: None,
        }
    }

    /// What a selection between two numbers, or pairs of them, gives for a mask.
    fn select(values: [u64; 2], shadows: [u64; 2], mask: u64) -> Option<u64> {
        let mut steps = VecDeque::from([difference(values, shadows)]);
        let masked = (values[0] ^ values[1]) & mask;
        let lane =
            Lane { a: masked, b: values[1], result: values[1] ^ masked, shadow_a: shadows[0], shadow_b: shadows[1] };
        assert_eq!(undone(&mut steps, 1, &lane, BitOperation::Xor), None, "of another layer");
        undone(&mut steps, 0, &lane, BitOperation::Xor)
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
        let step = difference([1.5f64, 2.7].map(f64::to_bits), [7, 0]);
        let mut steps = VecDeque::from([step]);
        let lane = Lane { a: step.result, b: 0, result: 0, shadow_a: 7, shadow_b: 0 };
        assert_eq!(undone(&mut steps, 0, &lane, BitOperation::And), Some(0));
        assert_eq!(undone(&mut steps, 0, &Lane { a: 3, ..lane }, BitOperation::And), None);
        assert_eq!(undone(&mut steps, 0, &Lane { shadow_a: 8, ..lane }, BitOperation::And), None);
        assert_eq!(undone(&mut steps, 0, &Lane { result: step.result, ..lane }, BitOperation::And), None);
    }

    #[test]
    fn a_rotation_back_gives_the_shadow_back() {
        let value = 1.7f64.to_bits();
        let rotated = value.rotate_left(17);
        let mut steps = VecDeque::from([Step {
            operation: BitOperation::Rotate,
            result: rotated,
            ..difference([value, 17], [7, 0])
        }]);
        let back = Lane { a: rotated, b: 17, result: value, shadow_a: 7, shadow_b: 0 };
        assert_eq!(undone(&mut steps, 0, &back, BitOperation::Rotate), Some(7));
        assert_eq!(undone(&mut steps, 0, &Lane { shadow_a: 8, ..back }, BitOperation::Rotate), None);
        assert_eq!(undone(&mut steps, 0, &Lane { result: value + 1, ..back }, BitOperation::Rotate), None);
    }
}
