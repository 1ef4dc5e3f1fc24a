//! Test cases: an instruction, a machine state, what is active in it, and what the shadow must be afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

use derivgrind_native::operands;
use derivgrind_native::{Machine, Native, Random, Refusal, Registers};
use iced_x86::{Code, Instruction, Mnemonic, OpCodeOperandKind, OpKind, Register};

use crate::elements::Elements;
use crate::natively::Movement;
use crate::places;
use crate::reference;
use crate::values::Format;
use crate::writer::Writer;

/// Instructions with other registers, displacements and immediates, for each of register and memory form.
const INSTRUCTIONS: usize = 10;
/// Operand sets for each instruction.
const SETS: usize = 20;

/// Active data before the instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    /// Four bytes of shadow that only move.
    Raw(u32),
    /// An input, with its dot value in forward mode.
    Input(Format, f64),
}

impl Mark {
    /// Bytes of data and shadow.
    pub fn bytes(self) -> usize {
        match self {
            Mark::Raw(_) => 4,
            Mark::Input(format, _) => format.bytes(),
        }
    }
}

/// What is expected of four or eight bytes of shadow.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// Each byte is a byte of a mark (its number, and which byte), or zero.
    Bytes([Option<(u16, u8)>; 4]),
    /// A number depends on these inputs with these partial derivatives.
    Derivative {
        /// Its format.
        format: Format,
        /// Numbers of marks, partial derivatives; a mark can occur more than once.
        terms: Vec<(u16, f64)>,
        /// Whether forward mode may take it for a half of a binary64 number (docs/forward-mode.md).
        two_readings: bool,
        /// Whether all intermediate results are in the format's range, so that forward mode is accurate, too.
        in_range: bool,
    },
    /// The operation is none on real numbers: derivative information is lost. The shadow of this mark may stay nevertheless, for the case that
    /// another instruction undoes it.
    Lost(Format, Option<u16>),
    /// Anything: the number of this format is too special for the rule.
    Anything(Format),
}

/// One execution.
#[derive(Clone, Debug)]
pub struct Case {
    /// Number of its instruction.
    pub snippet: usize,
    /// Number of the machine that it starts from.
    pub base: usize,
    /// Changed words: offset, value.
    pub patches: Vec<(usize, u64)>,
    /// What is active: offset, kind.
    pub marks: Vec<(usize, Mark)>,
    /// What is expected: offset, shadow.
    pub expected: Vec<(usize, Expected)>,
    /// Whether derivative information is lost; `None` if that depends on too special numbers.
    pub loses: Option<bool>,
}

/// An instruction in place.
#[derive(Clone, Debug)]
pub struct Snippet {
    /// The instruction.
    pub instruction: Instruction,
    /// Which registers are loaded.
    pub registers: Registers,
}

/// Cases of a number of forms.
pub struct Cases {
    /// Machines to start from.
    pub bases: Vec<Machine>,
    /// Instructions.
    pub snippets: Vec<Snippet>,
    /// Executions.
    pub cases: Vec<Case>,
    /// Forms that are not executed, with the reason.
    pub unexecuted: BTreeMap<Code, &'static str>,
}

/// Words in which a case differs from its base are patched.
const BASES: usize = 16;

