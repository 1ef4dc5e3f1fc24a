//! Signals: the application's actions, masks and alternate stacks are kept here, its handlers are entered with frames like the kernel's,
//! and default actions take place as natively.
//!
//! The mask of the host's thread follows the application's, so that what is blocked, pending, waited for or coalesced is the
//! kernel's business. Only signals that the processor raises are never blocked in the host.

pub(crate) mod action;
pub(crate) mod calls;
mod frame;
mod handler;
pub(crate) mod mask;
pub(crate) mod queue;
pub(crate) mod stack;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use action::{Action, DEFAULT, DefaultAction, IGNORE, SIGNALS, Set, UNCATCHABLE, bit};
use queue::{Arrived, FaultDetail, Queue};
use stack::{AltStack, HostStack};

use crate::context::{Context, Gpr};
use crate::syscall::raw::syscall;
use crate::thread;

/// `si_code` of a SIGSEGV at an address that is not mapped.
pub const SEGV_MAPERR: i32 = 1;
/// `si_code` of a SIGSEGV at an address that is mapped without the permission needed.
pub const SEGV_ACCERR: i32 = 2;

/// The signal state of one thread.
#[derive(Default)]
pub(crate) struct ThreadSignals {
    /// What the application has blocked.
    pub mask: Cell<Set>,
    /// The mask that `sigsuspend`, `ppoll` and the like have put in place of `mask` while they waited; it is in effect while a handler that
    /// interrupted them starts.
    pub temporary_mask: Cell<Option<Set>>,
    /// The application's alternate stack.
    pub alt_stack: Cell<AltStack>,
    /// Signals that have arrived and wait for delivery.
    pub queue: Queue,
    /// Signals that the host cannot block but the application has blocked.
    held_back: Cell<[Option<Arrived>; HELD_BACK]>,
    /// Details of the last fault, which each frame shows.
    last_fault: Cell<FaultDetail>,
    /// The number of the system call that a signal has interrupted and that restarts unless its handler is without SA_RESTART.
    pub interrupted_call: Cell<Option<u64>>,
    /// A system call has been put off until the signals are delivered. If it comes again before that, they cannot be delivered now.
    pub call_put_off: Cell<bool>,
    /// The host's stack for its handlers.
    pub host_stack: Cell<Option<HostStack>>,
}

/// Signals that wait in a thread.
#[derive(Default)]
pub(crate) struct Pending {
    arrived: Vec<Arrived>,
    held_back: [Option<Arrived>; HELD_BACK],
}

/// One for each signal in [`action::SYNCHRONOUS`].
const HELD_BACK: usize = 6;

impl ThreadSignals {
    /// Takes a signal that was held back and is not blocked by `mask`.
    fn take_released(&self, mask: Set) -> Option<Arrived> {
        let mut held = self.held_back.get();
        let slot = held.iter_mut().find(|slot| slot.is_some_and(|arrived| mask & bit(arrived.signal) == 0))?;
        let arrived = slot.take();
        self.held_back.set(held);
        arrived
    }

    /// Keeps a blocked signal; like a pending signal of the kernel it is kept once.
    fn hold_back(&self, arrived: Arrived) {
        let mut held = self.held_back.get();
        if held.iter().flatten().any(|other| other.signal == arrived.signal) {
            return;
        }
        if let Some(slot) = held.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(arrived);
            self.held_back.set(held);
        }
    }

    /// Signals that are held back: they count as pending.
    pub fn held_back(&self) -> Set {
        self.held_back.get().iter().flatten().fold(0, |set, arrived| set | bit(arrived.signal))
    }

    /// Takes all signals that wait, whether they can be delivered or not: a new process has none. Signals must be blocked in the host.
    pub fn take_pending(&self) -> Pending {
        Pending { arrived: std::iter::from_fn(|| self.queue.pop()).collect(), held_back: self.held_back.take() }
    }

    /// Lets only these signals wait. Signals must be blocked in the host.
    pub fn set_pending(&self, pending: Pending) {
        drop(self.take_pending());
        self.held_back.set(pending.held_back);
        for arrived in pending.arrived {
            // There is room: they come from this queue.
            let _ = self.queue.push(arrived);
        }
    }

    /// Whether a change of the mask has made a signal deliverable that was held back.
    pub fn has_released(&self) -> bool {
        self.held_back() & !self.mask.get() != 0
    }
}

