//! Vector code on scratch registers: one operation on all lanes of a group, with the processor's widest encoding.
//!
//! With AVX each instruction has three operands and may read memory that is not aligned. Without, a move comes first. With AVX2 and AVX-512 one operation
//! computes for several directions: see [`super::bundle`].

use derivgrind_engine::translate::{Emitter, registers};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

use crate::instrument::{Shadow, elements, fetched, layers, value_in_memory};
use crate::ir::{Format, Mask, Place, Span};
use crate::shadow;

use super::bundle::{Assembly, Bundle};
use super::codes::{self, Codes, Encoding, FROM_MASK, LOAD, Op, SQRT, STORE, Source, Width};
use super::constants::constant;
use super::held;
use super::registers::{Held, Registers};

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
    /// Scratch registers that operations take with so many roles. With several directions there is one more, in which dot values are put together.
    pub fn with_roles(roles: usize) -> usize {
        roles + usize::from(layers().len() > 1)
    }

    /// All of them.
    const ALL: [Scratch; Scratch::COUNT] = [Scratch::A, Scratch::B, Scratch::T, Scratch::V];
}

/// The register that has a role.
#[derive(Clone, Copy, Debug)]
struct Assigned {
    number: usize,
    /// It holds a dot value that may be wanted later: results go to another register.
    borrowed: bool,
}

/// The mask register that operations use, where the block has none of its own. What is in it does not outlast an operation.
pub(super) const MASK: Register = Register::K1;

/// Emits code for one group of lanes.
pub(super) struct Vector<'e, 'a> {
    emitter: &'e mut Emitter<'a>,
    registers: &'e mut Registers,
    roles: [Option<Assigned>; Scratch::COUNT],
    index: usize,
    bundle: Bundle,
    format: Format,
    /// Of the lanes in one direction.
    width: Width,
    /// Of what is computed now: in all directions of the bundle, or what they share.
    extent: Width,
    mask: Option<Mask>,
    encoding: Encoding,
}

impl<'e, 'a> Vector<'e, 'a> {
    /// For lanes of instruction `index`, in the directions of a bundle.
    pub fn new(
        emitter: &'e mut Emitter<'a>,
        registers: &'e mut Registers,
        index: usize,
        bundle: Bundle,
        format: Format,
        width: Width,
    ) -> Vector<'e, 'a> {
        registers.provide(emitter.scratch_vectors().saturating_sub(Scratch::with_roles(0)));
        registers.unpin_all();
        let (roles, encoding) = ([None; Scratch::COUNT], Encoding::of(emitter));
        let extent = if bundle.is_single() { width } else { bundle.width(width.bytes(format)) };
        Vector { emitter, registers, roles, index, bundle, format, width, extent, mask: None, encoding }
    }

    /// What is computed from operand values alone: once for all directions.
    pub fn shared<T>(&mut self, compute: impl FnOnce(&mut Self) -> T) -> T {
        let extent = std::mem::replace(&mut self.extent, self.width);
        let result = compute(self);
        self.extent = extent;
        result
    }

    /// Puts a shared result, in `target`'s register or another one, beside each direction's dot values: in `target`.
    pub fn repeat(&mut self, target: Scratch, shared: Source) -> Source {
        if self.bundle.is_single() {
            return shared;
        }
        self.own(target);
        let assembly = self.assembly(target);
        assembly.repeat(self.emitter, shared, self.bundle.layers().len());
        self.source(target)
    }

    /// The register of a role as one of pieces of all directions.
    fn assembly(&mut self, role: Scratch) -> Assembly {
        let whole = self.register(role);
        self.assembly_in(whole)
    }

    fn assembly_in(&self, whole: Register) -> Assembly {
        let part = self.emitter.scratch_vector(self.emitter.scratch_vectors() - 1);
        Assembly { whole, part, bytes: self.width.bytes(self.format) }
    }

    /// Results are stored where the mask says; it is that of the first lane.
    pub fn under(self, mask: Option<Mask>) -> Vector<'e, 'a> {
        Vector { mask, ..self }
    }

