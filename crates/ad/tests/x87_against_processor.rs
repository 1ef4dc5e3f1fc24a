//! What the lifter and the rules say about x87 instructions is compared with what the processor does: a difference quotient of each instruction, in a
//! random direction of its operands, against the dot values that follow from the AD IR. That finds a wrong table entry, a wrong order of operands, a
//! stack that moves the wrong way, and a wrong partial derivative.

use std::collections::BTreeMap;

use derivgrind_ad::ir::{Address, Effect, Ir, Place, Span, StackChange, X87Format, X87Operand, X87Operation};
use derivgrind_ad::lift::lift;
use derivgrind_ad::shadow;
use derivgrind_ad::x87::{Extended, Session};
use derivgrind_native::forms::Class;
use derivgrind_native::{Machine, Native, Pointer, Random, operands};
use iced_x86::{Code, ConditionCode, Instruction, Mnemonic};

/// Numbers on the x87 stack; the other registers are empty.
const DEPTH: usize = 6;

/// A direction: dot values of the registers and of the memory operand.
#[derive(Clone, Copy, Debug, Default)]
struct Dots {
    registers: [f64; 8],
    memory: f64,
    temporary: [f64; 8],
}

impl Dots {
    fn slot(&mut self, place: Place) -> &mut f64 {
        match place {
            Place::Register(offset) if (shadow::X87..shadow::MASK).contains(&offset) => {
                &mut self.registers[usize::from((offset - shadow::X87) / 16)]
            }
            Place::Register(offset) => &mut self.temporary[usize::from((offset - shadow::TEMPORARY) / 10)],
            Place::Memory { .. } => &mut self.memory,
        }
    }

    fn rotate(&mut self, by: i8) {
        self.registers.rotate_right(by.rem_euclid(8) as usize);
    }

    /// Follows the IR, on the machine before the instruction.
    fn follow(&mut self, ir: &Ir, machine: &Machine, instruction: &Instruction) {
        for operation in &ir.operations {
            match operation.effect {
                Effect::Clear { target: Span { place: Place::Register(offset), bytes } }
                    if (shadow::X87..shadow::MASK).contains(&offset) =>
                {
                    let first = usize::from((offset - shadow::X87) / 16);
                    self.registers[first..(first + usize::from(bytes).div_ceil(16)).min(8)].fill(0.0);
                }
                Effect::Clear { target } if target.place.is_memory() => self.memory = 0.0,
                Effect::Copy { target, source, .. } => *self.slot(target) = *self.slot(source),
                Effect::X87Move { target, source } => *self.slot(target.place) = *self.slot(source.place),
                Effect::X87 { operation, target, a, b } => {
                    let values = [Some(a), b].map(|operand| operand.map_or(Extended::ZERO, |a| value(a, machine)));
                    let dots = [Some(a), b].map(|operand| operand.filter(|a| a.real().is_some()));
                    let dots = dots.map(|operand| operand.map_or(0.0, |a| *self.slot(a.place)));
                    *self.slot(target) = dot(operation, values, dots);
                }
                Effect::Rotate { by } => self.rotate(by),
                Effect::Select { condition, target, source } => {
                    if holds(condition, machine.flags) {
                        *self.slot(target.place) = *self.slot(source);
                    }
                }
                Effect::Stack { change: StackChange::SineCosine } => {
                    let (operand, dots) = ([number(machine, 0), Extended::ZERO], [self.registers[0], 0.0]);
                    self.registers[0] = dot(X87Operation::Sine, operand, dots);
                    self.rotate(1);
                    self.registers[0] = dot(X87Operation::Cosine, operand, dots);
                }
                Effect::Stack { change: StackChange::Tangent } => {
                    let (operand, dots) = ([number(machine, 0), Extended::ZERO], [self.registers[0], 0.0]);
                    self.registers[0] = dot(X87Operation::Tangent, operand, dots);
                    self.rotate(1);
                    self.registers[0] = 0.0;
                }
                Effect::Clear { .. } | Effect::Lost { .. } => {}
                effect => panic!("{instruction}: {effect}"),
            }
        }
    }
}

fn dot(operation: X87Operation, values: [Extended; 2], dots: [f64; 2]) -> f64 {
    let partials = operation.partials(&Session::begin(), values[0], values[1]).map(Extended::to_f64);
    (0..2).map(|k| if dots[k] == 0.0 { 0.0 } else { partials[k] * dots[k] }).sum()
}