impl Cases {
    /// Cases for forms; `data` is the address of [`Machine::data`] where they will be executed.
    pub fn generate(forms: &[Code], data: u64, seed: u64) -> Cases {
        let mut random = Random(seed);
        let mut native = Native::at(data);
        let bases = (0..BASES).map(|_| Machine::random(&mut random, data)).collect();
        let mut cases = Cases { bases, snippets: Vec::new(), cases: Vec::new(), unexecuted: BTreeMap::new() };
        for &code in forms {
            if let Some(reason) = unsuitable(code) {
                cases.unexecuted.insert(code, reason);
                continue;
            }
            let before = cases.cases.len();
            for in_memory in [false, true] {
                let first = cases.snippets.len();
                // Not all combinations of operands can be encoded or executed.
                for _ in 0..4 * INSTRUCTIONS {
                    if cases.snippets.len() == first + INSTRUCTIONS {
                        break;
                    }
                    let Some(mut instruction) = operands::instruction(code, in_memory, &mut random) else { continue };
                    repeat(&mut instruction, &mut random);
                    if code.op_code().op_kinds().contains(&OpCodeOperandKind::mem_offs) {
                        instruction.set_memory_base(Register::None);
                        instruction.set_memory_displacement64(data + instruction.memory_displacement64());
                        instruction.set_memory_displ_size(8);
                    }
                    let has_memory =
                        (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
                    if in_memory != has_memory {
                        continue;
                    }
                    cases.add(&mut native, instruction, SETS, &mut random);
                }
            }
            if cases.cases.len() == before {
                cases.unexecuted.insert(code, "the processor refuses it, or it has no operands for a test");
            }
        }
        cases
    }

    /// Forms of which no case was made, in registers or in memory, without a reason.
    pub fn missing<'a>(&'a self, forms: &'a [Code]) -> impl Iterator<Item = (Code, &'static str)> + 'a {
        let is_in_memory = |instruction: &Instruction| {
            (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory)
        };
        let executed =
            self.snippets.iter().map(move |snippet| (snippet.instruction.code(), is_in_memory(&snippet.instruction)));
        let executed: BTreeSet<(Code, bool)> = executed.collect();
        let wanted = forms.iter().filter(|code| unsuitable(**code).is_none()).flat_map(move |&code| {
            [false, true].into_iter().filter_map(move |in_memory| {
                let instruction = operands::instruction(code, in_memory, &mut Random(1))?;
                (is_in_memory(&instruction) == in_memory).then_some((code, in_memory))
            })
        });
        let missing = wanted.filter(move |wanted| !executed.contains(wanted));
        missing.map(|(code, in_memory)| (code, if in_memory { "in memory" } else { "in registers" }))
    }

    /// Adds one instruction with several operand sets.
    fn add(&mut self, native: &mut Native, instruction: Instruction, sets: usize, random: &mut Random) {
        let snippet = Snippet { instruction, registers: Registers::of(&instruction) };
        let number = self.snippets.len();
        let mut executed = false;
        let computes = self.computes(native, &instruction, random);
        let Some(elements) = Elements::observe(native, &instruction, &self.bases[0], random) else { return };
        // Some operands make some instructions fault; those say nothing.
        for _ in 0..3 * sets {
            let base = random.below(self.bases.len() as u64) as usize;
            let mut writer = Writer { native, instruction: &instruction, random, computes, elements: &elements };
            let Some((before, marks, expected)) = writer.case(&self.bases[base]) else {
                if executed {
                    continue;
                } else {
                    break;
                };
            };
            executed = true;
            let loses = writer.loses(&before, &marks, &expected);
            let patches = differences(&self.bases[base], &before);
            self.cases.push(Case { snippet: number, base, patches, marks, expected, loses });
            if self.cases.iter().rev().take_while(|case| case.snippet == number).count() == sets {
                break;
            }
        }
        if executed {
            self.snippets.push(snippet);
        }
    }

    /// Whether an instruction does more than move data, with any data.
    fn computes(&self, native: &mut Native, instruction: &Instruction, random: &mut Random) -> bool {
        /// A byte is the same as another one by chance once in 256 times, the result of a comparison once in two.
        const OBSERVATIONS: usize = 10;
        if reference::extends_signs(instruction) || reference::compared(instruction).is_some() {
            return false;
        }
        if reference::count(instruction).is_some()
            || reference::is_lost(instruction)
            || reference::is_never_move(instruction)
        {
            return true;
        }
        let mut instruction = instruction;
        let distinct = distinct(instruction);
        // A count out of a random register would let it overwrite everything.
        let repeats = places::repeats(instruction);
        if !repeats && native.run(&distinct, &mut self.bases[0].clone()) != Err(Refusal::Encoding) {
            instruction = &distinct;
        }
        let selectors = reference::selectors(instruction);
        let mut faulted = true;
        let computes = (0..OBSERVATIONS).any(|observation| {
            let elements = Elements::default();
            let mut writer = Writer { native, instruction, random, computes: false, elements: &elements };
            let mut before = self.bases[observation % self.bases.len()].clone();
            // With a carry and without, `sbb` by -1 is two things.
            before.flags = before.flags & !1 | observation as u64 & 1;
            writer.prepare(&mut before);
            let mut after = before.clone();
            if native.run(instruction, &mut after).is_err() {
                return false;
            }
            faulted = false;
            !Movement::observe(native, instruction, (&before, &after), &selectors, random).only_moves()
        });
        // Divisions do that with nearly all operands; moves do not.
        computes || faulted
    }

    /// Some of the cases.
    pub fn only(&self, wanted: impl Fn(&Case) -> bool) -> Cases {
        let cases = self.cases.iter().filter(|case| wanted(case)).cloned().collect();
        Cases { bases: self.bases.clone(), snippets: self.snippets.clone(), cases, unexecuted: BTreeMap::new() }
    }

    /// The machine before a case.
    pub fn before(&self, case: &Case) -> Machine {
        let mut machine = self.bases[case.base].clone();
        for (offset, word) in &case.patches {
            machine.bytes_mut()[*offset..*offset + 8].copy_from_slice(&word.to_le_bytes());
        }
        machine
    }
}

