//! Instruction conformance: every form of each instruction, in recording and in forward mode. The machine afterwards must be as natively, moved data must carry
//! its shadow, and derivatives must be those of the reference.

mod cases;
mod check;
mod client;
mod coverage;
mod elements;
mod natively;
mod places;
mod reference;
mod values;
mod writer;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use derivgrind_native::forms::{self, Class};
use derivgrind_tests::suite::{Outcome, Suite, fail, skip};
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
    Class::Avx512,
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
fn wrong_losses(program: &Path, directory: &Path, cases: &Cases) -> Result<Vec<String>> {
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
    Ok(wrong)
}

/// Forms that are executed together, which bounds memory.
const TOGETHER: usize = 100;

/// What became of a class.
#[derive(Default)]
struct Tally {
    cases: usize,
    executed: usize,
    missing: Vec<String>,
    wrong: Vec<String>,
}

fn conforms(class: Class, mode: Mode) -> Outcome {
    let forms: Vec<Code> = forms::all().filter(|code| Class::of(*code) == class).collect();
    if class == Class::Avx512 && !is_x86_feature_detected!("avx512bw") {
        return skip(format!("the processor has no AVX-512: {} forms", forms.len()));
    }
    let scratch = compiler::scratch("instructions")?;
    let program: PathBuf = scratch.path().join("client");
    compiler::compile("gcc", &compiler::programs().join("conformance.c"), &program, &["-O2"])?;
    let mut tally = Tally::default();
    for (number, forms) in forms.chunks(TOGETHER).enumerate() {
        conform(forms, mode, &program, scratch.path(), (1 + class as u64) << 32 | number as u64, &mut tally)?;
    }
    let Tally { cases, executed, missing, wrong } = tally;
    println!("{}: {} forms, {executed} executed, {cases} cases; {} differ", class.name(), forms.len(), wrong.len());
    // A processor without a feature refuses a class as a whole. A form of which a part is refused has not been tested.
    if missing.len() * 50 > forms.len() {
        return fail(format!("{} forms were not executed:\n{}", missing.len(), missing.join("\n")));
    }
    if wrong.is_empty() { Ok(()) } else { fail(format!("{} forms differ:\n{}", wrong.len(), wrong.join("\n"))) }
}

fn conform(forms: &[Code], mode: Mode, program: &Path, directory: &Path, seed: u64, tally: &mut Tally) -> Outcome {
    let cases = Cases::generate(forms, if full() { FULL } else { SHORT }, client::BASE, seed);
    let client = Client::new(program, directory, &cases)?;
    let native = client.run(Mode::Native)?;
    let run = client.run(mode)?;
    let differences = check::differences(&cases, &native, &run, mode);
    tally.cases += cases.cases.len();
    tally.executed += forms.len() - cases.unexecuted.len();
    tally.missing.extend(cases.missing(forms).map(|(code, what)| format!("{code:?}: {what}")));
    tally.wrong.extend(differences.iter().map(|(code, text)| format!("{code:?}\n  {text}")));
    if differences.is_empty() && mode == Mode::Recording {
        tally.wrong.extend(wrong_losses(program, directory, &cases)?);
    }
    Ok(())
}