/// Ignored signals as they were before Rust's runtime changed that of SIGPIPE, and whether they are known.
static INHERITED_IGNORED: AtomicU64 = AtomicU64::new(0);

extern "C" fn remember_inherited() {
    let ignored = (1..=SIGNALS).filter(|&signal| action::host_action(signal).handler == IGNORE);
    INHERITED_IGNORED.store(ignored.fold(0, |set, signal| set | bit(signal)), Ordering::Relaxed);
}

// The dynamic linker calls this before `main`, and so before Rust's runtime makes SIGPIPE ignored.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER_INHERITED: extern "C" fn() = remember_inherited;

/// Takes over the signal state that the process was started with. To be called on the main thread before the application starts, when
/// [`thread::adopt_main`] has made its state.
pub fn init() {
    let ignored = INHERITED_IGNORED.load(Ordering::Relaxed);
    for signal in 1..=SIGNALS {
        if bit(signal) & UNCATCHABLE == 0 {
            let handler = if ignored & bit(signal) != 0 { IGNORE } else { DEFAULT };
            // Fails for no signal that can be caught.
            let _ = action::adopt(signal, handler);
        }
    }
    // SAFETY: this thread's own context, of which no reference exists beyond the call.
    let context = unsafe { &*crate::context::current() };
    let signals = &thread::state(context).signals;
    let inherited = mask::BlockAll::new();
    signals.mask.set(inherited.previous());
    drop(inherited);
    mask::set_host(signals.mask.get());
}

/// Queues the signal of a fault that the engine has found instead of the processor, such as a jump to where there is no code.
/// `context.rip` must be the instruction at fault.
pub fn raise_fault(context: &mut Context, signal: i32, code: i32, address: u64) {
    /// Exception vectors of the processor, and the page-fault error code of an instruction fetch in user mode.
    const BREAKPOINT: u64 = 3;
    const INVALID_OPCODE: u64 = 6;
    const GENERAL_PROTECTION: u64 = 13;
    const PAGE_FAULT: u64 = 14;
    const USER_FETCH: u64 = 0x14;
    let detail = match (signal, code) {
        (libc::SIGSEGV, SEGV_MAPERR) => FaultDetail { error: USER_FETCH, trap: PAGE_FAULT, address },
        (libc::SIGSEGV, SEGV_ACCERR) => FaultDetail { error: USER_FETCH | 1, trap: PAGE_FAULT, address },
        (libc::SIGILL, _) => FaultDetail { trap: INVALID_OPCODE, ..FaultDetail::default() },
        (libc::SIGTRAP, _) => FaultDetail { trap: BREAKPOINT, ..FaultDetail::default() },
        _ => FaultDetail { trap: GENERAL_PROTECTION, ..FaultDetail::default() },
    };
    let _blocked = mask::BlockAll::new();
    // The queue has room: the dispatcher empties it before each block.
    let _ = thread::state(context).signals.queue.push(Arrived::fault(signal, code, address, detail));
    context.attention.store(1, Ordering::SeqCst);
}

/// A filter of the application forbids a system call: SIGSYS, as the kernel sends it (`SECCOMP_RET_TRAP`). `context.rip` is behind the call.
pub(crate) fn raise_forbidden_call(context: &mut Context, number: i32, architecture: u32, detail: i32) {
    const SYS_SECCOMP: i32 = 1;
    let mut arrived = Arrived::fault(libc::SIGSYS, SYS_SECCOMP, context.rip, FaultDetail::default());
    // `si_errno`, `si_syscall` and `si_arch`.
    for (offset, word) in [(4, detail as u32), (24, number as u32), (28, architecture)] {
        arrived.information[offset..offset + 4].copy_from_slice(&word.to_ne_bytes());
    }
    let _blocked = mask::BlockAll::new();
    let _ = thread::state(context).signals.queue.push(arrived);
    context.attention.store(1, Ordering::SeqCst);
}

