//! Codes of the vector instructions that compute dot values, by operation, format and width.

use derivgrind_engine::translate::{Emitter, registers};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

use crate::ir::Format;

/// How many lanes an instruction works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// The lowest lane of a register.
    Scalar,
    /// 16 bytes.
    Xmm,
    /// 32 bytes.
    Ymm,
    /// 64 bytes: only for dot values of several directions.
    Zmm,
}

impl Width {
    /// Bytes of all lanes of a format.
    pub fn bytes(self, format: Format) -> u16 {
        match self {
            Width::Scalar => format.bytes(),
            Width::Xmm => 16,
            Width::Ymm => 32,
            Width::Zmm => 64,
        }
    }
}

/// What an instruction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    And,
    /// `!a & b`
    AndNot,
    Or,
    Xor,
    /// All ones where `a < b`; NaN raises an exception, as in the processor's minimum.
    Less,
    /// All ones where the bits of `a` are a larger integer than those of `b`. Scalars: in all lanes. With SSE4.2; 32 bytes with AVX2.
    GreaterBits,
    /// All ones where `a == b`.
    Equals,
    /// All ones where `a != b`, also for NaN.
    Differs,
}

/// The second operand of an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    Register(Register),
    Memory(MemoryOperand),
}

/// Codes for scalar, 16-byte, 32-byte and 64-byte operands, for both formats: with AVX, without (only the first two then), and with AVX-512, for all registers.
pub(super) struct Codes {
    vex: [[Code; 3]; 2],
    legacy: [[Code; 2]; 2],
    /// Results of comparisons are masks here.
    evex: [[Code; 4]; 2],
}

/// Which encodings are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// That of SSE: two operands.
    Legacy,
    /// That of AVX; 64 bytes, where a block has its own AVX-512 instructions, in that of AVX-512.
    Vex,
    /// That of AVX-512, on registers that only it has: see [`Emitter::borrow_avx512`].
    Evex,
}

impl Encoding {
    /// The one for a block's scratch registers.
    pub fn of(emitter: &Emitter<'_>) -> Encoding {
        if emitter.has_borrowed_avx512() {
            Encoding::Evex
        } else if registers::has_avx() {
            Encoding::Vex
        } else {
            Encoding::Legacy
        }
    }
}

impl Codes {
    /// The code for a format and width.
    pub fn of(&self, format: Format, width: Width, encoding: Encoding) -> Code {
        let format = usize::from(format == Format::Binary64);
        match (encoding, width) {
            (Encoding::Evex, _) | (_, Width::Zmm) => self.evex[format][width as usize],
            (Encoding::Vex, _) => self.vex[format][width as usize],
            (Encoding::Legacy, _) => self.legacy[format][usize::from(width != Width::Scalar)],
        }
    }
}

/// One line for each kind of encoding: codes for binary32, then for binary64, by width.
macro_rules! codes {
    (vex: $vss:ident $vps:ident $yps:ident, $vsd:ident $vpd:ident $ypd:ident;
     legacy: $ss:ident $ps:ident, $sd:ident $pd:ident;
     evex: $ess:ident $eps:ident $fps:ident $gps:ident, $esd:ident $epd:ident $fpd:ident $gpd:ident) => {
        Codes {
            vex: [[Code::$vss, Code::$vps, Code::$yps], [Code::$vsd, Code::$vpd, Code::$ypd]],
            legacy: [[Code::$ss, Code::$ps], [Code::$sd, Code::$pd]],
            evex: [[Code::$ess, Code::$eps, Code::$fps, Code::$gps], [Code::$esd, Code::$epd, Code::$fpd, Code::$gpd]],
        }
    };
}

