//! Operations of values beside dot values: they contribute nothing where the dot value is zero.
//!
//! In registers that only AVX-512 has, the lanes with dot values other than zero are a mask, under which the operation happens. Elsewhere the operand is masked before, or
//! the result afterwards.

use std::mem::offset_of;

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use crate::ir::{Format, Place};

use super::codes::{Encoding, Op, Source, Width};
use super::constants::{Constants, constant};
use super::vector::{MASK, Scratch, Vector, instruction};

impl Vector<'_, '_> {
    /// `target = value * dot` where dot is not zero, else zero; the value is that of the lanes from `place` on. `spare` has nothing afterwards.
    pub fn multiply_value(&mut self, target: Scratch, place: Place, dot: Scratch, spare: Scratch) {
        let dot_value = self.source(dot);
        match (self.encoding(), self.extent()) {
            (Encoding::Evex, _) => {
                let value = self.operand_value(place, spare);
                self.mask_of_nonzero(dot);
                self.masked(Op::Mul, target, dot_value, value);
                self.release(spare);
                return;
            }
            (_, Width::Zmm) => {
                let value = self.repeated_value(place, target);
                debug_assert!(matches!(value, Source::Register(_)));
                self.zero_where_zero(target, dot_value);
            }
            _ => {
                self.op(Op::Differs, target, dot_value, self.zeros());
                let value = self.repeated_value(place, spare);
                self.update(Op::And, target, value);
                self.release(spare);
            }
        }
        self.update(Op::Mul, target, dot_value);
    }

    /// `target = target * dot` where dot is not zero, else zero. `spare` has nothing afterwards.
    pub fn multiply(&mut self, target: Scratch, dot: Scratch, spare: Scratch) {
        let dot_value = self.source(dot);
        match (self.encoding(), self.extent()) {
            (Encoding::Evex, _) => {
                self.mask_of_nonzero(dot);
                let factor = self.source(target);
                self.masked(Op::Mul, target, factor, dot_value);
                return;
            }
            (_, Width::Zmm) => self.zero_where_zero(target, dot_value),
            _ => {
                self.op(Op::Differs, spare, dot_value, self.zeros());
                let mask = self.source(spare);
                self.update(Op::And, target, mask);
                self.release(spare);
            }
        }
        self.update(Op::Mul, target, dot_value);
    }

    /// Divides a dot value by denominators, each made ready in a scratch register; zero stays zero. `spare` has nothing afterwards.
    ///
    /// No lane in which the dot value is zero is divided: `0 / 0` would raise an exception that the program does not know of (`sqrt(0)`). Without masks the denominator is a quiet
    /// NaN there, and the quotient is cleared afterwards.
    pub fn divide(&mut self, dot: Scratch, spare: Scratch, denominators: &[(Scratch, Source)]) {
        if self.encoding() == Encoding::Evex {
            self.mask_of_nonzero(dot);
            for &(_, denominator) in denominators {
                let numerator = self.source(dot);
                self.masked(Op::Div, dot, numerator, denominator);
            }
            return;
        }
        self.all_ones_where_zero(spare, dot);
        for &(scratch, denominator) in denominators {
            let zeros = self.source(spare);
            self.op(Op::Or, scratch, denominator, zeros);
            let denominator = self.source(scratch);
            self.update(Op::Div, dot, denominator);
        }
        // `!mask & dot`
        let quotient = self.source(dot);
        self.update(Op::AndNot, spare, quotient);
        let masked = self.source(spare);
        self.op(Op::Or, dot, masked, masked);
        self.release(spare);
    }

    /// The mask of the lanes in which dot values are not zero.
    fn mask_of_nonzero(&mut self, dot: Scratch) {
        let dot = self.source(dot);
        let (codes, predicate) = Op::Differs.codes();
        self.push(self.code(codes), &[Source::Register(MASK), dot, self.zeros()], predicate);
    }

    /// `target = a op b` under the mask, zero elsewhere.
    fn masked(&mut self, op: Op, target: Scratch, a: Source, b: Source) {
        let target = self.own(target);
        let mut instruction = instruction(self.code(op.codes().0), &[Source::Register(target), a, b], None);
        instruction.set_op_mask(MASK);
        instruction.set_zeroing_masking(true);
        self.emitter().asm().push(&instruction);
    }

    /// `target = all ones where of is zero`
    fn all_ones_where_zero(&mut self, target: Scratch, of: Scratch) {
        let of = self.source(of);
        if self.extent() != Width::Zmm {
            self.op(Op::Equals, target, of, self.zeros());
            return;
        }
        let mask = self.own(target);
        self.ternary(mask, ALL_ONES);
        self.zero_where_zero(target, of);
        self.ternary(mask, NOT);
    }

    /// Makes those lanes of 64 bytes zero where others are: comparisons of so many leave their results in mask registers, which belong to the program.
    fn zero_where_zero(&mut self, target: Scratch, others: Source) {
        let Source::Register(others) = others else { return };
        let register = self.own(target);
        let code = match self.format() {
            Format::Binary32 => Code::EVEX_Vfixupimmps_zmm_k1z_zmm_zmmm512b32_imm8_sae,
            Format::Binary64 => Code::EVEX_Vfixupimmpd_zmm_k1z_zmm_zmmm512b64_imm8_sae,
        };
        let table = MemoryOperand { is_broadcast: true, ..constant(offset_of!(Constants, zero_becomes_zero), 0) };
        let instruction = Instruction::with4(code, register, others, table, 0);
        self.emitter().asm().push(&instruction.expect("vfixupimm takes registers, memory and a constant"));
    }

    /// A function of each bit of a register of 64 bytes: Intel SDM volume 2, VPTERNLOGD.
    fn ternary(&mut self, register: Register, function: u32) {
        let code = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
        let instruction = Instruction::with4(code, register, register, register, function);
        self.emitter().asm().push(&instruction.expect("vpternlogd takes registers and a constant"));
    }

    fn zeros(&self) -> Source {
        self.in_all_lanes(offset_of!(Constants, zeros), 0)
    }
}

/// Functions of three bits.
const ALL_ONES: u32 = 0xff;
const NOT: u32 = 0x55;
