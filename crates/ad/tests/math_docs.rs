//! The table in `docs/math-functions.md` is the code's.

use std::fmt::Write as _;
use std::path::PathBuf;

use derivgrind_ad::math;

/// Set this variable to write the table instead of comparing it.
const BLESS: &str = "DERIVGRIND_BLESS";
/// The table follows this beginning of a line.
const MARK: &str = "<!-- Generated from";

fn table() -> String {
    let mut text = String::from(
        "\n| function | `float` | prototype | partial derivatives | special points |\n|---|---|---|---|---|\n",
    );
    for line in math::lines() {
        let prototype = line.signature.prototype;
        writeln!(
            text,
            "| `{}` | `{}` | `{prototype}` | {} | {} |",
            line.double,
            line.float,
            line.formula.replace('|', "\\|"),
            line.special.replace('|', "\\|")
        )
        .expect("a string takes everything");
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
        "{} differs from crates/ad/src/math/table.rs; run `{BLESS}=1 cargo test -p derivgrind-ad --test math_docs`",
        path.display()
    );
}
