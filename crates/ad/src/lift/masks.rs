//! Write masks, memory operands that are read under them, and memory operands of which one element is broadcast.

use iced_x86::{EncodingKind, Instruction, Mnemonic, OpKind};

use super::Lifter;
use crate::ir::{Address, Effect, Mask, Place, Span};
use crate::shadow;

/// The mask under which an instruction writes its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteMask {
    /// Number of the mask register.
    register: u8,
    zeroing: bool,
}

impl WriteMask {
    /// That of an instruction. Masks of comparisons, whose result is a mask itself, and of blends, where they select, are none.
    pub(super) fn of(instruction: &Instruction) -> Option<WriteMask> {
        use Mnemonic::*;
        let selects =
            matches!(instruction.mnemonic(), Vblendmps | Vblendmpd | Vpblendmb | Vpblendmw | Vpblendmd | Vpblendmq);
        if !instruction.has_op_mask() || selects || instruction.op0_register().is_k() {
            return None;
        }
        Some(WriteMask { register: instruction.op_mask().number() as u8, zeroing: instruction.zeroing_masking() })
    }
}

/// Bytes of an element of the destination, and how many elements are written: what follows them in a register is cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Elements {
    bytes: u16,
    count: u16,
    /// Whether one depends on several elements of a source.
    mixed: bool,
}

