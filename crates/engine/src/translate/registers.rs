//! Which general and vector registers occur in code.

use std::cell::RefCell;

use iced_x86::{Instruction, InstructionInfoFactory, Register};

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
