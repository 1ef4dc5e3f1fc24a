//! Filters of system calls that the program installs (`seccomp`). In the kernel they would filter the calls of the engine as well, which differ from
//! the program's; so they are kept here and applied to the program's own calls. A program that is executed natively gets them in the kernel.
//!
//! They hold for all threads of the process. A listener that decides on calls in another process (`SECCOMP_FILTER_FLAG_NEW_LISTENER`) is refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::raw::syscall;
use super::{Arguments, Outcome};
use crate::context::{Context, Gpr};
use crate::memory::user;
use crate::signal;

/// Longest filter (`BPF_MAXINSNS`).
const LONGEST: usize = 4096;
/// Scratch words of a filter (`BPF_MEMWORDS`).
const WORDS: usize = 16;
/// Bytes of `struct seccomp_data`.
const DATA_BYTES: usize = 64;
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

/// An instruction of a filter (`struct sock_filter`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Operation {
    code: u16,
    if_true: u8,
    if_false: u8,
    constant: u32,
}

type Filter = Arc<[Operation]>;

/// Whether there are any, so that programs without need not look.
static ANY: AtomicBool = AtomicBool::new(false);
static STRICT: AtomicBool = AtomicBool::new(false);
static FILTERS: Mutex<Vec<Filter>> = Mutex::new(Vec::new());

fn filters() -> MutexGuard<'static, Vec<Filter>> {
    FILTERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// To be held across `fork`.
pub(super) fn lock_for_fork() -> impl Sized {
    filters()
}

/// Whether the program has installed filters.
pub(super) fn is_active() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// What the filters say about a call: `None` if it is to be made.
pub(super) fn decide(context: &mut Context, number: i64, arguments: &Arguments) -> Option<Outcome> {
    if !is_active() {
        return None;
    }
    let data = call_data(context.rip, number, arguments);
    // The most severe answer counts, and of equal ones that of the filter installed last.
    let severity = |answer: u32| (answer & libc::SECCOMP_RET_ACTION_FULL) as i32;
    let answers = filters().iter().rev().map(|filter| run(filter, &data)).collect::<Vec<u32>>();
    let answer =
        answers.into_iter().reduce(|first, next| if severity(next) < severity(first) { next } else { first })?;
    let detail = answer & libc::SECCOMP_RET_DATA;
    match answer & libc::SECCOMP_RET_ACTION_FULL {
        libc::SECCOMP_RET_ALLOW | libc::SECCOMP_RET_LOG => None,
        libc::SECCOMP_RET_ERRNO => Some(Outcome::error(detail.min(4095) as i32)),
        // Nobody traces the process or listens.
        libc::SECCOMP_RET_TRACE | libc::SECCOMP_RET_USER_NOTIF => Some(Outcome::error(libc::ENOSYS)),
        libc::SECCOMP_RET_TRAP => {
            // The registers are those before the call.
            context.set_reg(Gpr::Rcx, context.rip);
            context.set_reg(Gpr::R11, context.rflags);
            signal::raise_forbidden_call(context, number as i32, AUDIT_ARCH_X86_64, detail as i32);
            Some(Outcome::RegistersSet)
        }
        _ if STRICT.load(Ordering::Relaxed) => signal::die(context, libc::SIGKILL),
        _ => signal::die(context, libc::SIGSYS),
    }
}

/// `struct seccomp_data`.
fn call_data(rip: u64, number: i64, arguments: &Arguments) -> [u8; DATA_BYTES] {
    let mut data = [0; DATA_BYTES];
    data[..4].copy_from_slice(&(number as i32).to_ne_bytes());
    data[4..8].copy_from_slice(&AUDIT_ARCH_X86_64.to_ne_bytes());
    let words = std::iter::once(&rip).chain(arguments);
    for (bytes, word) in data[8..].chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    data
}

