//! Execution of single machine instructions on the host processor, with all register contents given and observed.
//!
//! Tests use it to compare what the lifter says about an instruction with what the processor does. Not every instruction that can be
//! encoded can be executed: a signal is caught and reported.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Register};

/// Bytes of the memory that instructions may access.
pub const DATA_BYTES: usize = 4096;
/// Bytes of a vector register that are observed.
pub const VECTOR_BYTES: usize = 32;

/// What an instruction can read and write.
#[repr(C, align(64))]
#[derive(Clone, PartialEq, Eq)]
pub struct Machine {
    /// Memory, at [`Native::data`].
    pub data: [u8; DATA_BYTES],
    /// General registers by hardware number.
    pub general: [u64; 16],
    /// Vector registers.
    pub vector: [[u8; VECTOR_BYTES]; 16],
    /// Flags.
    pub flags: u64,
    host_stack: u64,
}

impl Machine {
    /// All zero.
    pub fn zeroed() -> Machine {
        Machine { data: [0; DATA_BYTES], general: [0; 16], vector: [[0; VECTOR_BYTES]; 16], flags: 2, host_stack: 0 }
    }
}

/// Memory below 2^31: machine state, code.
pub struct Native {
    base: u64,
    epilogue: u64,
    _exclusive: MutexGuard<'static, ()>,
}

const CODE_OFFSET: u64 = 0x2000;
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
    /// Maps the memory. Only one `Native` exists at a time.
    pub fn new() -> Native {
        let exclusive = EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BYTES,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        assert!(size_of::<Machine>() <= CODE_OFFSET as usize);
        Native { base: base as u64, epilogue: 0, _exclusive: exclusive }
    }

    /// Address of the data that instructions may access.
    pub fn data(&self) -> u64 {
        self.base
    }

    /// Executes one instruction on a machine.
    pub fn run(&mut self, instruction: &Instruction, machine: &mut Machine) -> Result<(), Refusal> {
        let code = self.assemble(instruction).map_err(|_| Refusal::Encoding)?;
        // SAFETY: the mapping is large enough for both, and nobody else uses it.
        unsafe {
            std::ptr::copy_nonoverlapping(machine, self.base as *mut Machine, 1);
            std::ptr::copy_nonoverlapping(code.as_ptr(), (self.base + CODE_OFFSET) as *mut u8, code.len());
        }
        match self.call() {
            0 => {}
            signal => return Err(Refusal::Signal(signal)),
        }
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(self.base as *const Machine, machine, 1) };
        Ok(())
    }

    /// Calls the assembled code; returns the signal that it raised, or 0.
    fn call(&self) -> i32 {
        static REFUSAL: AtomicI32 = AtomicI32::new(0);
        static EPILOGUE: AtomicU64 = AtomicU64::new(0);
        extern "C" fn handler(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
            REFUSAL.store(signal, Ordering::SeqCst);
            // SAFETY: the kernel passes a ucontext_t.
            let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
            context.uc_mcontext.gregs[libc::REG_RIP as usize] = EPILOGUE.load(Ordering::SeqCst) as i64;
        }
        const SIGNALS: [i32; 5] = [libc::SIGSEGV, libc::SIGILL, libc::SIGFPE, libc::SIGBUS, libc::SIGTRAP];
        let mut stack = vec![0u8; 1 << 16];
        REFUSAL.store(0, Ordering::SeqCst);
        EPILOGUE.store(self.epilogue, Ordering::SeqCst);
        // SAFETY: handlers and alternate stack are in place for the call only. The assembled code follows the calling convention,
        // also if the handler sends it to its epilogue.
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
            let code: extern "C" fn() = std::mem::transmute(self.base + CODE_OFFSET);
            code();
            for (signal, old) in SIGNALS.into_iter().zip(old) {
                libc::sigaction(signal, &old, std::ptr::null_mut());
            }
            libc::sigaltstack(&old_stack, std::ptr::null_mut());
        }
        REFUSAL.load(Ordering::SeqCst)
    }

    fn field(&self, offset: usize) -> MemoryOperand {
        MemoryOperand::new(
            Register::None,
            Register::None,
            1,
            (self.base + offset as u64) as i64,
            4,
            false,
            Register::None,
        )
    }

    /// A function that loads the machine's registers, executes the instruction, and stores them.
    fn assemble(&mut self, instruction: &Instruction) -> Result<Vec<u8>, iced_x86::IcedError> {
        const SAVED: [Register; 6] =
            [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];
        let general = |number: u32| self.field(std::mem::offset_of!(Machine, general) + 8 * number as usize);
        let vector = |number: u32| self.field(std::mem::offset_of!(Machine, vector) + VECTOR_BYTES * number as usize);
        let flags = self.field(std::mem::offset_of!(Machine, flags));
        let host_stack = self.field(std::mem::offset_of!(Machine, host_stack));
        let registers = |first: Register| (0..16).map(move |number| (number, first + number));

        let mut code = Vec::new();
        for register in SAVED {
            code.push(Instruction::with1(Code::Push_r64, register)?);
        }
        code.push(Instruction::with2(Code::Mov_rm64_r64, host_stack, Register::RSP)?);
        code.push(Instruction::with1(Code::Push_rm64, flags)?);
        code.push(Instruction::with(Code::Popfq));
        for (number, register) in registers(Register::YMM0) {
            code.push(Instruction::with2(Code::VEX_Vmovups_ymm_ymmm256, register, vector(number))?);
        }
        for (number, register) in registers(Register::RAX) {
            code.push(Instruction::with2(Code::Mov_r64_rm64, register, general(number))?);
        }
        code.push(*instruction);
        let epilogue = code.len();
        for (number, register) in registers(Register::RAX) {
            code.push(Instruction::with2(Code::Mov_rm64_r64, general(number), register)?);
        }
        code.push(Instruction::with2(Code::Mov_r64_rm64, Register::RSP, host_stack)?);
        code.push(Instruction::with(Code::Pushfq));
        code.push(Instruction::with1(Code::Pop_rm64, flags)?);
        for (number, register) in registers(Register::YMM0) {
            code.push(Instruction::with2(Code::VEX_Vmovups_ymmm256_ymm, vector(number), register)?);
        }
        code.push(Instruction::with(Code::VEX_Vzeroupper));
        code.push(Instruction::with(Code::Cld));
        for register in SAVED.into_iter().rev() {
            code.push(Instruction::with1(Code::Pop_r64, register)?);
        }
        code.push(Instruction::with(Code::Retnq));
        let mut encoder = Encoder::new(64);
        let mut address = self.base + CODE_OFFSET;
        for (position, instruction) in code.iter().enumerate() {
            if position == epilogue {
                self.epilogue = address;
            }
            address += encoder.encode(instruction, address)? as u64;
        }
        Ok(encoder.take_buffer())
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; nothing points into it any more.
        unsafe { libc::munmap(self.base as *mut libc::c_void, BYTES) };
    }
}

/// A small deterministic random number generator (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Fills bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.next() as u8;
        }
    }
}
