//! Effects under a mask register (AVX-512), by masked loads and stores of shadow.

use derivgrind_engine::translate::{Emitter, registers};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

use crate::ir::{Mask, Place, Span};
use crate::shadow::{OPERAND, VECTOR_BYTES};

use super::layout::{elements, fetched, file, layers};
use super::places::Shadow;

/// Codes of masked loads and stores in the widths of XMM, YMM and ZMM registers.
struct Codes {
    load: [Code; 3],
    store: [Code; 3],
    broadcast: [Code; 3],
}

const BYTES: Codes = Codes {
    load: [
        Code::EVEX_Vmovdqu8_xmm_k1z_xmmm128,
        Code::EVEX_Vmovdqu8_ymm_k1z_ymmm256,
        Code::EVEX_Vmovdqu8_zmm_k1z_zmmm512,
    ],
    store: [
        Code::EVEX_Vmovdqu8_xmmm128_k1z_xmm,
        Code::EVEX_Vmovdqu8_ymmm256_k1z_ymm,
        Code::EVEX_Vmovdqu8_zmmm512_k1z_zmm,
    ],
    broadcast: [
        Code::EVEX_Vpbroadcastb_xmm_k1z_xmmm8,
        Code::EVEX_Vpbroadcastb_ymm_k1z_xmmm8,
        Code::EVEX_Vpbroadcastb_zmm_k1z_xmmm8,
    ],
};
const WORDS: Codes = Codes {
    load: [
        Code::EVEX_Vmovdqu16_xmm_k1z_xmmm128,
        Code::EVEX_Vmovdqu16_ymm_k1z_ymmm256,
        Code::EVEX_Vmovdqu16_zmm_k1z_zmmm512,
    ],
    store: [
        Code::EVEX_Vmovdqu16_xmmm128_k1z_xmm,
        Code::EVEX_Vmovdqu16_ymmm256_k1z_ymm,
        Code::EVEX_Vmovdqu16_zmmm512_k1z_zmm,
    ],
    broadcast: [
        Code::EVEX_Vpbroadcastw_xmm_k1z_xmmm16,
        Code::EVEX_Vpbroadcastw_ymm_k1z_xmmm16,
        Code::EVEX_Vpbroadcastw_zmm_k1z_xmmm16,
    ],
};
const DWORDS: Codes = Codes {
    load: [
        Code::EVEX_Vmovdqu32_xmm_k1z_xmmm128,
        Code::EVEX_Vmovdqu32_ymm_k1z_ymmm256,
        Code::EVEX_Vmovdqu32_zmm_k1z_zmmm512,
    ],
    store: [
        Code::EVEX_Vmovdqu32_xmmm128_k1z_xmm,
        Code::EVEX_Vmovdqu32_ymmm256_k1z_ymm,
        Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm,
    ],
    broadcast: [
        Code::EVEX_Vpbroadcastd_xmm_k1z_xmmm32,
        Code::EVEX_Vpbroadcastd_ymm_k1z_xmmm32,
        Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
    ],
};
const QWORDS: Codes = Codes {
    load: [
        Code::EVEX_Vmovdqu64_xmm_k1z_xmmm128,
        Code::EVEX_Vmovdqu64_ymm_k1z_ymmm256,
        Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512,
    ],
    store: [
        Code::EVEX_Vmovdqu64_xmmm128_k1z_xmm,
        Code::EVEX_Vmovdqu64_ymmm256_k1z_ymm,
        Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm,
    ],
    broadcast: [
        Code::EVEX_Vpbroadcastq_xmm_k1z_xmmm64,
        Code::EVEX_Vpbroadcastq_ymm_k1z_xmmm64,
        Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64,
    ],
};

fn codes(element: u8) -> &'static Codes {
    match element {
        1 => &BYTES,
        2 => &WORDS,
        4 => &DWORDS,
        _ => &QWORDS,
    }
}

/// Position in [`Codes`] of the smallest register that holds so many bytes.
fn width(bytes: u16) -> usize {
    match bytes {
        0..=16 => 0,
        17..=32 => 1,
        _ => 2,
    }
}

/// A scratch register, given as its XMM form, in that width.
fn widened(xmm: Register, width: usize) -> Register {
    [registers::xmm, registers::ymm, registers::zmm][width](xmm.number())
}

/// Elements of a register or memory, some of which are moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements {
    /// Bytes of all elements.
    pub bytes: u16,
    /// Bytes of an element.
    pub element: u8,
    /// Number of the mask register that selects them; all are selected if there is none.
    pub mask: Option<u8>,
}

impl Elements {
    /// Those that a mask, which begins at bit 0, selects in so many bytes.
    pub(super) fn under(mask: Mask, bytes: u16) -> Elements {
        debug_assert_eq!(mask.bit, 0);
        Elements { bytes, element: mask.element, mask: Some(mask.register) }
    }

    fn register(&self, xmm: Register) -> Register {
        widened(xmm, width(self.bytes))
    }

