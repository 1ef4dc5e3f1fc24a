//! Command lines.
//!
//! What stands before the program belongs to us, what follows it belongs to the program, `--help` included.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use derivgrind_ad::forward::MOST_DIRECTIONS;
use derivgrind_engine::cache::POSSIBLE_BYTES;

use crate::failure::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  derivgrind demo                            show a gradient from beginning to end
  derivgrind grad -- ./program argument      print the derivatives of a program's outputs
  derivgrind record tape -- ./program        record now, evaluate later:
  derivgrind eval tape                         reads tape/dg-output-bars, writes tape/dg-input-bars

A program that is named like a command is reached with `--`: derivgrind -- demo";

/// Exact derivatives of compiled programs, without their source.
#[derive(Debug, Parser)]
#[command(name = "derivgrind", version, after_help = EXAMPLES, disable_help_subcommand = true)]
#[command(
    override_usage = "derivgrind [--quiet] <COMMAND> ...\n       derivgrind [--quiet] [--strict] --record=DIR [--] PROGRAM [ARGUMENT]..."
)]
pub struct Derivgrind {
    /// Print no messages of our own other than errors
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// Record into this directory; without it PROGRAM runs in forward mode
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,

    /// Directions of forward mode, each with a dot value of its own for each variable
    #[arg(long, value_name = "N", value_parser = directions(), conflicts_with = "record")]
    pub directions: Option<u32>,

    /// What is an error.
    #[command(flatten)]
    pub strictness: Strictness,

    /// What to do
    #[command(subcommand)]
    pub command: Option<Command>,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    pub program: Vec<OsString>,

    /// What is done with programs that the program executes.
    #[command(flatten)]
    pub children: Children,

    /// Switches for finding errors in derivgrind.
    #[command(flatten)]
    pub debugging: Debugging,
}

impl Derivgrind {
    /// An option that stands before a command, which would not see it.
    pub fn misplaced(&self) -> Option<&'static str> {
        let Debugging { trace, bisect, lockstep, no_avx512, code_cache } = &self.debugging;
        let options = [
            ("--record", self.record.is_some()),
            ("--directions", self.directions.is_some()),
            ("--trace-children", self.children.trace_children),
            ("--trace", trace.is_some()),
            ("--bisect", bisect.is_some()),
            ("--lockstep", *lockstep),
            ("--no-avx512", *no_avx512),
            ("--code-cache", code_cache.is_some()),
        ];
        let given = options.into_iter().find(|(_, given)| *given);
        given.filter(|_| self.command.is_some()).map(|(option, _)| option)
    }
}

/// The commands of `derivgrind`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program and record its operations on a tape
    Record {
        /// Where the tape and the index files go; made if it does not exist
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// The program.
        #[command(flatten)]
        program: Program,
        /// What is an error.
        #[command(flatten)]
        strictness: Strictness,
        /// What is done with programs that the program executes.
        #[command(flatten)]
        children: Children,
        /// Switches for finding errors in derivgrind.
        #[command(flatten)]
        debugging: Debugging,
    },
    /// Run a program and carry dot values along
    Forward {
        /// Number of directions, each with a dot value of its own for each variable
        #[arg(long, value_name = "N", value_parser = directions(), default_value_t = 1)]
        directions: u32,
        /// The program.
        #[command(flatten)]
        program: Program,
        /// What is an error.
        #[command(flatten)]
        strictness: Strictness,
        /// What is done with declared variables.
        #[command(flatten)]
        followed: Followed,
        /// What is done with programs that the program executes.
        #[command(flatten)]
        children: Children,
        /// Switches for finding errors in derivgrind.
        #[command(flatten)]
        debugging: Debugging,
    },
    /// Evaluate a tape: from bar values of the outputs to those of the inputs
    Eval {
        /// The directory that was recorded into
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// From dot values of the inputs (dg-input-dots) to those of the outputs (dg-output-dots) instead
        #[arg(long)]
        forward: bool,
    },
    /// Run a program and print the derivative of each output with respect to each input
    Grad(Grad),
    /// Compare the derivatives of a program's outputs with difference quotients
    Check {
        /// The program.
        #[command(flatten)]
        program: Program,
        /// What is an error.
        #[command(flatten)]
        strictness: Strictness,
    },
    /// Run a program with perturbed inputs
    #[command(hide = true)]
    Perturbed {
        /// The program.
        #[command(flatten)]
        program: Program,
        /// What is done with declared variables.
        #[command(flatten)]
        followed: Followed,
    },
    /// Look into a tape, or convert it
    #[command(subcommand)]
    Tape(Tape),
    /// Run a program without derivatives, to measure and test the engine alone
    Run {
        /// The program.
        #[command(flatten)]
        program: Program,
        /// What is done with programs that the program executes.
        #[command(flatten)]
        children: Children,
        /// Switches for finding errors in derivgrind.
        #[command(flatten)]
        debugging: Debugging,
    },
    /// Compile, record and differentiate a small program, and compare with its analytic gradient
    Demo,
    /// Print what a compiler, a linker or Python needs to find our files
    Config(Config),
}

