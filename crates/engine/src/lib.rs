//! Dynamic binary instrumentation of Linux programs in one process; knows no derivatives.
//!
//! [`run`] loads a program into this process and executes it from a cache of translated code, with whatever a [`tool::Tool`] puts
//! between its instructions. `docs/architecture.md` has the picture.

pub mod cache;
pub mod context;
mod cpuid;
pub mod dispatcher;
pub mod hooks;
pub mod loader;
pub mod locate;
mod lockstep;
pub mod memory;
pub mod procfs;
pub mod signal;
pub mod symbols;
pub mod syscall;
pub mod thread;
pub mod tool;
mod trace;
pub mod translate;

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

pub use context::Context;
pub use tool::{FunctionId, SignalFrame, Tool, Version, WantedFunction};
pub use translate::NullTool;

/// How a program is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Write the address and version of each executed block to this file. Slow: blocks are not linked.
    pub trace: Option<PathBuf>,
    /// Hand only so many blocks to the tool, the others are copied without instrumentation: to find by bisection the block whose
    /// instrumentation goes wrong.
    pub bisect: Option<u64>,
    /// Compare the registers after each block with those of a native run of the same program, and stop at the first difference with
    /// [`EXIT_ENGINE`]. Slow: blocks are not linked.
    pub lockstep: bool,
    /// Hide from the program that the processor has AVX-512. Code that does not ask can use it in any case.
    pub hide_avx512: bool,
    /// Bytes reserved for translated code, within [`cache::POSSIBLE_BYTES`]; [`cache::DEFAULT_BYTES`] if it is not given.
    pub code_cache: Option<usize>,
    /// No messages of our own except errors.
    pub quiet: bool,
    /// The file that is executed, if the first word of the command is only what the program is told of its name.
    pub executed: Option<PathBuf>,
    /// Programs that the program executes run under the tool, too: options of our own command line for them. They get `--executed FILE -- WORD...`
    /// behind these, which must lead to [`Options::executed`]. `None`: they run natively.
    pub children: Option<Vec<OsString>>,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program's file is missing or unusable.
    #[error(transparent)]
    Load(#[from] loader::LoadError),
    /// The address space is not as we need it.
    #[error(transparent)]
    Memory(#[from] memory::MemoryError),
    /// The engine could not be set up.
    #[error("{0}")]
    Setup(String),
    /// The trace file cannot be written.
    #[error("cannot write the trace to {path}: {source}", path = .path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    /// The exit code that goes with it (documented in `docs/exit-codes.md`).
    pub fn exit_code(&self) -> i32 {
        match self {
            Error::Load(error) => error.exit_code(),
            _ => EXIT_ENGINE,
        }
    }
}

/// Exit code when the engine itself cannot go on.
pub const EXIT_ENGINE: i32 = 125;

static TOOL: OnceLock<Box<dyn Tool>> = OnceLock::new();

/// The tool of this process.
pub(crate) fn tool() -> &'static dyn Tool {
    TOOL.get().expect("the tool is set before the application starts").as_ref()
}

/// Loads `command[0]` with the arguments `command[1..]` and runs it in this process with this process's environment, descriptors and working
/// directory. Does not return once the program has started: the process ends as the program does.
///
/// # Errors
/// If the program cannot be loaded, or the engine cannot be set up.
pub fn run(command: &[OsString], options: &Options, tool: Box<dyn Tool>) -> Result<Infallible, Error> {
    if TOOL.set(tool).is_err() {
        return Err(Error::Setup("the engine runs once in a process".to_owned()));
    }
    memory::init(crate::tool().shadow_layers())?;
    if let Some(path) = &options.trace {
        trace::start(path).map_err(|source| Error::Trace { path: path.clone(), source })?;
    }
    let cache_bytes = options.code_cache.unwrap_or(cache::DEFAULT_BYTES);
    cache::init(cache_bytes, options.bisect, options.trace.is_none() && !options.lockstep).map_err(Error::Setup)?;
    if options.lockstep {
        // Then the whole vector state is saved and restored, with the bits that say what is in its initial state: programs can see these
        // (in what XSAVE leaves on their stack).
        translate::trampolines::save_everything();
    }
    cpuid::hide_avx512(options.hide_avx512);
    if let Some(children) = &options.children {
        syscall::children::trace(children);
    }
    let start =
        loader::load(command, &loader::Options { executed: options.executed.clone(), ..loader::Options::inherited() })?;
    let context = context::current();
    // SAFETY: the only reference to this thread's context; no application code runs yet.
    let context = unsafe { &mut *context };
    dispatcher::prepare(context);
    context.rip = start.rip;
    context.set_reg(context::Gpr::Rsp, start.rsp);
    if options.lockstep {
        lockstep::start(context, options.quiet)
            .map_err(|error| Error::Setup(format!("cannot start the native process to compare with: {error}")))?;
    }
    thread::adopt_main(context);
    signal::init();
    dispatcher::run(context);
    thread::exit_current(context)
}

/// Prints a message of ours.
pub fn report(message: &str) {
    // Not `eprintln`: a closed standard error must not become a panic.
    let text = format!("derivgrind: {message}\n");
    // SAFETY: a plain write of a valid buffer.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// Ends the process because the engine cannot go on.
pub(crate) fn fatal(message: &str) -> ! {
    report(message);
    // SAFETY: ends the process.
    unsafe { libc::_exit(EXIT_ENGINE) }
}
