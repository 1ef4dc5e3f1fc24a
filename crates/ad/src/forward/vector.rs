//! Vector code on scratch registers: one operation on all lanes of a group, with the processor's widest encoding.
//!
//! With AVX each instruction has three operands and may read memory that is not aligned. Without, a move comes first.

use std::mem::offset_of;

use derivgrind_engine::translate::{Emitter, registers};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

use crate::instrument::{Shadow, elements, fetched, file, value_in_memory};
use crate::ir::{Format, Mask, Place, Span};
use crate::shadow;

use super::constants::{Constants, constant};
use super::registers::{Held, Registers};

/// How many lanes an instruction works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// The lowest lane of a register.
    Scalar,
    /// 16 bytes.
    Xmm,
    /// 32 bytes.
    Ymm,
}

/// What an instruction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    And,
    /// `!a & b`
    AndNot,
    Or,
    Xor,
    /// All ones where `a < b`; NaN raises an exception, as in the processor's minimum.
    Less,
    /// All ones where the bits of `a` are a larger integer than those of `b`. Scalars: in all lanes. With SSE4.2; 32 bytes with AVX2.
    GreaterBits,
    /// All ones where `a == b`.
    Equals,
    /// All ones where `a != b`, also for NaN.
    Differs,
}

/// What scratch registers are used for in one operation. Which ones these are, [`Registers`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scratch {
    /// First dot value, and the result.
    A = 0,
    /// Second dot value.
    B = 1,
    /// A mask or an intermediate result.
    T = 2,
    /// An operand's value.
    V = 3,
}

impl Scratch {
    /// How many there are.
    pub const COUNT: usize = 4;
    /// All of them.
    const ALL: [Scratch; Scratch::COUNT] = [Scratch::A, Scratch::B, Scratch::T, Scratch::V];
}

/// The second operand of an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    Register(Register),
    Memory(MemoryOperand),
}

/// Codes for scalar, 16-byte and 32-byte operands, for both formats: with AVX, and without (there is no 32-byte form then).
struct Codes {
    vex: [[Code; 3]; 2],
    legacy: [[Code; 2]; 2],
}

macro_rules! codes {
    ($vss:ident $vsd:ident, $vps:ident $vpd:ident, $yps:ident $ypd:ident; $ss:ident $sd:ident, $ps:ident $pd:ident) => {
        Codes {
            vex: [[Code::$vss, Code::$vps, Code::$yps], [Code::$vsd, Code::$vpd, Code::$ypd]],
            legacy: [[Code::$ss, Code::$ps], [Code::$sd, Code::$pd]],
        }
    };
    // Bitwise operations do not depend on the format.
    ($xmm:ident, $ymm:ident; $legacy:ident) => {
        Codes { vex: [[Code::$xmm, Code::$xmm, Code::$ymm]; 2], legacy: [[Code::$legacy, Code::$legacy]; 2] }
    };
}

const ADD: Codes = codes!(VEX_Vaddss_xmm_xmm_xmmm32 VEX_Vaddsd_xmm_xmm_xmmm64, VEX_Vaddps_xmm_xmm_xmmm128 VEX_Vaddpd_xmm_xmm_xmmm128,
    VEX_Vaddps_ymm_ymm_ymmm256 VEX_Vaddpd_ymm_ymm_ymmm256; Addss_xmm_xmmm32 Addsd_xmm_xmmm64, Addps_xmm_xmmm128 Addpd_xmm_xmmm128);
const SUB: Codes = codes!(VEX_Vsubss_xmm_xmm_xmmm32 VEX_Vsubsd_xmm_xmm_xmmm64, VEX_Vsubps_xmm_xmm_xmmm128 VEX_Vsubpd_xmm_xmm_xmmm128,
    VEX_Vsubps_ymm_ymm_ymmm256 VEX_Vsubpd_ymm_ymm_ymmm256; Subss_xmm_xmmm32 Subsd_xmm_xmmm64, Subps_xmm_xmmm128 Subpd_xmm_xmmm128);
const MUL: Codes = codes!(VEX_Vmulss_xmm_xmm_xmmm32 VEX_Vmulsd_xmm_xmm_xmmm64, VEX_Vmulps_xmm_xmm_xmmm128 VEX_Vmulpd_xmm_xmm_xmmm128,
    VEX_Vmulps_ymm_ymm_ymmm256 VEX_Vmulpd_ymm_ymm_ymmm256; Mulss_xmm_xmmm32 Mulsd_xmm_xmmm64, Mulps_xmm_xmmm128 Mulpd_xmm_xmmm128);
