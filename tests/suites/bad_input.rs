//! Bad input gets a clear message and a documented exit code (docs/exit-codes.md), and never makes the tool crash.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use derivgrind_tests::process::Finished;
use derivgrind_tests::recording::{Recording, numbers, tool};
use derivgrind_tests::suite::{Obstacle, Outcome, Suite, fail, skip};
use derivgrind_tests::{compiler, derivgrind, process, root};

/// Exit codes of docs/exit-codes.md.
mod code {
    pub const USAGE: i32 = 2;
    pub const TAPE: i32 = 65;
    pub const SEEDS: i32 = 66;
    pub const CANNOT_CREATE: i32 = 73;
    pub const UNUSABLE: i32 = 126;
    pub const NOT_FOUND: i32 = 127;
}

fn main() -> ExitCode {
    let mut suite = Suite::new("bad-input");
    for &(name, make, expected) in PROGRAMS {
        for mode in ["run", "record", "grad"] {
            suite.case(format!("program/{name}/{mode}"), move || unusable_program(mode, make, expected));
        }
    }
    for &(name, arguments) in USAGE {
        suite.case(format!("usage/{name}"), move || {
            let scratch = compiler::scratch("bad-input")?;
            expect(tool(scratch.path()).args(arguments), code::USAGE, &[])
        });
    }
    suite.case("directory/below-a-file", || unwritable(Path::new("file/tape")));
    suite.case("directory/is-a-file", || unwritable(Path::new("file")));
    suite.case("directory/read-only-file-system", read_only_file_system);
    suite.case("recording/disk-full", disk_full);
    suite.case("recording/file-size-limit", file_size_limit);
    suite.case("recording/killed", killed);
    for &(name, bars) in SEEDS {
        for forward in [false, true] {
            let direction = if forward { "forward" } else { "reverse" };
            suite.case(format!("seeds/{name}/{direction}"), move || bad_seeds(bars, forward));
        }
    }
    for &(name, damage) in DAMAGES {
        suite.case(format!("tape/{name}"), move || damaged_tape(damage));
    }
    suite.case("independent-output/eval", independent_output);
    suite.case("independent-output/grad", independent_output_in_table);
    suite.run()
}

/// A way to make something that is not a program, in a directory.
type Make = fn(&Path) -> Result<()>;
/// A way to damage a recording in a directory.
type Damage = fn(&Path) -> Result<()>;

const PROGRAMS: &[(&str, Make, i32)] = &[
    ("missing", |_| Ok(()), code::NOT_FOUND),
    ("directory", |path| Ok(std::fs::create_dir(path)?), code::UNUSABLE),
    ("text", |path| executable(path, b"This is no program.\n"), code::UNUSABLE),
    ("empty", |path| executable(path, b""), code::UNUSABLE),
    ("no-permission", |path| Ok(std::fs::write(path, std::fs::read("/bin/true")?)?), code::UNUSABLE),
    ("elf-cut-in-header", |path| executable(path, &std::fs::read("/bin/true")?[..40]), code::UNUSABLE),
    ("elf-cut-in-program-headers", |path| executable(path, &std::fs::read("/bin/true")?[..100]), code::UNUSABLE),
    ("elf-cut-in-segments", |path| executable(path, &std::fs::read("/bin/true")?[..9000]), code::UNUSABLE),
    ("elf-32-bit", |path| executable(path, &elf(1, 3, 3)), code::UNUSABLE),
    ("elf-aarch64", |path| executable(path, &elf(2, 183, 3)), code::UNUSABLE),
    ("elf-object-file", |path| executable(path, &elf(2, 62, 1)), code::UNUSABLE),
    ("elf-core-dump", |path| executable(path, &elf(2, 62, 4)), code::UNUSABLE),
    ("elf-without-segments", |path| executable(path, &elf(2, 62, 2)), code::UNUSABLE),
    ("elf-missing-loader", |path| executable(path, &missing_loader()?), code::NOT_FOUND),
    ("script-missing-interpreter", |path| executable(path, b"#!/nowhere/interpreter\n"), code::NOT_FOUND),
    ("script-interprets-itself", |path| executable(path, format!("#!{}\n", path.display()).as_bytes()), code::UNUSABLE),
];

