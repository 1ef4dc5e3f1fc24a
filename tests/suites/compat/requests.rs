//! Outside the tool, a program with client requests behaves as if they were not there.

use derivgrind_tests::process::Finished;
use derivgrind_tests::suite::{Obstacle, Outcome, Suite, fail};
use derivgrind_tests::{compiler, process};

pub fn add(suite: &mut Suite) {
    for compiler in ["gcc", "clang", "g++", "clang++"] {
        for level in ["-O0", "-O3"] {
            suite.case(format!("requests-without-tool/{compiler}{level}"), move || inert(compiler, level));
        }
    }
}

fn inert(compiler: &str, level: &str) -> Outcome {
    let scratch = compiler::scratch("requests")?;
    let source = compiler::programs().join("requests.c");
    let run = |name: &str, option: &[&str]| -> Result<Finished, Obstacle> {
        let program = scratch.path().join(name);
        compiler::compile(compiler, &source, &program, &[&[level, "-w"], option].concat())?;
        Ok(process::run(&mut process::command(&program, scratch.path()))?.successful("native run")?)
    };
    let (with, without) = (run("with", &[])?, run("without", &["-DNO_REQUESTS"])?);
    if with != without {
        return fail(format!("with requests: {with}; without: {without}"));
    }
    Ok(())
}