const ADD: Codes = codes! {
    vex: VEX_Vaddss_xmm_xmm_xmmm32 VEX_Vaddps_xmm_xmm_xmmm128 VEX_Vaddps_ymm_ymm_ymmm256, VEX_Vaddsd_xmm_xmm_xmmm64 VEX_Vaddpd_xmm_xmm_xmmm128 VEX_Vaddpd_ymm_ymm_ymmm256;
    legacy: Addss_xmm_xmmm32 Addps_xmm_xmmm128, Addsd_xmm_xmmm64 Addpd_xmm_xmmm128;
    evex: EVEX_Vaddss_xmm_k1z_xmm_xmmm32_er EVEX_Vaddps_xmm_k1z_xmm_xmmm128b32 EVEX_Vaddps_ymm_k1z_ymm_ymmm256b32 EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er, EVEX_Vaddsd_xmm_k1z_xmm_xmmm64_er EVEX_Vaddpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vaddpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er
};
const SUB: Codes = codes! {
    vex: VEX_Vsubss_xmm_xmm_xmmm32 VEX_Vsubps_xmm_xmm_xmmm128 VEX_Vsubps_ymm_ymm_ymmm256, VEX_Vsubsd_xmm_xmm_xmmm64 VEX_Vsubpd_xmm_xmm_xmmm128 VEX_Vsubpd_ymm_ymm_ymmm256;
    legacy: Subss_xmm_xmmm32 Subps_xmm_xmmm128, Subsd_xmm_xmmm64 Subpd_xmm_xmmm128;
    evex: EVEX_Vsubss_xmm_k1z_xmm_xmmm32_er EVEX_Vsubps_xmm_k1z_xmm_xmmm128b32 EVEX_Vsubps_ymm_k1z_ymm_ymmm256b32 EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er, EVEX_Vsubsd_xmm_k1z_xmm_xmmm64_er EVEX_Vsubpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vsubpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er
};
const MUL: Codes = codes! {
    vex: VEX_Vmulss_xmm_xmm_xmmm32 VEX_Vmulps_xmm_xmm_xmmm128 VEX_Vmulps_ymm_ymm_ymmm256, VEX_Vmulsd_xmm_xmm_xmmm64 VEX_Vmulpd_xmm_xmm_xmmm128 VEX_Vmulpd_ymm_ymm_ymmm256;
    legacy: Mulss_xmm_xmmm32 Mulps_xmm_xmmm128, Mulsd_xmm_xmmm64 Mulpd_xmm_xmmm128;
    evex: EVEX_Vmulss_xmm_k1z_xmm_xmmm32_er EVEX_Vmulps_xmm_k1z_xmm_xmmm128b32 EVEX_Vmulps_ymm_k1z_ymm_ymmm256b32 EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er, EVEX_Vmulsd_xmm_k1z_xmm_xmmm64_er EVEX_Vmulpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vmulpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er
};
const DIV: Codes = codes! {
    vex: VEX_Vdivss_xmm_xmm_xmmm32 VEX_Vdivps_xmm_xmm_xmmm128 VEX_Vdivps_ymm_ymm_ymmm256, VEX_Vdivsd_xmm_xmm_xmmm64 VEX_Vdivpd_xmm_xmm_xmmm128 VEX_Vdivpd_ymm_ymm_ymmm256;
    legacy: Divss_xmm_xmmm32 Divps_xmm_xmmm128, Divsd_xmm_xmmm64 Divpd_xmm_xmmm128;
    evex: EVEX_Vdivss_xmm_k1z_xmm_xmmm32_er EVEX_Vdivps_xmm_k1z_xmm_xmmm128b32 EVEX_Vdivps_ymm_k1z_ymm_ymmm256b32 EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er, EVEX_Vdivsd_xmm_k1z_xmm_xmmm64_er EVEX_Vdivpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vdivpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er
};
pub(super) const SQRT: Codes = codes! {
    vex: VEX_Vsqrtss_xmm_xmm_xmmm32 VEX_Vsqrtps_xmm_xmmm128 VEX_Vsqrtps_ymm_ymmm256, VEX_Vsqrtsd_xmm_xmm_xmmm64 VEX_Vsqrtpd_xmm_xmmm128 VEX_Vsqrtpd_ymm_ymmm256;
    legacy: Sqrtss_xmm_xmmm32 Sqrtps_xmm_xmmm128, Sqrtsd_xmm_xmmm64 Sqrtpd_xmm_xmmm128;
    evex: EVEX_Vsqrtss_xmm_k1z_xmm_xmmm32_er EVEX_Vsqrtps_xmm_k1z_xmmm128b32 EVEX_Vsqrtps_ymm_k1z_ymmm256b32 EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, EVEX_Vsqrtsd_xmm_k1z_xmm_xmmm64_er EVEX_Vsqrtpd_xmm_k1z_xmmm128b64 EVEX_Vsqrtpd_ymm_k1z_ymmm256b64 EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er
};
const COMPARE: Codes = codes! {
    vex: VEX_Vcmpss_xmm_xmm_xmmm32_imm8 VEX_Vcmpps_xmm_xmm_xmmm128_imm8 VEX_Vcmpps_ymm_ymm_ymmm256_imm8, VEX_Vcmpsd_xmm_xmm_xmmm64_imm8 VEX_Vcmppd_xmm_xmm_xmmm128_imm8 VEX_Vcmppd_ymm_ymm_ymmm256_imm8;
    legacy: Cmpss_xmm_xmmm32_imm8 Cmpps_xmm_xmmm128_imm8, Cmpsd_xmm_xmmm64_imm8 Cmppd_xmm_xmmm128_imm8;
    evex: EVEX_Vcmpss_kr_k1_xmm_xmmm32_imm8_sae EVEX_Vcmpps_kr_k1_xmm_xmmm128b32_imm8 EVEX_Vcmpps_kr_k1_ymm_ymmm256b32_imm8 EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, EVEX_Vcmpsd_kr_k1_xmm_xmmm64_imm8_sae EVEX_Vcmppd_kr_k1_xmm_xmmm128b64_imm8 EVEX_Vcmppd_kr_k1_ymm_ymmm256b64_imm8 EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae
};
const GREATER: Codes = codes! {
    vex: VEX_Vpcmpgtd_xmm_xmm_xmmm128 VEX_Vpcmpgtd_xmm_xmm_xmmm128 VEX_Vpcmpgtd_ymm_ymm_ymmm256, VEX_Vpcmpgtq_xmm_xmm_xmmm128 VEX_Vpcmpgtq_xmm_xmm_xmmm128 VEX_Vpcmpgtq_ymm_ymm_ymmm256;
    legacy: Pcmpgtd_xmm_xmmm128 Pcmpgtd_xmm_xmmm128, Pcmpgtq_xmm_xmmm128 Pcmpgtq_xmm_xmmm128;
    evex: EVEX_Vpcmpgtd_kr_k1_xmm_xmmm128b32 EVEX_Vpcmpgtd_kr_k1_xmm_xmmm128b32 EVEX_Vpcmpgtd_kr_k1_ymm_ymmm256b32 EVEX_Vpcmpgtd_kr_k1_zmm_zmmm512b32, EVEX_Vpcmpgtq_kr_k1_xmm_xmmm128b64 EVEX_Vpcmpgtq_kr_k1_xmm_xmmm128b64 EVEX_Vpcmpgtq_kr_k1_ymm_ymmm256b64 EVEX_Vpcmpgtq_kr_k1_zmm_zmmm512b64
};
const AND: Codes = codes! {
    vex: VEX_Vandps_xmm_xmm_xmmm128 VEX_Vandps_xmm_xmm_xmmm128 VEX_Vandps_ymm_ymm_ymmm256, VEX_Vandps_xmm_xmm_xmmm128 VEX_Vandps_xmm_xmm_xmmm128 VEX_Vandps_ymm_ymm_ymmm256;
    legacy: Andps_xmm_xmmm128 Andps_xmm_xmmm128, Andps_xmm_xmmm128 Andps_xmm_xmmm128;
    evex: EVEX_Vpandd_xmm_k1z_xmm_xmmm128b32 EVEX_Vpandd_xmm_k1z_xmm_xmmm128b32 EVEX_Vpandd_ymm_k1z_ymm_ymmm256b32 EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpandq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpandq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpandq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64
};
const AND_NOT: Codes = codes! {
    vex: VEX_Vandnps_xmm_xmm_xmmm128 VEX_Vandnps_xmm_xmm_xmmm128 VEX_Vandnps_ymm_ymm_ymmm256, VEX_Vandnps_xmm_xmm_xmmm128 VEX_Vandnps_xmm_xmm_xmmm128 VEX_Vandnps_ymm_ymm_ymmm256;
    legacy: Andnps_xmm_xmmm128 Andnps_xmm_xmmm128, Andnps_xmm_xmmm128 Andnps_xmm_xmmm128;
    evex: EVEX_Vpandnd_xmm_k1z_xmm_xmmm128b32 EVEX_Vpandnd_xmm_k1z_xmm_xmmm128b32 EVEX_Vpandnd_ymm_k1z_ymm_ymmm256b32 EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpandnq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpandnq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpandnq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpandnq_zmm_k1z_zmm_zmmm512b64
};
const OR: Codes = codes! {
    vex: VEX_Vorps_xmm_xmm_xmmm128 VEX_Vorps_xmm_xmm_xmmm128 VEX_Vorps_ymm_ymm_ymmm256, VEX_Vorps_xmm_xmm_xmmm128 VEX_Vorps_xmm_xmm_xmmm128 VEX_Vorps_ymm_ymm_ymmm256;
    legacy: Orps_xmm_xmmm128 Orps_xmm_xmmm128, Orps_xmm_xmmm128 Orps_xmm_xmmm128;
    evex: EVEX_Vpord_xmm_k1z_xmm_xmmm128b32 EVEX_Vpord_xmm_k1z_xmm_xmmm128b32 EVEX_Vpord_ymm_k1z_ymm_ymmm256b32 EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, EVEX_Vporq_xmm_k1z_xmm_xmmm128b64 EVEX_Vporq_xmm_k1z_xmm_xmmm128b64 EVEX_Vporq_ymm_k1z_ymm_ymmm256b64 EVEX_Vporq_zmm_k1z_zmm_zmmm512b64
};
const XOR: Codes = codes! {
    vex: VEX_Vxorps_xmm_xmm_xmmm128 VEX_Vxorps_xmm_xmm_xmmm128 VEX_Vxorps_ymm_ymm_ymmm256, VEX_Vxorps_xmm_xmm_xmmm128 VEX_Vxorps_xmm_xmm_xmmm128 VEX_Vxorps_ymm_ymm_ymmm256;
    legacy: Xorps_xmm_xmmm128 Xorps_xmm_xmmm128, Xorps_xmm_xmmm128 Xorps_xmm_xmmm128;
    evex: EVEX_Vpxord_xmm_k1z_xmm_xmmm128b32 EVEX_Vpxord_xmm_k1z_xmm_xmmm128b32 EVEX_Vpxord_ymm_k1z_ymm_ymmm256b32 EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, EVEX_Vpxorq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpxorq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpxorq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64
};
pub(super) const LOAD: Codes = codes! {
    vex: VEX_Vmovss_xmm_m32 VEX_Vmovups_xmm_xmmm128 VEX_Vmovups_ymm_ymmm256, VEX_Vmovsd_xmm_m64 VEX_Vmovups_xmm_xmmm128 VEX_Vmovups_ymm_ymmm256;
    legacy: Movss_xmm_xmmm32 Movups_xmm_xmmm128, Movsd_xmm_xmmm64 Movups_xmm_xmmm128;
    evex: EVEX_Vmovss_xmm_k1z_m32 EVEX_Vmovups_xmm_k1z_xmmm128 EVEX_Vmovups_ymm_k1z_ymmm256 EVEX_Vmovups_zmm_k1z_zmmm512, EVEX_Vmovsd_xmm_k1z_m64 EVEX_Vmovupd_xmm_k1z_xmmm128 EVEX_Vmovupd_ymm_k1z_ymmm256 EVEX_Vmovupd_zmm_k1z_zmmm512
};
pub(super) const STORE: Codes = codes! {
    vex: VEX_Vmovss_m32_xmm VEX_Vmovups_xmmm128_xmm VEX_Vmovups_ymmm256_ymm, VEX_Vmovsd_m64_xmm VEX_Vmovups_xmmm128_xmm VEX_Vmovups_ymmm256_ymm;
    legacy: Movss_xmmm32_xmm Movups_xmmm128_xmm, Movsd_xmmm64_xmm Movups_xmmm128_xmm;
    evex: EVEX_Vmovss_m32_k1_xmm EVEX_Vmovups_xmmm128_k1z_xmm EVEX_Vmovups_ymmm256_k1z_ymm EVEX_Vmovups_zmmm512_k1z_zmm, EVEX_Vmovsd_m64_k1_xmm EVEX_Vmovupd_xmmm128_k1z_xmm EVEX_Vmovupd_ymmm256_k1z_ymm EVEX_Vmovupd_zmmm512_k1z_zmm
};
/// A mask as all ones in each lane whose bit is set. Only AVX-512 has masks.
pub(super) const FROM_MASK: Codes = codes! {
    vex: INVALID INVALID INVALID, INVALID INVALID INVALID;
    legacy: INVALID INVALID, INVALID INVALID;
    evex: EVEX_Vpmovm2d_xmm_kr EVEX_Vpmovm2d_xmm_kr EVEX_Vpmovm2d_ymm_kr EVEX_Vpmovm2d_zmm_kr,
        EVEX_Vpmovm2q_xmm_kr EVEX_Vpmovm2q_xmm_kr EVEX_Vpmovm2q_ymm_kr EVEX_Vpmovm2q_zmm_kr
};

