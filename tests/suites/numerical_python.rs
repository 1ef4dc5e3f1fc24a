//! Gradients through Python code, NumPy and SciPy: the cases of `tests/python/gradients.py`, recorded and in forward mode, against difference
//! quotients of native runs.
//!
//! The cases of a group run in one process, because most of its time is the start of the interpreter.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Result};
use derivgrind_tests::recording::tool;
use derivgrind_tests::suite::{Outcome, Suite, fail};
use derivgrind_tests::{binaries, compiler, process, root};

const PYTHON: &str = "/usr/bin/python3";
const GROUPS: &[&str] = &["python", "ufuncs", "arrays", "linalg", "scipy"];
const LIMIT: Duration = Duration::from_secs(300);

/// How derivatives come about: name, arguments of the tool, whether its result is a directory with a recording.
type Mode = (&'static str, &'static [&'static str], bool);

const MODES: &[Mode] = &[
    ("recording", &["record"], true),
    ("recording-without-avx512", &["record", "--no-avx512"], true),
    ("forward", &["forward"], false),
];

/// Verdicts of a group in a mode by case, or why there are none.
type Verdicts = Result<BTreeMap<String, String>, String>;

fn main() -> ExitCode {
    let mut suite = Suite::new("numerical-python");
    for &group in GROUPS {
        let names = match names(group) {
            Ok(names) => names,
            Err(error) => {
                suite.case(format!("{group}/names"), move || Err(error.into()));
                continue;
            }
        };
        for &(mode, arguments, recorded) in MODES {
            let verdicts = Arc::new(OnceLock::<Verdicts>::new());
            for name in &names {
                let (verdicts, name) = (Arc::clone(&verdicts), name.clone());
                suite.case(format!("{mode}/{group}/{name}"), move || {
                    let verdicts = verdicts.get_or_init(|| {
                        differentiate(group, arguments, recorded).map_err(|error| format!("{error:#}"))
                    });
                    judge(verdicts, &name)
                });
            }
        }
    }
    suite.run()
}

fn judge(verdicts: &Verdicts, name: &str) -> Outcome {
    match verdicts.as_ref().map(|verdicts| verdicts.get(name)) {
        Ok(Some(verdict)) if verdict.starts_with("ok") => Ok(()),
        Ok(Some(verdict)) => fail(format!("relative error: {verdict}")),
        Ok(None) => fail("no result"),
        Err(error) => fail(error),
    }
}

/// `gradients.py` under `command`, with our package.
fn script(mut command: Command) -> Command {
    command.arg(root().join("tests/python/gradients.py"));
    command.env("PYTHONPATH", binaries().join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    // Threads of the linear algebra have nothing to do for matrices of this size.
    command.env("OPENBLAS_NUM_THREADS", "1");
    command
}

fn natively(directory: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = script(process::command(Path::new(PYTHON), directory));
    Ok(process::run_with(command.args(arguments), &[], LIMIT)?.successful("gradients.py")?.text())
}

fn names(group: &str) -> Result<Vec<String>> {
    Ok(natively(root(), &["names", group])?.lines().map(str::to_owned).collect())
}

fn differentiate(group: &str, arguments: &[&str], recorded: bool) -> Result<BTreeMap<String, String>> {
    let scratch = compiler::scratch("numerical-python")?;
    let mut under_tool = tool(scratch.path());
    under_tool.args(["--quiet"]).args(arguments).args(recorded.then_some("tape")).args(["--", PYTHON]);
    let mut under_tool = script(under_tool);
    under_tool.args(["run", group]).args((!recorded).then_some("dots"));
    process::run_with(&mut under_tool, &[], LIMIT)?.successful("derivgrind")?;
    let kind = if recorded { "tape" } else { "dots" };
    let text = natively(scratch.path(), &["compare", group, kind, kind])?;
    let line = |line: &str| Some(line.split_once('\t')?).map(|(name, verdict)| (name.to_owned(), verdict.to_owned()));
    text.lines().map(|text| line(text).with_context(|| format!("not a verdict: {text}"))).collect()
}