const USAGE: &[(&str, &[&str])] = &[
    ("unknown-option", &["--recrod=x", "/bin/true"]),
    ("unknown-option-of-command", &["run", "--nothing", "--", "/bin/true"]),
    ("no-program", &["run"]),
    ("no-directory", &["eval"]),
    ("code-cache-too-small", &["run", "--code-cache=4K", "--", "/bin/true"]),
    ("code-cache-in-words", &["record", "--code-cache", "large", "tape", "--", "/bin/true"]),
    ("unknown-tape-command", &["tape", "unroll", "x"]),
];

/// Contents of a file of seeds for one number; `None` for no file.
const SEEDS: &[(&str, Option<&str>)] = &[
    ("missing", None),
    ("empty", Some("")),
    ("too-many", Some("1\n2\n")),
    ("words", Some("one\n")),
    ("comma", Some("1,5\n")),
    ("two-in-a-line", Some("1 2\n")),
    ("not-utf8", Some("\u{fffd}\n")),
];

const DAMAGES: &[(&str, Damage)] = &[
    ("no-directory", |directory| Ok(std::fs::remove_dir_all(directory)?)),
    ("no-tape", |directory| Ok(std::fs::remove_file(directory.join("dg-tape"))?)),
    ("no-input-indices", |directory| Ok(std::fs::remove_file(directory.join("dg-input-indices"))?)),
    ("no-output-indices", |directory| Ok(std::fs::remove_file(directory.join("dg-output-indices"))?)),
    ("empty", |directory| Ok(std::fs::write(directory.join("dg-tape"), "")?)),
    ("truncated", |directory| {
        let path = directory.join("dg-tape");
        let bytes = std::fs::read(&path)?;
        Ok(std::fs::write(&path, &bytes[..bytes.len() - bytes.len().min(24)])?)
    }),
    ("text", |directory| {
        Ok(std::fs::write(directory.join("dg-tape"), "no tape at all, but some text of a few words\n")?)
    }),
    ("indices-no-numbers", |directory| Ok(std::fs::write(directory.join("dg-input-indices"), "first\n")?)),
    ("index-beyond-tape", |directory| Ok(std::fs::write(directory.join("dg-output-indices"), "123456789\n")?)),
];

fn executable(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes)?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?)
}

/// An ELF header with nothing behind it: class (1 for 32 bits, 2 for 64), machine, and type (2 for an executable at a fixed address).
fn elf(class: u8, machine: u16, kind: u16) -> Vec<u8> {
    let mut header = vec![0x7f, b'E', b'L', b'F', class, 1, 1, 0];
    header.resize(16, 0);
    header.extend(kind.to_le_bytes());
    header.extend(machine.to_le_bytes());
    header.extend(1u32.to_le_bytes());
    let (word, size) = if class == 1 { (4, 52) } else { (8, 64) };
    header.resize(header.len() + 3 * word + 4, 0);
    header.extend((size as u16).to_le_bytes());
    header.resize(size, 0);
    header
}

/// `/bin/true` with another path of the same length for its dynamic loader.
fn missing_loader() -> Result<Vec<u8>> {
    let mut bytes = std::fs::read("/bin/true")?;
    let loader = b"/lib64/ld-linux";
    let position =
        bytes.windows(loader.len()).position(|window| window == loader).context("/bin/true names no loader")?;
    bytes[position + 1] = b'L';
    Ok(bytes)
}

/// Runs a command of the tool and expects a message of ours with all of `words`, and this exit code.
fn expect(command: &mut Command, code: i32, words: &[&str]) -> Outcome {
    complains(&process::run(command)?, code, words)
}

fn complains(finished: &Finished, code: i32, words: &[&str]) -> Outcome {
    let errors = finished.errors();
    if finished.status.code() != Some(code) {
        return fail(format!("expected exit code {code}; {finished}"));
    }
    if !errors.starts_with("derivgrind: ") || errors.contains("panicked") {
        return fail(format!("expected a message that begins with `derivgrind: `; {finished}"));
    }
    match words.iter().find(|word| !errors.contains(**word)) {
        Some(word) => fail(format!("the message does not say `{word}`; {finished}")),
        None => Ok(()),
    }
}

