//! The evaluator's text files: bar and dot values, one number a line.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use crate::error::{Result, TapeError};
use crate::index_list::shorten;

/// Reads numbers, which must be as many as there are variables. `value` and `variables` are for messages: "bar value", "outputs".
///
/// `inf`, `-inf` and `nan` are numbers, too. Blank lines and spaces around numbers are ignored.
///
/// # Errors
/// [`TapeError::Line`] with the first line that is no number, or where there is a number too many or too few.
pub fn read(path: &Path, expected: usize, value: &str, variables: &str) -> Result<Vec<f64>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(TapeError::NoValues {
                path: path.to_owned(),
                wanted: format!("{expected} lines, a {value} for each of the {variables}"),
            });
        }
        Err(source) => return Err(TapeError::io("read", path, source)),
    };
    let text = String::from_utf8_lossy(&text);
    let mut values = Vec::with_capacity(expected);
    let mut line = 0;
    let error = |line, what| Err(TapeError::Line { path: path.to_owned(), line, what });
    for (number, content) in (1..).zip(text.lines()) {
        line = number;
        for word in content.split_whitespace() {
            let Ok(parsed) = word.parse::<f64>() else {
                return error(line, format!("expected a {value}, found {:?}", shorten(word)));
            };
            if values.len() == expected {
                return error(line, format!("one {value} too many: the recording has {expected} {variables}"));
            }
            values.push(parsed);
        }
    }
    if values.len() < expected {
        let found = values.len();
        return error(
            line + 1,
            format!("the file ends after {found} numbers, but the recording has {expected} {variables}"),
        );
    }
    Ok(values)
}

/// Writes numbers so that reading them gives the same ones.
///
/// # Errors
/// [`TapeError::Io`].
pub fn write(path: &Path, values: &[f64]) -> Result<()> {
    let mut text = String::with_capacity(24 * values.len());
    for value in values {
        // Rust prints the shortest decimal number that reads back as the same double. Writing to a String does not fail.
        let _ = writeln!(text, "{value:?}");
    }
    fs::write(path, text).map_err(|source| TapeError::io("write", path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str, expected: usize) -> Result<Vec<f64>, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dg-output-bars");
        fs::write(&path, text).unwrap();
        read(&path, expected, "bar value", "outputs").map_err(|error| {
            let message = error.to_string();
            message[message.find("dg-output-bars").expect("the message names the file")..].to_owned()
        })
    }

    #[test]
    fn messages_name_file_and_line() {
        assert_eq!(read_text("1\n-2.5e3\n\n inf \nnan", 4).unwrap()[..3], [1.0, -2500.0, f64::INFINITY]);
        assert_eq!(
            read_text("1\ntwo\n", 2).unwrap_err(),
            "dg-output-bars, line 2: expected a bar value, found \"two\""
        );
        let many = "dg-output-bars, line 3: one bar value too many: the recording has 2 outputs";
        assert_eq!(read_text("1\n2\n3\n", 2).unwrap_err(), many);
        let few = "dg-output-bars, line 2: the file ends after 1 numbers, but the recording has 2 outputs";
        assert_eq!(read_text("1\n", 2).unwrap_err(), few);
        let long = read_text(&"x".repeat(1000), 1).unwrap_err();
        assert!(long.len() < 120, "{long}");
        assert!(read_text("\u{fffd}\0", 1).is_err());
        let missing =
            read(Path::new("/nonexistent/dg-output-bars"), 3, "bar value", "outputs").unwrap_err().to_string();
        assert!(missing.contains("3 lines, a bar value for each of the outputs"), "{missing}");
    }

    #[test]
    fn written_numbers_read_back_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("values");
        let values = [0.1, -0.0, 1e300, 5e-324, f64::MAX, 1.0 / 3.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        write(&path, &values).unwrap();
        let back = read(&path, values.len(), "value", "variables").unwrap();
        for (value, back) in values.iter().zip(&back) {
            assert!(value.to_bits() == back.to_bits() || value.is_nan() && back.is_nan(), "{value} {back}");
        }
    }
}
