//! Execution in this process.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iced_x86::Instruction;

use crate::{Machine, Registers, Stage};

/// Memory below 2^31: machine state, code.
pub struct Native {
    base: u64,
    stage: Stage,
    _exclusive: MutexGuard<'static, ()>,
}

const CODE_OFFSET: u64 = 0x1000;
const SNIPPET_OFFSET: u64 = 0x3000;
const BYTES: usize = 0x4000;
static EXCLUSIVE: Mutex<()> = Mutex::new(());

/// Why an instruction has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be encoded with these operands.
    Encoding,
    /// The processor raised an exception.
    Signal(i32),
}

impl Native {
    /// Maps the memory somewhere. Only one `Native` exists at a time.
    ///
    /// # Panics
    /// If there is no memory to be had below 2^31.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Native {
        Native::map(0, libc::MAP_32BIT)
    }

    /// Maps the memory at an address below 2^31, so that pointers are as in another process.
    ///
    /// # Panics
    /// If that memory is not to be had.
    pub fn at(address: u64) -> Native {
        Native::map(address, libc::MAP_FIXED_NOREPLACE)
    }

    fn map(address: u64, flags: i32) -> Native {
        let exclusive = EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: a new mapping that replaces none.
        let base = unsafe {
            libc::mmap(
                address as *mut libc::c_void,
                BYTES,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        let base = base as u64;
        let stage = Stage::new(base, base + CODE_OFFSET);
        assert!(size_of::<Machine>() <= CODE_OFFSET as usize);
        assert!(stage.code().len() <= (SNIPPET_OFFSET - CODE_OFFSET) as usize);
        let native = Native { base, stage, _exclusive: exclusive };
        native.write_code(CODE_OFFSET, native.stage.code());
        native
    }

    /// Address of the data that instructions may access.
    pub fn data(&self) -> u64 {
        self.base
    }

    /// Executes one instruction on a machine.
    ///
    /// # Errors
    /// If it cannot be encoded or raises an exception; the machine is as before.
    pub fn run(&mut self, instruction: &Instruction, machine: &mut Machine) -> Result<(), Refusal> {
        let target = self.base + SNIPPET_OFFSET;
        let registers = Registers::of(instruction);
        let code = self.stage.snippet(instruction, target).map_err(|_| Refusal::Encoding)?;
        machine.target = target;
        self.write_code(SNIPPET_OFFSET, &code);
        // SAFETY: the mapping has room for a machine at its beginning, and nobody else uses it.
        unsafe { std::ptr::copy_nonoverlapping(machine, self.base as *mut Machine, 1) };
        match self.call(registers) {
            0 => {}
            signal => return Err(Refusal::Signal(signal)),
        }
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(self.base as *const Machine, machine, 1) };
        Ok(())
    }

    fn write_code(&self, offset: u64, code: &[u8]) {
        // SAFETY: the mapping is large enough, which `new` asserts for the stage; a snippet has two instructions.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), (self.base + offset) as *mut u8, code.len()) };
    }

    /// Calls the stage; returns the signal that was raised, or 0.
    fn call(&self, registers: Registers) -> i32 {
        static REFUSAL: AtomicI32 = AtomicI32::new(0);
        static EXIT: AtomicU64 = AtomicU64::new(0);
        extern "C" fn handler(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
            REFUSAL.store(signal, Ordering::SeqCst);
            // SAFETY: the kernel passes a ucontext_t.
            let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
            context.uc_mcontext.gregs[libc::REG_RIP as usize] = EXIT.load(Ordering::SeqCst) as i64;
        }
        const SIGNALS: [i32; 5] = [libc::SIGSEGV, libc::SIGILL, libc::SIGFPE, libc::SIGBUS, libc::SIGTRAP];
        let mut stack = vec![0u8; 1 << 16];
        REFUSAL.store(0, Ordering::SeqCst);
        EXIT.store(self.stage.exit(registers), Ordering::SeqCst);
        // SAFETY: handlers and alternate stack are in place for the call only. The stage follows the calling convention, also if the
        // handler sends it to its exit.
        unsafe {
            let alternate = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
            let mut old_stack: libc::stack_t = std::mem::zeroed();
            libc::sigaltstack(&alternate, &mut old_stack);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            let old = SIGNALS.map(|signal| {
                let mut old: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &action, &mut old);
                old
            });
            let code: extern "C" fn() = std::mem::transmute(self.stage.entry(registers));
            code();
            for (signal, old) in SIGNALS.into_iter().zip(old) {
                libc::sigaction(signal, &old, std::ptr::null_mut());
            }
            libc::sigaltstack(&old_stack, std::ptr::null_mut());
        }
        REFUSAL.load(Ordering::SeqCst)
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; nothing points into it any more.
        unsafe { libc::munmap(self.base as *mut libc::c_void, BYTES) };
    }
}
