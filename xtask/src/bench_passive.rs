//! `cargo xtask bench passive`: what the tool costs on programs that compute nothing to be differentiated.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::measure::{self, Spread};
use crate::{Workspace, bench, python};

/// Numbers of repetitions.
#[derive(clap::Args)]
pub struct Options {
    /// Repetitions of each measurement.
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
    /// Only programs with this text in their name.
    #[arg(default_value = "")]
    filter: String,
}

/// A query that computes: sums over a generated table, and a join with grouping and sorting.
const QUERY: &str = "with recursive c(x) as (select 1 union all select x+1 from c where x<1000000) select sum(x*x%7) from c; \
     create table t(a integer primary key, b integer, c text); \
     with recursive c(x) as (select 1 union all select x+1 from c where x<100000) \
     insert into t select x, x*7919%1009, 'row ' || x from c; \
     create index i on t(b); \
     select count(*), sum(length(s.c)) from t, t s where t.b = s.b and t.a < 2000 group by t.b % 10 order by 2 desc;";

/// Bytes that `gzip` compresses.
const TEXT_BYTES: usize = 16 << 20;

/// A program with its arguments.
struct Case {
    name: &'static str,
    program: String,
    arguments: Vec<String>,
}

/// A way to run a program, and the tool's arguments for it.
struct Way {
    name: &'static str,
    arguments: Vec<String>,
}

/// Measures and prints the table.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    if options.repetitions == 0 {
        bail!("--repetitions has to be at least 1");
    }
    bench::build_release(workspace)?;
    let scratch = tempfile::tempdir_in("/dev/shm").context("cannot make a directory in /dev/shm")?;
    let cases = cases(workspace, scratch.path())?;
    let tape = scratch.path().join("tape");
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let ways = [
        Way { name: "null tool", arguments: words(&["--quiet", "run", "--"]) },
        Way { name: "recording", arguments: words(&["--quiet", "record", &tape.to_string_lossy(), "--"]) },
        Way { name: "forward mode", arguments: words(&["--quiet", "forward", "--"]) },
    ];

    println!(
        "Programs without active values, {} repetitions: processor seconds of the whole process, medians, and ratios to native",
        options.repetitions
    );
    print!("  {:<10}{:>10}", "", "native");
    ways.iter().for_each(|way| print!("{:>20}", way.name));
    println!();
    let mut logarithms = vec![Vec::new(); ways.len()];
    for case in cases.iter().filter(|case| case.name.contains(&options.filter)) {
        let mut native = Vec::new();
        let mut instrumented = vec![Vec::new(); ways.len()];
        for _ in 0..options.repetitions {
            native.push(processor_seconds(Command::new(&case.program).args(&case.arguments))?);
            for (way, seconds) in ways.iter().zip(&mut instrumented) {
                bench::remove_tape(&tape)?;
                let mut command = Command::new(workspace.binary("derivgrind"));
                seconds.push(processor_seconds(command.args(&way.arguments).arg(&case.program).args(&case.arguments))?);
            }
        }
        let median = |values: &[f64]| Spread::of(values).map_or(f64::NAN, |spread| spread.median);
        let native = median(&native);
        print!("  {:<10}{native:>10.3}", case.name);
        for (seconds, logarithms) in instrumented.iter().zip(&mut logarithms) {
            let ratio = median(seconds) / native;
            logarithms.push(ratio.ln());
            print!("{:>20}", format!("{:.3} ({ratio:.2})", median(seconds)));
        }
        println!();
    }
    print!("  {:<20}", "geometric mean");
    for logarithms in &logarithms {
        let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
        print!("{:>20}", format!("({:.2})", mean.exp()));
    }
    println!();
    Ok(())
}

fn processor_seconds(command: &mut Command) -> Result<f64> {
    Ok(measure::run(command.stdout(Stdio::null()))?.processor.as_secs_f64())
}

/// The programs; what they read is put into `scratch`.
fn cases(workspace: &Workspace, scratch: &Path) -> Result<Vec<Case>> {
    let text = scratch.join("text");
    std::fs::write(&text, prose(TEXT_BYTES)).context("cannot write the text to be compressed")?;
    let programs = workspace.root.join("benches/programs");
    // The driver would start the compiler proper as another process.
    let gcc = |arguments: &[&std::ffi::OsStr]| -> Result<String> {
        let output = Command::new("gcc").args(arguments).output().context("cannot start gcc")?;
        if !output.status.success() {
            bail!("gcc {arguments:?} failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let compiler = gcc(&["-print-prog-name=cc1".as_ref()])?;
    let compiled = scratch.join("compiled.i");
    gcc(&["-E".as_ref(), programs.join("compiled.c").as_ref(), "-o".as_ref(), compiled.as_ref()])?;
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let case = |name, program: &str, arguments: &[&str]| Case {
        name,
        program: program.to_owned(),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
    };
    Ok(vec![
        case("gzip", "gzip", &["-c", &path(&text)]),
        case("sqlite3", "sqlite3", &[":memory:", QUERY]),
        case("pystone", python::PYTHON, &[&path(&programs.join("pystone.py")), "400000"]),
        case("gcc -O2", &compiler, &["-quiet", "-O2", &path(&compiled), "-o", "/dev/null"]),
    ])
}

/// Lines of words and numbers, the same each time.
fn prose(bytes: usize) -> String {
    const SYLLABLES: [&str; 16] =
        ["ta", "ne", "ri", "so", "lu", "men", "dar", "is", "on", "que", "fi", "bra", "th", "wo", "ly", "x"];
    let mut state = 1u64;
    let mut next = move |below: usize| {
        // Knuth's MMIX generator.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut text = String::with_capacity(bytes + 64);
    while text.len() < bytes {
        match next(12) {
            0 => {
                // Writing to a string does not fail.
                let _ = write!(text, "{}", next(100_000));
            }
            _ => (0..=next(4)).for_each(|_| text.push_str(SYLLABLES[next(16).min(next(16))])),
        }
        text.push(if next(10) == 0 { '\n' } else { ' ' });
    }
    text
}
