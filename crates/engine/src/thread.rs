//! Application threads: each is a thread of the host with a context of its own.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::context::{self, Context, Gpr, VECTOR_STATE_BYTES};
use crate::memory::{SHADOW_STRIDE, user};
use crate::signal::stack::HostStack;
use crate::signal::{ThreadSignals, mask};
use crate::syscall::raw::syscall;

/// Host stack of an application thread. The thread-local context with its look-up tables (3 MiB) lies in it, too; memory is used for what is
/// touched only.
const STACK_BYTES: usize = 16 << 20;

/// What the engine keeps for a thread beside its registers. Only the thread itself uses it.
#[derive(Default)]
pub struct ThreadState {
    pub(crate) signals: ThreadSignals,
    /// Cleared when the thread ends, and woken (CLONE_CHILD_CLEARTID, `set_tid_address`).
    pub(crate) clear_child_tid: Cell<u64>,
    /// Head of the list of robust futexes, and its size.
    pub(crate) robust_list: Cell<(u64, u64)>,
    /// Argument of `exit`.
    pub(crate) exit_code: Cell<i32>,
    /// Whether this is the process's first thread, whose host thread must not return.
    pub(crate) leader: Cell<bool>,
    /// Whether this is a child made by `vfork`, which runs in its parent's memory.
    pub(crate) borrows_memory: Cell<bool>,
}

/// The state of the thread that `context` belongs to.
///
/// The reference is good for as long as the thread runs application code; nothing keeps one beyond that.
pub(crate) fn state(context: &Context) -> &'static ThreadState {
    debug_assert!(!context.thread.is_null());
    // SAFETY: set by `adopt` before application code runs, freed after it has ended.
    unsafe { &*context.thread }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Registered(*mut Context);

// SAFETY: the pointers are given out only; what is done with them is the receiver's concern.
unsafe impl Send for Registered {}

static REGISTRY: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

fn registry() -> MutexGuard<'static, Vec<Registered>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `action` with the context of each live application thread. No thread starts or ends meanwhile; the threads may be running, so only
/// atomic fields may be used.
pub fn for_each(mut action: impl FnMut(*mut Context)) {
    for entry in registry().iter() {
        action(entry.0);
    }
}

/// Whether the program has ever had several threads at once. What is translated before the second one starts is translated anew then.
pub fn several() -> bool {
    SEVERAL.load(Ordering::Relaxed)
}

static SEVERAL: AtomicBool = AtomicBool::new(false);

/// Number of live application threads.
pub fn count() -> usize {
    registry().len()
}

/// Keeps threads from starting and ending, so that a forked child inherits the registry in a consistent state.
pub(crate) struct ForkGuard(MutexGuard<'static, Vec<Registered>>);

/// To be held across `fork`.
pub(crate) fn lock_for_fork() -> ForkGuard {
    ForkGuard(registry())
}

impl ForkGuard {
    /// In the child: only the calling thread is left.
    pub(crate) fn keep_only(&mut self, context: &Context) {
        self.0.retain(|entry| std::ptr::eq(entry.0, context));
    }
}

/// Makes the calling thread an application thread.
fn adopt(context: &mut Context, state: ThreadState) -> Result<(), i32> {
    state.signals.host_stack.set(Some(HostStack::install()?));
    context.thread = Box::into_raw(Box::new(state));
    context.tid = current_tid();
    set_shadow_base();
    registry().push(Registered(context));
    Ok(())
}

/// Makes the process's first thread an application thread.
pub fn adopt_main(context: &mut Context) {
    let state = ThreadState { leader: Cell::new(true), ..ThreadState::default() };
    if adopt(context, state).is_err() {
        crate::fatal("no memory for the signal stack");
    }
    crate::syscall::take_over_descriptors();
    if let Some(program) = crate::loader::program() {
        let mut name = program.name.clone();
        name.push(0);
        // SAFETY: a zero-terminated string.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
}

/// Host thread id of the caller.
pub(crate) fn current_tid() -> u32 {
    // SAFETY: has no preconditions.
    unsafe { syscall(libc::SYS_gettid, [0; 6]) as u32 }
}

/// Points GS at the shadow of address 0, which is how cached code reaches shadow memory.
fn set_shadow_base() {
    const ARCH_SET_GS: u64 = 0x1001;
    // SAFETY: Rust and the host's libc do not use GS.
    let failed = unsafe { syscall(libc::SYS_arch_prctl, [ARCH_SET_GS, SHADOW_STRIDE, 0, 0, 0, 0]) } != 0;
    if failed {
        crate::fatal("cannot set the base of the GS segment (arch_prctl)");
    }
}

/// A request for a thread, as `clone` takes it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request {
    /// `CLONE_` flags.
    pub flags: u64,
    /// Initial stack pointer, 0 for the parent's.
    pub stack: u64,
    /// New FS base, with CLONE_SETTLS.
    pub tls: u64,
    /// Where the thread id goes with CLONE_PARENT_SETTID.
    pub parent_tid: u64,
    /// Where it goes with CLONE_CHILD_SETTID, and is cleared with CLONE_CHILD_CLEARTID.
    pub child_tid: u64,
}

/// The parent's registers that a thread starts with.
struct Inherited {
    gpr: [u64; 16],
    rip: u64,
    rflags: u64,
    fs_base: u64,
    gs_base: u64,
    vector_state: [u8; VECTOR_STATE_BYTES],
    mask: u64,
}

/// Starts an application thread and returns its id.
///
/// # Errors
/// EAGAIN if the host cannot make another thread.
pub(crate) fn spawn(context: &Context, request: Request) -> Result<u64, i32> {
    let inherited = Box::new(Inherited {
        gpr: context.gpr,
        rip: context.rip,
        rflags: context.rflags,
        fs_base: context.fs_base,
        gs_base: context.gs_base,
        vector_state: context.vector_image(),
        mask: state(context).signals.mask.get(),
    });
    // (Without shadow there is no difference.)
    if !SEVERAL.swap(true, Ordering::SeqCst) && crate::tool().shadow_layers() > 0 {
        crate::cache::start_over();
    }
    // The new thread inherits the host's mask: no signal reaches it before it is ready.
    let blocked = mask::BlockAll::new();
    let (sender, receiver) = mpsc::sync_channel(1);
    let spawned = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || body(&inherited, request, &sender));
    let outcome = match spawned {
        Ok(_detached) => receiver.recv().unwrap_or(Err(libc::EAGAIN)),
        Err(_) => Err(libc::EAGAIN),
    };
    drop(blocked);
    outcome.map(u64::from)
}

