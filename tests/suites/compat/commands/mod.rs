//! Programs of the system, a module for each kind.

mod archives;
mod compilers;
mod databases;
mod files;
mod history;
mod interpreters;
mod pictures;
mod servers;
mod text;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use derivgrind_tests::numbers::SplitMix64;
use derivgrind_tests::suite::Obstacle;
use derivgrind_tests::{compiler, process};

use crate::{Case, snapshot};

pub fn cases() -> Vec<Case> {
    [
        archives::cases(),
        compilers::cases(),
        databases::cases(),
        files::cases(),
        history::cases(),
        interpreters::cases(),
        pictures::cases(),
        servers::cases(),
        text::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Ten megabytes of lines with a word and two numbers.
fn large() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let mut generator = SplitMix64(10);
        let mut text = String::new();
        while text.len() < 10_000_000 {
            let bits = generator.bits();
            let _ = writeln!(text, "word{} {} {:.6}", bits % 5003, bits >> 44, generator.number() * 1000.0);
        }
        text
    })
}

/// The first lines of the large text.
fn small() -> &'static str {
    let text = large();
    let end = text
        .char_indices()
        .filter(|(_, character)| *character == '\n')
        .nth(999)
        .map_or(text.len(), |(position, _)| position + 1);
    &text[..end]
}

/// Writes the large text to `lines`.
fn large_file(directory: &Path) -> Result<(), Obstacle> {
    Ok(std::fs::write(directory.join("lines"), large())?)
}

/// Writes a thousand lines to `lines`.
fn small_file(directory: &Path) -> Result<(), Obstacle> {
    Ok(std::fs::write(directory.join("lines"), small())?)
}

/// Writes a small tree of files, directories and a link.
fn tree(directory: &Path) -> Result<(), Obstacle> {
    small_file(directory)?;
    for name in ["a", "a/b", "c"] {
        std::fs::create_dir(directory.join(name))?;
    }
    for (name, text) in [("a/one", "1\n"), ("a/b/two", "2\n2\n"), ("c/three.txt", "3\n"), ("c/.hidden", "")] {
        std::fs::write(directory.join(name), text)?;
    }
    Ok(std::os::unix::fs::symlink("a/b/two", directory.join("link"))?)
}

/// Puts a file of tests/programs/data into the directory.
fn data(name: &'static str) -> impl Fn(&Path) -> Result<(), Obstacle> + Send + Sync {
    move |directory| {
        std::fs::copy(compiler::programs().join("data").join(name), directory.join(name))?;
        Ok(())
    }
}

/// Runs a shell script natively in the directory.
fn shell(script: &'static str) -> impl Fn(&Path) -> Result<(), Obstacle> + Send + Sync {
    move |directory| {
        let mut command = process::command("/bin/sh", directory);
        command.args(["-e", "-c", script]).envs(history::AUTHOR.iter().copied());
        process::run(&mut command)?.successful(script)?;
        Ok(())
    }
}

/// [`small_file`], then [`shell`].
fn small_file_and(script: &'static str) -> impl Fn(&Path) -> Result<(), Obstacle> + Send + Sync {
    in_turn(small_file, shell(script))
}

/// [`large_file`], then [`shell`].
fn large_file_and(script: &'static str) -> impl Fn(&Path) -> Result<(), Obstacle> + Send + Sync {
    in_turn(large_file, shell(script))
}

/// One preparation after the other. Archives that the second one makes hold the times of the files that the first one has written.
fn in_turn<A, B>(first: A, second: B) -> impl Fn(&Path) -> Result<(), Obstacle> + Send + Sync
where
    A: Fn(&Path) -> Result<(), Obstacle> + Send + Sync,
    B: Fn(&Path) -> Result<(), Obstacle> + Send + Sync,
{
    move |directory| {
        first(directory)?;
        snapshot::set_times(directory)?;
        second(directory)
    }
}
