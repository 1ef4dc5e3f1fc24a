//! Lifting: from decoded amd64 instructions to the AD IR.
//!
//! What an instruction means for shadow data is looked up by its mnemonic in tables: `moves`, `shuffles`, `general`,
//! `arithmetic`, `bits` and `x87` each hold one, with a generic path for each class of entry. An instruction without an entry is treated by
//! `fallback`: everything that it writes becomes passive, and everything that it reads counts as lost if it is active.

mod arithmetic;
mod assembled;
mod assign;
mod avx512;
mod bits;
mod fallback;
mod general;
mod integers;
mod masks;
mod moves;
mod narrow;
mod outline;
mod provenance;
mod shuffles;
mod wrong_rule;
mod x87;

pub(crate) use fallback::is_write;
pub(crate) use shuffles::without_signs;

use std::sync::OnceLock;

use iced_x86::{EncodingKind, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};

use crate::ir::{Address, Effect, Ir, Mask, Operation, Place, Span};
use crate::shadow;

/// What an instruction does to shadow, as far as the generic path for it must know.
pub(crate) enum Class {
    /// Written registers and memory become passive; no derivative is lost (comparisons, conversions to integer, rounding).
    Overwrite,
    /// The same, but derivative information is lost: operands are noted as lost if they are active.
    Lossy,
    /// The first operand receives the low bytes, at most this many, of the second; the rest of the register as its width demands.
    Move(u16),
    /// Elements are rearranged as a table says.
    Shuffle(shuffles::Shuffle),
    /// Bytes are moved, by code of its own.
    Rearrange(fn(&mut Lifter<'_>)),
    /// The instruction is to be repeated with shadow in place of its data operands (bit k: operand k). The first field is for the
    /// legacy, the second for the VEX and EVEX encodings.
    Replay(u8, u8),
    /// A real operation in each lane.
    Real(arithmetic::Real),
    /// A lane-wise rule for the low lane only, with a passive result: this many bytes are cleared.
    ClearLow(u16),
    /// A conversion of integers to real numbers: this many low bytes are one, or all (0).
    FromIntegers(u16),
    /// A fused multiply-add.
    Fused(arithmetic::Fused),
    /// A conversion between formats of real numbers.
    Convert(arithmetic::Conversion),
    /// An integer operation that may be a real operation in disguise.
    Bits(bits::Bits),
    /// An x87 instruction.
    X87(x87::X87),
    /// Anything that needs code of its own.
    Custom(fn(&mut Lifter<'_>)),
}

/// The entry of a mnemonic.
fn class_of(mnemonic: Mnemonic) -> Option<&'static Class> {
    static INDEX: OnceLock<Vec<Option<&'static Class>>> = OnceLock::new();
    let index = INDEX.get_or_init(|| {
        let mut index: Vec<Option<&'static Class>> = Vec::new();
        for (mnemonic, class) in tables() {
            let position = *mnemonic as usize;
            if index.len() <= position {
                index.resize(position + 1, None);
            }
            index[position] = Some(class);
        }
        index
    });
    index.get(mnemonic as usize).copied().flatten()
}

/// All entries.
fn tables() -> impl Iterator<Item = &'static (Mnemonic, Class)> {
    let common =
        [moves::TABLE, shuffles::TABLE, general::TABLE, arithmetic::TABLE, arithmetic::FUSED, bits::TABLE, x87::TABLE];
    common
        .into_iter()
        .chain([integers::TABLE, integers::SYSTEM, avx512::MOVES])
        .chain(avx512::OPERATIONS.iter().copied())
        .flatten()
}

/// All mnemonics that have an entry.
pub fn known_mnemonics() -> impl Iterator<Item = Mnemonic> {
    tables().map(|(mnemonic, _)| *mnemonic)
}

/// Lifts the instructions of a basic block of a program that does not use AVX-512 elsewhere.
pub fn lift(instructions: &[Instruction]) -> Ir {
    lift_for(instructions, shadow::NARROW_VECTOR)
}

/// Lifts the instructions of a basic block of a program whose widest vector registers in use have `vector_bytes` bytes: so far VEX encodings clear
/// them.
pub fn lift_for(instructions: &[Instruction], vector_bytes: u16) -> Ir {
    let mut ir = Ir::default();
    let mut factory = InstructionInfoFactory::new();
    let mut mmx = false;
    for (position, instruction) in instructions.iter().enumerate() {
        let mut lifter = Lifter {
            instruction,
            position: position as u16,
            ir: &mut ir,
            factory: &mut factory,
            vector_bytes,
            mask: masks::WriteMask::of(instruction),
            fetched: None,
            assignment: assign::Assignment::default(),
            temporaries: 0,
            after: false,
            mmx: &mut mmx,
        };
        lifter.lift();
    }
    assembled::apply(instructions, &mut ir);
    wrong_rule::apply(&mut ir);
    ir
}

/// The state of lifting one instruction.
pub(crate) struct Lifter<'a> {
    /// The instruction.
    pub(crate) instruction: &'a Instruction,
    position: u16,
    ir: &'a mut Ir,
    factory: &'a mut InstructionInfoFactory,
    /// Bytes of the widest vector registers in use.
    vector_bytes: u16,
    /// The mask under which the destination is written.
    mask: Option<masks::WriteMask>,
    /// How many bytes of the memory operand are at [`shadow::OPERAND`] instead.
    fetched: Option<u16>,
    assignment: assign::Assignment,
    temporaries: u16,
    /// Whether effects come after the instruction from now on.
    after: bool,
    /// Whether the block has come to an MMX instruction, so that TOP is 0.
    mmx: &'a mut bool,
}

impl Lifter<'_> {
    fn lift(&mut self) {
        if self.instruction.is_string_instruction() {
            general::string(self);
            return;
        }
        x87::enter_mmx(self);
        match self.class() {
            None => fallback::without_entry(self),
            Some(class) => {
                self.apply(class);
                self.finish();
            }
        }
    }

