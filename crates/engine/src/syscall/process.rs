//! Threads, processes, programs: calls that start and end them.

use std::path::{Path, PathBuf};

use super::children::{self, Command};
use super::clone_request::{self, flag};
use super::raw::{result, syscall};
use super::{Arguments, Outcome, descriptors, limits, seccomp};
use crate::context::{Context, Gpr};
use crate::memory::{self, user};
use crate::procfs;
use crate::signal::mask;
use crate::syscall::vfork;
use crate::thread::{self, Request};

/// `clone`.
pub(super) fn clone(context: &mut Context, [flags, stack, parent_tid, child_tid, tls, _]: Arguments) -> Outcome {
    start(context, Request { flags, stack, tls, parent_tid, child_tid })
}

/// `clone3`: the same with its arguments in a structure.
pub(super) fn clone3(context: &mut Context, [address, size, ..]: Arguments) -> Outcome {
    match clone_request::read(address, size) {
        Ok(request) => start(context, request),
        Err(error) => Outcome::error(error),
    }
}

/// `fork`.
pub(super) fn fork(context: &mut Context, _: Arguments) -> Outcome {
    start(context, Request { flags: libc::SIGCHLD as u64, ..Request::default() })
}

/// `vfork`.
pub(super) fn vfork(context: &mut Context, _: Arguments) -> Outcome {
    let flags = flag(libc::CLONE_VM | libc::CLONE_VFORK) | libc::SIGCHLD as u64;
    start(context, Request { flags, ..Request::default() })
}

/// Starts a thread or a process.
fn start(context: &mut Context, request: Request) -> Outcome {
    let has = |wanted: libc::c_int| request.flags & flag(wanted) != 0;
    if !clone_request::is_possible(request.flags) {
        return Outcome::error(libc::EINVAL);
    }
    if has(libc::CLONE_THREAD) {
        // The child goes on behind the call.
        let (rcx, r11) = (context.reg(Gpr::Rcx), context.reg(Gpr::R11));
        context.set_reg(Gpr::Rcx, context.rip);
        context.set_reg(Gpr::R11, context.rflags);
        crate::lockstep::end("the program starts a thread");
        let outcome = thread::spawn(context, request);
        context.set_reg(Gpr::Rcx, rcx);
        context.set_reg(Gpr::R11, r11);
        return outcome.into();
    }
    if has(libc::CLONE_VM) && has(libc::CLONE_VFORK) {
        crate::lockstep::end("the program starts a process that uses its memory");
        return vfork::start(context, request);
    }
    fork_process(context, request)
}

/// A process of its own. One that would share memory without its parent waiting (CLONE_VM alone) gets a copy of it.
fn fork_process(context: &mut Context, request: Request) -> Outcome {
    let blocked = mask::BlockAll::new();
    let child = {
        let cache = crate::cache::lock();
        let tool = crate::tool().lock_for_fork();
        let hooks = crate::hooks::lock_for_fork();
        let memory = memory::lock_for_fork();
        let mut threads = thread::lock_for_fork();
        let actions = crate::signal::action::table();
        let others = (limits::lock_for_fork(), descriptors::lock_for_fork(), seccomp::lock_for_fork());
        let child = fork_host(request);
        if child == Ok(0) {
            context.tid = thread::current_tid();
            threads.keep_only(context);
        }
        drop((others, actions, threads, memory, hooks, tool, cache));
        child
    };
    if child == Ok(0) {
        enter_child(context, request);
        drop(blocked);
        descriptors::keep_opened_by(|| crate::tool().fork_child(context));
        return Outcome::Value(0);
    }
    drop(blocked);
    if let Ok(id) = child {
        report_child(request, id);
    }
    child.into()
}

/// Forks the host process. Where the application asks for nothing special the host's libc does it, which keeps its allocator usable in the
/// child when other threads were in it.
fn fork_host(request: Request) -> Result<u64, i32> {
    let special = request.flags
        & !flag(
            libc::CLONE_CHILD_SETTID
                | libc::CLONE_CHILD_CLEARTID
                | libc::CLONE_PARENT_SETTID
                | libc::CLONE_SETTLS
                | libc::CLONE_VM
                | libc::CLONE_SIGHAND,
        );
    if special == libc::SIGCHLD as u64 {
        // SAFETY: the locks that the child needs are held by the caller.
        let child = unsafe { libc::fork() };
        return if child < 0 {
            Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN))
        } else {
            Ok(child as u64)
        };
    }
    let pidfd = if special & flag(libc::CLONE_PIDFD) != 0 { request.parent_tid } else { 0 };
    // SAFETY: without CLONE_VM the child has a copy of everything and goes on from here on a copy of this stack.
    result(unsafe { syscall(libc::SYS_clone, [special, 0, pidfd, 0, 0, 0]) })
}

