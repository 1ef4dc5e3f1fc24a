//! Lock-step comparison: a program behaves as natively while it is compared, and a tool that changes a register is caught in the act.
//!
//! This test program runs itself with a first argument to become the process in which the engine runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::{Block, Emitter};
use derivgrind_engine::{EXIT_ENGINE, NullTool, Options, Tool, Version};
use libtest_mimic::{Arguments, Failed, Trial};

/// First argument of a run under the engine. The second is the name of a [`Fault`], or something else for none.
const UNDER_ENGINE: &str = "--under-engine";

/// The constant that the function `marked` of the test program returns.
const MARK: u32 = 0x5eed;

/// What a tool does wrong behind the instruction that loads [`MARK`] into EAX.
struct Fault {
    name: &'static str,
    code: &'static [u8],
    /// The line of the report with the values natively and under the engine.
    row: &'static [&'static str],
}

const FAULTS: &[Fault] = &[
    // lea eax, [rax+1]
    Fault { name: "general", code: &[0x8d, 0x40, 0x01], row: &["rax", "0x0000000000005eed", "0x0000000000005eee"] },
    // cmc
    Fault { name: "flag", code: &[0xf5], row: &["rflags", "CF"] },
    // std
    Fault { name: "direction", code: &[0xfd], row: &["rflags", "DF"] },
    // pcmpeqd xmm15, xmm15
    Fault {
        name: "vector",
        code: &[0x66, 0x45, 0x0f, 0x76, 0xff],
        row: &["xmm15", "0xffffffffffffffffffffffffffffffff"],
    },
    // fld1
    Fault { name: "x87", code: &[0xd9, 0xe8], row: &["st0", "0x3fff8000000000000000"] },
];

/// The null tool with shadow memory, and perhaps with a fault.
struct Faulty(&'static [u8]);

impl Tool for Faulty {
    fn shadow_layers(&self) -> u32 {
        1
    }

    fn initial_version(&self) -> Version {
        NullTool.initial_version()
    }

    fn instrument(&self, block: &Block, _: Version, emitter: &mut Emitter<'_>) {
        for index in 0..block.body_len() {
            emitter.copy(index);
            // mov eax, MARK
            let mut marked = vec![0xb8];
            marked.extend(MARK.to_le_bytes());
            if block.bytes(index) == marked {
                emitter.asm().bytes(self.0);
            }
        }
    }

    fn client_request(&self, context: &mut Context, arguments: [u64; 6], default: u64) -> u64 {
        NullTool.client_request(context, arguments, default)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == UNDER_ENGINE) {
        let fault = FAULTS.iter().find(|fault| arguments[2] == fault.name);
        let options = Options { lockstep: true, ..Options::default() };
        let tool = Faulty(fault.map_or(&[], |fault| fault.code));
        let Err(error) = derivgrind_engine::run(&arguments[3..], &options, Box::new(tool));
        eprintln!("{error}");
        return ExitCode::from(error.exit_code() as u8);
    }
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let root = directory.path().to_owned();
    libtest_mimic::run(&Arguments::from_args(), trials(&root)).exit_code()
}

fn trials(directory: &Path) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (kind, flags) in [("dynamic", &["-pie", "-fpie"][..]), ("static", &["-static"])] {
        let binary = directory.join(kind);
        trials.push(Trial::test(format!("equal::{kind}"), move || equal(&compile("lockstep.c", binary, flags)?)));
    }
    for fault in FAULTS {
        let binary = directory.join(fault.name);
        trials.push(Trial::test(format!("different::{}", fault.name), move || {
            different(&compile("lockstep.c", binary, &["-static"])?, fault)
        }));
    }
    let binary = directory.join("threads");
    trials.push(Trial::test("threads", move || thread(&compile("threads.c", binary, &[])?)));
    trials
}

fn compile(source: &str, binary: PathBuf, flags: &[&str]) -> Result<PathBuf, Failed> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let output = Command::new("cc")
        .args(["-O1", "-w", "-pthread", "-o"])
        .arg(&binary)
        .arg(source)
        .args(flags)
        .arg("-lm")
        .output()?;
    if output.status.success() { Ok(binary) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned().into()) }
}

fn compared(fault: &str, binary: &Path) -> Result<Output, Failed> {
    // A program that hangs is ended, by a signal that shows in its status.
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "300"]).arg(std::env::current_exe()?);
    Ok(command.arg(UNDER_ENGINE).arg(fault).arg(binary).output()?)
}

fn check(condition: bool, output: &Output) -> Result<(), Failed> {
    if condition { Ok(()) } else { Err(format!("{output:?}").into()) }
}

fn equal(binary: &Path) -> Result<(), Failed> {
    let native = Command::new(binary).output()?;
    let output = compared("none", binary)?;
    check(native.status == output.status && native.stdout == output.stdout, &output)?;
    let messages = String::from_utf8_lossy(&output.stderr);
    let blocks = messages
        .strip_prefix("derivgrind: lock-step: ")
        .and_then(|rest| rest.strip_suffix(" blocks, no difference\n"))
        .and_then(|number| number.parse::<u64>().ok());
    check(blocks.is_some_and(|blocks| blocks > 1000), &output)
}

fn different(binary: &Path, fault: &Fault) -> Result<(), Failed> {
    let output = compared(fault.name, binary)?;
    // Before the program has printed anything.
    check(output.status.code() == Some(EXIT_ENGINE) && output.stdout.is_empty(), &output)?;
    let messages = String::from_utf8_lossy(&output.stderr);
    let first = messages.lines().next().unwrap_or_default();
    check(first.contains("(marked+0x") && first.contains(binary.to_str().unwrap_or_default()), &output)?;
    check(messages.contains("mov eax, 0x5EED"), &output)?;
    let row = messages.lines().find(|line| line.trim_start().starts_with(fault.row[0]));
    let found = row.is_some_and(|row| fault.row.iter().all(|word| row.contains(word)));
    check(found, &output)
}

fn thread(binary: &Path) -> Result<(), Failed> {
    let native = Command::new(binary).output()?;
    let output = compared("none", binary)?;
    check(native.status == output.status && native.stdout == output.stdout, &output)?;
    let messages = String::from_utf8_lossy(&output.stderr);
    check(messages.ends_with("no difference; not compared any further: the program starts a thread\n"), &output)
}
