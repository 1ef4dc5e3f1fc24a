//! Runs cases in the client program, natively and under the tool.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use derivgrind_native::{Machine, Stage};
use derivgrind_tests::{process, recording};

use crate::cases::{Cases, Expected, Mark};
use crate::values::Format;

/// Where the machine lies in the client, below 2^31 and out of the way of everything else.
pub const BASE: u64 = 0x1000_0000;
/// Where its code lies.
const CODE: u64 = BASE + 0x1_0000;
/// The same as in a build of the engine with checks, and a slow machine.
const LIMIT: Duration = Duration::from_secs(900);

/// How the client is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Without the tool.
    Native,
    /// Recording.
    Recording,
    /// Forward mode.
    Forward,
}

/// What became of a case.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Words that changed: offset, value.
    pub changed: Vec<(usize, u64)>,
    /// Four bytes of shadow for each read.
    pub shadows: Vec<u32>,
}

/// What a run of the client left.
pub struct Run {
    /// Indices of the inputs.
    pub inputs: Vec<u64>,
    /// How many operations the tool reported as lost.
    pub losses: u64,
    /// In the order of the cases.
    pub observed: Vec<Observed>,
    /// The tape in the exchange format: for each index two operands and two partial derivatives.
    pub tape: Vec<[u64; 4]>,
}

/// The client with its files.
pub struct Client<'a> {
    program: &'a Path,
    directory: &'a Path,
    cases: &'a Cases,
}

/// Offsets at which shadow is read, in the order of the case's expectations.
pub fn reads(expected: &[(usize, Expected)]) -> impl Iterator<Item = usize> {
    expected.iter().flat_map(|(at, expected)| {
        let bytes = match expected {
            Expected::Bytes(_) => 4,
            Expected::Derivative { format, .. } | Expected::Lost(format, _) | Expected::Anything(format) => {
                format.bytes()
            }
        };
        (*at..at + bytes).step_by(4)
    })
}

impl<'a> Client<'a> {
    /// Writes the files of the cases to `directory`.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn new(program: &'a Path, directory: &'a Path, cases: &'a Cases) -> Result<Client<'a>> {
        let client = Client { program, directory, cases };
        let stage = Stage::new(BASE, CODE);
        let mut code = stage.code().to_vec();
        let mut targets = Vec::new();
        for snippet in &cases.snippets {
            let target = CODE + code.len() as u64;
            targets.push(target);
            code.extend(stage.snippet(&snippet.instruction, target).context("an instruction cannot be encoded")?);
        }
        fs::write(client.file("code"), code)?;
        for (name, forward) in [("cases", false), ("cases-forward", true)] {
            fs::write(client.file(name), client.encode(&stage, &targets, forward))?;
        }
        Ok(client)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn encode(&self, stage: &Stage, targets: &[u64], forward: bool) -> Vec<u8> {
        let cases = self.cases;
        let inputs = cases.cases.iter().map(|case| case.marks.len()).max().unwrap_or(0);
        let counts = [cases.bases.len(), inputs, cases.cases.len()].map(|count| count as u64);
        let header = [BASE, size_of::<Machine>() as u64, CODE].into_iter().chain(counts);
        let mut bytes: Vec<u8> = header.flat_map(u64::to_le_bytes).collect();
        for base in &cases.bases {
            bytes.extend(base.bytes());
        }
        let mut push = |word: u64| bytes.extend(word.to_le_bytes());
        for case in &cases.cases {
            let reads: Vec<usize> = reads(&case.expected).collect();
            let target = std::mem::offset_of!(Machine, target);
            push(
                case.base as u64
                    | (case.patches.len() as u64 + 1) << 16
                    | (case.marks.len() as u64) << 32
                    | (reads.len() as u64) << 48,
            );
            push(stage.entry(cases.snippets[case.snippet].registers));
            for (offset, word) in case.patches.iter().copied().chain([(target, targets[case.snippet])]) {
                push(offset as u64);
                push(word);
            }
            for (number, (offset, mark)) in case.marks.iter().enumerate() {
                let (kind, word) = match *mark {
                    Mark::Raw(bits) => (0, u64::from(bits)),
                    Mark::Input(format, dot) => {
                        let kind = if format == Format::Single { 1 } else { 2 };
                        (kind, if forward { format.bits(dot) } else { number as u64 })
                    }
                };
                push(*offset as u64 | kind << 32);
                push(word);
            }
            reads.iter().for_each(|&offset| push(offset as u64));
        }
        bytes
    }

    /// Runs all cases.
    ///
    /// # Errors
    /// If the client does not end well, or its results are incomplete.
    pub fn run(&self, mode: Mode) -> Result<Run> {
        let results = self.file("results");
        let tape = self.file("tape");
        let mut command = match mode {
            Mode::Native => process::command(self.program, self.directory),
            Mode::Recording => {
                let mut command = recording::tool(self.directory);
                command.arg("record").arg(&tape);
                self.under(command)
            }
            Mode::Forward => {
                let mut command = recording::tool(self.directory);
                command.arg("forward");
                self.under(command)
            }
        };
        let cases = if mode == Mode::Forward { "cases-forward" } else { "cases" };
        command.arg(self.file("code")).arg(self.file(cases)).arg(&results);
        let finished =
            process::run_with(&mut command, &[], LIMIT)?.successful("the client of the conformance suite")?;
        let bytes = fs::read(&results)?;
        let mut words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let mut next = || words.next().context("the results end too early");
        let inputs = self.cases.cases.iter().map(|case| case.marks.len()).max().unwrap_or(0);
        let inputs = (0..inputs).map(|_| next()).collect::<Result<_>>()?;
        let mut observed = Vec::new();
        for case in &self.cases.cases {
            let mut one = Observed::default();
            for _ in 0..next()? {
                one.changed.push((next()? as usize, next()?));
            }
            one.shadows = reads(&case.expected).map(|_| Ok(next()? as u32)).collect::<Result<_>>()?;
            observed.push(one);
        }
        let tape = if mode == Mode::Recording { self.exported(&tape)? } else { Vec::new() };
        Ok(Run { inputs, losses: losses(&finished.errors()), observed, tape })
    }

    fn under(&self, mut command: Command) -> Command {
        command.arg("--").arg(self.program);
        command
    }

    fn exported(&self, tape: &Path) -> Result<Vec<[u64; 4]>> {
        let target = self.file("exported");
        let mut command = recording::tool(self.directory);
        command.args(["--quiet", "tape", "export", "--output"]).arg(&target).arg(tape);
        process::run(&mut command)?.successful("derivgrind tape export")?;
        let bytes = fs::read(&target)?;
        ensure!(bytes.len().is_multiple_of(32), "the exported tape is no sequence of blocks");
        let word =
            |block: &[u8], k: usize| u64::from_le_bytes(block[8 * k..8 * k + 8].try_into().expect("eight bytes"));
        Ok(bytes.chunks_exact(32).map(|block| [0, 1, 2, 3].map(|k| word(block, k))).collect())
    }
}

/// The number in the summary of losses.
fn losses(messages: &str) -> u64 {
    let summary = messages.lines().find_map(|line| line.strip_prefix("derivgrind: active values met "));
    summary.and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(0)
}
