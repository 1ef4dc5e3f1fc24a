//! Turns the table into a client program.

use std::fmt::Write as _;

use crate::table::Formula;

/// Everything before the formulas.
const PROLOGUE: &str = r#"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <derivgrind.h>

#ifdef SINGLE
typedef float REAL;
typedef uint32_t BITS;
#define M(name) name##f
#define SIGN ((BITS)1 << 31)
#else
typedef double REAL;
typedef uint64_t BITS;
#define M(name) name
#define SIGN ((BITS)1 << 63)
#endif
#define NOINLINE __attribute__((noinline))
"#;

/// Further headers of the C++ formulas.
const CPP_HEADERS: &str = "
#include <algorithm>
#include <array>
#include <complex>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>
";

/// Everything after them.
///
/// `PROGRAM` evaluates each formula where the table says; `PROGRAM NAME [INPUT...]` evaluates one, elsewhere if inputs are given.
const EPILOGUE: &str = r#"
int main(int argc, char **argv) {
    size_t k;
    for (k = 0; k < sizeof table / sizeof *table; k++) {
        REAL x[8], y;
        int i;
        if (argc > 1 && strcmp(argv[1], table[k].name) != 0) continue;
        for (i = 0; i < table[k].inputs; i++) {
            x[i] = (REAL)(argc > 2 + i ? strtod(argv[2 + i], 0) : table[k].x[i]);
            DG_INPUTF(x[i]);
        }
        y = table[k].function(x);
        DG_OUTPUTF(y);
        printf("%s %.17g\n", table[k].name, (double)y);
    }
    return 0;
}
"#;

/// Source text of the program that holds all `formulas`. The same text is C and C++.
pub fn source(formulas: &[Formula], cpp: bool) -> String {
    let mut text = String::from(PROLOGUE);
    if cpp {
        text.push_str(CPP_HEADERS);
    }
    for Formula { name, helpers, body, .. } in formulas {
        let _ = write!(text, "\n{helpers}\nstatic NOINLINE REAL f_{name}(REAL *x) {{\n    {body}\n}}\n");
    }
    text.push_str(
        "\nstatic const struct { const char *name; REAL (*function)(REAL *); int inputs; double x[8]; } table[] = {\n",
    );
    for Formula { name, inputs, .. } in formulas {
        let values: Vec<String> = inputs.iter().map(|value| format!("{value:?}")).collect();
        let _ = writeln!(text, "    {{\"{name}\", f_{name}, {}, {{{}}}}},", inputs.len(), values.join(", "));
    }
    text.push_str("};\n");
    text.push_str(EPILOGUE);
    text
}