const DIV: Codes = codes!(VEX_Vdivss_xmm_xmm_xmmm32 VEX_Vdivsd_xmm_xmm_xmmm64, VEX_Vdivps_xmm_xmm_xmmm128 VEX_Vdivpd_xmm_xmm_xmmm128,
    VEX_Vdivps_ymm_ymm_ymmm256 VEX_Vdivpd_ymm_ymm_ymmm256; Divss_xmm_xmmm32 Divsd_xmm_xmmm64, Divps_xmm_xmmm128 Divpd_xmm_xmmm128);
const SQRT: Codes = codes!(VEX_Vsqrtss_xmm_xmm_xmmm32 VEX_Vsqrtsd_xmm_xmm_xmmm64, VEX_Vsqrtps_xmm_xmmm128 VEX_Vsqrtpd_xmm_xmmm128,
    VEX_Vsqrtps_ymm_ymmm256 VEX_Vsqrtpd_ymm_ymmm256; Sqrtss_xmm_xmmm32 Sqrtsd_xmm_xmmm64, Sqrtps_xmm_xmmm128 Sqrtpd_xmm_xmmm128);
const COMPARE: Codes = codes!(VEX_Vcmpss_xmm_xmm_xmmm32_imm8 VEX_Vcmpsd_xmm_xmm_xmmm64_imm8,
    VEX_Vcmpps_xmm_xmm_xmmm128_imm8 VEX_Vcmppd_xmm_xmm_xmmm128_imm8, VEX_Vcmpps_ymm_ymm_ymmm256_imm8 VEX_Vcmppd_ymm_ymm_ymmm256_imm8;
    Cmpss_xmm_xmmm32_imm8 Cmpsd_xmm_xmmm64_imm8, Cmpps_xmm_xmmm128_imm8 Cmppd_xmm_xmmm128_imm8);
const GREATER: Codes = codes!(VEX_Vpcmpgtd_xmm_xmm_xmmm128 VEX_Vpcmpgtq_xmm_xmm_xmmm128,
    VEX_Vpcmpgtd_xmm_xmm_xmmm128 VEX_Vpcmpgtq_xmm_xmm_xmmm128, VEX_Vpcmpgtd_ymm_ymm_ymmm256 VEX_Vpcmpgtq_ymm_ymm_ymmm256;
    Pcmpgtd_xmm_xmmm128 Pcmpgtq_xmm_xmmm128, Pcmpgtd_xmm_xmmm128 Pcmpgtq_xmm_xmmm128);
const AND: Codes = codes!(VEX_Vandps_xmm_xmm_xmmm128, VEX_Vandps_ymm_ymm_ymmm256; Andps_xmm_xmmm128);
const AND_NOT: Codes = codes!(VEX_Vandnps_xmm_xmm_xmmm128, VEX_Vandnps_ymm_ymm_ymmm256; Andnps_xmm_xmmm128);
const OR: Codes = codes!(VEX_Vorps_xmm_xmm_xmmm128, VEX_Vorps_ymm_ymm_ymmm256; Orps_xmm_xmmm128);
const XOR: Codes = codes!(VEX_Vxorps_xmm_xmm_xmmm128, VEX_Vxorps_ymm_ymm_ymmm256; Xorps_xmm_xmmm128);
const LOAD: Codes = codes!(VEX_Vmovss_xmm_m32 VEX_Vmovsd_xmm_m64, VEX_Vmovups_xmm_xmmm128 VEX_Vmovups_xmm_xmmm128,
    VEX_Vmovups_ymm_ymmm256 VEX_Vmovups_ymm_ymmm256; Movss_xmm_xmmm32 Movsd_xmm_xmmm64, Movups_xmm_xmmm128 Movups_xmm_xmmm128);
const STORE: Codes = codes!(VEX_Vmovss_m32_xmm VEX_Vmovsd_m64_xmm, VEX_Vmovups_xmmm128_xmm VEX_Vmovups_xmmm128_xmm,
    VEX_Vmovups_ymmm256_ymm VEX_Vmovups_ymmm256_ymm; Movss_xmmm32_xmm Movsd_xmmm64_xmm, Movups_xmmm128_xmm Movups_xmmm128_xmm);

