//! Client requests for a script that runs under the tool.

use derivgrind_client::sequence::{Number, request};
use derivgrind_client::{self as dg, IndexFile, Mode};
use numpy::PyUntypedArray;
use pyo3::prelude::*;

use crate::arrays::Memory;

/// The number as an input.
#[pyfunction]
pub fn input_float(mut x: f64) -> f64 {
    dg::input(&mut x);
    x
}

/// Declares the number as an output.
#[pyfunction]
pub fn output_float(x: f64) -> f64 {
    dg::output(&x);
    x
}

fn declare(file: IndexFile, array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    let memory = Memory::of(array)?;
    request(0, Number::DeclareArray, [file as u64, memory.address(), memory.count as u64, memory.size as u64, 0]);
    Ok(())
}

/// Declares the elements as inputs, in place.
#[pyfunction]
pub fn input_array(array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    declare(IndexFile::Inputs, array)
}

/// Declares the elements as outputs.
#[pyfunction]
pub fn output_array(array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    declare(IndexFile::Outputs, array)
}

/// The number with a dot value.
#[pyfunction]
pub fn set_dot_float(mut x: f64, dot: f64) -> f64 {
    dg::set_dot_value(&mut x, dot);
    x
}

/// The number's dot value.
#[pyfunction]
pub fn get_dot_float(x: f64) -> f64 {
    dg::dot_value(&x)
}

fn each_dot(number: Number, x: &Bound<'_, PyUntypedArray>, dots: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    let (x, dots) = (Memory::of(x)?, Memory::of(dots)?);
    if (x.size, x.count) != (dots.size, dots.count) {
        return Err(pyo3::exceptions::PyValueError::new_err("values and dot values differ in shape or type"));
    }
    for offset in (0..x.bytes() as u64).step_by(x.size.max(1)) {
        request(0, number, [x.address() + offset, dots.address() + offset, x.size as u64, 0, 0]);
    }
    Ok(())
}

/// Sets the dot values of the elements, in place.
#[pyfunction]
pub fn set_dot_array(x: &Bound<'_, PyUntypedArray>, dots: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    each_dot(Number::SetDotValue, x, dots)
}

/// Copies the dot values of the elements to another array.
#[pyfunction]
pub fn get_dot_array(x: &Bound<'_, PyUntypedArray>, dots: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    each_dot(Number::GetDotValue, x, dots)
}

/// What the script runs under: `"native"`, `"forward"`, `"recording"` or `"bit-trick finder"`.
#[pyfunction]
pub fn mode() -> &'static str {
    match dg::mode() {
        Mode::Native => "native",
        Mode::Forward => "forward",
        Mode::Recording => "recording",
        Mode::BitTrickFinder => "bit-trick finder",
    }
}
