//! What the lifter says about an instruction is compared with what the processor does: for every opcode that the processor executes,
//! bytes that the IR does not mention must not change, and bytes that it copies must arrive where it says.

use std::collections::BTreeMap;

use derivgrind_ad::ir::{Address, Effect, Ir, Mask, Place, Span, Updated};
use derivgrind_ad::lift::lift;
use derivgrind_ad::shadow;
use derivgrind_native::{DATA_BYTES, Machine, Native, Random, Registers, operands};
use iced_x86::{Code, Instruction, Mnemonic, OpCodeOperandKind, Register};

/// How a byte got its value, according to the IR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Unchanged,
    Copied,
    Cleared,
    /// By a zeroing mask: then the value itself is zero, too.
    Zeroed,
    Computed,
}

/// Shadow registers and the shadow of memory, with data in place of indices.
struct Simulation {
    registers: Vec<(u8, Origin)>,
    data: Vec<(u8, Origin)>,
    bases: BTreeMap<u8, usize>,
    masks: [u64; 8],
}

const fn key(address: Address) -> u8 {
    match address {
        Address::Operand => 0,
        Address::Stack => 1,
        Address::Frame => 2,
        Address::StringSource => 3,
        Address::StringDestination => 4,
    }
}

impl Simulation {
    fn new(machine: &Machine, instruction: &Instruction, data: u64) -> Simulation {
        let mut registers = vec![(0, Origin::Unchanged); usize::from(shadow::FILE_BYTES)];
        for (number, value) in machine.general.iter().enumerate() {
            for (position, byte) in value.to_le_bytes().into_iter().enumerate() {
                registers[usize::from(shadow::general(number as u16)) + position].0 = byte;
            }
        }
        for (number, value) in machine.vector.iter().enumerate() {
            for (position, byte) in value.iter().enumerate() {
                registers[usize::from(shadow::vector(number as u16)) + position].0 = *byte;
            }
        }
        for (number, value) in machine.masks.iter().enumerate() {
            for (position, byte) in value.to_le_bytes().into_iter().enumerate() {
                registers[usize::from(shadow::MASK) + 8 * number + position].0 = byte;
            }
        }
        let general = |register: Register| machine.general[register.number()];
        let operand = general(Register::RBX).wrapping_add(instruction.memory_displacement64());
        let bases = [
            (Address::Operand, operand),
            (Address::Stack, general(Register::RSP)),
            (Address::Frame, general(Register::RBP)),
            (Address::StringSource, general(Register::RSI)),
            (Address::StringDestination, general(Register::RDI)),
        ];
        Simulation {
            registers,
            data: machine.data.iter().map(|byte| (*byte, Origin::Unchanged)).collect(),
            bases: bases
                .into_iter()
                .map(|(address, value)| (key(address), value.wrapping_sub(data) as usize))
                .collect(),
            masks: machine.masks,
        }
    }

    fn at(&mut self, place: Place) -> &mut (u8, Origin) {
        match place {
            Place::Register(offset) => &mut self.registers[usize::from(offset)],
            Place::Memory { base, offset } => {
                let position = self.bases[&key(base)].wrapping_add_signed(isize::from(offset));
                &mut self.data[position]
            }
        }
    }

    fn set(&mut self, span: Span, origin: Origin) {
        for offset in 0..span.bytes {
            *self.at(span.place.advanced(offset)) = (0, origin);
        }
    }

    /// What a mask does to the target's byte at this offset: `None` if the effect happens there, else what becomes of it.
    fn unselected(&self, mask: Option<Mask>, offset: u16) -> Option<Unselected> {
        let mask = mask?;
        let bit = u16::from(mask.bit) + offset / u16::from(mask.element);
        let selected = self.masks[usize::from(mask.register)] >> bit & 1 != 0;
        (!selected).then_some(if mask.zeroing { Unselected::Zeroed } else { Unselected::Kept })
    }

    /// Writes to each selected byte of a target.
    fn write(&mut self, target: Span, mask: Option<Mask>, value: impl Fn(u16) -> (u8, Origin)) {
        for offset in 0..target.bytes {
            let written = match self.unselected(mask, offset) {
                Some(Unselected::Kept) => continue,
                Some(Unselected::Zeroed) => (0, Origin::Zeroed),
                None => value(offset),
            };
            *self.at(target.place.advanced(offset)) = written;
        }
    }

