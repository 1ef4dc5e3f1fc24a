//! The 80-bit format of x87 registers and of `long double`.

/// A number in x87's double-extended format: ten bytes in memory, of which this has the layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Extended {
    /// The significand, with its leading bit.
    pub significand: u64,
    /// The exponent field in the low 15 bits, the sign above it.
    pub high: u16,
}

/// Distance of the exponent field from the exponent.
const BIAS: i32 = 16383;
/// The exponent field of infinities and NaN.
const SPECIAL: u16 = 0x7fff;
const SIGN: u16 = 0x8000;
const LEADING: u64 = 1 << 63;

impl Extended {
    /// Zero.
    pub const ZERO: Extended = Extended { significand: 0, high: 0 };
    /// One.
    pub const ONE: Extended = Extended { significand: LEADING, high: BIAS as u16 };
    /// A quiet NaN.
    pub const NAN: Extended = Extended { significand: 3 << 62, high: SPECIAL };
    /// Bytes in memory.
    pub const BYTES: usize = 10;

    /// From its bytes in memory.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Extended {
        let (significand, high) = bytes.split_first_chunk().expect("ten is more than eight");
        Extended { significand: u64::from_le_bytes(*significand), high: u16::from_le_bytes([high[0], high[1]]) }
    }

    /// Its bytes in memory.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.significand.to_le_bytes());
        bytes[8..].copy_from_slice(&self.high.to_le_bytes());
        bytes
    }

    /// The number with the other sign.
    pub fn negated(self) -> Extended {
        Extended { high: self.high ^ SIGN, ..self }
    }

    /// Whether the sign bit is set.
    pub fn is_negative(self) -> bool {
        self.high & SIGN != 0
    }

    /// Whether it is a zero of either sign.
    pub fn is_zero(self) -> bool {
        self.significand == 0 && self.exponent_field() == 0
    }

    /// Whether it is no number.
    pub fn is_nan(self) -> bool {
        self.exponent_field() == SPECIAL && self.significand << 1 != 0
    }

    fn exponent_field(self) -> u16 {
        self.high & SPECIAL
    }

    /// The exponent of a normal number: its magnitude is from 2^exponent to twice that.
    pub fn exponent(self) -> i32 {
        i32::from(self.exponent_field()) - BIAS
    }

    /// `value`, exactly.
    pub fn from_f64(value: f64) -> Extended {
        let bits = value.to_bits();
        let sign = if value.is_sign_negative() { SIGN } else { 0 };
        let fraction = bits << 12;
        let (significand, field) = match (bits >> 52 & 0x7ff) as i32 {
            0 if fraction == 0 => (0, 0),
            0 => {
                let shift = fraction.leading_zeros();
                (fraction << shift, BIAS - 1023 - shift as i32)
            }
            0x7ff => (LEADING | fraction >> 1, i32::from(SPECIAL)),
            field => (LEADING | fraction >> 1, field + BIAS - 1023),
        };
        Extended { significand, high: sign | field as u16 }
    }

    /// `value`, exactly.
    pub fn from_f32(value: f32) -> Extended {
        Extended::from_f64(value.into())
    }

    /// `value`, exactly.
    pub fn from_i32(value: i32) -> Extended {
        Extended::from_f64(value.into())
    }

    /// The nearest binary64 number, ties to even.
    pub fn to_f64(self) -> f64 {
        f64::from_bits(self.rounded(52, 11))
    }

    /// The nearest binary32 number, ties to even.
    pub fn to_f32(self) -> f32 {
        f32::from_bits(self.rounded(23, 8) as u32)
    }

    /// The bits of the nearest number of a binary interchange format with so many fraction and exponent bits.
    fn rounded(self, fraction_bits: u32, exponent_bits: u32) -> u64 {
        let sign = u64::from(self.is_negative()) << (fraction_bits + exponent_bits);
        let infinity = ((1u64 << exponent_bits) - 1) << fraction_bits;
        if self.is_nan() {
            return sign | infinity | 1 << (fraction_bits - 1);
        }
        if self.significand == 0 {
            return sign;
        }
        // x87 numbers can be denormal, or pretend to be normal without a leading bit.
        let shift = self.significand.leading_zeros();
        let significand = self.significand << shift;
        let exponent = i32::from(self.exponent_field().max(1)) - BIAS - shift as i32;
        let bias = (1 << (exponent_bits - 1)) - 1;
        if exponent > bias || self.exponent_field() == SPECIAL {
            return sign | infinity;
        }
        // Denormal results lose more bits.
        let lost = 63 - fraction_bits + (1 - bias - exponent).max(0) as u32;
        if lost > 64 {
            return sign;
        }
        let kept = if lost == 64 { 0 } else { significand >> lost };
        let rest = if lost == 64 { significand } else { significand << (64 - lost) };
        let half = 1 << 63;
        let up = rest > half || rest == half && kept & 1 != 0;
        // The leading bit is added to the exponent field, and so is a carry.
        let field = (exponent + bias - 1).max(0) as u64;
        let magnitude = (field << fraction_bits) + kept + u64::from(up);
        sign | magnitude.min(infinity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some numbers of either format, with all kinds of exponents and fractions.
    fn samples() -> impl Iterator<Item = u64> {
        let mut state = 1u64;
        (0..100_000).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        })
    }

    fn same(a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
    }

    #[test]
    fn conversions_there_and_back_are_exact() {
        let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 5e-324, -2.5e-310, f64::MAX, f64::MIN_POSITIVE];
        for value in samples().map(f64::from_bits).chain(special) {
            assert!(same(Extended::from_f64(value).to_f64(), value), "{value:e}");
        }
        for value in samples().map(|bits| f32::from_bits(bits as u32)) {
            assert!(same(Extended::from_f32(value).to_f32().into(), value.into()), "{value:e}");
            let wide = f64::from_bits(u64::from(value.to_bits()) << 32);
            assert!(same(Extended::from_f64(wide).to_f32().into(), (wide as f32).into()), "{wide:e}");
        }
    }

    #[test]
    fn rounding_agrees_with_the_processor() {
        for bits in samples() {
            // Around the range of binary64, and often halfway between two numbers.
            let exponent = 16383 - 1090 + (bits % 2180) as u16;
            let significand = LEADING | if bits & 1 << 20 == 0 { bits } else { bits & !0x3ff | 0x400 };
            let value = Extended { significand, high: exponent | (bits >> 40) as u16 & SIGN };
            let mut expected = (0.0f64, 0.0f32);
            // SAFETY: loads ten bytes and stores eight and four; the x87 stack is left as it was.
            unsafe {
                std::arch::asm!(
                    "fld tbyte ptr [{value}]",
                    "fst qword ptr [{wide}]",
                    "fstp dword ptr [{narrow}]",
                    value = in(reg) &raw const value,
                    wide = in(reg) &raw mut expected.0,
                    narrow = in(reg) &raw mut expected.1,
                    out("st(0)") _,
                    options(nostack)
                );
            }
            assert!(same(value.to_f64(), expected.0), "{value:?}: {:e} {:e}", value.to_f64(), expected.0);
            assert!(same(value.to_f32().into(), expected.1.into()), "{value:?}");
        }
    }

    #[test]
    fn bytes_are_as_in_memory() {
        let value = Extended::from_f64(-1.5);
        assert_eq!(value.to_bytes(), [0, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0xbf]);
        assert_eq!(Extended::from_bytes(value.to_bytes()), value);
        assert_eq!((value.exponent(), value.is_negative(), Extended::ONE.to_f64()), (0, true, 1.0));
    }
}
