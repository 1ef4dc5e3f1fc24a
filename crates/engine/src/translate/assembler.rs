//! Writing machine code: instructions at their final address, labels, patchable jumps.

use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Register};

/// A position in the code being written, perhaps not yet known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// Condition codes, with their number in the instruction encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Condition {
    Overflow = 0,
    NotOverflow = 1,
    Below = 2,
    AboveOrEqual = 3,
    Equal = 4,
    NotEqual = 5,
    BelowOrEqual = 6,
    Above = 7,
    Sign = 8,
    NotSign = 9,
    Parity = 10,
    NotParity = 11,
    Less = 12,
    GreaterOrEqual = 13,
    LessOrEqual = 14,
    Greater = 15,
}

/// Bytes of machine code that will lie at a known address.
pub struct Assembler {
    base: u64,
    encoder: Encoder,
    code: Vec<u8>,
    labels: Vec<Option<usize>>,
    /// Positions of 32-bit displacements, where they go, and how many bytes behind the position the instruction ends, which they are relative to.
    fixups: Vec<(usize, Label, usize)>,
}

impl Assembler {
    /// An assembler for code at `base`.
    pub fn new(base: u64) -> Assembler {
        Assembler {
            base,
            encoder: Encoder::new(64),
            code: Vec::with_capacity(1024),
            labels: Vec::new(),
            fixups: Vec::new(),
        }
    }

    /// Bytes written so far.
    pub fn position(&self) -> usize {
        self.code.len()
    }

    /// Address of the next byte.
    pub fn address(&self) -> u64 {
        self.base + self.code.len() as u64
    }

    /// Encodes one instruction. An instruction that cannot be encoded is replaced by `ud2` and reported: running on with a wrong
    /// one would be worse.
    pub fn push(&mut self, instruction: &Instruction) {
        let address = self.address();
        self.encoder.set_buffer(std::mem::take(&mut self.code));
        let result = self.encoder.encode(instruction, address);
        self.code = self.encoder.take_buffer();
        if let Err(error) = result {
            crate::report(&format!("internal error: cannot encode `{instruction}`: {error}"));
            self.bytes(&[0x0f, 0x0b]);
        }
    }

    /// Raw bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// A new label without a position.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Gives the label the present position.
    pub fn bind(&mut self, label: Label) {
        debug_assert!(self.labels[label.0].is_none());
        self.labels[label.0] = Some(self.code.len());
    }

    /// `jmp label`
    pub fn jump(&mut self, label: Label) {
        self.code.push(0xe9);
        self.displacement(label);
    }

    /// `jcc label`
    pub fn jump_if(&mut self, condition: Condition, label: Label) {
        self.code.extend([0x0f, 0x80 + condition as u8]);
        self.displacement(label);
    }

    /// `jmp label` whose displacement is aligned, so that it can be changed while other threads run through it. Returns the
    /// address of the displacement.
    pub fn patchable_jump(&mut self, label: Label) -> u64 {
        self.align_after(1);
        self.code.push(0xe9);
        self.displacement(label)
    }

    /// `jcc label`, patchable as [`Assembler::patchable_jump`].
    pub fn patchable_jump_if(&mut self, condition: Condition, label: Label) -> u64 {
        self.align_after(2);
        self.code.extend([0x0f, 0x80 + condition as u8]);
        self.displacement(label)
    }

    /// `jmp gs:[rcx * 8 + displacement]` whose displacement can be changed as that of [`Assembler::patchable_jump`].
    pub fn patchable_table_jump(&mut self, displacement: i32) -> u64 {
        self.align_after(4);
        self.code.extend([0x65, 0xff, 0x24, 0xcd]);
        let at = self.address();
        self.code.extend(displacement.to_le_bytes());
        at
    }

    /// `cmp byte [label], value`
    pub fn compare_byte_at(&mut self, label: Label, value: u8) {
        self.code.extend([0x80, 0x3d]);
        self.fixups.push((self.code.len(), label, 5));
        self.code.extend([0; 4]);
        self.code.push(value);
    }