/// Parts of an instruction's code (`linux/bpf_common.h`).
mod part {
    pub const CLASS: u16 = 0x07;
    pub const LD: u16 = 0x00;
    pub const LDX: u16 = 0x01;
    pub const ST: u16 = 0x02;
    pub const STX: u16 = 0x03;
    pub const ALU: u16 = 0x04;
    pub const JMP: u16 = 0x05;
    pub const RET: u16 = 0x06;
    pub const MISC: u16 = 0x07;
    pub const MODE: u16 = 0xe0;
    pub const IMM: u16 = 0x00;
    pub const ABS: u16 = 0x20;
    pub const MEM: u16 = 0x60;
    pub const LEN: u16 = 0x80;
    pub const OPERATION: u16 = 0xf0;
    /// The second operand is X, not the constant.
    pub const X: u16 = 0x08;
    /// `ret`: the value is A.
    pub const RET_A: u16 = 0x10;
    pub const TXA: u16 = 0x80;
}

/// The two operands' result, by [`part::OPERATION`]; `None` for a code without meaning and for a division by zero.
fn arithmetic(operation: u16, a: u32, b: u32) -> Option<u32> {
    Some(match operation {
        0x00 => a.wrapping_add(b),
        0x10 => a.wrapping_sub(b),
        0x20 => a.wrapping_mul(b),
        0x30 => a.checked_div(b)?,
        0x40 => a | b,
        0x50 => a & b,
        0x60 => a.wrapping_shl(b),
        0x70 => a.wrapping_shr(b),
        0x80 => a.wrapping_neg(),
        0xa0 => a ^ b,
        _ => return None,
    })
}

/// Whether a jump is taken, by [`part::OPERATION`].
fn condition(operation: u16, a: u32, b: u32) -> Option<bool> {
    Some(match operation {
        0x10 => a == b,
        0x20 => a > b,
        0x30 => a >= b,
        0x40 => a & b != 0,
        _ => return None,
    })
}

