//! Functions of the C math library and their analytic derivatives.
//!
//! The machine code of a math library is full of bit tricks and table look-ups, whose instruction-wise derivative is inexact or wrong. So a call runs
//! natively and is recorded as operations on its arguments, with the partial derivatives of this module. They are plain functions
//! of binary64 numbers; those of a binary32 function are computed in binary64 from its widened arguments, those of a `long double` one from its rounded
//! arguments.
//!
//! - `table` says what each function's partials are, also at points without a derivative; `docs/math-functions.md` is made from the same text;
//! - `names` finds the function that a symbol stands for: `sin`, `sinf64x`, `__exp_finite`, `_ZGVdN4v_sin`;
//! - `passing` says where a function finds its arguments and leaves its results;
//! - `intercept` puts this together at a call.
//!
//! One rule holds for all: where a result is NaN, so are its partials.

mod complex;
mod digamma;
pub mod intercept;
mod names;
mod passed;
pub mod passing;
mod rule;
mod rules;
mod table;

pub use digamma::digamma;
pub use names::{by_id, forms, id, lookup};
pub(crate) use names::{is_unmistakable, lock_for_fork};
pub use table::{FOLLOWED, GROUPS, Group, Line, Names, Signature};

use crate::x87::Extended;
use passing::Lane;
use rule::Rule;

/// Most real arguments that a function has; a complex argument counts as two.
pub const MAX_REALS: usize = 4;
/// Most arguments of class INTEGER (integers and pointers) that a function has.
pub const MAX_INTEGERS: usize = 3;
/// Most real results that a function has.
pub const MAX_RESULTS: usize = 2;

/// The format of a real number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// `float`.
    Binary32,
    /// `double`.
    Binary64,
    /// `long double`.
    Extended,
}

/// The bytes of a number of any width, in memory order; those beyond its width have no meaning.
pub type Bytes = [u8; Extended::BYTES];

impl Width {
    /// Bytes of a number; in memory a `long double` takes more.
    pub fn bytes(self) -> usize {
        match self {
            Width::Binary32 => 4,
            Width::Binary64 => 8,
            Width::Extended => Extended::BYTES,
        }
    }

    /// The number, exactly but for a `long double`, which is rounded.
    pub fn widen(self, bytes: Bytes) -> f64 {
        let [a, b, c, d, e, f, g, h, ..] = bytes;
        match self {
            Width::Binary32 => f64::from(f32::from_le_bytes([a, b, c, d])),
            Width::Binary64 => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
            Width::Extended => Extended::from_bytes(bytes).to_f64(),
        }
    }

    /// The bytes of a number, rounded to this width.
    pub fn narrow(self, value: f64) -> Bytes {
        let mut bytes = Bytes::default();
        match self {
            Width::Binary32 => bytes[..4].copy_from_slice(&(value as f32).to_le_bytes()),
            Width::Binary64 => bytes[..8].copy_from_slice(&value.to_le_bytes()),
            Width::Extended => bytes = Extended::from_f64(value).to_bytes(),
        }
        bytes
    }

    /// Whether the number is one that has no counterpart in binary64: finite and too large, or too small and not zero.
    fn exceeds_binary64(self, bytes: Bytes) -> bool {
        if self != Width::Extended {
            return false;
        }
        let (number, rounded) = (Extended::from_bytes(bytes), self.widen(bytes));
        let is_finite = number.exponent() <= 16383;
        (rounded.is_infinite() && is_finite) || (rounded == 0.0 && !number.is_zero())
    }
}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A number.
    Real,
    /// A complex number: two reals.
    Complex,
    /// `int`: the upper half of its register is undefined.
    Int,
    /// `long`.
    Long,
    /// Where the function stores a number; it may be that no result is described there, if it is not real.
    Pointer,
    /// A number on which the result does not depend continuously. Only the last argument can be of this kind.
    Ignored,
}

impl Argument {
    /// How many real numbers it counts for.
    pub fn reals(self) -> usize {
        match self {
            Argument::Real => 1,
            Argument::Complex => 2,
            Argument::Int | Argument::Long | Argument::Pointer | Argument::Ignored => 0,
        }
    }

    /// Whether it is passed as integers are.
    pub fn is_integer(self) -> bool {
        matches!(self, Argument::Int | Argument::Long | Argument::Pointer)
    }
}

/// Where a function leaves a real result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is the value of the call.
    Value,
    /// It is the imaginary part of the value of the call.
    Imaginary,
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
    /// Its usual symbol: `sinf` also for `sinf32` and `_ZGVbN4v_sinf`.
    pub name: String,
    /// The format of its real arguments.
    pub width: Width,
    /// The format of its real results.
    pub result_width: Width,
    /// Its arguments in the order of the C prototype.
    pub arguments: &'static [Argument],
    /// Its real results.
    pub results: &'static [Place],
    /// Where arguments and results are: one lane, or several if it is a function of vectors.
    lanes: Vec<Lane>,
    rule: Rule,
}

impl MathFunction {
    /// Number of real arguments.
    pub fn reals(&self) -> usize {
        self.arguments.iter().map(|argument| argument.reals()).sum()
    }

    /// Number of arguments of class INTEGER.
    pub fn integers(&self) -> usize {
        self.arguments.iter().filter(|argument| argument.is_integer()).count()
    }

    /// Where arguments and results are: one lane, or several if it is a function of vectors.
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// Whether a real argument is in memory: it can be active while all registers are passive.
    pub fn takes_memory(&self) -> bool {
        let mut arguments = self.lanes.iter().flat_map(|lane| &lane.arguments);
        arguments.any(|location| matches!(location, passing::Location::Stack(_)))
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

    /// Whether its results do not vary.
    fn is_constant(&self) -> bool {
        matches!(self.rule, Rule::Constant)
    }

    /// The integer argument that the rule wants: the first one. 0 if there is none.
    fn integer(&self, call: &Call) -> i64 {
        let classes = self.arguments.iter().filter(|argument| argument.is_integer());
        for (&argument, &register) in classes.zip(&call.integers) {
            match argument {
                Argument::Int => return i64::from(register as i32),
                Argument::Long => return register as i64,
                _ => {}
            }
        }
        0
    }
}
