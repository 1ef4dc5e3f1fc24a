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
            Some((bytes, elements)) if bytes == whole => elements.bytes.into(),
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

    /// Whether all elements are shifted by one number, in a register or memory.
    fn shifts_by_count(&self) -> bool {
        use Mnemonic::*;
        let shifts = [Vpsllw, Vpslld, Vpsllq, Vpsrlw, Vpsrld, Vpsrlq, Vpsraw, Vpsrad, Vpsraq];
        shifts.contains(&self.instruction.mnemonic()) && self.data_operands() == 3
    }

    /// The elements of the destination that a mask selects.
    fn elements(&self, target: Span) -> Elements {
        use Pattern::{Filled, Mixed, Narrowing};
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
    /// An element depends on several ones.
    Mixed(u16),
}

fn pattern(mnemonic: Mnemonic) -> Option<Pattern> {
    use Mnemonic::*;
    use Pattern::{Filled, Mixed, Narrowing};
    Some(match mnemonic {
        Vcvtpd2dq | Vcvttpd2dq | Vcvtpd2udq | Vcvttpd2udq | Vcvtqq2ps | Vcvtuqq2ps | Vcvtpd2ps | Vpmovqd | Vpmovsqd
        | Vpmovusqd => Narrowing(4),
        Vpmovqw | Vpmovsqw | Vpmovusqw | Vpmovdw | Vpmovsdw | Vpmovusdw | Vcvtps2ph | Vcvtneps2bf16 => Narrowing(2),
        Vpmovqb | Vpmovsqb | Vpmovusqb | Vpmovdb | Vpmovsdb | Vpmovusdb | Vpmovwb | Vpmovswb | Vpmovuswb => {
            Narrowing(1)
        }
        Vpmuldq | Vpmuludq => Filled(8),
        Vpdpbusd | Vpdpbusds | Vpdpwssd | Vpdpwssds | Vdpbf16ps => Filled(4),
        Vpmaddwd => Mixed(4),
        Vpackssdw | Vpackusdw | Vpmaddubsw | Vdbpsadbw | Vcvtne2ps2bf16 => Mixed(2),
        Vpacksswb | Vpackuswb | Vpmultishiftqb | Vgf2p8affineqb | Vgf2p8affineinvqb => Mixed(1),
        _ => return None,
    })
}
