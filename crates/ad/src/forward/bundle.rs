//! Dot values of several directions side by side in one vector register.
//!
//! Operand values, and what is computed from them alone, are the same in all directions. So if the dot values of 2, 4 or 8 directions lie one after the
//! other in a register, and the value is repeated beside each of them, one instruction computes for all of them. In shadow each direction has a layer
//! of its own; pieces of 4 to 32 bytes are gathered from there and scattered again.

use std::ops::Range;

use derivgrind_engine::translate::{Emitter, registers};
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

use crate::instrument::layers;

use super::codes::{self, Source, Width};

/// Directions whose dot values one register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bundle {
    first: usize,
    count: usize,
}

/// Highest number of directions in a bundle.
const MOST: usize = super::MOST_DIRECTIONS;

impl Bundle {
    /// All directions, whatever their number is.
    pub(super) const EVERY: Bundle = Bundle { first: 0, count: MOST };

    /// A direction by itself.
    pub const fn single(layer: usize) -> Bundle {
        Bundle { first: layer, count: 1 }
    }

    /// Bundles of all directions for pieces of so many bytes: as large as the processor's registers allow, beside the block's own instructions.
    pub fn all(emitter: &Emitter<'_>, bytes: u16) -> Vec<Bundle> {
        if layers().len() == 1 {
            return Self::singles();
        }
        let block = emitter.block();
        let widest = if emitter.has_borrowed_avx512() {
            64
        } else if !registers::has_avx() {
            0
        } else if block.has_legacy_vectors() && !registers::mixes_with_wide_vectors() {
            16
        } else if registers::has_avx512() {
            64
        } else if is_x86_feature_detected!("avx2") {
            32
        } else {
            0
        };
        bundles(layers(), (widest / usize::from(bytes)).clamp(1, MOST))
    }

    /// One for each direction.
    pub fn singles() -> Vec<Bundle> {
        bundles(layers(), 1)
    }

    /// Whether there is one direction only.
    pub fn is_single(self) -> bool {
        self.count == 1
    }

    /// The directions.
    pub fn layers(self) -> Range<usize> {
        self.first..self.first + self.count
    }

    /// Whether a direction is in both.
    pub fn overlaps(self, other: Bundle) -> bool {
        self.first < other.layers().end && other.first < self.layers().end
    }

    /// Whether all directions of the other one are in it.
    pub fn contains(self, other: Bundle) -> bool {
        self.first <= other.first && other.layers().end <= self.layers().end
    }

    /// What a register has to hold for pieces of so many bytes, if there are several directions.
    pub(super) fn width(self, bytes: u16) -> Width {
        match usize::from(bytes) * self.count {
            0..=16 => Width::Xmm,
            17..=32 => Width::Ymm,
            _ => Width::Zmm,
        }
    }
}

fn bundles(layers: Range<usize>, most: usize) -> Vec<Bundle> {
    let mut bundles = Vec::new();
    let mut first = layers.start;
    while first < layers.end {
        let count = 1 << (layers.end - first).min(most).ilog2();
        bundles.push(Bundle { first, count });
        first += count;
    }
    bundles
}

/// Vector registers in which pieces of several directions are put together and taken apart, in any of their forms.
pub(super) struct Assembly {
    /// The register that holds all pieces.
    pub whole: Register,
    /// One for 16 bytes of them.
    pub part: Register,
    /// Bytes of a piece.
    pub bytes: u16,
}

