//! Gradients of formula programs: reverse sweep, forward sweep, forward mode and output, for each combination of language, compiler,
//! optimisation level and precision.

mod arithmetic;
mod bits;
mod bytes;
mod calls;
mod classes;
mod control;
mod fortran;
mod fortran_arrays;
mod functions;
mod library;
mod memory;
mod parallel;
mod table;
mod vectors;
mod wide;
mod words;

use std::process::ExitCode;
use std::sync::Arc;

use derivgrind_tests::formula::{Combination, Formula, Language, Real, check_table, compare};
use derivgrind_tests::full;
use derivgrind_tests::suite::Suite;

fn main() -> ExitCode {
    let mut suite = Suite::new("formulas");
    for (language, formulas) in
        [(Language::C, table::c()), (Language::Cpp, table::cpp()), (Language::Fortran, table::fortran())]
    {
        let formulas = Arc::new(formulas);
        let reference = Combination::new(language, language.compilers()[0], "-O0", Real::Double, &formulas);
        check_table(&mut suite, &reference, language.prefix());
        for combination in combinations(language, &formulas) {
            compare(&mut suite, &combination);
        }
    }
    suite.run()
}

/// Options for all that this processor has. What differs from processor to processor is not in the name of the case.
const NATIVE: &str = "-O3 -march=native";
/// Optimisation with AVX2 and FMA.
const HASWELL: &str = "-O3 -march=haswell";
/// Optimisation with AVX-512, whole registers of it.
const AVX512: &str = "-O3 -march=x86-64-v4 -mprefer-vector-width=512";

/// Optimisation levels and formats of each compiler: a cut through the cross product that has each value of each dimension, or all of it.
fn combinations(language: Language, formulas: &Arc<Vec<Formula>>) -> Vec<Arc<Combination>> {
    use Real::{Double, Extended, Float};
    const EACH: [Real; 3] = [Double, Float, Extended];
    let compilers = language.compilers();
    let mut all = Vec::new();
    let mut add = |compiler, level, reals: &[Real]| {
        all.extend(reals.iter().map(|&real| Combination::new(language, compiler, level, real, formulas)));
    };
    if full() {
        for compiler in compilers {
            for level in ["-O0", "-O1", "-O2", "-O3", "-Os", HASWELL, AVX512, NATIVE] {
                add(compiler, level, &EACH);
            }
        }
        return all;
    }
    add(compilers[0], "-O0", &[Double, Float]);
    add(compilers[0], "-O3", &EACH);
    add(compilers[0], HASWELL, &[Double, Float]);
    add(compilers[0], AVX512, &[Double, Float]);
    for compiler in &compilers[1..] {
        add(compiler, "-O3", &[Double]);
    }
    all
}
