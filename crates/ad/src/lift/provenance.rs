//! Where the bits of general registers come from, within a basic block.
//!
//! Compilers take numbers apart in general registers and put them together again: by masks, shifts, moves of parts. What each bit is then is known without looking at any value,
//! as long as it happens in one block and by constants.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};

use super::fallback::is_write;
use super::general::is_immediate;

/// A bit of a general register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bit {
    Zero,
    One,
    /// The bit with this number of what some register has been.
    Of(Whole, u8),
    /// It depends on constants and on what some register has been, and on nothing else.
    By(Option<Whole>),
    Unknown,
}

impl Bit {
    /// A bit that depends on two.
    fn by(self, other: Bit) -> Bit {
        match (self.depends_on(), other.depends_on()) {
            (Some(None), Some(whole)) | (Some(whole), Some(None)) => Bit::By(whole),
            (Some(a), Some(b)) if a == b => Bit::By(a),
            _ => Bit::Unknown,
        }
    }

    /// The one thing beside constants that it depends on, if there is one; `None` if there may be several.
    fn depends_on(self) -> Option<Option<Whole>> {
        match self {
            Bit::Zero | Bit::One => Some(None),
            Bit::Of(whole, _) => Some(Some(whole)),
            Bit::By(whole) => Some(whole),
            Bit::Unknown => None,
        }
    }

    /// Whether it depends on nothing but constants and this.
    pub fn is_by(self, whole: Whole) -> bool {
        self.depends_on().is_some_and(|on| on.is_none_or(|on| on == whole))
    }
}

/// The contents of a register at some time, of which the block may use parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    /// Number of the general register.
    pub register: u8,
    /// Position of the instruction behind which it has them; none for those at the beginning of the block.
    pub since: Option<u16>,
}

/// What is known of the 64 bits of a register, or of so many of a part of it; and which instructions have computed it.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    pub bits: [Bit; 64],
    /// Positions of instructions in the block.
    pub steps: Vec<u16>,
}

impl Bits {
    fn constant(value: u64) -> Bits {
        let bits = std::array::from_fn(|bit| if value >> bit & 1 != 0 { Bit::One } else { Bit::Zero });
        Bits { bits, steps: Vec::new() }
    }

    fn whole(whole: Whole) -> Bits {
        Bits { bits: std::array::from_fn(|bit| Bit::Of(whole, bit as u8)), steps: Vec::new() }
    }

    /// The bits, each made of those of two operands at the same place.
    fn with(&self, other: &Bits, function: impl Fn(Bit, Bit) -> Bit) -> Bits {
        let bits = std::array::from_fn(|bit| function(self.bits[bit], other.bits[bit]));
        let mut result = Bits { bits, steps: self.steps.clone() };
        result.add_steps(&other.steps);
        result
    }

    fn add_steps(&mut self, steps: &[u16]) {
        for step in steps {
            if !self.steps.contains(step) {
                self.steps.push(*step);
            }
        }
    }

    /// Each bit is the one that was at another place.
    fn moved(&self, from: impl Fn(usize) -> Option<usize>) -> Bits {
        let bits = std::array::from_fn(|bit| from(bit).map_or(Bit::Zero, |from| self.bits[from]));
        Bits { bits, steps: self.steps.clone() }
    }

    /// Zeros beyond the lowest bits.
    fn lowest(self, count: usize) -> Bits {
        self.moved(|bit| (bit < count).then_some(bit))
    }

    /// From there on each bit depends on all of both operands.
    fn mixed_from(mut self, first: usize, operands: [&Bits; 2]) -> Bits {
        let mixed = operands.into_iter().flat_map(|operand| operand.bits).fold(Bit::By(None), Bit::by);
        self.bits[first.min(64)..].fill(mixed);
        self
    }

    fn and(&self, other: &Bits) -> Bits {
        self.joined(other, Bit::Zero, Bit::One)
    }

    fn or(&self, other: &Bits) -> Bits {
        self.joined(other, Bit::One, Bit::Zero)
    }

    /// By an operation for which one constant decides, and the other one leaves the other operand.
    fn joined(&self, other: &Bits, decides: Bit, leaves: Bit) -> Bits {
        self.with(other, |a, b| {
            if a == decides || b == decides {
                decides
            } else if a == leaves || a == b {
                b
            } else if b == leaves {
                a
            } else {
                a.by(b)
            }
        })
    }

    fn xor(&self, other: &Bits) -> Bits {
        self.with(other, |a, b| match (a, b) {
            (Bit::Zero, bit) | (bit, Bit::Zero) => bit,
            (Bit::One, Bit::One) => Bit::Zero,
            (Bit::Of(..), _) if a == b => Bit::Zero,
            (a, b) => a.by(b),
        })
    }

    fn not(&self) -> Bits {
        self.xor(&Bits::constant(u64::MAX))
    }