/// What `--directions` takes.
fn directions() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=MOST_DIRECTIONS as i64)
}

/// What is an error.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Strictness {
    /// Treat lost activity as an error: exit code 3 if an active value met an operation that is not differentiated
    #[arg(long)]
    pub strict: bool,
}

/// What is done with programs that the program executes.
#[derive(Args, Clone, Debug, Default)]
pub struct Children {
    /// Run programs that the program executes in the same way, with the same options; with `record` each one records into DIR/exec.PID
    #[arg(long)]
    pub trace_children: bool,
    /// For our own use: the file that is executed
    #[arg(long, value_name = "FILE", hide = true, requires = "trace_children")]
    pub executed: Option<PathBuf>,
}

/// For our own use, to run a program several times and to look at its declared variables.
#[derive(Args, Debug)]
pub struct Followed {
    /// A line for each declared input with a number for each direction; 0 for those beyond
    #[arg(long, value_name = "FILE", hide = true, requires = "results")]
    pub seeds: Option<PathBuf>,
    /// Where declared inputs and outputs are written to
    #[arg(long, value_name = "FILE", hide = true)]
    pub results: Option<PathBuf>,
}

/// A program and its arguments.
#[derive(Args, Debug)]
pub struct Program {
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub words: Vec<OsString>,
}

/// Switches for finding errors in derivgrind itself.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Finding errors in derivgrind")]
pub struct Debugging {
    /// Write the address of each block that is executed to FILE
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Instrument the first N blocks only
    #[arg(long, value_name = "N")]
    pub bisect: Option<u64>,
    /// Compare the registers after each block with a native run, and stop at the first difference
    #[arg(long)]
    pub lockstep: bool,
    /// Hide from the program that the processor has AVX-512, so that libraries choose other code
    #[arg(long)]
    pub no_avx512: bool,
    /// Memory for translated code, from 64K to 1G (default); when it is full, code that is still used is translated anew
    #[arg(long, value_name = "SIZE", value_parser = code_cache)]
    pub code_cache: Option<usize>,
}

/// What `--code-cache` takes: a number of bytes, or of 2^10, 2^20 or 2^30 bytes with `K`, `M` or `G` behind.
fn code_cache(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((end, 'K' | 'k')) => (&text[..end], 1 << 10),
        Some((end, 'M' | 'm')) => (&text[..end], 1 << 20),
        Some((end, 'G' | 'g')) => (&text[..end], 1 << 30),
        _ => (text, 1),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    bytes.filter(|bytes| POSSIBLE_BYTES.contains(bytes)).ok_or_else(|| {
        format!(
            "a size from {}K to {}G, such as 8M, is needed",
            POSSIBLE_BYTES.start() >> 10,
            POSSIBLE_BYTES.end() >> 30
        )
    })
}

/// Values of `derivgrind grad --mode`.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Record once; then a sweep for each output, or for each input if these are fewer
    Auto,
    /// Record once; then a backward sweep for each output
    Record,
    /// Runs in forward mode with several inputs each, without a tape
    Forward,
}

/// Arguments of `derivgrind grad`.
#[derive(Args, Debug)]
pub struct Grad {
    /// Print JSON; the program's standard output goes to the standard error stream
    #[arg(long)]
    pub json: bool,
    /// Write the derivatives to FILE as a NumPy matrix with a row for each output, and print no table
    #[arg(long, value_name = "FILE")]
    pub npy: Option<PathBuf>,
    /// How the derivatives are computed: from a tape (in whichever direction takes fewer sweeps), from a tape backwards, or by runs in forward mode
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    pub mode: Mode,
    /// With --mode=forward: how many inputs each run differentiates with respect to; without it up to 4
    #[arg(long, value_name = "N", value_parser = directions())]
    pub directions: Option<u32>,
    /// What is an error.
    #[command(flatten)]
    pub strictness: Strictness,
    /// The program.
    #[command(flatten)]
    pub program: Program,
}