    fn execute(&mut self, ir: &Ir) {
        for operation in &ir.operations {
            let mask = operation.mask;
            match operation.effect {
                Effect::Clear { target } => self.write(target, mask, |_| (0, Origin::Cleared)),
                Effect::Copy { target, source, bytes } => {
                    let read: Vec<_> = (0..bytes).map(|offset| *self.at(source.advanced(offset))).collect();
                    self.write(Span::new(target, bytes), mask, |offset| {
                        let (byte, origin) = read[usize::from(offset)];
                        (byte, if origin == Origin::Unchanged { Origin::Copied } else { origin })
                    });
                }
                Effect::CompareExchange { destination, accumulator, .. } => {
                    self.set(destination, Origin::Computed);
                    // A failed comparison writes a 32-bit accumulator in full.
                    for half in accumulator.into_iter().flatten() {
                        self.set(Span::new(half.place, 8), Origin::Computed);
                    }
                }
                Effect::Update { memory, becomes: Updated::Exchanged(register), .. } => {
                    // What 32 bits of a register get clears the others.
                    let bytes = |simulation: &mut Simulation, span: Span| {
                        (0..span.bytes).map(|offset| simulation.at(span.place.advanced(offset)).0).collect::<Vec<_>>()
                    };
                    let (data, loaded) = (bytes(self, register), bytes(self, memory));
                    for (target, bytes) in [(memory, data), (register, loaded)] {
                        for (offset, byte) in bytes.into_iter().enumerate() {
                            *self.at(target.place.advanced(offset as u16)) = (byte, Origin::Copied);
                        }
                    }
                    if register.bytes == 4 {
                        self.set(Span::new(register.place.advanced(4), 4), Origin::Copied);
                    }
                }
                Effect::Update { memory, previous, .. } => {
                    let before: Vec<u8> =
                        (0..memory.bytes).map(|offset| self.at(memory.place.advanced(offset)).0).collect();
                    self.set(memory, Origin::Computed);
                    let Some(register) = previous else { continue };
                    for (offset, byte) in before.into_iter().enumerate() {
                        *self.at(register.place.advanced(offset as u16)) = (byte, Origin::Copied);
                    }
                    if register.bytes == 4 {
                        self.set(Span::new(register.place.advanced(4), 4), Origin::Copied);
                    }
                }
                effect => {
                    if let Some(target) = effect.target() {
                        self.write(target, mask, |_| (0, Origin::Computed));
                    }
                }
            }
        }
    }
}

enum Unselected {
    Kept,
    Zeroed,
}

/// Copies next to bytes that become passive without being zero: copies of a sign, integers, masks, rounded values.
fn clears_what_is_not_zero(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Movsx
            | Movsxd
            | Pmovsxbw
            | Pmovsxbd
            | Pmovsxbq
            | Pmovsxwd
            | Pmovsxwq
            | Pmovsxdq
            | Vpmovsxbw
            | Vpmovsxbd
            | Vpmovsxbq
            | Vpmovsxwd
            | Vpmovsxwq
            | Vpmovsxdq
            | Xadd
            | Enter
            | Vcvtsi2ss
            | Vcvtsi2sd
            | Vroundss
            | Vroundsd
            | Vcmpss
            | Vcmpsd
            | Vcvtusi2ss
            | Vcvtusi2sd
            | Vrndscaless
            | Vrndscalesd
            | Vgetexpss
            | Vgetexpsd
    )
}

/// The derivative is one, so that shadow is copied, but the result is another number.
fn copies_shadow_only(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(mnemonic, Vreduceps | Vreducepd | Vreducess | Vreducesd)
}

fn is_testable(code: Code) -> bool {
    use Mnemonic::*;
    let bit_string = matches!(code.mnemonic(), Btc | Btr | Bts) && code.op_code().op_kind(1) != OpCodeOperandKind::imm8;
    // The result of a 16-bit `bswap` is undefined.
    !bit_string
        && code != Code::Bswap_r16
        && !matches!(
            code.mnemonic(),
            // They change what the test itself needs, or move state that is not observed here.
            Wrfsbase
                | Wrgsbase
                | Wrpkru
                | Swapgs
                | Xbegin
                | Fxsave
                | Fxsave64
                | Xsave
                | Xsave64
                | Xsaveopt
                | Xsaveopt64
                | Xsavec
                | Xsavec64
                | Fxrstor
                | Fxrstor64
                | Xrstor
                | Xrstor64
                | Fnsave
                | Fsave
                | Frstor
                | Fldenv
                | Fnstenv
                | Popf
                | Popfq
                | Syscall
                | Sysenter
                | Std
                | Fstenv
        )
}

