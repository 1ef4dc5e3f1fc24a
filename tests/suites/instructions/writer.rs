//! Makes one case of one instruction: operands, what is active, what is expected.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::ops::Range;

use derivgrind_native::operands::INDEX_LIMIT;
use derivgrind_native::{Machine, Native, Random, Registers};
use iced_x86::{Instruction, Mnemonic, Register};

use crate::cases::{Expected, Mark};
use crate::elements::{Elements, Operand};
use crate::natively::{self, Movement, Origin, Slope};
use crate::places;
use crate::reference::{self, Lane};
use crate::values::{self, Format};

/// Makes one case of one instruction.
pub struct Writer<'a> {
    /// The processor.
    pub native: &'a mut Native,
    /// The instruction.
    pub instruction: &'a Instruction,
    /// Where operands come from.
    pub random: &'a mut Random,
    /// Whether the instruction does more than move data.
    pub computes: bool,
    /// What a write mask governs.
    pub elements: &'a Elements,
}

/// What is active: offset, kind.
pub type Marks = Vec<(usize, Mark)>;
/// What is expected: offset, shadow.
pub type Expectations = Vec<(usize, Expected)>;

impl Writer<'_> {
    /// The machine before, what is active, what is expected; `None` if the instruction faults.
    pub fn case(&mut self, base: &Machine) -> Option<(Machine, Marks, Expectations)> {
        let mut before = base.clone();
        let mut lanes = reference::lanes(self.instruction);
        let sizes = reference::bit_operation(self.instruction);
        self.prepare(&mut before);
        let format = match (lanes.first(), sizes) {
            (Some(lane), _) => Some(lane.operand_format),
            (None, Some(sizes)) => Some(if self.random.pick(sizes) == 4 { Format::Single } else { Format::Double }),
            (None, None) => None,
        };
        if let Some(format) = format {
            self.fill(&mut before, format, sizes.is_some());
        }
        let mut after = before.clone();
        self.native.run(self.instruction, &mut after).ok()?;
        let marks = match format {
            Some(format) => self.inputs(format),
            None => self.raw_marks(),
        };
        let mut fixed = reference::selectors(self.instruction);
        fixed.extend(reference::bit_number(self.instruction));
        if let Some((destination, accumulator)) = reference::compared(self.instruction) {
            fixed.extend(accumulator.into_iter().chain([destination]));
        }
        let movement = Movement::observe(self.native, self.instruction, (&before, &after), &fixed, self.random);
        let mut expected: Vec<(usize, Expected)> = Vec::new();
        let is_arithmetic = !lanes.is_empty();
        lanes.retain(|lane| !self.elements.are_masked_out(&before, lane.target));
        for lane in &lanes {
            expected.push((lane.target, self.arithmetic(lane, &before, &marks)));
        }
        // A shift by whole bytes is a move.
        if let (Some(format), Some(_), true) = (format, sizes, self.computes && !is_arithmetic) {
            expected.extend(self.bits(format, (&before, &after), &marks));
        }
        self.moved((&before, &after), &marks, &movement, &mut expected);
        Some((before, marks, expected))
    }

    /// Whether derivative information is lost in a case.
    pub fn loses(&self, before: &Machine, marks: &Marks, expected: &Expectations) -> Option<bool> {
        if reference::bit_operation(self.instruction).is_some() && self.computes {
            let any = |wanted: fn(&Expected) -> bool| expected.iter().any(|(_, expected)| wanted(expected));
            let is_sure = any(|expected| matches!(expected, Expected::Lost(..)));
            return is_sure.then_some(true);
        }
        // `xadd` of a register with itself: the sum takes the place of the old value. x87 loses what is no index of a number. What is kept
        // of a masked store could be lost, too.
        let is_x87 = Registers::of(self.instruction) == Registers::X87;
        if self.instruction.mnemonic() == Mnemonic::Xadd || is_x87 || reference::is_lost(self.instruction) {
            return None;
        }
        let lanes = reference::lanes(self.instruction);
        if !lanes.is_empty() && expected.iter().any(|(_, expected)| matches!(expected, Expected::Anything(_))) {
            return None;
        }
        let converts_integers = reference::converts_integers(self.instruction.mnemonic());
        let is_flat = reference::is_flat(self.instruction.mnemonic()) && !converts_integers;
        if !self.computes || is_flat || !lanes.is_empty() {
            return Some(false);
        }
        let mut whole = *self.instruction;
        whole.set_op_mask(Register::None);
        let read = match places::operand(&whole, whole.op_count() - 1) {
            // The rest of a register is moved.
            Some(integers) if converts_integers => vec![integers],
            _ => places::read(&whole),
        };
        let is_read =
            |at: usize, mark: Mark| read.iter().find(|range| range.start < at + mark.bytes() && at < range.end);
        let mut read = marks.iter().filter_map(|(at, mark)| Some((*at, is_read(*at, *mark)?))).peekable();
        // Of an operand that is not written down not all may count.
        let registers = places::read_registers(&whole);
        let any =
            |at: usize, mark: Mark| registers.iter().any(|range| range.start < at + mark.bytes() && at < range.end);
        if read.peek().is_none() && marks.iter().any(|(at, mark)| any(*at, *mark)) {
            return None;
        }
        if self.elements.bytes().is_none() || read.peek().is_none() {
            return Some(read.peek().is_some());
        }
        // Which elements count shows if they correspond.
        let target = places::operand(self.instruction, 0)?;
        let counts = |(at, range): (usize, &Range<usize>)| {
            range.len() == target.len() && !self.elements.are_masked_out(before, target.start + (at - range.start))
        };
        let mixes = reference::mixes_elements(self.instruction);
        read.any(|read| !mixes && counts(read)).then_some(true)
    }

    /// Values that the instruction needs to be of use.
    pub fn prepare(&mut self, machine: &mut Machine) {
        for pointer in natively::free_pointers(self.instruction) {
            machine.general[pointer.register().number()] = self.random.bits();
        }
        // Any rounding; zero for denormal numbers once in a while, which Valgrind's kin get wrong.
        machine.mxcsr |= (self.random.below(4) as u32) << 13;
        if matches!(self.instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv) {
            // Quotients in range: positive dividends with zeros above the width, which is one to eight bytes.
            machine.general[Register::RAX.number()] &= 0x7f7f_7f7f_7f7f_007f;
            machine.general[Register::RDX.number()] = 0;
        }
        if places::repeats(self.instruction) {
            machine.general[Register::RCX.number()] = self.random.below(places::MOST_REPETITIONS as u64 + 1);
        }
        // The number of a bit can reach beyond a memory operand.
        if let Some(number) = reference::bit_number(self.instruction) {
            let bit = self.random.below(8 * number.len() as u64).to_le_bytes();
            machine.bytes_mut()[number.clone()].copy_from_slice(&bit[..number.len()]);
        }
        // A comparison with the accumulator succeeds half of the time.
        if let (Some((compared, accumulator)), 0) = (reference::compared(self.instruction), self.random.below(2)) {
            let bytes = machine.bytes()[compared].to_vec();
            for (range, bytes) in accumulator.iter().zip(bytes.chunks(accumulator[0].len())) {
                machine.bytes_mut()[range.clone()].copy_from_slice(bytes);
            }
        }
        if self.instruction.is_vsib() {
            let index = places::register(self.instruction.memory_index()).unwrap_or(0..0);
            let element = if self.instruction.code().op_code().op_kinds().iter().any(is_wide_index) { 8 } else { 4 };
            for at in index.step_by(element) {
                let value = self.random.below(INDEX_LIMIT).to_le_bytes();
                machine.bytes_mut()[at..at + element].copy_from_slice(&value[..element]);
            }
        }
    }

    /// Numbers of a format in all operands.
    fn fill(&mut self, machine: &mut Machine, format: Format, bits: bool) {
        let operands: Vec<Range<usize>> = self.data_operands().into_iter().map(|operand| operand.range).collect();
        let bits = bits && reference::takes_masks(self.instruction);
        // One of the sources is a mask or the like.
        let last = self.random.below(2) == 0;
        for (position, operand) in operands.iter().cloned().enumerate() {
            let is_mask = if last { position + 1 == operands.len() } else { position + 2 == operands.len() };
            let masks = bits && operands.len() > 1 && is_mask && self.random.below(4) != 0;
            let special = self.random.below(3) == 0;
            let counts = reference::count(self.instruction).as_ref() == Some(&operand);
            for at in operand.step_by(format.bytes()) {
                let value = match (masks, special) {
                    (true, _) if counts => self.random.below(70),
                    (true, _) => values::mask(format, self.random),
                    (false, true) => values::any(format, self.random),
                    _ => values::moderate(format, self.random),
                };
                machine.bytes_mut()[at..at + format.bytes()].copy_from_slice(&value.to_le_bytes()[..format.bytes()]);
            }
        }
    }

    /// Operands of at least four bytes.
    fn data_operands(&self) -> Vec<Operand> {
        let operands = (0..self.instruction.op_count()).filter_map(|k| Operand::of(self.instruction, k));
        let mut found: Vec<Operand> = Vec::new();
        for operand in operands.filter(|operand| operand.range.len() >= 4 && operand.range.len().is_multiple_of(4)) {
            if !found.contains(&operand) {
                found.push(operand);
            }
        }
        found
    }

    /// Inputs in some lanes of some operands.
    fn inputs(&mut self, format: Format) -> Marks {
        let mut marks: Marks = Vec::new();
        for Operand { range: operand, .. } in self.data_operands() {
            let share = self.random.pick(&[0, 2, 4, 4]);
            if self.barred().iter().any(|range| range.start < operand.end && operand.start < range.end) {
                continue;
            }
            for at in operand.clone().step_by(format.bytes()) {
                let overlaps =
                    marks.iter().any(|(other, mark)| at < other + mark.bytes() && *other < at + format.bytes());
                if at + format.bytes() <= operand.end && !overlaps && self.random.below(4) < share {
                    // With bits in both halves: forward mode tells a binary64 number from two binary32 ones by them.
                    let mantissa = (self.random.bits() >> 12 | 1) as f64 / (1u64 << 52) as f64;
                    let magnitude = format.value(format.bits(1.0 + mantissa));
                    let dot = if self.random.below(2) == 0 { magnitude } else { -magnitude };
                    marks.push((at, Mark::Input(format, dot)));
                }
            }
        }
        marks
    }

    /// Operands that are no data: selectors, counts, addresses.
    fn barred(&self) -> Vec<Range<usize>> {
        let fixed = places::needed(self.instruction).into_iter().filter_map(|p| places::register(p.register()));
        let selectors = reference::selectors(self.instruction).into_iter().chain(reference::count(self.instruction));
        selectors.chain(fixed).collect()
    }

    /// Patterns of shadow in all operands that are data, and somewhere else.
    fn raw_marks(&mut self) -> Marks {
        let barred = self.barred();
        let mut ranges: Vec<Range<usize>> =
            (0..self.instruction.op_count()).filter_map(|k| places::operand(self.instruction, k)).collect();
        let all = places::data(Registers::of(self.instruction));
        for _ in 0..4 {
            let range = self.random.pick(&[0, 1, 2, 3, 4, 5, 6, 7]).min(all.len() - 1);
            let at = all[range].start + 8 * self.random.below(all[range].len() as u64 / 8) as usize;
            ranges.push(at..at + 8);
        }
        if self.instruction.is_vsib() {
            ranges.push(0..640);
        }
        if self.instruction.is_stack_instruction() {
            ranges.extend([768..784, 944..976, places::register(Register::RBP).unwrap_or(0..0)]);
        }
        let mut marks = BTreeMap::new();
        for at in ranges.into_iter().flat_map(|range| (range.start / 4 * 4..range.end).step_by(4)) {
            let is_barred = barred.iter().any(|range| range.start < at + 4 && at < range.end);
            let is_x87 = (offset_of!(Machine, x87)..offset_of!(Machine, mmx)).contains(&at);
            if !is_barred && !is_x87 && self.random.below(5) != 0 {
                marks.insert(at, Mark::Raw(self.pattern()));
            }
        }
        marks.into_iter().collect()
    }

    /// Four bytes, none zero and together a binary32 number of ordinary size, which forward mode does not touch, and an index with its tag.
    fn pattern(&mut self) -> u32 {
        let mut bytes = (self.random.bits() as u32).to_le_bytes().map(|byte| byte.max(1));
        bytes[3] = 0x40 + (bytes[3] & 0x1f);
        u32::from_le_bytes(bytes)
    }

    /// What a real operation's result depends on.
    fn arithmetic(&self, lane: &Lane, before: &Machine, marks: &Marks) -> Expected {
        let format = lane.operand_format;
        let values: Vec<f64> = lane.operands.iter().map(|at| format.value(number(before, *at, format))).collect();
        let active: Vec<Option<u16>> = lane.operands.iter().map(|at| mark_at(marks, *at)).collect();
        if lane.function.is_too_special(&values) {
            return Expected::Anything(lane.format);
        }
        let partials = lane.function.partials(&values);
        let terms = active.iter().zip(&partials).filter_map(|(mark, partial)| Some(((*mark)?, *partial))).collect();
        let moderate = |value: f64| (1e-4..1e4).contains(&value.abs());
        let in_range = values.iter().all(|value| moderate(*value))
            && partials.iter().all(|partial| *partial == 0.0 || (1e-12..1e12).contains(&partial.abs()));
        Expected::Derivative { format: lane.format, terms, in_range, two_readings: false }
    }

    /// What the numbers among the results of an operation on bits depend on.
    fn bits(&mut self, format: Format, runs: (&Machine, &Machine), marks: &Marks) -> Vec<(usize, Expected)> {
        let Some(target) = places::operand(self.instruction, 0) else { return Vec::new() };
        if target.len() < format.bytes() {
            return Vec::new();
        }
        let length = reference::scalar(self.instruction).unwrap_or(target.len());
        let lanes = (0..length).step_by(format.bytes());
        let lanes = lanes.filter(|within| !self.elements.are_masked_out(runs.0, target.start + within));
        let lanes: Vec<usize> = lanes.collect();
        lanes.into_iter().map(|within| (target.start + within, self.bits_of(format, runs, marks, within))).collect()
    }

    /// What the number `within` the destination depends on.
    fn bits_of(&mut self, format: Format, runs: (&Machine, &Machine), marks: &Marks, within: usize) -> Expected {
        let mantissa = (1u64 << format.mantissa_bits()) - 1;
        let operands = self.data_operands();
        let before = |operand: &Operand| number(runs.0, operand.at(within, format.bytes()), format);
        let two_readings = format == Format::Single && self.has_two_readings(runs, marks, within);
        if reference::selects(self.instruction) || reference::choice(self.instruction).is_some() {
            return self.selected(format, runs, marks, within, two_readings);
        }
        let target = places::operand(self.instruction, 0).map_or(0, |target| target.start);
        let mut slopes = Vec::new();
        for operand in operands.iter().filter(|operand| operand.reaches(within)) {
            let source = operand.at(within, format.bytes());
            let Some(mark) = mark_at(marks, source) else { continue };
            let places = [source, target + within];
            slopes.push((mark, natively::slope(self.native, self.instruction, runs, format, places, self.random)));
        }
        let factors = slopes.iter().filter_map(|(mark, slope)| match slope {
            Slope::Factor(factor) => Some((*mark, *factor)),
            _ => None,
        });
        let terms: Vec<(u16, f64)> = factors.collect();
        // Which of two active numbers it is that has been scaled does not show if one of them is a mask.
        let is_special = |operand: &Operand| {
            let bits = before(operand);
            bits & !format.sign() != 0 && (!format.is_normal(bits) || bits & mantissa == 0)
        };
        let is_zero = |operand: &Operand| before(operand) & !format.sign() == 0;
        // Nor if the result happens to have the mantissa of one of them.
        let result = number(runs.1, target + within, format);
        let is_result = |operand: &Operand| (before(operand) ^ result) & mantissa == 0;
        let ambiguous = slopes.len() > 1
            && (operands.iter().any(is_special) || operands.iter().all(is_zero) || operands.iter().any(is_result));
        let has = |wanted: Slope| slopes.iter().any(|(_, slope)| *slope == wanted);
        // Bytes that are taken out in a general register may be put together to a number later.
        let takes_bytes = reference::takes_bytes(self.instruction)
            && operands
                .iter()
                .map(before)
                .chain(reference::constant(self.instruction))
                .chain(self.low_ones(runs.0))
                .any(|mask| is_byte_mask(mask, format) || clears_upper_bits(mask, format));
        // A zero is what a mask has left.
        let is_nothing = result & !format.sign() == 0 && has(Slope::Neither);
        // Both numbers of a rotation keep their shadow, even if one of them leaves its place.
        let is_rotated_away = terms.is_empty() && !has(Slope::Neither) && reference::rotates(self.instruction);
        if ambiguous
            || is_nothing
            || is_rotated_away
            || takes_bytes
            || self.shifts_bytes(runs.0, within)
            || has(Slope::Unknown)
        {
            Expected::Anything(format)
        } else if has(Slope::Neither) || terms.len() > 1 {
            let depends: Vec<u16> =
                slopes.iter().filter(|(_, slope)| *slope != Slope::Constant).map(|(mark, _)| *mark).collect();
            let may_stay = match depends[..] {
                [mark] if reference::can_be_undone(self.instruction) => Some(mark),
                _ => None,
            };
            Expected::Lost(format, may_stay)
        } else {
            Expected::Derivative { format, terms, in_range: true, two_readings }
        }
    }

    /// Whether the number `within` the destination is shifted by whole bytes, as an operand in a register says: then they are moved.
    fn shifts_bytes(&self, before: &Machine, within: usize) -> bool {
        let Some(count) =
            reference::count(self.instruction).filter(|_| reference::shifts_bytes(self.instruction.mnemonic()))
        else {
            return false;
        };
        let byte = |at: usize| before.bytes()[at];
        // One for all elements, or one for each.
        let element = within % count.len().max(1) / 4 * 4;
        [count.start, count.start + element, count.start + element / 8 * 8].into_iter().any(|at| byte(at) % 8 == 0)
    }

    /// The mask of an instruction that keeps as many low bits as an operand says.
    fn low_ones(&self, before: &Machine) -> Option<u64> {
        let count = reference::count(self.instruction).filter(|_| self.instruction.mnemonic() == Mnemonic::Bzhi)?;
        Some(u64::MAX.checked_shr(64u32.saturating_sub(before.bytes()[count.start].into())).unwrap_or(0))
    }

    /// Whether the eight bytes around a binary32 number could be one binary64 number: unless both numbers of each active operand are ordinary ones, and not only the
    /// upper one is changed.
    fn has_two_readings(&self, (before, after): (&Machine, &Machine), marks: &Marks, within: usize) -> bool {
        let format = Format::Single;
        let Some(target) = places::operand(self.instruction, 0).filter(|target| target.len() >= 8) else {
            return false;
        };
        let halves = [0, 4].map(|half| within / 8 * 8 + half);
        let is_ordinary = |at: usize| {
            let bits = number(before, at, format);
            format.is_normal(bits) && bits & ((1 << format.mantissa_bits()) - 1) != 0
        };
        let is_source = |operand: &Operand| {
            operand.reaches(halves[1])
                && halves.iter().any(|half| mark_at(marks, operand.at(*half, 4)).is_some())
                && (self.instruction.op_count() < 3 || self.reads_target() || operand.range.start != target.start)
                && reference::count(self.instruction).as_ref() != Some(&operand.range)
        };
        let operands = self.data_operands();
        let mut sources = operands.iter().filter(|operand| is_source(operand));
        let changes_upper = |operand: &Operand| {
            let stays =
                |half| number(before, operand.at(half, 4), format) == number(after, target.start + half, format);
            stays(halves[0]) && !stays(halves[1])
        };
        sources.any(|operand| changes_upper(operand) || !halves.iter().all(|half| is_ordinary(operand.at(*half, 4))))
    }

    /// Whether the destination of an instruction with three operands is one of its sources.
    fn reads_target(&self) -> bool {
        let target = places::operand(self.instruction, 0);
        let mut whole = *self.instruction;
        whole.set_op_mask(Register::None);
        target.is_some_and(|target| places::read(&whole).contains(&target))
    }

    /// The operand that is the result, perhaps with another sign.
    fn selected(
        &self,
        format: Format,
        runs: (&Machine, &Machine),
        marks: &Marks,
        within: usize,
        two_readings: bool,
    ) -> Expected {
        let (target, sources) = reference::operands(self.instruction);
        let choice = reference::choice(self.instruction);
        let sources = match choice {
            Some(operands) => operands.iter().filter_map(|&k| Operand::of(self.instruction, k)).collect(),
            None => sources,
        };
        let result = number(runs.1, target + within, format);
        if reference::gives_constants(self.instruction)
            && (!format.is_normal(result) || result.trailing_zeros() >= format.mantissa_bits())
        {
            return Expected::Anything(format);
        }
        let factor = |operand: &Operand| {
            let changed = number(runs.0, operand.at(within, format.bytes()), format) ^ result;
            match changed & !format.sign() {
                0 if changed == 0 => Some(1.0),
                0 if choice.is_some() => Some(-1.0),
                _ => None,
            }
        };
        let same: Vec<(usize, f64)> =
            sources.iter().filter_map(|operand| Some((operand.at(within, format.bytes()), factor(operand)?))).collect();
        match same[..] {
            [(source, factor)] => {
                let terms = mark_at(marks, source).into_iter().map(|mark| (mark, factor)).collect();
                Expected::Derivative { format, terms, in_range: true, two_readings }
            }
            _ => Expected::Anything(format),
        }
    }

    /// What is no number of its own and must be passive: the destinations of an instruction that computes, or the low number of one.
    fn computed(&self) -> Vec<Range<usize>> {
        let mnemonic = self.instruction.mnemonic();
        let name = reference::base_name(mnemonic);
        let arithmetic = !reference::lanes(self.instruction).is_empty();
        if arithmetic || reference::bit_operation(self.instruction).is_some() {
            return Vec::new();
        }
        let scalar = match &name[name.len().saturating_sub(2)..] {
            _ if name == "cvtpi2ps" => 8,
            "ss" => 4,
            "sd" => 8,
            _ => usize::MAX,
        };
        let scalar = if reference::is_flat(mnemonic) { scalar } else { usize::MAX };
        // The sum goes to the first operand, the second gets what was there.
        let exchanged = if name == "xadd" { places::operand(self.instruction, 1) } else { None };
        let is_exchanged = |range: &Range<usize>| exchanged.as_ref().is_some_and(|other| other.start == range.start);
        let written = places::written(self.instruction).into_iter().filter(|range| !is_exchanged(range));
        written.map(|range| range.start..range.end.min(range.start.saturating_add(scalar))).collect()
    }

    /// Everything else that has changed or was active: bytes that are moved.
    fn moved(
        &mut self,
        (before, after): (&Machine, &Machine),
        marks: &Marks,
        movement: &Movement,
        expected: &mut Vec<(usize, Expected)>,
    ) {
        let mut granules: Vec<usize> = Vec::new();
        for range in places::data(Registers::of(self.instruction)) {
            granules.extend(range.step_by(4).filter(|&at| before.bytes()[at..at + 4] != after.bytes()[at..at + 4]));
        }
        granules.extend(marks.iter().flat_map(|(at, mark)| (*at / 4 * 4..at + mark.bytes()).step_by(4)));
        granules.sort_unstable();
        granules.dedup();
        const ZERO_FLAG: u64 = 1 << 6;
        let exchanged = reference::exchanged(self.instruction, after.flags & ZERO_FLAG != 0);
        let (is_exchange, exchanged) = (exchanged.is_some(), exchanged.unwrap_or_default());
        let stack = places::register(Register::RSP).unwrap_or(0..0);
        let computed = if self.computes { self.computed() } else { Vec::new() };
        let is_computed = |at: usize| computed.iter().any(|range| range.contains(&at));
        let covered: Vec<Range<usize>> = expected
            .iter()
            .map(|(at, expected)| match expected {
                Expected::Derivative { format, .. } | Expected::Lost(format, _) | Expected::Anything(format) => {
                    *at..at + format.bytes()
                }
                Expected::Bytes(_) => *at..at + 4,
            })
            .chain([stack])
            .collect();
        for at in granules {
            if covered.iter().any(|range| range.contains(&at)) {
                continue;
            }
            let origin = |at: usize| match exchanged.iter().find(|[target, _]| target.contains(&at)) {
                Some([target, source]) => Origin::From(source.start + (at - target.start)),
                // Other bytes stay or are cleared; a cleared one equals any operand's byte that happens to be zero.
                None => match movement.origin(at) {
                    Origin::From(source) if is_exchange && source != at => Origin::Constant,
                    origin => origin,
                },
            };
            let bytes = [0, 1, 2, 3].map(|k| match origin(at + k) {
                Origin::From(source)
                    if !is_computed(at + k)
                        || places::repeats(self.instruction) && source == at + k
                        || self.elements.are_masked_out(before, at + k) =>
                {
                    mark_over(marks, source)
                }
                Origin::From(_) => None,
                Origin::Constant | Origin::Computed => None,
            });
            expected.push((at, Expected::Bytes(bytes)));
        }
    }
}

