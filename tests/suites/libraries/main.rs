//! Gradients through numerical libraries of the system: linear algebra, Fourier transforms, quadrature, differential equations,
//! minimisation; and data that goes through compressors.
//!
//! The libraries are used as the distribution compiled them. Each is a table of formulas, checked as those of the suite `formulas` are: reverse and forward
//! sweep, forward mode, output as natively, the table's gradients against difference quotients.

mod compressors;
mod eigen;
mod fftw;
mod gsl;
mod linear_algebra;
mod musl;
mod optimisation;
mod reference;
mod sundials;

use std::process::ExitCode;

use derivgrind_tests::formula::{Combination, Formula, Language, check_table, compare};
use derivgrind_tests::suite::Suite;

/// A library with its options for the compiler.
struct Library {
    title: &'static str,
    language: Language,
    options: &'static [&'static str],
    formulas: fn() -> Vec<Formula>,
}

const LIBRARIES: &[Library] = &[
    Library {
        title: "openblas",
        language: Language::C,
        options: &[
            "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so",
            "-Wl,-rpath,/usr/lib/x86_64-linux-gnu/openblas-pthread",
        ],
        formulas: linear_algebra::formulas,
    },
    Library {
        title: "reference-lapack",
        language: Language::C,
        options: &[
            "/usr/lib/x86_64-linux-gnu/lapack/liblapack.so.3",
            "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3",
            "-Wl,--disable-new-dtags,-rpath,/usr/lib/x86_64-linux-gnu/lapack:/usr/lib/x86_64-linux-gnu/blas",
        ],
        formulas: linear_algebra::formulas,
    },
    Library { title: "fftw", language: Language::C, options: &["-lfftw3"], formulas: fftw::formulas },
    Library { title: "gsl", language: Language::C, options: &["-lgsl", "-lgslcblas"], formulas: gsl::formulas },
    Library { title: "eigen", language: Language::Cpp, options: &["-I/usr/include/eigen3"], formulas: eigen::formulas },
    Library { title: "nlopt", language: Language::C, options: &["-lnlopt"], formulas: optimisation::formulas },
    Library {
        title: "sundials",
        language: Language::C,
        options: &[
            "-lsundials_cvode",
            "-lsundials_nvecserial",
            "-lsundials_sunlinsoldense",
            "-lsundials_sunmatrixdense",
        ],
        formulas: sundials::formulas,
    },
    Library {
        title: "musl",
        language: Language::C,
        options: &["-specs=/usr/lib/x86_64-linux-musl/musl-gcc.specs", "-static", "-s", "-fno-builtin"],
        formulas: musl::formulas,
    },
    Library {
        title: "compressors",
        language: Language::C,
        options: &["-lz", "-llz4", "-lzstd", "-llzma", "-lbz2", "-lbrotlienc", "-lbrotlidec", "-lsnappy", "-llzo2"],
        formulas: compressors::formulas,
    },
    Library {
        title: "static-compressors",
        language: Language::C,
        options: &[
            "-Wl,-Bstatic",
            "-llz4",
            "-lzstd",
            "-llzma",
            "-lbz2",
            "-lbrotlienc",
            "-lbrotlidec",
            "-lbrotlicommon",
            "-Wl,-Bdynamic",
        ],
        formulas: compressors::unmistakable,
    },
];

fn main() -> ExitCode {
    let mut suite = Suite::new("libraries");
    for Library { title, language, options, formulas } in LIBRARIES {
        let combination = Combination::of_library(*language, title, options, formulas());
        compare(&mut suite, &combination);
        check_table(&mut suite, &combination, &format!("{title}/"));
    }
    suite.run()
}