/// Delivers what has arrived: builds frames and enters handlers, or takes default actions. Called by the dispatcher between blocks.
pub fn deliver_pending(context: &mut Context) {
    context.attention.store(0, Ordering::SeqCst);
    let signals = &thread::state(context).signals;
    loop {
        while let Some(arrived) = signals.queue.pop().or_else(|| signals.take_released(signals.mask.get())) {
            deliver(context, arrived);
        }
        // This lets in what was blocked since the first of these signals arrived; the handler queues it.
        mask::set_host(signals.mask.get());
        if !signals.queue.is_waiting() {
            break;
        }
    }
    signals.interrupted_call.set(None);
    signals.temporary_mask.set(None);
    signals.call_put_off.set(false);
}

/// Whether a fault is the engine's business: a write to code that has been translated. The instruction then is executed again.
fn is_write_to_guarded_code(context: &Context, arrived: &Arrived) -> bool {
    /// Bit of the page-fault error code.
    const WRITE: u64 = 2;
    let Some(detail) = arrived.fault.filter(|_| arrived.signal == libc::SIGSEGV) else { return false };
    arrived.code() == SEGV_ACCERR
        && detail.error & WRITE != 0
        && crate::memory::guard::release_for_write(detail.address, context.rip)
}

/// Whether a fault has made a mapping grow. The instruction then is executed again.
fn is_growth(arrived: &Arrived) -> bool {
    let Some(detail) = arrived.fault.filter(|_| arrived.signal == libc::SIGSEGV) else { return false };
    arrived.code() == SEGV_MAPERR && crate::memory::growth::grow_for_access(detail.address)
}

fn deliver(context: &mut Context, arrived: Arrived) {
    if is_write_to_guarded_code(context, &arrived) || is_growth(&arrived) {
        return;
    }
    let signals = &thread::state(context).signals;
    let blocked = signals.temporary_mask.get().unwrap_or(signals.mask.get()) & bit(arrived.signal) != 0;
    let mut chosen = action::action(arrived.signal);
    if let Some(detail) = arrived.fault {
        signals.last_fault.set(detail);
        // A fault that is blocked or ignored kills.
        if blocked || chosen.handler == IGNORE {
            chosen.handler = DEFAULT;
        }
    } else if blocked {
        signals.hold_back(arrived);
        return;
    }
    match chosen.handler {
        IGNORE => {}
        DEFAULT => match action::default_action(arrived.signal) {
            DefaultAction::Terminate | DefaultAction::Core => die(context, arrived.signal),
            DefaultAction::Stop | DefaultAction::Ignore => {}
        },
        _ => enter_handler(context, &arrived, chosen),
    }
}

