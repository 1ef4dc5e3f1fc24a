//! Vector registers between the processor and the XSAVE image of a context, without XSAVE: that is several times faster, and x87 registers can
//! stay where they are.

use std::arch::x86_64::__cpuid_count;
use std::mem::offset_of;
use std::sync::OnceLock;

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::assembler::{Assembler, Condition};
use super::lent;
use super::operand::context_memory;
use super::registers::{xmm, ymm, zmm};
use super::trampolines::{compare_byte, with_context};
use crate::context::{Context, XSTATE_BV};

/// Offsets in the legacy area of an XSAVE image (Intel SDM volume 1, table 10-2).
const MXCSR: usize = 24;
const XMM: usize = 160;
/// The component bits of SSE and AVX.
const SSE_AND_AVX: i32 = 6;
/// The same and mask registers, upper halves of ZMM0 to ZMM15, and ZMM16 to ZMM31.
const UP_TO_AVX512: i32 = 0xe6;

/// Offsets of extended components in a standard XSAVE image; 0 for what the processor does not have.
#[derive(Clone, Copy, Debug)]
pub struct XsaveLayout {
    /// Upper halves of YMM0..YMM15.
    pub ymm_high: usize,
    /// Mask registers, 8 bytes each.
    pub masks: usize,
    /// Upper halves of ZMM0..ZMM15.
    pub zmm_high: usize,
    /// ZMM16..ZMM31.
    pub upper_zmm: usize,
}

/// The processor's layout (CPUID leaf 0xd).
pub fn xsave_layout() -> &'static XsaveLayout {
    static LAYOUT: OnceLock<XsaveLayout> = OnceLock::new();
    LAYOUT.get_or_init(|| {
        let offset = |component| xsave_offset(component, None);
        XsaveLayout { ymm_high: offset(2), masks: offset(5), zmm_high: offset(6), upper_zmm: offset(7) }
    })
}

/// Extended components that programs can save, up to AMX.
const COMPONENTS: usize = 20;

/// An extended component as CPUID leaf 0xd describes it.
#[derive(Clone, Copy, Debug, Default)]
struct Component {
    /// Offset in the standard format.
    offset: usize,
    bytes: usize,
    /// Whether it is aligned to 64 bytes in the compacted format.
    aligned: bool,
}

/// CPUID is slow on virtual machines.
fn components() -> &'static [Component; COMPONENTS] {
    static TABLE: OnceLock<[Component; COMPONENTS]> = OnceLock::new();
    TABLE.get_or_init(|| {
        const ALIGNED: u32 = 1 << 1;
        // SAFETY: cpuid is available on every amd64 processor.
        #[allow(unused_unsafe)]
        let leaf = |component| unsafe { __cpuid_count(0xd, component as u32) };
        let supported = leaf(0).eax;
        std::array::from_fn(|number| match leaf(number) {
            leaf if number >= 2 && supported & 1 << number != 0 => {
                Component { offset: leaf.ebx as usize, bytes: leaf.eax as usize, aligned: leaf.ecx & ALIGNED != 0 }
            }
            _ => Component::default(),
        })
    })
}

/// Offset of an extended component (2 to 7) in an XSAVE image: of the standard format, or of the compacted one with these components. 0 in the standard
/// format for one that the processor does not have.
pub fn xsave_offset(component: usize, compacted: Option<u64>) -> usize {
    const EXTENDED: usize = 576;
    let table = components();
    let Some(present) = compacted else { return table[component].offset };
    let start = |end: usize, component: &Component| if component.aligned { end.next_multiple_of(64) } else { end };
    let before = (2..component).filter(|&other| present & 1 << other != 0).map(|other| &table[other]);
    let end = before.fold(EXTENDED, |end, other| start(end, other) + other.bytes);
    start(end, &table[component])
}

/// Stores XMM or YMM registers and MXCSR.
pub(super) fn store(asm: &mut Assembler) {
    store_header(asm, SSE_AND_AVX);
    let avx = is_x86_feature_detected!("avx");
    store_xmm(asm, avx);
    if !avx {
        return;
    }
    store_ymm_high(asm);
    for number in 1..16 {
        push3(asm, Code::VEX_Vorps_ymm_ymm_ymmm256, ymm(0), ymm(0), ymm(number));
    }
    extract(asm, Code::VEX_Vextractf128_xmmm128_ymm_imm8, xmm(0), ymm(0));
    note_upper(asm, Code::VEX_Vptest_xmm_xmmm128, xmm(0));
}

