//! Compares what became of cases with what was expected.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem::offset_of;

use derivgrind_ad::shadow;
use derivgrind_native::Machine;
use iced_x86::Code;

use crate::cases::{COMPARED, Case, Cases, Expected, Mark};
use crate::client::{Mode, Observed, Run, reads};
use crate::places;
use crate::reference;
use crate::values::Format;

/// Forms that differ, each with its first difference.
pub type Differences = BTreeMap<Code, String>;

/// Compares a run with the native one and with the expectations.
pub fn differences(cases: &Cases, native: &Run, run: &Run, mode: Mode) -> Differences {
    let mut found = Differences::new();
    for (position, case) in cases.cases.iter().enumerate() {
        let instruction = &cases.snippets[case.snippet].instruction;
        if found.contains_key(&instruction.code()) {
            continue;
        }
        let checker = Checker { cases, case, run, observed: &run.observed[position], mode };
        let difference = checker.state(&native.observed[position]).or_else(|| checker.shadow());
        if let Some(difference) = difference {
            found.insert(instruction.code(), format!("{instruction}: {difference}\n{}", checker.describe()));
        }
    }
    found
}

struct Checker<'a> {
    cases: &'a Cases,
    case: &'a Case,
    run: &'a Run,
    observed: &'a Observed,
    mode: Mode,
}

