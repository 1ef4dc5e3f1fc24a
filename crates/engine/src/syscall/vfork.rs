//! Children that run in their parent's memory until they execute a program or end, while the parent waits: `vfork`, `posix_spawn`.
//!
//! The child is a real one of this kind. It goes on with the dispatcher on the same host stack, below the parent's frames, and uses the
//! parent's context; the parent puts its registers back when it goes on.

use std::arch::global_asm;
use std::ffi::c_void;
use std::sync::atomic::Ordering;

use super::Outcome;
use super::process::report_child;
use super::raw::result;
use crate::context::{Context, Gpr, VECTOR_STATE_BYTES};
use crate::memory::{self, PAGE};
use crate::signal::{Pending, action, mask, stack::AltStack};
use crate::thread::{self, Request};
use crate::tool::{SignalFrame, Version};

/// What the child may change and the parent needs again.
struct Saved {
    gpr: [u64; 16],
    rip: u64,
    rflags: u64,
    fs_base: u64,
    gs_base: u64,
    vector_state: [u8; VECTOR_STATE_BYTES],
    version: Version,
    tid: u32,
    in_cache: u32,
    mask: u64,
    pending: Pending,
    alt_stack: AltStack,
    clear_child_tid: u64,
    robust_list: (u64, u64),
    borrows_memory: bool,
    /// See [`action::replace_own`].
    own_actions: Option<Box<action::Table>>,
}

impl Saved {
    /// Puts aside what the child will change, and gives the child its own signal actions.
    fn new(context: &Context) -> Box<Saved> {
        let state = thread::state(context);
        let own_actions = action::replace_own(Some(action::copy()));
        Box::new(Saved {
            gpr: context.gpr,
            rip: context.rip,
            rflags: context.rflags,
            fs_base: context.fs_base,
            gs_base: context.gs_base,
            vector_state: context.vector_image(),
            version: context.version,
            tid: context.tid,
            in_cache: context.in_cache.load(Ordering::SeqCst),
            mask: state.signals.mask.get(),
            // They are none of the child's.
            pending: state.signals.take_pending(),
            alt_stack: state.signals.alt_stack.get(),
            clear_child_tid: state.clear_child_tid.get(),
            robust_list: state.robust_list.get(),
            borrows_memory: state.borrows_memory.get(),
            own_actions,
        })
    }

    fn restore(self, context: &mut Context) {
        context.gpr = self.gpr;
        context.rip = self.rip;
        context.rflags = self.rflags;
        context.fs_base = self.fs_base;
        context.gs_base = self.gs_base;
        context.set_vector_image(self.vector_state);
        context.version = self.version;
        context.tid = self.tid;
        // A child that was killed has left it as it was then.
        context.in_cache.store(self.in_cache, Ordering::SeqCst);
        context.inside.store(0, Ordering::Release);
        let state = thread::state(context);
        state.signals.mask.set(self.mask);
        state.signals.set_pending(self.pending);
        context.attention.store(1, Ordering::SeqCst);
        state.signals.alt_stack.set(self.alt_stack);
        state.clear_child_tid.set(self.clear_child_tid);
        state.robust_list.set(self.robust_list);
        state.borrows_memory.set(self.borrows_memory);
        drop(action::replace_own(self.own_actions));
    }
}

/// What the child is started with.
struct Child {
    context: *mut Context,
    request: Request,
}

/// Starts such a child, and waits for it as the kernel does.
pub(super) fn start(context: &mut Context, request: Request) -> Outcome {
    let blocked = mask::BlockAll::new();
    let shadow = ShadowRegisters::put_aside(context);
    let saved = Saved::new(context);
    let child = Child { context, request };
    let kept = (libc::CLONE_VM | libc::CLONE_VFORK) as u64 | request.flags & 0xff;
    // SAFETY: the routine leaves this stack frame alone in the child, and the context is restored below.
    let value = unsafe { derivgrind_vfork(kept, run_child, (&raw const child).cast()) };
    // SAFETY: undoes the pass through a raw pointer: the child has used the context.
    let context = unsafe { &mut *child.context };
    saved.restore(context);
    shadow.bring_back(context);
    drop(blocked);
    let outcome = result(value);
    if let Ok(id) = outcome {
        report_child(request, id);
    }
    outcome.into()
}