impl Assembly {
    /// Gathers the pieces of all directions, at most as many as there is room for.
    pub fn gather(&self, emitter: &mut Emitter<'_>, pieces: &[MemoryOperand]) {
        let Assembly { whole, part, bytes } = *self;
        if bytes == 32 {
            push(emitter, Instruction::with2(Code::VEX_Vmovups_ymm_ymmm256, wide(whole, 32), pieces[0]));
            let z = wide(whole, 64);
            push(emitter, Instruction::with4(Code::EVEX_Vinsertf64x4_zmm_k1z_zmm_ymmm256_imm8, z, z, pieces[1], 1));
            return;
        }
        for (number, pieces) in pieces.chunks(usize::from(16 / bytes)).enumerate() {
            if number == 0 {
                gather_part(emitter, whole, bytes, pieces);
                continue;
            }
            let source = if bytes == 16 {
                Source::Memory(pieces[0])
            } else {
                gather_part(emitter, part, bytes, pieces);
                Source::Register(part)
            };
            let number = number as u32;
            let (code, all) = if number == 1 {
                (Code::VEX_Vinsertf128_ymm_ymm_xmmm128_imm8, wide(whole, 32))
            } else {
                (Code::EVEX_Vinsertf32x4_zmm_k1z_zmm_xmmm128_imm8, wide(whole, 64))
            };
            push(
                emitter,
                match source {
                    Source::Register(part) => Instruction::with4(code, all, all, part, number),
                    Source::Memory(piece) => Instruction::with4(code, all, all, piece, number),
                },
            );
        }
    }

    /// Scatters the pieces to where the directions have them.
    pub fn scatter(&self, emitter: &mut Emitter<'_>, pieces: &[MemoryOperand]) {
        let Assembly { whole, part, bytes } = *self;
        if bytes == 32 {
            push(emitter, Instruction::with2(Code::VEX_Vmovups_ymmm256_ymm, pieces[0], wide(whole, 32)));
            let code = Code::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8;
            push(emitter, Instruction::with3(code, pieces[1], wide(whole, 64), 1));
            return;
        }
        for (number, pieces) in pieces.chunks(usize::from(16 / bytes)).enumerate() {
            if number == 0 {
                scatter_part(emitter, whole, bytes, pieces);
                continue;
            }
            let number = number as u32;
            let (code, all) = if number == 1 {
                (Code::VEX_Vextractf128_xmmm128_ymm_imm8, wide(whole, 32))
            } else {
                (Code::EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8, wide(whole, 64))
            };
            if bytes == 16 {
                push(emitter, Instruction::with3(code, pieces[0], all, number));
            } else {
                push(emitter, Instruction::with3(code, part, all, number));
                scatter_part(emitter, part, bytes, pieces);
            }
        }
    }

    /// Repeats a piece, which is at the low end of a register or in memory, beside each direction's.
    pub fn repeat(&self, emitter: &mut Emitter<'_>, piece: Source, count: usize) {
        let Assembly { whole, bytes, .. } = *self;
        let to = wide(whole, bytes * count as u16);
        match piece {
            Source::Memory(piece) => {
                let code = match (bytes, bytes * count as u16) {
                    (4, ..=16) => Code::VEX_Vbroadcastss_xmm_m32,
                    (4, _) => Code::VEX_Vbroadcastss_ymm_m32,
                    (8, ..=16) => Code::VEX_Vmovddup_xmm_xmmm64,
                    (8, ..=32) => Code::VEX_Vbroadcastsd_ymm_m64,
                    (8, _) => Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64,
                    (16, ..=32) => Code::VEX_Vbroadcastf128_ymm_m128,
                    (16, _) => Code::EVEX_Vbroadcastf32x4_zmm_k1z_m128,
                    _ => Code::EVEX_Vbroadcastf64x4_zmm_k1z_m256,
                };
                push(emitter, Instruction::with2(code, to, piece));
            }
            Source::Register(piece) => {
                let xmm = wide(piece, 16);
                let instruction = match (bytes, bytes * count as u16) {
                    (4, ..=16) => Instruction::with2(Code::VEX_Vbroadcastss_xmm_xmm, to, xmm),
                    (4, _) => Instruction::with2(Code::VEX_Vbroadcastss_ymm_xmm, to, xmm),
                    (8, ..=16) => Instruction::with2(Code::VEX_Vmovddup_xmm_xmmm64, to, xmm),
                    (8, ..=32) => Instruction::with2(Code::VEX_Vbroadcastsd_ymm_xmm, to, xmm),
                    (8, _) => Instruction::with2(Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64, to, xmm),
                    (16, ..=32) => {
                        let code = Code::VEX_Vinsertf128_ymm_ymm_xmmm128_imm8;
                        Instruction::with4(code, to, wide(piece, 32), xmm, 1)
                    }
                    // Of four quarters the first one, or the first two, twice.
                    (quarters, _) => {
                        let (code, all) = (Code::EVEX_Vshuff64x2_zmm_k1z_zmm_zmmm512b64_imm8, wide(piece, 64));
                        Instruction::with4(code, to, all, all, if quarters == 16 { 0 } else { 0b0100_0100 })
                    }
                };
                push(emitter, instruction);
            }
        }
    }
}