impl Op {
    fn codes(self) -> (&'static Codes, Option<u32>) {
        match self {
            Op::Add => (&ADD, None),
            Op::Sub => (&SUB, None),
            Op::Mul => (&MUL, None),
            Op::Div => (&DIV, None),
            Op::And => (&AND, None),
            Op::AndNot => (&AND_NOT, None),
            Op::Or => (&OR, None),
            Op::Xor => (&XOR, None),
            // Predicates: Intel SDM volume 2, CMPPD.
            Op::Equals => (&COMPARE, Some(0)),
            Op::Less => (&COMPARE, Some(1)),
            Op::GreaterBits => (&GREATER, None),
            Op::Differs => (&COMPARE, Some(4)),
        }
    }
}

/// The register that has a role.
#[derive(Clone, Copy, Debug)]
struct Assigned {
    number: usize,
    /// It holds a dot value that may be wanted later: results go to another register.
    borrowed: bool,
}

/// Emits code for one group of lanes.
pub(super) struct Vector<'e, 'a> {
    emitter: &'e mut Emitter<'a>,
    registers: &'e mut Registers,
    roles: [Option<Assigned>; Scratch::COUNT],
    index: usize,
    layer: usize,
    format: Format,
    width: Width,
    mask: Option<Mask>,
    avx: bool,
}

impl<'e, 'a> Vector<'e, 'a> {
    /// For lanes of instruction `index`, in one direction.
    pub fn new(
        emitter: &'e mut Emitter<'a>,
        registers: &'e mut Registers,
        index: usize,
        layer: usize,
        format: Format,
        width: Width,
    ) -> Vector<'e, 'a> {
        registers.provide(emitter.scratch_vectors());
        registers.unpin_all();
        let roles = [None; Scratch::COUNT];
        Vector { emitter, registers, roles, index, layer, format, width, mask: None, avx: registers::has_avx() }
    }

    /// Results are stored where the mask says; it is that of the first lane.
    pub fn under(self, mask: Option<Mask>) -> Vector<'e, 'a> {
        Vector { mask, ..self }
    }

    /// The register of a role, for a new value.
    fn own(&mut self, scratch: Scratch) -> Register {
        let number = match self.roles[scratch as usize] {
            Some(Assigned { number, borrowed: false }) => number,
            other => {
                let number = self.registers.fresh();
                if let Some(Assigned { number: borrowed, .. }) = other {
                    self.registers.unpin(borrowed);
                }
                self.roles[scratch as usize] = Some(Assigned { number, borrowed: false });
                number
            }
        };
        self.numbered(number)
    }

    /// The register of a role that has a value.
    fn register(&mut self, scratch: Scratch) -> Register {
        match self.roles[scratch as usize] {
            Some(Assigned { number, .. }) => self.numbered(number),
            None => self.own(scratch),
        }
    }

    fn numbered(&self, number: usize) -> Register {
        self.widened(self.emitter.scratch_vector(number))
    }

    /// The number of the role's register, which nothing else needs: a copy if it is borrowed. All other registers are released.
    pub fn keep_only(&mut self, scratch: Scratch) -> usize {
        let held = self.source(scratch);
        if self.roles[scratch as usize].is_some_and(|assigned| assigned.borrowed) {
            self.op(Op::Or, scratch, held, held);
        }
        let kept = self.roles[scratch as usize];
        self.roles = [None; Scratch::COUNT];
        self.roles[scratch as usize] = kept;
        let number = kept.map_or(0, |assigned| assigned.number);
        self.registers.keep_pinned(number);
        number
    }

    /// Puts the role's value into a register by its number.
    pub fn move_into(&mut self, number: usize, scratch: Scratch) {
        let (target, source) = (self.numbered(number), self.source(scratch));
        self.move_to(target, source);
    }

    /// What the registers hold.
    pub fn held(&self) -> Vec<(usize, Held)> {
        self.registers.held()
    }

    /// Loads what a register, by its number, holds of a shadow register file.
    pub fn reload(&mut self, number: usize, Held { layer, range }: Held) {
        let (format, width) = match range.bytes {
            4 => (Format::Binary32, Width::Scalar),
            8 => (Format::Binary64, Width::Scalar),
            16 => (Format::Binary64, Width::Xmm),
            _ => (Format::Binary64, Width::Ymm),
        };
        (self.format, self.width) = (format, width);
        let target = self.numbered(number);
        self.move_to(target, Source::Memory(file(layer, range.offset)));
    }