impl Checker<'_> {
    /// The machine state.
    fn state(&self, native: &Observed) -> Option<String> {
        let after = |observed: &Observed| {
            let mut machine = self.cases.before(self.case);
            for (offset, word) in observed.changed.iter().filter(|(offset, _)| *offset < COMPARED) {
                machine.bytes_mut()[*offset..*offset + 8].copy_from_slice(&word.to_le_bytes());
            }
            self.forget(&mut machine);
            machine
        };
        let (expected, found) = (after(native), after(self.observed));
        let at = (0..COMPARED).find(|&at| expected.bytes()[at] != found.bytes()[at])?;
        let word = |machine: &Machine| {
            let start = at / 8 * 8;
            u64::from_le_bytes(machine.bytes()[start..start + 8].try_into().expect("eight bytes"))
        };
        Some(format!("{} is {:#018x} natively and {:#018x}", places::name(at), word(&expected), word(&found)))
    }

    /// What need not be the same.
    fn forget(&self, machine: &mut Machine) {
        /// Sticky exception flags: dot values are computed in the same environment (docs/forward-mode.md).
        const EXCEPTIONS: u32 = 0x3f;
        let instruction = &self.cases.snippets[self.case.snippet].instruction;
        let undefined = instruction.rflags_undefined();
        machine.flags &= !flag_bits(undefined);
        if reference::shifts(instruction.mnemonic()) {
            // Undefined unless the number of bits is 1, which the tables do not say.
            machine.flags &= !flag_bits(iced_x86::RflagsBits::OF | iced_x86::RflagsBits::AF);
        }
        if self.mode == Mode::Forward {
            machine.mxcsr &= !EXCEPTIONS;
        }
        // Pointers to the last x87 instruction and its operand, and what is in empty registers.
        machine.environment[3..].fill(0);
        machine.environment[..3].iter_mut().for_each(|word| *word &= 0xffff);
        for register in 0..8 {
            let top = machine.environment[1] >> 11 & 7;
            let physical = (top + register) & 7;
            if machine.environment[2] >> (2 * physical) & 3 == 3 {
                machine.x87[register as usize] = [0; 16];
            }
        }
    }

    /// Shadow and derivatives.
    fn shadow(&self) -> Option<String> {
        let mut shadows = self.observed.shadows.iter().copied();
        let mut next = || u64::from(shadows.next().unwrap_or(0));
        for (at, expected) in &self.case.expected {
            let difference = match expected {
                Expected::Bytes(bytes) => self.bytes(bytes, next() as u32),
                Expected::Derivative { format, terms, in_range, two_readings } => {
                    let shadow = if *format == Format::Single { next() } else { next() | next() << 32 };
                    if *two_readings && self.mode == Mode::Forward {
                        None
                    } else {
                        self.derivative(*format, terms, *in_range, shadow)
                    }
                }
                Expected::Lost(format, may_stay) => {
                    let shadow = if *format == Format::Single { next() } else { next() | next() << 32 };
                    let stays = may_stay.is_some_and(|mark| u64::from_le_bytes(self.mark(mark)) == shadow);
                    if stays { None } else { self.lost(shadow) }
                }
                Expected::Anything(format) => {
                    (0..format.bytes()).step_by(4).for_each(|_| _ = next());
                    None
                }
            };
            if let Some(difference) = difference {
                return Some(format!("{}: {difference}", places::name(*at)));
            }
        }
        None
    }

    /// Shadow of a mark before the instruction.
    fn mark(&self, mark: u16) -> [u8; 8] {
        match (self.case.marks[usize::from(mark)].1, self.mode) {
            (Mark::Raw(bits), _) => u64::from(bits),
            (Mark::Input(format, dot), Mode::Forward) => format.bits(dot),
            (Mark::Input(format, _), _) => {
                let index = self.run.inputs[usize::from(mark)];
                if format == Format::Double { shadow::of_wide(index) } else { shadow::of_narrow(index) }
            }
        }
        .to_le_bytes()
    }

    fn bytes(&self, sources: &[Option<(u16, u8)>; 4], found: u32) -> Option<String> {
        /// In place of its tag, in the shadow of a number of which a byte has become a constant: otherwise it would be another one's.
        const SPOILED: u32 = 0x2000_0000;
        let expected = sources.map(|byte| byte.map_or(0, |(mark, byte)| self.mark(mark)[usize::from(byte)]));
        let expected = u32::from_le_bytes(expected);
        let instruction = &self.cases.snippets[self.case.snippet].instruction;
        let is_cut = matches!(sources, [a, b, c, Some(_)] if [a, b, c].into_iter().any(Option::is_none));
        let is_spoiled = self.mode == Mode::Recording
            && reference::writes_part(instruction)
            && is_cut
            && shadow::narrow_index(expected.into()).is_some();
        let spoiled = expected & !(shadow::NARROW_TAG as u32) | SPOILED;
        if is_spoiled && reference::mixes_parts(instruction) && [expected, spoiled].contains(&found) {
            return None;
        }
        let expected = if is_spoiled { spoiled } else { expected };
        (expected != found).then(|| format!("shadow {found:#010x} instead of {expected:#010x}, by moves"))
    }

    fn derivative(&self, format: Format, terms: &[(u16, f64)], in_range: bool, shadow: u64) -> Option<String> {
        if self.mode == Mode::Forward {
            self.dot(format, terms, in_range, shadow)
        } else {
            self.record(format, terms, shadow)
        }
    }

    /// What is lost is passive. Forward mode cannot tell two binary32 numbers from one of binary64, and takes the reading in which the operation is a real one
    /// (docs/forward-mode.md): there is nothing to compare.
    fn lost(&self, shadow: u64) -> Option<String> {
        (shadow != 0 && self.mode != Mode::Forward)
            .then(|| format!("shadow {shadow:#x} although the operation is none on real numbers"))
    }

    /// The partial derivatives on the tape.
    fn record(&self, format: Format, terms: &[(u16, f64)], shadow: u64) -> Option<String> {
        let index = if format == Format::Double { shadow::wide_index(shadow) } else { shadow::narrow_index(shadow) };
        let Some(index) = index else {
            return Some(format!("shadow {shadow:#x} is no index"));
        };
        let mut found = BTreeMap::new();
        self.resolve(index, 1.0, &mut found);
        let active: Vec<u16> = terms.iter().map(|(mark, _)| *mark).collect();
        if let Some(other) = found.keys().find(|mark| !active.contains(mark)) {
            return Some(format!("depends on {}, which it should not", self.name(*other)));
        }
        for mark in &active {
            let partial = found.get(mark).copied().unwrap_or(0.0);
            let of_mark = || terms.iter().filter(|(other, _)| other == mark).map(|(_, partial)| partial);
            let (expected, scale): (f64, f64) = (of_mark().sum(), of_mark().map(|partial| partial.abs()).sum());
            // Both are a few operations in binary64.
            let tolerance = 8.0 * f64::EPSILON * scale + 4.0 * f64::MIN_POSITIVE;
            let same = partial == expected || partial.is_nan() && expected.is_nan();
            let is_close = (partial - expected).abs() <= tolerance;
            if !same && !is_close {
                return Some(format!(
                    "derivative {partial:e} instead of {expected:e} with respect to {}",
                    self.name(*mark)
                ));
            }
        }
        None
    }

    /// Adds `factor` times the derivatives of an index to `found`.
    fn resolve(&self, index: u64, factor: f64, found: &mut BTreeMap<u16, f64>) {
        if index == 0 {
            return;
        }
        if let Some(input) = self.run.inputs.iter().position(|input| *input == index) {
            *found.entry(input as u16).or_insert(0.0) += factor;
            return;
        }
        let Some(block) = self.run.tape.get(index as usize) else {
            found.insert(u16::MAX, f64::NAN);
            return;
        };
        for k in 0..2 {
            if block[k] != 0 {
                self.resolve(block[k], factor * f64::from_bits(block[2 + k]), found);
            }
        }
    }

    /// The dot value.
    fn dot(&self, format: Format, terms: &[(u16, f64)], in_range: bool, shadow: u64) -> Option<String> {
        let found = format.value(shadow);
        let dots: Vec<f64> = terms
            .iter()
            .map(|(mark, partial)| match self.case.marks[usize::from(*mark)].1 {
                Mark::Input(_, dot) => dot * partial,
                Mark::Raw(_) => f64::NAN,
            })
            .collect();
        if dots.iter().all(|dot| *dot == 0.0) {
            // Zeros subtracted, rounding down, are minus zero; a derivative below the smallest number can be rounded to that.
            let is_zero = shadow & !format.sign() == 0;
            let is_tiny = !terms.is_empty() && found.abs() <= 4.0 * format.smallest_normal();
            return (!is_zero && !is_tiny).then(|| format!("dot value {found:e} where nothing is active"));
        }
        if !in_range {
            return None;
        }
        let expected: f64 = dots.iter().sum();
        // A few operations in the format of the variable, on terms of this size, in any rounding mode.
        let scale: f64 = dots.iter().map(|dot| dot.abs()).sum();
        let tolerance = 16.0 * format.epsilon() * scale + 4.0 * format.smallest_normal();
        if expected.abs() > format.largest() {
            return (found.abs() < format.largest()).then(|| format!("dot value {found:e} instead of an overflow"));
        }
        ((found - expected).abs() > tolerance || found.is_nan())
            .then(|| format!("dot value {found:e} instead of {expected:e} ± {tolerance:e}"))
    }

    fn name(&self, mark: u16) -> String {
        match self.case.marks.get(usize::from(mark)) {
            Some((at, _)) => format!("the input at {}", places::name(*at)),
            None => "an index that is not on the tape".to_owned(),
        }
    }

    /// Operands and marks, for people.
    fn describe(&self) -> String {
        let before = self.cases.before(self.case);
        let instruction = &self.cases.snippets[self.case.snippet].instruction;
        let mut text = String::new();
        for operand in 0..instruction.op_count() {
            if let Some(range) = places::operand(instruction, operand) {
                let bytes: String = before.bytes()[range].iter().rev().map(|byte| format!("{byte:02x}")).collect();
                let _ = writeln!(text, "    operand {operand}: 0x{bytes}");
            }
        }
        if let Some(range) = places::register(instruction.op_mask()) {
            let mask: String = before.bytes()[range].iter().rev().map(|byte| format!("{byte:08b}")).collect();
            let _ = writeln!(text, "    mask: 0b{mask}");
        }
        let _ = writeln!(text, "    active: {}", active(&self.case.marks));
        let changed: Vec<String> =
            self.observed.changed.iter().map(|(at, word)| format!("{} {word:#018x}", places::name(*at))).collect();
        let _ = writeln!(text, "    written: {}", changed[..changed.len().min(12)].join(", "));
        let reads: Vec<String> = reads(&self.case.expected)
            .zip(&self.observed.shadows)
            .filter(|(_, shadow)| **shadow != 0)
            .map(|(at, shadow)| format!("{} {shadow:#010x}", places::name(at)))
            .collect();
        let _ = writeln!(text, "    shadow: {}", reads[..reads.len().min(16)].join(", "));
        text
    }
}

/// The bits of RFLAGS for iced's set of flags.
fn flag_bits(flags: u32) -> u64 {
    use iced_x86::RflagsBits;
    let table = [
        (RflagsBits::OF, 11),
        (RflagsBits::SF, 7),
        (RflagsBits::ZF, 6),
        (RflagsBits::AF, 4),
        (RflagsBits::CF, 0),
        (RflagsBits::PF, 2),
        (RflagsBits::DF, 10),
    ];
    table.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, bit)| 1 << bit).sum()
}

const _: () = assert!(offset_of!(Machine, environment) < COMPARED);

/// What is active, for the user to read: not all if it is much.
pub fn active(marks: &[(usize, Mark)]) -> String {
    let marks: Vec<String> =
        marks.iter().take(12).map(|(at, mark)| format!("{} {mark:x?}", places::name(*at))).collect();
    marks.join(", ")
}
