//! `cargo xtask bench calls`: latency of calls of a library function from Python, with and without gradient.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{Workspace, build, python};

/// Builds what is measured and prints the table that `benches/calls.py` makes.
pub fn run(workspace: &Workspace) -> Result<()> {
    build(workspace)?;
    let scratch = tempfile::tempdir().context("cannot make a temporary directory")?;
    let library = scratch.path().join("libcalls.so");
    let mut compiler = Command::new("gcc");
    compiler
        .args(["-O2", "-shared", "-fPIC"])
        .arg(workspace.root.join("benches/programs/calls.c"))
        .arg("-o")
        .arg(&library);
    let mut script = Command::new(python::PYTHON);
    script.arg(workspace.root.join("benches/calls.py")).arg(&library).env("PYTHONPATH", workspace.binary("python"));
    for command in [&mut compiler, &mut script] {
        let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
        if !status.success() {
            bail!("{command:?}: {status}");
        }
    }
    Ok(())
}
