//! The way into the code cache and out of it, as machine code made at start-up (it needs the context's distance from FS).

use std::arch::x86_64::__cpuid_count;
use std::mem::offset_of;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::assembler::{Assembler, Condition, Label};
use super::control_flow::emit_search;
use super::lent::{self, Exchange};
use super::operand::context_memory;
use super::registers::{general, xmm, ymm, zmm};
use super::vector_state;
use crate::cache;
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
    /// The search for targets of indirect branches, for each set of tables.
    pub searches: [Search; cache::SETS],
    /// How the registers that only AVX-512 has change hands.
    pub exchange: Exchange,
    /// A byte that says what has to be saved at exits, a [`Saving`].
    saving: u64,
}

/// The routine that goes on with an indirect branch whose target is not in the first level; see `cache::lookup`. RAX holds the application's target, RAX
/// and RCX are spilled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// Where it begins. RDX is spilled by the first instruction.
    pub start: u64,
    /// Up to here it can still find something.
    pub end: u64,
    /// Where it goes on when it has found nothing.
    pub miss: u64,
    /// The way to the dispatcher for code that has not changed RDX.
    pub leave: u64,
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

/// What exits save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Saving {
    /// XMM or YMM registers.
    Narrow = 0,
    /// AVX-512 registers, too.
    Wide = 1,
    /// All that XSAVE saves, with the bits that say what is in its initial state.
    Whole = 2,
}

static TRAMPOLINES: OnceLock<Trampolines> = OnceLock::new();

/// The trampolines; [`install`] has made them.
pub(crate) fn get() -> &'static Trampolines {
    TRAMPOLINES.get().expect("trampolines are installed before anything is translated")
}

/// The search routine of a set of tables.
pub(crate) fn search(set: cache::Set) -> &'static Search {
    &get().searches[set.number()]
}

/// Components of an XSAVE image that hold the registers which can be lent to the tool.
pub(crate) const LENT_COMPONENTS: u64 = lent::COMPONENTS as u64;

/// Whether a thread at `pc` is in one of the routines of [`Exchange`]. Then RCX has the address in a block where it goes on.
pub(crate) fn exchanging_at(pc: u64) -> bool {
    let Exchange { take, end, .. } = get().exchange;
    (take..end).contains(&pc)
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

/// What exits save.
fn saving() -> Option<&'static AtomicU8> {
    let address = TRAMPOLINES.get()?.saving;
    // SAFETY: `install` has put a byte for this at the end of the trampolines, which live as long as the process.
    Some(unsafe { AtomicU8::from_ptr(address as *mut u8) })
}

/// The vector width, as far as the operating system has enabled it and the application uses it.
pub(crate) fn vector_width() -> VectorWidth {
    let wide = saving().is_some_and(|saving| saving.load(Ordering::Relaxed) != Saving::Narrow as u8);
    if wide && is_x86_feature_detected!("avx512f") {
        VectorWidth::Zmm
    } else if is_x86_feature_detected!("avx") {
        VectorWidth::Ymm
    } else {
        VectorWidth::Xmm
    }
}

