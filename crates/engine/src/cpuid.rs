//! `cpuid` as the application sees it: the processor without the features that the engine does not handle.

use std::arch::x86_64::__cpuid_count;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::context::{Context, Gpr};

/// Bits of an output register: leaf, subleaf, register, bits.
type Entry = (u32, u32, Gpr, u32);

/// Features hidden from the application.
const HIDDEN: &[Entry] = &[
    // FSGSBASE: the engine's segment bases must stay.
    (7, 0, Gpr::Rbx, 1 << 0),
    // HLE, RTM: a transaction cannot contain a change of block.
    (7, 0, Gpr::Rbx, 1 << 4 | 1 << 11),
    // AVX-512 PF, ER, of processors that lack the other parts.
    (7, 0, Gpr::Rbx, 1 << 26 | 1 << 27),
    // Processor trace.
    (7, 0, Gpr::Rbx, 1 << 25),
    // Protection keys; user-mode wait; shadow stacks.
    (7, 0, Gpr::Rcx, 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7),
    // AVX-512 4VNNIW, 4FMAPS, VP2INTERSECT, FP16; UINTR, TSXLDTRK, IBT, AMX.
    (
        7,
        0,
        Gpr::Rdx,
        1 << 2 | 1 << 3 | 1 << 5 | 1 << 8 | 1 << 11 | 1 << 16 | 1 << 20 | 1 << 22 | 1 << 23 | 1 << 24 | 1 << 25,
    ),
    // AMX-FP16, AVX-IFMA.
    (7, 1, Gpr::Rax, 1 << 21 | 1 << 23),
    // APX, AVX10.
    (7, 1, Gpr::Rdx, 1 << 19 | 1 << 21),
];

/// AVX-512: F, DQ, IFMA, CD, BW, VL; VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ; BF16.
const AVX512: &[Entry] = &[
    (7, 1, Gpr::Rax, 1 << 5),
    (7, 0, Gpr::Rbx, 1 << 16 | 1 << 17 | 1 << 21 | 1 << 28 | 1 << 30 | 1 << 31),
    (7, 0, Gpr::Rcx, 1 << 1 | 1 << 6 | 1 << 11 | 1 << 12 | 1 << 14),
];

/// Whether the application is not to see that the processor has AVX-512.
static HIDE_AVX512: AtomicBool = AtomicBool::new(false);

/// Hides AVX-512 from the application, or not. To be called before it starts.
pub(crate) fn hide_avx512(hide: bool) {
    HIDE_AVX512.store(hide, Ordering::Relaxed);
}

/// Carries out `cpuid` on the application's registers.
pub(crate) fn emulate(context: &mut Context) {
    let (leaf, subleaf) = (context.reg(Gpr::Rax) as u32, context.reg(Gpr::Rcx) as u32);
    // SAFETY: cpuid is available on every amd64 processor.
    #[allow(unused_unsafe)]
    let result = unsafe { __cpuid_count(leaf, subleaf) };
    let outputs = [(Gpr::Rax, result.eax), (Gpr::Rbx, result.ebx), (Gpr::Rcx, result.ecx), (Gpr::Rdx, result.edx)];
    for (register, value) in outputs {
        let also: &[Entry] = if HIDE_AVX512.load(Ordering::Relaxed) { AVX512 } else { &[] };
        let hidden = HIDDEN
            .iter()
            .chain(also)
            .filter(|&&(l, s, r, _)| (l, s, r) == (leaf, subleaf, register))
            .fold(0, |bits, entry| bits | entry.3);
        context.set_reg(register, u64::from(value & !hidden));
    }
}
