//! Runs what the documentation shows: every command of a `console` block in README.md and docs/*.md, and compares the output
//! shown there with what comes.
//!
//! - The blocks of a document run in order in one scratch directory; `cargo` commands run at the root of the checkout. Each
//!   command has to exit with status 0.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result};
use derivgrind_tests::document::{Step, matches, parse};
use derivgrind_tests::suite::{Outcome, Suite, fail};
use derivgrind_tests::{binaries, compiler, process, root};

/// `cargo run` may have to compile first.
const LIMIT: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let mut suite = Suite::new("docs");
    for path in documents() {
        let name = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        suite.case(name, move || check(&path));
    }
    suite.run()
}

/// README.md and the files of docs/.
fn documents() -> Vec<PathBuf> {
    let mut paths = vec![root().join("README.md")];
    let entries = std::fs::read_dir(root().join("docs")).into_iter().flatten().flatten();
    paths.extend(
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|extension| extension == "md")),
    );
    paths.sort();
    paths
}

fn check(path: &Path) -> Outcome {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let scratch = compiler::scratch("docs")?;
    for step in parse(&text) {
        match step {
            Step::File { name, content } => {
                std::fs::write(scratch.path().join(&name), content).with_context(|| format!("cannot write {name}"))?;
            }
            Step::Run { line, command, output } => {
                let place = format!("{}:{line}: `{command}`", path.display());
                let finished = execute(&command, scratch.path())?.successful(&place)?;
                let shown: Vec<&str> = output.iter().map(|line| line.trim_end()).collect();
                let came = finished.text();
                let came: Vec<&str> = came.lines().map(str::trim_end).collect();
                if !matches(&shown, &came) {
                    return fail(format!("{place}\nshown:\n{}\ncame:\n{}", shown.join("\n"), came.join("\n")));
                }
            }
        }
    }
    Ok(())
}

fn execute(command: &str, scratch: &Path) -> Result<process::Finished> {
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(binaries()).chain(std::env::split_paths(&old)))?;
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("exec 2>&1\n{command}")]).env("PATH", path);
    shell.current_dir(if command.starts_with("cargo ") { root() } else { scratch });
    process::run_with(&mut shell, &[], LIMIT)
}
