//! Fortran's intrinsics and what C++'s library computes.

use crate::Plan;
use crate::program::{self, Case};

/// C++ expressions of x[0], x[1], ...: functions of the library, and templates that the compiler turns into code.
const CPP: &[(&str, &[f64], &str)] = &[
    ("std_sin", &[0.75], "y[0] = std::sin(x[0]);"),
    ("std_pow_integer", &[0.75], "y[0] = std::pow(x[0], 3);"),
    ("std_hypot3", &[0.75, 1.5, -0.5], "y[0] = std::hypot(x[0], x[1], x[2]);"),
    ("std_lerp", &[0.75, 1.5, 0.25], "y[0] = std::lerp(x[0], x[1], x[2]);"),
    ("std_beta", &[0.75, 1.5], "y[0] = std::beta(x[0], x[1]);"),
    ("std_ellint_1", &[0.5, 0.75], "y[0] = std::ellint_1(x[0], x[1]);"),
    ("std_comp_ellint_2", &[0.5], "y[0] = std::comp_ellint_2(x[0]);"),
    ("std_legendre", &[0.375], "y[0] = std::legendre(5, x[0]);"),
    ("std_laguerre", &[0.375], "y[0] = std::laguerre(4, x[0]);"),
    ("std_hermite", &[0.375], "y[0] = std::hermite(4, x[0]);"),
    ("std_expint", &[0.75], "y[0] = std::expint(x[0]);"),
    ("std_cyl_bessel_i", &[1.5], "y[0] = std::cyl_bessel_i(T(0.5), x[0]);"),
    ("std_sph_bessel", &[1.5], "y[0] = std::sph_bessel(1, x[0]);"),
    ("std_riemann_zeta", &[2.5], "y[0] = std::riemann_zeta(x[0]);"),
    ("complex_exp", &[0.75, 0.5], "z(y, std::exp(z(x)));"),
    ("complex_sin", &[0.75, 0.5], "z(y, std::sin(z(x)));"),
    ("complex_log", &[0.75, 0.5], "z(y, std::log(z(x)));"),
    ("complex_sqrt", &[0.75, 0.5], "z(y, std::sqrt(z(x)));"),
    ("complex_tanh", &[0.75, 0.5], "z(y, std::tanh(z(x)));"),
    ("complex_acos", &[0.75, 0.5], "z(y, std::acos(z(x)));"),
    ("complex_atanh", &[0.75, 0.5], "z(y, std::atanh(z(x)));"),
    ("complex_pow", &[0.75, 0.5, 1.5, 0.25], "z(y, std::pow(z(x), z(x + 2)));"),
    ("complex_pow_real", &[0.75, 0.5, 1.5], "z(y, std::pow(z(x), x[2]));"),
    ("complex_quotient", &[0.75, 0.5, 1.5, 0.25], "z(y, z(x) / z(x + 2));"),
    ("complex_polar", &[0.75, 0.5], "z(y, std::polar(x[0], x[1]));"),
    ("complex_abs", &[0.75, 0.5], "y[0] = std::abs(z(x));"),
    ("complex_arg", &[0.75, 0.5], "y[0] = std::arg(z(x));"),
    ("complex_norm", &[0.75, 0.5], "y[0] = std::norm(z(x));"),
];

const CPP_PROLOGUE: &str = "#include <cmath>\n#include <complex>
typedef std::complex<T> Z;
static Z z(const T *x) { return Z(x[0], x[1]); }
static void z(T *y, const Z &value) { y[0] = value.real(); y[1] = value.imag(); }
";

