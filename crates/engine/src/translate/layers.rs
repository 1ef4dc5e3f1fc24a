//! Operands in the further shadow layers.
//!
//! With the base of GS the shadow in the first layer is the application's own operand with a prefix. The others are whole multiples of a distance away
//! that no displacement reaches, so it is kept in scratch registers as an index: scales of it reach several layers from one address.

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::emitter::Emitter;
use crate::memory::{SHADOW_STRIDE, shadow_layers};

/// How a layer is reached: which multiple of the distance is in the index register, its scale, and whether the base of GS is added.
struct Way {
    triple: bool,
    scale: u32,
    gs: bool,
}

/// By layer, from the second one on: the distance from application memory in units of [`SHADOW_STRIDE`] is one more than the layer's number.
const WAYS: [Way; 7] = [
    Way { triple: false, scale: 1, gs: true },
    Way { triple: false, scale: 2, gs: true },
    Way { triple: false, scale: 4, gs: false },
    Way { triple: false, scale: 4, gs: true },
    Way { triple: true, scale: 2, gs: false },
    Way { triple: true, scale: 2, gs: true },
    Way { triple: false, scale: 8, gs: false },
];
/// Up to so many layers the triple of the distance is not needed.
const WITHOUT_TRIPLE: u32 = 5;

/// An operand of which each layer's shadow can be reached: at most a 64-bit base and a displacement.
#[derive(Clone, Copy, Debug)]
pub struct Layered {
    /// The operand in the first layer.
    first: MemoryOperand,
    /// The application's operand, flat.
    flat: MemoryOperand,
}

impl Layered {
    /// The operand some bytes further on.
    pub fn advanced(self, bytes: i64) -> Layered {
        let advance = |mut operand: MemoryOperand| {
            operand.displacement = operand.displacement.wrapping_add(bytes);
            if bytes != 0 && operand.displ_size == 0 {
                operand.displ_size = 8;
            }
            operand
        };
        Layered { first: advance(self.first), flat: advance(self.flat) }
    }
}

impl Emitter<'_> {
    /// General registers that operands in further layers take, beside those of [`crate::Tool::scratch`].
    pub fn layer_registers() -> usize {
        match shadow_layers() {
            0 | 1 => 0,
            2..=WITHOUT_TRIPLE => 2,
            _ => 3,
        }
    }

    /// Reserves `generals` and `vectors` as [`Emitter::reserve`] does, and registers for operands in further layers, if there are any.
    pub fn reserve_with_layers(&mut self, generals: usize, vectors: usize) {
        let count = Self::layer_registers();
        self.reserve(generals + count, vectors);
        self.layer_scratch = self.scratch_general[generals..].to_vec();
        self.load_distances();
    }

    /// Loads the distances of layers into their registers, where they are in use: after code that has used the registers otherwise.
    pub fn load_distances(&mut self) {
        let registers = self.layer_scratch.clone();
        for (&register, value) in registers.iter().skip(1).zip([SHADOW_STRIDE, 3 * SHADOW_STRIDE]) {
            if self.state.spilled & (1 << register.number()) != 0 {
                self.asm.constant(register, value);
            }
        }
    }

    /// Prepares an operand of the application (without its segment) for access to its shadow in all layers. `first` is its shadow in the first one.
    /// It is valid until another operand is prepared, the instruction is executed or a helper is called.
    pub fn layered(&mut self, operand: MemoryOperand, first: MemoryOperand) -> Layered {
        let narrow = operand.base.is_gpr32() || operand.index.is_gpr32();
        let Some(&address) = self.layer_scratch.first() else { return Layered { first, flat: operand } };
        if operand.index == Register::None && !narrow {
            return Layered { first, flat: operand };
        }
        let (code, target) =
            if narrow { (Code::Lea_r32_m, super::registers::general32(address)) } else { (Code::Lea_r64_m, address) };
        let lea = Instruction::with2(code, target, operand);
        self.asm.push(&lea.expect("lea takes register and memory"));
        Layered { first, flat: super::operand::memory(address, 0) }
    }

    /// Computes the address of the shadow, in one of the layers from the second one on, of what `base` points to (a 64-bit register or none), for
    /// operands whose index register is taken. It is valid as long as [`Emitter::layered`] says.
    pub fn address_in_layer(&mut self, base: MemoryOperand, layer: usize) -> Register {
        let (address, distance) = (self.layer_scratch[0], self.layer_scratch[1]);
        let mut from = base.base;
        for bit in (0..4).filter(|bit| (layer + 1) & (1 << bit) != 0) {
            let displacement = if from == base.base { base.displacement } else { 0 };
            let size = if displacement != 0 || from == Register::None { 8 } else { 0 };
            let sum = MemoryOperand::new(from, distance, 1 << bit, displacement, size, false, Register::None);
            self.asm.lea(address, sum);
            from = address;
        }
        address
    }

    /// The shadow of an operand in a layer, counted from 0.
    pub fn in_layer(&self, operand: &Layered, layer: usize) -> MemoryOperand {
        let Some(way) = layer.checked_sub(1).map(|further| &WAYS[further]) else { return operand.first };
        let MemoryOperand { base, displacement, displ_size, .. } = operand.flat;
        let distance = self.layer_scratch[if way.triple { 2 } else { 1 }];
        let segment = if way.gs { Register::GS } else { Register::None };
        MemoryOperand::new(base, distance, way.scale, displacement, displ_size, false, segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layer_is_one_distance_further_on() {
        for (further, way) in WAYS.iter().enumerate() {
            let distance = way.scale as usize * if way.triple { 3 } else { 1 } + usize::from(way.gs);
            assert_eq!(distance, further + 2, "layer {}", further + 1);
            assert!(!way.triple || further + 2 > WITHOUT_TRIPLE as usize);
        }
    }
}