    /// Emits `instruction`, a load into or a store of [`Elements::register`], for the selected elements. Those that are not loaded become zero.
    fn push(&self, emitter: &mut Emitter<'_>, mut instruction: Instruction, loads: bool) {
        let count = self.bytes / u16::from(self.element);
        let register_bytes = 16 << width(self.bytes);
        let Some(mask) = self.mask else {
            debug_assert_eq!(self.bytes, register_bytes);
            emitter.asm().push(&instruction);
            return;
        };
        instruction.set_zeroing_masking(loads);
        let mask = Register::K0 + u32::from(mask);
        if self.bytes == register_bytes {
            instruction.set_op_mask(mask);
            emitter.asm().push(&instruction);
            return;
        }
        // The mask register may have more bits than there are elements.
        let limited = if mask == Register::K7 { Register::K6 } else { Register::K7 };
        emitter.put_mask_aside(limited);
        let bits = 64 - i32::from(count);
        for (code, from) in [(Code::VEX_Kshiftlq_kr_kr_imm8, mask), (Code::VEX_Kshiftrq_kr_kr_imm8, limited)] {
            let shift = Instruction::with3(code, limited, from, bits);
            emitter.asm().push(&shift.expect("kshift takes registers and a constant"));
        }
        instruction.set_op_mask(limited);
        emitter.asm().push(&instruction);
        emitter.bring_mask_back();
    }

    /// Loads the selected elements into a scratch register; the others become zero.
    pub(super) fn load(&self, emitter: &mut Emitter<'_>, xmm: Register, memory: MemoryOperand) {
        let code = codes(self.element).load[width(self.bytes)];
        let load = Instruction::with2(code, self.register(xmm), memory);
        self.push(emitter, load.expect("a load takes register and memory"), true);
    }

    /// Loads one element into all selected ones.
    fn broadcast(&self, emitter: &mut Emitter<'_>, xmm: Register, memory: MemoryOperand) {
        let code = codes(self.element).broadcast[width(self.bytes)];
        let load = Instruction::with2(code, self.register(xmm), memory);
        self.push(emitter, load.expect("a load takes register and memory"), true);
    }

    /// Stores the selected elements of a scratch register.
    pub(super) fn store(&self, emitter: &mut Emitter<'_>, memory: MemoryOperand, xmm: Register) {
        let code = codes(self.element).store[width(self.bytes)];
        let store = Instruction::with2(code, memory, self.register(xmm));
        self.push(emitter, store.expect("a store takes memory and register"), false);
    }
}

/// `vmovups memory, register` of all 64 bytes of a scratch register.
fn store_whole(emitter: &mut Emitter<'_>, memory: MemoryOperand, xmm: Register) {
    let store = Instruction::with2(Code::EVEX_Vmovups_zmmm512_k1z_zmm, memory, registers::zmm(xmm.number()));
    emitter.asm().push(&store.expect("a store takes memory and register"));
}

/// Puts zeros into a scratch register.
fn zero(emitter: &mut Emitter<'_>, xmm: Register) {
    let zero = Instruction::with3(Code::VEX_Vpxor_xmm_xmm_xmmm128, xmm, xmm, xmm);
    emitter.asm().push(&zero.expect("vpxor takes registers"));
}

/// Expands a mask: see [`super::layout::Fields::elements`]. Uses the first scratch vector register.
pub(super) fn expand(emitter: &mut Emitter<'_>, mask: Mask) {
    let scratch = emitter.scratch_vector(0);
    let all = registers::zmm(scratch.number());
    let mut ones = if mask.element == 4 {
        Instruction::with4(Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8, all, all, all, 0xff)
    } else {
        Instruction::with4(Code::EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8, all, all, all, 0xff)
    }
    .expect("vpternlog takes registers and a constant");
    ones.set_op_mask(Register::K0 + u32::from(mask.register));
    ones.set_zeroing_masking(true);
    emitter.asm().push(&ones);
    store_whole(emitter, elements(0), scratch);
}

/// A memory operand that is read under a mask, or one element of it for all lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetch {
    pub target: Span,
    pub source: Span,
    pub element: u8,
    pub mask: Option<Mask>,
}

impl Fetch {
    fn load(&self, emitter: &mut Emitter<'_>, xmm: Register, memory: MemoryOperand) {
        let mask = self.mask.map(|mask| mask.register);
        let elements = Elements { bytes: self.target.bytes, element: self.element, mask };
        if self.source.bytes < self.target.bytes {
            elements.broadcast(emitter, xmm, memory);
        } else {
            elements.load(emitter, xmm, memory);
        }
    }

