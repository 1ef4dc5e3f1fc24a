//! Which scratch vector registers hold dot values of shadow registers.
//!
//! Dot values are always stored in the shadow register file, so that faults, helpers and other blocks find them there. But a load of what was stored
//! just before takes longer than most operations, and real arithmetic is a chain of them. So what a scratch register held last is remembered until the
//! register is needed for something else.

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

#[derive(Clone, Debug, Default)]
struct Slot {
    /// What of shadow register files is in the lowest bytes of the register.
    holds: Vec<Held>,
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
        let holds = |held: &Held| {
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
        let held = self.slots.iter().flat_map(|slot| &slot.holds).filter(|held| held.range.offset == range.offset);
        let widest = held.map(|held| held.range.bytes).max();
        widest.is_some_and(|widest| widest < range.bytes)
    }

    /// A register for a new value, pinned: one that holds nothing, or the one that was not used for the longest time.
    pub fn fresh(&mut self) -> usize {
        let free = (0..self.slots.len()).filter(|&number| !self.slots[number].pinned);
        let chosen = free.min_by_key(|&number| (!self.slots[number].holds.is_empty(), self.slots[number].used));
        let chosen = chosen.expect("no operation takes more registers than are reserved");
        self.slots[chosen].holds.clear();
        self.pin(chosen);
        chosen
    }

    fn pin(&mut self, number: usize) {
        self.clock += 1;
        self.slots[number].pinned = true;
        self.slots[number].used = self.clock;
    }

    /// The register may be given to another value.
    pub fn unpin(&mut self, number: usize) {
        self.slots[number].pinned = false;
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
        let widest = |slot: &Slot| slot.holds.iter().copied().max_by_key(|held| held.range.bytes);
        self.slots.iter().enumerate().filter_map(|(number, slot)| Some((number, widest(slot)?))).collect()
    }

    /// The register holds this range now, too.
    pub fn hold(&mut self, number: usize, held: Held) {
        self.slots[number].holds.push(held);
    }

    /// Shadow registers have been written, in all directions: no register holds what they held.
    pub fn overwritten(&mut self, span: Span) {
        if let Some(range) = span.register() {
            self.forget(range, |_| true);
        }
    }

    /// A range has been written in some directions.
    pub fn overwritten_in(&mut self, written: Held) {
        self.forget(written.range, |bundle| bundle.overlaps(written.bundle));
    }

    fn forget(&mut self, written: Range, concerned: impl Fn(Bundle) -> bool) {
        let overlaps =
            |held: Range| held.offset < written.offset + written.bytes && written.offset < held.offset + held.bytes;
        for slot in &mut self.slots {
            slot.holds.retain(|held| !(concerned(held.bundle) && overlaps(held.range)));
        }
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
        let first = registers.fresh();
        registers.hold(first, range(128, 16));
        assert_eq!(registers.find(range(128, 16)), Some(first));
        assert_eq!(registers.find(range(128, 8)), Some(first), "the low lane");
        assert_eq!(registers.find(range(136, 8)), None, "not the high lane");
        assert_eq!(registers.find(range(128, 32)), None);
        assert!(registers.holds_less(Span::new(Place::Register(128), 32)));
        assert!(!registers.holds_less(Span::new(Place::Register(128), 16)));
        registers.overwritten_in(Held { bundle: Bundle::single(1), ..range(140, 4) });
        assert_eq!(registers.find(range(128, 16)), Some(first), "another direction");
        registers.overwritten(Span::new(Place::Register(140), 4));
        assert_eq!(registers.find(range(128, 8)), None);
    }

    #[test]
    fn registers_in_use_are_not_given_away() {
        let mut registers = Registers::default();
        registers.provide(3);
        let [first, second, third] = [(); 3].map(|()| registers.fresh());
        registers.hold(first, range(0, 8));
        registers.hold(second, range(8, 8));
        registers.hold(third, range(16, 8));
        registers.unpin_all();
        assert_eq!(registers.find(range(0, 8)), Some(first));
        assert_eq!(registers.fresh(), second, "the one that was used before the third");
        assert_eq!(registers.fresh(), third);
        registers.unpin(second);
        assert_eq!(registers.fresh(), second);
    }
}
