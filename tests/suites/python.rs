//! The Python package: scripts of tests/python, scripts under the tool, the listings of the paper, the wheel.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result};
use derivgrind_tests::process::Finished;
use derivgrind_tests::recording::tool;
use derivgrind_tests::suite::{Obstacle, Outcome, Suite, fail, skip};
use derivgrind_tests::{binaries, compiler, process, root};
use tempfile::TempDir;

/// TensorFlow alone takes ten seconds to import on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);
/// Building the wheel compiles everything once more.
const WHEEL_LIMIT: Duration = Duration::from_secs(1800);

const DEBIAN_PYTHON: &str = "/usr/bin/python3";

/// Scripts that print `passed`, with the module that they need beyond NumPy.
const SCRIPTS: &[(&str, Option<&str>)] = &[
    ("test_library", None),
    ("test_bad_calls", None),
    ("test_requests", None),
    ("test_speed", None),
    ("test_torch", Some("torch")),
    ("test_tensorflow", Some("tensorflow")),
    ("test_jax", Some("jax")),
];

/// The listing of the paper, as printed.
const LISTING_C: &str = "\
void myfun(int param_size, char* param_buf, 
           int input_count, double* input_buf, 
           int output_count, double* output_buf) {
  output_buf[0] = 3.14*input_buf[0]+5.0+input_buf[1]*input_buf[2];
}
";
const LISTING_TORCH: &str = "\
import torch
import derivgrind_torch as dg_torch
x = torch.tensor([4.0,-2.0,6.5],dtype=torch.float64, \\
                 requires_grad=True)