/// Fortran expressions of a and b, or of the complex number z.
const FORTRAN: &[(&str, &[f64], &str)] = &[
    ("f_sin", &[0.75], "sin(a)"),
    ("f_cosd", &[0.75], "cosd(a)"),
    ("f_cotan", &[0.75], "cotan(a)"),
    ("f_exp", &[0.75], "exp(a)"),
    ("f_log10", &[0.75], "log10(a)"),
    ("f_power", &[0.75, 1.5], "a**b"),
    ("f_power_integer", &[0.75], "a**n"),
    ("f_atan2", &[0.75, 1.5], "atan2(a, b)"),
    ("f_asinh", &[0.75], "asinh(a)"),
    ("f_gamma", &[1.75], "gamma(a)"),
    ("f_log_gamma", &[1.75], "log_gamma(a)"),
    ("f_erf", &[0.75], "erf(a)"),
    ("f_erfc_scaled", &[0.75], "erfc_scaled(a)"),
    ("f_erfc_scaled_large", &[3.5], "erfc_scaled(a)"),
    ("f_bessel_j0", &[0.75], "bessel_j0(a)"),
    ("f_bessel_jn", &[0.75], "bessel_jn(n, a)"),
    ("f_bessel_yn", &[0.75], "bessel_yn(n, a)"),
    ("f_hypot", &[0.75, 1.5], "hypot(a, b)"),
    ("f_mod", &[5.75, 1.5], "mod(a, b)"),
    ("f_modulo", &[-5.75, 1.5], "modulo(a, b)"),
    ("f_sign", &[0.75, -1.5], "sign(a, b)"),
    ("f_dim", &[1.75, 1.5], "dim(a, b)"),
    ("f_aint", &[1.75], "a * aint(a)"),
    ("f_anint", &[1.75], "a * anint(a)"),
    ("f_nint", &[1.75], "a * nint(a)"),
    ("f_max", &[1.75, 1.5], "max(a, b)"),
    ("f_min", &[1.75, 1.5], "min(a, b)"),
    ("f_fraction", &[5.75], "fraction(a)"),
    ("f_set_exponent", &[5.75], "set_exponent(a, 2)"),
    ("f_scale", &[5.75], "scale(a, -3)"),
    ("f_nearest", &[5.75, 1.0], "nearest(a, b)"),
    ("f_norm2", &[0.75, 1.5], "norm2([a, b])"),
    ("f_sum_of_squares", &[0.75, 1.5], "dot_product([a, b], [b, a])"),
    ("z_exp", &[0.75, 0.5], "exp(z)"),
    ("z_sin", &[0.75, 0.5], "sin(z)"),
    ("z_log", &[0.75, 0.5], "log(z)"),
    ("z_sqrt", &[0.75, 0.5], "sqrt(z)"),
    ("z_tan", &[0.75, 0.5], "tan(z)"),
    ("z_power", &[0.75, 0.5], "z**z"),
    ("z_power_integer", &[0.75, 0.5], "z**n"),
    ("z_quotient", &[0.75, 0.5], "(1 + z) / z"),
    ("z_conjg", &[0.75, 0.5], "conjg(z) * z"),
    ("z_abs", &[0.75, 0.5], "cmplx(abs(z), aimag(z), kind=k)"),
];

/// A program in C++ for each format, and one in Fortran.
pub fn plans() -> Vec<Plan> {
    let mut plans = Vec::new();
    for (format, option) in [("double", ""), ("float", "-DSINGLE"), ("long-double", "-DEXTENDED")] {
        plans.push(Plan {
            name: format!("cpp-{format}"),
            narrow: format == "float",
            cases: CPP.iter().map(|case| case.0.to_owned()).collect(),
            build: Box::new(move || {
                program::build("g++", "cpp", &program::source(CPP_PROLOGUE, &cpp()), &["-O1", "-std=c++20"], option)
            }),
        });
    }
    for (format, option) in [("double", ""), ("float", "-DSINGLE"), ("long-double", "-DEXTENDED")] {
        plans.push(Plan {
            name: format!("fortran-{format}"),
            narrow: format == "float",
            cases: FORTRAN.iter().map(|case| case.0.to_owned()).collect(),
            build: Box::new(move || {
                program::build_with_fortran(&program::source("", &fortran_cases()), &fortran(), option)
            }),
        });
    }
    plans
}

fn cpp() -> Vec<Case> {
    let case = |&(name, inputs, body): &(&str, &[f64], &str)| Case {
        name: name.to_owned(),
        inputs: inputs.to_vec(),
        outputs: if body.starts_with('z') { 2 } else { 1 },
        declarations: String::new(),
        body: body.to_owned(),
    };
    CPP.iter().map(case).collect()
}

fn fortran_cases() -> Vec<Case> {
    let case = |&(name, inputs, _): &(&str, &[f64], &str)| Case {
        name: name.to_owned(),
        inputs: inputs.to_vec(),
        outputs: if name.starts_with('z') { 2 } else { 1 },
        declarations: String::new(),
        body: String::new(),
    };
    FORTRAN.iter().map(case).collect()
}

/// Subroutines that the main program calls as C functions.
fn fortran() -> String {
    let mut text = String::from(
        "module kinds\n#if defined(SINGLE)\ninteger, parameter :: k = 4\n#elif defined(EXTENDED)\ninteger, parameter :: k = 10\n#else\ninteger, parameter :: k = 8\n#endif\nend module\n",
    );
    for &(name, inputs, expression) in FORTRAN {
        let (declare, compute) = if name.starts_with('z') {
            (
                "complex(k) :: z, w",
                format!("z = cmplx(x(1), x(2), kind=k)\nw = {expression}\ny(1) = real(w, k)\ny(2) = aimag(w)"),
            )
        } else {
            let second = if inputs.len() > 1 { "b = x(2)" } else { "b = 0" };
            ("real(k) :: a, b", format!("a = x(1)\n{second}\ny(1) = {expression}"))
        };
        text += &format!(
            "subroutine f_{name}(x, y) bind(c)\nuse kinds\nreal(k), intent(in) :: x(2)\nreal(k), intent(out) :: y(2)\n{declare}\ninteger, volatile :: three\ninteger :: n\nthree = 3\nn = three\n{compute}\nend subroutine\n"
        );
    }
    text
}
