//! Fortran: arithmetic, intrinsic functions, control flow, procedures.

use std::f64::consts::PI;

use derivgrind_tests::formula::{Formula, formula};

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("add", &[1.5, -0.75], "y = x(1) + x(2)", |_| vec![1.0, 1.0]),
        formula("sub", &[1.5, -0.75], "y = x(1) - x(2)", |_| vec![1.0, -1.0]),
        formula("mul", &[1.5, -0.75], "y = x(1) * x(2)", |x| vec![x[1], x[0]]),
        formula("div", &[1.5, -0.75], "y = x(1) / x(2)", |x| vec![1.0 / x[1], -x[0] / (x[1] * x[1])]),
        formula("negate", &[1.5, -0.75], "y = -(x(1) * x(2))", |x| vec![-x[1], -x[0]]),
        formula("power_integer", &[1.25], "y = x(1)**5 + x(1)**(-2)", |x| vec![5.0 * x[0].powi(4) - 2.0 * x[0].powi(-3)]),
        formula("power_variable_integer", &[1.25], "integer, volatile :: n\nn = 7\ny = x(1)**n", |x| vec![7.0 * x[0].powi(6)]),
        formula("power_real", &[1.5, 2.25], "y = x(1)**x(2)", |x| vec![x[1] * x[0].powf(x[1] - 1.0), x[0].powf(x[1]) * x[0].ln()]),
        formula("horner", &[0.75], "y = (((2 * x(1) - 3) * x(1) + 5) * x(1) - 7) * x(1)", |x| {
            vec![((8.0 * x[0] - 9.0) * x[0] + 10.0) * x[0] - 7.0]
        }),
        formula("mixed_kinds", &[1.5, -0.75], "real(8) :: d\nreal(4) :: s\nd = x(1)\ns = real(x(2), 4)\ny = real(d * s, rk)", |x| vec![x[1], x[0]]),
        formula("mixed_integer", &[1.5], "integer :: i\ny = 0\ndo i = 1, 10\ny = y + i * x(1)\nend do", |_| vec![55.0]),
        formula("sqrt", &[2.5], "y = sqrt(x(1))", |x| vec![0.5 / x[0].sqrt()]),
        formula("exp", &[0.75], "y = exp(x(1))", |x| vec![x[0].exp()]),
        formula("log", &[2.5], "y = log(x(1))", |x| vec![1.0 / x[0]]),
        formula("log10", &[2.5], "y = log10(x(1))", |x| vec![1.0 / (x[0] * std::f64::consts::LN_10)]),
        formula("sin", &[0.75], "y = sin(x(1))", |x| vec![x[0].cos()]),
        formula("cos", &[0.75], "y = cos(x(1))", |x| vec![-x[0].sin()]),
        formula("tan", &[0.75], "y = tan(x(1))", |x| vec![1.0 / x[0].cos().powi(2)]),
        formula("sin_and_cos", &[0.75], "y = sin(x(1)) * cos(x(1))", |x| vec![(2.0 * x[0]).cos()]),
        formula("asin", &[0.375], "y = asin(x(1))", |x| vec![1.0 / (1.0 - x[0] * x[0]).sqrt()]),
        formula("acos", &[0.375], "y = acos(x(1))", |x| vec![-1.0 / (1.0 - x[0] * x[0]).sqrt()]),
        formula("atan", &[0.375], "y = atan(x(1))", |x| vec![1.0 / (1.0 + x[0] * x[0])]),
        formula("atan2", &[0.75, -1.25], "y = atan2(x(1), x(2))", |x| {
            let square = x[0] * x[0] + x[1] * x[1];
            vec![x[1] / square, -x[0] / square]
        }),
        formula("sinh", &[0.75], "y = sinh(x(1))", |x| vec![x[0].cosh()]),
        formula("cosh", &[-0.75], "y = cosh(x(1))", |x| vec![x[0].sinh()]),
        formula("tanh", &[0.75], "y = tanh(x(1))", |x| vec![1.0 / x[0].cosh().powi(2)]),
        formula("asinh", &[0.75], "y = asinh(x(1))", |x| vec![1.0 / (1.0 + x[0] * x[0]).sqrt()]),
        formula("acosh", &[1.75], "y = acosh(x(1))", |x| vec![1.0 / (x[0] * x[0] - 1.0).sqrt()]),
        formula("atanh", &[0.375], "y = atanh(x(1))", |x| vec![1.0 / (1.0 - x[0] * x[0])]),
        formula("erf", &[0.75], "y = erf(x(1))", |x| vec![2.0 / PI.sqrt() * (-x[0] * x[0]).exp()]),
        formula("erfc", &[0.75], "y = erfc(x(1))", |x| vec![-2.0 / PI.sqrt() * (-x[0] * x[0]).exp()]),
        // The digamma function at 4: 1 + 1/2 + 1/3 - Euler's constant.
        formula("gamma", &[4.0], "y = gamma(x(1))", |_| vec![6.0 * (11.0 / 6.0 - EULER)]),
        formula("log_gamma", &[4.0], "y = log_gamma(x(1))", |_| vec![11.0 / 6.0 - EULER]),
        // J0'(2) = -J1(2), J1'(2) = J0(2) - J1(2)/2 (Abramowitz and Stegun, table 9.1).
        formula("bessel_j0", &[2.0], "y = bessel_j0(x(1))", |_| vec![-J1_OF_2]),
        formula("bessel_j1", &[2.0], "y = bessel_j1(x(1))", |_| vec![J0_OF_2 - J1_OF_2 / 2.0]),
        formula("bessel_jn", &[2.0], "y = bessel_jn(2, x(1))", |_| {
            // J2 = J1 - J0 at 2, J2' = J1 - J2.
            vec![J0_OF_2]
        }),
        formula("hypot", &[1.5, -0.75], "y = hypot(x(1), x(2))", |x| vec![x[0] / x[0].hypot(x[1]), x[1] / x[0].hypot(x[1])]),
        formula("abs", &[-1.5, 0.75], "y = abs(x(1)) * abs(x(2))", |x| vec![-x[1], -x[0]]),
        formula("sign", &[1.5, -0.75], "y = sign(x(1), x(2)) * x(2)", |x| vec![-x[1], -x[0]]),
        formula("mod", &[7.5, 2.25], "y = mod(x(1), x(2))", |x| vec![1.0, -(x[0] / x[1]).trunc()]),
        formula("modulo", &[-7.5, 2.25], "y = modulo(x(1), x(2))", |x| vec![1.0, -(x[0] / x[1]).floor()]),
        formula("min", &[1.5, -0.75, 2.5], "y = min(x(1), x(2), x(3)) * x(1)", |x| vec![x[1], x[0], 0.0]),
        formula("max", &[1.5, -0.75, 2.5], "y = max(x(1), x(2), x(3)) * x(1)", |x| vec![x[2], 0.0, x[0]]),
        formula("dim", &[1.5, -0.75], "y = dim(x(1), x(2)) + 3 * dim(x(2), x(1))", |_| vec![1.0, -1.0]),
        formula("aint_anint", &[1.25, -0.75], "y = x(1) * aint(x(1)) + x(2) * anint(x(2))", |x| vec![x[0].trunc(), x[1].round()]),
        formula("nint_floor_ceiling", &[1.25, -0.75], "y = x(1) * nint(x(1)) + x(2) * floor(x(2)) * ceiling(x(1))", |x| {
            vec![x[0].round(), x[1].floor() * x[0].ceil()]
        }),
        formula("int_conversion", &[3.75, -0.75], "y = x(2) * int(x(1)) + real(int(x(1)), rk)", |x| vec![0.0, x[0].trunc()]),
        formula("scale_and_fraction", &[5.0], "y = scale(x(1), 3) + fraction(x(1)) * exponent(x(1))", |_| vec![8.0 + 3.0 / 8.0]),
        formula("set_exponent", &[5.0], "y = set_exponent(x(1), 7)", |_| vec![16.0]),
        formula("branches", &[1.5, -0.75], "if (x(1) > 2) then\ny = x(1)\nelse if (x(2) < 0) then\ny = x(1) * x(2)\nelse\ny = x(2)\nend if", |x| vec![x[1], x[0]]),
        formula("select_case", &[1.5, -0.75], "integer :: i\ny = 0\ndo i = 1, 4\nselect case (i)\ncase (1)\ny = y + x(1)\ncase (2, 3)\ny = y * x(2)\ncase default\ny = y + x(2)\nend select\nend do", |x| {
            vec![x[1] * x[1], 2.0 * x[0] * x[1] + 1.0]
        }),
        formula("do_while", &[0.5], "real(rk) :: term\ny = 0\nterm = 1\ndo while (term > 1.5e-3_rk)\ny = y + term\nterm = term * x(1)\nend do", |x| {
            vec![(1..10).map(|k| f64::from(k) * x[0].powi(k - 1)).sum()]
        }),
        formula("newton", &[2.5], "integer :: i\ny = x(1)\ndo i = 1, 8\ny = (y + x(1) / y) / 2\nend do", |x| vec![0.5 / x[0].sqrt()]),
        formula("recursion", &[1.125], "y = power(x(1), 10)", |x| vec![10.0 * x[0].powi(9)]).with(
            "recursive function power(a, n) result(p)\nreal(rk), value :: a\ninteger, value :: n\nreal(rk) :: p\nif (n == 0) then\np = 1\nelse\np = a * power(a, n - 1)\nend if\nend function",
        ),
        formula("subroutine", &[1.5, -0.75], "real(rk) :: a\ncall combine(x(1), x(2), a, y)\ny = y * a", |x| {
            // a = x1 x2, y = a + x1
            vec![2.0 * x[0] * x[1] * x[1] + 2.0 * x[0] * x[1], 2.0 * x[0] * x[0] * x[1] + x[0] * x[0]]
        })
        .with("subroutine combine(a, b, c, d)\nreal(rk), intent(in) :: a, b\nreal(rk), intent(out) :: c, d\nc = a * b\nd = c + a\nend subroutine"),
        formula("optional_arguments", &[1.5, -0.75], "y = optional_sum(x(1)) * optional_sum(x(1), x(2))", |x| vec![2.0 * x[0] + x[1], x[0]]).with(
            "function optional_sum(a, b) result(s)\nreal(rk), intent(in) :: a\nreal(rk), intent(in), optional :: b\nreal(rk) :: s\ns = a\nif (present(b)) s = s + b\nend function",
        ),
        formula("internal_procedure", &[1.5, -0.75], "y = apply(times_second, x(1))\ncontains\nfunction times_second(a) result(b)\nreal(rk), intent(in) :: a\nreal(rk) :: b\nb = a * x(2)\nend function", |x| vec![x[1], x[0]])
            .with("function apply(f, a) result(b)\ninterface\nfunction f(a) result(b)\nimport rk\nreal(rk), intent(in) :: a\nreal(rk) :: b\nend function\nend interface\nreal(rk), intent(in) :: a\nreal(rk) :: b\nb = f(a)\nend function"),
        formula("saved_variable", &[1.5, -0.75], "y = accumulated(x(1), .true.)\ny = accumulated(x(2), .false.) * x(1)", |x| vec![2.0 * x[0] + x[1], x[0]]).with(
            "function accumulated(a, first) result(b)\nreal(rk), intent(in) :: a\nlogical, intent(in) :: first\nreal(rk) :: b\nreal(rk), save :: total\nif (first) total = 0\ntotal = total + a\nb = total\nend function",
        ),
        formula("merge", &[1.5, -0.75], "y = merge(x(1), x(2), x(1) > x(2)) * 2 + merge(x(1), x(2), x(1) < x(2))", |_| vec![2.0, 1.0]),
        formula("transfer", &[1.5, -0.75], "integer(1) :: bytes(storage_size(x(1)) / 8)\nreal(rk) :: z\nbytes = transfer(x(1), bytes)\nz = transfer(bytes, z)\ny = z * x(2)", |x| vec![x[1], x[0]]),
        formula("derived_type", &[1.5, -0.75], "type :: point\nreal(rk) :: u, v\nend type\ntype(point) :: p, q\np = point(x(1), x(2))\nq = p\nq%u = q%u + p%u\ny = q%u * q%v", |x| {
            vec![2.0 * x[1], 2.0 * x[0]]
        }),
        formula("pointer", &[1.5, -0.75], "real(rk), target :: a\nreal(rk), pointer :: p\na = x(1)\np => a\np = p * x(2)\ny = a + p", |x| vec![2.0 * x[1], 2.0 * x[0]]),
        formula("complex_arithmetic", &[1.5, -0.75], "complex(rk) :: z\nz = cmplx(x(1), x(2), rk)\nz = z * z * z\ny = real(z, rk) + 2 * aimag(z)", |x| {
            let (re, im) = (3.0 * (x[0] * x[0] - x[1] * x[1]), 6.0 * x[0] * x[1]);
            vec![re + 2.0 * im, -im + 2.0 * re]
        }),
        formula("complex_division", &[1.5, -0.75], "complex(rk) :: z\nz = 1 / cmplx(x(1), x(2), rk)\ny = real(z, rk) + 2 * aimag(z)", |x| {
            let (re, im) = (x[0] * x[0] - x[1] * x[1], 2.0 * x[0] * x[1]);
            let size = re * re + im * im;
            let (re, im) = (-re / size, im / size);
            vec![re + 2.0 * im, -im + 2.0 * re]
        }),
        formula("complex_exponential", &[0.5, -0.75], "complex(rk) :: z\nz = exp(cmplx(x(1), x(2), rk))\ny = real(z, rk) + 2 * aimag(z)", |x| {
            let (re, im) = (x[0].exp() * x[1].cos(), x[0].exp() * x[1].sin());
            vec![re + 2.0 * im, -im + 2.0 * re]
        }),
        formula("complex_modulus", &[1.5, -0.75], "y = abs(cmplx(x(1), x(2), rk))", |x| {
            let r = x[0].hypot(x[1]);
            vec![x[0] / r, x[1] / r]
        }),
        formula("text", &[1.5, -0.75], "character(len=40) :: line\nreal(rk) :: z\nwrite (line, '(es30.8)') x(2)\nread (line, *) z\ny = x(1) * z", |x| vec![x[1], 0.0]).as_documented(),
    ]
}

const EULER: f64 = 0.577_215_664_901_532_9;
const J0_OF_2: f64 = 0.223_890_779_141_235_67;
const J1_OF_2: f64 = 0.576_724_807_756_873_4;
