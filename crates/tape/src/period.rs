//! Finds the period of a program's loops in its records.

/// Looks for the period with which operations and their distances repeat.
///
/// While records repeat, nothing is done. When too many do not, the finder takes a hash of the last few records at each record and
/// looks where the same hash was last. Whatever it finds is a guess that the encoder tries.
pub(crate) struct PeriodFinder {
    period: usize,
    /// Places where the period changes, with the new one.
    changes: Vec<(u32, u32)>,
    /// For each hash, check bits and the position plus one where it was last seen.
    seen: Box<[u32; PeriodFinder::SLOTS]>,
    /// Mixed content of the last records.
    recent: [u64; 3],
    searching: bool,
    misses: u32,
    last_miss: usize,
}

impl PeriodFinder {
    const SLOTS: usize = 4096;
    /// Changes of the period in a block.
    pub(crate) const MAX_CHANGES: usize = 1024;
    /// Misses in a row, each within [`ROW`](Self::ROW) records of the one before, after which a new period is looked for.
    const MANY_MISSES: u32 = 8;
    const ROW: usize = 64;

    pub(crate) fn new() -> PeriodFinder {
        PeriodFinder {
            period: 0,
            changes: Vec::with_capacity(Self::MAX_CHANGES),
            seen: Box::new([0; Self::SLOTS]),
            recent: [0; 3],
            searching: true,
            misses: 0,
            last_miss: 0,
        }
    }

    /// Forgets everything, for a new block.
    pub(crate) fn clear(&mut self) {
        self.period = 0;
        self.changes.clear();
        self.seen.fill(0);
        self.recent = [0; 3];
        self.searching = true;
        self.misses = 0;
        self.last_miss = 0;
    }

    /// The period at the present position; 0 for none.
    #[inline]
    pub(crate) fn current(&self) -> usize {
        self.period
    }

    /// The places below `limit` where the period changes, with the new one.
    pub(crate) fn changes(&self, limit: usize) -> &[(u32, u32)] {
        &self.changes[..self.changes.partition_point(|(position, _)| (*position as usize) < limit)]
    }

    /// Takes into account a record that does not continue the repetition, and returns the period that holds from there on.
    #[inline]
    pub(crate) fn search(&mut self, position: usize, code: u8, distances: [u64; 2]) -> usize {
        if !self.searching {
            return self.period;
        }
        const MULTIPLIERS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9];
        let content = [u64::from(code) + 1, distances[0], distances[1]];
        let mixed = (0..3).fold(0, |sum: u64, k| sum.wrapping_add(content[k].wrapping_mul(MULTIPLIERS[k])));
        let [one, two, three] = self.recent;
        self.recent = [mixed, one, two];
        let hash =
            (mixed ^ one.rotate_left(13) ^ two.rotate_left(26) ^ three.rotate_left(39)).wrapping_mul(MULTIPLIERS[0]);
        let seen = &mut self.seen[(hash >> 52) as usize % Self::SLOTS];
        let check = (hash >> 16) as u32 & 0xffff << 16;
        let before = *seen;
        *seen = check | (position as u32 + 1);
        if before & 0xffff << 16 == check && before & 0xffff != 0 {
            let period = position + 1 - (before & 0xffff) as usize;
            if period != self.period && self.changes.len() < Self::MAX_CHANGES {
                self.period = period;
                self.changes.push((position as u32, period as u32));
                self.searching = false;
                self.misses = 0;
            }
        }
        self.period
    }

    /// The record at `position` did not repeat the one a period earlier.
    #[inline]
    pub(crate) fn missed(&mut self, position: usize) {
        self.misses = if position - self.last_miss > Self::ROW { 1 } else { self.misses + 1 };
        self.last_miss = position;
        if self.misses >= Self::MANY_MISSES {
            self.searching = true;
        }
    }
}