    /// The table entry, if it is meant for this instruction's encoding.
    fn class(&self) -> Option<&'static Class> {
        match self.instruction.code().encoding() {
            EncodingKind::Legacy | EncodingKind::VEX | EncodingKind::EVEX => class_of(self.instruction.mnemonic()),
            _ => None,
        }
    }

    fn apply(&mut self, class: &'static Class) {
        match class {
            Class::Move(_) | Class::Shuffle(_) | Class::Rearrange(_) if self.moves_elements() => {
                shuffles::run_again(self)
            }
            Class::Rearrange(function) => function(self),
            Class::Overwrite => fallback::general_rule(self, false),
            Class::Lossy => fallback::general_rule(self, true),
            Class::Move(bytes) => moves::lift(self, *bytes),
            Class::Shuffle(shuffle) => shuffles::lift(self, shuffle),
            Class::Replay(legacy, vex) => shuffles::replay(self, *legacy, *vex),
            Class::Real(real) => arithmetic::real(self, real),
            Class::ClearLow(bytes) => arithmetic::clear_low(self, *bytes),
            Class::FromIntegers(bytes) => arithmetic::from_integers(self, *bytes),
            Class::Fused(fused) => arithmetic::fused(self, fused),
            Class::Convert(conversion) => arithmetic::convert(self, conversion),
            Class::Bits(bits) => bits::lift(self, bits),
            Class::X87(x87) => x87::lift(self, x87),
            Class::Custom(function) => function(self),
        }
    }

    /// Adds an effect.
    pub(crate) fn push(&mut self, effect: Effect) {
        self.push_under(effect, None);
    }

    /// Adds an effect under a mask. RSP never carries a real number: effects on it are dropped, reads of it are passive.
    pub(crate) fn push_under(&mut self, effect: Effect, mask: Option<Mask>) {
        let stack_pointer = Span::new(Place::Register(shadow::general(Register::RSP.number() as u16)), 8);
        let target = effect.target();
        if target.is_some_and(|target| target.bytes == 0 || target.overlaps(stack_pointer)) {
            return;
        }
        let from_stack_pointer = effect.sources().into_iter().flatten().any(|source| source.overlaps(stack_pointer));
        let effect = match (effect, target) {
            (Effect::Lost { .. }, _) if from_stack_pointer => return,
            (Effect::Copy { .. }, Some(target)) if from_stack_pointer => Effect::Clear { target },
            (effect, _) => effect,
        };
        // What is cleared anyway needs no mask.
        let mask = mask.filter(|mask| !(mask.zeroing && matches!(effect, Effect::Clear { .. })));
        self.ir.operations.push(Operation {
            instruction: self.position,
            after: self.after,
            effect,
            mask,
            of_part: false,
        });
    }

    /// The effects that are added from now on come after the instruction.
    pub(crate) fn after(&mut self) {
        self.after = true;
    }

    /// An MMX instruction comes: whether it is the first one since the block's beginning or an x87 instruction.
    pub(crate) fn begins_mmx(&mut self) -> bool {
        !std::mem::replace(self.mmx, true)
    }

    /// An x87 instruction comes.
    pub(crate) fn leave_mmx(&mut self) {
        *self.mmx = false;
    }

    /// Makes a span passive.
    pub(crate) fn clear(&mut self, target: Span) {
        self.push(Effect::Clear { target });
    }

    /// Whether writes of vector registers clear the rest of the register.
    pub(crate) fn is_vex(&self) -> bool {
        matches!(self.instruction.code().encoding(), EncodingKind::VEX | EncodingKind::EVEX)
    }

    /// Bytes of the vector registers that the instruction writes.
    pub(crate) fn vector_bytes(&self) -> u16 {
        if self.instruction.code().encoding() == EncodingKind::EVEX { shadow::VECTOR_BYTES } else { self.vector_bytes }
    }

    /// Number of operands that are registers or memory.
    pub(crate) fn data_operands(&self) -> u32 {
        (0..self.instruction.op_count()).filter(|&operand| self.operand(operand).is_some()).count() as u32
    }

    /// The immediate of the last operand, or 0 if that is none.
    pub(crate) fn immediate(&self) -> u64 {
        let last = self.instruction.op_count().saturating_sub(1);
        self.instruction.try_immediate(last).unwrap_or(0)
    }

    /// The span of a register or explicit memory operand; `None` for immediates and registers that cannot carry reals.
    pub(crate) fn operand(&self, operand: u32) -> Option<Span> {
        match self.instruction.op_kind(operand) {
            OpKind::Register => self.register(self.instruction.op_register(operand)),
            OpKind::Memory if self.fetched.is_some() => {
                self.fetched.map(|bytes| Span::new(Place::Register(shadow::OPERAND), bytes))
            }
            OpKind::Memory => {
                let bytes = self.instruction.memory_size().size() as u16;
                Some(Span::new(Place::Memory { base: Address::Operand, offset: 0 }, bytes))
            }
            _ => None,
        }
    }

    /// The span of a register.
    pub(crate) fn register(&self, register: Register) -> Option<Span> {
        shadow::of_register(register).map(|range| Span::new(Place::Register(range.offset), range.bytes))
    }

    /// First and second source and the destination in two- and three-operand forms alike: in the two-operand form the destination is
    /// the first source. `None` if an operand is not a register or memory.
    pub(crate) fn destination_and_sources(&self) -> Option<(Span, Span, Span)> {
        let destination = self.operand(0)?;
        if self.data_operands() >= 3 {
            Some((destination, self.operand(1)?, self.operand(2)?))
        } else {
            Some((destination, destination, self.operand(1)?))
        }
    }

    /// A temporary of so many bytes that no other operation of this instruction uses.
    pub(crate) fn temporary(&mut self, bytes: u16) -> Place {
        let place = Place::Register(shadow::TEMPORARY + self.temporaries);
        self.temporaries += bytes;
        debug_assert!(self.temporaries <= shadow::TEMPORARY_BYTES, "{:?}", self.instruction.code());
        place
    }

    /// Where the bytes that a write of the first `written` bytes of a register clears in addition end, as a number of bytes: a 32-bit
    /// write of a general register clears its upper half, a VEX-encoded one of a vector register everything above.
    pub(crate) fn cleared_until(&self, operand: u32, written: u16) -> u16 {
        if self.instruction.op_kind(operand) != OpKind::Register {
            return written;
        }
        let register = self.instruction.op_register(operand);
        let until = if register.is_gpr32() {
            8
        } else if register.is_vector_register() && self.is_vex() {
            self.vector_bytes()
        } else {
            register.size() as u16
        };
        until.max(written)
    }
}