impl Lifter<'_> {
    /// Whether a move of elements takes more than a copy: it has a mask, or its memory operand is broadcast.
    pub(super) fn moves_elements(&self) -> bool {
        self.instruction.has_op_mask() || self.instruction.is_broadcast()
    }

    /// The mask for an effect on elements of so many bytes, from element `first` of the destination on.
    pub(super) fn mask_from(&self, first: u16, element: u16) -> Option<Mask> {
        let WriteMask { register, zeroing } = self.mask?;
        Some(Mask { register, bit: first as u8, element: element as u8, zeroing })
    }

    /// Adds an effect on one lane of the destination under the instruction's mask.
    pub(super) fn push_lane(&mut self, effect: Effect, lane: u16) {
        let bytes = effect.target().map_or(0, |target| target.bytes);
        let mask = self.mask_from(lane, bytes);
        self.push_under(effect, mask);
    }

    /// Makes the destination passive under the instruction's mask, and what it clears behind.
    pub(super) fn clear_destination(&mut self) {
        let Some(target) = self.operand(0) else { return };
        let elements = self.elements(target);
        let written = target.part(0, elements.bytes * elements.count);
        match self.mask_from(0, elements.bytes) {
            Some(mask) if !mask.zeroing => self.push_under(Effect::Clear { target: written }, Some(mask)),
            _ => self.clear(written),
        }
        let until = self.cleared_until(0, target.bytes);
        self.clear(Span::new(target.place.advanced(written.bytes), until - written.bytes));
    }

    /// The mask for an effect on all of the destination.
    pub(super) fn whole_mask(&self) -> Option<Mask> {
        let target = self.operand(0)?;
        self.mask_from(0, self.elements(target).bytes)
    }

    /// Notes an operand as lost if it is active where the mask lets it have influence.
    pub(super) fn lost(&mut self, source: Span) {
        let elements = self.operand(0).filter(|_| self.mask.is_some()).map(|target| self.elements(target));
        let element = elements.filter(|elements| !elements.mixed).map_or(0, |elements| source.bytes / elements.count);
        let Some(mask) = self.mask_from(0, element).filter(|mask| mask.element != 0) else {
            return self.push(Effect::Lost { source });
        };
        let temporary = self.temporary(source.bytes);
        let copy = Effect::Copy { target: temporary, source: source.place, bytes: source.bytes };
        self.push_under(copy, Some(Mask { zeroing: true, ..mask }));
        self.push(Effect::Lost { source: Span::new(temporary, source.bytes) });
    }

    /// Lets effects find the memory operand at [`shadow::OPERAND`], if it is read under a mask or broadcast.
    pub(super) fn fetch(&mut self) {
        let instruction = self.instruction;
        let memory = (0..instruction.op_count()).find(|&operand| instruction.op_kind(operand) == OpKind::Memory);
        // The processor reads the count of a shift as a whole.
        let done = self.fetched.is_some();
        if done || !self.moves_elements() || self.shifts_by_count() || memory.is_none_or(|operand| operand == 0) {
            return;
        }
        let (size, whole) = (instruction.memory_size(), instruction.code().op_code().memory_size().size() as u16);
        let elements = self.operand(0).map(|target| (target.bytes, self.elements(target)));
        let element = match elements {
            _ if instruction.is_broadcast() => size.size(),
            Some((bytes, elements)) if bytes == whole && !self.narrows() => elements.bytes.into(),
            _ => size.element_size(),
        } as u16;
        let source = Span::new(Place::Memory { base: Address::Operand, offset: 0 }, size.size() as u16);
        let bytes = if instruction.is_broadcast() { whole } else { source.bytes };
        let target = Span::new(Place::Register(shadow::OPERAND), bytes);
        // Where elements are mixed the processor reads all of them.
        let mixed = elements.is_some_and(|(_, elements)| elements.mixed);
        let mask = self.mask_from(0, element).filter(|_| !mixed).map(|mask| Mask { zeroing: true, ..mask });
        self.push_under(Effect::Fetch { target, source, element: element as u8 }, mask);
        self.fetched = Some(target.bytes);
    }

    /// Whether the elements of the destination are smaller than those of the source, and fill only a part of it.
    fn narrows(&self) -> bool {
        matches!(pattern(self.instruction.mnemonic()), Some(Pattern::Narrowing(_)))
    }

    /// Whether all elements are shifted by one number, in a register or memory.
    fn shifts_by_count(&self) -> bool {
        use Mnemonic::*;
        let shifts = [Vpsllw, Vpslld, Vpsllq, Vpsrlw, Vpsrld, Vpsrlq, Vpsraw, Vpsrad, Vpsraq];
        shifts.contains(&self.instruction.mnemonic()) && self.data_operands() == 3
    }

    /// The elements of the destination that a mask selects.
    fn elements(&self, target: Span) -> Elements {
        use Pattern::{Filled, Lowest, Mixed, Narrowing};
        let code = self.instruction.code();
        if code.encoding() != EncodingKind::EVEX {
            return Elements { bytes: target.bytes, count: 1, mixed: false };
        }
        let memory = code.op_code().memory_size().info();
        let (size, element) = (memory.size() as u16, memory.element_size() as u16);
        if self.shifts_by_count() {
            return Elements { bytes: element, count: target.bytes / element, mixed: true };
        }
        let lanes = size.checked_div(element).map_or(1, |lanes| lanes.max(1));
        let (bytes, count) = match pattern(self.instruction.mnemonic()) {
            Some(Narrowing(bytes)) => (bytes, lanes.min(target.bytes / bytes)),
            Some(Filled(bytes) | Mixed(bytes)) => (bytes, target.bytes / bytes),
            Some(Lowest(bytes)) => (bytes, 1),
            None if lanes == 1 => (if element == 0 { target.bytes } else { element.min(target.bytes) }, 1),
            None => (target.bytes / lanes, lanes),
        };
        let mixed = matches!(pattern(self.instruction.mnemonic()), Some(Mixed(_)));
        Elements { bytes, count: count.max(1), mixed }
    }
}

/// How the elements of the destination, of so many bytes, come from those of the sources, where these are not the memory operand's elements one by one
/// in the full width of the destination.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// One by one, into a part of the destination: conversions to smaller formats.
    Narrowing(u16),
    /// One by one; the processor's manual counts the memory operand in smaller elements.
    Filled(u16),
    /// Only the lowest one is computed; the manual counts the memory operand in elements of another size.
    Lowest(u16),
    /// An element depends on several ones.
    Mixed(u16),
}

