//! From a symbol to the function that it stands for.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use super::passing::{self, VectorSet};
use super::table::{self, Line, Names};
use super::{Argument, MathFunction, Place, Width};

/// A symbol's format: of the arguments, and of the results.
type Widths = (Width, Width);

/// Functions that have been asked for, by number, and the numbers of their symbols. Nothing is ever removed: there are at most as many as symbols.
#[derive(Default)]
struct Known {
    functions: Vec<&'static MathFunction>,
    ids: HashMap<String, usize>,
}

static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);

/// To be held across `fork`.
pub(crate) fn lock_for_fork() -> impl Sized + 'static {
    KNOWN.write().unwrap_or_else(PoisonError::into_inner)
}

/// The function with this symbol: `sin`, `sinf`; glibc's names with the format spelled out, `sinf64`; its entry for `-ffinite-math-only`,
/// `__exp_finite`; a variant for vectors, `_ZGVbN2v_sin` or `__svml_sin2`.
pub fn lookup(name: &str) -> Option<&'static MathFunction> {
    by_id(id(name)?)
}

/// A number that stands for the function with this symbol.
pub fn id(name: &str) -> Option<usize> {
    let function = function(name)?;
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(&id) = known.ids.get(name) {
        return Some(id);
    }
    let id = known.functions.len();
    known.functions.push(Box::leak(Box::new(function)));
    known.ids.insert(name.to_owned(), id);
    Some(id)
}

/// The function with this number from [`id`].
pub fn by_id(id: usize) -> Option<&'static MathFunction> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    known.functions.get(id).copied()
}

fn function(name: &str) -> Option<MathFunction> {
    if let Some(vector) = name.strip_prefix("_ZGV") {
        return vector_function(vector);
    }
    if let Some(vector) = name.strip_prefix(SHORT_VECTOR) {
        return short_vector_function(vector);
    }
    let name = finite_alias(name).unwrap_or_else(|| name.to_owned());
    let (line, widths, usual) = find(&name)?;
    let lane = passing::scalar(line.signature.arguments, line.signature.results, widths.0, widths.1);
    Some(with_lanes(line, widths, usual, vec![lane]))
}

/// `bN2v_sin`: the instruction set, no mask, two lanes, one vector.
fn vector_function(name: &str) -> Option<MathFunction> {
    let set = VectorSet::new(*name.as_bytes().first()?)?;
    let (shape, base) = name.get(1..)?.strip_prefix('N')?.split_once('_')?;
    let digits = shape.find(|c: char| !c.is_ascii_digit())?;
    let (count, vectors) = (shape[..digits].parse().ok()?, &shape[digits..]);
    let (line, widths, usual) = find(base)?;
    let arguments = line.signature.arguments;
    if widths.0 != widths.1 || vectors.len() != arguments.len() || vectors.bytes().any(|kind| kind != b'v') {
        return None;
    }
    let lanes = set.lanes(count, arguments, line.signature.results, widths.0)?;
    Some(with_lanes(line, widths, usual, lanes))
}

/// How names of Intel's short vector math library begin. NumPy has a copy of it.
const SHORT_VECTOR: &str = "__svml_";
/// What some of them end with: high or low accuracy, or enhanced performance.
const ACCURACIES: [&str; 3] = ["_ha", "_la", "_ep"];

/// Whether nobody else's function has this name.
pub(crate) fn is_unmistakable(name: &str) -> bool {
    name.starts_with(SHORT_VECTOR)
}

/// `sinf16`, `atan28_ha`: the usual name and the number of lanes, which fill a register of SSE, AVX or AVX-512. (Functions with several results return them in registers, and those with a
/// mask have more arguments.)
fn short_vector_function(name: &str) -> Option<MathFunction> {
    let name = ACCURACIES.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let variant = |lanes: u16| {
        let (line, widths, usual) = find(name.strip_suffix(&lanes.to_string())?)?;
        let signature = line.signature;
        let is_real = signature.arguments.iter().all(|kind| matches!(kind, Argument::Real));
        if !is_real || signature.results != [Place::Value] || widths.0 != widths.1 {
            return None;
        }
        let set = VectorSet::of_bytes(lanes * widths.0.bytes() as u16)?;
        let lanes = set.lanes(lanes, signature.arguments, signature.results, widths.0)?;
        Some(with_lanes(line, widths, usual, lanes))
    };
    [16, 8, 4, 2].into_iter().find_map(variant)
}

