//! The loop that runs application code: enter the code cache, see why it was left, act, go on.

use std::cell::Cell;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::cache;
use crate::context::{Context, Gpr};
use crate::hooks::{self, Hook};
use crate::lockstep;
use crate::memory::user;
use crate::signal;
use crate::syscall::{self, Next};
use crate::tool::Version;
use crate::trace;
use crate::translate::{Emulated, Exit, ExitKind, Fault, HelperNext, Request, trampolines};

/// MXCSR at program start: all exceptions masked, round to nearest.
const MXCSR_DEFAULT: u32 = 0x1f80;
/// Flags at program start: interrupts enabled, and the bit that is always one.
const RFLAGS_DEFAULT: u64 = 0x202;
/// Offset of MXCSR in an XSAVE image.
const MXCSR_OFFSET: usize = 24;
/// Valgrind's request "are you there", which programs use to find out whether they run under a tool.
const RUNNING_ON_VALGRIND: u64 = 0x1001;

/// Where the thread goes on.
enum Step {
    /// At `context.rip`.
    Continue,
    /// At `context.rip`, when the signal of the fault there has been delivered.
    Fault,
    /// In the middle of a block, at this code cache address.
    Resume(u64),
    /// The thread has ended.
    End,
}

/// Gives a fresh context the register state of a program start.
pub fn prepare(context: &mut Context) {
    context.in_cache.store(1, Ordering::SeqCst);
    context.host_mxcsr = MXCSR_DEFAULT;
    context.rflags = RFLAGS_DEFAULT;
    context.version = crate::tool().initial_version();
    context.complete_image = 1;
    context.vector_state[MXCSR_OFFSET..MXCSR_OFFSET + 4].copy_from_slice(&MXCSR_DEFAULT.to_le_bytes());
}

/// Runs application code on this thread from `context.rip` until the thread ends.
pub fn run(context: &mut Context) {
    crate::tool().thread_start(context);
    go_on(context);
    crate::tool().thread_exit(context);
}

/// As [`run`], on a thread that the tool knows already.
pub(crate) fn go_on(context: &mut Context) {
    while let Step::Continue | Step::Fault = step(context, true) {}
}

/// Runs application code in `version` from a function's first instruction until it has returned, and goes back to the present version.
/// Signals wait until then. The caller, a [`crate::Tool::function_entered`], tells the dispatcher that the context has moved on.
///
/// Returns `false` if the function has not returned: the thread ended inside, or there was a fault. Then the context stands at the faulting
/// instruction; the application's handler runs next, and the rest of the function, if it is continued, in the present version.
pub fn run_to_return(context: &mut Context, version: Version) -> bool {
    let stack = context.reg(Gpr::Rsp);
    let Ok(return_address) = user::read::<u64>(stack) else {
        return true;
    };
    cache::lock().never_link(return_address, version);
    let outer = std::mem::replace(&mut context.version, version);
    loop {
        match step(context, false) {
            Step::End => return false,
            Step::Fault => {
                context.version = outer;
                return false;
            }
            Step::Continue | Step::Resume(_) => {}
        }
        if context.rip == return_address && context.reg(Gpr::Rsp) == stack + 8 {
            break;
        }
    }
    context.version = outer;
    true
}

/// Enters the cache once and handles the exit, and further ones until the thread is between two blocks.
fn step(context: &mut Context, deliver_signals: bool) -> Step {
    if deliver_signals && context.attention.load(Ordering::SeqCst) != 0 {
        lockstep::interrupting();
        attend(context);
        lockstep::interrupted(context);
    }
    let mut code = cache::code_for(context);
    // A complete image can hold anything. Behind a helper the block goes on with what it has noted itself.
    context.upper_possible = u64::from(context.upper_in_use | context.complete_image);
    trace::block(context);
    let mut execution = lockstep::enter(context);
    loop {
        let exit = enter(context, code);
        let way = exit.map(|(_, exit)| exit);
        lockstep::left(&mut execution, context, way.as_ref());
        match act(context, exit) {
            Step::Resume(resume) => code = resume,
            step => {
                lockstep::acted(execution, context, way.as_ref());
                return step;
            }
        }
    }
}