/// Sets a new process's first thread up.
fn enter_child(context: &mut Context, request: Request) {
    let has = |wanted: libc::c_int| request.flags & flag(wanted) != 0;
    crate::lockstep::forget();
    memory::wipe_in_child();
    let state = thread::state(context);
    state.leader.set(true);
    let cleared = if has(libc::CLONE_CHILD_CLEARTID) { request.child_tid } else { 0 };
    state.clear_child_tid.set(cleared);
    state.robust_list.set((0, 0));
    drop(state.signals.take_pending());
    if has(libc::CLONE_CHILD_SETTID) {
        let _ = user::write(request.child_tid, context.tid);
        memory::clear_shadow(request.child_tid, 4);
    }
    if has(libc::CLONE_SETTLS) {
        context.fs_base = request.tls;
    }
    if request.stack != 0 {
        context.set_reg(Gpr::Rsp, request.stack);
    }
}

/// What the parent of a new process sees in its memory.
pub(super) fn report_child(request: Request, id: u64) {
    if request.flags & flag(libc::CLONE_PARENT_SETTID) != 0 {
        let _ = user::write(request.parent_tid, id as u32);
        memory::clear_shadow(request.parent_tid, 4);
    }
}

/// `execve`.
pub(super) fn execve(context: &mut Context, mut arguments: Arguments) -> Outcome {
    let Ok(Some(path)) = user::read_string(arguments[0], libc::PATH_MAX as usize) else {
        return Outcome::Pass(libc::SYS_execve, arguments);
    };
    let own = procfs::program_for_link(path.as_bytes());
    let path = own.unwrap_or(path);
    arguments[0] = path.as_ptr() as u64;
    let file = Path::new(path_str(&path));
    if let Some(command) = Command::instead_of(file, arguments[1]) {
        return replace_program(context, libc::SYS_execve, command.execve(arguments[2]), true);
    }
    replace_program(context, libc::SYS_execve, arguments, crate::loader::can_execute(file))
}

fn path_str(path: &std::ffi::CStr) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(path.to_bytes())
}

/// `execveat`.
pub(super) fn execveat(context: &mut Context, arguments: Arguments) -> Outcome {
    let [directory, path, list, environment, flags, _] = arguments;
    let Ok(Some(path)) = user::read_string(path, libc::PATH_MAX as usize) else {
        return Outcome::Pass(libc::SYS_execveat, arguments);
    };
    let path = Path::new(path_str(&path));
    let full = if path.is_absolute() || directory as i32 == libc::AT_FDCWD {
        path.to_owned()
    } else {
        // With an empty path it is the descriptor itself.
        let base = PathBuf::from(format!("/proc/self/fd/{}", directory as i32));
        if flags & libc::AT_EMPTY_PATH as u64 != 0 && path.as_os_str().is_empty() { base } else { base.join(path) }
    };
    let no_link = flags & libc::AT_SYMLINK_NOFOLLOW as u64 != 0;
    // The descriptor may be closed when the program is loaded.
    let name = if full.starts_with("/proc/self/fd") { children::named(&full) } else { Some(full.clone()) };
    if let Some(command) = name.filter(|_| !no_link).and_then(|name| Command::instead_of(&name, list)) {
        return replace_program(context, libc::SYS_execve, command.execve(environment), true);
    }
    replace_program(context, libc::SYS_execveat, arguments, crate::loader::can_execute(&full))
}

/// For the tool the process ends here, whether the new program runs natively or under another derivgrind. Therefore a call that can only fail is not announced.
fn replace_program(context: &mut Context, number: i64, arguments: Arguments, loadable: bool) -> Outcome {
    if !loadable {
        return super::pass(context, number, arguments);
    }
    let finished = thread::finish_process(context);
    limits::hand_over();
    // The new program inherits the mask, in which even faults may be blocked.
    let before = mask::set_exactly(thread::state(context).signals.mask.get());
    seccomp::hand_over();
    // SAFETY: replaces this process's program, or fails.
    let value = unsafe { syscall(number, arguments) };
    mask::set_exactly(before);
    if finished {
        // Loadable, but for instance with too many arguments.
        thread::resume_process(context);
    }
    Outcome::Value(value)
}

/// `exit`.
pub(super) fn exit(context: &mut Context, arguments: Arguments) -> Outcome {
    let state = thread::state(context);
    if state.borrows_memory.get() {
        // SAFETY: ends a process that shares its memory with its parent and leaves everything in there to it.
        unsafe { syscall(libc::SYS_exit, arguments) };
    }
    state.exit_code.set(arguments[0] as i32);
    Outcome::ThreadExit
}

/// `exit_group`.
pub(super) fn exit_group(context: &mut Context, mut arguments: Arguments) -> Outcome {
    if thread::finish_process(context) {
        arguments[0] = crate::tool().exit_code(arguments[0] as i32) as u64;
    }
    // SAFETY: ends the process.
    Outcome::Value(unsafe { syscall(libc::SYS_exit_group, arguments) })
}

