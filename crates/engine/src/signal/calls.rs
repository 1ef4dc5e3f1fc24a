//! The system calls of signal handling.

use super::action::{self, Action, SIGNALS, SYNCHRONOUS, Set, UNCATCHABLE, bit};
use super::stack::AltStack;
use super::{change_mask, mask};
use crate::context::{Context, Gpr};
use crate::memory::user;
use crate::syscall::{Arguments, Outcome};
use crate::thread;

const SET_BYTES: u64 = size_of::<Set>() as u64;

/// `rt_sigaction`.
pub(crate) fn sigaction(_: &mut Context, [signal, new, old, size, ..]: Arguments) -> Outcome {
    let signal = signal as i32;
    if size != SET_BYTES || !(1..=SIGNALS).contains(&signal) || new != 0 && bit(signal) & UNCATCHABLE != 0 {
        return Outcome::error(libc::EINVAL);
    }
    let previous = if new == 0 {
        Ok(action::action(signal))
    } else {
        match user::read::<Action>(new) {
            Ok(mut wanted) => {
                wanted.mask &= !UNCATCHABLE;
                action::set_action(signal, wanted)
            }
            Err(_) => Err(libc::EFAULT),
        }
    };
    Outcome::from(previous.and_then(|previous| {
        if old != 0 {
            user::write(old, previous).map_err(|_| libc::EFAULT)?;
            crate::memory::clear_shadow(old, size_of::<Action>() as u64);
        }
        Ok(0)
    }))
}

/// `rt_sigprocmask`.
pub(crate) fn sigprocmask(context: &mut Context, [how, new, old, size, ..]: Arguments) -> Outcome {
    if size != SET_BYTES {
        return Outcome::error(libc::EINVAL);
    }
    let before = thread::state(context).signals.mask.get();
    if new != 0 {
        let Ok(set) = user::read::<Set>(new) else { return Outcome::error(libc::EFAULT) };
        let wanted = match how as i32 {
            libc::SIG_BLOCK => before | set,
            libc::SIG_UNBLOCK => before & !set,
            libc::SIG_SETMASK => set,
            _ => return Outcome::error(libc::EINVAL),
        };
        change_mask(context, wanted);
    }
    if old != 0 {
        if user::write(old, before).is_err() {
            return Outcome::error(libc::EFAULT);
        }
        crate::memory::clear_shadow(old, SET_BYTES);
    }
    Outcome::Value(0)
}

/// `sigaltstack`.
pub(crate) fn sigaltstack(context: &mut Context, [new, old, ..]: Arguments) -> Outcome {
    let stack_pointer = context.reg(Gpr::Rsp);
    let current = &thread::state(context).signals.alt_stack;
    let before = current.get();
    if new != 0 {
        let Ok(wanted) = user::read::<AltStack>(new) else { return Outcome::error(libc::EFAULT) };
        match before.replaced(wanted, stack_pointer) {
            Ok(stack) => current.set(stack),
            Err(error) => return Outcome::error(error),
        }
    }
    if old != 0 {
        if user::write(old, before.reported(stack_pointer)).is_err() {
            return Outcome::error(libc::EFAULT);
        }
        crate::memory::clear_shadow(old, size_of::<AltStack>() as u64);
    }
    Outcome::Value(0)
}

/// `rt_sigpending`: what the kernel has, and what is held back here.
pub(crate) fn sigpending(context: &mut Context, arguments: Arguments) -> Outcome {
    // SAFETY: the kernel checks the address.
    let value = unsafe { crate::syscall::raw::syscall(libc::SYS_rt_sigpending, arguments) };
    let held = thread::state(context).signals.held_back();
    let address = arguments[0];
    if value == 0 {
        if held != 0
            && let Ok(set) = user::read::<Set>(address)
        {
            let _ = user::write(address, set | held);
        }
        crate::memory::clear_shadow(address, SET_BYTES);
    }
    Outcome::Value(value)
}

/// `rt_sigreturn`.
pub(crate) fn sigreturn(context: &mut Context, _: Arguments) -> Outcome {
    super::return_from_handler(context);
    Outcome::RegistersSet
}

