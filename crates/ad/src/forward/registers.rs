//! Which scratch vector registers hold dot values of shadow registers.
//!
//! A load of what was stored in the shadow register file just before takes longer than most operations, and real arithmetic is a chain of them. So what a
//! scratch register held last is remembered until the register is needed for something else. And most results are overwritten soon, so they are stored
//! late: before the scratch register gets another value, before anything else looks at the file, and before each instruction that can leave the block.
//! At a fault the engine stores them.

use crate::ir::Span;
use crate::shadow::Range;

use super::bundle::Bundle;

/// The scratch vector registers of a block.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    slots: Vec<Slot>,
    clock: u32,
}

/// Bytes of the shadow register files of some directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The directions.
    pub bundle: Bundle,
    /// Where in their shadow register files.
    pub range: Range,
}

impl Held {
    /// Whether they have bytes in common.
    pub fn overlaps(self, other: Held) -> bool {
        self.bundle.overlaps(other.bundle) && self.range.overlaps(other.range)
    }

    /// Whether it has all bytes of the other one.
    pub fn contains(self, other: Held) -> bool {
        self.bundle.contains(other.bundle) && self.range.contains(other.range)
    }
}

#[derive(Clone, Copy, Debug)]
struct Value {
    held: Held,
    /// It is not in the shadow register file yet.
    unsaved: bool,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    /// What of shadow register files is in the lowest bytes of the register.
    holds: Vec<Value>,
    /// When it was used last.
    used: u32,
    /// Used by the operation that is being emitted.
    pinned: bool,
}

impl Registers {
    /// There are so many. A block reserves them once, before it emits anything.
    pub fn provide(&mut self, count: usize) {
        self.slots.resize_with(count, Slot::default);
    }

    /// The register that holds a range, pinned.
    pub fn find(&mut self, wanted: Held) -> Option<usize> {
        let holds = |Value { held, .. }: &Value| {
            let bytes = held.range.bytes;
            // Pieces of several directions lie one directly after the other: a shorter piece is at the low end in the first of them only.
            let contains = bytes == wanted.range.bytes || bytes > wanted.range.bytes && held.bundle.is_single();
            held.bundle == wanted.bundle && held.range.offset == wanted.range.offset && contains
        };
        let found = self.slots.iter().position(|slot| slot.holds.iter().any(holds))?;
        self.pin(found);
        Some(found)
    }

    /// Whether the lower part of a span is in a register, but not all of it.
    pub fn holds_less(&self, span: Span) -> bool {
        let Some(range) = span.register() else { return false };
        let held = self.slots.iter().flat_map(|slot| &slot.holds).map(|value| value.held.range);
        let widest = held.filter(|held| held.offset == range.offset).map(|held| held.bytes).max();
        widest.is_some_and(|widest| widest < range.bytes)
    }

    /// A register for a new value, pinned, and what has to be saved from it before: one that holds nothing, or nothing unsaved, or the one that was not
    /// used for the longest time.
    pub fn fresh(&mut self) -> (usize, Vec<Held>) {
        let free = (0..self.slots.len()).filter(|&number| !self.slots[number].pinned);
        let chosen = free.min_by_key(|&number| {
            let slot = &self.slots[number];
            (!slot.holds.is_empty(), slot.holds.iter().any(|value| value.unsaved), slot.used)
        });
        let chosen = chosen.expect("no operation takes more registers than are reserved");
        let lost = std::mem::take(&mut self.slots[chosen].holds);
        self.pin(chosen);
        (chosen, lost.into_iter().filter(|value| value.unsaved).map(|value| value.held).collect())
    }

    fn pin(&mut self, number: usize) {
        self.clock += 1;
        self.slots[number].pinned = true;
        self.slots[number].used = self.clock;
    }

    /// The register may be given to another value, if it is one of these.
    pub fn unpin(&mut self, number: usize) {
        if let Some(slot) = self.slots.get_mut(number) {
            slot.pinned = false;
        }
    }

