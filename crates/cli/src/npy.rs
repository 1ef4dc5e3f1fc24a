//! The NPY file format of NumPy, version 1.0, for matrices of binary64.

use std::io::{self, Write};

/// Length of the magic string, the version and the header's length.
const PREAMBLE: usize = 10;

/// Writes a matrix with `columns` columns, row by row.
///
/// # Errors
/// What writing reports.
pub fn write(mut file: impl Write, rows: &[Vec<f64>], columns: usize) -> io::Result<()> {
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({}, {columns}), }}", rows.len());
    // The format asks for data aligned to 64 bytes: padded with spaces, ended by a newline.
    let padded = (PREAMBLE + header.len() + 1).next_multiple_of(64) - PREAMBLE - 1;
    header = format!("{header:padded$}\n");
    let length = u16::try_from(header.len()).map_err(io::Error::other)?;
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&length.to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    for value in rows.iter().flatten() {
        file.write_all(&value.to_le_bytes())?;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    #[test]
    fn layout_is_that_of_version_1() {
        let mut bytes = Vec::new();
        super::write(&mut bytes, &[vec![1.0, -2.0, 3.0], vec![0.5, f64::INFINITY, 0.0]], 3).unwrap();
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
        let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        assert_eq!((10 + header) % 64, 0);
        let text = std::str::from_utf8(&bytes[10..10 + header]).unwrap();
        assert_eq!(text.trim_end(), "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }");
        assert!(text.ends_with('\n'));
        assert_eq!(bytes.len(), 10 + header + 6 * 8);
        assert_eq!(&bytes[10 + header + 8..][..8], &(-2.0_f64).to_le_bytes());
    }
}