    /// `jmp` to a fixed address within 2 GiB.
    pub fn jump_to(&mut self, target: u64) {
        self.code.push(0xe9);
        let displacement = target.wrapping_sub(self.address() + 4) as i64;
        debug_assert!(i32::try_from(displacement).is_ok());
        self.code.extend((displacement as i32).to_le_bytes());
    }

    /// A `jrcxz` or another instruction with an 8-bit displacement, given by its opcode bytes. Returns the position of the
    /// displacement for [`Assembler::bind_short`].
    pub fn short_branch(&mut self, opcode: &[u8]) -> usize {
        self.code.extend(opcode);
        self.code.push(0);
        self.code.len() - 1
    }

    /// Lets a short branch go to the present position, which must be less than 128 bytes ahead.
    pub fn bind_short(&mut self, displacement_at: usize) {
        let distance = self.code.len() - displacement_at - 1;
        assert!(distance < 128, "short branch over {distance} bytes");
        self.code[displacement_at] = distance as u8;
    }

    fn align_after(&mut self, opcode_bytes: u64) {
        // One instruction that does nothing, of the length needed.
        const NOTHING: [&[u8]; 4] = [&[], &[0x90], &[0x66, 0x90], &[0x0f, 0x1f, 0x00]];
        let missing = (self.address() + opcode_bytes).wrapping_neg() % 4;
        self.code.extend(NOTHING[missing as usize]);
    }

    fn displacement(&mut self, label: Label) -> u64 {
        let at = self.address();
        self.fixups.push((self.code.len(), label, 4));
        self.code.extend([0; 4]);
        at
    }

    /// Address of a bound label.
    pub fn label_address(&self, label: Label) -> u64 {
        self.base + self.labels[label.0].expect("label is bound") as u64
    }

    /// Resolves the labels and returns the code.
    pub fn finish(mut self) -> Vec<u8> {
        for (at, label, to_end) in self.fixups {
            let target = self.labels[label.0].expect("label is bound");
            let displacement = target as i64 - (at + to_end) as i64;
            self.code[at..at + 4].copy_from_slice(&(displacement as i32).to_le_bytes());
        }
        self.code
    }

    /// `mov register, memory` (64 bits)
    pub fn load(&mut self, register: Register, memory: MemoryOperand) {
        self.push2m(Code::Mov_r64_rm64, register, memory);
    }

    /// `mov memory, register` (64 bits)
    pub fn store(&mut self, memory: MemoryOperand, register: Register) {
        let instruction = Instruction::with2(Code::Mov_rm64_r64, memory, register);
        self.push(&instruction.expect("mov takes memory and register"));
    }

    /// An instruction with a register and a memory operand.
    pub fn push2m(&mut self, code: Code, register: Register, memory: MemoryOperand) {
        let instruction = Instruction::with2(code, register, memory);
        self.push(&instruction.expect("code takes register and memory"));
    }

    /// An instruction with two register operands.
    pub fn push2(&mut self, code: Code, first: Register, second: Register) {
        let instruction = Instruction::with2(code, first, second);
        self.push(&instruction.expect("code takes two registers"));
    }

    /// `mov register, constant`, in the shortest form that leaves the flags alone.
    pub fn constant(&mut self, register: Register, value: u64) {
        let instruction = if let Ok(value) = u32::try_from(value) {
            Instruction::with2(Code::Mov_r32_imm32, crate::translate::registers::general32(register), value)
        } else if let Ok(value) = i32::try_from(value as i64) {
            Instruction::with2(Code::Mov_rm64_imm32, register, value)
        } else {
            Instruction::with2(Code::Mov_r64_imm64, register, value)
        };
        self.push(&instruction.expect("mov takes register and constant"));
    }

    /// `mov qword memory, constant` (sign-extended)
    pub fn store_constant(&mut self, memory: MemoryOperand, value: i32) {
        let instruction = Instruction::with2(Code::Mov_rm64_imm32, memory, value);
        self.push(&instruction.expect("mov takes memory and constant"));
    }

    /// `lea register, memory`
    pub fn lea(&mut self, register: Register, memory: MemoryOperand) {
        self.push2m(Code::Lea_r64_m, register, memory);
    }
}