    /// Puts value and shadow where other effects find them. `passive`: there is no shadow.
    pub(super) fn emit(&self, emitter: &mut Emitter<'_>, index: usize, passive: bool) {
        let scratch = emitter.scratch_vector(0);
        let memory = emitter.application_memory(index, 0);
        self.load(emitter, scratch, memory);
        store_whole(emitter, fetched(OPERAND), scratch);
        if passive {
            zero(emitter, scratch);
            layers().for_each(|layer| store_whole(emitter, file(layer, OPERAND), scratch));
        } else {
            self.emit_shadow(emitter, index, scratch);
        }
    }

    /// Puts shadow where other effects find it.
    pub(super) fn emit_shadow(&self, emitter: &mut Emitter<'_>, index: usize, scratch: Register) {
        let shadow = Shadow::of(emitter, index, self.source.place);
        for layer in layers() {
            let memory = shadow.in_layer(emitter, layer);
            self.load(emitter, scratch, memory);
            store_whole(emitter, file(layer, OPERAND), scratch);
        }
    }
}

/// Makes the selected elements of a span passive.
pub(super) fn clear(emitter: &mut Emitter<'_>, index: usize, target: Span, mask: Mask, scratch: Register) {
    zero(emitter, scratch);
    let shadow = Shadow::of(emitter, index, target.place);
    for layer in layers() {
        let memory = shadow.in_layer(emitter, layer);
        Elements::under(mask, target.bytes).store(emitter, memory, scratch);
    }
}

/// Copies the selected elements' shadow; with a zeroing mask the others become passive.
pub(super) fn copy(emitter: &mut Emitter<'_>, index: usize, target: Span, source: Place, mask: Mask) {
    debug_assert!(target.bytes <= VECTOR_BYTES);
    let scratch = emitter.scratch_vector(0);
    let (from, to) = (Shadow::of(emitter, index, source), Shadow::of(emitter, index, target.place));
    let elements = Elements::under(mask, target.bytes);
    for layer in layers() {
        let memory = from.in_layer(emitter, layer);
        elements.load(emitter, scratch, memory);
        let memory = to.in_layer(emitter, layer);
        let stored = if mask.zeroing && [16, 32, 64].contains(&target.bytes) { None } else { elements.mask };
        if mask.zeroing && stored.is_some() {
            // A few bytes: what is not selected is cleared first.
            super::places::clear(emitter, index, target);
        }
        Elements { mask: stored, ..elements }.store(emitter, memory, scratch);
    }
}

/// Makes one element of a register passive if its bit is set, by the expanded mask.
pub(super) fn clear_element(emitter: &mut Emitter<'_>, index: usize, target: Span, mask: Mask) {
    let scratch = emitter.scratch_vector(0);
    let (load, store) = match target.bytes {
        4 => (Code::VEX_Vmovd_xmm_rm32, Code::VEX_Vmovd_rm32_xmm),
        _ => (Code::VEX_Vmovq_xmm_rm64, Code::VEX_Vmovq_rm64_xmm),
    };
    let shadow = Shadow::of(emitter, index, target.place);
    for layer in layers() {
        let memory = shadow.in_layer(emitter, layer);
        emitter.asm().push2m(load, scratch, elements(mask.offset()));
        // What is behind in the shadow register file is read, too, and goes nowhere.
        let keep = Instruction::with3(Code::VEX_Vpandn_xmm_xmm_xmmm128, scratch, scratch, memory);
        emitter.asm().push(&keep.expect("vpandn takes registers and memory"));
        emitter.asm().push(&Instruction::with2(store, memory, scratch).expect("a store takes memory and register"));
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Encoder};

    use super::*;

    #[test]
    fn codes_access_what_their_place_in_the_tables_says() {
        for element in [1u8, 2, 4, 8] {
            for width in 0..3 {
                let Codes { load, store, broadcast } = codes(element);
                for code in [load[width], store[width]] {
                    let memory = code.op_code().memory_size().info();
                    assert_eq!((memory.size(), memory.element_size()), (16 << width, element.into()), "{code:?}");
                    assert!(code.op_code().can_use_op_mask_register(), "{code:?}");
                }
                assert_eq!(broadcast[width].op_code().memory_size().size(), element.into());
                assert!(load[width].op_code().can_use_zeroing_masking());
                let decoded =
                    again(Instruction::with2(store[width], memory(), widened(Register::XMM5, width)).unwrap());
                assert_eq!((decoded.code(), decoded.op_mask()), (store[width], Register::K3));
            }
        }
    }

    fn memory() -> MemoryOperand {
        MemoryOperand::new(Register::RDI, Register::R9, 4, 0x140, 8, false, Register::GS)
    }

    /// An instruction under a mask, encoded and decoded.
    fn again(mut instruction: Instruction) -> Instruction {
        instruction.set_op_mask(Register::K3);
        let mut encoder = Encoder::new(64);
        encoder.encode(&instruction, 0).expect("it can be encoded");
        let decoded = Decoder::new(64, &encoder.take_buffer(), DecoderOptions::NONE).decode();
        assert_eq!((decoded.segment_prefix(), decoded.memory_displacement64()), (Register::GS, 0x140));
        decoded
    }
}
