//! `--lockstep`: the comparison with a native run finds nothing, with and without recording.

mod common;

use std::path::Path;
use std::process::Command;

use common::{DERIVGRIND, run};

/// Calls, vector code, strings, an intercepted function, client requests.
const PROGRAM: &str = r#"
#include <derivgrind.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    double x[8], copy[8], sum = 0;
    for (int i = 0; i < 8; i++) x[i] = 0.25 * i;
    for (int i = 0; i < 8; i++) DG_INPUTF(x[i]);
    memcpy(copy, x, sizeof x);
    for (int i = 0; i < 8; i++) sum += copy[i] * copy[i] - sin(copy[i]);
    DG_OUTPUTF(sum);
    printf("%.6f\n", sum);
    return 0;
}
"#;

/// Whether a message is the line about a comparison without difference.
fn is_equality(line: &str) -> bool {
    line.starts_with("derivgrind: lock-step: ") && line.ends_with(" blocks, no difference")
}

#[test]
fn the_null_tool_disturbs_nothing() {
    let ended = run(DERIVGRIND, &["run", "--lockstep", "--", "/bin/echo", "--lockstep"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "--lockstep\n"), "{ended:?}");
    assert!(is_equality(ended.stderr.trim_end()), "{ended:?}");
    assert_eq!(run(DERIVGRIND, &["--quiet", "run", "--lockstep", "--", "/bin/true"]).succeeds(), "");
}

#[test]
fn recording_disturbs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("program.c"), PROGRAM).unwrap();
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../client/include");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O3", "-o", &path("program"), &path("program.c"), "-I"]).arg(headers).arg("-lm");
    assert!(compiler.status().unwrap().success());

    let ended = run(DERIVGRIND, &["record", &path("tape"), "--lockstep", "--", &path("program")]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.lines().any(is_equality), "{ended:?}");

    std::fs::write(path("tape/dg-output-bars"), "1\n").unwrap();
    run(DERIVGRIND, &["eval", &path("tape")]).succeeds();
    let bars = std::fs::read_to_string(path("tape/dg-input-bars")).unwrap();
    let bars: Vec<f64> = bars.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(bars.len(), 8);
    for (i, bar) in bars.into_iter().enumerate() {
        let x = 0.25 * i as f64;
        // The machine precision times the size of the terms.
        assert!((bar - (2.0 * x - x.cos())).abs() <= 4.0 * f64::EPSILON * (2.0 * x + 1.0), "{i}: {bar}");
    }
}