/// `rt_sigsuspend`: waits with another mask, which is in effect when the handler starts.
pub(crate) fn sigsuspend(context: &mut Context, arguments: Arguments) -> Outcome {
    if arguments[1] != SET_BYTES {
        return Outcome::error(libc::EINVAL);
    }
    let Ok(set) = user::read::<Set>(arguments[0]) else { return Outcome::error(libc::EFAULT) };
    let signals = &thread::state(context).signals;
    if signals.held_back() & !set != 0 {
        // It wakes up at once.
        let _blocked = mask::BlockAll::new();
        if let Some(arrived) = signals.take_released(set) {
            let _ = signals.queue.push(arrived);
        }
        signals.temporary_mask.set(Some(set & !UNCATCHABLE));
        context.attention.store(1, std::sync::atomic::Ordering::SeqCst);
        return Outcome::error(libc::EINTR);
    }
    wait_with_mask(context, libc::SYS_rt_sigsuspend, arguments, 0, set)
}

/// `ppoll`, `epoll_pwait` and `epoll_pwait2`: the argument with this index is the address of the mask, or null.
fn with_direct_mask(context: &mut Context, number: i64, arguments: Arguments, index: usize) -> Outcome {
    if arguments[index] == 0 {
        return Outcome::Pass(number, arguments);
    }
    let Ok(set) = user::read::<Set>(arguments[index]) else { return Outcome::error(libc::EFAULT) };
    wait_with_mask(context, number, arguments, index, set)
}

/// `ppoll`.
pub(crate) fn ppoll(context: &mut Context, arguments: Arguments) -> Outcome {
    with_direct_mask(context, libc::SYS_ppoll, arguments, 3)
}

/// `epoll_pwait`.
pub(crate) fn epoll_pwait(context: &mut Context, arguments: Arguments) -> Outcome {
    with_direct_mask(context, libc::SYS_epoll_pwait, arguments, 4)
}

/// `epoll_pwait2`.
pub(crate) fn epoll_pwait2(context: &mut Context, arguments: Arguments) -> Outcome {
    with_direct_mask(context, libc::SYS_epoll_pwait2, arguments, 4)
}

/// `pselect6`: the last argument is the address of a pair: the mask's address and size.
pub(crate) fn pselect6(context: &mut Context, mut arguments: Arguments) -> Outcome {
    let pair = arguments[5];
    if pair == 0 {
        return Outcome::Pass(libc::SYS_pselect6, arguments);
    }
    let Ok([address, size]) = user::read::<[u64; 2]>(pair) else { return Outcome::error(libc::EFAULT) };
    if address == 0 {
        return Outcome::Pass(libc::SYS_pselect6, arguments);
    }
    let Ok(set) = user::read::<Set>(address) else { return Outcome::error(libc::EFAULT) };
    let host = set & !SYNCHRONOUS;
    let host_pair = [&raw const host as u64, size];
    arguments[5] = host_pair.as_ptr() as u64;
    let outcome = crate::syscall::pass(context, libc::SYS_pselect6, arguments);
    mask_of_interruption(context, &outcome, set);
    outcome
}

/// Makes a call that waits with the mask `set`; the argument with this index is the mask's address.
fn wait_with_mask(context: &mut Context, number: i64, mut arguments: Arguments, index: usize, set: Set) -> Outcome {
    let host = set & !SYNCHRONOUS;
    arguments[index] = &raw const host as u64;
    let outcome = crate::syscall::pass(context, number, arguments);
    mask_of_interruption(context, &outcome, set);
    outcome
}

/// If a signal has ended the wait, its handler starts with the mask of the wait in effect.
fn mask_of_interruption(context: &mut Context, outcome: &Outcome, set: Set) {
    let signals = &thread::state(context).signals;
    if signals.queue.is_waiting() && !matches!(outcome, Outcome::Restart { started: false }) {
        signals.temporary_mask.set(Some(set & !UNCATCHABLE));
    }
}

// `signalfd4` and `rt_sigtimedwait` need nothing: the signals concerned are blocked, so the kernel has them. `signalfd` with signals that
// the host cannot block would never see them; there are no known uses.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_action_has_no_padding() {
        assert_eq!(size_of::<Action>(), 32);
        assert_eq!(size_of::<AltStack>(), 24);
    }
}
