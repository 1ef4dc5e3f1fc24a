//! C++: templates, virtual functions, containers, algorithms, exceptions.

use derivgrind_tests::formula::{Formula, formula};

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("class_template", &[1.5, -0.75], "Vector<REAL, 2> a(x[0], x[1]), b(x[1], 2); return (a + b).dot(a);", |x| {
            vec![2.0 * x[0] + x[1], x[0] + 2.0 * x[1] + 2.0]
        })
        .with(
            "template <class T, int N> struct Vector { T v[N]; Vector(T a, T b) { v[0] = a; v[1] = b; }
                Vector operator+(const Vector &o) const { return Vector(v[0] + o.v[0], v[1] + o.v[1]); }
                T dot(const Vector &o) const { T s = 0; for (int i = 0; i < N; i++) s += v[i] * o.v[i]; return s; } };",
        ),
        formula(
            "virtual_calls",
            &[1.5, -0.75],
            "std::vector<std::unique_ptr<Shape>> shapes; shapes.emplace_back(new Square(x[0])); shapes.emplace_back(new Oblong(x[0], x[1]));
             REAL y = 0; for (auto &shape : shapes) y += shape->area(); return y;",
            |x| vec![2.0 * x[0] + x[1], x[0]],
        )
        .with(
            "struct Shape { virtual ~Shape() {} virtual REAL area() const = 0; };
             struct Square : Shape { REAL a; explicit Square(REAL a) : a(a) {} REAL area() const override { return a * a; } };
             struct Oblong : Shape { REAL a, b; Oblong(REAL a, REAL b) : a(a), b(b) {} REAL area() const override { return a * b; } };",
        ),
        formula("std_sort", &[1.5, -0.75, 2.5, 0.5], "std::vector<REAL> t(x, x + 4); std::sort(t.begin(), t.end()); return t[0] + 10 * t[1] + 100 * t[2] + 1000 * t[3];", |_| {
            vec![100.0, 1.0, 1000.0, 10.0]
        }),
        formula("std_stable_sort_large", &[1.5, -0.75], "std::vector<std::pair<int, REAL>> t; for (int i = 0; i < 200; i++) t.emplace_back(i * 37 % 200, x[i & 1]);
             std::stable_sort(t.begin(), t.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
             REAL y = 0; for (int i = 0; i < 200; i++) y += t[i].second * (i < 7); return y;", |_| {
            let active = |parity: usize| (0..200).filter(|i| i * 37 % 200 < 7 && i % 2 == parity).count() as f64;
            vec![active(0), active(1)]
        }),
        formula("vector_push_back", &[1.5, -0.75], "std::vector<REAL> t; for (int i = 0; i < 1000; i++) t.push_back(x[i & 1]); return t[0] * t[999] + t[511];", |x| {
            vec![x[1], x[0] + 1.0]
        }),
        formula("exception_carries_value", &[1.5, -0.75], "REAL y = 0; for (int i = 0; i < 3; i++) try { y += deep(x[0], x[1], i); } catch (const Result &r) { y += r.value; } catch (REAL v) { y -= v; } return y;", |x| {
            // i = 0 throws a Result (a b), i = 1 a number (2 a b), i = 2 returns a + b.
            vec![-x[1] + 1.0, -x[0] + 1.0]
        })
        .with(
            "struct Result { REAL value; }; struct Guard { REAL *p; ~Guard() { *p *= 1; } };
             static NOINLINE REAL deep(REAL a, REAL b, int i) { Guard g{&a}; if (i == 0) throw Result{a * b}; if (i == 1) throw 2 * a * b; return a + b; }",
        ),
        formula("std_function_and_lambda", &[1.5, -0.75], "REAL a = x[0]; std::function<REAL(REAL)> f = [a](REAL b) { return a * b; }; auto g = [&f](REAL b) { return f(f(b)); }; return g(x[1]);", |x| {
            vec![2.0 * x[0] * x[1], x[0] * x[0]]
        }),
        formula("std_complex", &[1.5, -0.75], "std::complex<REAL> z(x[0], x[1]); z = z * z * z; return z.real() + 2 * z.imag();", |x| {
            // z^3: derivative 3 z^2 in the first direction, 3 i z^2 in the second.
            let (re, im) = (3.0 * (x[0] * x[0] - x[1] * x[1]), 6.0 * x[0] * x[1]);
            vec![re + 2.0 * im, -im + 2.0 * re]
        }),
        formula("std_algorithms", &[1.5, -0.75, 2.5], "std::array<REAL, 3> t{{x[0], x[1], x[2]}}; std::rotate(t.begin(), t.begin() + 1, t.end()); std::reverse(t.begin(), t.end());
             return std::inner_product(t.begin(), t.end(), x, REAL(0)) + std::accumulate(t.begin(), t.end(), REAL(0));", |x| {
            // t = (x0, x2, x1)
            vec![2.0 * x[0] + 1.0, 2.0 * x[2] + 1.0, 2.0 * x[1] + 1.0]
        }),
        formula("std_map", &[1.5, -0.75], "std::map<std::string, REAL> m; m[\"a\"] = x[0]; m[\"b\"] = x[1]; m[\"a\"] *= m[\"b\"]; REAL y = 0; for (auto &e : m) y += e.second; return y;", |x| {
            vec![x[1], x[0] + 1.0]
        }),
        formula("std_minmax", &[1.5, -0.75, 2.5], "return std::max({x[0], x[1], x[2]}) * std::min({x[0], x[1], x[2]}) + *std::max_element(x, x + 2);", |x| {
            vec![1.0, x[2], x[1]]
        }),
    ]
}
