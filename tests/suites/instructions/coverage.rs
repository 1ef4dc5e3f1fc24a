//! Which instruction forms compilers emit, and whether they have rules: all code of libraries that programs compute with, and of our own programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use derivgrind_ad::ir::Effect;
use derivgrind_ad::lift::lift;
use derivgrind_native::forms::Class;
use derivgrind_native::{Random, operands};
use derivgrind_tests::suite::{Outcome, fail, skip};
use derivgrind_tests::{compiler, full};
use iced_x86::{Code, Decoder, DecoderOptions, Instruction};
use object::{Object as _, ObjectSection as _, SectionKind};

/// Libraries of Debian's packages with numerical code.
pub const LIBRARIES: &[&str] = &[
    "libm.so.6",
    "libmvec.so.1",
    "libstdc++.so.6",
    "libgfortran.so.5",
    "libopenblas.so.0",
    "liblapack.so.3",
    "libgsl.so.27",
    "libfftw3.so.3",
];

/// Programs that are compiled, with compilers for them.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("benches/programs/burgers.cpp", &["g++", "clang++"]),
    ("tests/programs/floating.c", &["gcc", "clang"]),
    ("benches/programs/calls.c", &["gcc", "clang"]),
];
const LEVELS: &[&str] = &["-O0", "-O3"];
const ALL_LEVELS: &[&str] = &["-O0", "-O1", "-O2", "-O3", "-Ofast", "-Os"];
const LEVELS_OF_PROCESSORS: &[&str] = &["-march=x86-64", "-march=x86-64-v2", "-march=x86-64-v3"];

/// Whether a form has a rule, whatever its operands.
pub fn has_rule(code: Code) -> bool {
    /// Some instructions do different things with different operands.
    const SAMPLES: usize = 8;
    let mut random = Random(code as u64);
    let mut samples = (0..SAMPLES).filter_map(|_| operands::random_instruction(code, &mut random));
    samples.all(|instruction| {
        let ir = lift(&[instruction]);
        // What writes nothing needs none.
        ir.by_default.is_empty() || ir.operations.is_empty()
    })
}

/// How often forms occur, and an instruction of each.
#[derive(Default)]
struct Forms(BTreeMap<Code, (u64, Instruction)>);

impl Forms {
    /// Adds all code of an executable or library.
    fn add(&mut self, path: &Path) -> Result<()> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = object::File::parse(&*bytes).with_context(|| format!("{} is no object file", path.display()))?;
        for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
            let code = section.data().context("a section cannot be read")?;
            for instruction in Decoder::with_ip(64, code, section.address(), DecoderOptions::NONE) {
                self.0.entry(instruction.code()).or_insert((0, instruction)).0 += 1;
            }
        }
        Ok(())
    }

    /// Prints counts, and fails if a form that can carry real numbers has no rule.
    fn judge(self, name: &str) -> Outcome {
        let carries = |code: Code, instruction: &Instruction| {
            let class = Class::of(code);
            let is_ours = !matches!(class, Class::Other | Class::State | Class::Avx512More);
            is_ours && !instruction.is_invalid() && !lift(&[*instruction]).operations.is_empty()
        };
        let reals: Vec<_> = self.0.iter().filter(|(code, (_, instruction))| carries(**code, instruction)).collect();
        let missing: Vec<_> =
            reals.iter().filter(|(_, (_, instruction))| !lift(&[*instruction]).by_default.is_empty()).collect();
        let occurrences =
            |forms: &[(&Code, &(u64, Instruction))]| forms.iter().map(|(_, (count, _))| count).sum::<u64>();
        let is_lost = |instruction: &Instruction| {
            lift(&[*instruction]).operations.iter().any(|operation| matches!(operation.effect, Effect::Lost { .. }))
        };
        let lost: Vec<_> = reals.iter().filter(|(_, (_, instruction))| is_lost(instruction)).copied().collect();
        println!(
            "{name}: {} forms that write data, {} times; {} have a rule; it is a loss if their operands are active for {}, {} times",
            reals.len(),
            occurrences(&reals),
            reals.len() - missing.len(),
            lost.len(),
            occurrences(&lost)
        );
        if missing.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = missing
            .iter()
            .map(|(code, (count, instruction))| format!("{code:?}, {count} times: {instruction}"))
            .collect();
        fail(format!("no rule for {} forms:\n{}", lines.len(), lines.join("\n")))
    }
}

/// The code of a library, if it is installed.
pub fn library(name: &str) -> Outcome {
    let directories = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"];
    let mut paths = directories.iter().map(|directory| PathBuf::from(directory).join(name));
    let Some(path) = paths.find(|path| path.is_file()) else { return skip(format!("{name} is not installed")) };
    let mut forms = Forms::default();
    forms.add(&path)?;
    forms.judge(name)
}

/// The code of our programs at each optimisation level, for each level of processors.
pub fn programs(processors: &str) -> Outcome {
    let scratch = compiler::scratch("coverage")?;
    let output = scratch.path().join("program.o");
    let mut forms = Forms::default();
    for (source, compilers) in PROGRAMS {
        for compiler in *compilers {
            for level in if full() { ALL_LEVELS } else { LEVELS } {
                compiler::compile(
                    compiler,
                    &derivgrind_tests::root().join(source),
                    &output,
                    &["-c", "-w", level, processors],
                )?;
                forms.add(&output)?;
            }
        }
    }
    forms.judge(processors)
}

/// Levels of processors for [`programs`].
pub fn processors() -> impl Iterator<Item = &'static str> {
    LEVELS_OF_PROCESSORS.iter().copied()
}