fn holds(condition: ConditionCode, flags: u64) -> bool {
    let (carry, parity, zero) = (flags & 1 != 0, flags & 4 != 0, flags & 0x40 != 0);
    match condition {
        ConditionCode::b => carry,
        ConditionCode::ae => !carry,
        ConditionCode::e => zero,
        ConditionCode::ne => !zero,
        ConditionCode::be => carry || zero,
        ConditionCode::a => !(carry || zero),
        ConditionCode::p => parity,
        ConditionCode::np => !parity,
        other => panic!("{other:?} is no condition of x87"),
    }
}

fn number(machine: &Machine, register: usize) -> Extended {
    Extended::from_bytes(machine.x87[register][..10].try_into().unwrap())
}

/// The memory operand, which lies at the beginning of the data.
fn memory<const BYTES: usize>(machine: &Machine) -> [u8; BYTES] {
    machine.data[Pointer::Operand.offset()..][..BYTES].try_into().unwrap()
}

fn value(operand: X87Operand, machine: &Machine) -> Extended {
    if let Place::Register(offset) = operand.place {
        return number(machine, usize::from((offset - shadow::X87) / 16));
    }
    match operand.format {
        X87Format::Binary32 => Extended::from_f32(f32::from_le_bytes(memory(machine))),
        X87Format::Binary64 => Extended::from_f64(f64::from_le_bytes(memory(machine))),
        X87Format::Extended => Extended::from_bytes(memory(machine)),
        X87Format::Integer16 => Extended::from_i32(i16::from_le_bytes(memory(machine)).into()),
        X87Format::Integer32 => Extended::from_i32(i32::from_le_bytes(memory(machine))),
    }
}

/// The format of the instruction's memory operand, if that is a real number.
fn memory_format(instruction: &Instruction) -> Option<X87Format> {
    match instruction.memory_size() {
        iced_x86::MemorySize::Float32 => Some(X87Format::Binary32),
        iced_x86::MemorySize::Float64 => Some(X87Format::Binary64),
        iced_x86::MemorySize::Float80 => Some(X87Format::Extended),
        _ => None,
    }
}

fn set_memory(machine: &mut Machine, format: X87Format, value: f64) {
    let data = &mut machine.data[Pointer::Operand.offset()..];
    match format {
        X87Format::Binary32 => data[..4].copy_from_slice(&(value as f32).to_le_bytes()),
        X87Format::Binary64 => data[..8].copy_from_slice(&value.to_le_bytes()),
        _ => data[..10].copy_from_slice(&Extended::from_f64(value).to_bytes()),
    }
}

/// An odd number of sixteenths, below `bound` sixteenths in magnitude: never an integer, and no tie.
fn sixteenths(random: &mut Random, bound: u64) -> f64 {
    let magnitude = (2 * random.below(bound / 2) + 1) as f64 / 16.0;
    if random.below(2) == 0 { magnitude } else { -magnitude }
}

/// An operand in the domain of the instruction.
fn argument(random: &mut Random, mnemonic: Mnemonic, register: usize) -> f64 {
    let bound = match mnemonic {
        Mnemonic::F2xm1 if register == 0 => 16,
        Mnemonic::Fyl2xp1 if register == 0 => 6,
        _ => 64,
    };
    let value = sixteenths(random, bound);
    if matches!(mnemonic, Mnemonic::Fyl2x | Mnemonic::Fsqrt) && register == 0 { value.abs() } else { value }
}

/// Values of the operands.
#[derive(Clone, Copy, Debug)]
struct Point {
    registers: [f64; 8],
    memory: f64,
}

impl Point {
    fn on(&self, machine: &Machine, format: Option<X87Format>) -> Machine {
        let mut machine = machine.clone();
        for (register, value) in machine.x87.iter_mut().zip(self.registers) {
            register[..10].copy_from_slice(&Extended::from_f64(value).to_bytes());
        }
        if let Some(format) = format {
            set_memory(&mut machine, format, self.memory);
        }
        machine
    }

    fn moved(&self, dots: &Dots, step: f64) -> Point {
        let registers = std::array::from_fn(|k| self.registers[k] + step * dots.registers[k]);
        Point { registers, memory: self.memory + step * dots.memory }
    }
}

/// Whether the x87 register that is ST(`number`) after the instruction holds a number.
fn is_full(machine: &Machine, number: usize) -> bool {
    let top = machine.environment[1] >> 11 & 7;
    let physical = (top as usize + number) % 8;
    machine.environment[2] >> (2 * physical) & 3 != 3
}

fn quotient(plus: Extended, minus: Extended, distance: f64) -> f64 {
    let session = Session::begin();
    session.divide(session.subtract(plus, minus), Extended::from_f64(distance)).to_f64()
}

