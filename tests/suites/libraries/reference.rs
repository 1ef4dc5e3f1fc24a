//! What gradients of linear algebra are computed with: a few lines that share nothing with the libraries.

/// A dense matrix by rows.
pub type Matrix = Vec<Vec<f64>>;

/// Solution of a linear system, by Gaussian elimination with partial pivoting.
pub fn solve(matrix: &Matrix, right: &[f64]) -> Vec<f64> {
    let n = right.len();
    let (mut a, mut b) = (matrix.clone(), right.to_vec());
    for column in 0..n {
        let pivot = (column..n).max_by(|&i, &j| a[i][column].abs().total_cmp(&a[j][column].abs())).unwrap_or(column);
        a.swap(column, pivot);
        b.swap(column, pivot);
        for row in column + 1..n {
            let factor = a[row][column] / a[column][column];
            let pivots = a[column].clone();
            a[row].iter_mut().zip(pivots).for_each(|(element, pivot)| *element -= factor * pivot);
            b[row] -= factor * b[column];
        }
    }
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|k| a[row][k] * b[k]).sum();
        b[row] = (b[row] - known) / a[row][row];
    }
    b
}

/// The transposed matrix.
pub fn transposed(matrix: &Matrix) -> Matrix {
    (0..matrix.len()).map(|i| matrix.iter().map(|row| row[i]).collect()).collect()
}

/// Matrix times vector.
pub fn times(matrix: &Matrix, vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum()).collect()
}

/// Sum of products.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Eigenvalues of the symmetric matrix (a b; b c) in ascending order, and the derivatives of each with respect to a, b, c.
pub fn symmetric_eigenvalues([a, b, c]: [f64; 3]) -> [(f64, [f64; 3]); 2] {
    let (middle, half) = ((a + c) / 2.0, (a - c) / 2.0);
    let root = half.hypot(b);
    let (by_difference, by_b) = (half / (2.0 * root), b / root);
    [-1.0, 1.0].map(|s| (middle + s * root, [0.5 + s * by_difference, s * by_b, 0.5 - s * by_difference]))
}

/// Derivatives of the sum of both singular values of (a b; c d): the root of |A|² + 2 |det A|.
pub fn nuclear_norm_gradient([a, b, c, d]: [f64; 4]) -> [f64; 4] {
    let det = a * d - b * c;
    let norm = (a * a + b * b + c * c + d * d + 2.0 * det.abs()).sqrt();
    let s = det.signum();
    [(a + s * d) / norm, (b - s * c) / norm, (c - s * b) / norm, (d + s * a) / norm]
}