/// Lets a string instruction repeat itself half of the time; but for loads, which no compiler repeats.
fn repeat(instruction: &mut Instruction, random: &mut Random) {
    use Mnemonic::*;
    let compares = matches!(instruction.mnemonic(), Scasb | Scasw | Scasd | Scasq | Cmpsb | Cmpsw | Cmpsd | Cmpsq);
    let loads = matches!(instruction.mnemonic(), Lodsb | Lodsw | Lodsd | Lodsq);
    match random.below(4) {
        _ if !instruction.is_string_instruction() || loads => {}
        0 | 1 => instruction.set_has_rep_prefix(true),
        2 if compares => instruction.set_has_repne_prefix(true),
        _ => {}
    }
}

/// The instruction with another register where two operands are the same.
fn distinct(instruction: &Instruction) -> Instruction {
    let mut changed = *instruction;
    for operand in 1..instruction.op_count() {
        let register = instruction.op_register(operand);
        let same = |other: u32| {
            let other = instruction.op_register(other);
            register != Register::None && other.full_register() == register.full_register()
        };
        if (0..operand).any(same) {
            let first = register - register.number() as u32;
            let taken: Vec<Register> = (0..changed.op_count()).map(|operand| changed.op_register(operand)).collect();
            let others = (8..16).chain(0..3).map(|number| first + number).filter(|other| !taken.contains(other));
            if let Some(other) = others.into_iter().find(|other| other.info().base() == first) {
                let _ = changed.try_set_op_register(operand, other);
            }
        }
    }
    changed
}

/// Why a form cannot be executed like others.
fn unsuitable(code: Code) -> Option<&'static str> {
    use iced_x86::Mnemonic::*;
    match code.mnemonic() {
        Wrfsbase | Wrgsbase | Rdfsbase | Rdgsbase | Wrpkru | Rdpkru | Swapgs => {
            Some("changes what the test itself needs")
        }
        Rdtsc | Rdtscp | Rdrand | Rdseed | Rdpid | Rdpmc | Rdpru | Cpuid | Xgetbv => Some("not the same each time"),
        Syscall | Sysenter | Int | Int1 | Int3 | Xbegin | Xabort | Xend | Xtest | Std | Popf | Popfq | Popfd => {
            Some("leaves the instruction stream, or changes flags that the test needs")
        }
        In | Out | Insb | Insw | Insd | Outsb | Outsw | Outsd | Cli | Sti => Some("needs privileges"),
        Lss | Lfs | Lgs => Some("loads a segment register"),
        Enter => Some("moves the stack out of the memory of the test"),
        Reservednop => Some("is reserved"),
        Lar | Lsl | Verr | Verw | Sldt | Sgdt | Sidt | Str | Smsw => Some("reads tables of the system"),
        Fnstenv | Fstenv => Some("stores addresses of code, which lies elsewhere under the tool"),
        _ if code == Code::Bswap_r16 => Some("the result is undefined"),
        Fxsave | Fxsave64 | Fxrstor | Fxrstor64 | Xsave | Xsave64 | Xsaveopt | Xsaveopt64 | Xsavec | Xsavec64
        | Xrstor | Xrstor64 | Fnsave | Fsave | Frstor => Some("the whole state: formulas and compat suites"),
        _ => None,
    }
}

fn differences(base: &Machine, changed: &Machine) -> Vec<(usize, u64)> {
    let words = base.bytes().chunks_exact(8).zip(changed.bytes().chunks_exact(8)).enumerate();
    let differing = words.filter(|(_, (base, changed))| base != changed);
    differing
        .map(|(position, (_, changed))| {
            (8 * position, u64::from_le_bytes(changed.try_into().expect("pieces of eight bytes")))
        })
        .collect()
}

/// The words of a machine that are compared: everything but what the stage itself uses.
pub const COMPARED: usize = offset_of!(Machine, target);
