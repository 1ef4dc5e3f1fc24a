//! The code around an instruction: loads all registers from a [`Machine`], executes it, stores all registers.

use std::mem::offset_of;

use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, Register};

use crate::Machine;

/// Which registers beside the general ones are loaded and stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Registers {
    /// The low 32 bytes of 16 vector registers.
    Vector,
    /// These, and six numbers on the x87 stack.
    X87,
    /// These, and MMX registers.
    Mmx,
    /// 32 whole vector registers and the mask registers. The processor must have AVX-512.
    Wide,
}

impl Registers {
    const ALL: [Registers; 4] = [Registers::Vector, Registers::X87, Registers::Mmx, Registers::Wide];

    /// What an instruction needs.
    pub fn of(instruction: &Instruction) -> Registers {
        let registers = || (0..instruction.op_count()).map(|operand| instruction.op_register(operand));
        let wide = |register: Register| {
            register.is_zmm() || register.is_k() || register.is_vector_register() && register.number() >= 16
        };
        if instruction.code().encoding() == iced_x86::EncodingKind::EVEX || registers().any(wide) {
            Registers::Wide
        } else if registers().any(|register| register.is_mm()) || instruction.mnemonic() == iced_x86::Mnemonic::Emms {
            Registers::Mmx
        } else if instruction.fpu_stack_increment_info().writes_top()
            || instruction.code().op_code().instruction_string().starts_with('F')
        {
            Registers::X87
        } else {
            Registers::Vector
        }
    }
}

/// Numbers on the x87 stack; the other two registers are empty, so that instructions can push.
const X87_DEPTH: usize = 6;

/// Code for a machine at a given address below 2^31. It follows the calling convention of a function without arguments.
#[derive(Clone, Debug)]
pub struct Stage {
    base: u64,
    address: u64,
    code: Vec<u8>,
    entries: [u64; 4],
    exits: [u64; 4],
}

impl Stage {
    /// Code that will lie at `address`, for a machine at `base`.
    ///
    /// # Panics
    /// If one of them is not below 2^31.
    pub fn new(base: u64, address: u64) -> Stage {
        assert!(base < 1 << 31 && address < 1 << 31, "{base:#x}, {address:#x}: not reached by a displacement");
        let mut stage = Stage { base, address, code: Vec::new(), entries: [0; 4], exits: [0; 4] };
        for (position, registers) in Registers::ALL.into_iter().enumerate() {
            stage.entries[position] = stage.append(&stage.prologue(registers));
            stage.exits[position] = stage.append(&stage.epilogue(registers));
        }
        stage
    }

    /// The code.
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// The function to call: executes the code at [`Machine::target`].
    pub fn entry(&self, registers: Registers) -> u64 {
        self.entries[registers as usize]
    }

    /// Where executed code must go on.
    pub fn exit(&self, registers: Registers) -> u64 {
        self.exits[registers as usize]
    }

    /// The code for one instruction, to lie at `address`.
    ///
    /// # Errors
    /// If the instruction cannot be encoded.
    pub fn snippet(&self, instruction: &Instruction, address: u64) -> Result<Vec<u8>, IcedError> {
        let leave = Instruction::with_branch(Code::Jmp_rel32_64, self.exit(Registers::of(instruction)))?;
        encode(&[*instruction, leave], address)
    }

    /// Appends code and returns its address.
    fn append(&mut self, instructions: &[Instruction]) -> u64 {
        let address = self.address + self.code.len() as u64;
        self.code.extend(encode(instructions, address).expect("the stage's own code can be encoded"));
        address
    }

    fn field(&self, offset: usize) -> MemoryOperand {
        let address = (self.base + offset as u64) as i64;
        MemoryOperand::new(Register::None, Register::None, 1, address, 4, false, Register::None)
    }

    /// General registers with their memory.
    fn generals(&self) -> impl Iterator<Item = (Register, MemoryOperand)> {
        (0..16).map(|n| (Register::RAX + n, self.field(offset_of!(Machine, general) + 8 * n as usize)))
    }

    fn x87(&self, number: usize) -> MemoryOperand {
        self.field(offset_of!(Machine, x87) + 16 * number)
    }

    /// Vector registers with their memory.
    fn vectors(&self, first: Register, count: u32) -> impl Iterator<Item = (Register, MemoryOperand)> {
        (0..count).map(move |n| (first + n, self.field(offset_of!(Machine, vector) + 64 * n as usize)))
    }

    fn mmx(&self) -> impl Iterator<Item = (Register, MemoryOperand)> {
        (0..8).map(|n| (Register::MM0 + n, self.field(offset_of!(Machine, mmx) + 8 * n as usize)))
    }

    fn masks(&self) -> impl Iterator<Item = (Register, MemoryOperand)> {
        (0..8).map(|n| (Register::K0 + n, self.field(offset_of!(Machine, masks) + 8 * n as usize)))
    }

