//! Recordings.

use std::path::PathBuf;
use std::sync::Arc;

use derivgrind_tape::TapeError as Unusable;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::TapeError;

/// Records from which on threads help to decode a tape.
const LARGE: u64 = 1 << 17;

/// A recording.
#[pyclass(frozen, module = "derivgrind._native")]
pub struct Tape(Arc<derivgrind_tape::Tape>);

impl Tape {
    pub fn new(tape: derivgrind_tape::Tape) -> Tape {
        Tape(Arc::new(tape))
    }

    fn sweep(&self, py: Python<'_>, seeds: PyReadonlyArray2<'_, f64>, forward: bool) -> PyResult<Py<PyArray2<f64>>> {
        let rows = seeds.shape()[0];
        let results = if forward { self.0.outputs().len() } else { self.0.inputs().len() };
        let seeds: Vec<Vec<f64>> = seeds.as_array().rows().into_iter().map(|row| row.to_vec()).collect();
        let tape = Arc::clone(&self.0);
        let swept = py.detach(move || {
            let sweep = tape.sweep();
            let sweep = if tape.records() < LARGE { sweep.decoders(0) } else { sweep };
            if forward { sweep.forward(&seeds) } else { sweep.reverse(&seeds) }
        });
        let flat: Vec<f64> = swept.map_err(error)?.into_iter().flatten().collect();
        let array: Bound<'_, PyArray1<f64>> = flat.into_pyarray(py);
        use numpy::PyArrayMethods;
        Ok(array.reshape([rows, results])?.unbind())
    }
}

fn error(error: Unusable) -> PyErr {
    match error {
        Unusable::Seeds { .. } => PyValueError::new_err(error.to_string()),
        error => TapeError::new_err(error.to_string()),
    }
}

#[pymethods]
impl Tape {
    /// Opens the recording in a directory.
    #[new]
    fn open(directory: PathBuf) -> PyResult<Tape> {
        derivgrind_tape::Tape::open(&directory).map(Tape::new).map_err(error)
    }

    /// Number of inputs.
    #[getter]
    fn n_inputs(&self) -> usize {
        self.0.inputs().len()
    }

    /// Number of outputs.
    #[getter]
    fn n_outputs(&self) -> usize {
        self.0.outputs().len()
    }

    /// Number of operations.
    #[getter]
    fn n_records(&self) -> u64 {
        self.0.records()
    }

    /// Indices of the inputs.
    fn input_indices<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.0.inputs().to_vec().into_pyarray(py)
    }

    /// Indices of the outputs.
    fn output_indices<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.0.outputs().to_vec().into_pyarray(py)
    }

    /// From rows of bar values of the outputs to rows of bar values of the inputs.
    fn reverse(&self, py: Python<'_>, output_bars: PyReadonlyArray2<'_, f64>) -> PyResult<Py<PyArray2<f64>>> {
        self.sweep(py, output_bars, false)
    }

    /// From rows of dot values of the inputs to rows of dot values of the outputs.
    fn forward(&self, py: Python<'_>, input_dots: PyReadonlyArray2<'_, f64>) -> PyResult<Py<PyArray2<f64>>> {
        self.sweep(py, input_dots, true)
    }
}