y = dg_torch.derivgrind(\"mylib.so\",\"myfun\").apply(b\"\",x,1)
y.backward()
print(*x.grad.numpy()) # -> 3.14 6.5 -2.0
";
const LISTING_TENSORFLOW: &str = "\
import tensorflow as tf
import derivgrind_tensorflow as dg_tf
x = tf.Variable([4.0,-2.0,6.5],dtype=tf.float64)
with tf.GradientTape() as tape:
  y = dg_tf.derivgrind(\"mylib.so\",\"myfun\").apply(b\"\",x,1)
dy_dx = tape.gradient(y,x)
print(*dy_dx.numpy()) # -> 3.14 6.5 -2.0
";

/// Directory in `examples`, source of the library, its compiler, the library, the script, and what the last line begins with.
type Example = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

const EXAMPLES: &[Example] = &[
    ("ode-fit", "predators.f90", "gfortran", "libpredators.so", "fit.py", "drawn: fit.png"),
    ("closed-layer", "sensors.c", "gcc", "libsensors.so", "train.py", "trained"),
];

fn main() -> ExitCode {
    let mut suite = Suite::new("python");
    for &(name, module) in SCRIPTS {
        suite.case(name, move || script(name, module));
    }
    suite.case("listing/torch", || listing("torch", LISTING_TORCH));
    suite.case("listing/tensorflow", || listing("tensorflow", LISTING_TENSORFLOW));
    for &(directory, source, compiler, library, script, last) in EXAMPLES {
        suite.case(format!("example/{directory}"), move || example(directory, source, compiler, library, script, last));
    }
    suite.case("script/grad-and-tape", script_under_grad);
    suite.case("script/forward", script_in_forward_mode);
    suite.case("library-caller", library_caller);
    suite.case("wheel", wheel);
    suite.run()
}

/// A directory with the library of the tests.
fn scratch() -> Result<TempDir, Obstacle> {
    let scratch = compiler::scratch("python")?;
    let source = root().join("tests/python/functions.c");
    compiler::compile("gcc", &source, &scratch.path().join("libfunctions.so"), &["-O2", "-shared", "-fPIC", "-lm"])?;
    Ok(scratch)
}

/// The environment with the frameworks, if it is there.
fn environment() -> PathBuf {
    binaries().join("../python-environment")
}

/// An interpreter that has a module.
fn interpreter(module: Option<&str>) -> Result<PathBuf, Obstacle> {
    let Some(module) = module else { return Ok(DEBIAN_PYTHON.into()) };
    let python = environment().join("bin/python");
    if !python.is_file() {
        let reason = std::fs::read_to_string(environment().join("failure")).unwrap_or_default();
        let reason = reason.lines().next_back().unwrap_or("`cargo xtask test` installs it").to_owned();
        return skip(format!("{module} is not installed: {reason}"));
    }
    let found = process::run(
        Command::new(&python)
            .args(["-c", &format!("import importlib.util as u; exit(u.find_spec('{module}') is None)")]),
    )?;
    if found.status.success() { Ok(python) } else { skip(format!("{module} is not installed")) }
}

/// A Python command in the scratch directory that finds our modules.
fn python(interpreter: &Path, directory: &Path) -> Command {
    let mut command = process::command(interpreter, directory);
    let paths = [binaries().join("python"), root().join("tests/python")].map(|path| path.display().to_string());
    command.env("PYTHONPATH", paths.join(":")).env("TF_CPP_MIN_LOG_LEVEL", "3").env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn passed(finished: Finished) -> Outcome {
    match finished.status.success() && finished.text().ends_with("passed\n") {
        true => Ok(()),
        false => fail(finished.to_string() + &finished.errors()),
    }
}

fn script(name: &str, module: Option<&str>) -> Outcome {
    let interpreter = interpreter(module)?;
    let scratch = scratch()?;
    let mut command = python(&interpreter, scratch.path());
    command.arg(root().join(format!("tests/python/{name}.py")));
    passed(process::run_with(&mut command, &[], LIMIT)?)
}

fn listing(module: &str, text: &str) -> Outcome {
    let interpreter = interpreter(Some(module))?;
    let scratch = compiler::scratch("python")?;
    let path = |name: &str| scratch.path().join(name);
    std::fs::write(path("thisfile.c"), LISTING_C)?;
    std::fs::write(path("script.py"), text)?;
    compiler::compile("gcc", &path("thisfile.c"), &path("mylib.so"), &["-shared", "-fPIC", "-O3"])?;
    let finished = process::run_with(python(&interpreter, scratch.path()).arg("script.py"), &[], LIMIT)?;
    match finished.status.success() && finished.text() == "3.14 6.5 -2.0\n" {
        true => Ok(()),
        false => fail(finished.to_string()),
    }
}

/// The examples check their results themselves.
fn example(directory: &str, source: &str, compiler: &str, library: &str, script: &str, last: &str) -> Outcome {
    let interpreter = interpreter(Some("torch"))?;
    let scratch = compiler::scratch("python")?;
    let directory = root().join("examples").join(directory);
    let options = ["-O2", "-shared", "-fPIC", "-s", "-lm"];
    compiler::compile(compiler, &directory.join(source), &scratch.path().join(library), &options)?;
    let mut command = python(&interpreter, scratch.path());
    command.arg(directory.join(script)).arg("--short");
    let finished = process::run_with(&mut command, &[], LIMIT)?.successful(script)?;
    match finished.text().lines().next_back().is_some_and(|line| line.starts_with(last)) {
        true => Ok(()),
        false => fail(finished.to_string()),
    }
}

/// A command of the tool on a script of tests/python.
fn tool_on_script(scratch: &Path, arguments: &[&str], script: &str) -> Result<Finished> {
    let mut command = tool(scratch);
    command.args(arguments).args(["--", DEBIAN_PYTHON]).arg(root().join(format!("tests/python/{script}.py")));
    command.env("PYTHONPATH", binaries().join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    // NumPy's threads have nothing to do here.
    command.env("OPENBLAS_NUM_THREADS", "1");
    process::run_with(&mut command, &[], LIMIT)
}

fn script_under_grad() -> Outcome {
    let scratch = scratch()?;
    let finished = tool_on_script(scratch.path(), &["grad"], "script_gradient")?.successful("derivgrind grad")?;
    let text = finished.text();
    if !text.starts_with("recording\n") || !text.contains("d(output 6)") {
        return fail(format!("{finished}"));
    }
    let recorded = tool_on_script(scratch.path(), &["--quiet", "record", "tape"], "script_gradient")?;
    recorded.successful("derivgrind record")?;
    let mut command = python(Path::new(DEBIAN_PYTHON), scratch.path());
    command.arg(root().join("tests/python/test_tape.py")).arg("tape");
    passed(process::run_with(&mut command, &[], LIMIT)?)
}

fn script_in_forward_mode() -> Outcome {
    let scratch = scratch()?;
    let finished = tool_on_script(scratch.path(), &["--quiet", "forward"], "script_forward")?;
    let finished = finished.successful("derivgrind forward")?;
    match finished.text().as_str() {
        "3.0 [[20.0, 80.0]] 12.0 0.0\n" => Ok(()),
        other => fail(format!("{other:?}")),
    }
}

/// The command of the paper's tool, natively and recorded.
fn library_caller() -> Outcome {
    let scratch = scratch()?;
    let path = |name: &str| scratch.path().join(name);
    let bytes = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let x = [0.5, -1.0, 2.0];
    std::fs::write(path("dg-libcaller-params"), [2])?;
    std::fs::write(path("dg-libcaller-inputs"), bytes(&x))?;
    let caller = binaries().join("derivgrind-library-caller");
    let arguments = ["libfunctions.so", "layer", "double", "1", "3", "2", "."];
    let expected = [(-2.0 * x[0]).exp() * x[1], (-2.0 * x[1]).exp() * x[2]];
    process::run(process::command(&caller, scratch.path()).args(arguments))?.successful("native call")?;
    if std::fs::read(path("dg-libcaller-outputs"))? != bytes(&expected) {
        return fail("wrong outputs natively");
    }
    let mut command = tool(scratch.path());
    command.args(["--record=tape"]).arg(&caller).args(arguments);
    process::run(&mut command)?.successful("recorded call")?;
    if std::fs::read(path("dg-libcaller-outputs"))? != bytes(&expected) {
        return fail("wrong outputs under the tool");
    }
    std::fs::write(path("tape/dg-output-bars"), "1\n10\n")?;
    process::run(tool(scratch.path()).args(["eval", "tape"]))?.successful("derivgrind eval")?;
    let gradient = derivgrind_tests::recording::numbers(&path("tape/dg-input-bars"))?;
    let e = [(-2.0 * x[0]).exp(), (-2.0 * x[1]).exp()];
    let expected = [-2.0 * e[0] * x[1], e[0] - 20.0 * e[1] * x[2], 10.0 * e[1]];
    if gradient.iter().zip(expected).any(|(came, expected)| (came - expected).abs() > 1e-13 * expected.abs()) {
        return fail(format!("{gradient:?} instead of {expected:?}"));
    }
    let wrong = process::run(process::command(&caller, scratch.path()).args([
        "libfunctions.so",
        "layer",
        "half",
        "1",
        "3",
        "2",
        ".",
    ]))?;
    match !wrong.status.success() && wrong.errors().contains("double or float") {
        true => Ok(()),
        false => fail(format!("{wrong}")),
    }
}

/// `pip install .` into a new environment, whose commands and modules work by themselves.
fn wheel() -> Outcome {
    let scratch = scratch()?;
    let environment = scratch.path().join("environment");
    process::run(
        process::command(DEBIAN_PYTHON, scratch.path())
            .args(["-m", "venv", "--system-site-packages"])
            .arg(&environment),
    )?
    .successful("venv")?;
    let mut install = Command::new(environment.join("bin/pip"));
    install.args(["install", "--quiet", "."]).current_dir(root().join("python"));
    process::run_with(&mut install, &[], WHEEL_LIMIT)?.successful("pip install .")?;
    let script = root().join("tests/python/test_library.py");
    let mut command = process::command(environment.join("bin/python"), scratch.path());
    command.arg(script).env("PYTHONPATH", root().join("tests/python"));
    passed(process::run_with(&mut command, &[], LIMIT)?)?;
    for (option, file) in [("--incdir", "derivgrind.h"), ("--pythondir", "derivgrind_torch/__init__.py")] {
        let mut command = process::command(environment.join("bin/derivgrind"), scratch.path());
        let config = process::run(command.args(["config", option]))?.successful("derivgrind config")?;
        let path = Path::new(config.text().trim()).join(file);
        path.is_file().then_some(()).with_context(|| format!("no {}", path.display()))?;
    }
    Ok(())
}
