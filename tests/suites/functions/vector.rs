//! Variants of the functions for vectors, in glibc's `libmvec`: each called by name, and as compilers call them from loops.

use std::sync::Arc;

use derivgrind_ad::math::{self, Names, Place};
use derivgrind_tests::suite::skip;

use crate::program::{self, Case};
use crate::{Plan, scalar};

/// A kind of variant: its letter, bytes of a register of real numbers and of one of integers.
type Set = (&'static str, usize, usize);

/// Those for SSE, AVX and AVX2.
const SETS: &[Set] = &[("b", 16, 16), ("c", 32, 16), ("d", 32, 32)];
/// That for AVX-512.
const AVX512: &[Set] = &[("e", 64, 64)];

/// Functions that compilers call from loops, as C expressions of a and b.
const LOOPS: [(&str, &str); 12] = [
    ("loop_sin", "M(sin)(a)"),
    ("loop_cos", "M(cos)(b)"),
    ("loop_exp", "M(exp)(a * b)"),
    ("loop_log", "M(log)(a)"),
    ("loop_pow", "M(pow)(a, b)"),
    ("loop_tan", "M(tan)(a)"),
    ("loop_atan2", "M(atan2)(a, b)"),
    ("loop_sinh", "M(sinh)(a)"),
    ("loop_erf", "M(erf)(a)"),
    ("loop_log1p", "M(log1p)(a)"),
    ("loop_cbrt", "M(cbrt)(a)"),
    ("loop_sigmoid", "1 / (1 + M(exp)(-a)) + M(sin)(b) * M(cos)(b)"),
];

/// Programs of all variants that the installed library has, and of loops.
pub fn plans() -> Vec<Plan> {
    let mut plans = Vec::new();
    for (format, bytes, option) in [("double", 8, ""), ("float", 4, "-DSINGLE")] {
        for (linking, sets, options) in [
            ("dynamic", SETS, &["-O1", "-mavx2"][..]),
            ("static", SETS, &["-O1", "-mavx2", "-static"][..]),
            ("avx512", AVX512, &["-O1", "-mavx512f"][..]),
        ] {
            let cases = Arc::new(variants(sets, bytes));
            let own = Arc::clone(&cases);
            plans.push(Plan {
                name: format!("vector-{format}-{linking}"),
                narrow: format == "float",
                cases: cases.iter().map(|case| case.name.clone()).collect(),
                build: Box::new(move || {
                    if sets == AVX512 && !is_x86_feature_detected!("avx512f") {
                        return skip("the processor has no AVX-512");
                    }
                    let text = program::source("", &own);
                    let mut built = program::build("gcc", "c", &text, &[options, &["-lmvec"]].concat(), option)?;
                    // The binary32 functions' names and numbers of lanes have no counterpart in binary64: their own quotients would be inaccurate.
                    if !option.is_empty() {
                        let reference = scalar_reference(sets, &own);
                        built = built.with_reference(program::build("gcc", "c", &reference, &["-O1"], "")?);
                    }
                    Ok(built)
                }),
            });
        }
        for (set, flag) in [("sse", "-msse2"), ("avx", "-mavx"), ("avx2", "-mavx2")] {
            for (linking, link) in [("dynamic", ""), ("static", "-static")] {
                plans.push(Plan {
                    name: format!("loop-{format}-{set}-{linking}"),
                    narrow: format == "float",
                    cases: LOOPS.iter().map(|(name, _)| (*name).to_owned()).collect(),
                    build: Box::new(move || {
                        let text = program::source("#include <math.h>\n", &loops());
                        let options = ["-O3", "-ffast-math", "-fbuiltin", "-fopenmp-simd", flag, link];
                        let options: Vec<&str> = options.into_iter().filter(|option| !option.is_empty()).collect();
                        program::build("gcc", "c", &text, &options, option)
                    }),
                });
            }
        }
    }
    plans
}

fn loops() -> Vec<Case> {
    let case = |&(name, expression): &(&str, &str)| Case {
        name: name.to_owned(),
        inputs: (0..16).map(|index| 0.25 + f64::from(index) / 16.0).collect(),
        outputs: 8,
        declarations: String::new(),
        body: format!(
            "int i;\n#pragma omp simd\nfor (i = 0; i < 8; i++) {{ T a = x[i], b = x[i + 8]; y[i] = {expression}; }}"
        ),
    };
    LOOPS.iter().map(case).collect()
}

/// A variant: its symbol's parts.
struct Variant {
    set: Set,
    lanes: usize,
    reals: usize,
    pointers: usize,
    base: String,
}

impl Variant {
    fn symbol(&self) -> String {
        format!("_ZGV{}N{}{}_{}", self.set.0, self.lanes, "v".repeat(self.reals + self.pointers), self.base)
    }
}

fn all_variants(sets: &[Set], bytes: usize) -> Vec<Variant> {
    let mut variants = Vec::new();
    for line in math::GROUPS.iter().flat_map(|group| group.lines) {
        let signature = line.signature;
        let reals = signature.arguments.iter().filter(|argument| argument.reals() == 1).count();
        let pointers = signature.arguments.len() - reals;
        let described = match signature.results {
            [Place::Value] => pointers == 0,
            [Place::Pointer(0), Place::Pointer(1)] => pointers == 2,
            _ => false,
        };
        let Names::Suffixed(base, "") = line.names else { continue };
        if described {
            let base = if bytes == 4 { format!("{base}f") } else { base.to_owned() };
            let of = |set: &Set| Variant { set: *set, lanes: set.1 / bytes, reals, pointers, base: base.clone() };
            variants.extend(sets.iter().map(of));
        }
    }
    let symbols: Vec<String> = variants.iter().map(Variant::symbol).collect();
    let present = scalar::present("libmvec.so.1", &symbols);
    variants.retain(|variant| present.contains(&variant.symbol()));
    variants
}

/// A case of each variant: first all lanes' first arguments, then the second ones.
fn variants(sets: &[Set], bytes: usize) -> Vec<Case> {
    all_variants(sets, bytes).iter().map(|variant| variant_case(variant, bytes)).collect()
}

fn inputs(variant: &Variant) -> Vec<f64> {
    let start = if variant.base.starts_with("acosh") { 1.25 } else { 0.25 };
    (0..variant.lanes * variant.reals).map(|index| start + index as f64 / 32.0).collect()
}

fn variant_case(variant: &Variant, bytes: usize) -> Case {
    let (symbol, lanes) = (variant.symbol(), variant.lanes);
    let vector = variant.set.1;
    let pieces = lanes * 8 / variant.set.2;
    let mut types = vec!["V"; variant.reals];
    types.extend(vec!["P"; variant.pointers * pieces]);
    let result = if variant.pointers == 0 { "V" } else { "void" };
    let declarations = format!(
        "#undef V\n#undef P\n#define V V{vector}\n#define P P{}\n{}{result} {symbol}({});",
        variant.set.2,
        TYPES,
        types.join(", ")
    );
    let mut body = String::new();
    let mut arguments = Vec::new();
    for real in 0..variant.reals {
        body += &format!("V a{real}; memcpy(&a{real}, x + {}, {vector}); ", real * lanes);
        arguments.push(format!("a{real}"));
    }
    for pointer in 0..variant.pointers {
        for piece in 0..pieces {
            let name = format!("p{pointer}_{piece}");
            body += &format!("P {name}; ");
            for element in 0..variant.set.2 / 8 {
                let lane = piece * variant.set.2 / 8 + element;
                body += &format!("{name}[{element}] = (long)(y + {}); ", pointer * lanes + lane);
            }
            arguments.push(name);
        }
    }
    let call = format!("{symbol}({})", arguments.join(", "));
    body += &if variant.pointers == 0 {
        format!("a0 = {call}; memcpy(y, &a0, {});", lanes * bytes)
    } else {
        format!("{call};")
    };
    Case { name: symbol, inputs: inputs(variant), outputs: lanes * variant.pointers.max(1), declarations, body }
}

/// Vectors of 16, 32 and 64 bytes, of real numbers and of pointers.
const TYPES: &str = "#ifndef VECTORS\n#define VECTORS
typedef T V16 __attribute__((vector_size(16)));
typedef T V32 __attribute__((vector_size(32)));
typedef T V64 __attribute__((vector_size(64)));
typedef long P16 __attribute__((vector_size(16)));
typedef long P32 __attribute__((vector_size(32)));
typedef long P64 __attribute__((vector_size(64)));
#endif\n";

/// The binary64 functions lane by lane.
fn scalar_reference(sets: &[Set], cases: &[Case]) -> String {
    let variants = all_variants(sets, 4);
    let case = |(variant, case): (&Variant, &Case)| {
        let base = variant.base.strip_suffix('f').unwrap_or(&variant.base);
        let lanes = variant.lanes;
        let body = if variant.pointers == 2 {
            format!("int i; for (i = 0; i < {lanes}; i++) sincos(x[i], y + i, y + {lanes} + i);")
        } else {
            let arguments: Vec<String> = (0..variant.reals).map(|real| format!("x[i + {}]", real * lanes)).collect();
            format!("int i; for (i = 0; i < {lanes}; i++) y[i] = {base}({});", arguments.join(", "))
        };
        Case {
            name: case.name.clone(),
            inputs: case.inputs.clone(),
            outputs: case.outputs,
            declarations: String::new(),
            body,
        }
    };
    let cases: Vec<Case> = variants.iter().zip(cases).map(case).collect();
    program::source(
        "#define _GNU_SOURCE\n#include <math.h>\ndouble exp10(double); void sincos(double, double *, double *);\n",
        &cases,
    )
}
