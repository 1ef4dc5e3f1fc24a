//! Dot values of real operations, inline.
//!
//! The lanes of an instruction that carry the same operation are computed together. What a lane's rule is, and what the exceptions are, is
//! the same as for a tape ([`derivgrind_tape::operation`]): **a dot value of zero contributes zero**, even where the partial derivative is infinite or
//! NaN. So operand values are masked where the dot value that they are multiplied with is zero. Dot values are computed in the format of
//! the variable.

use derivgrind_engine::translate::{Emitter, registers};

use crate::analysis::Step;
use crate::instrument::layers;
use crate::ir::{Effect, Format, Mask, Place, RealOperation};
use crate::rounding::concerns;
use crate::shadow;

use super::bundle::Bundle;
use super::codes::{Op, Source, Width};
use super::registers::Registers;
use super::rounding;
use super::vector::{Scratch, Vector};
use Scratch::{A, B, T, V};

/// Lanes of one instruction that are computed together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    operation: RealOperation,
    format: Format,
    target: Place,
    a: Place,
    b: Option<Place>,
    passive: [bool; 2],
    width: Width,
    /// The mask of the first lane.
    mask: Option<Mask>,
    /// Number of steps.
    pub count: usize,
}

impl Group {
    /// The widest group at the head of `steps`; `None` if there is no real operation.
    pub fn first(steps: &[Step]) -> Option<Group> {
        let first = steps.first()?;
        let Effect::Real { operation, format, target, a, b } = first.operation.effect else { return None };
        let (passive, mask) = (first.passive, first.operation.mask);
        let mut group = Group { operation, format, target, a, b, passive, width: Width::Scalar, mask, count: 1 };
        let lanes = (0..steps.len()).take_while(|&lane| group.continues(lane as u16, &steps[lane])).count();
        let lanes = lanes as u16;
        for (width, bytes) in [(Width::Ymm, 32), (Width::Xmm, 16)] {
            if lanes * format.bytes() >= bytes && group.fits(width, bytes) {
                group.width = width;
                group.count = usize::from(bytes / format.bytes());
                break;
            }
        }
        Some(group)
    }

    /// Whether a step is the lane at this distance.
    fn continues(&self, lane: u16, step: &Step) -> bool {
        let at = |place: Place| place.advanced(lane * self.format.bytes());
        let expected = Effect::Real {
            operation: self.operation,
            format: self.format,
            target: at(self.target),
            a: at(self.a),
            b: self.b.map(at),
        };
        let mask = self.mask.map(|mask| mask.advanced(lane));
        step.operation.effect == expected && step.operation.mask == mask && step.passive == self.passive
    }

    /// Whether the values lie as instructions of this width need them, and no lane reads what an earlier one writes.
    fn fits(&self, width: Width, bytes: u16) -> bool {
        let mut places = std::iter::once(self.a).chain(self.b);
        places.all(|place| {
            let aligned = match place {
                Place::Register(offset) if (shadow::VECTOR..shadow::X87).contains(&offset) => {
                    ((offset - shadow::VECTOR) % shadow::VECTOR_BYTES).is_multiple_of(bytes)
                }
                // A temporary has no value.
                Place::Register(_) | Place::Memory { .. } => true,
            };
            let behind = match (self.target, place) {
                (Place::Register(target), Place::Register(place)) => target > place && target - place < bytes,
                _ => false,
            };
            aligned && !behind && (width != Width::Ymm || registers::has_avx())
        })
    }

    /// Scratch vector registers that the group takes.
    pub fn vectors_needed(&self) -> usize {
        Scratch::with_roles(match self.operation {
            RealOperation::Negate | RealOperation::Copy if self.mask.is_none() => 2,
            _ => Scratch::COUNT,
        })
    }

    /// Emits the group.
    pub fn emit(&self, emitter: &mut Emitter<'_>, registers: &mut Registers, index: usize) {
        if layers().len() > 1 {
            rounding::emit_directions(emitter, registers, index, self);
            return;
        }
        let mut vector = self.vector(emitter, registers, index, Bundle::single(0));
        let result = self.compute(&mut vector);
        if concerns(self.operation) {
            rounding::emit(&mut vector, index, self, result);
        }
        vector.store_result(self.target, result);
    }

