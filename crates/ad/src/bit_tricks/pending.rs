//! Factors that wait beside an index: what integer operations have done to the upper half of a binary64 number.
//!
//! Programs take this half into a general register or a variable of its own (FDLIBM's `GET_HIGH_WORD` and `SET_HIGH_WORD`), change sign or exponent there,
//! and put the number together again, in either order. There the half's shadow is that of an index, and no operation can be recorded on it. So the factor ±2^k is
//! kept in bits of the half's shadow that an index does not have, and recorded when the whole number is used.
//!
//! ```text
//! bit   63   62     61..59  58..48  47  46   45..32
//!       tag  minus  0       k       0   tag  index
//! ```
//!
//! The exponent k has the eleven bits of a number's, modulo 2^11. The zeros tell this from a `long double` in memory, whose shadow has its own exponent here.

use super::Layout;
use crate::shadow::{WIDE_TAG, wide_index};

/// The upper half of a binary64 number as an integer.
pub(super) const UPPER_HALF: Layout =
    Layout { mantissa: (1 << 20) - 1, sign: 1 << 31, mantissa_bits: 20, exponent_mask: 0x7ff };

const MINUS: u64 = 1 << 62;
const POWER: u64 = 0x7ff << POWER_SHIFT;
const POWER_SHIFT: u32 = 48;
/// Bits above an index that are always the same.
const FIXED: u64 = WIDE_TAG | 0x7 << 59 | 1 << 47;

/// Whether the shadow of four bytes can be that of the upper half of a binary64 number. (A lower half can look like this if its index is above 2^31.)
pub(super) fn is_upper_half(half: u64) -> bool {
    half << 32 & FIXED == WIDE_TAG
}

/// The shadow of an upper half whose number has been multiplied by ±2^k, if the factor that results can be kept.
pub(super) fn scaled(half: u64, ratio: f64) -> Option<u64> {
    let word = half << 32;
    let ratio = ratio * factor(word);
    // Powers that a binary64 number has as a normal one.
    (ratio.is_normal()).then(|| {
        let power = (ratio.to_bits() >> 52 & 0x7ff).wrapping_sub(1023) << POWER_SHIFT & POWER;
        let minus = if ratio < 0.0 { MINUS } else { 0 };
        (word & !(MINUS | POWER) | power | minus) >> 32
    })
}

/// The index of a binary64 number, and the factor that waits beside it; `None` if the word is put together from pieces of other indices.
pub(crate) fn index_and_factor(word: u64) -> Option<(u64, f64)> {
    if word != 0 && word & FIXED != WIDE_TAG {
        return None;
    }
    wide_index(word & !(MINUS | POWER)).map(|index| (index, factor(word)))
}

fn factor(word: u64) -> f64 {
    let exponent = (word & POWER) >> POWER_SHIFT;
    f64::from_bits(((exponent + 1023) & 0x7ff) << 52 | (word & MINUS) << 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::of_wide;

    #[test]
    fn factors_are_multiplied_and_read_back() {
        for index in [5, 0x1234_5678_9abc, (1 << 46) - 1] {
            let word = of_wide(index);
            assert_eq!(index_and_factor(word), Some((index, 1.0)));
            for (first, second) in [(-1.0, 1.0), (8.0, -0.25), (2f64.powi(1000), 2f64.powi(-1000)), (-1.0, -1.0)] {
                let half = scaled(word >> 32, first).and_then(|half| scaled(half, second)).unwrap();
                assert!(is_upper_half(half));
                let whole = half << 32 | word & 0xffff_ffff;
                assert_eq!(index_and_factor(whole), Some((index, first * second)), "{index:#x} {first} {second}");
                assert_eq!(whole == word, first * second == 1.0);
            }
            let [large, small] = [1000, -1000].map(|power| scaled(word >> 32, 2f64.powi(power)).unwrap());
            assert_eq!((scaled(large, 2f64.powi(100)), scaled(small, 2f64.powi(-100))), (None, None));
        }
    }

    #[test]
    fn other_words_have_no_factor() {
        assert_eq!(index_and_factor(0), Some((0, 1.0)));
        let word = of_wide(0x12_3456);
        // Pieces, and the field of a long double for 1.5 and 0.3.
        for other in [word & !0xffff, word >> 32, word << 32, word | 0x4000 << 47, word | 0x3ffe << 47] {
            assert_eq!(index_and_factor(other), None, "{other:#x}");
        }
        for half in [0x4012_3456, 0x12_3456, (word | 0x4000 << 47) >> 32, (word | 0x3ffe << 47) >> 32] {
            assert!(!is_upper_half(half), "{half:#x}");
        }
    }
}
