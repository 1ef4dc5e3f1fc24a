//! Where the kernel reads application memory for others: files, pipes, other processes. What active data becomes there is not followed.

use super::Arguments;
use super::extent::{
    Access, MESSAGE_TYPE,
    Size::{Argument, HeaderAndArgument, Message, Messages, Result as Returned, Vectors},
    access as r,
};
use crate::memory::shadowed_bytes;

#[rustfmt::skip]
static TABLE: &[Access] = &[
    r(libc::SYS_write, 1, Returned),
    r(libc::SYS_pwrite64, 1, Returned),
    r(libc::SYS_writev, 1, Vectors(2)),
    r(libc::SYS_pwritev, 1, Vectors(2)),
    r(libc::SYS_pwritev2, 1, Vectors(2)),
    r(libc::SYS_vmsplice, 1, Vectors(2)),
    r(libc::SYS_process_vm_writev, 1, Vectors(2)),
    r(libc::SYS_sendto, 1, Returned),
    r(libc::SYS_sendmsg, 1, Message),
    r(libc::SYS_sendmmsg, 1, Messages),
    r(libc::SYS_msgsnd, 1, HeaderAndArgument(MESSAGE_TYPE, 2)),
    r(libc::SYS_mq_timedsend, 1, Argument(2)),
];

/// How many bytes with non-zero shadow a call has taken out of the program that returned `value`.
pub(super) fn shadowed(number: i64, arguments: &Arguments, value: i64) -> u64 {
    let mut bytes = 0;
    if value >= 0 {
        for entry in TABLE.iter().filter(|entry| entry.number == number) {
            entry.ranges(arguments, value as u64, &mut |start, length| bytes += shadowed_bytes(start, length));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory;

    #[test]
    fn only_what_was_read_and_has_shadow_counts() {
        let _lock = memory::tests::address_space();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = memory::map(0, 0x3000, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0).unwrap();
        memory::user::write_shadow(start + 0xff8, &7u64.to_le_bytes());
        memory::user::write_shadow(start + 0x1010, &u64::MAX.to_le_bytes());
        let written = |from: u64, bytes: i64| shadowed(libc::SYS_write, &[1, start + from, 0x2000, 0, 0, 0], bytes);
        assert_eq!(written(0, 0x2000), 12, "one word of four bytes and two");
        assert_eq!(written(0, 0x1014), 8);
        assert_eq!(written(0, 0xff8), 0);
        assert_eq!(written(0, -5), 0);
        assert_eq!(shadowed(libc::SYS_read, &[1, start, 0x2000, 0, 0, 0], 0x2000), 0);
        memory::user::write(start + 0x2000, [start, 0xff0, start + 0x1000, 0x18]).unwrap();
        assert_eq!(shadowed(libc::SYS_writev, &[1, start + 0x2000, 2, 0, 0, 0], 0xff0 + 0x18), 8);
        memory::unmap(start, 0x3000).unwrap();
    }
}