fn is_wide_index(kind: &iced_x86::OpCodeOperandKind) -> bool {
    use iced_x86::OpCodeOperandKind::*;
    matches!(kind, mem_vsib64x | mem_vsib64y | mem_vsib64z)
}

/// The number at an offset.
fn number(machine: &Machine, at: usize, format: Format) -> u64 {
    let mut bytes = [0; 8];
    bytes[..format.bytes()].copy_from_slice(&machine.bytes()[at..at + format.bytes()]);
    u64::from_le_bytes(bytes)
}

/// The mark that begins at an offset.
fn mark_at(marks: &Marks, at: usize) -> Option<u16> {
    marks.iter().position(|(offset, _)| *offset == at).map(|position| position as u16)
}

/// The mark that the byte at an offset belongs to, and which of its bytes it is.
fn mark_over(marks: &Marks, at: usize) -> Option<(u16, u8)> {
    let position = marks.iter().position(|(offset, mark)| (*offset..offset + mark.bytes()).contains(&at))?;
    Some((position as u16, (at - marks[position].0) as u8))
}

/// Whether a mask clears bits of sign and exponent or just below, and no others: code that replaces these does so first.
fn clears_upper_bits(mask: u64, format: Format) -> bool {
    let bits = 8 * format.bytes();
    let cleared = !mask << (64 - bits);
    cleared != 0 && cleared << 16 == 0
}

/// Whether a mask keeps some whole bytes of a number and clears the others.
fn is_byte_mask(mask: u64, format: Format) -> bool {
    let bytes = &mask.to_le_bytes()[..format.bytes()];
    bytes.iter().all(|byte| matches!(byte, 0 | 0xff)) && bytes.iter().any(|&byte| byte != bytes[0])
}
