//! Instruction conformance: every form of each instruction, in recording and in forward mode. The machine afterwards must be as natively, moved data must carry
//! its shadow, and derivatives must be those of the reference.

mod cases;
mod check;
mod client;
mod coverage;
mod natively;
mod places;
mod reference;
mod values;
mod writer;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use derivgrind_native::forms::{self, Class};
use derivgrind_tests::suite::{Outcome, Suite, fail};
use derivgrind_tests::{compiler, full};
use iced_x86::Code;

use cases::{Cases, Extent};
use client::{Client, Mode, Run};

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
    for &library in coverage::LIBRARIES {
        suite.case(format!("emitted/{library}"), move || coverage::library(library));
    }
    for processors in coverage::processors() {
        suite.case(format!("emitted/{processors}"), move || coverage::programs(processors));
    }
    suite.run()
}

/// Whether losses are counted where there are any, and only there.
fn counts_losses(program: &Path, directory: &Path, cases: &Cases) -> Outcome {
    let run = |cases: &Cases| Client::new(program, directory, cases)?.run(Mode::Recording);
    let mut wrong = Vec::new();
    for loses in [false, true] {
        let chosen = cases.only(|case| case.loses == Some(loses));
        let is_wrong = |cases: &Cases, run: &Run| {
            if loses { run.losses < cases.cases.len() as u64 } else { run.losses != 0 }
        };
        if chosen.cases.is_empty() || !is_wrong(&chosen, &run(&chosen)?) {
            continue;
        }
        // Which it is takes a run for each instruction.
        for (number, snippet) in chosen.snippets.iter().enumerate() {
            let one = chosen.only(|case| case.snippet == number);
            if one.cases.is_empty() {
                continue;
            }
            let run = run(&one)?;
            if is_wrong(&one, &run) {
                let (losses, count) = (run.losses, one.cases.len());
                let wanted = if loses { "at least one each" } else { "none" };
                wrong.push(format!("{}: {losses} losses in {count} cases instead of {wanted}", snippet.instruction));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { fail(wrong.join("\n")) }
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
    // A processor without a feature refuses a class as a whole. A form of which a part is refused has not been tested.
    let missing: Vec<String> = cases.missing(&forms).map(|(code, what)| format!("{code:?}: {what}")).collect();
    if missing.len() * 50 > forms.len() {
        return fail(format!("{} forms were not executed:\n{}", missing.len(), missing.join("\n")));
    }
    if differences.is_empty() {
        return if mode == Mode::Recording { counts_losses(&program, scratch.path(), &cases) } else { Ok(()) };
    }
    let texts: Vec<String> = differences.iter().map(|(code, text)| format!("{code:?}\n  {text}")).collect();
    fail(format!("{} forms differ:\n{}", texts.len(), texts.join("\n")))
}