    /// Emits the rule for all directions. Those of lanes that `kept` does not keep become zero.
    pub fn emit_directions(
        &self,
        emitter: &mut Emitter<'_>,
        registers: &mut Registers,
        index: usize,
        kept: Option<Source>,
    ) {
        // Under a mask each direction has its own code: masks are expanded for one.
        let bundles = match self.mask {
            Some(_) => Bundle::singles(),
            None => Bundle::all(emitter, self.width.bytes(self.format)),
        };
        for bundle in bundles {
            let mut vector = self.vector(emitter, registers, index, bundle);
            let result = self.compute(&mut vector);
            match kept {
                Some(kept) => {
                    vector.release(V);
                    let kept = vector.repeat(V, kept);
                    vector.update(Op::And, result, kept);
                }
                // Where it may have to become zero, it must not be the register of an operand.
                None if concerns(self.operation) => vector.detach(result),
                None => {}
            }
            vector.store_result(self.target, result);
        }
    }

    /// Emits the rule; the role that has the result is returned.
    pub fn compute(&self, vector: &mut Vector<'_, '_>) -> Scratch {
        self.rule()(self, vector)
    }

    /// Vector code for the group in some directions.
    pub fn vector<'e, 'a>(
        &self,
        emitter: &'e mut Emitter<'a>,
        registers: &'e mut Registers,
        index: usize,
        bundle: Bundle,
    ) -> Vector<'e, 'a> {
        Vector::new(emitter, registers, index, bundle, self.format, self.width).under(self.mask)
    }

    /// The operation.
    pub fn operation(&self) -> RealOperation {
        self.operation
    }

    /// Where the first lane's result goes.
    pub fn target(&self) -> Place {
        self.target
    }

    /// The format of the lanes.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The operands, if there are two.
    pub fn both_operands(&self) -> Option<[Place; 2]> {
        self.b.map(|b| [self.a, b])
    }

    /// Which operands are known to be passive.
    pub fn passive_operands(&self) -> [bool; 2] {
        self.passive
    }

    fn rule(&self) -> fn(&Group, &mut Vector<'_, '_>) -> Scratch {
        match self.operation {
            RealOperation::Add => Group::sum,
            RealOperation::Sub => Group::difference,
            RealOperation::Mul => Group::product,
            RealOperation::Div => Group::quotient,
            RealOperation::Sqrt => Group::square_root,
            RealOperation::Min | RealOperation::Max => Group::selection,
            RealOperation::Negate => Group::negation,
            RealOperation::Reciprocal => Group::reciprocal,
            RealOperation::ReciprocalSqrt => Group::reciprocal_square_root,
            RealOperation::Copy | RealOperation::Output => Group::copy,
            // Instructions are not lifted to these.
            RealOperation::None | RealOperation::Input | RealOperation::Partials => Group::passive,
        }
    }

    /// The second operand, if it is active.
    fn active_b(&self) -> Option<Place> {
        self.b.filter(|_| !self.passive[1])
    }

    /// The first operand, if it is active.
    fn active_a(&self) -> Option<Place> {
        Some(self.a).filter(|_| !self.passive[0])
    }

    fn second(&self) -> Place {
        self.b.unwrap_or(self.a)
    }

    fn copy(&self, vector: &mut Vector<'_, '_>) -> Scratch {
        vector.load_dot(A, self.a);
        A
    }

    fn passive(&self, vector: &mut Vector<'_, '_>) -> Scratch {
        vector.zero(A);
        A
    }

    /// `da + db`
    fn sum(&self, vector: &mut Vector<'_, '_>) -> Scratch {
        match (self.active_a(), self.active_b()) {
            (Some(a), Some(b)) => {
                vector.load_dot(A, a);
                let b = vector.dot(b, B);
                vector.update(Op::Add, A, b);
            }
            (only_a, only_b) => vector.load_dot(A, only_a.or(only_b).unwrap_or(self.a)),
        }
        A
    }