/// The child's part; it ends with the process.
extern "C" fn run_child(child: *const c_void) -> ! {
    // SAFETY: `start` passes its `Child`, and waits, so nobody else uses the context.
    let (request, context) = unsafe {
        let child = &*child.cast::<Child>();
        (child.request, &mut *child.context)
    };
    let has = |flag: libc::c_int| request.flags & flag as u32 as u64 != 0;
    context.tid = thread::current_tid();
    let state = thread::state(context);
    state.borrows_memory.set(true);
    let cleared = if has(libc::CLONE_CHILD_CLEARTID) { request.child_tid } else { 0 };
    state.clear_child_tid.set(cleared);
    if has(libc::CLONE_CHILD_SETTID) {
        let _ = memory::user::write(request.child_tid, context.tid);
        memory::clear_shadow(request.child_tid, 4);
    }
    if has(libc::CLONE_SETTLS) {
        context.fs_base = request.tls;
    }
    if request.stack != 0 {
        context.set_reg(Gpr::Rsp, request.stack);
    }
    context.set_reg(Gpr::Rax, 0);
    context.set_reg(Gpr::Rcx, context.rip);
    context.set_reg(Gpr::R11, context.rflags);
    mask::set_host(state.signals.mask.get());
    crate::dispatcher::go_on(context);
    // SAFETY: `exit` in such a child does not come back to the dispatcher; ends the child in any case.
    unsafe { libc::_exit(crate::EXIT_ENGINE) }
}

/// The tool's shadow registers while a child uses them: kept as in a signal frame, in memory made for it.
struct ShadowRegisters(Option<(u64, SignalFrame)>);

impl ShadowRegisters {
    const BYTES: u64 = 2 * PAGE;
    const XSAVE_OFFSET: u64 = 1024;

    fn put_aside(context: &mut Context) -> ShadowRegisters {
        if memory::shadow_layers() == 0 {
            return ShadowRegisters(None);
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let Ok(page) = memory::map(0, Self::BYTES, access, flags, -1, 0) else { return ShadowRegisters(None) };
        let frame = SignalFrame {
            general: std::array::from_fn(|index| page + 8 * index as u64),
            xsave: page + Self::XSAVE_OFFSET,
        };
        // Both fail only if the mapping just made is gone.
        let _ = memory::user::write(page, context.gpr);
        let _ = memory::user::write_bytes(frame.xsave, &context.vector_image());
        crate::tool().signal_frame_saved(context, frame);
        ShadowRegisters(Some((page, frame)))
    }

    fn bring_back(self, context: &mut Context) {
        if let Some((page, frame)) = self.0 {
            crate::tool().signal_frame_restored(context, frame);
            let _ = memory::unmap(page, Self::BYTES);
        }
    }
}

unsafe extern "C" {
    /// `clone(flags)` on the same stack: returns in the parent when the child is done with its memory; in the child calls `child`,
    /// which must not return.
    fn derivgrind_vfork(flags: u64, child: extern "C" fn(*const c_void) -> !, argument: *const c_void) -> i64;
}

// The child writes below the return address only. R8 and R9 hold arguments that the kernel ignores for these flags.
global_asm!(
    ".globl derivgrind_vfork",
    ".hidden derivgrind_vfork",
    ".p2align 4",
    "derivgrind_vfork:",
    "mov r9, rsi",
    "mov r8, rdx",
    "xor esi, esi",
    "xor edx, edx",
    "xor r10d, r10d",
    "mov eax, {number}",
    "syscall",
    "test rax, rax",
    "jnz 2f",
    "mov rdi, r8",
    "and rsp, -16",
    "call r9",
    "ud2",
    "2: ret",
    number = const libc::SYS_clone,
);
