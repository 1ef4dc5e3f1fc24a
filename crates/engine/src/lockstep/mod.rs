//! Lock-step comparison: runs the program natively beside the engine, and finds the first block after which the registers differ.
//!
//! Since the engine chooses all addresses of the application, a copy of this process has the very same program in memory, and only
//! has to jump to its first instruction. Three processes take part:
//!
//! ```text
//! engine ──── what each block has done, one way ───► comparing process ── ptrace ──► native process
//!        ◄─── all equal so far / a difference ─────
//! ```
//!
//! - The *engine* runs the program without links between blocks, so that each one comes by the dispatcher, and sends the registers after
//!   each ([`follower`]). Before a system call it waits for the others, so that a program that goes astray does no harm.
//! - The *native process* has loaded the same program ([`native`]). Up to the end of a block it runs freely to a breakpoint: the way there is
//!   straight. Its system calls are not made; nothing of it is visible outside.
//! - The *comparing process* drives it, compares and reports ([`tracer`]). It is no child of the application's process, which therefore can wait
//!   for its children undisturbed, and it is the tracer because a tracer would get SIGCHLD.
//!
//! What cannot be equal is taken over from the engine instead of being executed natively: system calls with the memory that they write,
//! `cpuid`, client requests, signal frames, and the instructions in [`unpredictable`]. Changes of the memory layout are repeated
//! ([`layout`]).
//!
//! # Limits
//! One thread; a thread or a `vfork` ends the comparison, a forked child is not compared. Memory that other processes write to is not seen.
//! Memory itself is not compared: a wrong store shows when it is loaded.

mod event;
mod follower;
mod layout;
mod native;
mod registers;
mod report;
mod tracer;
mod unpredictable;
mod vectors;

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iced_x86::Instruction;

use crate::context::Context;
use crate::translate::{Exit, ExitKind};

pub(crate) use follower::Execution;
use follower::Follower;

/// Whether anything is to be done at all.
static ACTIVE: AtomicBool = AtomicBool::new(false);
static FOLLOWER: Mutex<Option<Follower>> = Mutex::new(None);
/// Memory that the engine or the kernel has written, while somebody wants to know.
static WRITTEN: Mutex<Option<Vec<Range<u64>>>> = Mutex::new(None);

/// What the comparing process answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Everything up to here is equal.
    Equal,
    /// A difference has been found and reported.
    Different,
    /// The native process cannot be followed any further, which has been reported.
    Lost,
}

impl Answer {
    const ALL: [(u8, Answer); 3] = [(b'e', Answer::Equal), (b'd', Answer::Different), (b'l', Answer::Lost)];

    fn to_byte(self) -> u8 {
        let [equal, different, lost] = Answer::ALL.map(|entry| entry.0);
        match self {
            Answer::Equal => equal,
            Answer::Different => different,
            Answer::Lost => lost,
        }
    }

    fn from_byte(byte: u8) -> Option<Answer> {
        Answer::ALL.iter().find(|entry| entry.0 == byte).map(|entry| entry.1)
    }
}

fn follower() -> MutexGuard<'static, Option<Follower>> {
    FOLLOWER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn written_list() -> MutexGuard<'static, Option<Vec<Range<u64>>>> {
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the program is being compared.
pub(crate) fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// Starts the native and the comparing process. To be called when the program has been loaded and `context` is as at its start, before
/// anything else of the engine is set up. Unless `quiet`, a line at the end says that there was no difference.
///
/// # Errors
/// If the processes cannot be made.
pub(crate) fn start(context: &Context, quiet: bool) -> io::Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    let ours = UnixStream::from(crate::syscall::protect_descriptor(ours.into())?);
    tracer::start(theirs, quiet)?;
    let mut link = Follower::new(ours);
    link.adopt(context)?;
    if link.wait()? != Answer::Equal {
        return Err(io::Error::other("it could not be started"));
    }
    *follower() = Some(link);
    ACTIVE.store(true, Ordering::Relaxed);
    Ok(())
}