fn unusable_program(mode: &str, make: Make, code: i32) -> Outcome {
    let scratch = compiler::scratch("bad-input")?;
    let path = scratch.path().join("victim");
    make(&path)?;
    let mut command = tool(scratch.path());
    command.arg(mode);
    if mode == "record" {
        command.arg("tape");
    }
    expect(command.arg("--").arg(&path), code, &["victim"])
}

/// Compiles a test program.
fn built(scratch: &Path, name: &str) -> Result<PathBuf, Obstacle> {
    let program = scratch.join(name);
    compiler::compile("gcc", &compiler::programs().join(name).with_extension("c"), &program, &["-O1"])?;
    Ok(program)
}

/// The Burgers solver, whose tape is as large as one wants.
fn burgers(scratch: &Path) -> Result<PathBuf, Obstacle> {
    let program = scratch.join("burgers");
    compiler::compile("g++", &root().join("benches/programs/burgers.cpp"), &program, &["-O2"])?;
    Ok(program)
}

/// Records into `directory`, relative to a scratch directory that holds a file `file`.
fn unwritable(directory: &Path) -> Outcome {
    let scratch = compiler::scratch("bad-input")?;
    std::fs::write(scratch.path().join("file"), "")?;
    expect(
        tool(scratch.path()).arg("record").arg(directory).args(["--", "/bin/true"]),
        code::CANNOT_CREATE,
        &[&directory.to_string_lossy()],
    )
}

/// A small file system in memory, unmounted when dropped.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(path: PathBuf, options: &str) -> Result<Self, Obstacle> {
        std::fs::create_dir(&path)?;
        let mounted =
            Command::new(compiler::need("mount")?).args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&path).output()?;
        if !mounted.status.success() {
            return skip(format!("cannot mount a tmpfs: {}", String::from_utf8_lossy(&mounted.stderr).trim()));
        }
        Ok(Self(path))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn read_only_file_system() -> Outcome {
    let scratch = compiler::scratch("bad-input")?;
    let tmpfs = Tmpfs::mount(scratch.path().join("read-only"), "ro,size=64k")?;
    expect(
        tool(scratch.path()).arg("record").arg(tmpfs.0.join("tape")).args(["--", "/bin/true"]),
        code::CANNOT_CREATE,
        &["tape"],
    )
}

/// A recording that could not be completed: the program did what it does natively, an error is printed, and the tape is known to be
/// incomplete.
fn incomplete(native: &Finished, finished: &Finished, directory: &Path) -> Outcome {
    if (&finished.stdout, finished.status) != (&native.stdout, native.status) {
        return fail(format!("natively: {native}; recording: {finished}"));
    }
    complains(finished, 0, &[])?;
    std::fs::write(directory.join("dg-output-bars"), "1\n").or_else(|_| {
        // The disk is full; make room without touching the tape.
        std::fs::remove_file(directory.join("ballast"))?;
        std::fs::write(directory.join("dg-output-bars"), "1\n")
    })?;
    expect(tool(directory).arg("eval").arg(directory), code::TAPE, &["incomplete"])
}

fn disk_full() -> Outcome {
    let scratch = compiler::scratch("bad-input")?;
    let program = burgers(scratch.path())?;
    let native = process::run(process::command(&program, scratch.path()).args(["40", "40"]))?;
    let tmpfs = Tmpfs::mount(scratch.path().join("small"), "size=512k")?;
    let directory = tmpfs.0.join("tape");
    std::fs::create_dir(&directory)?;
    std::fs::write(directory.join("ballast"), [0; 8192])?;
    let mut command = tool(scratch.path());
    command.arg("record").arg(&directory).arg("--").arg(&program).args(["40", "40"]);
    incomplete(&native, &process::run(&mut command)?, &directory)
}

