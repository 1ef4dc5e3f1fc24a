//! Registers that only AVX-512 has, ZMM16 to ZMM31 and the masks, as scratch registers of a tool.
//!
//! They change hands lazily. Each thread notes whether the application or the tool has them. A block that uses them begins with a look at that note, and only where
//! the other one has them are the application's values moved: to the context's image when the tool takes them, and from there when it gives them back. So code
//! between two changes of hands saves and restores nothing. Since no instruction from before AVX-512 reaches these registers, the tool's instructions on them leave the
//! state of the others alone, also that of their upper halves: they can stand beside legacy SSE code in any width.
//!
//! While the tool has the registers, the image holds the application's values of them at any time: exits do not store what is in the registers, entries
//! do not load it, and a fault handler keeps what is in the image.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::OnceLock;

use iced_x86::{Code, EncodingKind, Instruction, Mnemonic, Register};

use super::assembler::{Assembler, Condition, Label};
use super::emitter::Emitter;
use super::operand::{self, context_memory};
use super::scratch::aside;
use super::trampolines::{self, VectorWidth};
use super::vector_state;
use crate::context::Context;

/// The vector registers that can be lent.
const LENDABLE: Range<u8> = 16..32;

/// Components of an XSAVE image: mask registers, and ZMM16 to ZMM31.
pub(super) const COMPONENTS: u32 = 1 << 5 | 1 << 7;

/// A test hook: with this environment variable nothing is lent, so that tests see the code for other processors.
const NOTHING_LENT: &str = "DERIVGRIND_NOTHING_LENT";

/// Whether the processor has what tools may count on: vectors of all lengths, and instructions for elements of all sizes.
pub(super) fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        std::env::var_os(NOTHING_LENT).is_none()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
    })
}

/// Whether an instruction uses registers that can be lent, explicitly or not. (`vzeroall` and FXSAVE leave them alone.)
pub(super) fn uses_lendable(instruction: &Instruction) -> bool {
    use Mnemonic::{
        Xrstor, Xrstor64, Xrstors, Xrstors64, Xsave, Xsave64, Xsavec, Xsavec64, Xsaveopt, Xsaveopt64, Xsaves, Xsaves64,
    };
    let lendable = |register: Register| {
        register.is_k() || register.is_vector_register() && LENDABLE.contains(&(register.number() as u8))
    };
    let whole_state = matches!(
        instruction.mnemonic(),
        Xsave
            | Xsave64
            | Xsavec
            | Xsavec64
            | Xsaveopt
            | Xsaveopt64
            | Xsaves
            | Xsaves64
            | Xrstor
            | Xrstor64
            | Xrstors
            | Xrstors64
    );
    whole_state
        || instruction.has_op_mask()
        || lendable(instruction.memory_index())
        || (0..instruction.op_count()).any(|operand| lendable(instruction.op_register(operand)))
}

/// Whether an instruction's encoding is one that reaches registers that can be lent, or only AVX-512 has the registers it uses.
fn is_avx512(instruction: &Instruction) -> bool {
    instruction.encoding() == EncodingKind::EVEX || uses_lendable(instruction)
}

/// Routines that let the registers change hands. RCX holds the address at which they go on, in a block; flags stay as they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exchange {
    /// Stores the application's values: the tool has the registers from now on.
    pub take: u64,
    /// Loads the application's values: it has the registers from now on.
    pub give: u64,
    /// Where the routines end.
    pub end: u64,
}

/// Writes the routines, if the processor has the registers.
pub(super) fn emit_exchange(asm: &mut Assembler) -> Exchange {
    if !available() {
        return Exchange::default();
    }
    let leave = |asm: &mut Assembler, lent| {
        asm.store_constant(lent_memory(), lent);
        asm.push(&Instruction::with1(Code::Jmp_rm64, Register::RCX).expect("jmp takes a register"));
    };
    let take = asm.address();
    vector_state::store_lendable(asm);
    leave(asm, 1);
    let give = asm.address();
    vector_state::load_lendable(asm);
    leave(asm, 0);
    Exchange { take, give, end: asm.address() }
}

