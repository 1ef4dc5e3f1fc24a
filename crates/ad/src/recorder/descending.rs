//! Numbers in memory that are copied over others from the highest byte down.
//!
//! A byte of an index that is zero looks like a constant. Where it comes over another byte of the old index, the number at the place is marked as none any more
//! ([`super::parts`]), in its highest byte, which is the last one of most copies. It is the first one of those from the highest byte down: so the mark is
//! taken back when all bytes below the one that was zero have come, one after the other.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::instrument::undone::Remembered;
use crate::instrument::{NUMBER_MARKED, Thread, shadow_address};

/// So many marked numbers does a thread remember. Copies are made one after the other.
const REMEMBERED: usize = 8;

/// A number that has been marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Address of the number's lowest byte.
    pub number: u64,
    /// Address of the byte whose shadow has been changed.
    pub changed: u64,
    /// The shadow of that byte before.
    pub before: u8,
    /// And now.
    pub now: u8,
}

/// A mark, and how far the copy has come.
#[derive(Clone, Copy, Debug)]
struct Copied {
    mark: Mark,
    /// Address of the last byte that has come.
    reached: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// There are more bytes to come, or the byte belongs to another number.
    Continues,
    /// All bytes have come.
    Complete,
    /// It is no such copy.
    Ends,
}

thread_local! {
    static COPIES: RefCell<Remembered<VecDeque<Copied>>> = const { RefCell::new(Remembered::new(VecDeque::new())) };
}

/// A number has been marked since a byte at the address `at` has become passive.
pub(super) fn remember(thread: &mut Thread<'_>, mark: Mark, at: u64) {
    thread.fields().changed |= NUMBER_MARKED;
    COPIES.with_borrow_mut(|remembered| {
        let copies = remembered.current();
        copies.truncate(REMEMBERED - 1);
        copies.push_front(Copied { mark, reached: at });
    });
}

/// One or two bytes at the address `at` have been stored.
pub(super) fn stored(thread: &mut Thread<'_>, at: u64) {
    COPIES.with_borrow_mut(|remembered| {
        let copies = remembered.current();
        copies.retain_mut(|copied| match copied.progress(at) {
            Progress::Continues => true,
            Progress::Ends => false,
            Progress::Complete => {
                let Mark { changed, before, now, .. } = copied.mark;
                let mut shadow = [0];
                shadow_address::read(changed, &mut shadow);
                if shadow == [now] {
                    shadow_address::write(changed, &[before]);
                }
                false
            }
        });
        if copies.is_empty() {
            thread.fields().changed &= !NUMBER_MARKED;
        }
    });
}

impl Copied {
    fn progress(&mut self, at: u64) -> Progress {
        let Mark { number, changed, .. } = self.mark;
        if !(number..=changed).contains(&at) {
            return Progress::Continues;
        }
        if at >= self.reached {
            return Progress::Ends;
        }
        self.reached = at;
        if at == number { Progress::Complete } else { Progress::Continues }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_complete_when_its_lowest_byte_has_come_after_the_others() {
        let copied = || Copied { mark: Mark { number: 64, changed: 71, before: 0, now: 1 }, reached: 67 };
        let run = |bytes: &[u64]| {
            let mut copied = copied();
            bytes.iter().map(|&at| copied.progress(at)).collect::<Vec<_>>()
        };
        use Progress::{Complete, Continues, Ends};
        assert_eq!(run(&[66, 65, 64]), [Continues, Continues, Complete]);
        assert_eq!(run(&[80, 65, 64]), [Continues, Continues, Complete], "zeros over zeros are not seen");
        assert_eq!(run(&[68]), [Ends]);
        assert_eq!(run(&[65, 66]), [Continues, Ends]);
        assert_eq!(run(&[71]), [Ends]);
    }
}
