//! System calls of the application: passed on, except where they touch what belongs to the engine.

pub(crate) mod children;
mod clone_request;
mod descriptors;
mod extent;
mod intercepted;
mod limits;
mod memory_calls;
mod process;
pub mod raw;
mod reads;
mod seccomp;
mod time;
mod vfork;
pub(crate) mod vsyscall;
mod writes;

use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use descriptors::take_over as take_over_descriptors;
pub use descriptors::{keep_descriptor, protect_descriptor, release_descriptor};
use raw::Interruption;

use crate::context::{Context, Gpr};
use crate::memory::{APP_END, growth, guard};
use crate::signal::SYSCALL_BYTES;
use crate::thread;

/// What the dispatcher does after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Goes on at `context.rip`.
    Continue,
    /// The thread executes nothing more.
    ThreadExit,
}

/// The arguments of a call, in order.
pub(crate) type Arguments = [u64; 6];

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done, with this result (a negated error number on failure).
    Value(i64),
    /// To be made in the host, with these arguments.
    Pass(i64, Arguments),
    /// To be made again after a signal has been delivered. `started` says whether the kernel had begun it: then a handler without SA_RESTART
    /// makes it fail with EINTR instead.
    Restart {
        /// The kernel had begun it.
        started: bool,
    },
    /// Done; the call has set all registers itself.
    RegistersSet,
    /// The thread ends.
    ThreadExit,
}

impl Outcome {
    /// Failed with an error number.
    pub(crate) fn error(number: i32) -> Outcome {
        Outcome::Value(-i64::from(number))
    }
}

impl From<Result<u64, i32>> for Outcome {
    fn from(result: Result<u64, i32>) -> Outcome {
        match result {
            Ok(value) => Outcome::Value(value as i64),
            Err(error) => Outcome::error(error),
        }
    }
}

/// Makes the system call whose number is in RAX. `context.rip` is the address behind the `syscall` instruction.
pub fn dispatch(context: &mut Context) -> Next {
    let number = context.reg(Gpr::Rax) as i64;
    let arguments = [Gpr::Rdi, Gpr::Rsi, Gpr::Rdx, Gpr::R10, Gpr::R8, Gpr::R9].map(|register| context.reg(register));
    // A signal that has already arrived comes first: its handler may change the mask or memory that the call refers to. Within
    // `dispatcher::run_to_return` signals have to wait; then the call is made all the same.
    let signals = &thread::state(context).signals;
    let outcome = if signals.queue.is_waiting() && !signals.call_put_off.replace(true) {
        Outcome::Restart { started: false }
    } else if let Some(decided) = seccomp::decide(context, number, &arguments) {
        decided
    } else {
        match intercepted::handler(number) {
            Some(handler) => handler(context, arguments),
            None => Outcome::Pass(number, arguments),
        }
    };
    let outcome = match outcome {
        Outcome::Pass(number, arguments) => pass(context, number, arguments),
        other => other,
    };
    match outcome {
        Outcome::Value(value) => finish(context, value),
        Outcome::Restart { started } => {
            context.rip -= SYSCALL_BYTES;
            thread::state(context).signals.interrupted_call.set(started.then_some(number as u64));
            context.attention.store(1, Ordering::SeqCst);
        }
        Outcome::ThreadExit => return Next::ThreadExit,
        Outcome::RegistersSet | Outcome::Pass(..) => {}
    }
    Next::Continue
}

/// Sets the registers as the `syscall` instruction and the kernel leave them.
fn finish(context: &mut Context, value: i64) {
    context.set_reg(Gpr::Rax, value as u64);
    context.set_reg(Gpr::Rcx, context.rip);
    context.set_reg(Gpr::R11, context.rflags);
}

/// Makes a call in the host, interruptible by signals, clears the shadow of what the kernel has written, and tells the tool of shadow on
/// what it has read for others.
pub(crate) fn pass(context: &mut Context, number: i64, arguments: Arguments) -> Outcome {
    static NONE: AtomicU32 = AtomicU32::new(0);
    let signals = &thread::state(context).signals;
    let queued = if signals.call_put_off.get() { &NONE } else { signals.queue.waiting() };
    // SAFETY: the call is the application's. Those that could touch derivgrind's own memory or descriptors are intercepted.
    let call = || unsafe { raw::interruptible(number, &arguments, queued) };
    let mut outcome = call();
    if outcome == Ok(-i64::from(libc::EFAULT)) && guard::release(0..APP_END) {
        // The kernel wanted to write to code that has been translated.
        outcome = call();
    }
    if outcome == Ok(-i64::from(libc::EFAULT)) && growth::grow_for_call(&arguments) {
        outcome = call();
    }
    match outcome {
        Ok(value) => {
            if crate::memory::shadow_layers() != 0 || crate::lockstep::is_active() {
                writes::clear(number, &arguments, value);
            }
            if crate::memory::shadow_layers() != 0 {
                let bytes = reads::shadowed(number, &arguments, value);
                if bytes != 0 {
                    crate::tool().data_left(context, bytes);
                }
            }
            Outcome::Value(value)
        }
        Err(Interruption::NotStarted) => Outcome::Restart { started: false },
        Err(Interruption::Restartable) => Outcome::Restart { started: true },
    }
}
