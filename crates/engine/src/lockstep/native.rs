//! The native process: the program as the processor runs it, under `ptrace`.

use std::arch::global_asm;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use super::registers::Registers;
use super::vectors::Vectors;

/// Room for the kernel's XSAVE image, AMX tiles included.
const MOST_IMAGE_BYTES: usize = 16 << 10;
const NT_X86_XSTATE: libc::c_int = 0x202;
const INT3: u8 = 0xcc;
/// Continue, but stop at a system call instead of making it; the same for one instruction.
const PTRACE_SYSEMU: libc::c_uint = 31;
const PTRACE_SYSEMU_SINGLESTEP: libc::c_uint = 32;
/// As in `ORIG_RAX`: the process is not in a system call that would have to be restarted.
const NO_CALL: u64 = u64::MAX;

/// Why the native process has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Where it was told to, or at a system call.
    There,
    /// The processor has raised a signal.
    Signal(i32),
}

/// A stopped native process. It is killed when this is dropped.
pub(super) struct Native {
    process: libc::pid_t,
    memory: File,
    /// Size of the kernel's XSAVE image.
    image_bytes: usize,
}

unsafe extern "C" {
    /// A system call instruction.
    static derivgrind_lockstep_syscall: u8;
}

global_asm!(
    ".globl derivgrind_lockstep_syscall",
    ".hidden derivgrind_lockstep_syscall",
    "derivgrind_lockstep_syscall:",
    "syscall",
    "ud2",
);

impl Native {
    /// Makes the native process: a copy of this one, which has loaded the program, stopped before its first instruction.
    pub(super) fn start() -> io::Result<Native> {
        // SAFETY: the child makes system calls only, until it is traced and its registers are set anew.
        let process = unsafe { libc::fork() };
        match process {
            -1 => return Err(io::Error::last_os_error()),
            0 => be_traced(),
            _ => {}
        }
        // The file is opened by the kernel's rules for tracers.
        let memory = File::options().read(true).write(true).open(format!("/proc/{process}/mem"));
        // From here on, dropping it ends the process; before, its end is bound to ours.
        let mut native = Native { process, memory: memory?, image_bytes: MOST_IMAGE_BYTES };
        native.wait()?;
        native.image_bytes = native.image()?.len();
        let options = libc::PTRACE_O_EXITKILL as usize;
        native.ptrace(libc::PTRACE_SETOPTIONS, 0, options)?;
        Ok(native)
    }

    fn ptrace(&self, request: libc::c_uint, address: usize, data: usize) -> io::Result<()> {
        // SAFETY: what the requests used here write to, this process or the traced one, is as they need it.
        match unsafe { libc::ptrace(request, self.process, address, data) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    fn wait(&self) -> io::Result<Stop> {
        let mut status = 0;
        // SAFETY: `status` is ours.
        while unsafe { libc::waitpid(self.process, &mut status, libc::__WALL) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        if !libc::WIFSTOPPED(status) {
            return Err(io::Error::other("it has ended; is ptrace permitted here?"));
        }
        match libc::WSTOPSIG(status) {
            libc::SIGTRAP | libc::SIGSTOP => Ok(Stop::There),
            signal => Ok(Stop::Signal(signal)),
        }
    }

    fn user_registers(&self) -> io::Result<libc::user_regs_struct> {
        // SAFETY: all-zero bytes are a valid `user_regs_struct`, which the kernel fills.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        self.ptrace(libc::PTRACE_GETREGS, 0, &raw mut registers as usize)?;
        Ok(registers)
    }

    fn set_user_registers(&self, registers: &libc::user_regs_struct) -> io::Result<()> {
        self.ptrace(libc::PTRACE_SETREGS, 0, &raw const *registers as usize)
    }

    /// The kernel's XSAVE image.
    fn image(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.image_bytes];
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        self.ptrace(libc::PTRACE_GETREGSET, NT_X86_XSTATE as usize, &raw mut part as usize)?;
        bytes.truncate(part.iov_len);
        Ok(bytes)
    }

    /// All registers.
    pub(super) fn registers(&self) -> io::Result<Registers> {
        let user = self.user_registers()?;
        let general = general(&user).map(|register| *register);
        let vectors = Vectors::normalised(&self.image()?);
        Ok(Registers {
            general,
            rip: user.rip,
            rflags: user.eflags,
            fs_base: user.fs_base,
            gs_base: user.gs_base,
            vectors,
        })
    }

    /// Sets all registers.
    pub(super) fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        let mut user = self.user_registers()?;
        for (target, value) in general_mut(&mut user).into_iter().zip(registers.general) {
            *target = value;
        }
        user.rip = registers.rip;
        user.eflags = registers.rflags;
        user.fs_base = registers.fs_base;
        user.gs_base = registers.gs_base;
        user.orig_rax = NO_CALL;
        self.set_user_registers(&user)?;
        let mut image = self.image()?;
        registers.vectors.put_into(&mut image);
        let mut part = libc::iovec { iov_base: image.as_mut_ptr().cast(), iov_len: image.len() };
        self.ptrace(libc::PTRACE_SETREGSET, NT_X86_XSTATE as usize, &raw mut part as usize)
    }

    /// Instruction pointer and RCX.
    pub(super) fn position(&self) -> io::Result<(u64, u64)> {
        self.user_registers().map(|user| (user.rip, user.rcx))
    }

    /// Reads memory, as far as it is mapped; returns how many bytes that is.
    pub(super) fn read(&self, address: u64, into: &mut [u8]) -> usize {
        self.memory.read_at(into, address).unwrap_or(0)
    }

    /// Writes memory, whatever its protection.
    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_all_at(bytes, address)
    }