fn file_size_limit() -> Outcome {
    let scratch = compiler::scratch("bad-input")?;
    let program = burgers(scratch.path())?;
    let native = process::run(process::command(&program, scratch.path()).args(["40", "40"]))?;
    let directory = scratch.path().join("tape");
    let mut command = process::command("bash", scratch.path());
    command.args(["-c", "ulimit -f 256; exec \"$0\" \"$@\""]).arg(derivgrind());
    command.arg("record").arg(&directory).arg("--").arg(&program).args(["40", "40"]);
    incomplete(&native, &process::run(&mut command)?, &directory)
}

fn killed() -> Outcome {
    let scratch = compiler::scratch("bad-input")?;
    let program = built(scratch.path(), "endless")?;
    let directory = scratch.path().join("tape");
    let mut command = tool(scratch.path());
    command.args(["--quiet", "record"]).arg(&directory).arg("--").arg(&program).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut started = [0; 8];
    let output = child.stdout.as_mut().context("no pipe from standard output")?;
    let said = std::io::Read::read_exact(output, &mut started);
    std::thread::sleep(Duration::from_millis(50));
    child.kill()?;
    let status = child.wait()?;
    if said.is_err() || status.signal() != Some(libc::SIGKILL) {
        return fail(format!("the recording ended by itself: {status}"));
    }
    std::fs::write(directory.join("dg-output-bars"), "1\n")?;
    expect(tool(scratch.path()).arg("eval").arg(&directory), code::TAPE, &["incomplete"])
}

/// A sound recording of a program with one input and two outputs.
fn recorded(scratch: &Path) -> Result<(PathBuf, Recording), Obstacle> {
    let program = built(scratch, "independent")?;
    let directory = scratch.join("tape");
    let recording = Recording::make(&directory, &program, &[] as &[&str], process::TIME_LIMIT)?;
    recording.finished.clone().successful("recording")?;
    Ok((directory, recording))
}

fn bad_seeds(bars: Option<&str>, forward: bool) -> Outcome {
    let scratch = compiler::scratch("bad-input")?;
    let (directory, _) = recorded(scratch.path())?;
    let name = if forward { "dg-input-dots" } else { "dg-output-bars" };
    if let Some(bars) = bars {
        // A reverse sweep has two outputs to seed.
        let text = if forward { bars.to_owned() } else { format!("1\n{bars}") };
        let bytes: Vec<u8> = text.bytes().map(|byte| if byte == 0xef { 0xff } else { byte }).collect();
        std::fs::write(directory.join(name), bytes)?;
    }
    let mut command = tool(scratch.path());
    command.arg("eval").arg(&directory).args(forward.then_some("--forward"));
    expect(&mut command, code::SEEDS, &[name])
}

fn damaged_tape(damage: Damage) -> Outcome {
    let scratch = compiler::scratch("bad-input")?;
    let (directory, _) = recorded(scratch.path())?;
    std::fs::write(directory.join("dg-output-bars"), "1\n1\n")?;
    damage(&directory)?;
    expect(tool(scratch.path()).arg("eval").arg(&directory), code::TAPE, &["tape"])
}

fn independent_output() -> Outcome {
    let scratch = compiler::scratch("bad-input")?;
    let (directory, recording) = recorded(scratch.path())?;
    for (bars, expected) in [([0.0, 1.0], 0.0), ([1.0, 1.0], 3.0)] {
        let found = recording.reverse(&bars)?;
        if found != [expected] {
            return fail(format!("input bars {found:?} for output bars {bars:?}"));
        }
    }
    let finished = process::run(tool(scratch.path()).arg("eval").arg(&directory))?.successful("eval")?;
    if numbers(&directory.join("dg-input-bars"))? != [3.0]
        || !finished.errors().contains("does not depend on any input")
    {
        return fail(format!("expected a note that output 2 does not depend on any input; {finished}"));
    }
    Ok(())
}

fn independent_output_in_table() -> Outcome {
    let scratch = compiler::scratch("bad-input")?;
    let program = built(scratch.path(), "independent")?;
    let finished = process::run(tool(scratch.path()).args(["grad", "--"]).arg(&program))?.successful("grad")?;
    if !finished.errors().contains("does not depend on any input") {
        return fail(format!("expected a note that output 2 does not depend on any input; {finished}"));
    }
    Ok(())
}
