//! The way into the code cache and out of it, as machine code made at start-up (it needs the context's distance from FS).

use std::arch::x86_64::__cpuid_count;
use std::mem::offset_of;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::assembler::{Assembler, Condition, Label};
use super::operand::context_memory;
use super::registers::{general, xmm, ymm};
use crate::context::{Context, XSTATE_BV};

/// Entry points of the generated code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trampolines {
    /// `extern "C" fn()`: loads the application's state from the context and runs the cached code at `context.jump`; returns when
    /// that leaves.
    pub enter: u64,
    /// Where cached code jumps to leave: saves the application's state and returns from `enter`.
    pub exit: u64,
    /// Returns from `enter` without saving: the context already holds the application's state.
    pub abandon: u64,
    /// A byte that says whether the application uses AVX-512.
    wide: u64,
    /// End of the trampolines.
    pub end: u64,
}

/// The widest vector registers that the application uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VectorWidth {
    Xmm,
    Ymm,
    Zmm,
}

impl VectorWidth {
    /// Bytes of a spill slot.
    pub const SLOT: usize = 64;
}

static TRAMPOLINES: OnceLock<Trampolines> = OnceLock::new();

/// The trampolines; [`install`] has made them.
pub(crate) fn get() -> &'static Trampolines {
    TRAMPOLINES.get().expect("trampolines are installed before anything is translated")
}

/// XSAVE components that engine code could destroy: x87, SSE, AVX, AVX-512. (PKRU and AMX tiles it does not touch.)
fn saved_components() -> u32 {
    const LEGACY_TO_AVX512: u32 = 0xe7;
    // In the standard format these components end at byte 2688, whatever else the processor has.
    // SAFETY: cpuid is available on every amd64 processor.
    #[allow(unused_unsafe)]
    let leaf = unsafe { __cpuid_count(0xd, 0) };
    leaf.eax & LEGACY_TO_AVX512
}

/// Whether the application has been seen to use AVX-512. `cpuid` hides it, so only programs built for this very processor do.
fn wide() -> Option<&'static AtomicU8> {
    let address = TRAMPOLINES.get()?.wide;
    // SAFETY: `install` has put a byte for this at the end of the trampolines, which live as long as the process.
    Some(unsafe { AtomicU8::from_ptr(address as *mut u8) })
}

/// The vector width, as far as the operating system has enabled it and the application uses it.
pub(crate) fn vector_width() -> VectorWidth {
    if wide().is_some_and(|wide| wide.load(Ordering::Relaxed) != 0) {
        VectorWidth::Zmm
    } else if is_x86_feature_detected!("avx") {
        VectorWidth::Ymm
    } else {
        VectorWidth::Xmm
    }
}

/// From now on AVX-512 registers are part of the application's state. Returns whether that is new: then what has been translated before
/// must not be used any more.
pub(crate) fn widen() -> bool {
    wide().is_some_and(|wide| wide.swap(1, Ordering::SeqCst) == 0)
}

/// Stores a whole vector register.
pub(super) fn store_vector(asm: &mut Assembler, memory: MemoryOperand, number: u8) {
    let (code, register) = vector_move(number, true);
    asm.push(&Instruction::with2(code, memory, register).expect("move takes memory and register"));
}

/// Loads a whole vector register.
pub(super) fn load_vector(asm: &mut Assembler, number: u8, memory: MemoryOperand) {
    let (code, register) = vector_move(number, false);
    asm.push2m(code, register, memory);
}

fn vector_move(number: u8, store: bool) -> (Code, Register) {
    let number = usize::from(number);
    match (vector_width(), store) {
        (VectorWidth::Xmm, true) => (Code::Movups_xmmm128_xmm, xmm(number)),
        (VectorWidth::Xmm, false) => (Code::Movups_xmm_xmmm128, xmm(number)),
        (VectorWidth::Ymm, true) => (Code::VEX_Vmovups_ymmm256_ymm, ymm(number)),
        (VectorWidth::Ymm, false) => (Code::VEX_Vmovups_ymm_ymmm256, ymm(number)),
        (VectorWidth::Zmm, true) => (Code::EVEX_Vmovups_zmmm512_k1z_zmm, Register::ZMM0 + number as u32),
        (VectorWidth::Zmm, false) => (Code::EVEX_Vmovups_zmm_k1z_zmmm512, Register::ZMM0 + number as u32),
    }
}

/// Makes the trampolines at `base` and returns their machine code.
pub(crate) fn install(base: u64) -> Vec<u8> {
    let components = saved_components();
    let mut asm = Assembler::new(base);
    let wide = asm.label();
    let enter = asm.address();
    emit_enter(&mut asm, components);
    let exit = asm.address();
    emit_exit(&mut asm, components, wide);
    let abandon = asm.address();
    emit_return(&mut asm);
    asm.bind(wide);
    let wide = asm.address();
    asm.bytes(&[0]);
    let end = asm.address();
    let _ = TRAMPOLINES.set(Trampolines { enter, exit, abandon, wide, end });
    asm.finish()
}