/// Difference of the quotients to both sides.
fn curvature([minus, base, plus]: [Extended; 3], step: f64) -> f64 {
    quotient(base, minus, step) - quotient(plus, base, step)
}

/// Whether the function jumps between the points: another exponent, another integer quotient.
fn jumps([minus, base, plus]: [Extended; 3], step: f64) -> bool {
    let (left, right) = (quotient(base, minus, step), quotient(plus, base, step));
    (left - right).abs() > 0.1 * left.abs().min(right.abs()).max(1.0)
}

fn is_testable(code: Code) -> bool {
    use Mnemonic::*;
    // These move whole states; `tests/suites/x87` has them. Packed decimals are no real operands, and the rest does nothing on this processor.
    Class::of(code) == Class::X87
        && !matches!(
            code.mnemonic(),
            Fnsave | Fsave | Frstor | Fldenv | Fnstenv | Fstenv | Fninit | Finit | Fbld | Fbstp | Fldcw | Wait
        )
}

#[test]
fn dot_values_agree_with_difference_quotients_of_the_processor() {
    const TRIALS: usize = 60;
    let mut native = Native::new();
    let mut random = Random(7);
    let mut compared = BTreeMap::<Code, usize>::new();
    let mut failures = Vec::new();
    for code in Code::values().filter(|&code| is_testable(code)) {
        for _ in 0..TRIALS {
            let Some(mut instruction) = operands::random_instruction(code, &mut random) else { break };
            instruction.set_memory_displacement64(0);
            let format = memory_format(&instruction);
            let machine = Machine::random(&mut random, native.data());
            let mnemonic = instruction.mnemonic();
            let point = Point {
                registers: std::array::from_fn(|k| argument(&mut random, mnemonic, k)),
                memory: sixteenths(&mut random, 64),
            };
            let mut dots = Dots::default();
            dots.registers[..DEPTH].fill_with(|| sixteenths(&mut random, 32));
            dots.memory = if format.is_some() { sixteenths(&mut random, 32) } else { 0.0 };
            // What is stored has few bits; but that is linear.
            let is_store = matches!(mnemonic, Mnemonic::Fst | Mnemonic::Fstp);
            let step = if is_store { 2f64.powi(-4) } else { 2f64.powi(-14) };
            let mut run = |point: Point| {
                let mut machine = point.on(&machine, format);
                native.run(&instruction, &mut machine).is_ok().then_some(machine)
            };
            let (Some(base), Some(plus), Some(minus)) =
                (run(point), run(point.moved(&dots, step)), run(point.moved(&dots, -step)))
            else {
                break;
            };
            let before = point.on(&machine, format);
            let ir = lift(&[instruction]);
            dots.follow(&ir, &before, &instruction);
            let machines = [&minus, &base, &plus];
            let mut results: Vec<(String, f64, [Extended; 3])> = (0..8)
                .filter(|&k| is_full(&base, k))
                .map(|k| (format!("ST({k})"), dots.registers[k], machines.map(|machine| number(machine, k))))
                .collect();
            if let (true, Some(format)) = (is_store, format) {
                let place = Place::Memory { base: Address::Operand, offset: 0 };
                let stored = |machine: &Machine| value(X87Operand { place, format }, machine);
                results.push(("memory".into(), dots.memory, machines.map(stored)));
            }
            if results.iter().any(|(.., values)| jumps(*values, step)) {
                continue;
            }
            for (name, dot, values @ [minus, _, plus]) in results {
                let quotient = quotient(plus, minus, 2.0 * step);
                // Near a pole the quotient's relative error is the square of its one-sided difference's.
                let tolerance =
                    1e-5 * quotient.abs().max(1.0) + curvature(values, step).powi(2) / quotient.abs().max(1.0);
                if (dot - quotient).abs() > tolerance || dot.is_nan() != quotient.is_nan() {
                    failures
                        .push(format!("{instruction} ({code:?}): {name} has dot value {dot}, not {quotient}\n{ir}"));
                }
            }
            *compared.entry(code).or_default() += 1;
        }
    }
    eprintln!("{} forms compared", compared.len());
    assert!(
        failures.is_empty(),
        "{} differ, such as\n{}",
        failures.len(),
        failures[..failures.len().min(5)].join("\n")
    );
    let rare: Vec<_> = compared.iter().filter(|&(_, &count)| count < TRIALS / 2).collect();
    assert!(rare.is_empty(), "hardly compared: {rare:?}");
    assert!(compared.len() >= 90, "only {} forms were compared", compared.len());
}
