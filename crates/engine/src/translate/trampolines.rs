//! The way into the code cache and out of it, as machine code made at start-up (it needs the context's distance from FS).

use std::arch::x86_64::__cpuid_count;
use std::mem::offset_of;
use std::sync::OnceLock;

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::assembler::Assembler;
use super::operand::context_memory;
use super::registers::{general, xmm, ymm};
use crate::context::Context;

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
    /// End of the trampolines.
    pub end: u64,
}

/// The widest vector registers of the processor.
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
    // SAFETY: cpuid is available on every amd64 processor.
    #[allow(unused_unsafe)]
    // In the standard format these components end at byte 2688, whatever else the processor has.
    let leaf = unsafe { __cpuid_count(0xd, 0) };
    leaf.eax & LEGACY_TO_AVX512
}

/// The processor's vector width, as far as the operating system has enabled it.
pub(crate) fn vector_width() -> VectorWidth {
    static WIDTH: OnceLock<VectorWidth> = OnceLock::new();
    *WIDTH.get_or_init(|| {
        if is_x86_feature_detected!("avx512f") {
            VectorWidth::Zmm
        } else if is_x86_feature_detected!("avx") {
            VectorWidth::Ymm
        } else {
            VectorWidth::Xmm
        }
    })
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
    let enter = asm.address();
    emit_enter(&mut asm, components);
    let exit = asm.address();
    emit_exit(&mut asm, components);
    let abandon = asm.address();
    emit_return(&mut asm);
    let end = asm.address();
    let _ = TRAMPOLINES.set(Trampolines { enter, exit, abandon, end });
    asm.finish()
}

const CALLEE_SAVED: [Register; 6] =
    [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

fn emit_enter(asm: &mut Assembler, components: u32) {
    for register in CALLEE_SAVED {
        push1(asm, Code::Push_r64, register);
    }
    // Helpers run cached code in turn (intercepted functions): the outer stack pointer comes back when this entry returns.
    asm.push(
        &Instruction::with1(Code::Push_rm64, context_memory(offset_of!(Context, host_rsp))).expect("push takes memory"),
    );
    asm.store(context_memory(offset_of!(Context, host_rsp)), Register::RSP);
    // `context.jump` was set before, so that a signal that comes meanwhile finds the block that is about to be run.
    component_mask(asm, components);
    xsave_like(asm, Code::Xrstor64_mem);
    asm.push(
        &Instruction::with1(Code::Push_rm64, context_memory(offset_of!(Context, rflags))).expect("push takes memory"),
    );
    asm.push(&Instruction::with(Code::Popfq));
    for number in (0..16).filter(|&n| n != 4).chain([4]) {
        asm.load(general(number), general_slot(number));
    }
    asm.push(&Instruction::with1(Code::Jmp_rm64, context_memory(offset_of!(Context, jump))).expect("jmp takes memory"));
}

fn emit_exit(asm: &mut Assembler, components: u32) {
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
    component_mask(asm, components);
    xsave_like(asm, Code::Xsave64_mem);
    // The engine's own arithmetic must neither trap nor round as the application has it.
    let mxcsr = context_memory(offset_of!(Context, host_mxcsr));
    asm.push(&Instruction::with1(Code::Ldmxcsr_m32, mxcsr).expect("ldmxcsr takes memory"));
    emit_return(asm);
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

fn component_mask(asm: &mut Assembler, components: u32) {
    asm.constant(Register::RAX, u64::from(components));
    asm.constant(Register::RDX, 0);
}

fn xsave_like(asm: &mut Assembler, code: Code) {
    let state = context_memory(offset_of!(Context, vector_state));
    asm.push(&Instruction::with1(code, state).expect("xsave takes memory"));
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
