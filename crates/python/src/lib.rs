//! The extension module `derivgrind._native`: what the Python package `derivgrind` cannot do in Python. It is private to the package, whose Python
//! modules check types and give it arrays that are contiguous and of the right type.

mod arrays;
mod call;
mod requests;
mod tape;

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(derivgrind, Error, PyRuntimeError, "Something went wrong with a recording or a call.");
create_exception!(derivgrind, TapeError, Error, "A recording is missing, incomplete or damaged.");
create_exception!(derivgrind, LoadError, Error, "A library cannot be loaded, or does not have a function.");
create_exception!(
    derivgrind,
    CallError,
    Error,
    "A function did not return: it crashed, ended its process, or wrote out of bounds."
);
create_exception!(derivgrind, CallTimeout, CallError, "A function did not return in time.");
create_exception!(derivgrind, PrototypeError, PyValueError, "A C prototype that cannot be used.");

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    for (name, exception) in [
        ("Error", py.get_type::<Error>()),
        ("TapeError", py.get_type::<TapeError>()),
        ("LoadError", py.get_type::<LoadError>()),
        ("CallError", py.get_type::<CallError>()),
        ("CallTimeout", py.get_type::<CallTimeout>()),
        ("PrototypeError", py.get_type::<PrototypeError>()),
    ] {
        module.add(name, exception)?;
    }
    module.add_class::<tape::Tape>()?;
    module.add_class::<call::Session>()?;
    module.add_function(wrap_pyfunction!(call::parse_prototype, module)?)?;
    module.add_function(wrap_pyfunction!(requests::input_float, module)?)?;
    module.add_function(wrap_pyfunction!(requests::output_float, module)?)?;
    module.add_function(wrap_pyfunction!(requests::input_array, module)?)?;
    module.add_function(wrap_pyfunction!(requests::output_array, module)?)?;
    module.add_function(wrap_pyfunction!(requests::set_dot_float, module)?)?;
    module.add_function(wrap_pyfunction!(requests::get_dot_float, module)?)?;
    module.add_function(wrap_pyfunction!(requests::set_dot_array, module)?)?;
    module.add_function(wrap_pyfunction!(requests::get_dot_array, module)?)?;
    module.add_function(wrap_pyfunction!(requests::mode, module)?)?;
    Ok(())
}
