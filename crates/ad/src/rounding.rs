//! Rounding constants: `(x + C) - C` with `C` = 1.5·2^k rounds `x` to a multiple of a power of two, as libraries do instead of calling
//! `rint`. It is a step function: its derivative is 0.
//!
//! The addition alone does not tell that from a sum like any other, such as `C + x` in a quotient of complex numbers that have been scaled by a
//! power of two. So it has derivative 1, its result is remembered in [`sums`], and the subtraction of such a constant from a remembered sum
//! makes the result passive. What a program does to the bits of a remembered sum, to have the rounded number as an integer, is no loss.
//!
//! Constants are told from other numbers by their bits, and only if they are too large for anything else: at least 2^36 in binary64,
//! 2^16 in binary32. The low bits of the mantissa do not matter: vector libraries add a small number to the constant, such as the bias of an exponent above
//! the index into a table, and take off another one than they have added, as Intel's cosine (which NumPy contains) does to have an odd multiple of 1/2.

pub(crate) mod sums;

use crate::ir::{Format, Place, RealOperation};
use crate::shadow;

/// What the bits of a rounding constant look like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    /// Bits of a number.
    pub bits: u32,
    /// Bits of the exponent field.
    pub exponent_bits: u32,
    /// 2^p for a mantissa of p bits: the oldest of these constants, the only one without the factor 1.5.
    pub plain: u64,
    /// Smallest exponent field of the others.
    pub first_exponent: u64,
    /// How many exponent fields follow it.
    pub further_exponents: u64,
    /// How many low bits of the mantissa there are that do not matter: it is rounded to the others.
    pub free_bits: u32,
}

/// The pattern of a format.
pub(crate) const fn pattern(format: Format) -> Pattern {
    match format {
        Format::Binary64 => Pattern {
            bits: 64,
            exponent_bits: 11,
            plain: 0x4330_0000_0000_0000,
            first_exponent: 1023 + 36,
            further_exponents: 18,
            free_bits: 24,
        },
        Format::Binary32 => Pattern {
            bits: 32,
            exponent_bits: 8,
            plain: 0x4b00_0000,
            first_exponent: 127 + 16,
            further_exponents: 9,
            free_bits: 13,
        },
    }
}

impl Pattern {
    /// The smallest number that can be a rounding constant; all of them are at least as large.
    pub const fn threshold(&self) -> u64 {
        self.first_exponent << self.mantissa_bits()
    }

    /// All bits but the sign.
    pub const fn magnitude(&self) -> u64 {
        u64::MAX >> (65 - self.bits)
    }

    /// What the mantissa is rounded with: half of the first bit that matters.
    pub const fn half(&self) -> u64 {
        1 << (self.free_bits - 1)
    }

    /// Whether a number with these bits is as large as sums with a rounding constant are.
    pub const fn is_large(&self, bits: u64) -> bool {
        bits & self.magnitude() >= (self.first_exponent - 1) << self.mantissa_bits()
    }

    /// Bits of the mantissa that matter.
    pub const fn mantissa_bits_that_matter(&self) -> u32 {
        self.mantissa_bits() - self.free_bits
    }

    const fn mantissa_bits(&self) -> u32 {
        self.bits - 1 - self.exponent_bits
    }

    /// Whether a number with these bits is a rounding constant.
    pub fn matches(&self, bits: u64) -> bool {
        let rounded = ((bits & self.magnitude()) + self.half()) >> self.free_bits;
        let mantissa_bits = self.mantissa_bits_that_matter();
        let (exponent, mantissa) = (rounded >> mantissa_bits, rounded & ((1 << mantissa_bits) - 1));
        let exponents = self.first_exponent..=self.first_exponent + self.further_exponents;
        rounded == self.plain >> self.free_bits || mantissa == 1 << (mantissa_bits - 1) && exponents.contains(&exponent)
    }
}

