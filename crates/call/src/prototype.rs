//! C prototypes: what a function takes and returns.
//!
//! The types are those of the x86-64 System V ABI. What cannot be called or differentiated is an error that says so: structures by value,
//! pointers to pointers, function pointers, `long double`, complex numbers, variable arguments.

use std::fmt;

/// A type of scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A whole number, a character, a truth value.
    Integer {
        /// 1, 2, 4 or 8.
        bytes: u8,
        /// Whether it can be negative.
        signed: bool,
    },
    /// binary32
    Float,
    /// binary64
    Double,
}

impl Scalar {
    /// Size in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Scalar::Integer { bytes, .. } => bytes.into(),
            Scalar::Float => 4,
            Scalar::Double => 8,
        }
    }

    /// Whether values can be differentiated.
    pub fn is_real(self) -> bool {
        matches!(self, Scalar::Float | Scalar::Double)
    }
}

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A scalar.
    Value(Scalar),
    /// The address of values side by side.
    Pointer {
        /// The values' type; `void` counts as bytes.
        to: Scalar,
        /// Whether the function only reads them.
        constant: bool,
    },
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, or `argument N`, counted from 1.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// A function's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// The function's name, which need not be the symbol's.
    pub name: String,
    /// What it returns; `None` for `void`.
    pub result: Option<Scalar>,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
}

/// Why a prototype cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("in the prototype {prototype:?}: {what}")]
pub struct PrototypeError {
    prototype: String,
    what: String,
}

/// Names of types that the C library defines, in terms of the others.
const NAMED: &[(&str, Scalar)] = &[
    ("bool", integer(1, false)),
    ("_Bool", integer(1, false)),
    ("size_t", integer(8, false)),
    ("ssize_t", integer(8, true)),
    ("ptrdiff_t", integer(8, true)),
    ("intptr_t", integer(8, true)),
    ("uintptr_t", integer(8, false)),
    ("int8_t", integer(1, true)),
    ("int16_t", integer(2, true)),
    ("int32_t", integer(4, true)),
    ("int64_t", integer(8, true)),
    ("uint8_t", integer(1, false)),
    ("uint16_t", integer(2, false)),
    ("uint32_t", integer(4, false)),
    ("uint64_t", integer(8, false)),
    ("float", Scalar::Float),
    ("double", Scalar::Double),
];

/// Words that say nothing about how a function is called.
const IGNORED: &[&str] =
    &["extern", "static", "inline", "volatile", "restrict", "__restrict", "__restrict__", "register"];

/// Words that begin types which are not supported, and why.
const REFUSED: &[(&str, &str)] = &[
    ("struct", "structures are not supported; pass their members"),
    ("union", "unions are not supported; pass their members"),
    ("enum", "write int for an enumeration"),
    ("_Complex", "complex numbers are not supported; pass real and imaginary parts"),
    ("complex", "complex numbers are not supported; pass real and imaginary parts"),
    ("__int128", "128-bit integers are not supported"),
    ("_Float16", "16-bit numbers are not differentiated"),
    ("_Float128", "128-bit numbers are not differentiated"),
];

const fn integer(bytes: u8, signed: bool) -> Scalar {
    Scalar::Integer { bytes, signed }
}

/// Most parameters of a function.
const MOST_PARAMETERS: usize = 127;

