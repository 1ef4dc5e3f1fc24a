//! Every instruction form that a program can execute, from iced's tables.
//!
//! A *form* is an [`Code`]: mnemonic, kinds of operands and encoding.

use iced_x86::{Code, CpuidFeature, EncodingKind, FlowControl, OpCodeOperandKind};

/// A part of the instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Class {
    General,
    Bits,
    State,
    X87,
    Mmx,
    Sse,
    Sse2,
    Sse3,
    Ssse3,
    Sse41,
    Sse42,
    Avx,
    F16c,
    Fma,
    Avx2,
    /// F, VL, DQ, BW, CD: what x86-64-v4 has.
    Avx512,
    /// Further extensions of AVX-512.
    Avx512More,
    /// Cryptography, hashes, random numbers, system programming, and extensions of a single maker.
    Other,
}

impl Class {
    /// All classes.
    pub const ALL: [Class; 18] = [
        Class::General,
        Class::Bits,
        Class::State,
        Class::X87,
        Class::Mmx,
        Class::Sse,
        Class::Sse2,
        Class::Sse3,
        Class::Ssse3,
        Class::Sse41,
        Class::Sse42,
        Class::Avx,
        Class::F16c,
        Class::Fma,
        Class::Avx2,
        Class::Avx512,
        Class::Avx512More,
        Class::Other,
    ];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Class::General => "general",
            Class::Bits => "BMI, ADX, LZCNT, POPCNT, MOVBE",
            Class::State => "FXSR, XSAVE",
            Class::X87 => "x87",
            Class::Mmx => "MMX",
            Class::Sse => "SSE",
            Class::Sse2 => "SSE2",
            Class::Sse3 => "SSE3",
            Class::Ssse3 => "SSSE3",
            Class::Sse41 => "SSE4.1",
            Class::Sse42 => "SSE4.2",
            Class::Avx => "AVX",
            Class::F16c => "F16C",
            Class::Fma => "FMA3",
            Class::Avx2 => "AVX2",
            Class::Avx512 => "AVX-512 F, VL, DQ, BW, CD",
            Class::Avx512More => "AVX-512, further",
            Class::Other => "other",
        }
    }

    /// The class of a form.
    pub fn of(code: Code) -> Class {
        let features = code.cpuid_features();
        let has = |wanted: &[CpuidFeature]| features.iter().any(|feature| wanted.contains(feature));
        let only = |wanted: &[CpuidFeature]| features.iter().all(|feature| wanted.contains(feature));
        use CpuidFeature::*;
        if code.encoding() == EncodingKind::EVEX || features.iter().any(is_avx512) {
            let basic = [AVX512F, AVX512VL, AVX512DQ, AVX512BW, AVX512CD];
            return if only(&basic) { Class::Avx512 } else { Class::Avx512More };
        }
        if has(&[D3NOW, D3NOWEXT, CYRIX_D3NOW, CYRIX_EMMI, CYRIX_FPU, PADLOCK_UNDOC, KNC]) {
            return Class::Other;
        }
        if has(&[FXSR, XSAVE, XSAVEC, XSAVEOPT]) {
            return Class::State;
        }
        let operands = code.op_code().op_kinds();
        let mmx = [OpCodeOperandKind::mm_reg, OpCodeOperandKind::mm_rm, OpCodeOperandKind::mm_or_mem];
        if has(&[MMX]) || operands.iter().any(|kind| mmx.contains(kind)) {
            return Class::Mmx;
        }
        const CLASSES: &[(CpuidFeature, Class)] = &[
            (F16C, Class::F16c),
            (FMA, Class::Fma),
            (AVX2, Class::Avx2),
            (SSE, Class::Sse),
            (SSE2, Class::Sse2),
            (SSE3, Class::Sse3),
            (SSSE3, Class::Ssse3),
            (SSE4_1, Class::Sse41),
            (SSE4_2, Class::Sse42),
            (FPU, Class::X87),
            (FPU287, Class::X87),
            (FPU387, Class::X87),
            (AVX, Class::Avx),
        ];
        let foreign = [AES, PCLMULQDQ, VAES, VPCLMULQDQ, GFNI, SHA, SM3, SM4, SHA512, AVX_VNNI, AVX_IFMA];
        if let Some((_, class)) = CLASSES.iter().find(|(feature, _)| has(&[*feature]) && !has(&foreign)) {
            return *class;
        }
        if has(&[BMI1, BMI2, ADX, LZCNT, POPCNT, MOVBE]) {
            return Class::Bits;
        }
        let general = [
            INTEL8086,
            INTEL186,
            INTEL286,
            INTEL386,
            INTEL486,
            X64,
            CMOV,
            CX8,
            CMPXCHG16B,
            MULTIBYTENOP,
            PAUSE,
            PREFETCHW,
        ];
        if only(&general) { Class::General } else { Class::Other }
    }
}

fn is_avx512(feature: &CpuidFeature) -> bool {
    use CpuidFeature::*;
    matches!(
        feature,
        AVX512F
            | AVX512VL
            | AVX512DQ
            | AVX512BW
            | AVX512CD
            | AVX512_BF16
            | AVX512_BITALG
            | AVX512_IFMA
            | AVX512_VBMI
            | AVX512_VBMI2
            | AVX512_VNNI
            | AVX512_VP2INTERSECT
            | AVX512_VPOPCNTDQ
            | AVX512_FP16
            | AVX512ER
            | AVX512PF
            | AVX512_4FMAPS
            | AVX512_4VNNIW
    )
}

/// All forms that a user program can execute in 64-bit mode, except those that transfer control.
pub fn all() -> impl Iterator<Item = Code> {
    Code::values().filter(|code| {
        let info = code.op_code();
        info.is_instruction() && info.mode64() && !info.must_be_cpl0() && code.flow_control() == FlowControl::Next
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_have_the_class_that_the_manuals_give_them() {
        for (code, class) in [
            (Code::Mov_r64_rm64, Class::General),
            (Code::Cmpxchg16b_m128, Class::General),
            (Code::VEX_Pdep_r64_r64_rm64, Class::Bits),
            (Code::Fxsave_m512byte, Class::State),
            (Code::Fyl2x, Class::X87),
            (Code::Paddd_mm_mmm64, Class::Mmx),
            (Code::Pshufb_mm_mmm64, Class::Mmx),
            (Code::Addps_xmm_xmmm128, Class::Sse),
            (Code::Haddpd_xmm_xmmm128, Class::Sse3),
            (Code::Dpps_xmm_xmmm128_imm8, Class::Sse41),
            (Code::VEX_Vaddps_ymm_ymm_ymmm256, Class::Avx),
            (Code::VEX_Vpaddd_ymm_ymm_ymmm256, Class::Avx2),
            (Code::VEX_Vfmadd132ps_xmm_xmm_xmmm128, Class::Fma),
            (Code::VEX_Vcvtps2ph_xmmm64_xmm_imm8, Class::F16c),
            (Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er, Class::Avx512),
            (Code::VEX_Kmovq_kr_km64, Class::Avx512),
            (Code::Aesenc_xmm_xmmm128, Class::Other),
        ] {
            assert_eq!(Class::of(code), class, "{code:?}");
        }
        assert!(all().count() > 3000);
    }
}
