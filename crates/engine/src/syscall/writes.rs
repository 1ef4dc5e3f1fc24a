//! Where the kernel writes to application memory: what it has written is passive, so its shadow is cleared.

use super::Arguments;
use super::extent::{Access, MESSAGE_TYPE, Size, access as w};
use crate::memory::clear_shadow;

use Size::{
    Argument, DescriptorSets, Elements, Fixed, HeaderAndResult, Length, Message, Messages, RemoteVectors, Request,
    Result as Returned, Results, Vectors,
};

/// Sizes of kernel structures.
const STAT: u64 = 144;
const STATFS: u64 = 120;
const STATX: u64 = 256;
const TIMESPEC: u64 = 16;
const RUSAGE: u64 = 144;
const SIGINFO: u64 = 128;
const EPOLL_EVENT: u64 = 12;
const POLLFD: u64 = 8;

#[rustfmt::skip]
static TABLE: &[Access] = &[
    w(libc::SYS_read, 1, Returned),
    w(libc::SYS_pread64, 1, Returned),
    w(libc::SYS_readv, 1, Vectors(2)),
    w(libc::SYS_preadv, 1, Vectors(2)),
    w(libc::SYS_preadv2, 1, Vectors(2)),
    w(libc::SYS_process_vm_readv, 1, Vectors(2)),
    w(libc::SYS_process_vm_writev, 3, RemoteVectors(4)),
    w(libc::SYS_vmsplice, 1, Vectors(2)),
    w(libc::SYS_getrandom, 0, Returned),
    w(libc::SYS_recvfrom, 1, Returned),
    w(libc::SYS_recvfrom, 4, Length(5)),
    w(libc::SYS_recvmsg, 1, Message),
    w(libc::SYS_recvmmsg, 1, Messages),
    w(libc::SYS_accept, 1, Length(2)),
    w(libc::SYS_accept4, 1, Length(2)),
    w(libc::SYS_getsockname, 1, Length(2)),
    w(libc::SYS_getpeername, 1, Length(2)),
    w(libc::SYS_getsockopt, 3, Length(4)),
    w(libc::SYS_socketpair, 3, Fixed(8)),
    w(libc::SYS_pipe, 0, Fixed(8)),
    w(libc::SYS_pipe2, 0, Fixed(8)),
    w(libc::SYS_stat, 1, Fixed(STAT)),
    w(libc::SYS_lstat, 1, Fixed(STAT)),
    w(libc::SYS_fstat, 1, Fixed(STAT)),
    w(libc::SYS_newfstatat, 2, Fixed(STAT)),
    w(libc::SYS_statx, 4, Fixed(STATX)),
    w(libc::SYS_statfs, 1, Fixed(STATFS)),
    w(libc::SYS_fstatfs, 1, Fixed(STATFS)),
    w(libc::SYS_ustat, 1, Fixed(32)),
    w(libc::SYS_readlink, 1, Returned),
    w(libc::SYS_readlinkat, 2, Returned),
    w(libc::SYS_getdents, 1, Returned),
    w(libc::SYS_getdents64, 1, Returned),
    w(libc::SYS_getcwd, 0, Returned),
    w(libc::SYS_getxattr, 2, Returned),
    w(libc::SYS_lgetxattr, 2, Returned),
    w(libc::SYS_fgetxattr, 2, Returned),
    w(libc::SYS_listxattr, 1, Returned),
    w(libc::SYS_llistxattr, 1, Returned),
    w(libc::SYS_flistxattr, 1, Returned),
    w(libc::SYS_name_to_handle_at, 3, Fixed(4)),
    w(libc::SYS_sendfile, 2, Fixed(8)),
    w(libc::SYS_splice, 1, Fixed(8)),
    w(libc::SYS_splice, 3, Fixed(8)),
    w(libc::SYS_copy_file_range, 1, Fixed(8)),
    w(libc::SYS_copy_file_range, 3, Fixed(8)),
    w(libc::SYS_ioctl, 2, Request),
    w(libc::SYS_poll, 0, Elements(1, POLLFD)),
    w(libc::SYS_ppoll, 0, Elements(1, POLLFD)),
    w(libc::SYS_ppoll, 2, Fixed(TIMESPEC)),
    w(libc::SYS_select, 1, DescriptorSets),
    w(libc::SYS_select, 4, Fixed(TIMESPEC)),
    w(libc::SYS_pselect6, 1, DescriptorSets),
    w(libc::SYS_pselect6, 4, Fixed(TIMESPEC)),
    w(libc::SYS_epoll_wait, 1, Results(EPOLL_EVENT)),
    w(libc::SYS_epoll_pwait, 1, Results(EPOLL_EVENT)),
    w(libc::SYS_epoll_pwait2, 1, Results(EPOLL_EVENT)),
    w(libc::SYS_gettimeofday, 0, Fixed(TIMESPEC)),
    w(libc::SYS_gettimeofday, 1, Fixed(8)),
    w(libc::SYS_time, 0, Fixed(8)),
    w(libc::SYS_times, 0, Fixed(32)),
    w(libc::SYS_clock_gettime, 1, Fixed(TIMESPEC)),
    w(libc::SYS_clock_getres, 1, Fixed(TIMESPEC)),
    w(libc::SYS_clock_nanosleep, 3, Fixed(TIMESPEC)),
    w(libc::SYS_nanosleep, 1, Fixed(TIMESPEC)),
    w(libc::SYS_clock_adjtime, 1, Fixed(208)),
    w(libc::SYS_adjtimex, 0, Fixed(208)),
    w(libc::SYS_getitimer, 1, Fixed(2 * TIMESPEC)),
    w(libc::SYS_setitimer, 2, Fixed(2 * TIMESPEC)),
    w(libc::SYS_timer_create, 2, Fixed(4)),
    w(libc::SYS_timer_gettime, 1, Fixed(2 * TIMESPEC)),
    w(libc::SYS_timer_settime, 3, Fixed(2 * TIMESPEC)),
    w(libc::SYS_timerfd_gettime, 1, Fixed(2 * TIMESPEC)),
    w(libc::SYS_timerfd_settime, 3, Fixed(2 * TIMESPEC)),
    w(libc::SYS_getrlimit, 1, Fixed(16)),
    w(libc::SYS_prlimit64, 3, Fixed(16)),
    w(libc::SYS_getrusage, 1, Fixed(RUSAGE)),
    w(libc::SYS_wait4, 1, Fixed(4)),
    w(libc::SYS_wait4, 3, Fixed(RUSAGE)),
    w(libc::SYS_waitid, 2, Fixed(SIGINFO)),
    w(libc::SYS_waitid, 4, Fixed(RUSAGE)),
    w(libc::SYS_rt_sigtimedwait, 1, Fixed(SIGINFO)),
    w(libc::SYS_sysinfo, 0, Fixed(112)),
    w(libc::SYS_uname, 0, Fixed(390)),
    w(libc::SYS_getgroups, 1, Results(4)),
    w(libc::SYS_getresuid, 0, Fixed(4)),
    w(libc::SYS_getresuid, 1, Fixed(4)),
    w(libc::SYS_getresuid, 2, Fixed(4)),
    w(libc::SYS_getresgid, 0, Fixed(4)),
    w(libc::SYS_getresgid, 1, Fixed(4)),
    w(libc::SYS_getresgid, 2, Fixed(4)),
    w(libc::SYS_getcpu, 0, Fixed(4)),
    w(libc::SYS_getcpu, 1, Fixed(4)),
    w(libc::SYS_sched_getaffinity, 2, Returned),
    w(libc::SYS_sched_getparam, 1, Fixed(4)),
    w(libc::SYS_sched_getattr, 1, Argument(2)),
    w(libc::SYS_sched_rr_get_interval, 1, Fixed(TIMESPEC)),
    w(libc::SYS_get_mempolicy, 0, Fixed(4)),
    w(libc::SYS_mincore, 2, Elements(1, 1)),
    w(libc::SYS_capget, 1, Fixed(24)),
    w(libc::SYS_shmctl, 2, Fixed(112)),
    w(libc::SYS_msgctl, 2, Fixed(120)),
    w(libc::SYS_msgrcv, 1, HeaderAndResult(MESSAGE_TYPE)),
    w(libc::SYS_mq_getsetattr, 2, Fixed(64)),
    w(libc::SYS_mq_timedreceive, 1, Returned),
    w(libc::SYS_syslog, 1, Returned),
    w(libc::SYS_io_getevents, 3, Results(32)),
    w(libc::SYS_quotactl, 3, Fixed(72)),
];