const CALLEE_SAVED: [Register; 6] =
    [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

fn emit_enter(asm: &mut Assembler, components: u32) {
    for register in CALLEE_SAVED {
        push1(asm, Code::Push_r64, register);
    }
    // Helpers run cached code in turn (intercepted functions): the outer stack pointer comes back when this entry returns.
    push_context(asm, offset_of!(Context, host_rsp));
    asm.store(context_memory(offset_of!(Context, host_rsp)), Register::RSP);
    // `context.jump` was set before, so that a signal that comes meanwhile finds the block that is about to be run.
    let (whole, loaded) = (asm.label(), asm.label());
    compare_byte(asm, offset_of!(Context, complete_image));
    asm.jump_if(Condition::NotEqual, whole);
    load_vectors(asm);
    asm.bind(loaded);
    push_context(asm, offset_of!(Context, rflags));
    asm.push(&Instruction::with(Code::Popfq));
    for number in (0..16).filter(|&n| n != 4).chain([4]) {
        asm.load(general(number), general_slot(number));
    }
    asm.push(&Instruction::with1(Code::Jmp_rm64, context_memory(offset_of!(Context, jump))).expect("jmp takes memory"));

    asm.bind(whole);
    store_byte(asm, offset_of!(Context, complete_image), 0);
    component_mask(asm, components);
    with_context(asm, Code::Xrstor64_mem, offset_of!(Context, vector_state));
    asm.jump(loaded);
}

fn emit_exit(asm: &mut Assembler, components: u32, wide: Label) {
    for number in 0..16 {
        asm.store(general_slot(number), general(number));
    }
    asm.load(Register::RSP, context_memory(offset_of!(Context, host_rsp)));
    asm.push(&Instruction::with(Code::Pushfq));
    asm.push(
        &Instruction::with1(Code::Pop_rm64, context_memory(offset_of!(Context, rflags))).expect("pop takes memory"),
    );
    // Host code expects the direction flag clear, and an alignment check by the application's choice would be its end.
    asm.push(&Instruction::with1(Code::Pushq_imm8, 2).expect("push takes an immediate"));
    asm.push(&Instruction::with(Code::Popfq));
    let (whole, saved) = (asm.label(), asm.label());
    asm.compare_byte_at(wide, 0);
    asm.jump_if(Condition::NotEqual, whole);
    store_vectors(asm);
    asm.bind(saved);
    // The engine's own arithmetic must neither trap nor round as the application has it.
    with_context(asm, Code::Ldmxcsr_m32, offset_of!(Context, host_mxcsr));
    emit_return(asm);

    asm.bind(whole);
    store_byte(asm, offset_of!(Context, complete_image), 1);
    component_mask(asm, components);
    with_context(asm, Code::Xsave64_mem, offset_of!(Context, vector_state));
    asm.jump(saved);
}

fn emit_return(asm: &mut Assembler) {
    asm.load(Register::RSP, context_memory(offset_of!(Context, host_rsp)));
    asm.push(
        &Instruction::with1(Code::Pop_rm64, context_memory(offset_of!(Context, host_rsp))).expect("pop takes memory"),
    );
    for register in CALLEE_SAVED.into_iter().rev() {
        push1(asm, Code::Pop_r64, register);
    }
    asm.push(&Instruction::with(Code::Retnq));
}

/// Offsets in the legacy area of an XSAVE image (Intel SDM volume 1, table 10-2).
const MXCSR: usize = 24;
const XMM: usize = 160;
/// The component bits of SSE and AVX.
const SSE_AND_AVX: i32 = 6;

/// Stores XMM or YMM registers and MXCSR in the image. This is several times faster than XSAVE, and x87 registers can stay where they are.
fn store_vectors(asm: &mut Assembler) {
    with_context(asm, Code::Stmxcsr_m32, image(MXCSR));
    asm.store_constant(context_memory(image(XSTATE_BV)), SSE_AND_AVX);
    let avx = is_x86_feature_detected!("avx");
    let code = if avx { Code::VEX_Vmovups_xmmm128_xmm } else { Code::Movups_xmmm128_xmm };
    for number in 0..16 {
        let slot = context_memory(image(XMM + 16 * number));
        asm.push(&Instruction::with2(code, slot, xmm(number)).expect("move takes memory and register"));
    }
    if !avx {
        return;
    }
    let high = xsave_layout().ymm_high;
    for number in 0..16 {
        let slot = context_memory(image(high + 16 * number));
        let store = Instruction::with3(Code::VEX_Vextractf128_xmmm128_ymm_imm8, slot, ymm(number), 1);
        asm.push(&store.expect("vextractf128 takes memory, register and constant"));
        if number > 0 {
            let or = Instruction::with3(Code::VEX_Vorps_ymm_ymm_ymmm256, ymm(0), ymm(0), ymm(number));
            asm.push(&or.expect("vorps takes registers"));
        }
    }
    let upper = Instruction::with3(Code::VEX_Vextractf128_xmmm128_ymm_imm8, xmm(0), ymm(0), 1);
    asm.push(&upper.expect("vextractf128 takes registers and constant"));
    asm.push2(Code::VEX_Vptest_xmm_xmmm128, xmm(0), xmm(0));
    let set = Instruction::with1(Code::Setne_rm8, context_memory(offset_of!(Context, upper_in_use)));
    asm.push(&set.expect("setne takes memory"));
    asm.push(&Instruction::with(Code::VEX_Vzeroupper));
}

/// Loads what [`store_vectors`] has stored. Upper halves that are all zero are left in the state of `vzeroupper`, since legacy SSE code is slow
/// on many processors while they are not.
fn load_vectors(asm: &mut Assembler) {
    let avx = is_x86_feature_detected!("avx");
    if avx {
        let (narrow, loaded) = (asm.label(), asm.label());
        compare_byte(asm, offset_of!(Context, upper_in_use));
        asm.jump_if(Condition::Equal, narrow);
        load_xmm(asm, Code::VEX_Vmovups_xmm_xmmm128);
        let high = xsave_layout().ymm_high;
        for number in 0..16 {
            let slot = context_memory(image(high + 16 * number));
            let code = Code::VEX_Vinsertf128_ymm_ymm_xmmm128_imm8;
            let insert = Instruction::with4(code, ymm(number), ymm(number), slot, 1);
            asm.push(&insert.expect("vinsertf128 takes registers, memory and constant"));
        }
        asm.jump(loaded);
        asm.bind(narrow);
        asm.push(&Instruction::with(Code::VEX_Vzeroupper));
        load_xmm(asm, Code::Movups_xmm_xmmm128);
        asm.bind(loaded);
    } else {
        load_xmm(asm, Code::Movups_xmm_xmmm128);
    }
    with_context(asm, Code::Ldmxcsr_m32, image(MXCSR));
}

fn load_xmm(asm: &mut Assembler, code: Code) {
    for number in 0..16 {
        asm.push2m(code, xmm(number), context_memory(image(XMM + 16 * number)));
    }
}

/// Offset in the context of a byte of the image.
fn image(offset: usize) -> usize {
    offset_of!(Context, vector_state) + offset
}

fn component_mask(asm: &mut Assembler, components: u32) {
    asm.constant(Register::RAX, u64::from(components));
    asm.constant(Register::RDX, 0);
}

/// An instruction with one memory operand in the context.
fn with_context(asm: &mut Assembler, code: Code, offset: usize) {
    asm.push(&Instruction::with1(code, context_memory(offset)).expect("code takes memory"));
}

fn push_context(asm: &mut Assembler, offset: usize) {
    with_context(asm, Code::Push_rm64, offset);
}

/// `cmp byte context, 0`
fn compare_byte(asm: &mut Assembler, offset: usize) {
    let compare = Instruction::with2(Code::Cmp_rm8_imm8, context_memory(offset), 0);
    asm.push(&compare.expect("cmp takes memory and constant"));
}

/// `mov byte context, value`
fn store_byte(asm: &mut Assembler, offset: usize, value: i32) {
    let store = Instruction::with2(Code::Mov_rm8_imm8, context_memory(offset), value);
    asm.push(&store.expect("mov takes memory and constant"));
}

fn push1(asm: &mut Assembler, code: Code, register: Register) {
    asm.push(&Instruction::with1(code, register).expect("code takes a register"));
}

fn general_slot(number: usize) -> MemoryOperand {
    context_memory(offset_of!(Context, gpr) + 8 * number)
}

/// Offsets of extended components in a standard XSAVE image.
#[derive(Clone, Copy, Debug)]
pub struct XsaveLayout {
    /// Upper halves of YMM0..YMM15.
    pub ymm_high: usize,
    /// Upper halves of ZMM0..ZMM15.
    pub zmm_high: usize,
}

/// The processor's layout (CPUID leaf 0xd).
pub fn xsave_layout() -> &'static XsaveLayout {
    static LAYOUT: OnceLock<XsaveLayout> = OnceLock::new();
    LAYOUT.get_or_init(|| {
        // SAFETY: cpuid is available on every amd64 processor.
        #[allow(unused_unsafe)]
        let offset = |component| unsafe { __cpuid_count(0xd, component) }.ebx as usize;
        XsaveLayout { ymm_high: offset(2), zmm_high: offset(6) }
    })
}
