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

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use derivgrind_native::forms::{self, Class};
use derivgrind_tests::compiler;
use derivgrind_tests::suite::{Outcome, Suite, fail, skip};
use iced_x86::Code;

use cases::{Case, Cases};
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
    Class::Avx512,
];

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

/// Instructions of which losses are not counted where there are any, or where there are none: a few of them.
fn wrong_losses(program: &Path, directory: &Path, cases: &Cases, mode: Mode) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for loses in [false, true] {
        // Forward mode takes the reading of a dot value under which an operation on bits is a real one (docs/forward-mode.md).
        let is_judged = |case: &Case| {
            let instruction = &cases.snippets[case.snippet].instruction;
            mode == Mode::Recording || !loses || reference::bit_operation(instruction).is_none()
        };
        let chosen = cases.only(|case| case.loses == Some(loses) && is_judged(case));
        let mut losses = Losses { program, directory, mode, loses, wrong: Vec::new() };
        losses.search(&chosen, 0..chosen.snippets.len())?;
        wrong.extend(losses.wrong);
    }
    Ok(wrong)
}

/// Looks for instructions whose losses are not counted as they should be.
struct Losses<'a> {
    program: &'a Path,
    directory: &'a Path,
    mode: Mode,
    /// Whether each case loses something, or none does.
    loses: bool,
    wrong: Vec<String>,
}

impl Losses<'_> {
    /// Halves the instructions until one is left.
    fn search(&mut self, cases: &Cases, snippets: Range<usize>) -> Result<()> {
        /// More of them say nothing new.
        const MOST: usize = 8;
        let chosen = cases.only(|case| snippets.contains(&case.snippet));
        let count = chosen.cases.len() as u64;
        if count == 0 || self.wrong.len() >= MOST {
            return Ok(());
        }
        let found = Client::new(self.program, self.directory, &chosen)?.run(self.mode)?.losses;
        if if self.loses { found >= count } else { found == 0 } {
            return Ok(());
        }
        if snippets.len() == 1 {
            let instruction = &cases.snippets[snippets.start].instruction;
            let wanted = if self.loses { "at least one each" } else { "none" };
            let example = self.example(&chosen)?;
            self.wrong.push(format!("{instruction}: {found} losses in {count} cases instead of {wanted}{example}"));
            return Ok(());
        }
        let middle = snippets.start + snippets.len() / 2;
        self.search(&chosen, snippets.start..middle)?;
        self.search(&chosen, middle..snippets.end)
    }

    /// One of the cases in which losses are not as they should be, with what is active there.
    fn example(&self, cases: &Cases) -> Result<String> {
        for (position, case) in cases.cases.iter().enumerate() {
            let mut single = cases.only(|_| false);
            single.cases.push(cases.cases[position].clone());
            let found = Client::new(self.program, self.directory, &single)?.run(self.mode)?.losses;
            if (found != 0) != self.loses {
                return Ok(format!("; in one of them with {}", check::active(&case.marks)));
            }
        }
        Ok(String::new())
    }
}

/// Forms that are executed together, which bounds memory.
const TOGETHER: usize = 100;

/// What became of a class.
#[derive(Default)]
struct Tally {
    cases: usize,
    unexecuted: BTreeMap<Code, &'static str>,
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
    let Tally { cases, unexecuted, missing, wrong } = tally;
    let without: Vec<&Code> = forms.iter().filter(|code| !coverage::has_rule(**code)).collect();
    let handled = forms.len() - without.len();
    let share = 100.0 * handled as f64 / forms.len() as f64;
    let (name, all, executed) = (class.name(), forms.len(), forms.len() - unexecuted.len());
    println!(
        "{name}: {all} forms, {handled} handled ({share:.1} %), {executed} executed, {cases} cases; {} differ",
        wrong.len()
    );
    if !without.is_empty() {
        println!("  not handled: {without:?}");
    }
    let mut reasons: BTreeMap<&str, Vec<Code>> = BTreeMap::new();
    unexecuted.into_iter().for_each(|(code, reason)| reasons.entry(reason).or_default().push(code));
    reasons.iter().for_each(|(reason, forms)| println!("  not executed, {reason}: {forms:?}"));
    // A processor without a feature refuses a class as a whole. A form of which a part is refused has not been tested.
    if missing.len() * 50 > forms.len() {
        return fail(format!("{} forms were not executed:\n{}", missing.len(), missing.join("\n")));
    }
    if wrong.is_empty() { Ok(()) } else { fail(format!("{} forms differ:\n{}", wrong.len(), wrong.join("\n"))) }
}

fn conform(forms: &[Code], mode: Mode, program: &Path, directory: &Path, seed: u64, tally: &mut Tally) -> Outcome {
    let cases = Cases::generate(forms, client::BASE, seed);
    let client = Client::new(program, directory, &cases)?;
    let native = client.run(Mode::Native)?;
    let run = client.run(mode)?;
    let differences = check::differences(&cases, &native, &run, mode);
    tally.cases += cases.cases.len();
    tally.unexecuted.extend(&cases.unexecuted);
    tally.missing.extend(cases.missing(forms).map(|(code, what)| format!("{code:?}: {what}")));
    tally.wrong.extend(differences.iter().map(|(code, text)| format!("{code:?}\n  {text}")));
    if differences.is_empty() {
        tally.wrong.extend(wrong_losses(program, directory, &cases, mode)?);
    }
    Ok(())
}
