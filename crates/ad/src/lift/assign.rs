//! Simultaneous assignment of bytes, turned into a sequence of copies and clears.
//!
//! An instruction reads all its operands before it writes any result. The IR is sequential. So moves are collected first, as a source
//! for each byte; then maximal runs are formed and put into an order in which no copy overwrites what a later one reads, with
//! temporaries where there is no such order (`xchg`, most permutations in place).

use super::Lifter;
use crate::ir::{Effect, Place, Span};

/// Where a byte comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Byte {
    /// It keeps its value.
    Keep,
    /// It becomes zero, or a value that is no part of a real number.
    Zero,
    /// It is moved from here.
    From(Place),
}

/// The moves of one instruction.
#[derive(Default)]
pub(crate) struct Assignment {
    copies: Vec<Run>,
    clears: Vec<Span>,
}

#[derive(Clone, Copy)]
struct Run {
    target: Span,
    source: Span,
}

impl Lifter<'_> {
    /// Assigns each byte from `target` on.
    pub(crate) fn assign(&mut self, target: Place, bytes: &[Byte]) {
        let mut position = 0;
        while position < bytes.len() {
            let start = position;
            let at = target.advanced(start as u16);
            position += 1;
            match bytes[start] {
                Byte::Keep => {}
                Byte::Zero => {
                    while bytes.get(position) == Some(&Byte::Zero) {
                        position += 1;
                    }
                    self.assignment.clears.push(Span::new(at, (position - start) as u16));
                }
                Byte::From(source) if source == at => {}
                Byte::From(source) => {
                    while bytes.get(position) == Some(&Byte::From(source.advanced((position - start) as u16))) {
                        position += 1;
                    }
                    let length = (position - start) as u16;
                    self.assignment
                        .copies
                        .push(Run { target: Span::new(at, length), source: Span::new(source, length) });
                }
            }
        }
    }

    /// Emits what was assigned.
    pub(crate) fn finish(&mut self) {
        let Assignment { mut copies, clears } = std::mem::take(&mut self.assignment);
        while let Some(position) = next_safe(&copies) {
            let run = copies.remove(position);
            self.push(Effect::Copy { target: run.target.place, source: run.source.place, bytes: run.target.bytes });
        }
        let staged: Vec<(Place, Run)> = copies.into_iter().map(|run| (self.temporary(run.source.bytes), run)).collect();
        for (temporary, run) in &staged {
            self.push(Effect::Copy { target: *temporary, source: run.source.place, bytes: run.source.bytes });
        }
        for (temporary, run) in &staged {
            self.push(Effect::Copy { target: run.target.place, source: *temporary, bytes: run.target.bytes });
        }
        for target in clears {
            self.clear(target);
        }
    }
}

/// A copy that overwrites nothing that another one reads.
fn next_safe(copies: &[Run]) -> Option<usize> {
    (0..copies.len()).find(|&candidate| {
        copies
            .iter()
            .enumerate()
            .all(|(other, run)| other == candidate || !run.source.overlaps(copies[candidate].target))
    })
}

/// The bytes of a span, in order.
pub(crate) fn bytes_of(span: Span) -> impl Iterator<Item = Byte> {
    (0..span.bytes).map(move |offset| Byte::From(span.place.advanced(offset)))
}

/// `bytes`, extended with zeros to `length`.
pub(crate) fn zero_extended(mut bytes: Vec<Byte>, length: u16) -> Vec<Byte> {
    if bytes.len() < usize::from(length) {
        bytes.resize(usize::from(length), Byte::Zero);
    }
    bytes
}