/// Does something with the connection, and ends the process if it turns out that a difference has been found.
fn with<T>(action: impl FnOnce(&mut Follower) -> io::Result<T>) -> Option<T> {
    let mut slot = follower();
    let link = slot.as_mut()?;
    match action(link) {
        Ok(value) => Some(value),
        Err(_) => {
            // The other side has gone. Its last word may be on the way.
            let answer = link.answer();
            *slot = None;
            ACTIVE.store(false, Ordering::Relaxed);
            match answer {
                Ok(Answer::Different) => stop_here(),
                Ok(Answer::Equal | Answer::Lost) => {}
                Err(_) => crate::report("lock-step: the comparing process has ended; the program goes on without it"),
            }
            None
        }
    }
}

/// Acts on an answer. Anything but equality ends the comparison; the error is handled by [`with`].
fn settle(answer: Answer) -> io::Result<()> {
    match answer {
        Answer::Equal => Ok(()),
        Answer::Different => stop_here(),
        Answer::Lost => {
            ACTIVE.store(false, Ordering::Relaxed);
            Ok(())
        }
    }
}

fn stop_here() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(crate::EXIT_ENGINE) }
}

/// A block is about to be executed from `context.rip` on.
pub(crate) fn enter(context: &Context) -> Option<Execution> {
    if !is_active() {
        return None;
    }
    with(|follower| follower.enter(context))
}

/// The block has been left. To be called before what `exit` asks for is done.
pub(crate) fn left(execution: &mut Option<Execution>, context: &Context, exit: Option<&Exit>) {
    let Some(execution) = execution.as_mut().filter(|_| is_active()) else { return };
    let visible = exit.is_some_and(|exit| matches!(exit.kind, ExitKind::Syscall { .. }));
    with(|follower| {
        follower.left(execution, context, exit)?;
        if visible { follower.wait().and_then(settle) } else { Ok(()) }
    });
    *written_list() = Some(Vec::new());
}

/// What the exit asks for has been done.
pub(crate) fn acted(execution: Option<Execution>, context: &Context, exit: Option<&Exit>) {
    let Some(execution) = execution.filter(|_| is_active()) else { return };
    let written = written_list().take().unwrap_or_default();
    with(|follower| follower.acted(execution, context, exit, written));
}

/// Signals are about to be delivered.
pub(crate) fn interrupting() {
    if is_active() {
        *written_list() = Some(Vec::new());
    }
}

/// Signals have been delivered, and the application stands at `context.rip`.
pub(crate) fn interrupted(context: &Context) {
    if is_active() {
        let written = written_list().take().unwrap_or_default();
        with(|follower| {
            written.into_iter().try_for_each(|range| follower.copy(range, false))?;
            follower.adopt(context)
        });
    }
}

/// The engine or the kernel has written, or is about to write, to application memory.
pub(crate) fn written(address: u64, length: u64) {
    if is_active()
        && let Some(list) = written_list().as_mut()
    {
        list.push(address..address.saturating_add(length).min(crate::memory::APP_END));
    }
}

/// Whether a block must consist of this instruction alone.
pub(crate) fn stands_alone(instruction: &Instruction) -> bool {
    is_active() && unpredictable::is_unpredictable(instruction)
}

/// The process is about to end, or goes on with something that cannot be compared: `reason` says what, and is empty at the end.
pub(crate) fn end(reason: &str) {
    if !is_active() {
        return;
    }
    with(|follower| follower.end(reason).and_then(settle));
    forget();
}

/// In a new process: the comparison is not its own.
pub(crate) fn forget() {
    ACTIVE.store(false, Ordering::Relaxed);
    *follower() = None;
}

/// Closes all descriptors of the calling process except these, which are in ascending order. It must not own any as Rust objects.
fn close_all_except(kept: &[i32]) {
    let mut first = 0;
    for &descriptor in kept {
        if first < descriptor {
            close_range(first as u32, descriptor as u32 - 1);
        }
        first = descriptor + 1;
    }
    close_range(first as u32, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    /// On kernels without the call, which is older than all that are maintained.
    const HIGHEST: u32 = 4096;
    // SAFETY: as the caller of `close_all_except` promises, nobody relies on them.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
            for descriptor in first..=last.min(HIGHEST) {
                libc::close(descriptor as i32);
            }
        }
    }
}

/// The descriptor of a stream, for [`close_all_except`].
fn descriptor(stream: &UnixStream) -> i32 {
    stream.as_raw_fd()
}