/// The EVEX form of a VEX code that moves, rearranges or converts: it reaches all registers. Other codes stay as they are.
fn reaching_all(code: Code) -> Code {
    match code {
        Code::VEX_Vmovaps_xmm_xmmm128 => Code::EVEX_Vmovaps_xmm_k1z_xmmm128,
        Code::VEX_Vmovaps_ymm_ymmm256 => Code::EVEX_Vmovaps_ymm_k1z_ymmm256,
        Code::VEX_Vmovups_xmm_xmmm128 => Code::EVEX_Vmovups_xmm_k1z_xmmm128,
        Code::VEX_Vmovups_xmmm128_xmm => Code::EVEX_Vmovups_xmmm128_k1z_xmm,
        Code::VEX_Vmovups_ymm_ymmm256 => Code::EVEX_Vmovups_ymm_k1z_ymmm256,
        Code::VEX_Vmovups_ymmm256_ymm => Code::EVEX_Vmovups_ymmm256_k1z_ymm,
        Code::VEX_Vmovss_xmm_m32 => Code::EVEX_Vmovss_xmm_k1z_m32,
        Code::VEX_Vmovss_m32_xmm => Code::EVEX_Vmovss_m32_k1_xmm,
        Code::VEX_Vmovsd_xmm_m64 => Code::EVEX_Vmovsd_xmm_k1z_m64,
        Code::VEX_Vmovsd_m64_xmm => Code::EVEX_Vmovsd_m64_k1_xmm,
        Code::VEX_Vmovhpd_xmm_xmm_m64 => Code::EVEX_Vmovhpd_xmm_xmm_m64,
        Code::VEX_Vmovhpd_m64_xmm => Code::EVEX_Vmovhpd_m64_xmm,
        Code::VEX_Vinsertps_xmm_xmm_xmmm32_imm8 => Code::EVEX_Vinsertps_xmm_xmm_xmmm32_imm8,
        Code::VEX_Vextractps_rm32_xmm_imm8 => Code::EVEX_Vextractps_rm32_xmm_imm8,
        Code::VEX_Vinsertf128_ymm_ymm_xmmm128_imm8 => Code::EVEX_Vinsertf32x4_ymm_k1z_ymm_xmmm128_imm8,
        Code::VEX_Vextractf128_xmmm128_ymm_imm8 => Code::EVEX_Vextractf32x4_xmmm128_k1z_ymm_imm8,
        Code::VEX_Vbroadcastss_xmm_m32 => Code::EVEX_Vbroadcastss_xmm_k1z_xmmm32,
        Code::VEX_Vbroadcastss_ymm_m32 => Code::EVEX_Vbroadcastss_ymm_k1z_xmmm32,
        Code::VEX_Vbroadcastss_xmm_xmm => Code::EVEX_Vbroadcastss_xmm_k1z_xmmm32,
        Code::VEX_Vbroadcastss_ymm_xmm => Code::EVEX_Vbroadcastss_ymm_k1z_xmmm32,
        Code::VEX_Vmovddup_xmm_xmmm64 => Code::EVEX_Vmovddup_xmm_k1z_xmmm64,
        Code::VEX_Vbroadcastsd_ymm_m64 => Code::EVEX_Vbroadcastsd_ymm_k1z_xmmm64,
        Code::VEX_Vbroadcastsd_ymm_xmm => Code::EVEX_Vbroadcastsd_ymm_k1z_xmmm64,
        Code::VEX_Vbroadcastf128_ymm_m128 => Code::EVEX_Vbroadcastf32x4_ymm_k1z_m128,
        Code::VEX_Vpshufd_xmm_xmmm128_imm8 => Code::EVEX_Vpshufd_xmm_k1z_xmmm128b32_imm8,
        Code::VEX_Vcvtss2sd_xmm_xmm_xmmm32 => Code::EVEX_Vcvtss2sd_xmm_k1z_xmm_xmmm32_sae,
        Code::VEX_Vcvtsd2ss_xmm_xmm_xmmm64 => Code::EVEX_Vcvtsd2ss_xmm_k1z_xmm_xmmm64_er,
        other => other,
    }
}

