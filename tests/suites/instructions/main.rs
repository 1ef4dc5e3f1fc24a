//! Instruction conformance: every form of each instruction, in recording and in forward mode. The machine afterwards must be as natively, moved data must carry
//! its shadow, and derivatives must be those of the reference.

mod cases;
mod check;
mod client;
mod natively;
mod places;
mod reference;
mod values;
mod writer;

use std::path::PathBuf;
use std::process::ExitCode;

use derivgrind_native::forms::{self, Class};
use derivgrind_tests::suite::{Outcome, Suite, fail};
use derivgrind_tests::{compiler, full};
use iced_x86::Code;

use cases::{Cases, Extent};
use client::{Client, Mode};

/// What is executed. State is saved and restored as a whole, which the formulas and compat suites do.
const CLASSES: &[Class] = &[
    Class::General,
    Class::Bits,
    Class::X87,
    Class::Mmx,
    Class::Sse,
    Class::Sse2,
    Class::Sse3,
    Class::Ssse3,
    Class::Sse41,
    Class::Sse42,
    Class::Avx,
    Class::F16c,
    Class::Fma,
    Class::Avx2,
];
const SHORT: Extent = Extent { instructions: 2, sets: 5 };
/// At least 200 operand sets for each form.
const FULL: Extent = Extent { instructions: 10, sets: 20 };

fn main() -> ExitCode {
    let mut suite = Suite::new("instructions");
    for &class in CLASSES {
        for (name, mode) in [("recording", Mode::Recording), ("forward", Mode::Forward)] {
            suite.case(format!("{name}/{}", class.name()), move || conforms(class, mode));
        }
    }
    suite.run()
}

fn conforms(class: Class, mode: Mode) -> Outcome {
    let forms: Vec<Code> = forms::all().filter(|code| Class::of(*code) == class).collect();
    let extent = if full() { FULL } else { SHORT };
    let cases = Cases::generate(&forms, extent, client::BASE, 1 + class as u64);
    let scratch = compiler::scratch("instructions")?;
    let program: PathBuf = scratch.path().join("client");
    compiler::compile("gcc", &compiler::programs().join("conformance.c"), &program, &["-O2"])?;
    let client = Client::new(&program, scratch.path(), &cases)?;
    let native = client.run(Mode::Native)?;
    let run = client.run(mode)?;
    let differences = check::differences(&cases, &native, &run, mode);
    println!(
        "{}: {} forms, {} executed, {} cases; {} differ",
        class.name(),
        forms.len(),
        forms.len() - cases.unexecuted.len(),
        cases.cases.len(),
        differences.len()
    );
    if differences.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = differences.iter().map(|(code, text)| format!("{code:?}\n  {text}")).collect();
    fail(format!("{} forms differ:\n{}", texts.len(), texts.join("\n")))
}