/// The same for AVX-512: all 32 registers and the mask registers, but for those that the tool has.
pub(super) fn store_wide(asm: &mut Assembler) {
    let layout = xsave_layout();
    store_header(asm, UP_TO_AVX512);
    store_xmm(asm, true);
    store_ymm_high(asm);
    for number in 0..16 {
        let slot = slot(layout.zmm_high + 32 * number);
        let extract = Instruction::with3(Code::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8, slot, zmm(number), 1);
        asm.push(&extract.expect("vextractf64x4 takes memory, register and constant"));
    }
    unless_lent(asm, store_lendable);
    for number in 1..16 {
        push3(asm, Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, zmm(0), zmm(0), zmm(number));
    }
    extract(asm, Code::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8, ymm(1), zmm(0));
    extract(asm, Code::VEX_Vextractf128_xmmm128_ymm_imm8, xmm(2), ymm(0));
    push3(asm, Code::VEX_Vorps_ymm_ymm_ymmm256, ymm(1), ymm(1), ymm(2));
    note_upper(asm, Code::VEX_Vptest_ymm_ymmm256, ymm(1));
}

/// Stores ZMM16 to ZMM31 and the masks, which can be lent ([`super::lent`]).
pub(super) fn store_lendable(asm: &mut Assembler) {
    let layout = xsave_layout();
    for number in 16..32 {
        let slot = slot(layout.upper_zmm + 64 * (number - 16));
        asm.push(&move_to(Code::EVEX_Vmovups_zmmm512_k1z_zmm, slot, zmm(number)));
    }
    for number in 0..8 {
        let slot = slot(layout.masks + 8 * number as usize);
        asm.push(&move_to(mask_store(), slot, Register::K0 + number));
    }
}

/// Loads what [`store_lendable`] has stored.
pub(super) fn load_lendable(asm: &mut Assembler) {
    let layout = xsave_layout();
    for number in 16..32 {
        let slot = slot(layout.upper_zmm + 64 * (number - 16));
        asm.push2m(Code::EVEX_Vmovups_zmm_k1z_zmmm512, zmm(number), slot);
    }
    for number in 0..8 {
        asm.push2m(mask_load(), Register::K0 + number, slot(layout.masks + 8 * number as usize));
    }
}

/// The code, where the registers that can be lent are the application's. Changes the flags.
fn unless_lent(asm: &mut Assembler, code: impl FnOnce(&mut Assembler)) {
    let lent = asm.label();
    compare_byte(asm, offset_of!(Context, lent));
    asm.jump_if(Condition::NotEqual, lent);
    code(asm);
    asm.bind(lent);
}

/// XSAVE or XRSTOR of these components, without those whose registers the tool has: the image has their values. Changes RAX, RDX and the flags.
pub(super) fn transfer_whole(asm: &mut Assembler, code: Code, components: u32) {
    asm.constant(Register::RDX, 0);
    asm.constant(Register::RAX, u64::from(components & !lent::COMPONENTS));
    unless_lent(asm, |asm| asm.constant(Register::RAX, u64::from(components)));
    with_context(asm, code, offset_of!(Context, vector_state));
}

/// What [`transfer_whole`] has left out is in the image. Changes the flags.
pub(super) fn note_lent(asm: &mut Assembler) {
    let own = asm.label();
    compare_byte(asm, offset_of!(Context, lent));
    asm.jump_if(Condition::Equal, own);
    let note = Instruction::with2(Code::Or_rm32_imm32, slot(XSTATE_BV), lent::COMPONENTS);
    asm.push(&note.expect("or takes memory and constant"));
    asm.bind(own);
}

fn store_header(asm: &mut Assembler, components: i32) {
    with_context(asm, Code::Stmxcsr_m32, image(MXCSR));
    asm.store_constant(slot(XSTATE_BV), components);
}

fn store_xmm(asm: &mut Assembler, avx: bool) {
    let code = if avx { Code::VEX_Vmovups_xmmm128_xmm } else { Code::Movups_xmmm128_xmm };
    for number in 0..16 {
        asm.push(&move_to(code, slot(XMM + 16 * number), xmm(number)));
    }
}

fn store_ymm_high(asm: &mut Assembler) {
    let high = xsave_layout().ymm_high;
    for number in 0..16 {
        let slot = slot(high + 16 * number);
        let store = Instruction::with3(Code::VEX_Vextractf128_xmmm128_ymm_imm8, slot, ymm(number), 1);
        asm.push(&store.expect("vextractf128 takes memory, register and constant"));
    }
}