/// Emits an instruction given in its VEX form, or if it uses registers that only EVEX reaches, in that one.
pub(super) fn push(emitter: &mut Emitter<'_>, mut instruction: Instruction) {
    let only_evex = |operand| {
        let register = instruction.op_register(operand);
        register.is_vector_register() && register.number() >= 16
    };
    if (0..instruction.op_count()).any(only_evex) {
        instruction.set_code(reaching_all(instruction.code()));
    }
    emitter.asm().push(&instruction);
}

impl Op {
    /// Whether the result is a mask.
    pub fn compares(self) -> bool {
        matches!(self, Op::Less | Op::GreaterBits | Op::Equals | Op::Differs)
    }

    /// Codes, and the predicate of a comparison.
    pub fn codes(self) -> (&'static Codes, Option<u32>) {
        match self {
            Op::Add => (&ADD, None),
            Op::Sub => (&SUB, None),
            Op::Mul => (&MUL, None),
            Op::Div => (&DIV, None),
            Op::And => (&AND, None),
            Op::AndNot => (&AND_NOT, None),
            Op::Or => (&OR, None),
            Op::Xor => (&XOR, None),
            // Predicates: Intel SDM volume 2, CMPPD.
            Op::Equals => (&COMPARE, Some(0)),
            Op::Less => (&COMPARE, Some(1)),
            Op::GreaterBits => (&GREATER, None),
            Op::Differs => (&COMPARE, Some(4)),
        }
    }
}
