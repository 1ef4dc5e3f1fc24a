//! The test suites of CPython and NumPy, natively and under the null tool: what passes natively has to pass there, and nothing more.
//!
//! In the short form these are modules that take a fraction of a second natively and do not depend on time; `--full` runs all.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use derivgrind_tests::suite::{Outcome, Suite, fail, skip};
use derivgrind_tests::{compiler, derivgrind, full, process};

const PYTHON: &str = "/usr/bin/python3";

/// The slowest module takes a minute natively.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Modules of CPython's `test` package for the short form.
const QUICK: &[&str] = &[
    "cmath",
    "float",
    "complex",
    "fractions",
    "struct",
    "list",
    "deque",
    "operator",
    "re",
    "copy",
    "ctypes",
    "generators",
    "contextlib",
    "mmap",
    "slice",
    "builtin",
    "descr",
    "posixpath",
    "pow",
    "strtod",
];

/// The other ones. Not in the list: those that need a network or a display, and `socket`, `asyncio` and `concurrent_futures`, whose results
/// differ from one native run to the next on a loaded machine.
const SLOW: &[&str] = &[
    "math",
    "int",
    "long",
    "decimal",
    "statistics",
    "random",
    "array",
    "bytes",
    "unicode",
    "tuple",
    "dict",
    "set",
    "collections",
    "heapq",
    "bisect",
    "itertools",
    "functools",
    "json",
    "csv",
    "pickle",
    "datetime",
    "time",
    "calendar",
    "textwrap",
    "string",
    "hmac",
    "base64",
    "binascii",
    "zlib",
    "gzip",
    "bz2",
    "lzma",
    "zipfile",
    "tarfile",
    "io",
    "os",
    "posix",
    "signal",
    "threading",
    "thread",
    "queue",
    "subprocess",
    "coroutines",
    "exceptions",
    "dataclasses",
    "enum",
    "typing",
    "ast",
    "compile",
    "dis",
    "gc",
    "weakref",
    "select",
    "selectors",
    "sched",
    "timeit",
    "traceback",
    "sort",
    "range",
    "bool",
    "types",
    "class",
    "super",
    "with",
    "fork1",
    "faulthandler",
    "pathlib",
    "glob",
    "tempfile",
    "shutil",
    "configparser",
    "argparse",
    "difflib",
    "fnmatch",
    "codecs",
    "uuid",
    "numeric_tower",
    "index",
    "format",
    "fstring",
    "print",
];

/// Files of NumPy's own tests: the first one for the short form.
const NUMPY: &[&str] = &[
    "fft/tests/test_pocketfft.py",
    "core/tests/test_umath.py",
    "core/tests/test_ufunc.py",
    "core/tests/test_numeric.py",
    "core/tests/test_umath_accuracy.py",
    "core/tests/test_umath_complex.py",
    "linalg/tests/test_linalg.py",
];

fn main() -> ExitCode {
    let mut suite = Suite::new("interpreters");
    for module in QUICK.iter().chain(if full() { SLOW } else { &[] }) {
        suite.case(format!("cpython/{module}"), move || {
            let name = format!("test.test_{module}");
            same_passes(&["-m", "unittest", "-v", &name], |line| line.ends_with(" ... ok"))
        });
    }
    for file in &NUMPY[..if full() { NUMPY.len() } else { 1 }] {
        suite.case(format!("numpy/{file}"), move || {
            let path = format!("/usr/lib/python3/dist-packages/numpy/{file}");
            same_passes(&["-m", "pytest", "-rp", "-p", "no:cacheprovider", "--color=no", &path], |line| {
                line.starts_with("PASSED ")
            })
        });
    }
    suite.run()
}

/// Runs Python natively and under the null tool and compares the lines of output that say that a test passed.
fn same_passes(arguments: &[&str], passed: fn(&str) -> bool) -> Outcome {
    if !Path::new(PYTHON).exists() {
        return skip(format!("{PYTHON} is not installed"));
    }
    let scratch = compiler::scratch("interpreters")?;
    let passes = |mut command: Command| -> anyhow::Result<BTreeSet<String>> {
        // Kernels of OpenBLAS for AVX-512, which the tool hides, round differently.
        command.args(arguments).env("LANG", "C.UTF-8").env("OPENBLAS_CORETYPE", "Haswell");
        let finished = process::run_with(&mut command, &[], LIMIT)?;
        let lines = finished.text() + &finished.errors();
        Ok(lines.lines().filter(|line| passed(line)).map(str::to_owned).collect())
    };
    let natively = passes(process::command(PYTHON, scratch.path()))?;
    if natively.is_empty() {
        return fail("no test passes natively");
    }
    let mut tool = process::command(derivgrind(), scratch.path());
    tool.args(["--quiet", "run", "--", PYTHON]);
    let under = passes(tool)?;
    let differences: Vec<&String> = natively.symmetric_difference(&under).take(5).collect();
    if differences.is_empty() {
        Ok(())
    } else {
        fail(format!(
            "{} tests pass natively, {} under derivgrind; differences: {differences:#?}",
            natively.len(),
            under.len()
        ))
    }
}
