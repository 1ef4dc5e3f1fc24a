//! Instructions whose result is another one each time: they are not executed natively, their outcome is taken over from the engine.

use iced_x86::{Instruction, Mnemonic};

/// Clocks, counters, random numbers, the number of the processor, and waiting, whose carry flag tells how it ended.
const UNPREDICTABLE: &[Mnemonic] = &[
    Mnemonic::Rdtsc,
    Mnemonic::Rdtscp,
    Mnemonic::Rdpmc,
    Mnemonic::Rdpru,
    Mnemonic::Rdpid,
    Mnemonic::Rdrand,
    Mnemonic::Rdseed,
    Mnemonic::Tpause,
    Mnemonic::Umwait,
    // Which state components are in use: not the same after an XRSTOR as without.
    Mnemonic::Xgetbv,
];

/// Whether an instruction's result differs from run to run.
pub(super) fn is_unpredictable(instruction: &Instruction) -> bool {
    UNPREDICTABLE.contains(&instruction.mnemonic())
}
