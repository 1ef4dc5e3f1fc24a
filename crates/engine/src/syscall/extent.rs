//! Which memory a system call refers to: from its arguments and its result to ranges of addresses.

use super::Arguments;
use crate::memory::user;

/// How many bytes the kernel has written or read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    /// As many as the call returns.
    Result,
    /// So many elements as the call returns, of this size.
    Results(u64),
    /// As many as the call returns behind a header of so many.
    HeaderAndResult(u64),
    /// As the argument with this index says behind a header of so many.
    HeaderAndArgument(u64, usize),
    /// A fixed number.
    Fixed(u64),
    /// As the argument with this index says.
    Argument(usize),
    /// As many elements of this size as the argument with this index says.
    Elements(usize, u64),
    /// As the 4-byte word says whose address is the argument with this index (a `socklen_t`, which is written, too).
    Length(usize),
    /// The parts of an array of `struct iovec` with as many elements as the argument with this index says, filled in order with as many
    /// bytes as the call returns.
    Vectors(usize),
    /// The same in another process's memory, the one in the first argument: of interest if that is this process.
    RemoteVectors(usize),
    /// A `struct msghdr` and what it points to, with as many bytes of data as the call returns.
    Message,
    /// An array of `struct mmsghdr` with as many elements as the call returns.
    Messages,
    /// Three sets of descriptors at this argument and the two that follow, for as many descriptors as the first argument says.
    DescriptorSets,
    /// As the request number in the argument before says (`ioctl`).
    Request,
}

/// One place that a call writes to or reads from.
pub(super) struct Access {
    /// The call.
    pub number: i64,
    /// Index of the argument that holds the address.
    pub address: usize,
    /// How many bytes there.
    pub size: Size,
}

/// An entry of a table.
pub(super) const fn access(number: i64, address: usize, size: Size) -> Access {
    Access { number, address, size }
}

/// The type in front of a message of a System V queue.
pub(super) const MESSAGE_TYPE: u64 = 8;

const MMSGHDR: u64 = 64;
const MSGHDR: u64 = 56;

impl Access {
    /// Calls `visit` with start and length of each range that a call with these arguments has accessed that returned `value`.
    pub(super) fn ranges(&self, arguments: &Arguments, value: u64, visit: &mut dyn FnMut(u64, u64)) {
        let address = arguments[self.address];
        if address == 0 {
            return;
        }
        match self.size {
            Size::Result => visit(address, value),
            Size::Results(size) => visit(address, value.saturating_mul(size)),
            Size::HeaderAndResult(header) => visit(address, value.saturating_add(header)),
            Size::HeaderAndArgument(header, index) => visit(address, arguments[index].saturating_add(header)),
            Size::Fixed(size) => visit(address, size),
            Size::Argument(index) => visit(address, arguments[index]),
            Size::Elements(index, size) => visit(address, arguments[index].saturating_mul(size)),
            Size::Length(index) => {
                if let Ok(length) = user::read::<u32>(arguments[index]) {
                    visit(address, length.into());
                    visit(arguments[index], 4);
                }
            }
            Size::Vectors(index) => vectors(address, arguments[index], value, visit),
            Size::RemoteVectors(index) => {
                if arguments[0] == u64::from(std::process::id()) {
                    vectors(address, arguments[index], value, visit);
                }
            }
            Size::Message => message(address, value, visit),
            Size::Messages => {
                for index in 0..value {
                    let header = address + index * MMSGHDR;
                    if let Ok(length) = user::read::<u32>(header + MSGHDR) {
                        message(header, length.into(), visit);
                        visit(header + MSGHDR, 4);
                    }
                }
            }
            Size::DescriptorSets => {
                let bytes = arguments[0].div_ceil(64) * 8;
                for set in &arguments[self.address..self.address + 3] {
                    if *set != 0 {
                        visit(*set, bytes);
                    }
                }
            }
            Size::Request => visit(address, request_bytes(arguments[self.address - 1])),
        }
    }
}

/// `bytes` in the parts of an array of `struct iovec`.
fn vectors(array: u64, count: u64, mut bytes: u64, visit: &mut dyn FnMut(u64, u64)) {
    for index in 0..count {
        if bytes == 0 {
            break;
        }
        let Ok([start, length]) = user::read::<[u64; 2]>(array + 16 * index) else { break };
        visit(start, length.min(bytes));
        bytes -= length.min(bytes);
    }
}

/// `struct msghdr`: name, name length, vectors, their number, control data, its length, flags.
fn message(address: u64, bytes: u64, visit: &mut dyn FnMut(u64, u64)) {
    let Ok([name, name_length, array, count, control, control_length, _flags]) = user::read::<[u64; 7]>(address) else {
        return;
    };
    if name != 0 {
        visit(name, name_length & 0xffff_ffff);
    }
    vectors(array, count, bytes, visit);
    if control != 0 {
        visit(control, control_length);
    }
    visit(address, MSGHDR);
}

/// How many bytes an `ioctl` request writes to its argument.
fn request_bytes(request: u64) -> u64 {
    /// Requests from before the size became part of the number.
    const OLD: &[(u64, u64)] = &[
        (libc::TCGETS, 36),
        (libc::TCGETA, 18),
        (libc::TIOCGWINSZ, 8),
        (libc::TIOCGPGRP, 4),
        (libc::TIOCGSID, 4),
        (libc::TIOCOUTQ, 4),
        (libc::TIOCMGET, 4),
        (libc::TIOCGETD, 4),
        (libc::FIONREAD, 4),
        (libc::SIOCGIFCONF, 16),
        (libc::SIOCGIFADDR, 40),
        (libc::SIOCGIFFLAGS, 40),
        (libc::SIOCGIFINDEX, 40),
    ];
    const READ: u64 = 2;
    let (direction, size) = (request >> 30 & 3, request >> 16 & 0x3fff);
    match OLD.iter().find(|(number, _)| *number == request & 0xffff_ffff) {
        Some(&(_, bytes)) => bytes,
        None if direction & READ != 0 => size,
        None => 0,
    }
}
