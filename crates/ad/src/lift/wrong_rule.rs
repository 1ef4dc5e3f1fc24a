//! A test hook: one operation is differentiated by the rule of another one, so that tests see whether a wrong derivative is found.
//!
//! It is asked for by an environment variable, `DERIVGRIND_WRONG_RULE=div:mul` for quotients that are differentiated like products, and
//! acts on the AD IR: recording and forward mode go wrong alike, and without it nothing is slower.

use std::sync::OnceLock;

use crate::ir::{Effect, Ir, RealOperation};

/// The environment variable.
const VARIABLE: &str = "DERIVGRIND_WRONG_RULE";

/// Replaces the rule in a lifted block, if that is asked for.
pub(super) fn apply(ir: &mut Ir) {
    static SUBSTITUTION: OnceLock<Option<[RealOperation; 2]>> = OnceLock::new();
    let Some([right, wrong]) = *SUBSTITUTION.get_or_init(from_environment) else { return };
    for operation in &mut ir.operations {
        if let Effect::Real { operation, .. } = &mut operation.effect
            && *operation == right
        {
            *operation = wrong;
        }
    }
}

fn from_environment() -> Option<[RealOperation; 2]> {
    let text = std::env::var(VARIABLE).ok()?;
    let pair = parse(&text);
    match pair {
        Some([right, wrong]) => {
            eprintln!("derivgrind: {VARIABLE}: {} is differentiated like {}, for a test", right.name(), wrong.name());
        }
        None => eprintln!(
            "derivgrind: {VARIABLE}={text}: expected two different operations with equally many operands, as div:mul; ignored"
        ),
    }
    pair
}

/// Two names with a colon between them.
fn parse(text: &str) -> Option<[RealOperation; 2]> {
    let named = |name: &str| RealOperation::ALL.iter().copied().find(|operation| operation.name() == name);
    let (right, wrong) = text.split_once(':')?;
    let pair @ [right, wrong] = [named(right)?, named(wrong)?];
    (right != wrong && right.operands() == wrong.operands()).then_some(pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_substitution_has_two_operations_of_the_same_kind() {
        assert_eq!(parse("div:mul"), Some([RealOperation::Div, RealOperation::Mul]));
        for text in ["", "div", "div:div", "div:sqrt", "div:pow", "mul:"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