/// What a host thread does for its application thread.
fn body(inherited: &Inherited, request: Request, ready: &mpsc::SyncSender<Result<u32, i32>>) {
    let has = |flag: libc::c_int| request.flags & flag as u32 as u64 != 0;
    // SAFETY: the only reference to this thread's context; other threads and signal handlers use its atomic fields only.
    let context = unsafe { &mut *context::current() };
    crate::dispatcher::prepare(context);
    context.gpr = inherited.gpr;
    context.rip = inherited.rip;
    context.rflags = inherited.rflags;
    context.fs_base = if has(libc::CLONE_SETTLS) { request.tls } else { inherited.fs_base };
    context.gs_base = inherited.gs_base;
    context.set_vector_image(inherited.vector_state);
    context.set_reg(Gpr::Rax, 0);
    if request.stack != 0 {
        context.set_reg(Gpr::Rsp, request.stack);
    }
    let state = ThreadState::default();
    state.signals.mask.set(inherited.mask);
    if has(libc::CLONE_CHILD_CLEARTID) {
        state.clear_child_tid.set(request.child_tid);
    }
    if let Err(error) = adopt(context, state) {
        let _ = ready.send(Err(error));
        return;
    }
    // What the application's thread does not share with its parent. Failure is impossible for these flags.
    let unshared = !request.flags & (libc::CLONE_FS | libc::CLONE_FILES) as u64;
    if unshared != 0 {
        // SAFETY: affects this thread only.
        unsafe { syscall(libc::SYS_unshare, [unshared, 0, 0, 0, 0, 0]) };
    }
    for (flag, address) in
        [(libc::CLONE_PARENT_SETTID, request.parent_tid), (libc::CLONE_CHILD_SETTID, request.child_tid)]
    {
        if has(flag) {
            // As in the kernel, a bad address goes unnoticed.
            let _ = user::write(address, context.tid);
            crate::memory::clear_shadow(address, 4);
        }
    }
    let _ = ready.send(Ok(context.tid));
    mask::set_host(inherited.mask);
    crate::dispatcher::run(context);
    finish_thread(context);
}

/// Ends the calling application thread, of which [`crate::dispatcher::run`] has returned, and its host thread with it. The process goes on while
/// other threads run.
pub fn exit_current(context: &mut Context) -> ! {
    let code = state(context).exit_code.get();
    finish_thread(context);
    // SAFETY: ends this thread, which is the process's first: returning from `main` would end the process.
    unsafe { syscall(libc::SYS_exit, [code as u64, 0, 0, 0, 0, 0]) };
    unreachable!("a thread has gone on after its end")
}