    /// `da - db`
    fn difference(&self, vector: &mut Vector<'_, '_>) -> Scratch {
        match self.active_a() {
            Some(a) => vector.load_dot(A, a),
            None => vector.zero(A),
        }
        if let Some(b) = self.active_b() {
            let b = vector.dot(b, B);
            vector.update(Op::Sub, A, b);
        }
        A
    }

    /// `0 - da`: minus zero would count as active.
    fn negation(&self, vector: &mut Vector<'_, '_>) -> Scratch {
        vector.zero(A);
        let dot = vector.dot(self.a, B);
        vector.update(Op::Sub, A, dot);
        A
    }

    /// `da b + a db`
    fn product(&self, vector: &mut Vector<'_, '_>) -> Scratch {
        let (a, b) = (self.a, self.second());
        let square = a == b;
        let mut terms = Vec::new();
        for (term, dot, other) in [(A, self.active_a(), b), (B, self.active_b().filter(|_| !square), a)] {
            let Some(dot) = dot else { continue };
            vector.load_dot(T, dot);
            vector.multiply_value(term, other, T, V);
            vector.release(T);
            terms.push(term);
        }
        let result = terms[0];
        let other = if square { Some(result) } else { terms.get(1).copied() };
        if let Some(other) = other {
            let other = vector.source(other);
            vector.update(Op::Add, result, other);
        }
        result
    }

    /// `(da - (a / b) db) / b`
    fn quotient(&self, vector: &mut Vector<'_, '_>) -> Scratch {
        let b = self.second();
        if self.active_b().is_some() {
            let quotient = vector.shared(|vector| {
                let numerator = vector.value(self.a, T);
                let denominator = vector.value(b, V);
                vector.op(Op::Div, T, numerator, denominator);
                vector.source(T)
            });
            vector.release(V);
            vector.repeat(T, quotient);
            vector.load_dot(B, b);
            vector.multiply(T, B, A);
            vector.release(B);
        }
        match self.active_a() {
            Some(a) => vector.load_dot(A, a),
            None => vector.zero(A),
        }
        if self.active_b().is_some() {
            let product = vector.source(T);
            vector.update(Op::Sub, A, product);
            vector.release(T);
        }
        let denominator = vector.repeated_value(b, V);
        vector.divide(A, B, &[(V, denominator)]);
        A
    }

    /// `da / (2 sqrt(a))`
    fn square_root(&self, vector: &mut Vector<'_, '_>) -> Scratch {
        let root = self.twice_the_root(vector);
        vector.release(V);
        vector.load_dot(A, self.a);
        vector.divide(A, B, &[(T, root)]);
        A
    }

    /// `2 sqrt(a)`, in `T`.
    fn twice_the_root(&self, vector: &mut Vector<'_, '_>) -> Source {
        let root = vector.shared(|vector| {
            let value = vector.value(self.a, V);
            vector.sqrt(T, value);
            let root = vector.source(T);
            vector.update(Op::Add, T, root);
            root
        });
        vector.repeat(T, root)
    }

    /// `-da / (a a)`, also where the square is out of range.
    fn reciprocal(&self, vector: &mut Vector<'_, '_>) -> Scratch {
        let value = vector.repeated_value(self.a, V);
        vector.load_dot(A, self.a);
        // The quotient by NaN of a masked lane is masked once more.
        vector.divide(A, B, &[(V, value), (V, value)]);
        negated(vector)
    }

    /// `-da / (2 a sqrt(a))`
    fn reciprocal_square_root(&self, vector: &mut Vector<'_, '_>) -> Scratch {
        let root = self.twice_the_root(vector);
        let value = vector.repeated_value(self.a, V);
        // In a register of its own: there are four.
        vector.zero(A);
        vector.load_dot(B, self.a);
        let dot = vector.source(B);
        vector.update(Op::Add, A, dot);
        vector.release(B);
        vector.divide(A, B, &[(V, value), (T, root)]);
        negated(vector)
    }