    /// The register of a role, for a new value.
    pub fn own(&mut self, scratch: Scratch) -> Register {
        let number = match self.roles[scratch as usize] {
            Some(Assigned { number, borrowed: false }) => number,
            other => {
                let (number, unsaved) = self.registers.fresh();
                if !unsaved.is_empty() {
                    unsaved.into_iter().for_each(|value| held::store(self.emitter, &[(number, value)]));
                    held::note(self.emitter, self.registers);
                }
                if let Some(Assigned { number: borrowed, .. }) = other {
                    self.registers.unpin(borrowed);
                }
                self.roles[scratch as usize] = Some(Assigned { number, borrowed: false });
                number
            }
        };
        self.numbered(number)
    }

    /// Gives a role the register in which dot values are put together, if there is one, for values that are gone before that is done again.
    pub fn take_part(&mut self, scratch: Scratch) {
        self.release(scratch);
        if Scratch::with_roles(0) != 0 {
            let number = self.emitter.scratch_vectors() - 1;
            self.roles[scratch as usize] = Some(Assigned { number, borrowed: false });
        }
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

    /// Gives the role's value a register of its own, if it is in one that holds an operand.
    pub fn detach(&mut self, scratch: Scratch) {
        let held = self.source(scratch);
        if self.roles[scratch as usize].is_some_and(|assigned| assigned.borrowed) {
            self.op(Op::Or, scratch, held, held);
        }
    }

    /// The number of the role's register, which nothing else needs: a copy if it is borrowed. All other registers are released.
    pub fn keep_only(&mut self, scratch: Scratch) -> usize {
        self.detach(scratch);
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

    /// The scratch registers.
    pub fn registers(&mut self) -> &mut Registers {
        self.registers
    }

    /// Loads the dot values of the lanes from `place` on.
    fn gather(&mut self, target: Register, place: Place) {
        let shadows = self.shadows_of(place);
        if self.bundle.is_single() {
            self.move_to(target, Source::Memory(shadows[0]));
        } else {
            self.assembly_in(target).gather(self.emitter, &shadows);
        }
    }

    /// Which encodings it uses.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// What is computed at a time.
    pub fn extent(&self) -> Width {
        self.extent
    }

    /// The lanes' format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// A constant that is the same in all lanes; as [`constant`].
    pub fn in_all_lanes(&self, offset: usize, number: usize) -> Source {
        let is_broadcast = self.encoding == Encoding::Evex && self.extent != Width::Scalar;
        Source::Memory(MemoryOperand { is_broadcast, ..constant(offset, number) })
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
        let bytes = self.width.bytes(self.format);
        Some(Held { bundle: self.bundle, range: Span::new(place, bytes).register()? })
    }

    /// The shadow of a place in each direction. What of it is in registers only is saved, as far as an operand of either format reaches.
    fn shadows_of(&mut self, place: Place) -> Vec<MemoryOperand> {
        if let Some(range) = Span::new(place, self.width.bytes(Format::Binary64)).register() {
            let missed = self.registers.missed_by(Held { bundle: self.bundle, range });
            held::store(self.emitter, &missed);
            held::note(self.emitter, self.registers);
        }
        let shadow = Shadow::of(self.emitter, self.index, place);
        self.bundle.layers().map(|layer| shadow.in_layer(self.emitter, layer)).collect()
    }

    fn widened(&self, xmm: Register) -> Register {
        match self.extent {
            Width::Scalar | Width::Xmm => xmm,
            Width::Ymm => registers::ymm(xmm.number()),
            Width::Zmm => registers::zmm(xmm.number()),
        }
    }

    pub fn code(&self, codes: &Codes) -> Code {
        codes.of(self.format, self.extent, self.encoding)
    }

    /// `target = a op b`. Without AVX, `b` must not be `target` unless `a` is.
    pub fn op(&mut self, op: Op, target: Scratch, a: Source, b: Source) {
        let target = self.own(target);
        let (codes, predicate) = op.codes();
        let code = self.code(codes);
        if self.encoding == Encoding::Legacy {
            self.move_to(target, a);
            self.push(code, &[Source::Register(target), b], predicate);
            return;
        }
        let a = self.in_register(a, target);
        if self.encoding == Encoding::Evex && op.compares() {
            self.push(code, &[Source::Register(MASK), Source::Register(a), b], predicate);
            self.push(self.code(&FROM_MASK), &[Source::Register(target), Source::Register(MASK)], None);
            return;
        }
        self.push(code, &[Source::Register(target), Source::Register(a), b], predicate);
    }

    /// The register of an operand: `spare`, if it is in memory.
    fn in_register(&mut self, operand: Source, spare: Register) -> Register {
        match operand {
            Source::Register(register) => register,
            Source::Memory(_) => {
                self.move_to(spare, operand);
                spare
            }
        }
    }

    /// `target = sqrt(a)`
    pub fn sqrt(&mut self, target: Scratch, a: Source) {
        let target = self.own(target);
        let code = self.code(&SQRT);
        if self.encoding != Encoding::Legacy && self.extent == Width::Scalar {
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

    /// A scratch register as an operand.
    pub fn source(&mut self, scratch: Scratch) -> Source {
        Source::Register(self.register(scratch))
    }

    fn move_to(&mut self, target: Register, from: Source) {
        match from {
            Source::Register(register) if register == target => {}
            Source::Register(register) => {
                let code = match self.extent {
                    Width::Scalar | Width::Xmm if self.encoding == Encoding::Legacy => Code::Movaps_xmm_xmmm128,
                    Width::Scalar | Width::Xmm => Code::VEX_Vmovaps_xmm_xmmm128,
                    Width::Ymm => Code::VEX_Vmovaps_ymm_ymmm256,
                    Width::Zmm => Code::EVEX_Vmovaps_zmm_k1z_zmmm512,
                };
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
        self.gather(register, place);
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
            None if self.encoding != Encoding::Legacy && self.bundle.is_single() => {
                Source::Memory(self.shadows_of(place)[0])
            }
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

    /// Stores dot values: in shadow registers as late as possible.
    pub fn store_dot(&mut self, place: Place, from: Scratch) {
        if let Some(range) = self.range(place) {
            let cut = self.registers.cut_by(range);
            held::store(self.emitter, &cut);
            self.register(from);
            let number = self.roles[from as usize].map_or(0, |assigned| assigned.number);
            self.registers.hold_unsaved(number, range);
            held::note(self.emitter, self.registers);
            return;
        }
        let shadows = self.shadows_of(place);
        if self.bundle.is_single() {
            let register = self.source(from);
            let code = self.code(&STORE);
            self.push(code, &[Source::Memory(shadows[0]), register], None);
        } else {
            self.assembly(from).scatter(self.emitter, &shadows);
        }
    }

    /// The values of the lanes from `place` on, as the instruction sees them: in the register where they are, or in `spare`. See [`Vector::shared`].
    pub fn value(&mut self, place: Place, spare: Scratch) -> Source {
        debug_assert_eq!(self.extent, self.width, "values are the same in all directions");
        match self.value_where_it_is(place, spare) {
            Source::Memory(memory) => {
                let register = self.own(spare);
                self.move_to(register, Source::Memory(memory));
                Source::Register(register)
            }
            register @ Source::Register(_) => register,
        }
    }

    /// The same beside the dot values of each direction.
    pub fn repeated_value(&mut self, place: Place, spare: Scratch) -> Source {
        if self.bundle.is_single() {
            return self.value(place, spare);
        }
        let value = self.shared(|vector| vector.value_where_it_is(place, spare));
        self.repeat(spare, value)
    }

    /// The same as an operand of an arithmetic instruction that is only in AVX-512: it may be in memory.
    pub fn operand_value(&mut self, place: Place, spare: Scratch) -> Source {
        if self.bundle.is_single() {
            return self.value_where_it_is(place, spare);
        }
        match self.shared(|vector| vector.value_where_it_is(place, spare)) {
            Source::Memory(element) if self.width == Width::Scalar => {
                Source::Memory(MemoryOperand { is_broadcast: true, ..element })
            }
            value => self.repeat(spare, value),
        }
    }

    fn value_where_it_is(&mut self, place: Place, spare: Scratch) -> Source {
        match place {
            Place::Memory { base, offset } => Source::Memory(value_in_memory(self.emitter, self.index, base, offset)),
            Place::Register(offset) if offset >= shadow::OPERAND => Source::Memory(fetched(offset)),
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
            codes::push(self.emitter, extract.expect("vextractf128 takes registers and a constant"));
            register = spare;
        }
        if !within.is_multiple_of(16) {
            // As four parts of 4 bytes: the wanted ones to the low end.
            let part = i32::from(within % 16 / 4);
            let code = match self.encoding {
                Encoding::Legacy => Code::Pshufd_xmm_xmmm128_imm8,
                _ => Code::VEX_Vpshufd_xmm_xmmm128_imm8,
            };
            let order = if self.format == Format::Binary64 { part | (part + 1) << 2 } else { part };
            let shuffle = Instruction::with3(code, spare, register, order);
            codes::push(self.emitter, shuffle.expect("pshufd takes registers and a constant"));
            register = spare;
        }
        register
    }

    /// A part of a register that only AVX-512 has.
    fn extract(&mut self, code: Code, to: Register, number: usize, part: u16) {
        let extract = Instruction::with3(code, to, registers::zmm(number), i32::from(part));
        codes::push(self.emitter, extract.expect("an extraction takes registers and a constant"));
    }

    pub fn push(&mut self, code: Code, operands: &[Source], predicate: Option<u32>) {
        codes::push(self.emitter, instruction(code, operands, predicate));
    }

    /// Moves dot values as they are.
    pub fn copy(&mut self, target: Place, source: Place) {
        self.load_dot(Scratch::A, source);
        self.store_dot(target, Scratch::A);
    }

    /// The dot value of a converted number: `cvtss2sd` or `cvtsd2ss` of the operand's, which has the other format.
    pub fn convert(&mut self, target: Place, source: Place) {
        self.zero(Scratch::A);
        let register = self.own(Scratch::A);
        let from = self.shadows_of(source)[0];
        let legacy = self.encoding == Encoding::Legacy;
        let code = match (self.format, legacy) {
            (Format::Binary64, false) => Code::VEX_Vcvtss2sd_xmm_xmm_xmmm32,
            (Format::Binary64, true) => Code::Cvtss2sd_xmm_xmmm32,
            (Format::Binary32, false) => Code::VEX_Vcvtsd2ss_xmm_xmm_xmmm64,
            (Format::Binary32, true) => Code::Cvtsd2ss_xmm_xmmm64,
        };
        let operands = [Source::Register(register), Source::Register(register), Source::Memory(from)];
        self.push(code, if legacy { &operands[1..] } else { &operands }, None);
        self.store_result(target, Scratch::A);
    }
}

/// An instruction with such operands, and a constant at the end if there is one.
pub(super) fn instruction(code: Code, operands: &[Source], constant: Option<u32>) -> Instruction {
    use Source::{Memory, Register as R};
    let instruction = match (operands, constant) {
        (&[R(a), R(b)], None) => Instruction::with2(code, a, b),
        (&[R(a), Memory(b)], None) => Instruction::with2(code, a, b),
        (&[Memory(a), R(b)], None) => Instruction::with2(code, a, b),
        (&[R(a), R(b), R(c)], None) => Instruction::with3(code, a, b, c),
        (&[R(a), R(b), Memory(c)], None) => Instruction::with3(code, a, b, c),
        (&[R(a), R(b)], Some(constant)) => Instruction::with3(code, a, b, constant),
        (&[R(a), Memory(b)], Some(constant)) => Instruction::with3(code, a, b, constant),
        (&[R(a), R(b), R(c)], Some(constant)) => Instruction::with4(code, a, b, c, constant),
        (&[R(a), R(b), Memory(c)], Some(constant)) => Instruction::with4(code, a, b, c, constant),
        _ => unreachable!("no instruction has such operands"),
    };
    instruction.expect("the code takes such operands")
}
