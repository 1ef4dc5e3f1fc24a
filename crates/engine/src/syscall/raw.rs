//! Raw system calls: without the host libc's `errno`, and without its retries.

use std::arch::{asm, global_asm};
use std::sync::atomic::AtomicU32;

/// Makes a system call and returns what the kernel returns: a negated error number on failure.
///
/// # Safety
/// As unsafe as the call itself.
pub unsafe fn syscall(number: i64, arguments: [u64; 6]) -> i64 {
    let mut value = number;
    // SAFETY: the caller vouches for the call; the kernel changes RAX, RCX and R11 only.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") value,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    value
}

/// The kernel's return value as a result; errors are error numbers.
pub fn result(value: i64) -> Result<u64, i32> {
    if (-4095..0).contains(&value) { Err(-value as i32) } else { Ok(value as u64) }
}

/// How an interruptible call ended without the kernel's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// A signal was queued before the kernel saw the call.
    NotStarted,
    /// A signal handler ran while the call was waiting, and the kernel would start it again under SA_RESTART.
    Restartable,
}

/// In place of a result: values that the kernel never returns.
const NOT_STARTED: i64 = -513;
const RESTARTABLE: i64 = -512;

/// Makes a system call on behalf of the application, unless `queued` says that a signal waits for delivery. There is no gap between
/// the look at `queued` and the call: the signal handler moves a thread that it finds in between to the way out.
///
/// # Safety
/// As unsafe as the call itself.
pub unsafe fn interruptible(number: i64, arguments: &[u64; 6], queued: &AtomicU32) -> Result<i64, Interruption> {
    // SAFETY: the caller vouches for the call.
    match unsafe { derivgrind_syscall(number, arguments.as_ptr(), queued.as_ptr()) } {
        NOT_STARTED => Err(Interruption::NotStarted),
        RESTARTABLE => Err(Interruption::Restartable),
        value => Ok(value),
    }
}

/// For the signal handler: where a thread goes on that a signal has found at `pc`, with `rcx` in RCX.
///
/// Host handlers are installed with SA_RESTART. So if the kernel finds that a call that it interrupts may be restarted, it sets the
/// program counter back to the system call instruction. RCX then tells this from a call that has not begun: the instruction leaves the
/// return address there, and before it RCX is zero.
pub(crate) fn interrupted_at(pc: u64, rcx: u64) -> Option<u64> {
    let begin = &raw const derivgrind_syscall_begin as u64;
    let instruction = &raw const derivgrind_syscall_instruction as u64;
    let end = &raw const derivgrind_syscall_end as u64;
    if pc == instruction && rcx == end {
        return Some(&raw const derivgrind_syscall_restartable as u64);
    }
    (begin..=instruction).contains(&pc).then_some(&raw const derivgrind_syscall_not_started as u64)
}

unsafe extern "C" {
    fn derivgrind_syscall(number: i64, arguments: *const u64, queued: *const u32) -> i64;
    static derivgrind_syscall_begin: u8;
    static derivgrind_syscall_instruction: u8;
    static derivgrind_syscall_end: u8;
    static derivgrind_syscall_not_started: u8;
    static derivgrind_syscall_restartable: u8;
}

global_asm!(
    ".globl derivgrind_syscall, derivgrind_syscall_begin, derivgrind_syscall_instruction, derivgrind_syscall_end",
    ".globl derivgrind_syscall_not_started, derivgrind_syscall_restartable",
    ".hidden derivgrind_syscall, derivgrind_syscall_begin, derivgrind_syscall_instruction, derivgrind_syscall_end",
    ".hidden derivgrind_syscall_not_started, derivgrind_syscall_restartable",
    ".p2align 4",
    "derivgrind_syscall:",
    "mov rax, rdi",
    "mov r11, rdx",
    "mov rdi, [rsi]",
    "mov rdx, [rsi + 16]",
    "mov r10, [rsi + 24]",
    "mov r8, [rsi + 32]",
    "mov r9, [rsi + 40]",
    "mov rsi, [rsi + 8]",
    "xor ecx, ecx",
    "derivgrind_syscall_begin:",
    "cmp dword ptr [r11], 0",
    "jne derivgrind_syscall_not_started",
    "derivgrind_syscall_instruction:",
    "syscall",
    "derivgrind_syscall_end:",
    "ret",
    "derivgrind_syscall_not_started:",
    "mov rax, {not_started}",
    "ret",
    "derivgrind_syscall_restartable:",
    "mov rax, {restartable}",
    "ret",
    not_started = const NOT_STARTED,
    restartable = const RESTARTABLE,
);
