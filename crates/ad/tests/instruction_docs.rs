//! The tables in `docs/instructions.md` are the code's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use derivgrind_ad::ir::{Effect, Ir};
use derivgrind_ad::lift::lift;
use derivgrind_native::forms::{self, Class};
use derivgrind_native::{Random, operands};
use iced_x86::Code;

/// Set this variable to write the tables instead of comparing them.
const BLESS: &str = "DERIVGRIND_BLESS";
/// The tables follow this beginning of a line.
const MARK: &str = "<!-- Generated from";
/// Some instructions do different things with different operands.
const SAMPLES: usize = 24;

/// What becomes of an instruction's shadow. Of several things the first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Handled {
    Unknown,
    Differentiated,
    Bits,
    Moved,
    Lost,
    Passive,
    Nothing,
}

impl Handled {
    const ALL: [Handled; 7] = [
        Handled::Differentiated,
        Handled::Bits,
        Handled::Moved,
        Handled::Passive,
        Handled::Nothing,
        Handled::Lost,
        Handled::Unknown,
    ];

    fn name(self) -> &'static str {
        match self {
            Handled::Unknown => "no rule",
            Handled::Differentiated => "differentiated",
            Handled::Bits => "bit trick",
            Handled::Moved => "moved",
            Handled::Lost => "lost",
            Handled::Passive => "passive",
            Handled::Nothing => "nothing to do",
        }
    }

    fn of(ir: &Ir) -> Handled {
        if ir.operations.is_empty() {
            return Handled::Nothing;
        }
        if !ir.by_default.is_empty() {
            return Handled::Unknown;
        }
        let of_effect = |effect: &Effect| match effect {
            Effect::Real { .. } | Effect::Convert { .. } | Effect::X87 { .. } => Handled::Differentiated,
            Effect::BitTrick { .. } | Effect::Update { .. } => Handled::Bits,
            Effect::Lost { .. } => Handled::Lost,
            Effect::Clear { .. } | Effect::Fetch { .. } | Effect::Stack { .. } | Effect::Rotate { .. } => {
                Handled::Passive
            }
            _ => Handled::Moved,
        };
        ir.operations.iter().map(|operation| of_effect(&operation.effect)).min().unwrap_or(Handled::Nothing)
    }
}

/// What becomes of each form; `None` for those whose operands a test cannot make up.
fn handled(code: Code) -> Option<Handled> {
    let mut random = Random(code as u64);
    let instructions = (0..SAMPLES).filter_map(|_| operands::random_instruction(code, &mut random));
    instructions.map(|instruction| Handled::of(&lift(&[instruction]))).min()
}

fn tables() -> String {
    let mut text = String::from("\n| instructions | forms |");
    for handled in Handled::ALL {
        write!(text, " {} |", handled.name()).expect("a string takes everything");
    }
    text.push_str(" with a rule |\n|---|---|");
    text.push_str(&"---|".repeat(Handled::ALL.len() + 1));
    text.push('\n');
    let mut without: BTreeMap<Class, BTreeSet<String>> = BTreeMap::new();
    let mut lost: BTreeMap<Class, BTreeSet<String>> = BTreeMap::new();
    for class in Class::ALL {
        let mut counts: BTreeMap<Handled, usize> = BTreeMap::new();
        for code in forms::all().filter(|code| Class::of(*code) == class) {
            let Some(handled) = handled(code) else { continue };
            *counts.entry(handled).or_default() += 1;
            let name = || format!("`{:?}`", code.mnemonic()).to_lowercase();
            match handled {
                Handled::Unknown => _ = without.entry(class).or_default().insert(name()),
                Handled::Lost => _ = lost.entry(class).or_default().insert(name()),
                _ => {}
            }
        }
        let count = |handled| counts.get(&handled).copied().unwrap_or(0);
        let all: usize = counts.values().sum();
        write!(text, "| {} | {all} |", class.name()).expect("a string takes everything");
        for handled in Handled::ALL {
            write!(text, " {} |", count(handled)).expect("a string takes everything");
        }
        let share = 100.0 * (all - count(Handled::Unknown)) as f64 / all.max(1) as f64;
        writeln!(text, " {share:.1} % |").expect("a string takes everything");
    }
    for (title, list) in [("Lost by decision", lost), ("Without a rule", without)] {
        write!(text, "\n## {title}\n\n").expect("a string takes everything");
        for (class, names) in list {
            let names: Vec<String> = names.into_iter().collect();
            writeln!(text, "- {}: {}", class.name(), names.join(" ")).expect("a string takes everything");
        }
    }
    text
}

#[test]
fn documented_tables_are_the_code() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/instructions.md");
    let present = std::fs::read_to_string(&path).expect("the document exists");
    let mark = present.find(MARK).expect("the document has a place for the tables");
    let end = mark + present[mark..].find('\n').expect("the mark is a line") + 1;
    let wanted = format!("{}{}", &present[..end], tables());
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&path, &wanted).expect("the document can be written");
        return;
    }
    assert!(
        present == wanted,
        "{} differs from the tables of crates/ad/src/lift; run `{BLESS}=1 cargo test -p derivgrind-ad --test instruction_docs`",
        path.display()
    );
}
