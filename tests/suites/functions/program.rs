//! Client programs: a main program around cases, each of which is a function from an array of inputs to an array of outputs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use derivgrind_tests::compiler;
use derivgrind_tests::suite::Obstacle;

/// A case of a program.
pub struct Case {
    /// Its name, which is an identifier.
    pub name: String,
    /// Where derivatives are taken.
    pub inputs: Vec<f64>,
    /// Number of outputs.
    pub outputs: usize,
    /// Definitions outside the function.
    pub declarations: String,
    /// Statements that compute `y[0]` to `y[outputs - 1]` from `x[0]`, ...
    pub body: String,
}

/// A built program.
pub struct Built {
    /// Directory of everything.
    pub scratch: tempfile::TempDir,
    /// The program under test.
    pub program: PathBuf,
    /// Its binary64 variant, which prints difference quotients.
    pub reference: PathBuf,
    /// Directories of what it needs besides.
    others: Vec<tempfile::TempDir>,
}

impl Built {
    /// The same with difference quotients from another program.
    pub fn with_reference(self, other: Built) -> Built {
        Built { reference: other.program, ..self.needing(other.scratch) }
    }

    /// The same, with a directory that stays as long as it does.
    pub fn needing(mut self, other: tempfile::TempDir) -> Built {
        self.others.push(other);
        self
    }
}

/// Everything before the cases. `T` is the real type, `CT` the complex one.
pub const PROLOGUE: &str = r#"
#include <errno.h>
#include <fenv.h>
#include <stdio.h>
#include <string.h>
#include <derivgrind.h>

#if defined(SINGLE)
typedef float T;
typedef float _Complex CT;
#define M(name) name##f
#elif defined(EXTENDED)
typedef long double T;
typedef long double _Complex CT;
#define M(name) name##l
#else
typedef double T;
typedef double _Complex CT;
#define M(name) name
#endif
"#;

/// Everything after them.
const EPILOGUE: &str = r#"
static void show(T *x, T *y, int k) {
    int i, flags;
    feclearexcept(FE_ALL_EXCEPT);
    errno = 0;
    table[k].function(x, y);
    flags = fetestexcept(FE_ALL_EXCEPT);
    for (i = 0; i < table[k].outputs; i++) printf(" %.21Lg", (long double)y[i]);
    printf(" %d %d %d", errno, flags, fegetround());
}

/* (f(x - 2h) - 8 f(x - h) + 8 f(x + h) - f(x + 2h)) / 12h */
static void quotients(int k) {
    int i, j, m;
    printf("%s %d %d", table[k].name, table[k].inputs, table[k].outputs);
    for (j = 0; j < table[k].outputs; j++)
        for (i = 0; i < table[k].inputs; i++) {
            const double step = 1.0 / 1024, weights[5] = {1, -8, 0, 8, -1};
            double sum = 0;
            for (m = 0; m < 5; m++) {
                T x[32], y[32];
                memcpy(x, table[k].x, sizeof x);
                x[i] += (T)((m - 2) * step);
                table[k].function(x, y);
                if (m != 2) sum += weights[m] * (double)y[j];
            }
            printf(" %.17g", sum / (12 * step));
        }
    printf("\n");
}

int main(int argc, char **argv) {
    int k, i;
    if (argc > 1 && strcmp(argv[1], "upward") == 0) fesetround(FE_UPWARD);
    for (k = 0; k < (int)(sizeof table / sizeof *table); k++) {
        T x[32], y[32];
        if (argc > 1 && strcmp(argv[1], "quotients") == 0) {
            quotients(k);
            continue;
        }
        memset(y, 0, sizeof y);
        memcpy(x, table[k].x, sizeof x);
        printf("%s", table[k].name);
        show(x, y, k);
        for (i = 0; i < table[k].inputs; i++) DG_INPUTF(x[i]);
        show(x, y, k);
        for (i = 0; i < table[k].outputs; i++) DG_OUTPUTF(y[i]);
        printf("\n");
    }
    return 0;
}
"#;

/// The main program's source text. Cases without a body are defined elsewhere.
pub fn source(prologue: &str, cases: &[Case]) -> String {
    let mut text = format!("{PROLOGUE}{prologue}");
    for Case { name, declarations, body, .. } in cases {
        let _ = if body.is_empty() {
            writeln!(text, "{declarations}\nvoid f_{name}(const T *x, T *y);")
        } else {
            writeln!(text, "{declarations}\nstatic void f_{name}(const T *x, T *y) {{ {body} }}")
        };
    }
    text.push_str("static const struct { const char *name; void (*function)(const T *, T *); int inputs, outputs; T x[32]; } table[] = {\n");
    for Case { name, inputs, outputs, .. } in cases {
        let values: Vec<String> = inputs.iter().map(|value| format!("{value:?}")).collect();
        let _ = writeln!(text, "    {{\"{name}\", f_{name}, {}, {outputs}, {{{}}}}},", inputs.len(), values.join(", "));
    }
    text.push_str("};\n");
    text.push_str(EPILOGUE);
    text
}

/// Compiles a source text, once as it is to be and once for difference quotients.
///
/// # Errors
/// A reason to skip if the compiler is missing, a failure if it does not compile.
pub fn build(compiler: &str, suffix: &str, text: &str, options: &[&str], format: &str) -> Result<Built, Obstacle> {
    let scratch = compiler::scratch("functions")?;
    let at = |name: &str| scratch.path().join(name);
    let source = at("program").with_extension(suffix);
    std::fs::write(&source, text)?;
    let compile = |output: &Path, format: &[&str]| {
        let options = [&["-fno-builtin", "-frounding-math", "-w"], format, options, &["-lm"]].concat();
        compiler::compile(compiler, &source, output, &options)
    };
    let program = at("program");
    compile(&program, if format.is_empty() { &[] } else { std::slice::from_ref(&format) })?;
    let reference = if format.is_empty() {
        program.clone()
    } else {
        compile(&at("reference"), &[])?;
        at("reference")
    };
    Ok(Built { scratch, program, reference, others: Vec::new() })
}

/// Compiles a C main program and Fortran subroutines.
///
/// # Errors
/// As [`build`].
pub fn build_with_fortran(main: &str, subroutines: &str, format: &str) -> Result<Built, Obstacle> {
    let scratch = compiler::scratch("functions")?;
    let at = |name: &str| scratch.path().join(name);
    std::fs::write(at("main.c"), main)?;
    std::fs::write(at("subroutines.F90"), subroutines)?;
    let compile = |output: &Path, format: &[&str]| {
        let object = output.with_extension("o");
        compiler::compile("gcc", &at("main.c"), &object, &[&["-c", "-w", "-frounding-math"], format].concat())?;
        let object = object.display().to_string();
        let options = [&["-O1", "-w", "-fdec-math", object.as_str()], format].concat();
        compiler::compile("gfortran", &at("subroutines.F90"), output, &options)
    };
    let program = at("program");
    compile(&program, if format.is_empty() { &[] } else { std::slice::from_ref(&format) })?;
    compile(&at("reference"), &[])?;
    Ok(Built { reference: at("reference"), scratch, program, others: Vec::new() })
}