    /// The operation is complete.
    pub fn unpin_all(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.pinned = false);
    }

    /// No register but this one is in use.
    pub fn keep_pinned(&mut self, number: usize) {
        self.unpin_all();
        self.pin(number);
    }

    /// What the registers hold: for each the widest range.
    pub fn held(&self) -> Vec<(usize, Held)> {
        let widest = |slot: &Slot| slot.holds.iter().map(|value| value.held).max_by_key(|held| held.range.bytes);
        self.slots.iter().enumerate().filter_map(|(number, slot)| Some((number, widest(slot)?))).collect()
    }

    /// The register holds this range now, too, as the shadow register file does.
    pub fn hold(&mut self, number: usize, held: Held) {
        self.slots[number].holds.push(Value { held, unsaved: false });
    }

    /// The register has a new value of this range, which is to be saved later. What it cuts must have been saved: [`Registers::cut_by`].
    pub fn hold_unsaved(&mut self, number: usize, held: Held) {
        self.forget(held);
        self.slots[number].holds.push(Value { held, unsaved: true });
    }

    /// Shadow registers have been written, in all directions: no register holds what they held. What is cut must have been saved.
    pub fn overwritten(&mut self, span: Span) {
        if let Some(range) = span.register() {
            self.forget(Held { bundle: Bundle::EVERY, range });
        }
    }

    fn forget(&mut self, written: Held) {
        for slot in &mut self.slots {
            slot.holds.retain(|value| !value.held.overlaps(written));
        }
    }

    /// The unsaved values that a write would overwrite in part, with their registers. They count as saved from now on.
    pub fn cut_by(&mut self, written: Held) -> Vec<(usize, Held)> {
        self.take_unsaved(|held| held.overlaps(written) && !written.contains(held))
    }

    /// The unsaved values that a load from the file would miss. They count as saved from now on.
    pub fn missed_by(&mut self, read: Held) -> Vec<(usize, Held)> {
        self.take_unsaved(|held| held.overlaps(read))
    }

    /// All unsaved values. They count as saved from now on.
    pub fn take_all_unsaved(&mut self) -> Vec<(usize, Held)> {
        self.take_unsaved(|_| true)
    }

    /// All unsaved values; they stay unsaved.
    pub fn unsaved(&self) -> Vec<(usize, Held)> {
        let values =
            self.slots.iter().enumerate().flat_map(|(number, slot)| slot.holds.iter().map(move |v| (number, v)));
        values.filter(|(_, value)| value.unsaved).map(|(number, value)| (number, value.held)).collect()
    }

    fn take_unsaved(&mut self, concerned: impl Fn(Held) -> bool) -> Vec<(usize, Held)> {
        let mut taken = Vec::new();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            for value in slot.holds.iter_mut().filter(|value| value.unsaved && concerned(value.held)) {
                value.unsaved = false;
                taken.push((number, value.held));
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Place;

    const fn range(offset: u16, bytes: u16) -> Held {
        Held { bundle: Bundle::single(0), range: Range { offset, bytes } }
    }

    #[test]
    fn a_value_is_found_until_it_is_overwritten() {
        let mut registers = Registers::default();
        registers.provide(3);
        let (first, _) = registers.fresh();
        registers.hold(first, range(128, 16));
        assert_eq!(registers.find(range(128, 16)), Some(first));
        assert_eq!(registers.find(range(128, 8)), Some(first), "the low lane");
        assert_eq!(registers.find(range(136, 8)), None, "not the high lane");
        assert_eq!(registers.find(range(128, 32)), None);
        assert!(registers.holds_less(Span::new(Place::Register(128), 32)));
        assert!(!registers.holds_less(Span::new(Place::Register(128), 16)));
        registers.hold_unsaved(first, Held { bundle: Bundle::single(1), ..range(140, 4) });
        assert_eq!(registers.find(range(128, 16)), Some(first), "another direction");
        registers.overwritten(Span::new(Place::Register(140), 4));
        assert_eq!(registers.find(range(128, 8)), None);
    }

    #[test]
    fn registers_in_use_are_not_given_away() {
        let mut registers = Registers::default();
        registers.provide(3);
        let [first, second, third] = [(); 3].map(|()| registers.fresh().0);
        registers.hold(first, range(0, 8));
        registers.hold(second, range(8, 8));
        registers.hold(third, range(16, 8));
        registers.unpin_all();
        assert_eq!(registers.find(range(0, 8)), Some(first));
        assert_eq!(registers.fresh().0, second, "the one that was used before the third");
        assert_eq!(registers.fresh().0, third);
        registers.unpin(second);
        assert_eq!(registers.fresh().0, second);
    }

    #[test]
    fn unsaved_values_are_saved_unless_they_are_overwritten() {
        let mut registers = Registers::default();
        registers.provide(2);
        let [first, second] = [(); 2].map(|()| registers.fresh().0);
        registers.hold_unsaved(first, range(128, 16));
        registers.hold_unsaved(second, range(192, 8));
        registers.unpin_all();
        assert!(registers.cut_by(range(128, 32)).is_empty(), "all of it is overwritten");
        assert_eq!(registers.cut_by(range(136, 8)), [(first, range(128, 16))]);
        assert!(registers.cut_by(range(136, 8)).is_empty(), "it has been saved");
        registers.hold_unsaved(first, range(128, 16));
        assert_eq!(registers.missed_by(range(192, 16)), [(second, range(192, 8))]);
        assert_eq!(registers.unsaved(), [(first, range(128, 16))]);
        assert_eq!(registers.fresh(), (second, vec![]), "the one with nothing unsaved");
        assert_eq!(registers.fresh(), (first, vec![range(128, 16)]));
    }
}