impl Prototype {
    /// Reads a prototype such as `double f(double x, const double *a, int n)`.
    ///
    /// # Errors
    /// What is wrong with it or not supported.
    pub fn parse(text: &str) -> Result<Prototype, PrototypeError> {
        let wrong = |what: String| PrototypeError { prototype: text.to_owned(), what };
        let tokens = tokens(text).map_err(wrong)?;
        let tokens: Vec<&str> = match tokens.as_slice() {
            [rest @ .., ";"] => rest.to_vec(),
            all => all.to_vec(),
        };
        let Some(open) = tokens.iter().position(|token| *token == "(") else {
            return Err(wrong(
                "there is no parameter list; write for example double f(double x, const double *a, int n)".to_owned(),
            ));
        };
        let [inside @ .., ")"] = &tokens[open + 1..] else {
            return Err(wrong("the parameter list does not end with )".to_owned()));
        };
        let Some((name, result)) = tokens[..open].split_last() else {
            return Err(wrong("there is no function name before (".to_owned()));
        };
        if !is_word(name) || result.is_empty() {
            return Err(wrong("a return type and a name have to stand before (".to_owned()));
        }
        let result = match declaration(result).map_err(wrong)? {
            (None, 0, _) => None,
            (Some(scalar), 0, _) => Some(scalar),
            _ => {
                return Err(wrong(
                    "a function that returns a pointer is not supported; pass a pointer for its results".to_owned(),
                ));
            }
        };
        let parts: Vec<&[&str]> = match inside {
            [] | ["void"] => Vec::new(),
            inside => inside.split(|token| *token == ",").collect(),
        };
        if parts.len() > MOST_PARAMETERS {
            return Err(wrong(format!("more than {MOST_PARAMETERS} parameters are not supported")));
        }
        let parameters = (1..).zip(parts).map(|(number, part)| parameter(number, part));
        Ok(Prototype {
            name: (*name).to_owned(),
            result,
            parameters: parameters.collect::<Result<_, _>>().map_err(wrong)?,
        })
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// Words and signs.
fn tokens(text: &str) -> Result<Vec<&str>, String> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = if is_part(first) {
            rest.find(|character| !is_part(character)).unwrap_or(rest.len())
        } else if rest.starts_with("...") {
            return Err("variable arguments (...) are not supported; name the arguments that you pass".to_owned());
        } else if "()[],;*".contains(first) {
            1
        } else {
            return Err(format!("{first:?} is not understood"));
        };
        let (token, remainder) = rest.split_at(end);
        tokens.push(token);
        rest = remainder.trim_start();
    }
    Ok(tokens)
}

fn parameter(number: usize, tokens: &[&str]) -> Result<Parameter, String> {
    let in_parameter = |what: String| format!("parameter {number}: {what}");
    if tokens.is_empty() {
        return Err(in_parameter("it is missing".to_owned()));
    }
    if tokens.contains(&"(") {
        return Err(in_parameter("function pointers are not supported".to_owned()));
    }
    // An array is a pointer; only the first extent may be left out, and more than one is a pointer to an array.
    let (tokens, arrays) = match tokens.iter().position(|token| *token == "[") {
        Some(bracket) => (&tokens[..bracket], tokens[bracket..].iter().filter(|token| **token == "[").count()),
        None => (tokens, 0),
    };
    let (name, kind) = match tokens {
        [kind @ .., name] if !kind.is_empty() && is_word(name) && !is_type_word(name) => (Some(*name), kind),
        all => (None, all),
    };
    let (scalar, stars, constant) = declaration(kind).map_err(in_parameter)?;
    let kind = match (scalar, stars + arrays.min(1)) {
        (Some(scalar), 0) => Kind::Value(scalar),
        (None, 0) => return Err(in_parameter("it cannot be void".to_owned())),
        (to, 1) => Kind::Pointer { to: to.unwrap_or(integer(1, false)), constant },
        _ => return Err(in_parameter("pointers to pointers are not supported; pass one array".to_owned())),
    };
    Ok(Parameter { name: name.map_or_else(|| format!("argument {number}"), str::to_owned), kind })
}

/// Whether a word belongs to a type, so that it is no parameter's name.
fn is_type_word(word: &str) -> bool {
    const BASIC: &[&str] = &["const", "void", "char", "short", "int", "long", "unsigned", "signed"];
    BASIC.contains(&word) || IGNORED.contains(&word) || NAMED.iter().any(|(name, _)| *name == word)
}

