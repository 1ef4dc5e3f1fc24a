//! Which calls are not simply passed on, and what handles them.

use super::{Arguments, Outcome, descriptors, limits, memory_calls, process, seccomp, time};
use crate::context::Context;
use crate::procfs;
use crate::signal::calls as signals;

/// Handles one system call.
pub(super) type Handler = fn(&mut Context, Arguments) -> Outcome;

/// The handler of a call that touches what belongs to the engine.
pub(super) fn handler(number: i64) -> Option<Handler> {
    let handler: Handler = match number {
        // Memory layout.
        libc::SYS_mmap => memory_calls::mmap,
        libc::SYS_munmap => memory_calls::munmap,
        libc::SYS_mprotect => memory_calls::mprotect,
        libc::SYS_pkey_mprotect => memory_calls::pkey_mprotect,
        libc::SYS_mremap => memory_calls::mremap,
        libc::SYS_brk => memory_calls::brk,
        libc::SYS_madvise => memory_calls::madvise,
        libc::SYS_shmat => memory_calls::shmat,
        libc::SYS_shmdt => memory_calls::shmdt,
        libc::SYS_mlockall => memory_calls::mlockall,
        libc::SYS_munlockall => memory_calls::munlockall,
        libc::SYS_remap_file_pages => unsupported,

        // Threads and processes.
        libc::SYS_clone => process::clone,
        libc::SYS_clone3 => process::clone3,
        libc::SYS_fork => process::fork,
        libc::SYS_vfork => process::vfork,
        libc::SYS_execve => process::execve,
        libc::SYS_execveat => process::execveat,
        libc::SYS_exit => process::exit,
        libc::SYS_exit_group => process::exit_group,
        libc::SYS_arch_prctl => process::arch_prctl,
        libc::SYS_set_tid_address => process::set_tid_address,
        libc::SYS_set_robust_list => process::set_robust_list,
        libc::SYS_get_robust_list => process::get_robust_list,
        libc::SYS_ptrace => process::ptrace,
        libc::SYS_prctl => process::prctl,
        // Each has an alternative that programs fall back to.
        libc::SYS_rseq | libc::SYS_userfaultfd | libc::SYS_io_uring_setup | libc::SYS_modify_ldt => unsupported,
        libc::SYS_seccomp => seccomp::seccomp,
        libc::SYS_set_thread_area | libc::SYS_get_thread_area => unsupported,

        libc::SYS_clock_gettime => time::clock_gettime,
        libc::SYS_gettimeofday => time::gettimeofday,

        // Signals.
        libc::SYS_rt_sigaction => signals::sigaction,
        libc::SYS_rt_sigprocmask => signals::sigprocmask,
        libc::SYS_rt_sigpending => signals::sigpending,
        libc::SYS_rt_sigreturn => signals::sigreturn,
        libc::SYS_rt_sigsuspend => signals::sigsuspend,
        libc::SYS_sigaltstack => signals::sigaltstack,
        libc::SYS_ppoll => signals::ppoll,
        libc::SYS_pselect6 => signals::pselect6,
        libc::SYS_epoll_pwait => signals::epoll_pwait,
        libc::SYS_epoll_pwait2 => signals::epoll_pwait2,

        // Resource limits.
        libc::SYS_getrlimit => limits::getrlimit,
        libc::SYS_setrlimit => limits::setrlimit,
        libc::SYS_prlimit64 => limits::prlimit64,

        // Descriptors, some of which are ours.
        libc::SYS_close => descriptors::close,
        libc::SYS_close_range => descriptors::close_range,
        libc::SYS_dup2 => descriptors::dup2,
        libc::SYS_dup3 => descriptors::dup3,

        // Files that describe the process.
        libc::SYS_open => procfs::open,
        libc::SYS_openat => procfs::openat,
        libc::SYS_openat2 => procfs::openat2,
        libc::SYS_readlink => procfs::readlink,
        libc::SYS_readlinkat => procfs::readlinkat,
        libc::SYS_stat => procfs::stat,
        libc::SYS_newfstatat => procfs::newfstatat,
        libc::SYS_statx => procfs::statx,
        libc::SYS_access => procfs::access,
        libc::SYS_faccessat => procfs::faccessat,
        libc::SYS_faccessat2 => procfs::faccessat2,
        _ => return None,
    };
    Some(handler)
}

fn unsupported(_: &mut Context, _: Arguments) -> Outcome {
    Outcome::error(libc::ENOSYS)
}