/// Up to 16 bytes of pieces of 4, 8 or 16.
fn gather_part(emitter: &mut Emitter<'_>, part: Register, bytes: u16, pieces: &[MemoryOperand]) {
    let xmm = wide(part, 16);
    let first = match bytes {
        4 => Code::VEX_Vmovss_xmm_m32,
        8 => Code::VEX_Vmovsd_xmm_m64,
        _ => Code::VEX_Vmovups_xmm_xmmm128,
    };
    push(emitter, Instruction::with2(first, xmm, pieces[0]));
    for (lane, &piece) in pieces.iter().enumerate().skip(1) {
        push(
            emitter,
            match bytes {
                // Into lane k: Intel SDM volume 2, INSERTPS.
                4 => Instruction::with4(Code::VEX_Vinsertps_xmm_xmm_xmmm32_imm8, xmm, xmm, piece, (lane << 4) as u32),
                _ => Instruction::with3(Code::VEX_Vmovhpd_xmm_xmm_m64, xmm, xmm, piece),
            },
        );
    }
}

fn scatter_part(emitter: &mut Emitter<'_>, part: Register, bytes: u16, pieces: &[MemoryOperand]) {
    let xmm = wide(part, 16);
    let first = match bytes {
        4 => Code::VEX_Vmovss_m32_xmm,
        8 => Code::VEX_Vmovsd_m64_xmm,
        _ => Code::VEX_Vmovups_xmmm128_xmm,
    };
    push(emitter, Instruction::with2(first, pieces[0], xmm));
    for (lane, &piece) in pieces.iter().enumerate().skip(1) {
        push(
            emitter,
            match bytes {
                4 => Instruction::with3(Code::VEX_Vextractps_rm32_xmm_imm8, piece, xmm, lane as u32),
                _ => Instruction::with2(Code::VEX_Vmovhpd_m64_xmm, piece, xmm),
            },
        );
    }
}

/// The form of a vector register with at least so many bytes.
fn wide(register: Register, bytes: u16) -> Register {
    match bytes {
        0..=16 => registers::xmm(register.number()),
        17..=32 => registers::ymm(register.number()),
        _ => registers::zmm(register.number()),
    }
}

fn push(emitter: &mut Emitter<'_>, instruction: Result<Instruction, IcedError>) {
    codes::push(emitter, instruction.expect("the code takes such operands"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_directions_are_in_bundles() {
        let counts = |layers, most| bundles(0..layers, most).iter().map(|bundle| bundle.count).collect::<Vec<_>>();
        assert_eq!(counts(1, 8), [1]);
        assert_eq!(counts(4, 4), [4]);
        assert_eq!(counts(7, 4), [4, 2, 1]);
        assert_eq!(counts(8, 8), [8]);
        assert_eq!(counts(3, 1), [1, 1, 1]);
        let seven = bundles(0..7, 4);
        assert_eq!(seven.iter().flat_map(|bundle| bundle.layers()).collect::<Vec<_>>(), (0..7).collect::<Vec<_>>());
        assert!(!seven[0].overlaps(seven[1]) && seven[1].overlaps(Bundle::single(5)));
    }
}
