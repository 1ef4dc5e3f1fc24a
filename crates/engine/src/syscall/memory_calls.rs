//! System calls that change the memory layout.

use super::{Arguments, Outcome};
use crate::context::Context;
use crate::memory;

/// `mmap`.
pub(super) fn mmap(_: &mut Context, [hint, length, protection, flags, descriptor, offset]: Arguments) -> Outcome {
    memory::map(hint, length, protection as i32, flags as i32, descriptor as i32, offset).into()
}

/// `munmap`.
pub(super) fn munmap(_: &mut Context, [start, length, ..]: Arguments) -> Outcome {
    memory::unmap(start, length).map(|()| 0).into()
}

/// `mprotect`.
pub(super) fn mprotect(_: &mut Context, [start, length, protection, ..]: Arguments) -> Outcome {
    memory::protect(start, length, protection as i32).map(|()| 0).into()
}

/// `pkey_mprotect`: without a key it is `mprotect`, and `pkey_alloc` is hidden by its failure here.
pub(super) fn pkey_mprotect(context: &mut Context, arguments: Arguments) -> Outcome {
    if arguments[3] as i32 == -1 { mprotect(context, arguments) } else { Outcome::error(libc::EINVAL) }
}

/// `mremap`.
pub(super) fn mremap(_: &mut Context, [start, old_length, new_length, flags, target, _]: Arguments) -> Outcome {
    memory::remap(start, old_length, new_length, flags as i32, target).into()
}

/// `brk`.
pub(super) fn brk(_: &mut Context, [end, ..]: Arguments) -> Outcome {
    Outcome::Value(memory::change_break(end) as i64)
}

/// `madvise`.
pub(super) fn madvise(_: &mut Context, [start, length, advice, ..]: Arguments) -> Outcome {
    memory::advise(start, length, advice as i32).map(|()| 0).into()
}

/// `shmat`.
pub(super) fn shmat(_: &mut Context, [identifier, address, flags, ..]: Arguments) -> Outcome {
    memory::attach_segment(identifier as i32, address, flags as i32).into()
}

/// `shmdt`.
pub(super) fn shmdt(_: &mut Context, [address, ..]: Arguments) -> Outcome {
    memory::detach_segment(address).map(|()| 0).into()
}

/// `mlockall`: would lock our memory, too, and shadow that nobody will touch. It is a matter of timing only, so it may do nothing.
pub(super) fn mlockall(_: &mut Context, _: Arguments) -> Outcome {
    Outcome::Value(0)
}

/// `munlockall`.
pub(super) fn munlockall(_: &mut Context, _: Arguments) -> Outcome {
    Outcome::Value(0)
}