    /// `a < b ? da : db`, or `a > b`: as x86 has it, the second operand if the two are equal or unordered.
    fn selection(&self, vector: &mut Vector<'_, '_>) -> Scratch {
        let mask = vector.shared(|vector| {
            let (a, b) = (vector.value(self.a, T), vector.value(self.second(), V));
            if self.operation == RealOperation::Min {
                vector.op(Op::Less, T, a, b);
            } else {
                // `b < a` into B, which neither of them is in.
                vector.op(Op::Less, B, b, a);
                let mask = vector.source(B);
                vector.op(Op::Or, T, mask, mask);
                vector.release(B);
            }
            vector.source(T)
        });
        vector.release(V);
        let mask = vector.repeat(T, mask);
        if let Some(a) = self.active_a() {
            vector.load_dot(A, a);
            vector.update(Op::And, A, mask);
        }
        if let Some(b) = self.active_b() {
            vector.load_dot(B, b);
            let dot = vector.source(B);
            vector.update(Op::AndNot, T, dot);
            if self.active_a().is_none() {
                return T;
            }
            let other = vector.source(T);
            vector.update(Op::Or, A, other);
        }
        A
    }
}

/// `B = 0 - A`
fn negated(vector: &mut Vector<'_, '_>) -> Scratch {
    vector.release(V);
    vector.release(T);
    vector.zero(B);
    let dot = vector.source(A);
    vector.update(Op::Sub, B, dot);
    B
}

#[cfg(test)]
mod tests {
    use iced_x86::{Code, Instruction, MemoryOperand, Register};

    use super::*;
    use crate::analysis::passivity::Assumptions;
    use crate::analysis::{RegisterSet, passivity};
    use crate::lift::lift;

    /// Operation, width and number of lanes of each group of an instruction.
    fn groups(instruction: Instruction) -> Vec<(RealOperation, Width, usize)> {
        let assumptions = Assumptions { assumed: RegisterSet::NONE, constant: &|_, _| false };
        let steps = passivity::remaining(&lift(&[instruction]).operations, &assumptions);
        let mut rest = &steps[..];
        let mut groups = Vec::new();
        while !rest.is_empty() {
            let Some(group) = Group::first(rest) else {
                rest = &rest[1..];
                continue;
            };
            groups.push((group.operation, group.width, group.count));
            rest = &rest[group.count..];
        }
        groups
    }

    #[test]
    fn lanes_of_an_instruction_are_computed_together() {
        use RealOperation::{Add, Mul, Sub};
        let memory = MemoryOperand::with_base(Register::RDI);
        let scalar = Instruction::with2(Code::Mulsd_xmm_xmmm64, Register::XMM1, memory).unwrap();
        assert_eq!(groups(scalar), [(Mul, Width::Scalar, 1)]);
        let packed = Instruction::with2(Code::Mulps_xmm_xmmm128, Register::XMM1, Register::XMM2).unwrap();
        assert_eq!(groups(packed), [(Mul, Width::Xmm, 4)]);
        // Neighbouring lanes are not corresponding ones.
        let horizontal = Instruction::with2(Code::Haddpd_xmm_xmmm128, Register::XMM1, Register::XMM2).unwrap();
        assert_eq!(groups(horizontal), [(Add, Width::Scalar, 1), (Add, Width::Scalar, 1)]);
        let alternating = Instruction::with2(Code::Addsubpd_xmm_xmmm128, Register::XMM1, Register::XMM2).unwrap();
        assert_eq!(groups(alternating), [(Sub, Width::Scalar, 1), (Add, Width::Scalar, 1)]);
        if !registers::has_avx() {
            return;
        }
        let [a, b, c] = [Register::YMM1, Register::YMM2, Register::YMM3];
        let wide = Instruction::with3(Code::VEX_Vmulpd_ymm_ymm_ymmm256, a, b, c).unwrap();
        assert_eq!(groups(wide), [(Mul, Width::Ymm, 4)]);
        let fused = Instruction::with3(Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256, a, b, c).unwrap();
        assert_eq!(groups(fused), [(Mul, Width::Ymm, 4), (Add, Width::Ymm, 4)]);
    }
}