/// Whether adding a constant to `sum`, or subtracting one from the other (`subtracts`), can undo the addition that has made the sum: the signs fit, and
/// what the sum has beside the constant is small enough to have been rounded. Bits above those of the format do not count.
pub(crate) fn cancels(format: Format, subtracts: bool, sum: u64, constant: u64) -> bool {
    let pattern = pattern(format);
    let exponent = |bits: u64| (bits & pattern.magnitude()) >> pattern.mantissa_bits();
    let signs_differ = (sum ^ constant) & (pattern.magnitude() + 1) != 0;
    signs_differ != subtracts && exponent(sum).abs_diff(exponent(constant)) <= 1
}

/// Whether rounding constants can be operands of this operation.
pub(crate) fn concerns(operation: RealOperation) -> bool {
    matches!(operation, RealOperation::Add | RealOperation::Sub)
}

/// Whether an operand has a value somewhere: the product inside a fused multiply-add has none.
pub(crate) fn has_value(place: Place) -> bool {
    match place {
        Place::Memory { .. } => true,
        Place::Register(offset) => (shadow::VECTOR..shadow::X87).contains(&offset) || offset >= shadow::OPERAND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_undoes_an_addition_has_the_size_and_the_sign_for_it() {
        let constant = 1.5 * 2f64.powi(52);
        let cancels = |subtracts, sum: f64, constant: f64| {
            cancels(Format::Binary64, subtracts, sum.to_bits(), constant.to_bits())
        };
        for x in [0.0, 77.0, -3.0, 0.4 * constant, -0.5 * constant] {
            assert!(cancels(true, x + constant, constant) && cancels(false, x + constant, -constant), "{x}");
            assert!(cancels(true, x - constant, -constant) && cancels(false, x - constant, constant), "{x}");
            assert!(!cancels(false, x + constant, constant) && !cancels(true, x + constant, -constant), "{x}");
        }
        assert!(!cancels(true, 77.0, constant) && !cancels(true, 8.0 * constant, constant));
        let plain = 8388608.0f32;
        let narrow = |sum: f32| super::cancels(Format::Binary32, true, sum.to_bits().into(), plain.to_bits().into());
        let left_over = u64::from((plain + 9.0).to_bits()) | 0xbff0_0000 << 32;
        assert!(super::cancels(Format::Binary32, true, left_over, plain.to_bits().into()));
        assert!(narrow(plain + 9.0) && narrow(plain - 9.0) && !narrow(9.0) && !narrow(-plain));
    }

    #[test]
    fn only_large_powers_of_two_times_one_and_a_half_match() {
        let wide = pattern(Format::Binary64);
        let matches = |value: f64| wide.matches(value.to_bits());
        // 2^52, 1.5·2^52 and the finer and coarser ones of exponential functions.
        for value in [4503599627370496.0, 6755399441055744.0, 6755399441055744.0 / 128.0, -6755399441055744.0 * 4.0] {
            assert!(matches(value), "{value}");
            assert!(value.abs().to_bits() >= wide.threshold());
        }
        // 1.5·2^48 with the bias of an exponent above four bits, and 1.5·2^51 - 1/2.
        assert!(wide.matches(0x42f8_0000_0000_3ff0) && wide.matches(0x4327_ffff_ffff_ffff));
        assert!(wide.matches(0x42f8_0000_000f_fc00));
        assert!(!wide.matches(0x42f8_0000_0080_0000) && !wide.matches(0x42f7_ffff_ff7f_ffff));
        for value in [0.0, 3.0, 1.5 * 1024.0, 1099511627776.0, 6755399457832961.0, f64::INFINITY, f64::NAN, 1.5e300] {
            assert!(!matches(value), "{value}");
        }
        let narrow = pattern(Format::Binary32);
        assert!(narrow.matches(12582912.0f32.to_bits().into()) && narrow.matches((-8388608.0f32).to_bits().into()));
        assert!(narrow.matches(12585984.0f32.to_bits().into()) && !narrow.matches(12587520.0f32.to_bits().into()));
        assert!(!narrow.matches(6.0f32.to_bits().into()));
    }
}
