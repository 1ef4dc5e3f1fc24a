//! The `vsyscall` page: three functions at fixed addresses in the kernel's half of the address space, which old programs call for the
//! time. Natively the kernel emulates them when the page is executed.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use super::{Arguments, Outcome, intercepted, pass};
use crate::context::{Context, Gpr};
use crate::memory::user;

/// Address of the page.
const PAGE: u64 = 0xffff_ffff_ff60_0000;
/// The functions in it.
const FUNCTIONS: [(u64, i64); 3] =
    [(PAGE, libc::SYS_gettimeofday), (PAGE + 0x400, libc::SYS_time), (PAGE + 0x800, libc::SYS_getcpu)];

/// If `address`, to which the application has jumped, is one of these functions: carries it out and returns to its caller.
pub(crate) fn call(context: &mut Context, address: u64) -> bool {
    let Some(&(_, number)) = FUNCTIONS.iter().find(|(entry, _)| *entry == address) else { return false };
    if !is_offered() {
        return false;
    }
    let Ok(return_address) = user::read::<u64>(context.reg(Gpr::Rsp)) else { return false };
    let arguments: Arguments = [context.reg(Gpr::Rdi), context.reg(Gpr::Rsi), context.reg(Gpr::Rdx), 0, 0, 0];
    let outcome = match intercepted::handler(number) {
        Some(handler) => handler(context, arguments),
        None => Outcome::Pass(number, arguments),
    };
    let outcome = match outcome {
        Outcome::Pass(number, arguments) => pass(context, number, arguments),
        other => other,
    };
    match outcome {
        Outcome::Value(value) => {
            context.set_reg(Gpr::Rax, value as u64);
            context.set_reg(Gpr::Rsp, context.reg(Gpr::Rsp).wrapping_add(8));
            context.rip = return_address;
        }
        // A signal comes first; then the function is called again, since RIP has not moved.
        _ => context.attention.store(1, Ordering::SeqCst),
    }
    true
}

/// Whether this kernel offers the page (it may be started with `vsyscall=none`).
fn is_offered() -> bool {
    static OFFERED: OnceLock<bool> = OnceLock::new();
    *OFFERED.get_or_init(|| std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("[vsyscall]")))
}