/// Runs cached code from `code` on. `None` if a fault ended it.
fn enter(context: &mut Context, code: u64) -> Option<(u64, Exit)> {
    context.jump = code;
    compiler_fence(Ordering::SeqCst);
    // From here on signal handlers see to it themselves that the thread comes back soon.
    context.in_cache.fetch_sub(1, Ordering::SeqCst);
    if context.attention.load(Ordering::SeqCst) != 0 {
        cache::divert(&mut cache::lock(), code);
    }
    // SAFETY: the trampoline runs translated code with the application's state and comes back with all callee-saved registers; it
    // changes the context behind the compiler's back, which the raw pointer round trip below makes known.
    unsafe {
        let enter: extern "C" fn(*mut Context) = std::mem::transmute(trampolines::get().enter);
        enter(std::hint::black_box(&raw mut *context));
    }
    compiler_fence(Ordering::SeqCst);
    context.in_cache.fetch_add(1, Ordering::SeqCst);
    (context.exit != cache::EXIT_SIGNAL).then(|| (context.exit, cache::lock().exit(context.exit)))
}

/// Delivers what has made the thread leave the cache.
fn attend(context: &mut Context) {
    cache::lock().undo_diversions();
    signal::deliver_pending(context);
}

fn act(context: &mut Context, exit: Option<(u64, Exit)>) -> Step {
    let generation = context.inside.load(Ordering::Relaxed);
    if !matches!(exit, Some((_, Exit { kind: ExitKind::Helper { .. }, .. }))) {
        cache::leave(context);
    }
    let Some((number, exit)) = exit else {
        return Step::Fault;
    };
    context.version = exit.version;
    match exit.kind {
        ExitKind::Branch { target, .. } => {
            context.rip = target;
            context.link_from = (number, generation);
        }
        ExitKind::Indirect => {
            context.rip = context.branch_target;
            context.fill_lookup = true;
        }
        ExitKind::Syscall { next } => {
            context.rip = next;
            if let Next::ThreadExit = syscall::dispatch(context) {
                return Step::End;
            }
        }
        ExitKind::Emulated { what, next } => {
            context.rip = next;
            emulate(context, what);
        }
        ExitKind::ClientRequest { request, next } => {
            context.rip = next;
            client_request(context, request, next);
        }
        ExitKind::Fault { address, fault } => {
            context.rip = address;
            raise(context, address, fault);
            return Step::Fault;
        }
        ExitKind::Helper { helper, payload, address, resume } => {
            context.rip = address;
            // A helper that has run application code has moved on in any case.
            if helper(context, payload) == HelperNext::Resume && cache::is_inside(context) {
                return Step::Resume(resume);
            }
            cache::leave(context);
        }
    }
    Step::Continue
}

fn emulate(context: &mut Context, what: Emulated) {
    match what {
        Emulated::Cpuid => crate::cpuid::emulate(context),
        Emulated::ReadFsBase | Emulated::WriteFsBase | Emulated::ReadGsBase | Emulated::WriteGsBase => {
            // The instruction is 4 or 5 bytes before RIP, its last byte holds the register, a prefix its width.
            emulate_segment_base(context, what);
        }
    }
}

/// `rdfsbase` and its kin: hidden from `cpuid` and AT_HWCAP2, but a program may not ask.
fn emulate_segment_base(context: &mut Context, what: Emulated) {
    let mut bytes = [0u8; 5];
    if user::read_bytes(context.rip - 5, &mut bytes).is_err() {
        return;
    }
    // f3 [rex] 0f ae modrm
    let rex = if bytes[0] == 0xf3 && bytes[1] & 0xf0 == 0x40 { bytes[1] } else { 0x40 };
    let register = usize::from(bytes[4] & 7) | usize::from(rex & 1) << 3;
    let mask = if rex & 8 != 0 { u64::MAX } else { u64::from(u32::MAX) };
    match what {
        Emulated::ReadFsBase => context.gpr[register] = context.fs_base & mask,
        Emulated::ReadGsBase => context.gpr[register] = context.gs_base & mask,
        Emulated::WriteFsBase => context.fs_base = context.gpr[register] & mask,
        Emulated::WriteGsBase => context.gs_base = context.gpr[register] & mask,
        Emulated::Cpuid => {}
    }
}