    /// A sum is known up to the first place where there can be a carry.
    fn plus(&self, other: &Bits) -> Bits {
        let meet = (0..64).find(|&bit| self.bits[bit] != Bit::Zero && other.bits[bit] != Bit::Zero);
        self.or(other).mixed_from(meet.unwrap_or(64), [self, other])
    }

    /// A difference is known up to the first place where there can be a borrow.
    fn minus(&self, other: &Bits) -> Bits {
        let borrows = (0..64).find(|&bit| other.bits[bit] != Bit::Zero);
        self.or(other).mixed_from(borrows.unwrap_or(64), [self, other])
    }

    fn is_constant(&self) -> bool {
        self.bits.iter().all(|bit| matches!(bit, Bit::Zero | Bit::One))
    }

    /// The lowest byte, if it is a constant.
    fn lowest_byte(&self) -> Option<usize> {
        self.bits[..8].iter().rev().try_fold(0, |value, bit| match bit {
            Bit::Zero => Some(2 * value),
            Bit::One => Some(2 * value + 1),
            _ => None,
        })
    }
}

/// What an instruction makes of the bits of registers.
pub(super) struct Outcome {
    /// What its first operand becomes.
    pub result: Bits,
    /// What that is made of; nothing if the instruction moves.
    pub operands: Vec<Bits>,
}

/// The registers at some place of the block.
pub(super) struct Provenance {
    general: Vec<Bits>,
    /// What general registers have got of vector registers: the low bytes, and how many.
    vectors: Vec<Option<(Whole, usize)>>,
    factory: InstructionInfoFactory,
}

impl Provenance {
    /// At the beginning.
    pub fn new() -> Provenance {
        let general = (0..16).map(|register| Bits::whole(Whole { register, since: None })).collect();
        Provenance { general, vectors: vec![None; 32], factory: InstructionInfoFactory::new() }
    }

    /// Goes over an instruction. `outcome` is what [`Provenance::outcome`] has said of it.
    pub fn step(&mut self, instruction: &Instruction, position: u16, outcome: Option<Outcome>) {
        let target = placed(instruction.op0_register());
        let (Some(outcome), Some((number, low, width))) = (outcome, target) else {
            return self.forget_written(instruction, position);
        };
        let mut value = outcome.result;
        if !outcome.operands.is_empty() {
            value.steps.push(position);
        }
        let before = &mut self.general[number];
        match width {
            32 | 64 => *before = value,
            _ => {
                before.bits[low..low + width].copy_from_slice(&value.bits[..width]);
                before.add_steps(&value.steps);
            }
        }
    }

    /// Registers that an instruction writes have new contents of which nothing is known.
    fn forget_written(&mut self, instruction: &Instruction, position: u16) {
        let used: Vec<_> = self.factory.info(instruction).used_registers().to_vec();
        for used in used {
            if !is_write(used.access()) {
                continue;
            }
            let register = used.register();
            if register.is_vector_register() {
                self.vectors[register.number()] = None;
            } else if let Some((number, low, width)) = placed(register) {
                let contents = Bits::whole(Whole { register: number as u8, since: Some(position) });
                match width {
                    64 => self.general[number] = contents,
                    32 => self.general[number] = contents.lowest(32),
                    _ => self.general[number].bits[low..low + width].fill(Bit::Unknown),
                }
            }
        }
    }

    /// What a register operand or an immediate is, of so many bits.
    fn operand(&self, instruction: &Instruction, operand: u32) -> Option<Bits> {
        if is_immediate(instruction.op_kind(operand)) {
            return Some(Bits::constant(instruction.try_immediate(operand).ok()?));
        }
        if instruction.op_kind(operand) != OpKind::Register {
            return None;
        }
        self.register(instruction.op_register(operand))
    }

    fn register(&self, register: Register) -> Option<Bits> {
        let (number, low, width) = placed(register)?;
        Some(self.general[number].moved(|bit| (bit < width).then_some(bit + low)))
    }

    /// What an instruction makes of the bits of registers, if its first operand is a general register and something is known of it.
    pub fn outcome(&mut self, instruction: &Instruction, position: u16) -> Option<Outcome> {
        if instruction.op0_kind() != OpKind::Register {
            return None;
        }
        let (number, _, width) = placed(instruction.op0_register())?;
        let (result, operands) = if instruction.op1_register().is_xmm() {
            (self.moved_from_vector(instruction, Whole { register: number as u8, since: Some(position) })?, Vec::new())
        } else {
            self.operation(instruction, width)?
        };
        Some(Outcome { result: result.lowest(width), operands })
    }