/// The commands of `derivgrind tape`.
#[derive(Debug, Subcommand)]
pub enum Tape {
    /// Count blocks and operations
    Stats {
        /// The directory that was recorded into
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Check that the tape is whole and that each operand's index comes before its operation's
    Check {
        /// The directory that was recorded into
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Print the tape in readable form
    Print {
        /// The directory that was recorded into
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Write the tape in the exchange format: 32-byte blocks of two indices and two partial derivatives
    Export {
        /// The directory that was recorded into
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// A file for the tape, or a directory for the tape and the index files; without it the tape in DIR is replaced
        #[arg(short, long, value_name = "PATH")]
        output: Option<PathBuf>,
    },
    /// Convert a tape in the exchange format into the native one
    Import {
        /// The directory with the tape and the index files
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// Where the native recording goes; without it the tape in DIR is replaced
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
}

/// Arguments of `derivgrind config` and `derivgrind-config`.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct Config {
    /// Compiler options for C and C++
    #[arg(long)]
    pub cflags: bool,
    /// Compiler and linker options for Fortran, 64-bit
    #[arg(long)]
    pub fflags64: bool,
    /// Compiler and linker options for Fortran, 32-bit
    #[arg(long)]
    pub fflags32: bool,
    /// Directory of the headers
    #[arg(long)]
    pub incdir: bool,
    /// Directory of the libraries
    #[arg(long)]
    pub libdir: bool,
    /// Directory for PYTHONPATH
    #[arg(long)]
    pub pythondir: bool,
    /// Directory of the commands
    #[arg(long)]
    pub bindir: bool,
}

/// Command line of `derivgrind-config`.
#[derive(Debug, Parser)]
#[command(name = "derivgrind-config", version, about = "What a compiler, a linker or Python needs to find derivgrind")]
pub struct DerivgrindConfig {
    /// What to print.
    #[command(flatten)]
    pub what: Config,
}

/// Command line of `tape-evaluation`.
#[derive(Debug, Parser)]
#[command(name = "tape-evaluation", version)]
#[command(
    about = "Evaluate a tape: from bar values of the outputs (dg-output-bars) to those of the inputs (dg-input-bars)"
)]
pub struct TapeEvaluation {
    /// The directory that was recorded into
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// From dot values of the inputs (dg-input-dots) to those of the outputs (dg-output-dots) instead
    #[arg(long, group = "what")]
    pub forward: bool,
    /// Count the blocks with zero, one and two non-zero indices
    #[arg(long, group = "what")]
    pub stats: bool,
    /// Print the tape in readable form
    #[arg(long, group = "what")]
    pub print: bool,
}

/// Parses a command line.
///
/// # Errors
/// A usage failure with what is wrong. A request for help is answered here, and ends with `Ok(None)`.
pub fn parse<T: Parser>(arguments: Vec<OsString>) -> Result<Option<T>, Failure> {
    match T::try_parse_from(arguments) {
        Ok(parsed) => Ok(Some(parsed)),
        Err(error) if !error.use_stderr() => {
            // Help and version. A closed pipe is no reason to complain.
            let _ = error.print();
            Ok(None)
        }
        Err(error) => {
            let text = error.render().to_string();
            Err(Failure::new(Exit::Usage, text.strip_prefix("error: ").unwrap_or(&text)))
        }
    }
}

/// Puts a `--` before the program if options before it say that a program follows (`--record=DIR`), so that a program with
/// the name of a command is not mistaken for one.
pub fn delimit_program(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let mut position = 1;
    let mut records = false;
    while let Some(argument) = arguments.get(position) {
        let bytes = argument.as_encoded_bytes();
        match bytes {
            b"--" => return arguments,
            b"--record" => {
                records = true;
                position += 1;
            }
            b"--trace" | b"--executed" | b"--bisect" | b"--directions" | b"--code-cache" => position += 1,
            _ if bytes.starts_with(b"--record=") => records = true,
            _ if bytes.starts_with(b"-") => {}
            _ => break,
        }
        position += 1;
    }
    if records && position < arguments.len() {
        arguments.insert(position, OsString::from("--"));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Derivgrind {
        let words = line.split_whitespace().map(OsString::from).collect();
        super::parse(delimit_program(words)).unwrap().expect("not a request for help")
    }

    fn words(program: &[OsString]) -> Vec<&str> {
        program.iter().map(|word| word.to_str().unwrap()).collect()
    }

    #[test]
    fn definitions_are_consistent() {
        use clap::CommandFactory;
        Derivgrind::command().debug_assert();
        DerivgrindConfig::command().debug_assert();
        TapeEvaluation::command().debug_assert();
    }

    #[test]
    fn options_before_a_command_are_not_dropped() {
        assert_eq!(parse("derivgrind --no-avx512 forward -- x").misplaced(), Some("--no-avx512"));
        assert_eq!(parse("derivgrind --bisect 3 run -- x").misplaced(), Some("--bisect"));
        assert_eq!(parse("derivgrind --directions 2 grad -- x").misplaced(), Some("--directions"));
        assert_eq!(parse("derivgrind --quiet --strict record d -- x").misplaced(), None);
        assert_eq!(parse("derivgrind forward --no-avx512 -- x").misplaced(), None);
        assert_eq!(parse("derivgrind --no-avx512 x forward").misplaced(), None);
    }

    #[test]
    fn sizes_of_the_code_cache() {
        assert_eq!(code_cache("64K"), Ok(1 << 16));
        assert_eq!(code_cache("1048576"), Ok(1 << 20));
        assert_eq!(code_cache("1g"), Ok(1 << 30));
        for nonsense in ["", "M", "0", "63K", "2G", "-1M", "1.5M", "8MB", "18446744073709551616", "17179869184G", "é"]
        {
            assert!(code_cache(nonsense).unwrap_err().contains("from 64K to 1G"), "{nonsense}");
        }
        assert_eq!(parse("derivgrind --code-cache 8M run -- x").misplaced(), Some("--code-cache"));
    }

    #[test]
    fn what_follows_the_program_belongs_to_it() {
        let line = parse("derivgrind --record=dir prog --help -q --record=other eval -- x");
        assert_eq!(line.record.unwrap().to_str(), Some("dir"));
        assert_eq!(words(&line.program), ["prog", "--help", "-q", "--record=other", "eval", "--", "x"]);
        assert!(!line.quiet);
        let line = parse("derivgrind prog eval --quiet");
        assert_eq!(words(&line.program), ["prog", "eval", "--quiet"]);
        assert!(!line.quiet && line.command.is_none());
    }

    #[test]
    fn options_before_the_program_are_ours() {
        let line = parse("derivgrind --quiet --record dir --bisect 5 -- prog -x");
        assert!(line.quiet);
        assert_eq!(line.debugging.bisect, Some(5));
        assert_eq!(words(&line.program), ["prog", "-x"]);
    }

    #[test]
    fn a_program_may_be_named_like_a_command() {
        for line in
            ["derivgrind --record=dir demo x", "derivgrind --record dir demo x", "derivgrind -q --record=dir -- demo x"]
        {
            let line = parse(line);
            assert!(line.command.is_none());
            assert_eq!(words(&line.program), ["demo", "x"]);
        }
        let line = parse("derivgrind -- eval x");
        assert!(line.command.is_none());
        assert_eq!(words(&line.program), ["eval", "x"]);
    }

    #[test]
    fn commands() {
        let line = parse("derivgrind --quiet record dir -- prog --bisect 1");
        assert!(line.quiet && line.record.is_none());
        let Some(Command::Record { directory, program, strictness, debugging, .. }) = line.command else {
            panic!("{line:?}")
        };
        assert_eq!(directory.to_str(), Some("dir"));
        assert_eq!(words(&program.words), ["prog", "--bisect", "1"]);
        assert!(debugging.bisect.is_none() && !strictness.strict);
        let line = parse("derivgrind record --strict dir -- prog --strict");
        let Some(Command::Record { strictness, .. }) = line.command else { panic!("{line:?}") };
        assert!(strictness.strict && !line.strictness.strict);
        assert!(parse("derivgrind --strict --record=dir prog").strictness.strict);
        let line = parse("derivgrind run --bisect 7 --lockstep --trace t prog --trace u");
        let Some(Command::Run { program, debugging, .. }) = line.command else { panic!("{line:?}") };
        assert_eq!(debugging.bisect, Some(7));
        assert!(debugging.lockstep);
        assert_eq!(debugging.trace.unwrap().to_str(), Some("t"));
        assert_eq!(words(&program.words), ["prog", "--trace", "u"]);
        let line = parse("derivgrind grad --json -q prog --json");
        let Some(Command::Grad(grad)) = line.command else { panic!("{line:?}") };
        assert!(grad.json && line.quiet && grad.npy.is_none());
        assert_eq!(words(&grad.program.words), ["prog", "--json"]);
    }

    #[test]
    fn directions_of_forward_mode() {
        let line = parse("derivgrind --directions=3 prog --directions=4");
        assert_eq!((line.directions, words(&line.program)), (Some(3), vec!["prog", "--directions=4"]));
        assert_eq!(parse("derivgrind --directions 8 -- prog").directions, Some(8));
        let line = parse("derivgrind forward --directions=2 prog");
        let Some(Command::Forward { directions, .. }) = line.command else { panic!("{line:?}") };
        assert_eq!(directions, 2);
    }

    #[test]
    fn an_unknown_option_is_not_taken_for_the_program() {
        for line in [
            "derivgrind --directions=0 prog",
            "derivgrind --directions=9 prog",
            "derivgrind --directions=2 --record=dir prog",
            "derivgrind --recrod=dir prog",
            "derivgrind grad --jsn -- prog",
            "derivgrind run",
            "derivgrind config",
            "derivgrind config --cflags --libdir",
        ] {
            let words = line.split_whitespace().map(OsString::from).collect();
            let failure = super::parse::<Derivgrind>(delimit_program(words)).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{line}");
            assert!(!failure.message.starts_with("error"), "{}", failure.message);
        }
    }
}
