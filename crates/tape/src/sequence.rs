//! The sequence of form numbers in a block, which is mostly a repetition of itself.
//!
//! It is stored as alternating parts: a number of literals and the literals, a number of repeated ones and how far back they are found.
//! Numbers are little-endian base 128 with a continuation bit; the last part may be missing.

/// Shorter repetitions are not worth their numbers.
const SHORTEST_REPETITION: usize = 8;

/// Appends the encoded `sequence` to `out`. Repetitions are looked for at the distance that holds at the place according to `periods`.
pub(crate) fn encode(sequence: &[u8], periods: &[(u32, u32)], out: &mut Vec<u8>) {
    let mut periods = periods.iter().peekable();
    let mut period = 0;
    let (mut position, mut literals) = (0, 0);
    while position < sequence.len() {
        while let Some((_, next)) = periods.next_if(|(from, _)| *from as usize <= position) {
            period = *next as usize;
        }
        let end = periods.peek().map_or(sequence.len(), |(from, _)| sequence.len().min(*from as usize));
        let repeated = if period == 0 { 0 } else { common(&sequence[position..end], &sequence[position - period..]) };
        if repeated < SHORTEST_REPETITION {
            position += repeated.max(1);
            continue;
        }
        put_number(out, position - literals);
        out.extend_from_slice(&sequence[literals..position]);
        put_number(out, repeated);
        put_number(out, period);
        position += repeated;
        literals = position;
    }
    if literals < position {
        put_number(out, position - literals);
        out.extend_from_slice(&sequence[literals..position]);
    }
}

/// Length of the common beginning.
fn common(a: &[u8], b: &[u8]) -> usize {
    const GROUP: usize = 16;
    let length = a.len().min(b.len());
    let groups = a.chunks_exact(GROUP).zip(b.chunks_exact(GROUP));
    let equal = GROUP * groups.take_while(|(a, b)| a == b).count();
    equal + a[equal..length].iter().zip(&b[equal..length]).take_while(|(a, b)| a == b).count()
}

/// A part of a sequence that repeats what is `back` before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repetition {
    pub(crate) start: usize,
    pub(crate) length: usize,
    pub(crate) back: usize,
}

/// Replaces `out` by the decoded sequence of `length` numbers, and `repetitions` by those in it; `None` if `bytes` are not one.
pub(crate) fn decode(
    mut bytes: &[u8],
    length: usize,
    out: &mut Vec<u8>,
    repetitions: &mut Vec<Repetition>,
) -> Option<()> {
    out.clear();
    repetitions.clear();
    while !bytes.is_empty() {
        let literals = take_number(&mut bytes)?;
        if literals > bytes.len() || literals > length - out.len() {
            return None;
        }
        let (these, rest) = bytes.split_at(literals);
        out.extend_from_slice(these);
        bytes = rest;
        if bytes.is_empty() {
            break;
        }
        let mut repeated = take_number(&mut bytes)?;
        let back = take_number(&mut bytes)?;
        if repeated > length - out.len() || back == 0 || back > out.len() {
            return None;
        }
        repetitions.push(Repetition { start: out.len(), length: repeated, back });
        // The repetition may overlap itself: what is there already doubles with each step.
        let from = out.len() - back;
        while repeated > 0 {
            let step = repeated.min(out.len() - from);
            out.extend_from_within(from..from + step);
            repeated -= step;
        }
    }
    (out.len() == length).then_some(())
}

fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for shift in [0, 7, 14, 21] {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= usize::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(sequence: &[u8], periods: &[(u32, u32)]) -> usize {
        let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
        encode(sequence, periods, &mut encoded);
        decode(&encoded, sequence.len(), &mut decoded, &mut Vec::new()).unwrap();
        assert_eq!(decoded, sequence);
        encoded.len()
    }

    #[test]
    fn repetitions_cost_nothing() {
        let sequence: Vec<u8> = (0..8000).map(|k| (k % 14) as u8).collect();
        assert!(round_trip(&sequence, &[(14, 14)]) < 22);
        assert!(round_trip(&[5; 8000], &[(1, 1)]) < 10);
        assert!(round_trip(&sequence, &[]) < 8000 + 4);
        assert_eq!(round_trip(&[], &[]), 0);
    }

    proptest! {
        #[test]
        fn any_sequence_comes_back(sequence in prop::collection::vec(0_u8..3, 1..400), step in 1_u32..90, period in 1_u32..90) {
            let periods: Vec<(u32, u32)> = (1..4).map(|k| (90 + k * step, 1 + (period * k) % 90)).collect();
            round_trip(&sequence, &periods);
        }

        #[test]
        fn nonsense_is_refused_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), length in 0_usize..100) {
            let mut out = Vec::new();
            if decode(&bytes, length, &mut out, &mut Vec::new()).is_some() {
                prop_assert_eq!(out.len(), length);
            }
        }
    }
}