/// From now on AVX-512 registers are part of the application's state. Returns whether that is new: then what has been translated before
/// must not be used any more. On a processor without AVX-512 nothing changes; the instruction raises its signal.
pub(crate) fn widen() -> bool {
    let change = |saving: &AtomicU8| {
        saving.compare_exchange(Saving::Narrow as u8, Saving::Wide as u8, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    };
    is_x86_feature_detected!("avx512f") && saving().is_some_and(change)
}

/// From now on exits save everything. To be called before anything is translated.
pub(crate) fn save_everything() {
    if let Some(saving) = saving() {
        saving.store(Saving::Whole as u8, Ordering::SeqCst);
    }
}

/// Stores a whole vector register.
pub(super) fn store_vector(asm: &mut Assembler, memory: MemoryOperand, number: u8) {
    let number = usize::from(number);
    let (code, register) = match vector_width() {
        VectorWidth::Xmm => (Code::Movups_xmmm128_xmm, xmm(number)),
        VectorWidth::Ymm => (Code::VEX_Vmovups_ymmm256_ymm, ymm(number)),
        VectorWidth::Zmm => (Code::EVEX_Vmovups_zmmm512_k1z_zmm, zmm(number)),
    };
    asm.push(&Instruction::with2(code, memory, register).expect("move takes memory and register"));
}

/// Loads so much of a vector register. Its upper halves stay as they are if they are not loaded.
pub(super) fn load_vector(asm: &mut Assembler, number: u8, memory: MemoryOperand, width: VectorWidth) {
    let number = usize::from(number);
    let (code, register) = match width {
        VectorWidth::Xmm => (Code::Movups_xmm_xmmm128, xmm(number)),
        VectorWidth::Ymm => (Code::VEX_Vmovups_ymm_ymmm256, ymm(number)),
        VectorWidth::Zmm => (Code::EVEX_Vmovups_zmm_k1z_zmmm512, zmm(number)),
    };
    asm.push2m(code, register, memory);
}

/// Makes the trampolines at `base` and returns their machine code.
pub(crate) fn install(base: u64) -> Vec<u8> {
    let components = saved_components();
    let mut asm = Assembler::new(base);
    let saving = asm.label();
    let enter = asm.address();
    emit_enter(&mut asm, components);
    let exit = asm.address();
    emit_exit(&mut asm, components, saving);
    let abandon = asm.address();
    emit_return(&mut asm);
    let searches = cache::Set::all().map(|(set, number)| emit_search(&mut asm, set, number, exit));
    let exchange = lent::emit_exchange(&mut asm);
    asm.bind(saving);
    let saving = asm.address();
    asm.bytes(&[Saving::Narrow as u8]);
    let _ = TRAMPOLINES.set(Trampolines { enter, exit, abandon, searches, exchange, saving });
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
    let (whole, wide, loaded) = (asm.label(), asm.label(), asm.label());
    compare_byte(asm, offset_of!(Context, complete_image));
    asm.jump_if(Condition::NotEqual, whole);
    compare_byte(asm, offset_of!(Context, wide_image));
    asm.jump_if(Condition::NotEqual, wide);
    vector_state::load(asm);
    asm.bind(loaded);
    push_context(asm, offset_of!(Context, rflags));
    asm.push(&Instruction::with(Code::Popfq));
    for number in (0..16).filter(|&n| n != 4).chain([4]) {
        asm.load(general(number), general_slot(number));
    }
    asm.push(&Instruction::with1(Code::Jmp_rm64, context_memory(offset_of!(Context, jump))).expect("jmp takes memory"));

    asm.bind(whole);
    store_byte(asm, offset_of!(Context, complete_image), 0);
    vector_state::transfer_whole(asm, Code::Xrstor64_mem, components);
    asm.jump(loaded);

    asm.bind(wide);
    if is_x86_feature_detected!("avx512f") {
        vector_state::load_wide(asm);
    }
    asm.jump(loaded);
}

fn emit_exit(asm: &mut Assembler, components: u32, saving: Label) {
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
    let (more, whole, saved) = (asm.label(), asm.label(), asm.label());
    asm.compare_byte_at(saving, Saving::Narrow as u8);
    asm.jump_if(Condition::NotEqual, more);
    store_byte(asm, offset_of!(Context, wide_image), 0);
    vector_state::store(asm);
    asm.bind(saved);
    // The engine's own arithmetic must neither trap nor round as the application has it.
    with_context(asm, Code::Ldmxcsr_m32, offset_of!(Context, host_mxcsr));
    emit_return(asm);

    asm.bind(more);
    asm.compare_byte_at(saving, Saving::Whole as u8);
    asm.jump_if(Condition::Equal, whole);
    store_byte(asm, offset_of!(Context, wide_image), 1);
    if is_x86_feature_detected!("avx512f") {
        vector_state::store_wide(asm);
    }
    asm.jump(saved);

    asm.bind(whole);
    store_byte(asm, offset_of!(Context, complete_image), 1);
    vector_state::transfer_whole(asm, Code::Xsave64_mem, components);
    vector_state::note_lent(asm);
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

/// An instruction with one memory operand in the context.
pub(super) fn with_context(asm: &mut Assembler, code: Code, offset: usize) {
    asm.push(&Instruction::with1(code, context_memory(offset)).expect("code takes memory"));
}

fn push_context(asm: &mut Assembler, offset: usize) {
    with_context(asm, Code::Push_rm64, offset);
}

/// `cmp byte context, 0`
pub(super) fn compare_byte(asm: &mut Assembler, offset: usize) {
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
