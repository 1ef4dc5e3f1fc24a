//! Functions of the C math library and their analytic derivatives.
//!
//! The machine code of a math library is full of bit tricks and table look-ups, whose instruction-wise derivative is inexact or wrong. So a call runs
//! natively and is recorded as one operation, with the partial derivatives of this module. They are plain functions
//! of binary64 numbers; a binary32 function's partials are computed in binary64 from its widened arguments.
//!
//! What each function's partials are, also at points without a derivative, is told in [`table`] and, from the same text, in `docs/math-functions.md`.
//! One rule holds for all: where the result is NaN, so are its partials.
//!
//! The `long double` functions are not in the table: their arguments come on the stack and their result in an x87 register; their code is
//! differentiated like any other.

mod digamma;
pub mod intercept;
mod rules;
mod special;
pub mod table;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use digamma::digamma;
pub use table::{Line, lines};

use table::Rule;

/// Most real arguments that a function has.
pub const MAX_REALS: usize = 3;
/// Most arguments of class INTEGER (integers and pointers) that a function has.
pub const MAX_INTEGERS: usize = 2;
/// Most real results that a function has.
pub const MAX_RESULTS: usize = 2;

/// The format of a function's real arguments and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// `float`.
    Binary32,
    /// `double`.
    Binary64,
}

impl Width {
    /// Bytes that a number takes in memory.
    pub fn bytes(self) -> u64 {
        match self {
            Width::Binary32 => 4,
            Width::Binary64 => 8,
        }
    }

    /// The number in the low bytes of `bits`, exactly.
    pub fn widen(self, bits: u64) -> f64 {
        match self {
            Width::Binary32 => f64::from(f32::from_bits(bits as u32)),
            Width::Binary64 => f64::from_bits(bits),
        }
    }
}

/// What an argument is. Real ones are passed in `xmm0`, `xmm1`, `xmm2`, the others in `rdi`, `rsi`, each class counted on its own
/// (System V ABI).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A number of the function's width.
    Real,
    /// `int`: the upper half of its register is undefined.
    Int,
    /// `long`.
    Long,
    /// Where the function stores a number of its width; it may be that no result is described there, if it is not real.
    Pointer,
}

/// Where a function leaves a real result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In `xmm0`.
    Register,
    /// In memory, at the address that was the argument of this number among those of class INTEGER.
    Pointer(usize),
}

/// The numbers of one execution of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Call {
    /// Real arguments in order, widened.
    pub reals: [f64; MAX_REALS],
    /// Registers of the arguments of class INTEGER in order, as they were on entry.
    pub integers: [u64; MAX_INTEGERS],
    /// Results in the order of [`MathFunction::results`], widened.
    pub results: [f64; MAX_RESULTS],
}

/// Partial derivatives: those of result `r` with respect to real argument `a` at `[r][a]`.
pub type Partials = [[f64; MAX_REALS]; MAX_RESULTS];

/// A function of the math library.
#[derive(Debug)]
pub struct MathFunction {
    /// Its symbol.
    pub name: &'static str,
    /// The format of its real arguments and results.
    pub width: Width,
    /// Its arguments in the order of the C prototype.
    pub arguments: &'static [Argument],
    /// Its real results.
    pub results: &'static [Place],
    rule: Rule,
}

impl MathFunction {
    /// Number of real arguments.
    pub fn reals(&self) -> usize {
        self.arguments.iter().filter(|&&argument| argument == Argument::Real).count()
    }

    /// Number of arguments of class INTEGER.
    pub fn integers(&self) -> usize {
        self.arguments.len() - self.reals()
    }

    /// The partial derivatives of each result with respect to each real argument. Entries beyond the function's results and arguments are 0.
    ///
    /// This computes in binary64 with the host's own floating-point settings (round to nearest, exceptions masked); the caller sees to it that
    /// these are in force.
    pub fn partials(&self, call: &Call) -> Partials {
        let mut partials = self.rule.partials(self, call);
        let reals = self.reals();
        for (result, row) in partials.iter_mut().enumerate().take(self.results.len()) {
            if call.results[result].is_nan() {
                row[..reals].fill(f64::NAN);
            }
        }
        partials
    }

    /// The integer argument: there is at most one. 0 if there is none.
    fn integer(&self, call: &Call) -> i64 {
        let classes = self.arguments.iter().filter(|&&argument| argument != Argument::Real);
        for (&argument, &register) in classes.zip(&call.integers) {
            match argument {
                Argument::Int => return i64::from(register as i32),
                Argument::Long => return register as i64,
                Argument::Pointer | Argument::Real => {}
            }
        }
        0
    }
}

static FUNCTIONS: LazyLock<HashMap<&'static str, MathFunction>> = LazyLock::new(|| {
    let pairs = table::lines()
        .iter()
        .flat_map(|line| [(line.double, Width::Binary64, line), (line.float, Width::Binary32, line)]);
    pairs
        .map(|(name, width, line)| {
            let signature = line.signature;
            (
                name,
                MathFunction {
                    name,
                    width,
                    arguments: signature.arguments,
                    results: signature.results,
                    rule: line.rule,
                },
            )
        })
        .collect()
});

/// The function with this symbol: `sin`, `sinf`, or glibc's entry for `-ffinite-math-only`, `__exp_finite`.
pub fn lookup(name: &str) -> Option<&'static MathFunction> {
    FUNCTIONS.get(name).or_else(|| {
        let base = name.strip_prefix("__")?.strip_suffix("_finite")?;
        table::FINITE.contains(&base.strip_suffix("f").unwrap_or(base)).then(|| FUNCTIONS.get(base))?
    })
}

/// All functions, in no particular order and without aliases.
pub fn functions() -> impl Iterator<Item = &'static MathFunction> {
    FUNCTIONS.values()
}
