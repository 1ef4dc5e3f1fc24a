//! Functions whose names say whose they are, in a library of any name: NumPy has a copy of Intel's short vector functions.
//!
//! The library here has functions of these names whose code shows nothing of a derivative.

use std::fmt::Write as _;

use derivgrind_tests::compiler;

use crate::Plan;
use crate::program::{self, Case};

/// Symbols, the functions that they stand for, their arguments and lanes.
const FUNCTIONS: [(&str, &str, usize, usize); 7] = [
    ("__svml_exp2", "exp", 1, 2),
    ("__svml_exp22_ha", "exp2", 1, 2),
    ("__svml_pow2", "pow", 2, 2),
    ("__svml_log1p2_ep", "log1p", 1, 2),
    ("__svml_sin4", "sin", 1, 4),
    ("__svml_log104_la", "log10", 1, 4),
    ("__svml_atan24", "atan2", 2, 4),
];

/// The program that calls them.
pub fn plans() -> Vec<Plan> {
    vec![Plan {
        name: "copies".to_owned(),
        narrow: false,
        cases: FUNCTIONS.iter().map(|(symbol, ..)| (*symbol).to_owned()).collect(),
        build: Box::new(|| {
            let scratch = compiler::scratch("functions")?;
            let (source, library) = (scratch.path().join("vendor.c"), scratch.path().join("vendor.so"));
            std::fs::write(&source, definitions())?;
            let options = ["-O1", "-w", "-mavx2", "-shared", "-fPIC", "-Wl,-soname,vendor.so", "-lm"];
            compiler::compile("gcc", &source, &library, &options)?;
            let directory = scratch.path().display();
            let options = ["-O1", "-mavx2", &library.display().to_string(), &format!("-Wl,-rpath,{directory}")];
            let built = program::build("gcc", "c", &program::source(TYPES, &cases()), &options, "")?;
            Ok(built.needing(scratch))
        }),
    }]
}

const TYPES: &str = "
typedef double V2 __attribute__((vector_size(16)));
typedef double V4 __attribute__((vector_size(32)));
";

fn prototype(symbol: &str, arguments: usize, lanes: usize) -> String {
    let arguments: Vec<String> = (0..arguments).map(|number| format!("V{lanes} a{number}")).collect();
    format!("V{lanes} {symbol}({})", arguments.join(", "))
}

/// The library: each value is printed and read.
fn definitions() -> String {
    let mut text = format!(
        "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n{TYPES}
         static double printed(double v) {{ char text[64]; snprintf(text, sizeof text, \"%a\", v); return strtod(text, 0); }}\n"
    );
    for (symbol, name, arguments, lanes) in FUNCTIONS {
        let elements: Vec<String> = (0..arguments).map(|number| format!("a{number}[i]")).collect();
        let _ = writeln!(
            text,
            "{} {{ V{lanes} r; int i; for (i = 0; i < {lanes}; i++) r[i] = printed({name}({})); return r; }}",
            prototype(symbol, arguments, lanes),
            elements.join(", ")
        );
    }
    text
}

/// A case of each function: first all lanes' first arguments, then the second ones.
fn cases() -> Vec<Case> {
    let case = |(symbol, _, arguments, lanes): (&str, &str, usize, usize)| {
        let vectors: Vec<String> = (0..arguments)
            .map(|number| format!("V{lanes} a{number}; memcpy(&a{number}, x + {}, sizeof a{number});", number * lanes))
            .collect();
        let names: Vec<String> = (0..arguments).map(|number| format!("a{number}")).collect();
        let call = format!("{symbol}({})", names.join(", "));
        Case {
            name: symbol.to_owned(),
            inputs: (0..lanes * arguments).map(|index| 0.25 + index as f64 / 32.0).collect(),
            outputs: lanes,
            declarations: format!("{};", prototype(symbol, arguments, lanes)),
            body: format!("{} a0 = {call}; memcpy(y, &a0, sizeof a0);", vectors.join(" ")),
        }
    };
    FUNCTIONS.into_iter().map(case).collect()
}
