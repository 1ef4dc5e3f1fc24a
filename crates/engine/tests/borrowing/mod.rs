//! A tool that borrows the registers which only AVX-512 has wherever it can, and leaves something else in each of them.

use std::hint::black_box;

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::{Block, Emitter, HelperNext, registers};
use derivgrind_engine::{NullTool, Tool, Version};
use iced_x86::{Code, Instruction, Register};

/// The null tool with shadow memory, and ones in all registers that it can borrow. Every block calls a helper as well.
pub struct Borrowing;

/// Whether there is something to be borrowed.
pub fn runs_here() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
}

impl Tool for Borrowing {
    fn shadow_layers(&self) -> u32 {
        1
    }

    fn initial_version(&self) -> Version {
        NullTool.initial_version()
    }

    fn borrows_avx512(&self) -> bool {
        true
    }

    fn instrument(&self, block: &Block, version: Version, emitter: &mut Emitter<'_>) {
        if emitter.can_borrow_avx512() {
            emitter.borrow_avx512();
            fill(emitter);
            // Some blocks, so that the registers are lent at exits, too.
            if block.address.is_multiple_of(3) {
                emitter.call_helper(helper, 0);
                fill(emitter);
            }
        }
        NullTool.instrument(block, version, emitter);
    }

    fn client_request(&self, context: &mut Context, arguments: [u64; 6], default: u64) -> u64 {
        NullTool.client_request(context, arguments, default)
    }
}

/// Fills all of them with ones.
fn fill(emitter: &mut Emitter<'_>) {
    for k in 0..emitter.scratch_vectors() {
        let register = registers::zmm(emitter.scratch_vector(k).number());
        let code = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
        let ones = Instruction::with4(code, register, register, register, 0xff).expect("vpternlogd has such operands");
        emitter.asm().push(&ones);
    }
    for k in 0..8 {
        let mask = Register::K0 + k;
        let ones = Instruction::with3(Code::VEX_Kxnorq_kr_kr_kr, mask, mask, mask).expect("kxnorq has such operands");
        emitter.asm().push(&ones);
    }
}

/// Uses wide registers, as the library's routines do.
fn helper(_: &mut Context, _: u64) -> HelperNext {
    let bytes = black_box([1u8; 300]);
    let copy = black_box(bytes.to_vec());
    assert_eq!(copy, bytes);
    HelperNext::Resume
}
