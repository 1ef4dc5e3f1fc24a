//! Which general and vector registers occur in code.

use std::arch::x86_64::__cpuid;
use std::cell::RefCell;
use std::sync::OnceLock;

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, Register};

use super::block::Scratch;

/// Sets of general and vector registers, by hardware number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterSet {
    /// Bit n: general register n.
    pub general: u16,
    /// Bit n: vector register n.
    pub vector: u32,
}

/// Vector registers that can serve as scratch: those that every encoding reaches.
const SCRATCH_VECTORS: u32 = 0xffff;
/// RSP is never a scratch register.
const SCRATCH_GENERAL: u16 = !(1 << 4);

thread_local! {
    static INFO: RefCell<InstructionInfoFactory> = RefCell::new(InstructionInfoFactory::new());
}

impl RegisterSet {
    /// The registers that `instruction` reads or writes, explicitly or not.
    pub fn of(instruction: &Instruction) -> RegisterSet {
        RegisterSet::default().with(instruction)
    }

    /// This set and the registers of `instruction`.
    pub fn with(self, instruction: &Instruction) -> RegisterSet {
        INFO.with_borrow_mut(|factory| {
            factory.info(instruction).used_registers().iter().fold(self, |set, used| set.and(used.register()))
        })
    }

    /// This set and one more register.
    pub fn and(mut self, register: Register) -> RegisterSet {
        if let Some(number) = general_number(register) {
            self.general |= 1 << number;
        } else if let Some(number) = vector_number(register) {
            self.vector |= 1 << number;
        }
        self
    }

    /// Whether enough registers remain outside the set.
    pub fn leaves(self, scratch: Scratch) -> bool {
        self.free_general().count() >= scratch.general && self.free_vector().count() >= scratch.vector
    }

    /// General registers outside the set that can be scratch registers, by hardware number.
    pub fn free_general(self) -> impl Iterator<Item = usize> {
        let free = !self.general & SCRATCH_GENERAL;
        // Those that need no REX prefix for byte operations come last in use, r8..r15 first: shorter application code keeps the
        // low registers busy anyway.
        (0..16).rev().filter(move |n| free & (1 << n) != 0)
    }

    /// Vector registers outside the set that can be scratch registers, by hardware number.
    pub fn free_vector(self) -> impl Iterator<Item = usize> {
        let free = !self.vector & SCRATCH_VECTORS;
        (0..16).rev().filter(move |n| free & (1 << n) != 0)
    }
}

/// Whether the processor has AVX, enabled by the operating system.
pub fn has_avx() -> bool {
    super::trampolines::vector_width() != super::trampolines::VectorWidth::Xmm
}

/// Whether the application uses AVX-512: then vector registers have 64 bytes, and there are 32 of them.
pub fn has_avx512() -> bool {
    super::trampolines::vector_width() == super::trampolines::VectorWidth::Zmm
}

/// Whether an instruction can leave something in the upper halves of the first 16 vector registers.
pub(super) fn reaches_upper_halves(instruction: &Instruction) -> bool {
    let wide = |register: Register| register.is_ymm() || register.is_zmm();
    let restores = matches!(
        instruction.mnemonic(),
        Mnemonic::Xrstor | Mnemonic::Xrstor64 | Mnemonic::Xrstors | Mnemonic::Xrstors64
    );
    restores || (0..instruction.op_count()).any(|operand| wide(instruction.op_register(operand)))
}

/// Whether legacy SSE instructions are as fast as ever while the upper half of a YMM register is in use. On AMD's processors they are (an EPYC of
/// the Zen 4 generation ran a solver in forward mode as fast in this state); on others each change between them and VEX instructions can take more than a hundred cycles.
pub fn mixes_with_wide_vectors() -> bool {
    static CHEAP: OnceLock<bool> = OnceLock::new();
    *CHEAP.get_or_init(|| {
        // SAFETY: cpuid is available on every amd64 processor.
        #[allow(unused_unsafe)]
        let leaf = unsafe { __cpuid(0) };
        let vendor = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes).concat();
        matches!(&vendor[..], b"AuthenticAMD" | b"HygonGenuine")
    })
}

/// Hardware number of the general register that `register` is a part of.
pub fn general_number(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register().number())
}

/// Hardware number of the vector register that `register` is a part of.
pub fn vector_number(register: Register) -> Option<usize> {
    register.is_vector_register().then(|| register.number())
}

/// The 64-bit general register with this hardware number.
pub fn general(number: usize) -> Register {
    Register::RAX + number as u32
}

/// The XMM register with this hardware number.
pub fn xmm(number: usize) -> Register {
    Register::XMM0 + number as u32
}

/// The YMM register with this hardware number.
pub fn ymm(number: usize) -> Register {
    Register::YMM0 + number as u32
}

/// The ZMM register with this hardware number.
pub fn zmm(number: usize) -> Register {
    Register::ZMM0 + number as u32
}

/// The 32-bit form of a 64-bit general register.
pub fn general32(register: Register) -> Register {
    Register::EAX + register.number() as u32
}