    /// Executes one instruction, or one iteration of a repeated string instruction.
    pub(super) fn step(&self) -> io::Result<Stop> {
        self.ptrace(PTRACE_SYSEMU_SINGLESTEP, 0, 0)?;
        self.wait()
    }

    /// Runs until one of `places` is about to be executed. `None` if there is no memory at one of them: then nothing has been done.
    pub(super) fn run_to(&self, places: &[u64]) -> io::Result<Option<Stop>> {
        let mut replaced = Vec::with_capacity(places.len());
        for &place in places {
            let mut byte = [0];
            if self.read(place, &mut byte) == 0 || self.write(place, &[INT3]).is_err() {
                self.put_back(&replaced)?;
                return Ok(None);
            }
            replaced.push((place, byte));
        }
        self.ptrace(PTRACE_SYSEMU, 0, 0)?;
        let stop = self.wait()?;
        self.put_back(&replaced)?;
        let hit = self.user_registers()?.rip.wrapping_sub(1);
        if stop == Stop::There && places.contains(&hit) {
            self.ptrace(libc::PTRACE_POKEUSER, offset_of!(libc::user_regs_struct, rip), hit as usize)?;
        }
        Ok(Some(stop))
    }

    fn put_back(&self, replaced: &[(u64, [u8; 1])]) -> io::Result<()> {
        replaced.iter().rev().try_for_each(|(place, byte)| self.write(*place, byte))
    }

    /// Makes a system call in the native process, which then stands where it stood.
    pub(super) fn call(&self, number: i64, arguments: [u64; 6]) -> io::Result<u64> {
        let before = self.user_registers()?;
        let mut user = before;
        user.rip = &raw const derivgrind_lockstep_syscall as u64;
        user.rax = number as u64;
        [user.rdi, user.rsi, user.rdx, user.r10, user.r8, user.r9] = arguments;
        user.orig_rax = NO_CALL;
        self.set_user_registers(&user)?;
        self.ptrace(libc::PTRACE_SINGLESTEP, 0, 0)?;
        self.wait()?;
        let value = self.user_registers()?.rax as i64;
        self.set_user_registers(&libc::user_regs_struct { orig_rax: NO_CALL, ..before })?;
        crate::syscall::raw::result(value).map_err(io::Error::from_raw_os_error)
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: ends and reaps a process of ours.
        unsafe {
            libc::kill(self.process, libc::SIGKILL);
            libc::waitpid(self.process, std::ptr::null_mut(), libc::__WALL);
        }
    }
}

/// The general registers by hardware number.
macro_rules! by_number {
    ($user:expr, $($reference:tt)+) => {
        [
            $($reference)+ $user.rax, $($reference)+ $user.rcx, $($reference)+ $user.rdx, $($reference)+ $user.rbx,
            $($reference)+ $user.rsp, $($reference)+ $user.rbp, $($reference)+ $user.rsi, $($reference)+ $user.rdi,
            $($reference)+ $user.r8, $($reference)+ $user.r9, $($reference)+ $user.r10, $($reference)+ $user.r11,
            $($reference)+ $user.r12, $($reference)+ $user.r13, $($reference)+ $user.r14, $($reference)+ $user.r15,
        ]
    };
}

fn general(user: &libc::user_regs_struct) -> [&u64; 16] {
    by_number!(user, &)
}

fn general_mut(user: &mut libc::user_regs_struct) -> [&mut u64; 16] {
    by_number!(user, &mut)
}

/// In the native process: keeps nothing open, and waits for its tracer.
fn be_traced() -> ! {
    // SAFETY: system calls without effect on memory; the process never comes back from the last one as what it is now.
    unsafe {
        super::close_all_except(&[]);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == 0 {
            libc::kill(libc::getpid(), libc::SIGSTOP);
        }
        libc::_exit(crate::EXIT_ENGINE)
    }
}