    /// The emitter.
    pub fn emitter(&mut self) -> &mut Emitter<'a> {
        self.emitter
    }

    /// The role's register is not needed any more.
    pub fn release(&mut self, scratch: Scratch) {
        if let Some(Assigned { number, .. }) = self.roles[scratch as usize].take() {
            self.registers.unpin(number);
        }
    }

    /// The bytes of the lanes from `place` on, if they are in the shadow register file.
    fn range(&self, place: Place) -> Option<Held> {
        let bytes = match self.width {
            Width::Scalar => self.format.bytes(),
            Width::Xmm => 16,
            Width::Ymm => 32,
        };
        Some(Held { layer: self.layer, range: Span::new(place, bytes).register()? })
    }

    /// The shadow of a place.
    fn shadow_of(&mut self, place: Place) -> MemoryOperand {
        Shadow::of(self.emitter, self.index, place).in_layer(self.emitter, self.layer)
    }

    fn widened(&self, xmm: Register) -> Register {
        if self.width == Width::Ymm { registers::ymm(xmm.number()) } else { xmm }
    }

    fn code(&self, codes: &Codes) -> Code {
        let format = usize::from(self.format == Format::Binary64);
        if self.avx {
            codes.vex[format][self.width as usize]
        } else {
            codes.legacy[format][usize::from(self.width != Width::Scalar)]
        }
    }

    /// `target = a op b`. Without AVX, `b` must not be `target` unless `a` is.
    pub fn op(&mut self, op: Op, target: Scratch, a: Source, b: Source) {
        let target = self.own(target);
        let (codes, predicate) = op.codes();
        let code = self.code(codes);
        if !self.avx {
            self.move_to(target, a);
            self.push(code, &[Source::Register(target), b], predicate);
            return;
        }
        let a = match a {
            Source::Register(a) => a,
            Source::Memory(_) => {
                self.move_to(target, a);
                target
            }
        };
        self.push(code, &[Source::Register(target), Source::Register(a), b], predicate);
    }

    /// `target = sqrt(a)`
    pub fn sqrt(&mut self, target: Scratch, a: Source) {
        let target = self.own(target);
        let code = self.code(&SQRT);
        if self.avx && self.width == Width::Scalar {
            // The upper lanes come from another operand: from one that is ready.
            let upper = match a {
                Source::Register(register) => register,
                Source::Memory(_) => target,
            };
            self.push(code, &[Source::Register(target), Source::Register(upper), a], None);
        } else {
            self.push(code, &[Source::Register(target), a], None);
        }
    }

    /// `target = target op b`
    pub fn update(&mut self, op: Op, target: Scratch, b: Source) {
        let a = self.source(target);
        self.op(op, target, a, b);
    }

    /// `target = 0`
    pub fn zero(&mut self, target: Scratch) {
        let register = Source::Register(self.own(target));
        self.op(Op::Xor, target, register, register);
    }

    /// `target = all ones where of is not zero`
    pub fn mask_of_nonzero(&mut self, target: Scratch, of: Scratch) {
        let of = self.source(of);
        self.op(Op::Differs, target, of, Source::Memory(zeros()));
    }

    /// `target = all ones where of is zero`
    pub fn mask_of_zero(&mut self, target: Scratch, of: Scratch) {
        let of = self.source(of);
        self.op(Op::Equals, target, of, Source::Memory(zeros()));
    }

    /// A scratch register as an operand.
    pub fn source(&mut self, scratch: Scratch) -> Source {
        Source::Register(self.register(scratch))
    }

    fn move_to(&mut self, target: Register, from: Source) {
        match from {
            Source::Register(register) if register == target => {}
            Source::Register(register) => {
                let code = if self.avx { Code::VEX_Vmovaps_xmm_xmmm128 } else { Code::Movaps_xmm_xmmm128 };
                let code = if self.width == Width::Ymm { Code::VEX_Vmovaps_ymm_ymmm256 } else { code };
                self.push(code, &[Source::Register(target), Source::Register(register)], None);
            }
            Source::Memory(memory) => {
                let code = self.code(&LOAD);
                self.push(code, &[Source::Register(target), Source::Memory(memory)], None);
            }
        }
    }

    /// The dot values of the lanes from `place` on. They stay where they are when the role gets another value.
    pub fn load_dot(&mut self, target: Scratch, place: Place) {
        self.release(target);
        let range = self.range(place);
        if let Some(number) = range.and_then(|range| self.registers.find(range)) {
            self.roles[target as usize] = Some(Assigned { number, borrowed: true });
            return;
        }
        let register = self.own(target);
        let memory = self.shadow_of(place);
        self.move_to(register, Source::Memory(memory));
        if let (Some(range), Some(assigned)) = (range, &mut self.roles[target as usize]) {
            self.registers.hold(assigned.number, range);
            assigned.borrowed = true;
        }
    }

    /// The dot values of the lanes from `place` on, as an arithmetic operand: from memory if that is possible, or in `spare`.
    pub fn dot(&mut self, place: Place, spare: Scratch) -> Source {
        let held = self.range(place).and_then(|range| self.registers.find(range));
        match held {
            Some(number) => Source::Register(self.numbered(number)),
            None if self.avx => Source::Memory(self.shadow_of(place)),
            None => {
                self.load_dot(spare, place);
                self.source(spare)
            }
        }
    }

    /// Stores results, under the mask if there is one. No other role keeps its value then.
    pub fn store_result(&mut self, place: Place, from: Scratch) {
        if let Some(mask) = self.mask {
            let mut others = Scratch::ALL.into_iter().filter(|&role| role != from);
            let (Some(bits), Some(old)) = (others.next(), others.next()) else { return };
            Scratch::ALL.into_iter().filter(|&role| role != from).for_each(|role| self.release(role));
            let selected = self.own(bits);
            self.move_to(selected, Source::Memory(elements(mask.offset())));
            let result = self.source(from);
            self.op(Op::And, from, result, Source::Register(selected));
            if !mask.zeroing {
                self.load_dot(old, place);
                let kept = self.source(old);
                self.update(Op::AndNot, bits, kept);
                let kept = self.source(bits);
                self.update(Op::Or, from, kept);
            }
        }
        self.store_dot(place, from);
    }

    /// Stores dot values.
    pub fn store_dot(&mut self, place: Place, from: Scratch) {
        let memory = self.shadow_of(place);
        let register = self.source(from);
        let code = self.code(&STORE);
        self.push(code, &[Source::Memory(memory), register], None);
        let range = self.range(place);
        if let (Some(range), Some(Assigned { number, .. })) = (range, self.roles[from as usize]) {
            self.registers.overwritten_in(range);
            self.registers.hold(number, range);
        }
    }

    /// The values of the lanes from `place` on, as the instruction sees them: in the register where they are, or in `spare`.
    pub fn value(&mut self, place: Place, spare: Scratch) -> Source {
        match place {
            Place::Memory { base, offset } => {
                let memory = value_in_memory(self.emitter, self.index, base, offset);
                let register = self.own(spare);
                self.move_to(register, Source::Memory(memory));
                Source::Register(register)
            }
            Place::Register(offset) if offset >= shadow::OPERAND => {
                let register = self.own(spare);
                self.move_to(register, Source::Memory(fetched(offset)));
                Source::Register(register)
            }
            Place::Register(offset) => {
                let number = usize::from((offset - shadow::VECTOR) / shadow::VECTOR_BYTES);
                Source::Register(self.lane(number, offset % shadow::VECTOR_BYTES, spare))
            }
        }
    }

    /// A register whose low lanes are those of vector register `number` from byte `within` on.
    fn lane(&mut self, number: usize, within: u16, spare: Scratch) -> Register {
        let only_avx512 = number >= 16 || within >= 32;
        if self.width == Width::Ymm {
            if only_avx512 {
                let spare = self.own(spare);
                self.extract(Code::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8, spare, number, within / 32);
                return spare;
            }
            return registers::ymm(number);
        }
        let mut register = registers::xmm(number);
        if within == 0 && !only_avx512 {
            return register;
        }
        let spare = self.own(spare);
        if only_avx512 {
            self.extract(Code::EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8, spare, number, within / 16);
            register = spare;
        } else if within >= 16 {
            // Only AVX code has values there.
            let extract = Instruction::with3(Code::VEX_Vextractf128_xmmm128_ymm_imm8, spare, registers::ymm(number), 1);
            self.emitter.asm().push(&extract.expect("vextractf128 takes registers and a constant"));
            register = spare;
        }
        if !within.is_multiple_of(16) {
            // As four parts of 4 bytes: the wanted ones to the low end.
            let part = i32::from(within % 16 / 4);
            let code = if self.avx { Code::VEX_Vpshufd_xmm_xmmm128_imm8 } else { Code::Pshufd_xmm_xmmm128_imm8 };
            let order = if self.format == Format::Binary64 { part | (part + 1) << 2 } else { part };
            let shuffle = Instruction::with3(code, spare, register, order);
            self.emitter.asm().push(&shuffle.expect("pshufd takes registers and a constant"));
            register = spare;
        }
        register
    }

    /// A part of a register that only AVX-512 has.
    fn extract(&mut self, code: Code, to: Register, number: usize, part: u16) {
        let extract = Instruction::with3(code, to, registers::zmm(number), i32::from(part));
        self.emitter.asm().push(&extract.expect("an extraction takes registers and a constant"));
    }

    fn push(&mut self, code: Code, operands: &[Source], predicate: Option<u32>) {
        use Source::{Memory, Register as R};
        let instruction = match (operands, predicate) {
            (&[R(a), R(b)], None) => Instruction::with2(code, a, b),
            (&[R(a), Memory(b)], None) => Instruction::with2(code, a, b),
            (&[Memory(a), R(b)], None) => Instruction::with2(code, a, b),
            (&[R(a), R(b), R(c)], None) => Instruction::with3(code, a, b, c),
            (&[R(a), R(b), Memory(c)], None) => Instruction::with3(code, a, b, c),
            (&[R(a), R(b)], Some(predicate)) => Instruction::with3(code, a, b, predicate),
            (&[R(a), Memory(b)], Some(predicate)) => Instruction::with3(code, a, b, predicate),
            (&[R(a), R(b), R(c)], Some(predicate)) => Instruction::with4(code, a, b, c, predicate),
            (&[R(a), R(b), Memory(c)], Some(predicate)) => Instruction::with4(code, a, b, c, predicate),
            _ => unreachable!("no instruction has such operands"),
        };
        self.emitter.asm().push(&instruction.expect("the code takes such operands"));
    }

    /// Moves dot values as they are.
    pub fn copy(&mut self, target: Place, source: Place) {
        self.load_dot(Scratch::A, source);
        self.store_dot(target, Scratch::A);
    }

    /// Whether the processor has [`Op::GreaterBits`] and [`Vector::test_all_ones`] in the group's width.
    pub fn can_test(&self) -> bool {
        if self.width == Width::Ymm { is_x86_feature_detected!("avx2") } else { is_x86_feature_detected!("sse4.2") }
    }

    /// Sets CF if a mask is all ones in the group's lanes.
    pub fn test_all_ones(&mut self, mask: Scratch) {
        let bytes = match self.width {
            Width::Scalar => usize::from(self.format == Format::Binary64),
            Width::Xmm => 2,
            Width::Ymm => 3,
        };
        let code = match (self.avx, self.width) {
            (true, Width::Ymm) => Code::VEX_Vptest_ymm_ymmm256,
            (true, _) => Code::VEX_Vptest_xmm_xmmm128,
            (false, _) => Code::Ptest_xmm_xmmm128,
        };
        let lanes = Source::Memory(constant(offset_of!(Constants, low_bytes), bytes));
        let mask = self.source(mask);
        self.push(code, &[mask, lanes], None);
    }

    /// The dot value of a converted number: `cvtss2sd` or `cvtsd2ss` of the operand's, which has the other format.
    pub fn convert(&mut self, target: Place, source: Place) {
        self.zero(Scratch::A);
        let register = self.own(Scratch::A);
        let from = self.shadow_of(source);
        let code = match (self.format, self.avx) {
            (Format::Binary64, true) => Code::VEX_Vcvtss2sd_xmm_xmm_xmmm32,
            (Format::Binary64, false) => Code::Cvtss2sd_xmm_xmmm32,
            (Format::Binary32, true) => Code::VEX_Vcvtsd2ss_xmm_xmm_xmmm64,
            (Format::Binary32, false) => Code::Cvtsd2ss_xmm_xmmm64,
        };
        let operands = [Source::Register(register), Source::Register(register), Source::Memory(from)];
        self.push(code, if self.avx { &operands } else { &operands[1..] }, None);
        self.store_result(target, Scratch::A);
    }
}

/// Loads what scratch registers, by their numbers, hold of shadow register files: behind a helper, which leaves nothing in them.
pub(super) fn reload(emitter: &mut Emitter<'_>, held: Vec<(usize, Held)>) {
    let mut registers = Registers::default();
    let mut vector = Vector::new(emitter, &mut registers, 0, 0, Format::Binary64, Width::Scalar);
    for (number, held) in held {
        vector.reload(number, held);
    }
}

/// 32 bytes of zeros in the context, aligned.
fn zeros() -> MemoryOperand {
    constant(offset_of!(Constants, zeros), 0)
}
