//! Runs what the documentation shows: every command of a `console` block in README.md and docs/*.md, and compares the output
//! shown there with what comes.
//!
//! - A block after the comment `<!-- file: NAME -->` is written to that file first.
//! - In a `console` block, `$ ` starts a command (a backslash at its end continues it); the lines below are its output,
//!   standard error included. `...` stands for anything within a line, alone on a line for any number of lines.
//! - The blocks of a document run in order in one scratch directory; `cargo` commands run at the root of the checkout. Each
//!   command has to exit with status 0.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result};
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

/// Something that a document asks for.
#[derive(Debug, PartialEq)]
enum Step {
    /// Write a file.
    File { name: String, content: String },
    /// Run a command and expect this output.
    Run { line: usize, command: String, output: Vec<String> },
}

/// The steps of a document, in order.
fn parse(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut file = None;
    let mut lines = text.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        if let Some(name) = line.trim().strip_prefix("<!-- file:").and_then(|rest| rest.strip_suffix("-->")) {
            file = Some(name.trim().to_owned());
        } else if let Some(language) = line.strip_prefix("```") {
            let block: Vec<(usize, &str)> = lines.by_ref().take_while(|(_, line)| !line.starts_with("```")).collect();
            if let Some(name) = file.take() {
                let content = block.iter().map(|(_, line)| format!("{line}\n")).collect();
                steps.push(Step::File { name, content });
            } else if language == "console" {
                steps.extend(commands(&block));
            }
        }
    }
    steps
}

/// The commands of a `console` block.
fn commands(block: &[(usize, &str)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut continued = false;
    for &(number, line) in block {
        if let (true, Some(Step::Run { command, .. })) = (continued, steps.last_mut()) {
            command.push('\n');
            command.push_str(line);
            continued = line.ends_with('\\');
        } else if let Some(command) = line.strip_prefix("$ ") {
            continued = line.ends_with('\\');
            steps.push(Step::Run { line: number + 1, command: command.to_owned(), output: Vec::new() });
        } else if let Some(Step::Run { output, .. }) = steps.last_mut() {
            output.push(line.to_owned());
        }
    }
    steps
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

/// Whether `lines` are as `pattern` shows them.
fn matches(pattern: &[&str], lines: &[&str]) -> bool {
    match pattern.split_first() {
        None => lines.is_empty(),
        Some((&"...", rest)) => (0..=lines.len()).any(|skipped| matches(rest, &lines[skipped..])),
        Some((first, rest)) => {
            lines.split_first().is_some_and(|(line, others)| line_matches(first, line) && matches(rest, others))
        }
    }
}

/// Whether a line is as shown, with `...` for any text.
fn line_matches(pattern: &str, line: &str) -> bool {
    let Some((head, tail)) = pattern.split_once("...") else {
        return pattern == line;
    };
    let Some(rest) = line.strip_prefix(head) else {
        return false;
    };
    (0..=rest.len())
        .filter(|&skipped| rest.is_char_boundary(skipped))
        .any(|skipped| line_matches(tail, &rest[skipped..]))
}
