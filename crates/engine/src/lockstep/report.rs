//! What is printed when a difference has been found.

use std::fmt::Write;
use std::ops::Range;
use std::path::Path;

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

use super::event::{Origin, Run};
use super::layout;
use super::native::Native;
use super::registers::{Difference, Registers};
use crate::memory;
use crate::symbols::Elf;

/// A block after which the registers differ.
pub(super) struct Finding {
    /// How many blocks have been compared, with this one.
    pub number: u64,
    pub run: Run,
    /// Where the native process stood before.
    pub from: u64,
    /// The registers there.
    pub before: Registers,
    pub differences: Vec<Difference>,
    /// The signal that the processor has raised.
    pub signal: Option<i32>,
}

/// Longest instruction, in bytes.
const LONGEST: usize = 15;

impl Finding {
    /// The report: what, where, the code, the registers.
    pub(super) fn text(&self, native: &Native, objects: &Objects) -> String {
        let Finding { number, run, from, .. } = self;
        let mut text = format!(
            "lock-step: block {number} at {:#x}{} ends differently than natively",
            run.block,
            objects.describe(run.block)
        );
        let mut line = |line: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _ = write!(text, "\n  {line}");
        };
        if run.block != *from {
            line(format_args!("the difference has come about behind {from:#x}"));
        }
        for (address, instruction) in disassembly(native, *from, run.count as usize) {
            line(format_args!("{address:#x}  {instruction}"));
        }
        if let Some(signal) = self.signal {
            line(format_args!("natively, signal {signal} is raised; under the engine it is not"));
        }
        let rows = [["register", "before", "native", "derivgrind"].map(str::to_owned)]
            .into_iter()
            .chain(self.differences.iter().map(|difference| {
                let Difference { register, native, engine } = difference;
                [register.clone(), self.before.value(register), native.clone(), engine.clone()]
            }))
            .collect::<Vec<_>>();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: [usize; 3] = std::array::from_fn(width);
        if !self.differences.is_empty() {
            for [register, before, native, engine] in &rows {
                let [a, b, c] = widths;
                line(format_args!("{register:a$}  {before:b$}  {native:c$}  {engine}"));
            }
        }
        text
    }
}

fn disassembly(native: &Native, address: u64, count: usize) -> Vec<(u64, String)> {
    let mut bytes = vec![0; count * LONGEST];
    let length = native.read(address, &mut bytes);
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_hex_prefix("0x");
    formatter.options_mut().set_hex_suffix("");
    formatter.options_mut().set_space_after_operand_separator(true);
    Decoder::with_ip(64, &bytes[..length], address, DecoderOptions::NONE)
        .into_iter()
        .take(count)
        .map(|instruction| {
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            (instruction.ip(), text)
        })
        .collect()
}

/// Which file is mapped where.
pub(super) struct Objects(Vec<(Range<u64>, Origin)>);

impl Objects {
    /// The files that the loader has mapped.
    pub(super) fn loaded() -> Objects {
        let files = memory::mappings().into_iter();
        Objects(files.filter_map(|mapping| Some((mapping.start..mapping.end, layout::origin(&mapping)?))).collect())
    }

    /// Whether a file is mapped shared at an address.
    pub(super) fn is_shared(&self, address: u64) -> bool {
        self.0.iter().any(|(range, file)| range.contains(&address) && file.shared.is_some())
    }

    /// Something else lies there now: a file or not.
    pub(super) fn mapped(&mut self, start: u64, length: u64, origin: Option<Origin>) {
        let range = start..start.saturating_add(length);
        let mut kept = Vec::with_capacity(self.0.len() + 1);
        for (old, file) in self.0.drain(..) {
            let below = old.start..old.end.min(range.start);
            let above = old.start.max(range.end)..old.end;
            for part in [below, above].into_iter().filter(|part| !part.is_empty()) {
                let offset = file.offset + (part.start - old.start);
                kept.push((part, Origin { offset, ..file.clone() }));
            }
        }
        kept.extend(origin.map(|origin| (range, origin)));
        self.0 = kept;
    }

    /// ` (function+0x12 in /path/of/file)`, as far as it is known.
    fn describe(&self, address: u64) -> String {
        let Some((range, file)) = self.0.iter().find(|(range, _)| range.contains(&address)) else {
            return String::new();
        };
        let offset = file.offset + (address - range.start);
        let function = function_at(&file.path, offset);
        let function = function.unwrap_or_else(|| format!("file offset {offset:#x}"));
        format!(" ({function} in {})", file.path.display())
    }
}

/// The public function that holds a place in a file, and the distance from its first instruction.
fn function_at(path: &Path, offset: u64) -> Option<String> {
    let elf = Elf::open(path).ok()?;
    let identity = elf.identity().ok()?;
    let segment = identity.segments.iter().find(|segment| {
        (segment.file_offset..segment.file_offset.saturating_add(segment.file_size)).contains(&offset)
    })?;
    let address = segment.address + (offset - segment.file_offset);
    let mut functions = elf.functions(true, |_, _| true).ok()?;
    functions.retain(|function| function.address <= address);
    let nearest = functions.into_iter().max_by_key(|function| function.address)?;
    let inside = nearest.size == 0 || address < nearest.address + nearest.size;
    inside.then(|| format!("{}+{:#x}", nearest.name, address - nearest.address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, offset: u64) -> Option<Origin> {
        Some(Origin { path: path.into(), offset, shared: None })
    }

    #[test]
    fn later_mappings_replace_earlier_ones() {
        let mut objects = Objects(Vec::new());
        objects.mapped(0x1000, 0x5000, file("/nowhere/a", 0));
        objects.mapped(0x2000, 0x1000, file("/nowhere/b", 0x7000));
        objects.mapped(0x5000, 0x1000, None);
        assert_eq!(objects.describe(0x1010), " (file offset 0x10 in /nowhere/a)");
        assert_eq!(objects.describe(0x2010), " (file offset 0x7010 in /nowhere/b)");
        assert_eq!(objects.describe(0x3010), " (file offset 0x2010 in /nowhere/a)");
        assert_eq!(objects.describe(0x5010), "");
    }
}
