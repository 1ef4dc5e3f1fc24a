//! Maps a program and its dynamic linker and builds the initial stack, as the kernel's `execve` does.

mod error;
mod image;
mod search;
mod stack;

use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub use error::LoadError;
use image::Image;
pub use image::Placed;
use stack::ProgramValues;

use crate::memory::{self, Protection};

/// What a program is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Environment strings, `NAME=value`.
    pub environment: Vec<OsString>,
    /// The file that is executed, if the first word of the command is only what the program is told of its name.
    pub executed: Option<PathBuf>,
    /// What `PATH` is for the search of the program, if it is set.
    pub path: Option<OsString>,
}

impl Options {
    /// The environment of this process, with strings that are no `NAME=value`, too.
    pub fn inherited() -> Options {
        unsafe extern "C" {
            static environ: *const *const libc::c_char;
        }
        let mut environment = Vec::new();
        // SAFETY: a null-terminated array of strings. It is not changed meanwhile: the program has not started, and derivgrind does not.
        unsafe {
            let mut entry = environ;
            while !entry.is_null() && !(*entry).is_null() {
                environment.push(OsString::from_vec(CStr::from_ptr(*entry).to_bytes().to_vec()));
                entry = entry.add(1);
            }
        }
        Options { environment, executed: None, path: std::env::var_os("PATH") }
    }
}

/// Where execution starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// First instruction: the dynamic linker's, or the program's if it is static.
    pub rip: u64,
    /// Initial stack pointer.
    pub rsp: u64,
}

/// What is known about the program that was started.
#[derive(Clone, Debug)]
pub struct Program {
    /// The ELF file: what `/proc/self/exe` points to.
    pub path: PathBuf,
    /// Where it was mapped.
    pub image: Placed,
    /// Where its dynamic linker was mapped, if it has one.
    pub interpreter: Option<Placed>,
    /// Addresses of the argument strings.
    pub arguments: std::ops::Range<u64>,
    /// Addresses of the environment strings.
    pub environment: std::ops::Range<u64>,
    /// The auxiliary vector.
    pub auxiliary: Vec<(u64, u64)>,
    /// The thread name that the kernel would have given it: the last component of what was executed, 15 bytes at most.
    pub name: Vec<u8>,
}

static PROGRAM: OnceLock<Program> = OnceLock::new();

/// The program that was loaded; `None` before [`load`].
pub fn program() -> Option<&'static Program> {
    PROGRAM.get()
}

/// Finds `command[0]` and its dynamic linker as [`load`] does, without mapping anything: so that a mistyped program is noticed before
/// something is created or replaced on its behalf.
///
/// # Errors
/// As for [`load`], except those of mapping.
pub fn check(command: &[OsString], options: &Options) -> Result<(), LoadError> {
    let found = search::find(command, options.executed.as_deref(), options.path.as_deref())?;
    let image = Image::read(found.file, &found.path)?;
    if let Some(interpreter) = image.interpreter()? {
        open_interpreter(&found.path, interpreter)?;
    }
    Ok(())
}

/// Finds `command[0]`, maps it, and builds its stack.
///
/// # Errors
/// One variant for each reason why a program cannot be started, with the file's path and advice.
pub fn load(command: &[OsString], options: &Options) -> Result<Start, LoadError> {
    let found = search::find(command, options.executed.as_deref(), options.path.as_deref())?;
    let image = Image::read(found.file, &found.path)?;
    let interpreter = image.interpreter()?;
    let interpreter = interpreter.map(|path| open_interpreter(&found.path, path)).transpose()?;

    let placed = image.map()?;
    let interpreter_placed = interpreter.map(|interpreter| interpreter.map()).transpose()?;
    let access = Protection { read: true, write: true, execute: image.wants_executable_stack() };
    let length = stack_length();
    let stack = memory::map_stack(length, access).map_err(|error| LoadError::Mapping {
        path: found.path.clone(),
        address: memory::APP_END - length,
        error,
    })?;
    let values = ProgramValues {
        program_headers: placed.program_headers,
        program_header_count: placed.program_header_count,
        interpreter_base: interpreter_placed.as_ref().map_or(0, |placed| placed.bias),
        entry: placed.entry,
    };
    let executed: &OsStr = found.executed.as_os_str();
    let built = stack::build(stack, &found.arguments, &options.environment, executed, values)?;
    let rip = interpreter_placed.as_ref().map_or(placed.entry, |interpreter| interpreter.entry);
    let program = Program {
        path: absolute(&found.path),
        image: placed,
        interpreter: interpreter_placed,
        arguments: built.arguments,
        environment: built.environment,
        auxiliary: built.auxiliary,
        name: thread_name(&found.executed),
    };
    // A second program in one process happens in tests only; the first one's description stays.
    let _ = PROGRAM.set(program);
    Ok(Start { rip, rsp: built.stack_pointer })
}

/// Whether `execve` of a file is likely to succeed.
pub(crate) fn can_execute(path: &Path) -> bool {
    search::find(&[path.as_os_str().to_owned()], Some(path), None).is_ok()
}

/// The ELF file that `execve` of `path` would load: the interpreter if that is a script.
///
/// # Errors
/// If it cannot be loaded here.
pub(crate) fn executable_of(path: &Path) -> Result<std::fs::File, LoadError> {
    let found = search::find(&[path.as_os_str().to_owned()], Some(path), None)?;
    let image =
        Image::read(found.file.try_clone().map_err(|error| LoadError::from_io(path.to_owned(), error))?, &found.path)?;
    if let Some(interpreter) = image.interpreter()? {
        open_interpreter(&found.path, interpreter)?;
    }
    Ok(found.file)
}

fn open_interpreter(program: &Path, interpreter: PathBuf) -> Result<Image, LoadError> {
    let opened = search::open(&interpreter).and_then(|(file, _)| Image::read(file, &interpreter));
    opened.map_err(|source| LoadError::BadInterpreter {
        path: program.to_owned(),
        interpreter,
        source: Box::new(source),
    })
}

/// The path with all symbolic links resolved, as `/proc/self/exe` shows it.
fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn thread_name(executed: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    /// `TASK_COMM_LEN` without the final zero.
    const LONGEST: usize = 15;
    let mut name = executed.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
    name.truncate(LONGEST);
    name
}

/// Room for the main stack: its resource limit. It costs nothing until it is touched.
fn stack_length() -> u64 {
    const LEAST: u64 = 1 << 20;
    const MOST: u64 = 1 << 30;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current.unwrap_or(MOST);
    memory::pages_up(limit.clamp(LEAST, MOST)).unwrap_or(MOST)
}

#[cfg(test)]
mod tests;
