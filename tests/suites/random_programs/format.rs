//! Formats of real numbers in random programs.

/// C's `float`, `double` and `long double`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// binary32.
    Float,
    /// binary64.
    Double,
    /// The 80 bits of x87.
    Extended,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Float, Self::Double, Self::Extended];

    /// Name of the C type.
    pub fn c_type(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Double => "double",
            Self::Extended => "long double",
        }
    }

    /// Relative error of a result that is rounded to the format.
    pub fn rounding(self) -> f64 {
        match self {
            Self::Float => 6e-8,
            Self::Double | Self::Extended => 1.2e-16,
        }
    }

    /// Suffix of math functions.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Float => "f",
            Self::Double => "",
            Self::Extended => "l",
        }
    }

    /// A C text in which `$` and a letter stand for what depends on the format: see [`crate::operations::Operation::body`].
    pub fn in_c(self, text: &str) -> String {
        let (unsigned, signed, mantissa, exponent) = match self {
            Self::Float => ("uint32_t", "int32_t", "23", "8"),
            Self::Double => ("uint64_t", "int64_t", "52", "11"),
            Self::Extended => ("unsigned __int128", "__int128", "64", "15"),
        };
        let replacements = [
            ("$R", self.c_type()),
            ("$B", unsigned),
            ("$I", signed),
            ("$M", mantissa),
            ("$E", exponent),
            ("$F", self.suffix()),
        ];
        replacements.iter().fold(text.to_owned(), |text, (letter, replacement)| text.replace(letter, replacement))
    }
}