fn pattern(mnemonic: Mnemonic) -> Option<Pattern> {
    use Mnemonic::*;
    use Pattern::{Filled, Lowest, Mixed, Narrowing};
    Some(match mnemonic {
        Vcvtpd2dq | Vcvttpd2dq | Vcvtpd2udq | Vcvttpd2udq | Vcvtqq2ps | Vcvtuqq2ps | Vcvtpd2ps | Vpmovqd | Vpmovsqd
        | Vpmovusqd => Narrowing(4),
        Vpmovqw | Vpmovsqw | Vpmovusqw | Vpmovdw | Vpmovsdw | Vpmovusdw | Vcvtps2ph | Vcvtps2phx | Vcvtpd2ph
        | Vcvtdq2ph | Vcvtudq2ph | Vcvtqq2ph | Vcvtuqq2ph | Vcvtneps2bf16 => Narrowing(2),
        Vpmovqb | Vpmovsqb | Vpmovusqb | Vpmovdb | Vpmovsdb | Vpmovusdb | Vpmovwb | Vpmovswb | Vpmovuswb => {
            Narrowing(1)
        }
        Vpmuldq | Vpmuludq => Filled(8),
        Vpdpbusd | Vpdpbusds | Vpdpwssd | Vpdpwssds | Vdpbf16ps | Vfmulcph | Vfcmulcph | Vfmaddcph | Vfcmaddcph => {
            Filled(4)
        }
        Vfmulcsh | Vfcmulcsh | Vfmaddcsh | Vfcmaddcsh => Lowest(4),
        Vcvtss2sh | Vcvtsd2sh => Lowest(2),
        Vpmaddwd => Mixed(4),
        Vpackssdw | Vpackusdw | Vpmaddubsw | Vdbpsadbw | Vcvtne2ps2bf16 => Mixed(2),
        Vpacksswb | Vpackuswb | Vpmultishiftqb | Vgf2p8affineqb | Vgf2p8affineinvqb => Mixed(1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use iced_x86::{Code, MemoryOperand, Register};

    use super::*;
    use crate::analysis::passivity::{self, Assumptions};
    use crate::analysis::{RegisterSet, liveness};
    use crate::ir::{Operation, RealOperation};
    use crate::lift::lift;

    const ZMM: [Register; 3] = [Register::ZMM1, Register::ZMM2, Register::ZMM3];

    fn masked(mut instruction: Instruction, mask: Register, zeroing: bool) -> Instruction {
        instruction.set_op_mask(mask);
        instruction.set_zeroing_masking(zeroing);
        instruction
    }

    fn sum() -> Instruction {
        Instruction::with3(Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er, ZMM[0], ZMM[1], ZMM[2]).unwrap()
    }

    fn sum_with_memory() -> Instruction {
        let memory = MemoryOperand::with_base(Register::RDI);
        Instruction::with3(Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er, ZMM[0], ZMM[1], memory).unwrap()
    }

    fn operations(instruction: Instruction) -> Vec<Operation> {
        lift(&[instruction]).operations
    }

    #[test]
    fn each_lane_has_its_bit() {
        for (zeroing, expected) in [(false, false), (true, true)] {
            let operations = operations(masked(sum(), Register::K3, zeroing));
            assert_eq!(operations.len(), 8);
            for (lane, operation) in operations.iter().enumerate() {
                assert!(matches!(operation.effect, Effect::Real { operation: RealOperation::Add, .. }));
                let mask = operation.mask.unwrap();
                assert_eq!((mask.register, usize::from(mask.bit), mask.element, mask.zeroing), (3, lane, 8, expected));
            }
        }
        assert!(operations(sum()).iter().all(|operation| operation.mask.is_none()));
    }

    #[test]
    fn memory_under_a_mask_is_fetched_first() {
        let operations = operations(masked(sum_with_memory(), Register::K2, false));
        let Effect::Fetch { target, source, element } = operations[0].effect else { panic!("{:?}", operations[0]) };
        assert_eq!((target.bytes, source.bytes, element), (64, 64, 8));
        assert!(source.place.is_memory());
        assert!(operations[0].mask.is_some_and(|mask| mask.zeroing), "what is not read is passive");
        let reads_memory =
            |operation: &Operation| operation.effect.sources().into_iter().flatten().any(|it| it.place.is_memory());
        assert!(!operations[1..].iter().any(reads_memory));
    }

    #[test]
    fn a_broadcast_element_is_fetched_for_all_lanes() {
        let mut broadcast = sum_with_memory();
        broadcast.set_is_broadcast(true);
        let lifted = lift(&[broadcast]).operations;
        let Effect::Fetch { target, source, .. } = lifted[0].effect else { panic!("{:?}", lifted[0]) };
        assert_eq!((target.bytes, source.bytes, lifted[0].mask), (64, 8, None));
        // A constant is fetched, since its value may be needed, but has no shadow.
        let assumptions = Assumptions { assumed: RegisterSet::NONE, constant: &|_, _| true };
        let steps = passivity::remaining(&lifted, &assumptions);
        assert_eq!(steps.len(), 9);
        assert!(steps[1..].iter().all(|step| step.passive == [false, true]));
    }

    #[test]
    fn merging_keeps_what_was_there() {
        let load =
            Instruction::with2(Code::EVEX_Vmovupd_zmm_k1z_zmmm512, ZMM[0], MemoryOperand::with_base(Register::RSI))
                .unwrap();
        let observable = |zeroing| {
            let lifted = lift(&[load, masked(sum(), Register::K1, zeroing)]);
            let kept = liveness::observable(&lifted.operations);
            kept.iter().filter(|operation| operation.instruction == 0).count()
        };
        assert_eq!((observable(false), observable(true)), (1, 0));
        // Passive sums make a register passive only where the mask is set.
        let assumptions = Assumptions {
            assumed: [1, 2].into_iter().fold(RegisterSet::NONE, |mut set, number| {
                set.insert(shadow::Range { offset: shadow::vector(number + 1), bytes: 64 });
                set
            }),
            constant: &|_, _| false,
        };
        let use_it = Instruction::with2(Code::EVEX_Vmovapd_zmmm512_k1z_zmm, Register::ZMM7, ZMM[0]).unwrap();
        let lifted = lift(&[masked(sum(), Register::K1, false), use_it]);
        let steps = passivity::remaining(&lifted.operations, &assumptions);
        assert!(
            steps[..8]
                .iter()
                .all(|step| matches!(step.operation.effect, Effect::Clear { .. }) && step.operation.mask.is_some())
        );
        assert!(matches!(steps[8].operation.effect, Effect::Copy { .. }), "{:?}", steps[8]);
    }

    #[test]
    fn narrowing_conversions_have_elements_of_the_result() {
        let to_integers =
            Instruction::with2(Code::EVEX_Vcvtpd2dq_xmm_k1z_xmmm128b64, Register::XMM1, Register::XMM2).unwrap();
        let operations = operations(masked(to_integers, Register::K1, false));
        let Effect::Clear { target } = operations[0].effect else { panic!("{:?}", operations[0]) };
        assert_eq!((target.bytes, operations[0].mask.map(|mask| mask.element)), (8, Some(4)));
        let Effect::Clear { target } = operations[1].effect else { panic!("{:?}", operations[1]) };
        assert_eq!((target.bytes, operations[1].mask), (56, None));
    }

    #[test]
    fn a_comparison_into_a_mask_is_not_one_under_a_mask() {
        let compare =
            Instruction::with4(Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, Register::K1, ZMM[0], ZMM[1], 1)
                .unwrap();
        let operations = operations(masked(compare, Register::K2, false));
        assert_eq!(operations.len(), 1);
        assert_eq!(operations[0].mask, None);
    }

    #[test]
    fn moves_under_a_mask_are_made_once_more_on_shadow() {
        let load =
            Instruction::with2(Code::EVEX_Vmovupd_zmm_k1z_zmmm512, ZMM[0], MemoryOperand::with_base(Register::RSI))
                .unwrap();
        let operations = operations(masked(load, Register::K1, false));
        assert!(matches!(operations[..], [Operation { effect: Effect::Replay { data: 0b11, masked: true, .. }, .. }]));
        // The first operand of this one is the selector.
        let select = Instruction::with3(Code::EVEX_Vpermi2pd_zmm_k1z_zmm_zmmm512b64, ZMM[0], ZMM[1], ZMM[2]).unwrap();
        let operations = lift(&[masked(select, Register::K1, false)]).operations;
        assert!(matches!(operations[..], [Operation { effect: Effect::Replay { data: 0b110, .. }, .. }]));
    }
}
