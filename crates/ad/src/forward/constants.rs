//! Forward mode's own part of the per-thread context: constants for vector code, which nothing changes, and a mask.

use std::mem::offset_of;

use derivgrind_engine::context::Context;
use derivgrind_engine::translate::context_memory;
use iced_x86::MemoryOperand;

use crate::instrument::{MODE_FIELDS, MODE_FIELDS_END, Thread};
use crate::ir::Format;
use crate::rounding::pattern;

/// As many bytes as the widest vector register has.
pub(super) type Lanes = [u8; 32];

/// Constants for vector instructions, each aligned to its size.
#[repr(C, align(32))]
#[derive(Debug)]
pub(super) struct Constants {
    /// All zeros, as fresh contexts are.
    pub zeros: Lanes,
    /// All bits but the signs, for binary32 and binary64.
    pub magnitudes: [Lanes; 2],
    /// The same in the lowest lane, and zeros in the others.
    pub low_magnitudes: [Lanes; 2],
    /// The largest number below all rounding constants, for binary32 and binary64.
    pub thresholds: [Lanes; 2],
    /// The table of `vfixupimm` that makes numbers zero which stand beside a zero, and keeps the others.
    pub zero_becomes_zero: Lanes,
    /// All zeros in lanes whose dot value is to become zero, else all ones: from a helper to the code that has called it.
    pub kept: Lanes,
}

const _: () = assert!(MODE_FIELDS.is_multiple_of(32) && MODE_FIELDS + size_of::<Constants>() <= MODE_FIELDS_END);

impl Constants {
    /// Those of a thread.
    pub fn of<'a>(thread: &'a mut Thread<'_>) -> &'a mut Constants {
        let fields = &raw mut thread.context_mut().tool[MODE_FIELDS];
        // SAFETY: they fit, as asserted above; the tool's part is aligned to 64 bytes within the context, and any bytes are valid.
        unsafe { &mut *fields.cast::<Constants>() }
    }

    /// Gives the constants of a new thread their values.
    pub fn fill(&mut self) {
        for (k, format) in [Format::Binary32, Format::Binary64].into_iter().enumerate() {
            let pattern = pattern(format);
            self.magnitudes[k] = in_all_lanes(pattern.magnitude(), format);
            let lowest = usize::from(format.bytes());
            self.low_magnitudes[k][..lowest].copy_from_slice(&self.magnitudes[k][..lowest]);
            self.thresholds[k] = in_all_lanes(pattern.threshold() - 1, format);
        }
        // Four bits for each class of numbers, zeros are class 2: eight stands for +0, zero for the old value (Intel SDM volume 2, VFIXUPIMMPD).
        self.zero_becomes_zero = in_all_lanes(8 << (4 * 2), Format::Binary32);
    }
}

fn in_all_lanes(bits: u64, format: Format) -> Lanes {
    std::array::from_fn(|byte| bits.to_le_bytes()[byte % usize::from(format.bytes())])
}

/// A constant as an operand of cached code; `offset` from `offset_of!(Constants, ..)`, `number` in its array.
pub(super) fn constant(offset: usize, number: usize) -> MemoryOperand {
    context_memory(offset_of!(Context, tool) + MODE_FIELDS + offset + number * size_of::<Lanes>())
}

/// Position of a format in the arrays.
pub(super) fn by_format(format: Format) -> usize {
    usize::from(format == Format::Binary64)
}