/// Runs a filter that [`is_valid`]. (The kernel answers a division by zero with 0, which kills.)
fn run(filter: &[Operation], data: &[u8; DATA_BYTES]) -> u32 {
    let (mut a, mut x, mut words) = (0u32, 0u32, [0u32; WORDS]);
    let mut next = 0;
    while let Some(&Operation { code, if_true, if_false, constant }) = filter.get(next) {
        next += 1;
        let operand = if code & part::X != 0 { x } else { constant };
        let load = || match code & part::MODE {
            part::ABS => {
                let at = constant as usize;
                data.get(at..at + 4).map_or(0, |bytes| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            }
            part::MEM => words[constant as usize % WORDS],
            part::LEN => DATA_BYTES as u32,
            _ => constant,
        };
        match code & part::CLASS {
            part::LD => a = load(),
            part::LDX => x = load(),
            part::ST => words[constant as usize % WORDS] = a,
            part::STX => words[constant as usize % WORDS] = x,
            part::ALU => match arithmetic(code & part::OPERATION, a, operand) {
                Some(value) => a = value,
                None => return 0,
            },
            part::JMP if code & part::OPERATION == 0 => next += constant as usize,
            part::JMP => {
                let taken = condition(code & part::OPERATION, a, operand).unwrap_or(false);
                next += usize::from(if taken { if_true } else { if_false });
            }
            part::RET => return if code & part::RET_A != 0 { a } else { constant },
            _ if code & part::TXA != 0 => a = x,
            _ => x = a,
        }
    }
    0
}

/// Whether the kernel would take the filter: known instructions, jumps that stay inside, a `ret` at the end.
fn is_valid(filter: &[Operation]) -> bool {
    let valid = |(index, operation): (usize, &Operation)| {
        let Operation { code, if_true, if_false, constant } = *operation;
        let left = filter.len() - index - 1;
        let known = |allowed: u16| code & !(part::CLASS | allowed) == 0;
        match code & part::CLASS {
            part::LD | part::LDX => match code & !part::CLASS {
                part::ABS => code & part::CLASS == part::LD && constant % 4 == 0 && (constant as usize) < DATA_BYTES,
                part::MEM => (constant as usize) < WORDS,
                part::LEN | part::IMM => true,
                _ => false,
            },
            part::ST | part::STX => known(0) && (constant as usize) < WORDS,
            part::ALU => {
                let by_constant = code & part::X == 0;
                let operation = code & part::OPERATION;
                known(part::OPERATION | part::X)
                    && arithmetic(operation, 1, 1).is_some()
                    && !(by_constant && operation == 0x30 && constant == 0)
                    && !(by_constant && matches!(operation, 0x60 | 0x70) && constant >= 32)
            }
            part::JMP if code & part::OPERATION == 0 => known(0) && (constant as usize) < left,
            part::JMP => {
                known(part::OPERATION | part::X)
                    && condition(code & part::OPERATION, 0, 0).is_some()
                    && usize::from(if_true.max(if_false)) < left
            }
            part::RET => known(part::RET_A),
            part::MISC => known(part::TXA),
            _ => false,
        }
    };
    filter.iter().enumerate().all(valid) && filter.last().is_some_and(|last| last.code & part::CLASS == part::RET)
}

/// `seccomp`.
pub(super) fn seccomp(_: &mut Context, arguments: Arguments) -> Outcome {
    const SET_MODE_STRICT: u64 = 0;
    const SET_MODE_FILTER: u64 = 1;
    let [operation, flags, address, ..] = arguments;
    match operation {
        SET_MODE_STRICT if flags == 0 && address == 0 => install_strict(),
        SET_MODE_STRICT => Outcome::error(libc::EINVAL),
        SET_MODE_FILTER => install(address, flags),
        // Questions.
        _ => Outcome::Pass(libc::SYS_seccomp, arguments),
    }
}

/// `prctl(PR_SET_SECCOMP)`.
pub(super) fn set_by_prctl([_, mode, address, ..]: Arguments) -> Outcome {
    match mode as u32 {
        libc::SECCOMP_MODE_STRICT => install_strict(),
        libc::SECCOMP_MODE_FILTER => install(address, 0),
        _ => Outcome::error(libc::EINVAL),
    }
}

/// `prctl(PR_GET_SECCOMP)`; `None` if the program has installed nothing.
pub(super) fn mode() -> Option<Outcome> {
    let mode = if STRICT.load(Ordering::Relaxed) { libc::SECCOMP_MODE_STRICT } else { libc::SECCOMP_MODE_FILTER };
    is_active().then_some(Outcome::Value(mode.into()))
}

/// Reads the program's filter (`struct sock_fprog`) and lets it decide from now on.
fn install(address: u64, flags: u64) -> Outcome {
    const NEW_LISTENER: u64 = 8;
    if flags & NEW_LISTENER != 0 {
        crate::report(
            "the program wants another process to decide on its system calls (a seccomp listener), which is not possible under derivgrind; \
             the call fails with EINVAL",
        );
        return Outcome::error(libc::EINVAL);
    }
    let Ok([length, list]) = user::read::<[u64; 2]>(address) else { return Outcome::error(libc::EFAULT) };
    let length = usize::from(length as u16);
    if length == 0 || length > LONGEST {
        return Outcome::error(libc::EINVAL);
    }
    let mut filter = Vec::with_capacity(length);
    for index in 0..length {
        let Ok(word) = user::read::<u64>(list + 8 * index as u64) else { return Outcome::error(libc::EFAULT) };
        let [code, code_high, if_true, if_false, constant @ ..] = word.to_le_bytes();
        let code = u16::from_le_bytes([code, code_high]);
        filter.push(Operation { code, if_true, if_false, constant: u32::from_le_bytes(constant) });
    }
    if !is_valid(&filter) {
        return Outcome::error(libc::EINVAL);
    }
    // SAFETY: takes no pointers.
    let promised = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } == 1;
    if !promised && !rustix::process::geteuid().is_root() {
        return Outcome::error(libc::EACCES);
    }
    if STRICT.load(Ordering::Relaxed) {
        return Outcome::error(libc::EINVAL);
    }
    add(filter);
    Outcome::Value(0)
}

