//! What a write mask and a broadcast do to the elements of an instruction (AVX-512).

use std::ops::Range;

use derivgrind_native::{Machine, Native, Random, Registers};
use iced_x86::{Instruction, OpKind};

use crate::places;
use crate::values::{self, Format};

/// Which bytes of the destination a bit of the write mask governs: found out on the processor.
#[derive(Clone, Debug, Default)]
pub struct Elements {
    /// The destination, the mask register, and bytes of an element.
    mask: Option<(Range<usize>, Range<usize>, usize)>,
}

impl Elements {
    /// Executes the instruction with and without the lowest bit of its mask.
    pub fn observe(
        native: &mut Native,
        instruction: &Instruction,
        base: &Machine,
        random: &mut Random,
    ) -> Option<Elements> {
        /// A byte of a result is what was there by chance once in 256 times.
        const RUNS: usize = 9;
        if !instruction.has_op_mask() || instruction.is_vsib() || instruction.op0_register().is_k() {
            return Some(Elements::default());
        }
        let target = places::operand(instruction, 0)?;
        let mask = places::register(instruction.op_mask())?;
        let mut merging = *instruction;
        merging.set_zeroing_masking(false);
        let mut end = 0;
        // Random bits, or numbers that add up to another one.
        let formats = [None, Some(Format::Single), Some(Format::Double)];
        for format in formats.into_iter().cycle().take(RUNS) {
            let mut before = base.clone();
            for range in places::data(Registers::of(instruction)) {
                let bytes = &mut before.bytes_mut()[range];
                match format {
                    None => random.fill(bytes),
                    Some(format) => bytes.chunks_exact_mut(format.bytes()).for_each(|number| {
                        let value = values::moderate(format, random).to_le_bytes();
                        number.copy_from_slice(&value[..format.bytes()]);
                    }),
                }
            }
            for pointer in places::needed(instruction) {
                let range = places::register(pointer.register())?;
                before.bytes_mut()[range.clone()].copy_from_slice(&base.bytes()[range]);
            }
            let [without, with] = [0u64, 1].map(|bits| {
                let mut machine = before.clone();
                machine.bytes_mut()[mask.clone()].copy_from_slice(&bits.to_le_bytes());
                native.run(&merging, &mut machine).ok().map(|()| machine.bytes()[target.clone()].to_vec())
            });
            let (without, with) = (without?, with?);
            let last = (0..target.len()).rev().find(|&at| without[at] != with[at]);
            end = end.max(last.map_or(0, |last| last + 1));
        }
        Some(Elements { mask: Some((target, mask, end.next_power_of_two())) })
    }

    /// Bytes of an element, if there is a write mask.
    pub fn bytes(&self) -> Option<usize> {
        self.mask.as_ref().map(|(.., bytes)| *bytes)
    }

    /// Whether the instruction keeps or zeroes the byte at an offset of the machine because of its mask.
    pub fn are_masked_out(&self, machine: &Machine, at: usize) -> bool {
        let Some((target, mask, bytes)) = &self.mask else { return false };
        let mut bits = [0; 8];
        bits.copy_from_slice(&machine.bytes()[mask.clone()]);
        target.contains(&at) && u64::from_le_bytes(bits) >> ((at - target.start) / bytes) & 1 == 0
    }
}

/// An operand of corresponding elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Where it lies.
    pub range: Range<usize>,
    /// Whether it is one element for all.
    pub broadcast: bool,
}

impl Operand {
    /// An operand of an instruction, if it has a place.
    pub fn of(instruction: &Instruction, operand: u32) -> Option<Operand> {
        let broadcast = instruction.is_broadcast() && instruction.op_kind(operand) == OpKind::Memory;
        Some(Operand { range: places::operand(instruction, operand)?, broadcast })
    }

    /// Where what belongs to the byte `within` the destination lies; `element` is the width of a number.
    pub fn at(&self, within: usize, element: usize) -> usize {
        self.range.start + if self.broadcast { within % element.min(self.range.len()) } else { within }
    }

    /// Whether there is anything.
    pub fn reaches(&self, within: usize) -> bool {
        self.broadcast || within < self.range.len()
    }
}
