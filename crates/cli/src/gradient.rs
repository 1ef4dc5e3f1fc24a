//! Derivatives of all outputs with respect to all inputs, and how they are printed.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// An input or an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variable {
    /// Its index on the tape.
    pub index: u64,
    /// Its value, if the tape knows.
    pub value: Option<f64>,
}

/// The Jacobian matrix of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient {
    /// Inputs in the order of declaration.
    pub inputs: Vec<Variable>,
    /// Outputs in the order of declaration.
    pub outputs: Vec<Variable>,
    /// A row for each output, with the derivative with respect to each input.
    pub rows: Vec<Vec<f64>>,
}

impl Gradient {
    /// Positions of the outputs whose derivatives are all zero.
    pub fn vanishing_rows(&self) -> Vec<usize> {
        let vanishes = |row: &[f64]| row.iter().all(|derivative| *derivative == 0.0);
        (0..self.rows.len()).filter(|row| vanishes(&self.rows[*row])).collect()
    }

    /// A table for people: the outputs' values, then a line for each input.
    pub fn table(&self) -> String {
        let mut outputs = vec![vec!["output".to_owned(), "value".to_owned()]];
        outputs.extend(
            (1..).zip(&self.outputs).map(|(number, output): (usize, _)| vec![number.to_string(), value(output)]),
        );
        let mut header = vec!["input".to_owned(), "value".to_owned()];
        if self.outputs.len() == 1 {
            header.push("derivative".to_owned());
        } else {
            header.extend((1..=self.outputs.len()).map(|number| format!("d(output {number})")));
        }
        let mut inputs = vec![header];
        for (position, input) in self.inputs.iter().enumerate() {
            let mut line = vec![(position + 1).to_string(), value(input)];
            line.extend(self.rows.iter().map(|row| number(row[position])));
            inputs.push(line);
        }
        format!("{}\n{}", aligned(&outputs), aligned(&inputs))
    }

    /// The same for programs. Numbers that JSON does not have are the strings `NaN`, `Infinity` and `-Infinity`, an
    /// unknown value is `null`.
    pub fn json(&self) -> Value {
        let variables = |variables: &[Variable]| -> Value {
            variables
                .iter()
                .map(|variable| json!({"index": variable.index, "value": variable.value.map(json_number)}))
                .collect()
        };
        json!({
            "inputs": variables(&self.inputs),
            "outputs": variables(&self.outputs),
            "derivatives": self.rows.iter().map(|row| row.iter().copied().map(json_number).collect()).collect::<Vec<Value>>(),
        })
    }
}

/// The shortest decimal that is read back as the same number.
pub fn number(value: f64) -> String {
    format!("{value:?}")
}

fn value(variable: &Variable) -> String {
    variable.value.map_or_else(|| "-".to_owned(), number)
}

fn json_number(value: f64) -> Value {
    if value.is_finite() {
        json!(value)
    } else if value.is_nan() {
        json!("NaN")
    } else {
        json!(if value > 0.0 { "Infinity" } else { "-Infinity" })
    }
}

/// Columns, right-aligned, two spaces between.
pub fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|column| lines.iter().map(|line| line[column].len()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        for (position, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let gap = if position == 0 { "" } else { "  " };
            // Writing to a string does not fail.
            let _ = write!(text, "{gap}{cell:>width$}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(index: u64, value: Option<f64>) -> Variable {
        Variable { index, value }
    }

    #[test]
    fn one_output() {
        let gradient = Gradient {
            inputs: vec![variable(1, Some(3.0)), variable(2, Some(-4.0))],
            outputs: vec![variable(4, Some(-12.0))],
            rows: vec![vec![-4.0, 3.0]],
        };
        let expected = "\
output  value
     1  -12.0

input  value  derivative
    1    3.0        -4.0
    2   -4.0         3.0
";
        assert_eq!(gradient.table(), expected);
        assert!(gradient.vanishing_rows().is_empty());
    }

    #[test]
    fn several_outputs() {
        let gradient = Gradient {
            inputs: vec![variable(1, None)],
            outputs: vec![variable(2, None), variable(3, Some(1e300))],
            rows: vec![vec![f64::NAN], vec![0.0]],
        };
        let expected = "\
output  value
     1      -
     2  1e300

input  value  d(output 1)  d(output 2)
    1      -          NaN          0.0
";
        assert_eq!(gradient.table(), expected);
        assert_eq!(gradient.vanishing_rows(), [1]);
        let expected = json!({
            "inputs": [{"index": 1, "value": null}],
            "outputs": [{"index": 2, "value": null}, {"index": 3, "value": 1e300}],
            "derivatives": [["NaN"], [0.0]],
        });
        assert_eq!(gradient.json(), expected);
    }
}
