//! Sums and products in 80 bits by integer arithmetic: faster than putting the state of the x87 unit aside.

use super::Extended;

const LEADING: u64 = 1 << 63;
const SIGN: u16 = 0x8000;

/// The exponent field of a normal number.
fn field(value: Extended) -> Option<i32> {
    let field = i32::from(value.high & !SIGN);
    (value.significand & LEADING != 0 && field != 0 && field != 0x7fff).then_some(field)
}

/// The normal number with this sign, nearest to `significand` times two to the power of `exponent_field`, which belongs to a leading bit at bit 127. `sticky`
/// says that there is something below the lowest bit. `None` if it is no normal number.
fn rounded(sign: u16, significand: u128, exponent_field: i32, sticky: bool) -> Option<Extended> {
    if significand == 0 {
        return None;
    }
    let shift = significand.leading_zeros();
    let (significand, mut field) = (significand << shift, exponent_field - shift as i32);
    let (mut high, low) = ((significand >> 64) as u64, significand as u64);
    let tie = low == LEADING && !sticky;
    if low & LEADING != 0 && (!tie || high & 1 != 0) {
        high = high.wrapping_add(1);
        if high == 0 {
            high = LEADING;
            field += 1;
        }
    }
    (1..0x7fff).contains(&field).then_some(Extended { significand: high, high: sign | field as u16 })
}

/// `a * b`, rounded to nearest; `None` where something else than normal numbers is involved.
pub(super) fn multiply(a: Extended, b: Extended) -> Option<Extended> {
    let exponent = field(a)? + field(b)? - 0x3fff + 1;
    rounded((a.high ^ b.high) & SIGN, u128::from(a.significand) * u128::from(b.significand), exponent, false)
}

/// `a + b`, rounded to nearest; `None` where something else than normal numbers and a positive zero is involved.
pub(super) fn add(a: Extended, b: Extended) -> Option<Extended> {
    match (a == Extended::ZERO, b == Extended::ZERO) {
        (false, true) => return field(a).map(|_| a),
        (true, false) => return field(b).map(|_| b),
        _ => {}
    }
    let (field_a, field_b) = (field(a)?, field(b)?);
    let ((large, large_field), (small, small_field)) =
        if field_a >= field_b { ((a, field_a), (b, field_b)) } else { ((b, field_b), (a, field_a)) };
    // One bit of room for a carry.
    let (x, y) = (u128::from(large.significand) << 63, u128::from(small.significand) << 63);
    let distance = (large_field - small_field) as u32;
    let (y, sticky) = if distance >= 127 {
        (0, true)
    } else {
        (y >> distance, y << (128 - distance.max(1)) << u32::from(distance == 0) != 0)
    };
    let (sign, exponent) = (large.high & SIGN, large_field + 1);
    if (a.high ^ b.high) & SIGN == 0 {
        return rounded(sign, x + y, exponent, sticky);
    }
    // What is below the lowest bit of the smaller one is taken from the difference: the bit below that is set.
    let difference = x.wrapping_sub(y).wrapping_sub(u128::from(sticky));
    match (difference as i128) < 0 && large_field == small_field {
        true => rounded(sign ^ SIGN, difference.wrapping_neg(), exponent, sticky),
        false => rounded(sign, difference, exponent, sticky),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x87::Session;

    #[test]
    fn results_are_those_of_the_processor() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ state >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        let session = Session::begin();
        let (mut sums, mut products) = (0, 0);
        for round in 0..400_000u64 {
            let mut number = |spread: u64| {
                // Few bits, so that there are ties; exponents that are close, so that there is cancellation.
                let mask = match next() % 4 {
                    0 => u64::MAX,
                    1 => !0 << 32,
                    2 => !0 << 60,
                    _ => !0xff,
                };
                let significand = LEADING | next() & mask | if next() % 3 == 0 { 1 } else { 0 };
                Extended { significand, high: (0x3fff + (next() % spread) as u16) | (next() as u16 & SIGN) }
            };
            let spread = [1, 3, 70, 140][(round % 4) as usize];
            let (a, b) = (number(spread), number(spread));
            if let Some(sum) = add(a, b) {
                assert_eq!(sum, session.unit_add(a, b), "{a:x?} + {b:x?}");
                sums += 1;
            }
            if let Some(product) = multiply(a, b) {
                assert_eq!(product, session.unit_multiply(a, b), "{a:x?} * {b:x?}");
                products += 1;
            }
        }
        assert!(sums > 350_000 && products == 400_000, "{sums} {products}");
    }

    #[test]
    fn what_is_not_normal_is_left_to_the_processor() {
        let of = Extended::from_f64;
        let smallest = Extended { significand: LEADING, high: 1 };
        let largest = Extended { significand: u64::MAX, high: 0x7ffe };
        assert_eq!(multiply(smallest, of(0.5)), None);
        assert_eq!(multiply(largest, of(1.5)), None);
        assert_eq!(add(largest, largest), None);
        assert_eq!(add(of(1.5), of(-1.5)), None);
        assert_eq!(add(of(f64::NAN), of(1.0)), None);
        assert_eq!(add(of(1.5), Extended::ZERO), Some(of(1.5)));
        assert_eq!(multiply(of(1.5), Extended::ZERO), None);
    }
}
