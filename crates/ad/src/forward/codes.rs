//! Codes of the vector instructions that compute dot values, by operation, format and width.

use iced_x86::{Code, MemoryOperand, Register};

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

/// Codes for scalar, 16-byte, 32-byte and 64-byte operands, for both formats: with AVX, and without (only the first two then).
pub(super) struct Codes {
    vex: [[Code; 3]; 2],
    legacy: [[Code; 2]; 2],
    /// Comparisons have none: their results are masks, which other code keeps in vector registers.
    evex: Option<[Code; 2]>,
}

impl Codes {
    /// The code for a format and width.
    pub fn of(&self, format: Format, width: Width, avx: bool) -> Code {
        let format = usize::from(format == Format::Binary64);
        match width {
            Width::Zmm => self.evex.expect("comparisons are not emitted for 64 bytes")[format],
            _ if avx => self.vex[format][width as usize],
            _ => self.legacy[format][usize::from(width != Width::Scalar)],
        }
    }
}

macro_rules! codes {
    ($vss:ident $vsd:ident, $vps:ident $vpd:ident, $yps:ident $ypd:ident $(, $zps:ident $zpd:ident)?; $ss:ident $sd:ident, $ps:ident $pd:ident) => {
        Codes {
            vex: [[Code::$vss, Code::$vps, Code::$yps], [Code::$vsd, Code::$vpd, Code::$ypd]],
            legacy: [[Code::$ss, Code::$ps], [Code::$sd, Code::$pd]],
            evex: codes!(@evex $($zps $zpd)?),
        }
    };
    // Bitwise operations do not depend on the format.
    ($xmm:ident, $ymm:ident, $zmm:ident; $legacy:ident) => {
        Codes {
            vex: [[Code::$xmm, Code::$xmm, Code::$ymm]; 2],
            legacy: [[Code::$legacy, Code::$legacy]; 2],
            evex: Some([Code::$zmm, Code::$zmm]),
        }
    };
    (@evex) => { None };
    (@evex $zps:ident $zpd:ident) => { Some([Code::$zps, Code::$zpd]) };
}

const ADD: Codes = codes!(VEX_Vaddss_xmm_xmm_xmmm32 VEX_Vaddsd_xmm_xmm_xmmm64, VEX_Vaddps_xmm_xmm_xmmm128 VEX_Vaddpd_xmm_xmm_xmmm128,
    VEX_Vaddps_ymm_ymm_ymmm256 VEX_Vaddpd_ymm_ymm_ymmm256,
    EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er; Addss_xmm_xmmm32 Addsd_xmm_xmmm64, Addps_xmm_xmmm128 Addpd_xmm_xmmm128);
const SUB: Codes = codes!(VEX_Vsubss_xmm_xmm_xmmm32 VEX_Vsubsd_xmm_xmm_xmmm64, VEX_Vsubps_xmm_xmm_xmmm128 VEX_Vsubpd_xmm_xmm_xmmm128,
    VEX_Vsubps_ymm_ymm_ymmm256 VEX_Vsubpd_ymm_ymm_ymmm256,
    EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er; Subss_xmm_xmmm32 Subsd_xmm_xmmm64, Subps_xmm_xmmm128 Subpd_xmm_xmmm128);
const MUL: Codes = codes!(VEX_Vmulss_xmm_xmm_xmmm32 VEX_Vmulsd_xmm_xmm_xmmm64, VEX_Vmulps_xmm_xmm_xmmm128 VEX_Vmulpd_xmm_xmm_xmmm128,
    VEX_Vmulps_ymm_ymm_ymmm256 VEX_Vmulpd_ymm_ymm_ymmm256,
    EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er; Mulss_xmm_xmmm32 Mulsd_xmm_xmmm64, Mulps_xmm_xmmm128 Mulpd_xmm_xmmm128);
const DIV: Codes = codes!(VEX_Vdivss_xmm_xmm_xmmm32 VEX_Vdivsd_xmm_xmm_xmmm64, VEX_Vdivps_xmm_xmm_xmmm128 VEX_Vdivpd_xmm_xmm_xmmm128,
    VEX_Vdivps_ymm_ymm_ymmm256 VEX_Vdivpd_ymm_ymm_ymmm256,
    EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er; Divss_xmm_xmmm32 Divsd_xmm_xmmm64, Divps_xmm_xmmm128 Divpd_xmm_xmmm128);
