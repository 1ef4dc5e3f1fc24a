//! Resource limits that cannot be the host's, because derivgrind and its shadow memory would run into them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Arguments, Outcome};
use crate::context::Context;
use crate::memory::{self, user};
use crate::syscall::raw::{result, syscall};

/// `struct rlimit64`: soft and hard limit.
type Limit = [u64; 2];

/// Limits that the application has set for itself but that the host does not have.
#[derive(Clone, Copy, Default)]
struct Emulated {
    /// Total size of mappings: enforced for the application's own.
    address_space: Option<Limit>,
    /// Size of data: kept only.
    data: Option<Limit>,
    /// Size of mappings that grow: enforced, except for the main stack, which has its size from the start.
    stack: Option<Limit>,
}

impl Emulated {
    fn slot(&mut self, resource: u64) -> Option<&mut Option<Limit>> {
        match resource as u32 {
            libc::RLIMIT_AS => Some(&mut self.address_space),
            libc::RLIMIT_DATA => Some(&mut self.data),
            libc::RLIMIT_STACK => Some(&mut self.stack),
            _ => None,
        }
    }
}

static EMULATED: Mutex<Emulated> = Mutex::new(Emulated { address_space: None, data: None, stack: None });

fn emulated() -> MutexGuard<'static, Emulated> {
    EMULATED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// To be held across `fork`.
pub(super) fn lock_for_fork() -> impl Sized {
    emulated()
}

/// `getrlimit`.
pub(super) fn getrlimit(context: &mut Context, [resource, address, ..]: Arguments) -> Outcome {
    prlimit64(context, [0, resource, 0, address, 0, 0])
}

/// `setrlimit`.
pub(super) fn setrlimit(context: &mut Context, [resource, address, ..]: Arguments) -> Outcome {
    if address == 0 {
        return Outcome::error(libc::EFAULT);
    }
    prlimit64(context, [0, resource, address, 0, 0, 0])
}

/// `prlimit64`.
pub(super) fn prlimit64(_: &mut Context, arguments: Arguments) -> Outcome {
    let [process, resource, new, old, ..] = arguments;
    let own = process == 0 || process as u32 == std::process::id();
    let mut emulated = emulated();
    let slot = if own { emulated.slot(resource) } else { None };
    let Some(slot) = slot else { return Outcome::Pass(libc::SYS_prlimit64, arguments) };
    let before = match *slot {
        Some(limit) => limit,
        None => match host_limit(resource) {
            Ok(limit) => limit,
            Err(error) => return Outcome::error(error),
        },
    };
    if new != 0 {
        let Ok(limit) = user::read::<Limit>(new) else { return Outcome::error(libc::EFAULT) };
        if limit[0] > limit[1] {
            return Outcome::error(libc::EINVAL);
        }
        if limit[1] > before[1] && !rustix::process::geteuid().is_root() {
            return Outcome::error(libc::EPERM);
        }
        *slot = Some(limit);
        match resource as u32 {
            libc::RLIMIT_AS => memory::set_size_limit(limit[0]),
            libc::RLIMIT_STACK => memory::set_stack_limit(limit[0]),
            _ => {}
        }
    }
    if old != 0 {
        if user::write(old, before).is_err() {
            return Outcome::error(libc::EFAULT);
        }
        memory::clear_shadow(old, size_of::<Limit>() as u64);
    }
    Outcome::Value(0)
}

fn host_limit(resource: u64) -> Result<Limit, i32> {
    let mut limit: Limit = [0; 2];
    // SAFETY: the array has the layout of `struct rlimit64`.
    result(unsafe { syscall(libc::SYS_prlimit64, [0, resource, 0, limit.as_mut_ptr() as u64, 0, 0]) })?;
    Ok(limit)
}

/// Sets the emulated limits in the host, for the program that follows by `execve`, which runs natively.
pub(super) fn hand_over() {
    let emulated = *emulated();
    let limits = [
        (libc::RLIMIT_AS, emulated.address_space),
        (libc::RLIMIT_DATA, emulated.data),
        (libc::RLIMIT_STACK, emulated.stack),
    ];
    for (resource, limit) in limits {
        if let Some(limit) = limit {
            // SAFETY: the array has the layout of `struct rlimit64`. A failure leaves the host's limit, which is not stricter.
            let _ = unsafe { syscall(libc::SYS_prlimit64, [0, resource.into(), limit.as_ptr() as u64, 0, 0, 0]) };
        }
    }
}
