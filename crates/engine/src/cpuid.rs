//! `cpuid` as the application sees it: the processor without the features that the engine does not handle.

use std::arch::x86_64::__cpuid_count;

use crate::context::{Context, Gpr};

/// Features hidden from the application: leaf, subleaf, output register, bits.
const HIDDEN: &[(u32, u32, Gpr, u32)] = &[
    // FSGSBASE: the engine's segment bases must stay.
    (7, 0, Gpr::Rbx, 1 << 0),
    // HLE, RTM: a transaction cannot contain a change of block.
    (7, 0, Gpr::Rbx, 1 << 4 | 1 << 11),
    // AVX-512 F, DQ, IFMA, PF, ER, CD, BW, VL: libraries shall choose their AVX2 code.
    (7, 0, Gpr::Rbx, 1 << 16 | 1 << 17 | 1 << 21 | 1 << 26 | 1 << 27 | 1 << 28 | 1 << 30 | 1 << 31),
    // Processor trace.
    (7, 0, Gpr::Rbx, 1 << 25),
    // AVX-512 VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ; user-mode wait; protection keys; shadow stacks; user interrupts' helpers.
    (7, 0, Gpr::Rcx, 1 << 1 | 1 << 5 | 1 << 6 | 1 << 11 | 1 << 12 | 1 << 14 | 1 << 3 | 1 << 4 | 1 << 7),
    // 4VNNIW, 4FMAPS, UINTR, VP2INTERSECT, TSXLDTRK, IBT, AMX, AVX512-FP16.
    (
        7,
        0,
        Gpr::Rdx,
        1 << 2 | 1 << 3 | 1 << 5 | 1 << 8 | 1 << 11 | 1 << 16 | 1 << 20 | 1 << 22 | 1 << 23 | 1 << 24 | 1 << 25,
    ),
    // AVX-VNNI, AVX512_BF16, AVX-IFMA, AMX-FP16.
    (7, 1, Gpr::Rax, 1 << 5 | 1 << 21 | 1 << 23),
    // APX, AVX10.
    (7, 1, Gpr::Rdx, 1 << 19 | 1 << 21),
];

/// Carries out `cpuid` on the application's registers.
pub(crate) fn emulate(context: &mut Context) {
    let (leaf, subleaf) = (context.reg(Gpr::Rax) as u32, context.reg(Gpr::Rcx) as u32);
    // SAFETY: cpuid is available on every amd64 processor.
    #[allow(unused_unsafe)]
    let result = unsafe { __cpuid_count(leaf, subleaf) };
    let outputs = [(Gpr::Rax, result.eax), (Gpr::Rbx, result.ebx), (Gpr::Rcx, result.ecx), (Gpr::Rdx, result.edx)];
    for (register, value) in outputs {
        let hidden = HIDDEN
            .iter()
            .filter(|&&(l, s, r, _)| (l, s, r) == (leaf, subleaf, register))
            .fold(0, |bits, entry| bits | entry.3);
        context.set_reg(register, u64::from(value & !hidden));
    }
}