/// Gives back what the thread has, and tells those who wait for it. Application memory is not used afterwards: they may free it.
fn finish_thread(context: &mut Context) {
    std::mem::forget(mask::BlockAll::new());
    static LEADER_CODE: AtomicI32 = AtomicI32::new(0);
    let state = state(context);
    if state.leader.get() {
        LEADER_CODE.store(state.exit_code.get(), Ordering::SeqCst);
    }
    let last = {
        let mut registry = registry();
        registry.retain(|entry| !std::ptr::eq(entry.0, context));
        registry.is_empty()
    };
    if last {
        // Threads of the tool must not keep the process alive. Its status is that of its first thread.
        let mut code = LEADER_CODE.load(Ordering::SeqCst);
        if finish_process(context) {
            code = crate::tool().exit_code(code);
        }
        // SAFETY: ends the process; the kernel sees to the rest.
        unsafe { syscall(libc::SYS_exit_group, [code as u64, 0, 0, 0, 0, 0]) };
    }
    // SAFETY: made by `adopt`; the pointer is cleared first, so that handlers see that this is no application thread any more.
    let state = unsafe { Box::from_raw(std::mem::replace(&mut context.thread, std::ptr::null_mut())) };
    let (robust_list, clear_child_tid) = (state.robust_list.get().0, state.clear_child_tid.get());
    drop(state);
    if robust_list != 0 {
        robust::release(robust_list, context.tid);
        // The kernel must not walk the list again when the host's thread ends.
        static EMPTY: robust::Head = robust::Head::EMPTY;
        EMPTY.register();
    }
    if clear_child_tid != 0 && user::write(clear_child_tid, 0u32).is_ok() {
        wake(clear_child_tid, 1);
    }
}

/// Wakes up to `count` threads that wait on a futex.
fn wake(address: u64, count: u64) {
    // SAFETY: the kernel checks the address.
    unsafe { syscall(libc::SYS_futex, [address, libc::FUTEX_WAKE as u64, count, 0, 0, 0]) };
}

/// Lets the tool finish, once, before the process ends. A child that borrows its parent's memory leaves the parent's tool alone.
/// Returns whether it was this call that has done so.
pub(crate) fn finish_process(context: &mut Context) -> bool {
    let borrows = !context.thread.is_null() && state(context).borrows_memory.get();
    let finishes = !borrows && !FINISHED.swap(true, Ordering::SeqCst);
    if finishes {
        crate::lockstep::end("");
        crate::tool().process_exit(context);
    }
    finishes
}

/// Takes [`finish_process`] back: the process goes on after all.
pub(crate) fn resume_process(context: &mut Context) {
    crate::tool().process_goes_on(context);
    FINISHED.store(false, Ordering::SeqCst);
}

/// Whether the tool has been told that the process ends.
static FINISHED: AtomicBool = AtomicBool::new(false);

/// Futexes whose owner has died.
mod robust {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::{user, wake};
    use crate::syscall::raw::syscall;

    /// `struct robust_list_head`.
    #[repr(C)]
    pub struct Head {
        /// Points to itself: the list is empty. Null ends it for the kernel just as well, since nothing can be read there.
        next: usize,
        futex_offset: i64,
        pending: usize,
    }

    impl Head {
        pub const EMPTY: Head = Head { next: 0, futex_offset: 0, pending: 0 };

        pub fn register(&'static self) {
            let arguments = [&raw const *self as u64, size_of::<Head>() as u64, 0, 0, 0, 0];
            // SAFETY: the head lives forever.
            unsafe { syscall(libc::SYS_set_robust_list, arguments) };
        }
    }

    /// Most entries that are followed, as in the kernel (`ROBUST_LIST_LIMIT`).
    const LIMIT: usize = 2048;
    const WAITERS: u32 = 0x8000_0000;
    const OWNER_DIED: u32 = 0x4000_0000;
    const TID_MASK: u32 = 0x3fff_ffff;

    /// Marks the futexes in the list whose head is at `head` as abandoned by thread `tid`, and wakes a waiter of each.
    pub fn release(head: u64, tid: u32) {
        let Ok([first, offset, pending]) = user::read::<[u64; 3]>(head) else { return };
        // Bit 0 of a link marks a futex with priority inheritance.
        let mut entry = first & !1;
        for _ in 0..LIMIT {
            if entry == head {
                break;
            }
            let next = user::read::<u64>(entry);
            if entry != pending & !1 {
                abandon(entry.wrapping_add(offset), tid);
            }
            match next {
                Ok(next) => entry = next & !1,
                Err(_) => break,
            }
        }
        if pending != 0 {
            abandon((pending & !1).wrapping_add(offset), tid);
        }
    }

    fn abandon(futex: u64, tid: u32) {
        // This also tells whether it can be accessed.
        if !futex.is_multiple_of(4) || user::read::<u32>(futex).is_err() {
            return;
        }
        // SAFETY: aligned and mapped application memory, which other threads access atomically, too.
        let word = unsafe { AtomicU32::from_ptr(futex as *mut u32) };
        let owned = |value: u32| (value & TID_MASK == tid).then_some(value & WAITERS | OWNER_DIED);
        if let Ok(before) = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, owned)
            && before & WAITERS != 0
        {
            wake(futex, 1);
        }
    }
}
