//! Functions that are intercepted, and the numbers by which the engine knows them.

use derivgrind_engine::tool::FunctionId;

use crate::compression::{self, COMPRESSORS, Compressor};
use crate::math::{self, MathFunction};

/// A function that is intercepted at its entry.
pub(super) enum Intercepted {
    /// One whose derivative is known.
    Math(&'static MathFunction),
    /// One whose output is passive.
    Compressor(&'static Compressor),
}

impl Intercepted {
    /// The number of the function with this symbol. Its lowest bit tells the kind.
    pub(super) fn named(name: &str) -> Option<FunctionId> {
        let math = || math::id(name).map(|id| FunctionId(2 * id));
        compression::id(name).map(|id| FunctionId(2 * id + 1)).or_else(math)
    }

    /// The function with this number.
    pub(super) fn of(FunctionId(number): FunctionId) -> Option<Intercepted> {
        match number % 2 {
            0 => math::by_id(number / 2).map(Intercepted::Math),
            _ => COMPRESSORS.get(number / 2).map(Intercepted::Compressor),
        }
    }

    /// Whether nobody else's function has this name, which is one of this function's.
    pub(super) fn is_unmistakable(&self, name: &str) -> bool {
        match self {
            Intercepted::Compressor(compressor) => compressor.unmistakable,
            Intercepted::Math(_) => math::is_unmistakable(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_functions() {
        let of = |name| Intercepted::of(Intercepted::named(name).expect("known"));
        assert!(matches!(of("exp"), Some(Intercepted::Math(function)) if function.name == "exp"));
        assert!(matches!(of("sin"), Some(Intercepted::Math(function)) if function.name == "sin"));
        let last = COMPRESSORS.last().expect("a table");
        assert!(matches!(of(last.name), Some(Intercepted::Compressor(function)) if function.name == last.name));
        assert!(Intercepted::named("main").is_none());
        assert!(Intercepted::of(FunctionId(usize::MAX)).is_none());
    }
}
