//! The reference data: points, values and partial derivatives in high precision.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use derivgrind_ad::math::{self, Argument, MathFunction};

/// With this in the environment there are a thousand points for each function, which take some minutes to compute.
const FULL: &str = "DERIVGRIND_TEST_FULL";

/// A point at which a function's partial derivatives are known.
pub struct Point {
    /// The binary64 function.
    pub function: &'static MathFunction,
    /// Its integer argument, or 0.
    pub integer: i64,
    /// Its real arguments.
    pub reals: Vec<f64>,
    /// Its value: two numbers if it is complex.
    pub value: Vec<f64>,
    /// Partial derivatives with respect to each argument: of a complex function with respect to the complex arguments, each as two numbers.
    pub partials: Vec<f64>,
}

impl Point {
    /// Whether the function's arguments are complex and its value is, too.
    pub fn is_complex(&self) -> bool {
        self.value.len() == 2 && self.function.arguments.contains(&Argument::Complex)
    }

    /// Partial derivatives of each result with respect to each real argument.
    pub fn rows(&self) -> Vec<Vec<f64>> {
        if !self.is_complex() {
            return vec![self.partials.clone()];
        }
        // The Cauchy-Riemann equations.
        let real = self.partials.chunks(2).flat_map(|slope| [slope[0], -slope[1]]).collect();
        let imaginary = self.partials.chunks(2).flat_map(|slope| [slope[1], slope[0]]).collect();
        vec![real, imaginary]
    }
}

/// All points.
pub fn points() -> &'static [Point] {
    static POINTS: LazyLock<Vec<Point>> = LazyLock::new(|| text().lines().map(point).collect());
    &POINTS
}

/// The committed points, or in the full form of the test newly computed ones, which are kept for the next run.
fn text() -> String {
    let committed = include_str!("../data/math_reference.txt");
    if std::env::var_os(FULL).is_none() {
        return committed.to_owned();
    }
    let generator = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/generate.py");
    let script = std::fs::read(generator).expect("the generator is there");
    let fingerprint = script.iter().fold(0u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("math_reference-{fingerprint:x}.txt"));
    if let Ok(text) = std::fs::read_to_string(&kept) {
        return text;
    }
    let output = Command::new("python3").args([generator, "--points", "1000"]).output().expect("python3 runs");
    assert!(output.status.success(), "{generator}: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::write(&kept, &output.stdout).expect("the target directory can be written");
    String::from_utf8(output.stdout).expect("the generator prints numbers")
}

fn point(line: &str) -> Point {
    let mut fields = line.split(' ');
    let name = fields.next().unwrap_or_default();
    let function = math::lookup(name).unwrap_or_else(|| panic!("{name} is not in the table"));
    let integer = fields.next().and_then(|field| field.parse().ok()).unwrap_or(0);
    let numbers: Vec<f64> = fields.map(|field| field.parse().expect("a number")).collect();
    let (reals, rest) = numbers.split_at(function.reals());
    let is_complex = function.arguments.contains(&Argument::Complex) && function.results.len() == 2;
    let (value, partials) = rest.split_at(if is_complex { 2 } else { 1 });
    assert_eq!(partials.len(), reals.len(), "{line}");
    Point { function, integer, reals: reals.to_vec(), value: value.to_vec(), partials: partials.to_vec() }
}
