//! The host's signal handler: takes signals in and lets the thread come to the dispatcher, which delivers them.
//!
//! It may interrupt anything, so it takes no lock of ours, allocates nothing, and touches the thread's state only where that is made
//! for it.

use std::arch::{asm, global_asm};
use std::sync::atomic::Ordering;

use super::action::{self, Action, SYNCHRONOUS, bit};
use super::queue::{Arrived, FaultDetail, SIGINFO_BYTES};
use crate::context::{self, Context};
use crate::memory;
use crate::syscall::raw;

const SA_RESTORER: u64 = 0x0400_0000;

unsafe extern "C" {
    fn derivgrind_restorer();
}

global_asm!(
    ".globl derivgrind_restorer",
    ".hidden derivgrind_restorer",
    ".p2align 4",
    // Unwinders recognise signal frames by these two instructions.
    "derivgrind_restorer:",
    "mov rax, {number}",
    "syscall",
    number = const libc::SYS_rt_sigreturn,
);

/// The action that installs our handler, with further flags.
pub(super) fn host_action(flags: u64) -> Action {
    // SA_RESTART makes the kernel tell calls that may be restarted from those that may not: see `raw::interrupted_at`.
    let ours = (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART) as u64 | SA_RESTORER;
    Action {
        handler: handle as extern "C" fn(_, _, _) as usize as u64,
        flags: ours | flags,
        restorer: derivgrind_restorer as unsafe extern "C" fn() as usize as u64,
        mask: !SYNCHRONOUS,
    }
}

extern "C" fn handle(signal: i32, information: *mut libc::siginfo_t, ucontext: *mut libc::ucontext_t) {
    // The kernel leaves an alignment check that the application has switched on in effect.
    // SAFETY: clears the status flags, which are dead here, and those that host code expects to be clear.
    unsafe { asm!("push 2", "popfq") };
    let context = context::current();
    // SAFETY: the kernel hands valid pointers to a handler.
    let (code, information, machine) = unsafe {
        let bytes = information.cast::<[u8; SIGINFO_BYTES]>().read();
        ((*information).si_code, bytes, &mut (*ucontext).uc_mcontext)
    };
    let pc = machine.gregs[libc::REG_RIP as usize] as u64;
    // Positive codes are the kernel's own. SIGSYS comes from a system call, not from cached code.
    let fault = code > 0 && signal != libc::SIGSYS && bit(signal) & SYNCHRONOUS != 0;
    if fault {
        if let Some(continuation) = memory::fault_continuation(pc) {
            machine.gregs[libc::REG_RIP as usize] = continuation as i64;
            return;
        }
        let detail = FaultDetail {
            error: machine.gregs[libc::REG_ERR as usize] as u64,
            trap: machine.gregs[libc::REG_TRAPNO as usize] as u64,
            address: machine.gregs[libc::REG_CR2 as usize] as u64,
        };
        // SAFETY: the context is this thread's, the ucontext this signal's.
        if unsafe { (*context).thread.is_null() || !crate::cache::recover(ucontext, context) } {
            // SAFETY: the pointers are valid.
            unsafe { internal_error(signal, pc, detail, (*ucontext).uc_mcontext.gregs[libc::REG_RSP as usize] as u64) };
        }
        // SAFETY: the context is this thread's.
        let rip = unsafe { (*context).rip };
        enqueue(context, ucontext, application_fault(signal, information, detail, rip));
        return;
    }
    // SAFETY: the context is this thread's.
    if unsafe { (*context).thread.is_null() } {
        pass_on(signal, ucontext);
        return;
    }
    let rcx = machine.gregs[libc::REG_RCX as usize] as u64;
    let in_call = raw::interrupted_at(pc, rcx);
    if let Some(continuation) = in_call {
        machine.gregs[libc::REG_RIP as usize] = continuation as i64;
    }
    enqueue(context, ucontext, Arrived { signal, information, fault: None });
    if in_call.is_none() {
        // SAFETY: the context is this thread's, the ucontext this signal's.
        unsafe { crate::cache::request_exit(ucontext, context) };
    }
}