/// Notes whether the union of all upper parts, in `register`, is not zero, and leaves the registers in the state of `vzeroupper`.
fn note_upper(asm: &mut Assembler, test: Code, register: Register) {
    asm.push2(test, register, register);
    let set = Instruction::with1(Code::Setne_rm8, context_memory(offset_of!(Context, upper_in_use)));
    asm.push(&set.expect("setne takes memory"));
    asm.push(&Instruction::with(Code::VEX_Vzeroupper));
}

/// Loads what [`store`] has stored. Upper halves that are all zero are left in the state of `vzeroupper`, since legacy SSE code is slow
/// on many processors while they are not.
pub(super) fn load(asm: &mut Assembler) {
    if is_x86_feature_detected!("avx") {
        load_low_registers(asm, load_ymm_high);
    } else {
        load_xmm(asm, Code::Movups_xmm_xmmm128);
    }
    with_context(asm, Code::Ldmxcsr_m32, image(MXCSR));
}

/// Loads what [`store_wide`] has stored.
pub(super) fn load_wide(asm: &mut Assembler) {
    let layout = xsave_layout();
    unless_lent(asm, load_lendable);
    load_low_registers(asm, |asm| {
        load_ymm_high(asm);
        for number in 0..16 {
            let slot = slot(layout.zmm_high + 32 * number);
            insert(asm, Code::EVEX_Vinsertf64x4_zmm_k1z_zmm_ymmm256_imm8, zmm(number), slot);
        }
    });
    with_context(asm, Code::Ldmxcsr_m32, image(MXCSR));
}

/// Loads the lowest 16 registers, with `load_upper` only if their upper parts are in use.
fn load_low_registers(asm: &mut Assembler, load_upper: impl FnOnce(&mut Assembler)) {
    let (narrow, loaded) = (asm.label(), asm.label());
    compare_byte(asm, offset_of!(Context, upper_in_use));
    asm.jump_if(Condition::Equal, narrow);
    load_xmm(asm, Code::VEX_Vmovups_xmm_xmmm128);
    load_upper(asm);
    asm.jump(loaded);
    asm.bind(narrow);
    asm.push(&Instruction::with(Code::VEX_Vzeroupper));
    load_xmm(asm, Code::Movups_xmm_xmmm128);
    asm.bind(loaded);
}

fn load_xmm(asm: &mut Assembler, code: Code) {
    for number in 0..16 {
        asm.push2m(code, xmm(number), slot(XMM + 16 * number));
    }
}

fn load_ymm_high(asm: &mut Assembler) {
    let high = xsave_layout().ymm_high;
    for number in 0..16 {
        insert(asm, Code::VEX_Vinsertf128_ymm_ymm_xmmm128_imm8, ymm(number), slot(high + 16 * number));
    }
}

/// The instruction that stores a whole mask register.
pub(super) fn mask_store() -> Code {
    if is_x86_feature_detected!("avx512bw") { Code::VEX_Kmovq_m64_kr } else { Code::VEX_Kmovw_m16_kr }
}

/// The instruction that loads a whole mask register.
pub(super) fn mask_load() -> Code {
    if is_x86_feature_detected!("avx512bw") { Code::VEX_Kmovq_kr_km64 } else { Code::VEX_Kmovw_kr_km16 }
}

fn move_to(code: Code, slot: MemoryOperand, register: Register) -> Instruction {
    Instruction::with2(code, slot, register).expect("move takes memory and register")
}

fn insert(asm: &mut Assembler, code: Code, register: Register, upper: MemoryOperand) {
    let insert = Instruction::with4(code, register, register, upper, 1);
    asm.push(&insert.expect("an insertion takes registers, memory and constant"));
}

fn extract(asm: &mut Assembler, code: Code, to: Register, from: Register) {
    let extract = Instruction::with3(code, to, from, 1);
    asm.push(&extract.expect("an extraction takes registers and constant"));
}

fn push3(asm: &mut Assembler, code: Code, a: Register, b: Register, c: Register) {
    asm.push(&Instruction::with3(code, a, b, c).expect("code takes registers"));
}

/// Offset in the context of a byte of the image.
fn image(offset: usize) -> usize {
    offset_of!(Context, vector_state) + offset
}

/// A place in the image.
fn slot(offset: usize) -> MemoryOperand {
    context_memory(image(offset))
}