/// `arch_prctl`: the segment bases are the application's, which live in the context.
pub(super) fn arch_prctl(context: &mut Context, [code, value, ..]: Arguments) -> Outcome {
    const SET_GS: u64 = 0x1001;
    const SET_FS: u64 = 0x1002;
    const GET_FS: u64 = 0x1003;
    const GET_GS: u64 = 0x1004;
    /// End of the addresses that user code may have.
    const TASK_SIZE: u64 = 0x7fff_ffff_f000;
    let base = match code {
        SET_FS | SET_GS if value >= TASK_SIZE => return Outcome::error(libc::EPERM),
        SET_FS => {
            context.fs_base = value;
            return Outcome::Value(0);
        }
        SET_GS => {
            context.gs_base = value;
            return Outcome::Value(0);
        }
        GET_FS => context.fs_base,
        GET_GS => context.gs_base,
        // Among them shadow stacks and further register state, which cpuid does not offer either.
        _ => return Outcome::error(libc::EINVAL),
    };
    memory::clear_shadow(value, 8);
    Outcome::from(user::write(value, base).map(|()| 0).map_err(|_| libc::EFAULT))
}

/// `set_tid_address`.
pub(super) fn set_tid_address(context: &mut Context, [address, ..]: Arguments) -> Outcome {
    thread::state(context).clear_child_tid.set(address);
    Outcome::Value(context.tid.into())
}

/// `set_robust_list`: the kernel gets it, too, for the case that the process is killed.
pub(super) fn set_robust_list(context: &mut Context, arguments: Arguments) -> Outcome {
    // SAFETY: the kernel checks the list when it walks it.
    let value = unsafe { syscall(libc::SYS_set_robust_list, arguments) };
    if value == 0 {
        thread::state(context).robust_list.set((arguments[0], arguments[1]));
    }
    Outcome::Value(value)
}

/// `get_robust_list`.
pub(super) fn get_robust_list(context: &mut Context, arguments: Arguments) -> Outcome {
    let [process, head, length, ..] = arguments;
    if process != 0 && process as u32 != context.tid {
        return Outcome::Pass(libc::SYS_get_robust_list, arguments);
    }
    let (list, size) = thread::state(context).robust_list.get();
    for (address, value) in [(head, list), (length, size)] {
        memory::clear_shadow(address, 8);
        if user::write(address, value).is_err() {
            return Outcome::error(libc::EFAULT);
        }
    }
    Outcome::Value(0)
}

/// `ptrace`: who traces this process would see derivgrind's registers.
pub(super) fn ptrace(_: &mut Context, arguments: Arguments) -> Outcome {
    static TOLD: std::sync::Once = std::sync::Once::new();
    if arguments[0] as libc::c_uint == libc::PTRACE_TRACEME {
        TOLD.call_once(|| {
            crate::report(
                "the program wants to be traced by its parent (ptrace), which would see derivgrind's registers instead of the program's; \
                 the call fails with EPERM. Run what traces natively, with derivgrind inside",
            );
        });
        return Outcome::error(libc::EPERM);
    }
    Outcome::Pass(libc::SYS_ptrace, arguments)
}

/// `prctl`.
pub(super) fn prctl(context: &mut Context, arguments: Arguments) -> Outcome {
    /// Options that write to the address in the second argument, and how many bytes.
    const WRITING: &[(libc::c_int, u64)] = &[
        (libc::PR_GET_NAME, 16),
        (libc::PR_GET_PDEATHSIG, 4),
        (libc::PR_GET_TSC, 4),
        (libc::PR_GET_CHILD_SUBREAPER, 4),
    ];
    const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
    let option = arguments[0] as libc::c_int;
    match option {
        // The layout that the kernel knows is derivgrind's.
        libc::PR_SET_MM => return Outcome::error(libc::EPERM),
        // It would catch the engine's own calls.
        PR_SET_SYSCALL_USER_DISPATCH => return Outcome::error(libc::EINVAL),
        libc::PR_SET_SECCOMP => return seccomp::set_by_prctl(arguments),
        libc::PR_GET_SECCOMP => {
            if let Some(mode) = seccomp::mode() {
                return mode;
            }
        }
        libc::PR_GET_TID_ADDRESS => {
            let address = thread::state(context).clear_child_tid.get();
            memory::clear_shadow(arguments[1], 8);
            return Outcome::from(user::write(arguments[1], address).map(|()| 0).map_err(|_| libc::EFAULT));
        }
        _ => {}
    }
    let outcome = super::pass(context, libc::SYS_prctl, arguments);
    if let Some((_, bytes)) = WRITING.iter().find(|(known, _)| *known == option) {
        memory::clear_shadow(arguments[1], *bytes);
    }
    outcome
}
