//! Finds the period of a program's loops in its records.

use crate::encode::{Reading, predictable_stride};
use crate::record::Record;

/// Looks for the period with which operations repeat and operands move on.
///
/// While records repeat, nothing is done. When too many do not, the finder takes a hash of the last few records at each record and
/// looks where the same hash was last. Distance and multiples of it are tried on the last records; what predicts most of their
/// operands is the new period. It is a guess in any case: a bad one costs space only.
pub(crate) struct PeriodFinder {
    period: usize,
    /// Places where the period changes, with the new one.
    changes: Vec<(u32, u32)>,
    /// For each hash of a long and of a short history, check bits and the position plus one where it was last seen.
    seen: [Box<[u32; PeriodFinder::SLOTS]>; 2],
    /// Hashes of the last 16 and of the last 4 records.
    histories: [u64; 2],
    searching: bool,
    /// No candidates are tried before this position.
    rest_until: usize,
    /// How long to rest after the next failure.
    rest: usize,
    misses: u32,
    last_miss: usize,
}

impl PeriodFinder {
    const SLOTS: usize = 2048;
    /// Changes of the period in a block.
    pub(crate) const MAX_CHANGES: usize = 1024;
    /// Misses in a row, each within [`ROW`](Self::ROW) records of the one before, after which a new period is looked for.
    const MANY_MISSES: u32 = 8;
    const ROW: usize = 64;
    /// By how much an older record's content is shifted in a history: it is forgotten after 64 bits.
    const SHIFTS: [u32; 2] = [4, 16];
    /// Distances up to this one belong to an iteration; greater ones may grow from one to the next.
    const NEAR: u64 = 32;
    /// Records on which a candidate is tried.
    const TRIED: usize = 8;
    /// Multiples of a distance that are tried.
    const MULTIPLES: usize = 4;
    /// Records without a trial after one that has failed; twice as many after the next one, and so on.
    const SHORT_REST: usize = 8;
    const LONG_REST: usize = 256;
    /// Misses in a row after which there is no period any more.
    const HOPELESS: u32 = 48;

    pub(crate) fn new() -> PeriodFinder {
        PeriodFinder {
            period: 0,
            changes: Vec::with_capacity(Self::MAX_CHANGES),
            seen: [0, 1].map(|_| Box::new([0; Self::SLOTS])),
            histories: [0; 2],
            searching: true,
            rest_until: 0,
            rest: Self::SHORT_REST,
            misses: 0,
            last_miss: 0,
        }
    }

    /// Forgets everything, for a new block.
    pub(crate) fn clear(&mut self) {
        self.period = 0;
        self.changes.clear();
        self.seen.iter_mut().for_each(|seen| seen.fill(0));
        self.histories = [0; 2];
        self.searching = true;
        self.rest_until = 0;
        self.rest = Self::SHORT_REST;
        self.misses = 0;
        self.last_miss = 0;
    }

    /// The period at the present position; 0 for none.
    #[inline]
    pub(crate) fn current(&self) -> usize {
        self.period
    }

    /// Whether a period is being looked for: then the finder wants to see each record.
    #[inline]
    pub(crate) fn is_searching(&self) -> bool {
        self.searching
    }

    /// The places below `limit` where the period changes, with the new one.
    pub(crate) fn changes(&self, limit: usize) -> &[(u32, u32)] {
        &self.changes[..self.changes.partition_point(|(position, _)| (*position as usize) < limit)]
    }

    /// Takes into account a record that does not continue the repetition, and returns the period that holds from there on.
    #[inline]
    pub(crate) fn search(
        &mut self,
        reading: Reading,
        records: &[Record],
        position: usize,
        code: u8,
        distances: [u64; 2],
    ) -> usize {
        if self.searching {
            let near = distances.map(|distance| if distance > Self::NEAR { Self::NEAR + 1 } else { distance });
            let content = u64::from(code) << 16 | near[0] << 8 | near[1];
            let mixed = (content + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            for k in 0..2 {
                self.histories[k] = (self.histories[k] << Self::SHIFTS[k]).wrapping_add(mixed);
                let hash = self.histories[k].wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
                let seen = &mut self.seen[k][(hash >> 53) as usize % Self::SLOTS];
                let check = (hash >> 16) as u32 & 0xffff << 16;
                let before = std::mem::replace(seen, check | (position as u32 + 1));
                if before & 0xffff << 16 == check
                    && before & 0xffff != 0
                    && position >= self.rest_until
                    && self.searching
                {
                    self.try_multiples(reading, records, position, position + 1 - (before & 0xffff) as usize);
                }
            }
        }
        self.period
    }

    /// Takes over the best of a candidate and its multiples, if it is good.
    fn try_multiples(&mut self, reading: Reading, records: &[Record], position: usize, candidate: usize) {
        let mut best = (0, 0);
        for period in (1..=Self::MULTIPLES).map(|multiple| multiple * candidate) {
            if period + Self::TRIED > position + 1 {
                break;
            }
            let score = score(reading, records, position, period);
            // Of equals the first, which is the smallest.
            if score > best.0 {
                best = (score, period);
            }
        }
        if best.0 > 0 {
            self.change(position, best.1);
            self.searching = false;
            self.misses = 0;
            self.rest = Self::SHORT_REST;
        } else {
            self.rest_until = position + self.rest;
            self.rest = (2 * self.rest).min(Self::LONG_REST);
        }
    }

    /// Sets the period from a position on, if it is a new one.
    fn change(&mut self, position: usize, period: usize) {
        if period != self.period && self.changes.len() < Self::MAX_CHANGES {
            self.period = period;
            self.changes.push((position as u32, period as u32));
        }
    }

    /// The record at `position` did not repeat the one a period earlier.
    #[inline]
    pub(crate) fn missed(&mut self, position: usize) {
        self.misses = if position - self.last_miss > Self::ROW { 1 } else { self.misses + 1 };
        self.last_miss = position;
        self.searching |= self.misses >= Self::MANY_MISSES;
        if self.misses == Self::HOPELESS {
            self.change(position + 1, 0);
        }
    }
}

/// How well the last records are predicted with a period: predicted operands, minus three times the others.
fn score(reading: Reading, records: &[Record], position: usize, period: usize) -> i32 {
    /// No further records are looked at then.
    const BAD: i32 = -6;
    let mut score = 1;
    for position in position + 1 - PeriodFinder::TRIED..=position {
        let record = &records[position];
        for (k, operand) in reading.operands(record).into_iter().enumerate() {
            if operand != 0 {
                let predicted = predictable_stride(reading, records, position, period, k).is_some();
                score += if predicted { 1 } else { -3 };
            }
        }
        if score <= BAD {
            break;
        }
    }
    score
}