/// The type (`None` for `void`), the number of stars, and whether what it or its pointer refers to is constant.
fn declaration(tokens: &[&str]) -> Result<(Option<Scalar>, usize, bool), String> {
    let stars = tokens.iter().filter(|token| **token == "*").count();
    let first_star = tokens.iter().position(|token| *token == "*").unwrap_or(tokens.len());
    if let Some(other) =
        tokens[first_star..].iter().find(|token| !matches!(**token, "*" | "const") && !IGNORED.contains(*token))
    {
        return Err(format!("{other} is not expected there"));
    }
    let words: Vec<&str> = tokens[..first_star].iter().filter(|word| !IGNORED.contains(*word)).copied().collect();
    let constant = words.contains(&"const");
    let mut words: Vec<&str> = words.into_iter().filter(|word| *word != "const").collect();
    words.sort_unstable();
    if let Some((_, why)) = REFUSED.iter().find(|(word, _)| words.contains(word)) {
        return Err((*why).to_owned());
    }
    let scalar = match words.as_slice() {
        ["void"] => return Ok((None, stars, constant)),
        ["char"] | ["char", "signed"] => integer(1, true),
        ["char", "unsigned"] => integer(1, false),
        ["short"] | ["int", "short"] | ["short", "signed"] | ["int", "short", "signed"] => integer(2, true),
        ["short", "unsigned"] | ["int", "short", "unsigned"] => integer(2, false),
        ["int"] | ["signed"] | ["int", "signed"] => integer(4, true),
        ["unsigned"] | ["int", "unsigned"] => integer(4, false),
        ["double", "long"] => return Err("long double is not supported; write a wrapper that takes double".to_owned()),
        ["long", rest @ ..] | ["int", "long", rest @ ..]
            if rest.iter().all(|word| matches!(*word, "long" | "signed" | "unsigned")) =>
        {
            integer(8, !rest.contains(&"unsigned"))
        }
        [name] => NAMED.iter().find(|(known, _)| known == name).map(|(_, scalar)| *scalar).ok_or_else(|| {
            format!("the type {name} is not known; write it in terms of double, float and integer types")
        })?,
        [] => return Err("the type is missing".to_owned()),
        words => return Err(format!("{} is no type that is known", words.join(" "))),
    };
    Ok((Some(scalar), stars, constant))
}

impl fmt::Display for Scalar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Float => formatter.write_str("float32"),
            Scalar::Double => formatter.write_str("float64"),
            Scalar::Integer { bytes, signed } => {
                write!(formatter, "{}int{}", if *signed { "" } else { "u" }, 8 * u32::from(*bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        Prototype::parse(text).unwrap().parameters.into_iter().map(|parameter| parameter.kind).collect()
    }

    #[test]
    fn the_usual_kinds() {
        let prototype = Prototype::parse("double f(double x, const double *a, int n)").unwrap();
        assert_eq!((prototype.name.as_str(), prototype.result), ("f", Some(Scalar::Double)));
        let names: Vec<&str> = prototype.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        assert_eq!(names, ["x", "a", "n"]);
        let constant = Kind::Pointer { to: Scalar::Double, constant: true };
        assert_eq!(
            kinds("double f(double x, const double *a, int n);"),
            [Kind::Value(Scalar::Double), constant, Kind::Value(integer(4, true))]
        );
        assert_eq!(kinds("void f(double const a[restrict 3])"), [constant]);
        assert_eq!(kinds("void f(double const *const restrict)"), [constant]);
        assert_eq!(kinds("extern void f(float out[])"), [Kind::Pointer { to: Scalar::Float, constant: false }]);
        assert_eq!(kinds("void f(void)"), []);
        assert_eq!(kinds("void f()"), []);
        assert_eq!(kinds("void f(void *p)"), [Kind::Pointer { to: integer(1, false), constant: false }]);
    }

    #[test]
    fn integers() {
        for (text, bytes, signed) in [
            ("unsigned long long int", 8, false),
            ("long", 8, true),
            ("long unsigned", 8, false),
            ("unsigned", 4, false),
            ("short int", 2, true),
            ("char unsigned", 1, false),
            ("size_t", 8, false),
            ("int16_t", 2, true),
        ] {
            assert_eq!(kinds(&format!("int f({text} n)")), [Kind::Value(integer(bytes, signed))], "{text}");
            assert_eq!(kinds(&format!("int f({text})")), [Kind::Value(integer(bytes, signed))], "{text}");
        }
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (text, part) in [
            ("double f", "no parameter list"),
            ("f(double x)", "return type"),
            ("double f(double x", "does not end"),
            ("double f(double **x)", "pointers to pointers"),
            ("double *f(double x)", "returns a pointer"),
            ("double f(struct point p)", "structures"),
            ("double f(long double x)", "long double"),
            ("double f(double (*g)(double))", "function pointers"),
            ("double f(double x, ...)", "variable arguments"),
            ("double f(double x,)", "parameter 2"),
            ("double f(real x)", "real is not known"),
            ("double f(double _Complex x)", "complex"),
            ("double f(void x)", "void"),
            ("double f(double x) { return x; }", "'{'"),
            ("", "no parameter list"),
        ] {
            let message = Prototype::parse(text).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains(&format!("{text:?}")), "{message}");
        }
    }
}