    /// What an instruction brings from a vector register to a general one.
    fn moved_from_vector(&mut self, instruction: &Instruction, whole: Whole) -> Option<Bits> {
        use Mnemonic::{Movd, Movq, Vmovd, Vmovq};
        if !matches!(instruction.mnemonic(), Movd | Vmovd | Movq | Vmovq) {
            return None;
        }
        let bytes = instruction.op0_register().size();
        let known = &mut self.vectors[instruction.op1_register().number()];
        let (whole, _) = *match known {
            Some(known) if known.1 >= bytes => known,
            _ => known.insert((whole, bytes)),
        };
        Some(Bits::whole(whole))
    }

    /// The result of an instruction of so many bits, and what it is made of.
    fn operation(&self, instruction: &Instruction, width: usize) -> Option<(Bits, Vec<Bits>)> {
        use Mnemonic::*;
        let count = instruction.op_count();
        // In the form with two operands the destination is the first source.
        let (first, second) = if count == 3 { (1, 2) } else { (0, 1) };
        let mnemonic = instruction.mnemonic();
        Some(match mnemonic {
            Mov | Movzx => (self.operand(instruction, 1)?, Vec::new()),
            Xor | Sub if count == 2 && instruction.op0_register() == instruction.op1_register() => {
                (Bits::constant(0), vec![Bits::constant(0)])
            }
            And | Or | Xor | Add | Sub | Andn => {
                let (a, b) = (self.operand(instruction, first)?, self.operand(instruction, second)?);
                let result = match mnemonic {
                    And => a.and(&b),
                    Or => a.or(&b),
                    Xor => a.xor(&b),
                    Add => a.plus(&b),
                    Sub => a.minus(&b),
                    _ => a.not().and(&b),
                };
                (result, vec![a, b])
            }
            Not | Bswap => {
                let a = self.operand(instruction, 0)?;
                let result = match mnemonic {
                    Not => a.not(),
                    _ if width < 32 => return None,
                    _ => a.moved(|bit| (bit < width).then(|| width - 8 - bit / 8 * 8 + bit % 8)),
                };
                (result, vec![a])
            }
            Bts | Btr | Btc => {
                let (a, bit) = (self.operand(instruction, 0)?, self.operand(instruction, 1)?.lowest_byte()?);
                let mask = Bits::constant(1 << (bit % width));
                let result = match mnemonic {
                    Bts => a.or(&mask),
                    Btr => a.and(&mask.not()),
                    _ => a.xor(&mask),
                };
                (result, vec![a])
            }
            Bzhi => {
                let (a, count) = (self.operand(instruction, 1)?, self.operand(instruction, 2)?.lowest_byte()?);
                (a.clone().lowest(count), vec![a])
            }
            Shl | Sal | Shlx | Shr | Shrx | Sar | Sarx | Rol | Ror | Rorx => {
                let a = self.operand(instruction, first)?;
                let by = self.operand(instruction, second)?.lowest_byte()? & if width == 64 { 63 } else { 31 };
                let around = by % width;
                let result = match mnemonic {
                    Shl | Sal | Shlx => a.moved(|bit| bit.checked_sub(by)),
                    Shr | Shrx => a.moved(|bit| (bit + by < width).then_some(bit + by)),
                    Sar | Sarx => a.moved(|bit| Some((bit + by).min(width - 1))),
                    Rol => a.moved(|bit| (bit < width).then(|| (bit + width - around) % width)),
                    _ => a.moved(|bit| (bit < width).then(|| (bit + around) % width)),
                };
                (result, vec![a])
            }
            Lea => {
                let part = |register: Register| match register {
                    Register::None => Some(Bits::constant(0)),
                    _ => self.register(register),
                };
                let base = part(instruction.memory_base())?;
                let index = part(instruction.memory_index())?;
                let scale = instruction.memory_index_scale().trailing_zeros() as usize;
                let distance = Bits::constant(instruction.memory_displacement64());
                let index = index.moved(|bit| bit.checked_sub(scale));
                (base.plus(&index).plus(&distance), vec![base, index, distance])
            }
            _ => return None,
        })
    }
}

impl Outcome {
    /// The registers' earlier contents of which there are bits in the result.
    pub fn wholes(&self) -> Vec<Whole> {
        let mut wholes = Vec::new();
        for bit in self.result.bits {
            if let Bit::Of(whole, _) = bit
                && !wholes.contains(&whole)
            {
                wholes.push(whole);
            }
        }
        wholes
    }

    /// Whether it is made of one thing and constants.
    pub fn is_with_constants(&self) -> bool {
        self.operands.iter().filter(|operand| !operand.is_constant()).count() <= 1
    }
}

/// The number of a general register, and which bits of it a name stands for: the first one and how many.
fn placed(register: Register) -> Option<(usize, usize, usize)> {
    if !register.is_gpr() {
        return None;
    }
    let low = if matches!(register, Register::AH | Register::BH | Register::CH | Register::DH) { 8 } else { 0 };
    Some((register.full_register().number(), low, 8 * register.size()))
}
