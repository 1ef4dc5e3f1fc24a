//! What the application wants done about each signal, and what the host is told.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::syscall::raw::{result, syscall};

/// Number of signals; they count from one.
pub const SIGNALS: i32 = 64;

/// A set of signals in the kernel's form: bit n-1 for signal n.
pub type Set = u64;

/// The set of one signal.
pub const fn bit(signal: i32) -> Set {
    1 << (signal - 1)
}

/// Signals that the processor raises. They are never blocked in the host, because the engine itself relies on them, and a fault that
/// is blocked kills.
pub const SYNCHRONOUS: Set = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS);
/// Signals that can be neither caught nor blocked.
pub const UNCATCHABLE: Set = bit(libc::SIGKILL) | bit(libc::SIGSTOP);

/// `SIG_DFL`.
pub const DEFAULT: u64 = 0;
/// `SIG_IGN`.
pub const IGNORE: u64 = 1;

/// `struct sigaction` as the kernel has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Action {
    /// Address of the handler, or [`DEFAULT`] or [`IGNORE`].
    pub handler: u64,
    /// `SA_` flags.
    pub flags: u64,
    /// Where the handler returns to: code that calls `rt_sigreturn`.
    pub restorer: u64,
    /// Signals blocked while the handler runs.
    pub mask: Set,
}

// SAFETY: four integers.
unsafe impl crate::memory::user::Plain for Action {}

/// What happens by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultAction {
    /// The process ends.
    Terminate,
    /// The process ends and leaves a core dump.
    Core,
    /// The process stops.
    Stop,
    /// Nothing, or the process continues.
    Ignore,
}

/// What `signal` does by default.
pub fn default_action(signal: i32) -> DefaultAction {
    match signal {
        libc::SIGQUIT
        | libc::SIGILL
        | libc::SIGTRAP
        | libc::SIGABRT
        | libc::SIGFPE
        | libc::SIGSEGV
        | libc::SIGBUS
        | libc::SIGSYS
        | libc::SIGXCPU
        | libc::SIGXFSZ => DefaultAction::Core,
        libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => DefaultAction::Stop,
        libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH | libc::SIGCONT => DefaultAction::Ignore,
        _ => DefaultAction::Terminate,
    }
}

/// The actions for all signals.
pub(crate) type Table = [Action; SIGNALS as usize];

static ACTIONS: Mutex<Table> =
    Mutex::new([Action { handler: DEFAULT, flags: 0, restorer: 0, mask: 0 }; SIGNALS as usize]);

thread_local! {
    /// The actions of a child that runs in its parent's memory, in place of the waiting thread. Changes in it are none of the process's, whose
    /// other threads go on.
    static OWN: Cell<Option<Box<Table>>> = const { Cell::new(None) };
}

/// Locks the actions of the process. Signal handlers never take this lock.
pub(crate) fn table() -> MutexGuard<'static, Table> {
    ACTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `action` with the actions that are in effect for the calling thread.
fn with_table<T>(action: impl FnOnce(&mut Table) -> T) -> T {
    match OWN.take() {
        None => action(&mut table()),
        Some(mut own) => {
            let value = action(&mut own);
            OWN.set(Some(own));
            value
        }
    }
}

/// A copy of the actions in effect, for a child that will run in place of the calling thread.
pub(crate) fn copy() -> Box<Table> {
    with_table(|table| Box::new(*table))
}

/// From now on these actions are in effect for the calling thread; `None` for those of the process. Returns the ones before.
pub(crate) fn replace_own(actions: Option<Box<Table>>) -> Option<Box<Table>> {
    OWN.replace(actions)
}

/// The present action for a signal.
pub fn action(signal: i32) -> Action {
    with_table(|table| table[(signal - 1) as usize])
}

/// Sets the action for a signal and tells the host. Returns the previous one.
pub fn set_action(signal: i32, new: Action) -> Result<Action, i32> {
    with_table(|table| {
        tell_host(signal, &new)?;
        Ok(std::mem::replace(&mut table[(signal - 1) as usize], new))
    })
}

/// Takes over what the process was started with, without a change in the host's view of ignored signals.
pub(super) fn adopt(signal: i32, handler: u64) -> Result<(), i32> {
    set_action(signal, Action { handler, ..Action::default() }).map(drop)
}

/// Installs in the host what gives the application's action its effect: our handler for whatever the application handles, for faults, and for
/// what would end the process, so that the tool can finish its work first; the same as the application otherwise.
fn tell_host(signal: i32, action: &Action) -> Result<(), i32> {
    use DefaultAction::{Core, Terminate};
    if bit(signal) & UNCATCHABLE != 0 {
        return Ok(());
    }
    let ours = bit(signal) & SYNCHRONOUS != 0
        || match action.handler {
            DEFAULT => matches!(default_action(signal), Terminate | Core),
            IGNORE => false,
            _ => true,
        };
    let child_flags = action.flags & (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;
    let host = if ours {
        super::handler::host_action(child_flags)
    } else {
        Action { flags: child_flags, restorer: 0, ..*action }
    };
    set_host_action(signal, &host)
}

/// `rt_sigaction` in the host.
pub(super) fn set_host_action(signal: i32, action: &Action) -> Result<(), i32> {
    let arguments = [signal as u64, &raw const *action as u64, 0, size_of::<Set>() as u64, 0, 0];
    // SAFETY: the action is valid, and its handler is ours or none.
    result(unsafe { syscall(libc::SYS_rt_sigaction, arguments) }).map(drop)
}

/// The host's present action.
pub(super) fn host_action(signal: i32) -> Action {
    let mut action = Action::default();
    let arguments = [signal as u64, 0, &raw mut action as u64, size_of::<Set>() as u64, 0, 0];
    // SAFETY: `Action` has the kernel's layout.
    let _ = unsafe { syscall(libc::SYS_rt_sigaction, arguments) };
    action
}
