//! Programs that exercise the operating-system side of the engine behave under it as natively: same output, same end.
//!
//! This test program runs itself with a first argument to become the process in which the engine runs. The tool there changes
//! nothing, but has shadow layers, so that the shadow of all mappings, frames and buffers is in play.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::{Block, Emitter};
use derivgrind_engine::{NullTool, Options, Tool, Version, cache};
use libtest_mimic::{Arguments, Failed, Trial};

mod borrowing;

/// First argument of a run under the engine. The second one is the size of its code cache in bytes, the third one a [`ToolKind`].
const UNDER_ENGINE: &str = "--under-engine";

/// The tool of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolKind {
    Shadowed,
    Borrowing,
}

impl ToolKind {
    fn name(self) -> &'static str {
        match self {
            ToolKind::Shadowed => "shadowed",
            ToolKind::Borrowing => "borrowing",
        }
    }

    fn tool(name: &OsString) -> Box<dyn Tool> {
        if name == ToolKind::Borrowing.name() { Box::new(borrowing::Borrowing) } else { Box::new(Shadowed) }
    }
}

/// The null tool with shadow memory.
struct Shadowed;

impl Tool for Shadowed {
    fn shadow_layers(&self) -> u32 {
        2
    }

    fn initial_version(&self) -> Version {
        NullTool.initial_version()
    }

    fn instrument(&self, block: &Block, version: Version, emitter: &mut Emitter<'_>) {
        NullTool.instrument(block, version, emitter);
    }

    fn client_request(&self, context: &mut Context, arguments: [u64; 6], default: u64) -> u64 {
        NullTool.client_request(context, arguments, default)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == UNDER_ENGINE) {
        let code_cache = arguments[2].to_str().and_then(|size| size.parse().ok());
        let options = Options { code_cache, ..Options::default() };
        let Err(error) = derivgrind_engine::run(&arguments[4..], &options, ToolKind::tool(&arguments[3]));
        eprintln!("{error}");
        return ExitCode::from(error.exit_code() as u8);
    }
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let root = directory.path().to_owned();
    let trials = PROGRAMS.iter().flat_map(|program| program.trials(&root)).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A program to be compiled and compared.
struct Program {
    source: &'static str,
    compiler: &'static str,
    /// Whether it is also linked statically (without `dlopen`, which static programs lack).
    also_static: bool,
    /// Whether the processor can execute it; without AVX-512 a case is listed as ignored.
    runs_here: fn() -> bool,
}

const PROGRAMS: &[Program] = &[
    Program { source: "faults.c", compiler: "cc", also_static: true, runs_here: anywhere },
    Program { source: "signals.c", compiler: "cc", also_static: true, runs_here: anywhere },
    Program { source: "threads.c", compiler: "cc", also_static: true, runs_here: anywhere },
    Program { source: "crowd.c", compiler: "cc", also_static: true, runs_here: anywhere },
    Program { source: "processes.c", compiler: "cc", also_static: true, runs_here: anywhere },
    Program { source: "memory.c", compiler: "cc", also_static: false, runs_here: anywhere },
    Program { source: "files.c", compiler: "cc", also_static: true, runs_here: anywhere },
    Program { source: "storm.c", compiler: "cc", also_static: true, runs_here: anywhere },
    Program { source: "avx512.c", compiler: "cc", also_static: true, runs_here: with_avx512 },
    Program { source: "exceptions.cpp", compiler: "c++", also_static: false, runs_here: anywhere },
];

fn anywhere() -> bool {
    true
}

fn with_avx512() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512dq")
}

impl Program {
    fn trials(&self, directory: &Path) -> Vec<Trial> {
        let mut trials = vec![self.trial(directory, "dynamic", &[], cache::DEFAULT_BYTES, ToolKind::Shadowed)];
        if self.also_static {
            trials.push(self.trial(directory, "static", &["-static"], cache::DEFAULT_BYTES, ToolKind::Shadowed));
            trials.push(self.trial(directory, "fixed-address", &["-no-pie"], cache::DEFAULT_BYTES, ToolKind::Shadowed));
        }
        // Code does not stay for long.
        let smallest = *cache::POSSIBLE_BYTES.start();
        trials.push(self.trial(directory, "small-cache", &[], smallest, ToolKind::Shadowed));
        // All registers that can be lent change hands as often as possible.
        trials.push(self.trial(directory, "borrowing", &[], cache::DEFAULT_BYTES, ToolKind::Borrowing));
        trials.push(self.trial(directory, "borrowing-small-cache", &[], smallest, ToolKind::Borrowing));
        trials
    }

    fn trial(
        &self,
        directory: &Path,
        kind: &str,
        flags: &'static [&'static str],
        cache: usize,
        tool: ToolKind,
    ) -> Trial {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(self.source);
        let (compiler, stem) = (self.compiler, self.source.split('.').next().unwrap_or_default());
        let binary = directory.join(format!("{stem}-{kind}"));
        Trial::test(format!("{stem}::{kind}"), move || {
            compile(compiler, &source, &binary, flags)?;
            compare(&binary, cache, tool)
        })
        .with_ignored_flag(!(self.runs_here)() || tool == ToolKind::Borrowing && !borrowing::runs_here())
    }
}

fn compile(compiler: &str, source: &Path, binary: &PathBuf, flags: &[&str]) -> Result<(), Failed> {
    let output = Command::new(compiler)
        .args(["-O1", "-w", "-pthread", "-o"])
        .arg(binary)
        .arg(source)
        .args(flags)
        .args(["-ldl", "-lrt", "-lm"])
        .output()?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned().into()) }
}

fn compare(binary: &Path, cache: usize, tool: ToolKind) -> Result<(), Failed> {
    // A program that hangs is ended, by a signal that shows in its status.
    let limited = || {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "300"]);
        command
    };
    let native = limited().arg(binary).output()?;
    let mut engine = limited();
    engine.arg(std::env::current_exe()?).args([UNDER_ENGINE, &cache.to_string(), tool.name()]).arg(binary);
    let engine = engine.output()?;
    let text = |output: &Output| {
        format!(
            "{}\n--- standard output\n{}--- standard error\n{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    };
    if text(&native) == text(&engine) {
        return Ok(());
    }
    Err(format!("natively: {}\nunder the engine: {}", text(&native), text(&engine)).into())
}