fn with_lanes(line: &'static Line, widths: Widths, name: String, lanes: Vec<passing::Lane>) -> MathFunction {
    let signature = line.signature;
    MathFunction {
        name,
        width: widths.0,
        result_width: widths.1,
        arguments: signature.arguments,
        results: signature.results,
        lanes,
        rule: line.rule,
    }
}

/// The line of a scalar function, its format, and its usual name.
fn find(name: &str) -> Option<(&'static Line, Widths, String)> {
    let candidates = &BY_LETTER[usize::from(*name.as_bytes().first()?)];
    let of = |&line: &&'static Line| line.names.widths(name).map(|(widths, usual)| (line, widths, usual));
    candidates.iter().find_map(of)
}

/// The lines by the first letters of their functions' names: all symbols of a program's libraries are looked up.
static BY_LETTER: LazyLock<Vec<Vec<&'static Line>>> = LazyLock::new(|| {
    let mut lines = vec![Vec::new(); 256];
    for line in table::lines() {
        let letters = forms(&line.names).into_iter().filter_map(|name| name.bytes().next());
        for letter in letters.collect::<std::collections::BTreeSet<u8>>() {
            lines[usize::from(letter)].push(line);
        }
    }
    lines
});

/// The usual name of one of the entries that older glibc has for `-ffinite-math-only`: `exp` for `__exp_finite`.
fn finite_alias(name: &str) -> Option<String> {
    let base = name.strip_prefix("__")?.strip_suffix("_finite")?;
    // glibc's `__gamma_r_finite` is what `tgamma` becomes, with the sign apart, unlike `gamma`, which is `lgamma`.
    let base = if base.starts_with("gamma") { format!("t{base}") } else { base.to_owned() };
    table::FINITE.iter().any(|finite| Names::of_math_h(finite).widths(&base).is_some()).then_some(base)
}

impl Names {
    /// The formats of the function with this symbol, and its usual name.
    fn widths(&self, name: &str) -> Option<(Widths, String)> {
        match *self {
            Names::Suffixed(base, end) => {
                let suffix = name.strip_prefix(base)?.strip_suffix(end)?;
                let width = FORMATS.iter().find(|format| format.suffixes.contains(&suffix))?;
                Some(((width.width, width.width), format!("{base}{}{end}", width.suffixes[0])))
            }
            Names::Narrowing(base) => {
                let (start, end) = name.split_once(base)?;
                let form = NARROWING.iter().find(|form| (form.0, form.1) == (start, end))?;
                Some(((form.2, form.3), name.to_owned()))
            }
            Names::Exactly(forms) => {
                let form = forms.iter().find(|form| form.0 == name)?;
                Some(((form.1, form.1), name.to_owned()))
            }
        }
    }
}

/// The usual names of a line's functions.
pub fn forms(names: &Names) -> Vec<String> {
    match *names {
        Names::Suffixed(base, end) => {
            FORMATS.iter().map(|format| format!("{base}{}{end}", format.suffixes[0])).collect()
        }
        Names::Narrowing(base) => NARROWING.iter().map(|form| format!("{}{base}{}", form.0, form.1)).collect(),
        Names::Exactly(forms) => forms.iter().map(|form| form.0.to_owned()).collect(),
    }
}

/// What a format adds to a function's name.
struct Format {
    width: Width,
    /// The usual suffix first, then those that glibc has for the types of ISO/IEC TS 18661-3.
    suffixes: &'static [&'static str],
}

const FORMATS: [Format; 3] = [
    Format { width: Width::Binary64, suffixes: &["", "f64", "f32x"] },
    Format { width: Width::Binary32, suffixes: &["f", "f32"] },
    Format { width: Width::Extended, suffixes: &["l", "f64x"] },
];

/// Functions that round once to a narrower format (ISO/IEC TS 18661-1): before and behind the operation's name, formats of arguments and result.
const NARROWING: [(&str, &str, Width, Width); 9] = [
    ("f", "", Width::Binary64, Width::Binary32),
    ("f", "l", Width::Extended, Width::Binary32),
    ("d", "l", Width::Extended, Width::Binary64),
    ("f32", "f64", Width::Binary64, Width::Binary32),
    ("f32", "f32x", Width::Binary64, Width::Binary32),
    ("f32", "f64x", Width::Extended, Width::Binary32),
    ("f32x", "f64", Width::Binary64, Width::Binary64),
    ("f32x", "f64x", Width::Extended, Width::Binary64),
    ("f64", "f64x", Width::Extended, Width::Binary64),
];