/// Strict mode as a filter: `read`, `write`, `exit`, `rt_sigreturn`.
fn install_strict() -> Outcome {
    const LOAD_NUMBER: Operation = Operation { code: part::LD | part::ABS, if_true: 0, if_false: 0, constant: 0 };
    let answer = |constant| Operation { code: part::RET, if_true: 0, if_false: 0, constant };
    let equal = |constant, if_true| Operation { code: part::JMP | 0x10, if_true, if_false: 0, constant };
    if is_active() {
        return Outcome::error(libc::EINVAL);
    }
    let allowed = [libc::SYS_read, libc::SYS_write, libc::SYS_exit, libc::SYS_rt_sigreturn];
    let tests = allowed.iter().zip((1..=4).rev()).map(|(&number, further)| equal(number as u32, further));
    let mut filter = vec![LOAD_NUMBER];
    filter.extend(tests);
    filter.extend([answer(libc::SECCOMP_RET_KILL_PROCESS), answer(libc::SECCOMP_RET_ALLOW)]);
    STRICT.store(true, Ordering::Relaxed);
    add(filter);
    Outcome::Value(0)
}

fn add(filter: Vec<Operation>) {
    filters().push(filter.into());
    ANY.store(true, Ordering::SeqCst);
}

/// Gives the filters to the kernel, oldest first, for the program that follows by `execve` and runs natively.
pub(super) fn hand_over() {
    for filter in filters().iter() {
        /// `struct sock_fprog`.
        #[repr(C)]
        struct Program(u16, *const Operation);
        let program = Program(filter.len() as u16, filter.as_ptr());
        // SAFETY: the structures live across the call, which copies them. A filter that the kernel took would be in force already; one that forbids
        // this very call ends the process as it would end natively.
        unsafe { syscall(libc::SYS_seccomp, [1, 0, (&raw const program) as u64, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(code: u16, if_true: u8, if_false: u8, constant: u32) -> Operation {
        Operation { code, if_true, if_false, constant }
    }

    #[test]
    fn filters_compute_as_in_the_kernel() {
        // if number == 39 && (first argument & 0xff) > 3 { errno 5 } else { allow }
        let filter = [
            operation(0x20, 0, 0, 0),
            operation(0x15, 0, 4, 39),
            operation(0x20, 0, 0, 16),
            operation(0x54, 0, 0, 0xff),
            operation(0x25, 0, 1, 3),
            operation(0x06, 0, 0, 0x0005_0005),
            operation(0x06, 0, 0, 0x7fff_0000),
        ];
        assert!(is_valid(&filter));
        let answer = |number, argument| run(&filter, &call_data(0x1234, number, &[argument, 0, 0, 0, 0, 0]));
        assert_eq!(answer(39, 4), 0x0005_0005);
        assert_eq!(answer(39, 0x103), 0x7fff_0000);
        assert_eq!(answer(38, 4), 0x7fff_0000);
    }

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        let ret = operation(0x06, 0, 0, 0);
        assert!(is_valid(&[ret]));
        assert!(!is_valid(&[operation(0x20, 0, 0, 0)]), "no ret");
        assert!(!is_valid(&[operation(0x20, 0, 0, 2), ret]), "not aligned");
        assert!(!is_valid(&[operation(0x20, 0, 0, 64), ret]), "behind the data");
        assert!(!is_valid(&[operation(0x15, 1, 0, 0), ret]), "a jump out");
        assert!(!is_valid(&[operation(0x05, 0, 0, u32::MAX), ret]), "a jump out");
        assert!(!is_valid(&[operation(0x34, 0, 0, 0), ret]), "division by zero");
        assert!(!is_valid(&[operation(0x40, 0, 0, 0), ret]), "no such mode");
    }
}