/// Builds a frame and sets the registers so that the handler runs next.
fn enter_handler(context: &mut Context, arrived: &Arrived, action: Action) {
    let has = |flag: i32| action.flags & flag as u32 as u64 != 0;
    let signals = &thread::state(context).signals;
    if let Some(number) = signals.interrupted_call.take()
        && !has(libc::SA_RESTART)
    {
        debug_assert_eq!(context.reg(Gpr::Rax), number);
        context.rip += SYSCALL_BYTES;
        context.set_reg(Gpr::Rax, -i64::from(libc::EINTR) as u64);
    }
    if has(libc::SA_RESETHAND) {
        // Fails for no signal that has a handler.
        let _ = action::set_action(arrived.signal, Action { handler: DEFAULT, ..action });
    }
    let alt_stack = signals.alt_stack.get();
    let stack_pointer = context.reg(Gpr::Rsp);
    let switch_to = if has(libc::SA_ONSTACK) { alt_stack.entry(stack_pointer) } else { None };
    let content = frame::Content {
        arrived,
        mask: signals.mask.get(),
        alt_stack: alt_stack.reported(stack_pointer),
        switch_to,
        with_information: has(libc::SA_SIGINFO),
        restorer: action.restorer,
        fault: signals.last_fault.get(),
    };
    // Without a restorer there is nowhere to return to: the kernel refuses, too.
    let usable = action.flags & SA_RESTORER != 0;
    let built = frame::build(context, &content).ok();
    let on_alt_stack = switch_to.is_some() || alt_stack.holds(stack_pointer);
    let built = built.filter(|built| usable && !(on_alt_stack && alt_stack.overflown_by(built.frame)));
    let Some(built) = built else {
        // No room for the frame. If the signal is SIGSEGV itself, its handler cannot run either.
        if arrived.signal == libc::SIGSEGV {
            die(context, libc::SIGSEGV);
        }
        raise_fault(context, libc::SIGSEGV, SI_KERNEL, 0);
        return;
    };
    let base = signals.temporary_mask.take().unwrap_or(signals.mask.get());
    let own = if has(libc::SA_NODEFER) { 0 } else { bit(arrived.signal) };
    signals.mask.set((base | action.mask | own) & !UNCATCHABLE);
    if switch_to.is_some() && alt_stack.disarms_itself() {
        signals.alt_stack.set(AltStack::default());
    }
    crate::tool().signal_frame_saved(context, built.registers);
    frame::initialise_vectors(context);
    context.rip = action.handler;
    // The block that was left last does not lead to the handler.
    context.link_from = (0, 0);
    context.fill_lookup = false;
    context.set_reg(Gpr::Rsp, built.frame);
    context.set_reg(Gpr::Rdi, arrived.signal as u64);
    context.set_reg(Gpr::Rsi, built.information);
    context.set_reg(Gpr::Rdx, built.ucontext);
    context.set_reg(Gpr::Rax, 0);
    // Cleared on entry: direction, resume, trap.
    context.rflags &= !(1 << 10 | 1 << 16 | 1 << 8);
}

const SA_RESTORER: u64 = 0x0400_0000;
/// `si_code` of a signal that the kernel sends without further detail.
const SI_KERNEL: i32 = 0x80;
/// Length of the `syscall` instruction.
pub(crate) const SYSCALL_BYTES: u64 = 2;

/// `rt_sigreturn`: goes back to what the signal has interrupted.
pub(crate) fn return_from_handler(context: &mut Context) {
    // The handler's `ret` has taken the restorer's address off.
    let frame = context.reg(Gpr::Rsp).wrapping_sub(8);
    let Ok(restored) = frame::restore(context, frame) else {
        raise_fault(context, libc::SIGSEGV, SI_KERNEL, 0);
        return;
    };
    let signals = &thread::state(context).signals;
    if let Ok(stack) = signals.alt_stack.get().replaced(restored.alt_stack, context.reg(Gpr::Rsp)) {
        signals.alt_stack.set(stack);
    }
    change_mask(context, restored.mask);
    crate::tool().signal_frame_restored(context, restored.registers);
}

/// Sets the application's mask, and the host's with it.
pub(crate) fn change_mask(context: &mut Context, new: Set) {
    let signals = &thread::state(context).signals;
    signals.mask.set(new & !UNCATCHABLE);
    if signals.has_released() {
        context.attention.store(1, Ordering::SeqCst);
    }
    // If a signal waits for delivery the host's mask keeps others away until then.
    if !signals.queue.is_waiting() {
        mask::set_host(signals.mask.get());
    }
}

/// Ends the process as the signal's default action does.
pub(crate) fn die(context: &mut Context, signal: i32) -> ! {
    thread::finish_process(context);
    let _ = action::set_host_action(signal, &Action::default());
    mask::set_exactly(!bit(signal));
    // SAFETY: sends a signal to this thread, then ends the process in case that had no effect.
    unsafe {
        let thread = syscall(libc::SYS_gettid, [0; 6]) as u64;
        let process = syscall(libc::SYS_getpid, [0; 6]) as u64;
        syscall(libc::SYS_tgkill, [process, thread, signal as u64, 0, 0, 0]);
        libc::_exit(128 + signal)
    }
}