/// All differences between what the IR says and what the processor did.
fn differences(simulation: &Simulation, after: &Machine, ir: &Ir, instruction: &Instruction) -> Vec<String> {
    let copies =
        ir.operations.iter().all(|operation| matches!(operation.effect, Effect::Copy { .. } | Effect::Clear { .. }))
            && ir.operations.iter().any(|operation| matches!(operation.effect, Effect::Copy { .. }))
            && !clears_what_is_not_zero(instruction.mnemonic())
            && !copies_shadow_only(instruction.mnemonic());
    let mut differences = Vec::new();
    let mut compare = |name: String, (expected, origin): (u8, Origin), found: u8| {
        let agrees = match origin {
            Origin::Copied if copies_shadow_only(instruction.mnemonic()) => true,
            Origin::Unchanged | Origin::Copied => expected == found,
            Origin::Zeroed => found == 0,
            Origin::Cleared => !copies || found == 0,
            Origin::Computed => true,
        };
        if !agrees {
            differences.push(format!("{name}: {origin:?} {expected:#04x}, found {found:#04x}"));
        }
    };
    let is_address = |number| {
        number == Register::RSP.number()
            || instruction.is_string_instruction() && [Register::RSI.number(), Register::RDI.number()].contains(&number)
    };
    for number in (0..16).filter(|&number| !is_address(number)) {
        for (position, found) in after.general[number].to_le_bytes().into_iter().enumerate() {
            let expected = simulation.registers[usize::from(shadow::general(number as u16)) + position];
            compare(format!("general register {number} byte {position}"), expected, found);
        }
    }
    // What is loaded and stored of vector registers depends on the instruction.
    let wide = Registers::of(instruction) == Registers::Wide;
    let (vectors, vector_bytes, masks) = if wide { (32, 64, 8) } else { (16, 32, 0) };
    for number in 0..masks {
        for (position, found) in after.masks[number].to_le_bytes().into_iter().enumerate() {
            let expected = simulation.registers[usize::from(shadow::MASK) + 8 * number + position];
            compare(format!("mask register {number} byte {position}"), expected, found);
        }
    }
    for number in 0..vectors {
        for position in 0..vector_bytes {
            let expected = simulation.registers[usize::from(shadow::vector(number as u16)) + position];
            compare(format!("vector register {number} byte {position}"), expected, after.vector[number][position]);
        }
    }
    for position in 0..DATA_BYTES {
        compare(format!("memory byte {position}"), simulation.data[position], after.data[position]);
    }
    differences
}

#[test]
fn every_executable_instruction_does_what_the_ir_says() {
    const TRIALS: usize = 6;
    let mut native = Native::new();
    let mut random = Random(1);
    let mut failures = Vec::new();
    let mut executed = BTreeMap::<Mnemonic, usize>::new();
    for code in Code::values().filter(|code| is_testable(*code)) {
        for trial in 0..TRIALS {
            let Some(instruction) = operands::random_instruction(code, &mut random) else { break };
            // MMX registers are not observed.
            if (0..instruction.op_count()).any(|operand| instruction.op_register(operand).is_mm()) {
                break;
            }
            let before = Machine::random(&mut random, native.data());
            let mut after = before.clone();
            if native.run(&instruction, &mut after).is_err() {
                if trial == 1 {
                    break;
                }
                continue;
            }
            *executed.entry(instruction.mnemonic()).or_default() += 1;
            let ir = lift(&[instruction]);
            let mut simulation = Simulation::new(&before, &instruction, native.data());
            simulation.execute(&ir);
            let differences = differences(&simulation, &after, &ir, &instruction);
            if !differences.is_empty() {
                failures.push(format!(
                    "{instruction} ({code:?})\n{ir}  {}",
                    differences[..differences.len().min(4)].join("\n  ")
                ));
                break;
            }
        }
    }
    eprintln!("{} mnemonics executed", executed.len());
    assert!(failures.is_empty(), "{} opcodes differ:\n{}", failures.len(), failures.join("\n"));
    // The processor must at least know AVX2, or this test says little.
    assert!(executed.len() > 600, "only {} mnemonics were executed", executed.len());
}
