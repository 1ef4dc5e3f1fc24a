//! Comparison of numbers, and numbers that are drawn the same way everywhere.

/// Whether `value` is within `tolerance` of `expected`, relative to the larger of `expected` and `scale` in magnitude.
///
/// `scale` is the size of the vector that the number belongs to: a component that is small because larger contributions
/// cancel carries their rounding errors.
pub fn close(value: f64, expected: f64, scale: f64, tolerance: f64) -> bool {
    value == expected || (value - expected).abs() <= tolerance * expected.abs().max(scale)
}

/// Largest magnitude among `values`.
pub fn magnitude(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, value| value.abs().max(largest))
}

/// Sum of products.
pub fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

/// The generator SplitMix64 (Steele, Lea, Flood 2014), which the test programs implement in C as well.
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Next number, uniform in [-1, 1).
    pub fn number(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * 2f64.powi(-52) - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closeness_is_relative_to_value_and_scale() {
        assert!(close(1.0 + 1e-13, 1.0, 0.0, 1e-12));
        assert!(!close(1.0 + 1e-11, 1.0, 0.0, 1e-12));
        assert!(close(1e-13, 0.0, 1.0, 1e-12));
        assert!(!close(1e-13, 0.0, 0.0, 1e-12));
        assert!(close(0.0, -0.0, 0.0, 0.0));
        assert!(!close(f64::NAN, 1.0, 1.0, 1.0));
    }

    #[test]
    fn splitmix_gives_the_published_sequence() {
        // First outputs for seed 0 of the reference implementation.
        let mut generator = SplitMix64(0);
        assert_eq!(generator.bits(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(generator.bits(), 0x6e78_9e6a_a1b9_65f4);
        assert!((0..1000).all(|_| (-1.0..1.0).contains(&generator.number())));
    }
}
