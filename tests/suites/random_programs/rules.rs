//! What the operations of random programs compute, and their derivatives.

/// Value and partial derivatives for operands and an integer; `None` where the function is not smooth, or nearly so.
pub type Rule = fn(&[f64], i32) -> Option<(f64, Vec<f64>)>;

/// A value with a partial derivative for each operand.
pub fn value<const OPERANDS: usize>(value: f64, partials: [f64; OPERANDS]) -> Option<(f64, Vec<f64>)> {
    Some((value, partials.to_vec()))
}

/// Whether two numbers are so far apart that rounding errors do not change their order.
fn apart(left: f64, right: f64) -> Option<()> {
    ((left - right).abs() > 1e-2 * left.abs().max(right.abs())).then_some(())
}

/// Whether a number is clearly no multiple of 1/`parts`.
fn between_steps(number: f64, parts: f64) -> Option<()> {
    let scaled = number * parts;
    ((scaled - scaled.round()).abs() > 1e-2).then_some(())
}

/// One operand, with a partial derivative for it alone.
fn chosen(x: &[f64], which: usize) -> Option<(f64, Vec<f64>)> {
    let mut partials = vec![0.0; x.len()];
    partials[which] = 1.0;
    Some((x[which], partials))
}

pub fn add(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    value(x[0] + x[1], [1.0, 1.0])
}

pub fn subtract(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    value(x[0] - x[1], [1.0, -1.0])
}

pub fn multiply(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    value(x[0] * x[1], [x[1], x[0]])
}

pub fn divide(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    value(x[0] / x[1], [1.0 / x[1], -x[0] / (x[1] * x[1])])
}

pub fn fused(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    value(x[0] * x[1] + x[2], [x[1], x[0], 1.0])
}

pub fn root(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    let root = x[0].abs().sqrt();
    value(root, [x[0].signum() / (2.0 * root)])
}

pub fn negate(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    value(-x[0], [-1.0])
}

pub fn absolute(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    value(x[0].abs(), [x[0].signum()])
}

pub fn copy_sign(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    value(x[0].copysign(x[1]), [x[0].signum() * x[1].signum(), 0.0])
}

pub fn multiplied_sign(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    value(x[0] * x[1].signum(), [x[1].signum(), 0.0])
}

pub fn minimum(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    apart(x[0], x[1])?;
    chosen(x, usize::from(x[1] < x[0]))
}

pub fn maximum(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    apart(x[0], x[1])?;
    chosen(x, usize::from(x[1] > x[0]))
}

pub fn select(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    chosen(x, usize::from(x[2] >= 0.0))
}

/// By masks, or by the difference of their bits, which compilers make of masks.
pub fn select_of_unequal(x: &[f64], k: i32) -> Option<(f64, Vec<f64>)> {
    unequal(x)?;
    select(x, k)
}

pub fn maximum_of_unequal(x: &[f64], k: i32) -> Option<(f64, Vec<f64>)> {
    unequal(x)?;
    maximum(x, k)
}

/// Whether two numbers have clearly different mantissas: from the difference of their bits equal ones cannot be told apart, and one that is a power of two times the other
/// looks like that one scaled.
fn unequal(x: &[f64]) -> Option<()> {
    let mantissa = |number: f64| 2f64.powf(number.abs().log2().rem_euclid(1.0));
    let (first, second) = (mantissa(x[0]), mantissa(x[1]));
    apart(first, second)?;
    // 1 and nearly 2.
    ((first - second).abs() < 0.99).then_some(())
}

pub fn between(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    apart(x[2], x[3])?;
    chosen(x, usize::from(x[2] >= x[3]))
}

pub fn median(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    apart(x[0], x[1])?;
    apart(x[1], x[2])?;
    apart(x[0], x[2])?;
    let mut order = [0, 1, 2];
    order.sort_by(|&left, &right| x[left].total_cmp(&x[right]));
    chosen(x, order[1])
}

pub fn scale_up(x: &[f64], k: i32) -> Option<(f64, Vec<f64>)> {
    value(x[0] * 2f64.powi(k), [2f64.powi(k)])
}

pub fn scale_down(x: &[f64], k: i32) -> Option<(f64, Vec<f64>)> {
    scale_up(x, -k)
}

pub fn fraction(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    let mut factor = 1.0;
    while (x[0] * factor).abs() >= 1.0 {
        factor /= 2.0;
    }
    while (x[0] * factor).abs() < 0.5 {
        factor *= 2.0;
    }
    // Rounding could bring a number over a power of two.
    apart((x[0] * factor).abs(), 1.0)?;
    apart((x[0] * factor).abs(), 0.5)?;
    value(x[0] * factor, [factor])
}

pub fn rest_of_nearest(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    between_steps(x[0], 2.0)?;
    value(x[0] - x[0].round(), [1.0])
}

pub fn rest_of_lower(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    between_steps(x[0], 1.0)?;
    value(x[0] - x[0].floor(), [1.0])
}

pub fn rest_towards_zero(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    between_steps(x[0], 1.0)?;
    value(x[0] - x[0].trunc(), [1.0])
}

pub fn interpolated(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    const TABLE: [f64; 10] = [1.0, 3.0, 2.0, 5.0, 4.0, 7.0, 6.0, 9.0, 8.0, 11.0];
    between_steps(x[0], 1.0 / 16.0)?;
    let position = x[0].abs() / 16.0;
    let [low, high] = [position.floor() as usize, position.floor() as usize + 1].map(|entry| TABLE.get(entry));
    let (low, high) = (low?, high?);
    value(low + position.fract() * (high - low), [x[0].signum() / 16.0 * (high - low)])
}

pub fn same(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    between_steps(x[0], 16.0)?;
    chosen(x, 0)
}

pub fn first(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    chosen(x, 0)
}

pub fn polynomial(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    let [a, b] = [x[0], x[1]];
    let powers = 1.0 + a + a * a + a * a * a;
    value(b * powers, [b * (1.0 + 2.0 * a + 3.0 * a * a), powers])
}

pub fn complex_square(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    let [a, b, c] = [x[0], x[1], x[2]];
    value(a * a - b * b + 2.0 * a * b * c, [2.0 * a + 2.0 * b * c, 2.0 * a * c - 2.0 * b, 2.0 * a * b])
}

/// (a + bi) / (c + 2i) = ((ac + 2b) + (bc - 2a)i) / (c² + 4)
pub fn complex_quotient(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    let [a, b, c] = [x[0], x[1], x[2]];
    let (norm, numerator) = (c * c + 4.0, a * c + 2.0 * b - b * c + 2.0 * a);
    value(numerator / norm, [(c + 2.0) / norm, (2.0 - c) / norm, (a - b) / norm - 2.0 * c * numerator / (norm * norm)])
}

/// a·d + a - (b·c + b) + (c·b + c) - (d·a + d)
pub fn shuffled(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    value(x[0] - x[1] + x[2] - x[3], [1.0, -1.0, 1.0, -1.0])
}

/// The larger of a and c, three times, and that of b and d, twice.
pub fn larger_pairs(x: &[f64], _: i32) -> Option<(f64, Vec<f64>)> {
    apart(x[0], x[2])?;
    apart(x[1], x[3])?;
    let mut partials = [0.0; 4];
    partials[if x[0] > x[2] { 0 } else { 2 }] = 3.0;
    partials[if x[1] > x[3] { 1 } else { 3 }] = 2.0;
    value(3.0 * x[0].max(x[2]) + 2.0 * x[1].max(x[3]), partials)
}
