//! C++'s standard library: numeric containers, strings, threads, type-erased values.

use derivgrind_tests::formula::{Formula, formula};

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("valarray", &[1.5, -0.75], "std::valarray<REAL> a{x[0], x[1], REAL(2)}, b = a * a + REAL(1); b[a > REAL(0)] *= std::valarray<REAL>(REAL(3), 2); return b.sum() + (a.cshift(1) * a).sum();", |x| {
            vec![6.0 * x[0] + x[1] + 2.0, 2.0 * x[1] + x[0] + 2.0]
        }),
        formula("valarray_functions", &[0.75, 0.5], "std::valarray<REAL> a{x[0], x[1]}; return (std::exp(a) * std::sin(a)).sum();", |x| {
            x.iter().map(|x| x.exp() * (x.sin() + x.cos())).collect()
        }),
        formula("valarray_slices", &[1.5, -0.75], "std::valarray<REAL> a(12); for (int i = 0; i < 12; i++) a[i] = x[i & 1]; a[std::slice(0, 4, 3)] += std::valarray<REAL>(x[0], 4); return a.sum();", |_| {
            vec![10.0, 6.0]
        }),
        formula("bit_cast", &[1.5, -0.75], "BITS b = __builtin_bit_cast(BITS, x[0]); return __builtin_bit_cast(REAL, BITS(b ^ SIGN)) * x[1];", |x| {
            vec![-x[1], -x[0]]
        }),
        formula("complex_functions", &[0.5, -0.75], "std::complex<REAL> z(x[0], x[1]); z = std::exp(z) + std::conj(z) * z; return z.real() + 2 * z.imag();", |x| {
            let (re, im) = (x[0].exp() * x[1].cos(), x[0].exp() * x[1].sin());
            vec![re + 2.0 * im + 2.0 * x[0], -im + 2.0 * re + 2.0 * x[1]]
        }),
        formula("complex_modulus", &[1.5, -0.75], "std::complex<REAL> z(x[0], x[1]); return std::abs(z) + std::arg(z);", |x| {
            let r = x[0].hypot(x[1]);
            vec![x[0] / r - x[1] / (r * r), x[1] / r + x[0] / (r * r)]
        }),
        formula("sort_of_pairs", &[1.5, -0.75, 2.5], "std::vector<std::pair<REAL, int>> t; for (int i = 0; i < 60; i++) t.emplace_back(x[i % 3] + REAL(i), i); std::sort(t.begin(), t.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
             REAL y = 0; for (int i = 0; i < 60; i++) if (t[i].second < 3) y += t[i].first * REAL(t[i].second + 1); return y;", |_| vec![1.0, 2.0, 3.0]),
        formula("nth_element", &[1.5, -0.75, 2.5], "std::vector<REAL> t(x, x + 3); std::nth_element(t.begin(), t.begin() + 1, t.end()); return t[1] * t[1];", |x| {
            vec![2.0 * x[0], 0.0, 0.0]
        }),
        formula("partial_sums", &[1.5, -0.75], "std::vector<REAL> t(20), s(20); for (int i = 0; i < 20; i++) t[i] = x[i & 1]; std::partial_sum(t.begin(), t.end(), s.begin()); return s[4] * s[19];", |x| {
            let (p, q) = (3.0 * x[0] + 2.0 * x[1], 10.0 * (x[0] + x[1]));
            vec![3.0 * q + 10.0 * p, 2.0 * q + 10.0 * p]
        }),
        formula("tuple", &[1.5, -0.75], "auto t = std::make_tuple(x[0], 3, x[1]); REAL a, b; int k; std::tie(a, k, b) = t; return a * b * REAL(k);", |x| {
            vec![3.0 * x[1], 3.0 * x[0]]
        }),
        formula("unordered_map", &[1.5, -0.75], "std::unordered_map<int, REAL> m; for (int i = 0; i < 100; i++) m[i * 7] = x[i & 1]; return m[7] * m[14];", |x| {
            vec![x[1], x[0]]
        }),
        formula("shared_pointer", &[1.5, -0.75], "auto p = std::make_shared<REAL>(x[0]); auto q = p; *q *= x[1]; return *p + *q;", |x| vec![2.0 * x[1], 2.0 * x[0]]),
        formula("multiple_inheritance", &[1.5, -0.75], "Sum sum(x[0], x[1]); const Right &right = sum; return right.right() + sum.left();", |x| vec![x[1], x[0] + 1.0]).with(
            "struct Left { REAL l; explicit Left(REAL a) : l(a) {} virtual ~Left() {} virtual REAL left() const { return l; } };
             struct Right { REAL r; explicit Right(REAL a) : r(a) {} virtual ~Right() {} virtual REAL right() const { return r; } };
             struct Sum : Left, virtual Right { Sum(REAL a, REAL b) : Right(b), Left(a) {} REAL left() const override { return l * r; } };",
        ),
        formula("expression_templates", &[1.5, -0.75], "Leaf<0> a{x}; Leaf<1> b{x}; return ((a + b) * (a * b)).value();", |x| {
            vec![2.0 * x[0] * x[1] + x[1] * x[1], x[0] * x[0] + 2.0 * x[0] * x[1]]
        })
        .with(
            "template <int K> struct Leaf { const REAL *x; REAL value() const { return x[K]; } };
             template <class A, class B> struct Added { A a; B b; REAL value() const { return a.value() + b.value(); } };
             template <class A, class B> struct Times { A a; B b; REAL value() const { return a.value() * b.value(); } };
             template <class A, class B> Added<A, B> operator+(A a, B b) { return {a, b}; }
             template <class A, class B> Times<A, B> operator*(A a, B b) { return {a, b}; }",
        ),
        formula("exception_in_destructor_order", &[1.5, -0.75], "REAL y = 1; try { Scaled outer(y, x[0]); Scaled inner(y, x[1]); throw 1; } catch (int) {} return y;", |x| {
            // The inner one first: (1 * x1 + x1) * x0 + x0.
            vec![2.0 * x[1] + 1.0, 2.0 * x[0]]
        })
        .with("struct Scaled { REAL &y; REAL a; Scaled(REAL &y, REAL a) : y(y), a(a) {} ~Scaled() { y = y * a + a; } };"),
        formula("future", &[1.5, -0.75], "REAL a = x[0], b = x[1]; auto f = std::async(std::launch::async, [=] { return a * b; }); return f.get() * a;", |x| {
            vec![2.0 * x[0] * x[1], x[0] * x[0]]
        }),
        formula("thread_local_object", &[1.5, -0.75], "REAL first = Kept::own().add(x[0]); return first * Kept::own().add(x[1]);", |x| {
            // a (a + b), from zero.
            vec![2.0 * x[0] + x[1], x[0]]
        })
        .with("struct Kept { REAL v; REAL add(REAL a) { v += a; return v; } static Kept &own() { thread_local Kept k{0}; return k; } };"),
        formula("string_stream", &[1.5, -0.75], "std::stringstream s; s << std::setprecision(9) << x[1]; REAL b; s >> b; return x[0] * b;", |x| vec![x[1], 0.0]).as_documented(),
    ]
}