fn client_request(context: &mut Context, request: Request, next: u64) {
    match request {
        Request::Call => {
            let Ok(words) = user::read::<[u64; 6]>(context.reg(Gpr::Rax)) else {
                crate::report(&format!(
                    "client request at {next:#x}: its arguments at {:#x} cannot be read; ignored",
                    context.reg(Gpr::Rax)
                ));
                return;
            };
            let default = context.reg(Gpr::Rdx);
            let result =
                if words[0] == RUNNING_ON_VALGRIND { 1 } else { crate::tool().client_request(context, words, default) };
            context.set_reg(Gpr::Rdx, result);
        }
        // Nothing is wrapped.
        Request::WrappedFunction => context.set_reg(Gpr::Rax, 0),
        Request::CallUnredirected => {
            let stack = context.reg(Gpr::Rsp).wrapping_sub(8);
            if user::write(stack, next).is_err() {
                signal::raise_fault(context, libc::SIGSEGV, signal::SEGV_MAPERR, stack);
                return;
            }
            context.set_reg(Gpr::Rsp, stack);
            context.rip = context.reg(Gpr::Rax);
        }
    }
}

/// The instruction at `address` cannot be executed.
fn raise(context: &mut Context, address: u64, fault: Fault) {
    /// `si_code` of signals that the kernel raises without further detail.
    const SI_KERNEL: i32 = 0x80;
    const ILL_ILLOPN: i32 = 2;
    if fault == Fault::NotExecutable {
        if syscall::vsyscall::call(context, address) {
            return;
        }
        let code = if crate::memory::mapping_at(address).is_some() { signal::SEGV_ACCERR } else { signal::SEGV_MAPERR };
        signal::raise_fault(context, libc::SIGSEGV, code, address);
        return;
    }
    let mut bytes = [0u8; 2];
    let _ = user::read_bytes(address, &mut bytes);
    match bytes {
        // int3: RIP is behind it.
        [0xcc, _] => {
            context.rip = address + 1;
            signal::raise_fault(context, libc::SIGTRAP, SI_KERNEL, 0);
        }
        // hlt, cli, sti, in, out, int n: privileged.
        [0xf4 | 0xfa | 0xfb | 0xec..=0xef | 0xe4..=0xe7 | 0x6c..=0x6f, _] => {
            signal::raise_fault(context, libc::SIGSEGV, SI_KERNEL, 0);
        }
        [0xcd, _] => {
            crate::report(&format!(
                "the program uses `int {:#x}` at {address:#x}; 32-bit system calls are not supported in 64-bit programs",
                bytes[1]
            ));
            signal::raise_fault(context, libc::SIGSEGV, SI_KERNEL, 0);
        }
        _ => signal::raise_fault(context, libc::SIGILL, ILL_ILLOPN, address),
    }
}

thread_local! {
    /// The IFUNC resolver that this thread is about to run to its return, or 0.
    static RESOLVING: Cell<u64> = const { Cell::new(0) };
}

/// Helper at the entry of a hooked function.
pub(crate) fn function_entered(context: &mut Context, address: u64) -> HelperNext {
    match hooks::hook_at(address) {
        Some(Hook::Function(function)) if crate::tool().function_entered(context, function) => HelperNext::Leave,
        Some(Hook::IfuncResolver(function)) => {
            // The resolver's first block, run from here, comes by once more: then it continues.
            if RESOLVING.replace(address) == address {
                RESOLVING.set(0);
                return HelperNext::Resume;
            }
            let version = context.version;
            if run_to_return(context, version) {
                hooks::resolved(function, context.reg(Gpr::Rax));
            }
            HelperNext::Leave
        }
        _ => HelperNext::Resume,
    }
}