pub(super) const SQRT: Codes = codes!(VEX_Vsqrtss_xmm_xmm_xmmm32 VEX_Vsqrtsd_xmm_xmm_xmmm64, VEX_Vsqrtps_xmm_xmmm128 VEX_Vsqrtpd_xmm_xmmm128,
    VEX_Vsqrtps_ymm_ymmm256 VEX_Vsqrtpd_ymm_ymmm256; Sqrtss_xmm_xmmm32 Sqrtsd_xmm_xmmm64, Sqrtps_xmm_xmmm128 Sqrtpd_xmm_xmmm128);
const COMPARE: Codes = codes!(VEX_Vcmpss_xmm_xmm_xmmm32_imm8 VEX_Vcmpsd_xmm_xmm_xmmm64_imm8,
    VEX_Vcmpps_xmm_xmm_xmmm128_imm8 VEX_Vcmppd_xmm_xmm_xmmm128_imm8, VEX_Vcmpps_ymm_ymm_ymmm256_imm8 VEX_Vcmppd_ymm_ymm_ymmm256_imm8;
    Cmpss_xmm_xmmm32_imm8 Cmpsd_xmm_xmmm64_imm8, Cmpps_xmm_xmmm128_imm8 Cmppd_xmm_xmmm128_imm8);
const GREATER: Codes = codes!(VEX_Vpcmpgtd_xmm_xmm_xmmm128 VEX_Vpcmpgtq_xmm_xmm_xmmm128,
    VEX_Vpcmpgtd_xmm_xmm_xmmm128 VEX_Vpcmpgtq_xmm_xmm_xmmm128, VEX_Vpcmpgtd_ymm_ymm_ymmm256 VEX_Vpcmpgtq_ymm_ymm_ymmm256;
    Pcmpgtd_xmm_xmmm128 Pcmpgtq_xmm_xmmm128, Pcmpgtd_xmm_xmmm128 Pcmpgtq_xmm_xmmm128);
const AND: Codes = codes!(VEX_Vandps_xmm_xmm_xmmm128, VEX_Vandps_ymm_ymm_ymmm256, EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64; Andps_xmm_xmmm128);
const AND_NOT: Codes = codes!(VEX_Vandnps_xmm_xmm_xmmm128, VEX_Vandnps_ymm_ymm_ymmm256, EVEX_Vpandnq_zmm_k1z_zmm_zmmm512b64; Andnps_xmm_xmmm128);
const OR: Codes =
    codes!(VEX_Vorps_xmm_xmm_xmmm128, VEX_Vorps_ymm_ymm_ymmm256, EVEX_Vporq_zmm_k1z_zmm_zmmm512b64; Orps_xmm_xmmm128);
const XOR: Codes = codes!(VEX_Vxorps_xmm_xmm_xmmm128, VEX_Vxorps_ymm_ymm_ymmm256, EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64; Xorps_xmm_xmmm128);
pub(super) const LOAD: Codes = codes!(VEX_Vmovss_xmm_m32 VEX_Vmovsd_xmm_m64, VEX_Vmovups_xmm_xmmm128 VEX_Vmovups_xmm_xmmm128,
    VEX_Vmovups_ymm_ymmm256 VEX_Vmovups_ymm_ymmm256; Movss_xmm_xmmm32 Movsd_xmm_xmmm64, Movups_xmm_xmmm128 Movups_xmm_xmmm128);
pub(super) const STORE: Codes = codes!(VEX_Vmovss_m32_xmm VEX_Vmovsd_m64_xmm, VEX_Vmovups_xmmm128_xmm VEX_Vmovups_xmmm128_xmm,
    VEX_Vmovups_ymmm256_ymm VEX_Vmovups_ymmm256_ymm; Movss_xmmm32_xmm Movsd_xmmm64_xmm, Movups_xmmm128_xmm Movups_xmmm128_xmm);

impl Op {
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
