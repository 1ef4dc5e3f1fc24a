//! Numbers that are copied byte by byte, overwritten, or changed by constants in place of their sign and exponent, in forward mode.

use std::process::ExitCode;

use derivgrind_tests::recording::tool;
use derivgrind_tests::suite::{Outcome, Suite, fail};
use derivgrind_tests::{compiler, process};

fn main() -> ExitCode {
    let mut suite = Suite::new("bytes");
    for compiler in ["gcc", "clang"] {
        for level in ["-O0", "-O1", "-O3"] {
            for directions in [1, 3] {
                suite.case(format!("{compiler}{level}/{directions}"), move || bytes(compiler, level, directions));
            }
        }
    }
    suite.run()
}

/// The program compares dot values itself. What is overwritten is no loss.
fn bytes(compiler: &str, level: &str, directions: u32) -> Outcome {
    let scratch = compiler::scratch("bytes")?;
    let program = scratch.path().join("bytes");
    compiler::need(compiler)?;
    compiler::compile(compiler, &compiler::programs().join("bytes.c"), &program, &[level])?;
    let directions = format!("--directions={directions}");
    let mut command = tool(scratch.path());
    let finished =
        process::run(command.args(["forward", &directions, "--"]).arg(&program))?.successful("forward mode")?;
    if finished.text() != "0 wrong\n" || !finished.errors().is_empty() {
        return fail(format!("{finished}"));
    }
    Ok(())
}
