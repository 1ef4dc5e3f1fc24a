//! Operand values that floating-point code meets, ordinary and not.

use derivgrind_native::Random;

/// Format of a real number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// binary32
    Single,
    /// binary64
    Double,
}

impl Format {
    /// Bytes of a number.
    pub const fn bytes(self) -> usize {
        match self {
            Format::Single => 4,
            Format::Double => 8,
        }
    }

    /// Bits of the mantissa.
    pub const fn mantissa_bits(self) -> u32 {
        match self {
            Format::Single => 23,
            Format::Double => 52,
        }
    }

    /// The sign bit.
    pub const fn sign(self) -> u64 {
        1 << (8 * self.bytes() - 1)
    }

    /// All bits of the exponent, as a number.
    pub const fn exponent_mask(self) -> u64 {
        match self {
            Format::Single => 0xff,
            Format::Double => 0x7ff,
        }
    }

    /// The number with these bits.
    pub fn value(self, bits: u64) -> f64 {
        match self {
            Format::Single => f32::from_bits(bits as u32).into(),
            Format::Double => f64::from_bits(bits),
        }
    }

    /// The bits of a number, rounded.
    pub fn bits(self, value: f64) -> u64 {
        match self {
            Format::Single => (value as f32).to_bits().into(),
            Format::Double => value.to_bits(),
        }
    }

    /// The exponent field of a number.
    pub const fn exponent(self, bits: u64) -> u64 {
        bits >> self.mantissa_bits() & self.exponent_mask()
    }

    /// Whether a number is neither zero, denormal, infinite nor NaN.
    pub const fn is_normal(self, bits: u64) -> bool {
        let exponent = self.exponent(bits);
        exponent != 0 && exponent != self.exponent_mask()
    }

    /// Distance between 1 and the next number.
    pub fn epsilon(self) -> f64 {
        2f64.powi(-(self.mantissa_bits() as i32))
    }

    /// The smallest normal number.
    pub fn smallest_normal(self) -> f64 {
        self.value(1 << self.mantissa_bits())
    }

    /// The largest finite number.
    pub fn largest(self) -> f64 {
        self.value((self.exponent_mask() << self.mantissa_bits()) - 1)
    }
}

/// A normal number of moderate size.
pub fn moderate(format: Format, random: &mut Random) -> u64 {
    let bias = format.exponent_mask() / 2;
    let exponent = bias - 6 + random.below(12);
    let mantissa = random.bits() & ((1 << format.mantissa_bits()) - 1);
    let sign = if random.below(2) == 0 { 0 } else { format.sign() };
    sign | exponent << format.mantissa_bits() | mantissa
}

/// Any number: mostly a moderate one, else a zero, an infinity, NaN, a denormal, a huge or tiny one, a small integer.
pub fn any(format: Format, random: &mut Random) -> u64 {
    let mantissa = random.bits() & ((1 << format.mantissa_bits()) - 1);
    let sign = if random.below(2) == 0 { 0 } else { format.sign() };
    let with = |exponent: u64, mantissa: u64| sign | exponent << format.mantissa_bits() | mantissa;
    let last = format.exponent_mask();
    match random.below(20) {
        0 | 1 => with(0, 0),
        2 => with(last, 0),
        3 => with(last, mantissa | 1 << (format.mantissa_bits() - 1)),
        4 => with(0, mantissa),
        5 => with(last - 1 - random.below(3), mantissa),
        6 => with(1 + random.below(3), mantissa),
        7 => format.bits(random.below(4) as f64 - 1.0),
        _ => moderate(format, random),
    }
}

/// What integer code combines numbers with: masks of signs, exponents and mantissas, exponents to add, other numbers.
pub fn mask(format: Format, random: &mut Random) -> u64 {
    let all = format.sign() | (format.sign() - 1);
    let mantissa = (1 << format.mantissa_bits()) - 1;
    let exponent = all & !format.sign() & !mantissa;
    match random.below(12) {
        0 => format.sign(),
        1 => all & !format.sign(),
        2 => all,
        3 => 0,
        4 => exponent,
        5 => all & !exponent,
        6 => mantissa,
        7 | 8 => (random.below(9).wrapping_sub(4) << format.mantissa_bits()) & all,
        9 => format.bits(1.0),
        10 => random.bits() & all,
        _ => any(format, random),
    }
}