/// The part of [`TABLE`] for each call number, so that calls that write nothing cost nothing.
fn entries(number: i64) -> &'static [Access] {
    // The entries of a call are neighbours; the table is short enough to be searched at compile time for its index.
    const CALLS: usize = 512;
    const INDEX: [(u8, u8); CALLS] = {
        let mut index = [(0u8, 0u8); CALLS];
        let mut position = 0;
        while position < TABLE.len() {
            let call = TABLE[position].number as usize;
            if index[call].1 == 0 {
                index[call].0 = position as u8;
            }
            index[call].1 += 1;
            assert!(
                index[call].0 as usize + index[call].1 as usize == position + 1,
                "entries of a call must be neighbours"
            );
            position += 1;
        }
        index
    };
    match INDEX.get(number as usize) {
        Some(&(first, count)) => &TABLE[usize::from(first)..usize::from(first) + usize::from(count)],
        None => &[],
    }
}

/// Clears the shadow of what a call has written that returned `value`.
pub(super) fn clear(number: i64, arguments: &Arguments, value: i64) {
    if value < 0 {
        return;
    }
    for entry in entries(number) {
        entry.ranges(arguments, value as u64, &mut clear_shadow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{self, SHADOW_STRIDE};

    /// Which of the first `N` bytes at `start` have zero shadow, when all had another before the call.
    fn cleared<const N: usize>(start: u64, number: i64, arguments: Arguments, value: i64) -> [bool; N] {
        let shadow = (start + SHADOW_STRIDE) as *mut [u8; N];
        // SAFETY: the tests map this memory.
        unsafe {
            shadow.write([0xff; N]);
            clear(number, &arguments, value);
            shadow.read().map(|byte| byte == 0)
        }
    }

    #[test]
    fn exactly_what_was_written_becomes_passive() {
        let _lock = memory::tests::address_space();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = memory::map(0, 0x1000, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0).unwrap();
        let in_range = |from: usize, to: usize| std::array::from_fn(|byte| (from..to).contains(&byte));
        let read = cleared::<16>(start, libc::SYS_read, [0, start + 2, 10, 0, 0, 0], 5);
        assert_eq!(read, in_range(2, 7));
        let failed = cleared::<16>(start, libc::SYS_read, [0, start + 2, 10, 0, 0, 0], -5);
        assert_eq!(failed, [false; 16]);
        let window = cleared::<16>(start, libc::SYS_ioctl, [0, libc::TIOCGWINSZ, start, 0, 0, 0], 0);
        assert_eq!(window, in_range(0, 8));
        let written = cleared::<16>(start, libc::SYS_write, [1, start, 10, 0, 0, 0], 10);
        assert_eq!(written, [false; 16]);

        let array = start + 0x800;
        memory::user::write(array, [start + 1, 3, start + 8, 6]).unwrap();
        let vectors = cleared::<16>(start, libc::SYS_readv, [0, array, 2, 0, 0, 0], 5);
        let expected: [bool; 16] = std::array::from_fn(|byte| (1..4).contains(&byte) || (8..10).contains(&byte));
        assert_eq!(vectors, expected);
        memory::unmap(start, 0x1000).unwrap();
    }
}
