//! Behaviour as without the tool: each program is run natively and then under the null tool (`derivgrind run`), under recording
//! (`derivgrind record`) or in forward mode (`derivgrind forward`), in the same directory with the same files, and everything that can be seen from outside has to be the same byte
//! for byte: standard output, standard error, exit code or signal, and what it leaves in the directory.

mod commands;
mod programs;
mod requests;
mod snapshot;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use derivgrind_tests::process::{self, Finished, excerpt};
use derivgrind_tests::suite::{Obstacle, Outcome, Suite, fail};
use derivgrind_tests::{compiler, derivgrind};
use snapshot::Snapshot;

/// The slowest commands take some seconds natively.
const LIMIT: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    let mut suite = Suite::new("compat");
    for case in commands::cases().into_iter().chain(programs::cases()) {
        let case = Arc::new(case);
        for mode in [Mode::NullTool, Mode::Recording, Mode::Forward] {
            let case = Arc::clone(&case);
            suite.case(format!("{}/{}", mode.name(), case.name), move || compare(&case, mode));
        }
    }
    requests::add(&mut suite);
    suite.run()
}

/// How the tool runs the program.
#[derive(Clone, Copy)]
enum Mode {
    /// Instrumented, with nothing put in.
    NullTool,
    /// Everything that recording puts in.
    Recording,
    /// Everything that forward mode puts in.
    Forward,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::NullTool => "run",
            Self::Recording => "record",
            Self::Forward => "forward",
        }
    }
}

/// Prepares a directory: writes input files, compiles programs.
type Prepare = Box<dyn Fn(&Path) -> Result<(), Obstacle> + Send + Sync>;

/// A command line in a prepared directory.
pub struct Case {
    name: String,
    prepare: Prepare,
    words: Vec<String>,
    input: Vec<u8>,
    environment: &'static [(&'static str, &'static str)],
    options: &'static [&'static str],
    ignored: Vec<&'static str>,
    client: Option<&'static str>,
    numbers_masked: bool,
}

impl Case {
    /// A case whose program is the first word: a path, or a command that is looked up.
    pub fn new(name: impl Into<String>, words: &[&str]) -> Self {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        Self {
            name: name.into(),
            prepare: Box::new(|_| Ok(())),
            words,
            input: Vec::new(),
            environment: &[],
            options: &[],
            ignored: Vec::new(),
            client: None,
            numbers_masked: false,
        }
    }

    /// The same with prepared files. It is called once for each run, with the same empty directory.
    #[must_use]
    pub fn prepared(mut self, prepare: impl Fn(&Path) -> Result<(), Obstacle> + Send + Sync + 'static) -> Self {
        self.prepare = Box::new(prepare);
        self
    }

    /// The same with something on standard input.
    #[must_use]
    pub fn with_input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// The same with environment variables beyond the usual ones.
    #[must_use]
    pub fn with_environment(mut self, variables: &'static [(&'static str, &'static str)]) -> Self {
        self.environment = variables;
        self
    }