    fn prologue(&self, registers: Registers) -> Vec<Instruction> {
        let mut code: Vec<Instruction> = SAVED.iter().map(|&register| on(Code::Push_r64, register)).collect();
        code.push(store(Code::Mov_rm64_r64, self.field(offset_of!(Machine, host_stack)), Register::RSP));
        code.push(at(Code::Ldmxcsr_m32, self.field(offset_of!(Machine, mxcsr))));
        code.push(at(Code::Push_rm64, self.field(offset_of!(Machine, flags))));
        code.push(Instruction::with(Code::Popfq));
        match registers {
            Registers::Vector => {}
            Registers::X87 => {
                code.push(Instruction::with(Code::Fninit));
                code.push(at(Code::Fldcw_m2byte, self.field(offset_of!(Machine, control))));
                code.extend((0..X87_DEPTH).rev().map(|number| at(Code::Fld_m80fp, self.x87(number))));
            }
            Registers::Mmx => {
                code.extend(self.mmx().map(|(register, memory)| load(Code::Movq_mm_mmm64, register, memory)));
            }
            Registers::Wide => {
                code.extend(self.masks().map(|(register, memory)| load(Code::VEX_Kmovq_kr_km64, register, memory)));
            }
        }
        let (first, count, vector) = match registers {
            Registers::Wide => (Register::ZMM0, 32, Code::EVEX_Vmovups_zmm_k1z_zmmm512),
            _ => (Register::YMM0, 16, Code::VEX_Vmovups_ymm_ymmm256),
        };
        code.extend(self.vectors(first, count).map(|(register, memory)| load(vector, register, memory)));
        code.extend(self.generals().map(|(register, memory)| load(Code::Mov_r64_rm64, register, memory)));
        code.push(at(Code::Jmp_rm64, self.field(offset_of!(Machine, target))));
        code
    }

    fn epilogue(&self, registers: Registers) -> Vec<Instruction> {
        let mut code: Vec<Instruction> =
            self.generals().map(|(register, memory)| store(Code::Mov_rm64_r64, memory, register)).collect();
        code.push(load(Code::Mov_r64_rm64, Register::RSP, self.field(offset_of!(Machine, host_stack))));
        code.push(Instruction::with(Code::Pushfq));
        code.push(at(Code::Pop_rm64, self.field(offset_of!(Machine, flags))));
        code.push(at(Code::Stmxcsr_m32, self.field(offset_of!(Machine, mxcsr))));
        code.push(at(Code::Ldmxcsr_m32, self.field(offset_of!(Machine, host_mxcsr))));
        match registers {
            Registers::Vector => {}
            Registers::X87 => {
                code.push(at(Code::Fnstenv_m28byte, self.field(offset_of!(Machine, environment))));
                code.extend((0..8).map(|number| at(Code::Fstp_m80fp, self.x87(number))));
                code.push(Instruction::with(Code::Fninit));
            }
            Registers::Mmx => {
                code.extend(self.mmx().map(|(register, memory)| store(Code::Movq_mmm64_mm, memory, register)));
                code.push(Instruction::with(Code::Emms));
            }
            Registers::Wide => {
                code.extend(self.masks().map(|(register, memory)| store(Code::VEX_Kmovq_m64_kr, memory, register)));
            }
        }
        let (first, count, vector) = match registers {
            Registers::Wide => (Register::ZMM0, 32, Code::EVEX_Vmovups_zmmm512_k1z_zmm),
            _ => (Register::YMM0, 16, Code::VEX_Vmovups_ymmm256_ymm),
        };
        code.extend(self.vectors(first, count).map(|(register, memory)| store(vector, memory, register)));
        code.push(Instruction::with(Code::VEX_Vzeroupper));
        code.push(Instruction::with(Code::Cld));
        code.extend(SAVED.iter().rev().map(|&register| on(Code::Pop_r64, register)));
        code.push(Instruction::with(Code::Retnq));
        code
    }
}

/// Registers that a function must leave alone.
const SAVED: [Register; 6] = [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

/// An instruction on a register.
fn on(code: Code, register: Register) -> Instruction {
    Instruction::with1(code, register).expect("the code takes a register")
}

/// An instruction on memory.
fn at(code: Code, memory: MemoryOperand) -> Instruction {
    Instruction::with1(code, memory).expect("the code takes memory")
}

/// An instruction that reads memory into a register.
fn load(code: Code, register: Register, memory: MemoryOperand) -> Instruction {
    Instruction::with2(code, register, memory).expect("the code takes a register and memory")
}

/// An instruction that writes a register to memory.
fn store(code: Code, memory: MemoryOperand, register: Register) -> Instruction {
    Instruction::with2(code, memory, register).expect("the code takes memory and a register")
}

fn encode(instructions: &[Instruction], address: u64) -> Result<Vec<u8>, IcedError> {
    let mut encoder = Encoder::new(64);
    let mut next = address;
    for instruction in instructions {
        next += encoder.encode(instruction, next)? as u64;
    }
    Ok(encoder.take_buffer())
}