fn lent_memory() -> iced_x86::MemoryOperand {
    context_memory(offset_of!(Context, lent))
}

impl Emitter<'_> {
    /// Whether the tool can have ZMM16 to ZMM31 and the masks in this block, which has no AVX-512 instructions of its own: it has asked for them
    /// ([`Tool::borrows_avx512`](crate::Tool::borrows_avx512)), and the processor has them, with F, VL, DQ and BW.
    pub fn can_borrow_avx512(&self) -> bool {
        self.borrows && !self.block.instructions().iter().any(is_avx512)
    }

    /// Makes ZMM16 to ZMM31 the block's scratch vector registers, and the masks free for use. To be called at the block's beginning, before
    /// [`Emitter::reserve`], which reserves no vector registers then. As with other scratch registers, nothing is left in them behind a helper.
    pub fn borrow_avx512(&mut self) {
        debug_assert!(self.can_borrow_avx512() && self.scratch_vector.is_empty());
        self.take_lendable();
        self.scratch_vector = LENDABLE.collect();
    }

    /// Whether the block's scratch vector registers are those of [`Emitter::borrow_avx512`].
    pub fn has_borrowed_avx512(&self) -> bool {
        self.scratch_vector.first().is_some_and(|number| LENDABLE.contains(number))
    }

    /// Makes sure, at the block's beginning, that the tool has the registers.
    fn take_lendable(&mut self) {
        if trampolines::vector_width() != VectorWidth::Zmm {
            // The application has not used them yet: their values are those in the image, zeros.
            self.asm.store_constant(lent_memory(), 1);
            return;
        }
        self.exchange(trampolines::get().exchange.take, true);
    }

    /// Makes sure, at the block's beginning, that the application has the registers, if one of its instructions uses them.
    pub(super) fn give_lendable(&mut self) {
        if self.borrows && self.block.instructions().iter().any(uses_lendable) {
            self.exchange(trampolines::get().exchange.give, false);
        }
    }

    /// Goes through one of the routines where the registers are in the wrong hands: in the application's, or not.
    fn exchange(&mut self, routine: u64, unless_lent: bool) {
        let resume = self.asm.label();
        let flags_dead = self.block.flags_live_before(0) == 0;
        let cold = self.cold(move |emitter| {
            if flags_dead {
                emitter.asm.store(aside(), Register::RCX);
            }
            emitter.call_exchange(routine, resume);
        });
        if flags_dead {
            let compare = Instruction::with2(Code::Cmp_rm8_imm8, lent_memory(), 0);
            self.asm.push(&compare.expect("cmp takes memory and constant"));
            self.asm.jump_if(if unless_lent { Condition::Equal } else { Condition::NotEqual }, cold);
            self.asm.bind(resume);
            return;
        }
        self.asm.store(aside(), Register::RCX);
        self.asm.load(Register::RCX, lent_memory());
        let zero = self.asm.short_branch(&[0xe3]); // jrcxz
        if unless_lent {
            let right = self.asm.short_branch(&[0xeb]); // jmp
            self.asm.bind_short(zero);
            self.asm.jump(cold);
            self.asm.bind_short(right);
        } else {
            self.asm.jump(cold);
            self.asm.bind_short(zero);
        }
        self.asm.load(Register::RCX, aside());
        self.asm.bind(resume);
    }

    /// Cold: goes through the routine and on at `resume`. RCX is put aside.
    fn call_exchange(&mut self, routine: u64, resume: Label) {
        // `lea rcx, [rip + 5]`, then a jump of five bytes.
        const JUMP: i64 = 5;
        let back = self.asm.address() as i64 + 7 + JUMP;
        self.asm.lea(Register::RCX, operand::memory(Register::RIP, back));
        self.asm.jump_to(routine);
        debug_assert_eq!(self.asm.address() as i64, back);
        self.asm.load(Register::RCX, aside());
        self.asm.jump(resume);
    }
}