    /// The same with options of the tool.
    #[must_use]
    pub fn with_options(mut self, options: &'static [&'static str]) -> Self {
        self.options = options;
        self
    }

    /// The same without looking at one of the files that it leaves: two native runs write different ones.
    #[must_use]
    pub fn ignoring(mut self, path: &'static str) -> Self {
        self.ignored.push(path);
        self
    }

    /// The same with a shell script that runs natively beside the program, as the client of a server that it brings to its end. What
    /// the script prints is compared like the output of the program.
    #[must_use]
    pub fn with_client(mut self, script: &'static str) -> Self {
        self.client = Some(script);
        self
    }

    /// The same with all numbers and the space around them taken as equal: measured times, dates.
    #[must_use]
    pub fn masking_numbers(mut self) -> Self {
        self.numbers_masked = true;
        self
    }

    /// Prepares `directory` and runs the program there, natively or in a mode of the tool.
    fn run(&self, directory: &Path, mode: Option<(Mode, &Path)>) -> Result<(Finished, Snapshot), Obstacle> {
        if directory.exists() {
            std::fs::remove_dir_all(directory)?;
        }
        std::fs::create_dir(directory)?;
        (self.prepare)(directory)?;
        snapshot::set_times(directory)?;
        let (program, arguments) =
            self.words.split_first().ok_or_else(|| Obstacle::Failure("no program".to_owned()))?;
        let program = if program.contains('/') { program.into() } else { compiler::need(program)? };
        let mut command = command(&program, directory, mode, self.options);
        command.args(arguments).envs(self.environment.iter().copied());
        let mut finished = std::thread::scope(|scope| {
            let client = self.client.map(|script| scope.spawn(|| client(script, directory)));
            let finished = process::run_with(&mut command, &self.input, LIMIT);
            let answers = client.map(|client| client.join());
            let mut finished = finished?;
            match answers {
                None => {}
                Some(Ok(answers)) => finished.stdout.extend(answers?.stdout),
                Some(Err(_)) => return Err(Obstacle::Failure("the client's thread failed".to_owned())),
            }
            Ok(finished)
        })?;
        if self.numbers_masked {
            finished.stdout = mask_numbers(&finished.stdout);
            finished.stderr = mask_numbers(&finished.stderr);
        }
        Ok((finished, Snapshot::of(directory)?.without(&self.ignored)))
    }
}

/// Runs the client of a server natively in its directory, to its end.
fn client(script: &str, directory: &Path) -> Result<Finished, Obstacle> {
    let mut command = process::command("/bin/sh", directory);
    Ok(process::run_with(command.args(["-c", script]), &[], LIMIT)?.successful("the client")?)
}

/// Replaces each run of digits, points and space that holds a digit by `#`.
fn mask_numbers(text: &[u8]) -> Vec<u8> {
    let mut masked = Vec::with_capacity(text.len());
    let in_number = |byte: &u8| byte.is_ascii_digit() || b". :".contains(byte);
    let mut rest = text;
    while let Some(first) = rest.first() {
        let length = rest.iter().take_while(|byte| in_number(byte)).count();
        if rest[..length].iter().any(u8::is_ascii_digit) {
            masked.push(b'#');
            rest = &rest[length..];
        } else {
            masked.push(*first);
            rest = &rest[1..];
        }
    }
    masked
}

/// The program itself, or the tool with the program.
fn command(program: &Path, directory: &Path, mode: Option<(Mode, &Path)>, options: &[&str]) -> Command {
    let Some((mode, tape)) = mode else { return process::command(program, directory) };
    let mut command = process::command(derivgrind(), directory);
    command.args(["--quiet", mode.name()]).args(options);
    if let Mode::Recording = mode {
        command.arg(tape);
    }
    command.arg("--").arg(program);
    command
}

fn compare(case: &Case, mode: Mode) -> Outcome {
    let scratch = compiler::scratch("compat")?;
    let directory = scratch.path().join("work");
    let tape: PathBuf = scratch.path().join("tape");
    let (native, native_files) = case.run(&directory, None)?;
    let (finished, files) = case.run(&directory, Some((mode, &tape)))?;
    if finished.status != native.status {
        return fail(format!("natively {native};\nunder derivgrind {finished}"));
    }
    for (stream, natively, under) in
        [("stdout", &native.stdout, &finished.stdout), ("stderr", &native.stderr, &finished.stderr)]
    {
        if let Some(difference) = first_difference(natively, under) {
            return fail(format!("{stream} differs {difference}"));
        }
    }
    files.same_as(&native_files).map_or(Ok(()), fail)
}

/// Where two outputs part, with the lines around, or `None` if they do not.
fn first_difference(natively: &[u8], under: &[u8]) -> Option<String> {
    if natively == under {
        return None;
    }
    let position = natively.iter().zip(under).take_while(|(a, b)| a == b).count();
    let line = natively[..position].iter().filter(|&&byte| byte == b'\n').count() + 1;
    let start = natively[..position].iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    Some(format!(
        "in line {line}: natively {}, under derivgrind {}",
        excerpt(&natively[start..]),
        excerpt(&under[start..])
    ))
}
