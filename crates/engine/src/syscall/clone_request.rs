//! What `clone` and `clone3` are asked for: their flags, and the structure with `clone3`'s arguments.

use crate::memory::{self, user};
use crate::thread::Request;

/// The bits of `clone`'s flags that hold the signal sent at the end.
const EXIT_SIGNAL: u64 = 0xff;

/// `CLONE_NEWTIME`, which only `clone3` has: in `clone` its bit belongs to the signal.
const NEW_TIME: u64 = 0x80;
/// Largest number of a signal.
const LAST_SIGNAL: u64 = 64;

/// A flag as the system calls have it.
pub(super) const fn flag(flag: libc::c_int) -> u64 {
    flag as u32 as u64
}

/// Flags and others that they need.
const NEEDED: [(libc::c_int, libc::c_int); 2] =
    [(libc::CLONE_THREAD, libc::CLONE_SIGHAND), (libc::CLONE_SIGHAND, libc::CLONE_VM)];
/// Flags and others with which they do not go together.
const EXCLUDED: [(libc::c_int, libc::c_int); 4] = [
    (libc::CLONE_NEWNS, libc::CLONE_FS),
    (libc::CLONE_NEWUSER, libc::CLONE_FS),
    (libc::CLONE_THREAD, libc::CLONE_NEWUSER | libc::CLONE_NEWPID),
    (libc::CLONE_PIDFD, libc::CLONE_THREAD | libc::CLONE_DETACHED),
];

/// Whether the kernel accepts these flags together (`copy_process`); else the calls fail with EINVAL.
pub(super) fn is_possible(flags: u64) -> bool {
    let has = |wanted: libc::c_int| flags & flag(wanted) != 0;
    NEEDED.into_iter().all(|(one, needed)| !has(one) || has(needed))
        && EXCLUDED.into_iter().all(|(one, other)| !(has(one) && has(other)))
}

/// Reads `clone3`'s structure of `size` bytes.
///
/// # Errors
/// The kernel's for what it does not accept either. ENOSYS for what it would accept: libraries use `clone` then.
pub(super) fn read(address: u64, size: u64) -> Result<Request, i32> {
    /// Sizes of `struct clone_args` in its first and its present form, in words.
    const LEAST: usize = 8;
    const KNOWN: usize = 11;
    if size > memory::PAGE {
        return Err(libc::E2BIG);
    }
    if (size as usize) < 8 * LEAST {
        return Err(libc::EINVAL);
    }
    let mut bytes = vec![0u8; (size as usize).max(8 * KNOWN)];
    user::read_bytes(address, &mut bytes[..size as usize]).map_err(|_| libc::EFAULT)?;
    if bytes[8 * KNOWN..].iter().any(|&byte| byte != 0) {
        return Err(libc::E2BIG);
    }
    let word = |index: usize| {
        let mut word = [0u8; 8];
        word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
        u64::from_le_bytes(word)
    };
    let [flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, chosen, chosen_size, _group] =
        std::array::from_fn(word);
    let has = |wanted: libc::c_int| flags & flag(wanted) != 0;
    let of_parent = has(libc::CLONE_THREAD) || has(libc::CLONE_PARENT);
    let refused = (chosen == 0) != (chosen_size == 0)
        || exit_signal > LAST_SIGNAL
        || flags & (EXIT_SIGNAL & !NEW_TIME) != 0
        || has(libc::CLONE_DETACHED)
        || of_parent && exit_signal != 0
        || (stack == 0) != (stack_size == 0);
    if refused {
        return Err(libc::EINVAL);
    }
    // A descriptor for a process goes where `clone` has its parent's thread id: both at once are not available, nor are a chosen process id and the flags
    // that only this call has.
    let both = has(libc::CLONE_PIDFD) && has(libc::CLONE_PARENT_SETTID);
    if chosen != 0 || both || flags & NEW_TIME != 0 || flags > u64::from(u32::MAX) {
        return Err(libc::ENOSYS);
    }
    let parent_tid = if has(libc::CLONE_PIDFD) { pidfd } else { parent_tid };
    let stack = stack.wrapping_add(stack_size);
    Ok(Request { flags: flags | exit_signal, stack, tls, parent_tid, child_tid })
}
