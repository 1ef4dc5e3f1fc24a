//! The table in `docs/math-functions.md` is the code's.

#[path = "math_reference/exceptions.rs"]
#[allow(dead_code, reason = "what is not text is for the reference test")]
mod exceptions;

use std::fmt::Write as _;
use std::path::PathBuf;

use derivgrind_ad::math;

/// Set this variable to write the table instead of comparing it.
const BLESS: &str = "DERIVGRIND_BLESS";
/// The table follows this beginning of a line.
const MARK: &str = "<!-- Generated from";

fn table() -> String {
    let mut text = String::new();
    for group in &math::GROUPS {
        let _ = write!(text, "\n## {}\n\n", group.title);
        text.push_str("| function | prototype | partial derivatives | special points |\n|---|---|---|---|\n");
        for line in group.lines {
            let names: Vec<String> = math::forms(&line.names).iter().map(|name| format!("`{name}`")).collect();
            let (names, prototype) = (names.join(", "), line.signature.prototype);
            let [formula, special] = [line.formula, line.special].map(|text| text.replace('|', "\\|"));
            let _ = writeln!(text, "| {names} | `{prototype}` | {formula} | {special} |");
        }
    }
    text.push_str("\n## Accuracy\n\nThe partial derivatives are wrong by at most 4 units in the last place of binary64. Exceptions:\n\n| functions | where | error at most |\n|---|---|---|\n");
    for exception in exceptions::EXCEPTIONS {
        let functions: Vec<String> = exception.functions.iter().map(|name| format!("`{name}`")).collect();
        let (place, bound, unit_of) = (exception.place, exception.bound, exception.unit_of);
        let _ = writeln!(text, "| {} | {place} | {bound} units in the last place of {unit_of} |", functions.join(", "));
    }
    text.push_str("\n## Functions that are not intercepted\n\nFollowing their instructions gives the right derivative.\n\n| function | why |\n|---|---|\n");
    for (name, reason) in math::FOLLOWED {
        let _ = writeln!(text, "| `{name}` | {reason} |");
    }
    text
}

#[test]
fn documented_table_is_the_code() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/math-functions.md");
    let present = std::fs::read_to_string(&path).expect("the document exists");
    let mark = present.find(MARK).expect("the document has a place for the table");
    let end = mark + present[mark..].find('\n').expect("the mark is a line") + 1;
    let wanted = format!("{}{}", &present[..end], table());
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&path, &wanted).expect("the document can be written");
        return;
    }
    assert!(
        present == wanted,
        "{} differs from crates/ad/src/math/table; run `{BLESS}=1 cargo test -p derivgrind-ad --test math_docs`",
        path.display()
    );
}
