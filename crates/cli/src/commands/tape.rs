//! `derivgrind tape`: looks into tapes and converts them.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use derivgrind_tape::{Format, Process, Statistics, Tape, TapeError};

use crate::arguments;
use crate::failure::{Exit, Failure};
use crate::recording::{open, unusable};
use crate::start::Outcome;

/// One of the commands.
pub fn tape(command: &arguments::Tape) -> Outcome {
    match command {
        arguments::Tape::Stats { directory } => {
            let tape = salvage(directory)?;
            let text = describe(&tape.statistics().map_err(unusable)?);
            print_text(&text)?;
            tape.require_complete().map_err(unusable)?;
        }
        arguments::Tape::Check { directory } => {
            let tape = open(directory)?;
            tape.validate().map_err(unusable)?;
            let (inputs, outputs) = (tape.inputs().len(), tape.outputs().len());
            let indices = tape.index_limit().saturating_sub(1);
            print_text(&format!("valid: {indices} indices, {inputs} inputs, {outputs} outputs\n"))?;
        }
        arguments::Tape::Print { directory } => return print(directory),
        arguments::Tape::Export { directory, output } => {
            let target = output.as_deref().unwrap_or(directory);
            open(directory)?.export(target).map_err(not_converted)?;
        }
        arguments::Tape::Import { directory, output } => {
            let target = output.as_deref().unwrap_or(directory);
            derivgrind_tape::import(directory, target).map_err(not_converted)?;
        }
    }
    Ok(0)
}

/// `tape-evaluation --stats`: the numbers of blocks with zero, one and two non-zero indices.
pub fn block_counts(directory: &Path) -> Outcome {
    let tape = salvage(directory)?;
    let [none, one, two] = tape.statistics().map_err(unusable)?.by_operands;
    print_text(&format!("{none} {one} {two}\n"))?;
    tape.require_complete().map_err(unusable)?;
    Ok(0)
}

/// Prints a line for each index.
pub fn print(directory: &Path) -> Outcome {
    let tape = salvage(directory)?;
    let mut out = BufWriter::new(io::stdout().lock());
    tape.print(&mut out).map_err(unusable)?;
    out.flush().map_err(|error| not_printed(&error))?;
    tape.require_complete().map_err(unusable)?;
    Ok(0)
}

/// Opens a recording to look at it: an incomplete one will do, and is reported at the end.
fn salvage(directory: &Path) -> Result<Tape, Failure> {
    Tape::salvage(directory, Process::Main).map_err(unusable)
}

/// Statistics for people.
fn describe(statistics: &Statistics) -> String {
    let Statistics {
        by_operands: [none, one, two],
        unused,
        by_operation,
        inputs,
        outputs,
        passive_outputs,
        bytes,
        format,
    } = statistics;
    let format = match format {
        Format::Native => "native",
        Format::Exchange => "exchange",
    };
    // The dummy of index 0 is no news to anybody.
    let [none, unused] = [none, unused].map(|count| count.saturating_sub(1));
    let indices = none + one + two;
    let lines = [
        ("format", format.to_owned()),
        ("bytes", bytes.to_string()),
        ("inputs", inputs.to_string()),
        ("outputs", outputs.to_string()),
        ("  passive", passive_outputs.to_string()),
        ("indices", indices.to_string()),
        ("  not used", unused.to_string()),
        ("  no operand", none.to_string()),
        ("  one operand", one.to_string()),
        ("  two operands", two.to_string()),
    ];
    let operations = by_operation.iter().map(|counted| {
        let precision = if counted.binary32 { "/32" } else { "" };
        (format!("  {}{precision}", counted.operation.name()), counted.count.to_string())
    });
    let mut text = String::new();
    let lines = lines.into_iter().map(|(name, value)| (name.to_owned(), value));
    for (name, value) in lines.chain([("operations".to_owned(), String::new())]).chain(operations) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", format!("{name:<20} {value:>14}").trim_end());
    }
    text
}

fn print_text(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| not_printed(&error))
}

fn not_printed(error: &io::Error) -> Failure {
    Failure::new(Exit::InputOutput, format!("cannot write to the standard output: {error}"))
}

/// An error in a conversion: what cannot be written is the target.
fn not_converted(error: TapeError) -> Failure {
    match error {
        TapeError::Io { action: "write" | "create the directory", .. } => {
            Failure::new(Exit::InputOutput, error.to_string())
        }
        _ => unusable(error),
    }
}