/// The signal that the application sees for a fault in its cached code.
fn application_fault(signal: i32, mut information: [u8; SIGINFO_BYTES], mut detail: FaultDetail, rip: u64) -> Arrived {
    let mut address = [0u8; 8];
    address.copy_from_slice(&information[16..24]);
    let address = u64::from_ne_bytes(address);
    let translated = match signal {
        // An address in shadow memory stands for the application address below it.
        libc::SIGSEGV | libc::SIGBUS => memory::application_address(address).unwrap_or(address),
        // The others report the instruction.
        _ => rip,
    };
    if memory::application_address(detail.address).is_some_and(|below| below != detail.address) {
        detail.address = translated;
    }
    information[16..24].copy_from_slice(&translated.to_ne_bytes());
    Arrived { signal, information, fault: Some(detail) }
}

/// Queues a signal, and keeps further ones from this thread until it has been delivered.
fn enqueue(context: *mut Context, ucontext: *mut libc::ucontext_t, arrived: Arrived) {
    // SAFETY: the thread state lives as long as the thread runs; the queue is made for access from handlers.
    unsafe {
        // It cannot be full: after each signal all others are blocked, and a fault comes from cached code, where nothing waits.
        let _ = (*(*context).thread).signals.queue.push(arrived);
        (*context).attention.store(1, Ordering::SeqCst);
        // The kernel's set has 64 bits, at the start of what libc declares.
        (&raw mut (*ucontext).uc_sigmask).cast::<u64>().write(!SYNCHRONOUS);
    }
}

/// A signal for the process has come to a thread of ours that runs no application code: blocks it here and sends it again.
fn pass_on(signal: i32, ucontext: *mut libc::ucontext_t) {
    // SAFETY: as in `enqueue`; sending a signal to ourselves.
    unsafe {
        let mask = (&raw mut (*ucontext).uc_sigmask).cast::<u64>();
        mask.write(mask.read() | bit(signal));
        libc::kill(libc::getpid(), signal);
    }
}

/// A fault of the engine or the tool itself: says so and ends the process by the signal.
fn internal_error(signal: i32, pc: u64, detail: FaultDetail, rsp: u64) -> ! {
    let mut text = Text::default();
    text.string("derivgrind: internal error: signal ");
    text.decimal(signal as u64);
    text.string(" in derivgrind itself at ");
    text.hexadecimal(pc);
    text.string(" (address ");
    text.hexadecimal(detail.address);
    text.string(", stack ");
    text.hexadecimal(rsp);
    text.string(", application at ");
    // SAFETY: the context is this thread's.
    text.hexadecimal(unsafe { (*context::current()).rip });
    text.string("); the recording, if any, is incomplete. Please report this with the program that was run.\n");
    // SAFETY: a write of valid bytes; the default action for the signal, which is then raised.
    unsafe {
        libc::write(2, text.bytes.as_ptr().cast(), text.length);
        let _ = action::set_host_action(signal, &Action::default());
        super::mask::set_exactly(!bit(signal));
        raw::syscall(
            libc::SYS_tgkill,
            [libc::getpid() as u64, raw::syscall(libc::SYS_gettid, [0; 6]) as u64, signal as u64, 0, 0, 0],
        );
        libc::_exit(crate::EXIT_ENGINE)
    }
}

/// A message put together without allocation.
struct Text {
    bytes: [u8; 400],
    length: usize,
}

impl Default for Text {
    fn default() -> Self {
        Text { bytes: [0; 400], length: 0 }
    }
}

impl Text {
    fn string(&mut self, string: &str) {
        for &byte in string.as_bytes() {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = byte;
                self.length += 1;
            }
        }
    }

    fn digits(&mut self, mut value: u64, base: u64) {
        let mut digits = [0u8; 20];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b"0123456789abcdef"[(value % base) as usize];
            value /= base;
            if value == 0 {
                break;
            }
        }
        self.string(std::str::from_utf8(&digits[start..]).unwrap_or_default());
    }

    fn decimal(&mut self, value: u64) {
        self.digits(value, 10);
    }

    fn hexadecimal(&mut self, value: u64) {
        self.string("0x");
        self.digits(value, 16);
    }
}
