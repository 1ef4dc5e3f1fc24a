//! Fortran: whole arrays, sections, reductions, matrices, `do concurrent`.

use derivgrind_tests::formula::{Formula, formula};

pub fn formulas() -> Vec<Formula> {
    vec![
        formula("sum", &[1.5, -0.75, 2.5], "y = sum(x(1:3))**2", |x| vec![2.0 * x.iter().sum::<f64>(); 3]),
        formula("product", &[1.5, -0.75, 2.5], "y = product(x(1:3))", |x| vec![x[1] * x[2], x[0] * x[2], x[0] * x[1]]),
        formula("dot_product", &[1.5, -0.75, 2.5, 0.5], "y = dot_product(x(1:2), x(3:4))", |x| vec![x[2], x[3], x[0], x[1]]),
        formula("matmul", &[1.5, -0.75, 2.5, 0.5], "real(rk) :: a(2, 2), b(2, 2)\na = reshape(x(1:4), [2, 2])\nb = matmul(a, a)\ny = sum(b)", |x| {
            // Columns: a = (x0 x2; x1 x3). The sum of the entries of a^2 is the sum of column sums times row sums.
            let (columns, rows) = ([x[0] + x[1], x[2] + x[3]], [x[0] + x[2], x[1] + x[3]]);
            vec![rows[0] + columns[0], rows[0] + columns[1], rows[1] + columns[0], rows[1] + columns[1]]
        }),
        formula("matmul_large", &[1.5, -0.75], "real(rk) :: a(40, 40), b(40, 40)\na = x(1)\nb = x(2)\na = matmul(a, b)\ny = a(3, 5) + a(40, 40)", |x| vec![80.0 * x[1], 80.0 * x[0]]),
        formula("transpose", &[1.5, -0.75, 2.5, 0.5], "real(rk) :: a(2, 2)\na = transpose(reshape(x(1:4), [2, 2]))\ny = a(1, 2) * a(2, 2) + a(2, 1)", |x| {
            vec![0.0, x[3], 1.0, x[1]]
        }),
        formula("maxval_minval", &[1.5, -0.75, 2.5], "y = maxval(x(1:3)) * minval(x(1:3))", |x| vec![0.0, x[2], x[1]]),
        formula("maxloc", &[1.5, -0.75, 2.5], "y = x(maxloc(x(1:3), 1)) * x(minloc(x(1:3), 1))", |x| vec![0.0, x[2], x[1]]),
        formula("elementwise", &[0.75, 0.5], "real(rk) :: t(30)\ninteger :: i\nt = [(x(1 + mod(i, 2)), i = 0, 29)]\ny = sum(sin(t) * t)", |x| {
            x.iter().map(|x| 15.0 * (x.cos() * x + x.sin())).collect()
        }),
        formula("sections", &[1.5, -0.75], "real(rk) :: t(20)\nt = 0\nt(1:20:2) = x(1)\nt(20:2:-2) = t(1:19:2) * x(2)\ny = sum(t(2:10))", |x| {
            // Five products at even places, four copies at odd ones.
            vec![5.0 * x[1] + 4.0, 5.0 * x[0]]
        }),
        formula("where", &[1.5, -0.625], "real(rk) :: t(16)\ninteger :: i\nt = [(x(1 + mod(i, 2)), i = 0, 15)]\nwhere (t > 0)\nt = t * t\nelsewhere\nt = 3 * t\nend where\ny = sum(t)", |x| {
            vec![16.0 * x[0], 24.0]
        }),
        formula("forall", &[1.5, -0.75], "real(rk) :: t(8, 8)\ninteger :: i, j\nforall (i = 1:8, j = 1:8, i > j) t(i, j) = x(1) * i + x(2) * j\ny = t(5, 2) * t(8, 7)", |x| {
            let (p, q) = (5.0 * x[0] + 2.0 * x[1], 8.0 * x[0] + 7.0 * x[1]);
            vec![5.0 * q + 8.0 * p, 2.0 * q + 7.0 * p]
        }),
        formula("do_concurrent", &[1.5, -0.75], "real(rk) :: t(33)\ninteger :: i\ndo concurrent (i = 1:33)\nt(i) = x(1) * x(2) + i * x(1)\nend do\ny = sum(t)", |x| {
            vec![33.0 * x[1] + 561.0, 33.0 * x[0]]
        }),
        formula("axpy", &[1.5, -0.75], "real(rk) :: t(67)\nt = x(2)\ncall axpy(67, x(1), t, t)\ny = sum(t)", |x| vec![67.0 * x[1], 67.0 * (x[0] + 1.0)])
            .with("subroutine axpy(n, a, u, v)\ninteger, intent(in) :: n\nreal(rk), intent(in) :: a, u(n)\nreal(rk), intent(inout) :: v(n)\ninteger :: i\ndo i = 1, n\nv(i) = v(i) + a * u(i)\nend do\nend subroutine"),
        formula("assumed_shape", &[1.5, -0.75], "real(rk) :: t(24)\nt(1:12) = x(1)\nt(13:24) = x(2)\ny = strided_sum(t(2::3))", |_| vec![4.0, 4.0])
            .with("function strided_sum(t) result(s)\nreal(rk), intent(in) :: t(:)\nreal(rk) :: s\ninteger :: i\ns = 0\ndo i = 1, size(t)\ns = s + t(i)\nend do\nend function"),
        formula("copied_section", &[1.5, -0.75], "real(rk) :: t(10)\nt = x(1)\ncall doubled(t(1:9:2), 5)\ny = sum(t) * x(2)", |x| vec![15.0 * x[1], 15.0 * x[0]])
            .with("subroutine doubled(t, n)\ninteger, intent(in) :: n\nreal(rk), intent(inout) :: t(n)\nt = t * 2\nend subroutine"),
        formula("allocatable", &[1.5, -0.75], "real(rk), allocatable :: t(:), u(:)\nallocate (t(50))\nt = x(1)\nu = [t, x(2), t * x(2)]\ny = sum(u)", |x| {
            vec![50.0 + 50.0 * x[1], 1.0 + 50.0 * x[0]]
        }),
        formula("automatic_array", &[1.5, -0.75], "y = with_room(x(1), x(2), 31)", |x| vec![31.0 * x[1], 31.0 * x[0]])
            .with("function with_room(a, b, n) result(s)\nreal(rk), intent(in) :: a, b\ninteger, intent(in) :: n\nreal(rk) :: s, t(n)\nt = a\ns = dot_product(t, spread(b, 1, n))\nend function"),
        formula("array_function", &[1.5, -0.75], "real(rk) :: t(3)\nt = powers(x(1)) + powers(x(2))\ny = dot_product(t, [1._rk, 2._rk, 3._rk])", |x| {
            x.iter().map(|x| 1.0 + 4.0 * x + 9.0 * x * x).collect()
        })
        .with("function powers(a) result(p)\nreal(rk), intent(in) :: a\nreal(rk) :: p(3)\np = [a, a**2, a**3]\nend function"),
        formula("cshift_eoshift", &[1.5, -0.75, 2.5], "real(rk) :: t(3)\nt = cshift(x(1:3), 1) * x(1:3) + eoshift(x(1:3), 1)\ny = sum(t)", |x| {
            vec![x[1] + x[2], x[2] + x[0] + 1.0, x[0] + x[1] + 1.0]
        }),
        formula("pack_unpack", &[1.5, -0.75, 2.5], "real(rk) :: t(2)\nt = pack(x(1:3), x(1:3) > 0)\ny = t(1) * t(2) + sum(unpack(t, [.true., .false., .true.], x(2)))", |x| {
            vec![x[2] + 1.0, 1.0, x[0] + 1.0]
        }),
        formula("norm2", &[1.5, -0.75, 2.5], "y = norm2(x(1:3))", |x| {
            let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
            x.iter().map(|x| x / norm).collect()
        }),
        formula("gauss_elimination", &[2.0, -0.75, 0.5, 1.5], "real(rk) :: a(2, 2), b(2), f\na = reshape([x(1), x(3), x(2), x(4)], [2, 2])\nb = [1, 2]\nf = a(2, 1) / a(1, 1)\na(2, :) = a(2, :) - f * a(1, :)\nb(2) = b(2) - f * b(1)\nb(2) = b(2) / a(2, 2)\ny = (b(1) - a(1, 2) * b(2)) / a(1, 1)", |x| {
            let (a, b, c, d) = (x[0], x[1], x[2], x[3]);
            let (p, q) = (d - 2.0 * b, a * d - b * c);
            vec![-p * d / (q * q), (-2.0 * q + p * c) / (q * q), p * b / (q * q), (q - p * a) / (q * q)]
        }),
        formula("common_block", &[1.5, -0.75], "real(rk) :: a(2)\ncommon /shared/ a\na = x(1:2)\ny = from_common() * a(1)", |x| vec![2.0 * x[0] * x[1], x[0] * x[0]])
            .with("function from_common() result(b)\nreal(rk) :: a(2), b\ncommon /shared/ a\nb = a(1) * a(2)\nend function"),
    ]
}
