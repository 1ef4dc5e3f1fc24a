//! Calls of library functions.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use derivgrind_call::prototype::{Kind, Scalar};
use derivgrind_call::{ArrayValue, CallError as Failure, Mode, Patience, Prototype, Tools, Value};
use numpy::PyUntypedArray;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arrays::Memory;
use crate::tape::Tape;
use crate::{CallError, CallTimeout, Error, LoadError, PrototypeError, TapeError};

/// A parameter: name, whether it is a pointer, dtype, whether the function only reads what it points to.
type ParsedParameter = (String, bool, String, bool);

/// Reads a C prototype: the function's name, the dtype of its result or `None`, its parameters.
#[pyfunction]
pub fn parse_prototype(text: &str) -> PyResult<(String, Option<String>, Vec<ParsedParameter>)> {
    let prototype = Prototype::parse(text).map_err(|error| PrototypeError::new_err(error.to_string()))?;
    let parameters = prototype.parameters.into_iter().map(|parameter| match parameter.kind {
        Kind::Value(scalar) => (parameter.name, false, scalar.to_string(), true),
        Kind::Pointer { to, constant } => (parameter.name, true, to.to_string(), constant),
    });
    Ok((prototype.name, prototype.result.map(|scalar| scalar.to_string()), parameters.collect()))
}

/// The type with a dtype's name.
fn scalar(dtype: &str) -> PyResult<Scalar> {
    let integer = |name: &str, signed| {
        let bits: u8 = name.parse().ok()?;
        Some(Scalar::Integer { bytes: bits / 8, signed })
    };
    let found = match dtype {
        "float64" => Some(Scalar::Double),
        "float32" => Some(Scalar::Float),
        other => match other.strip_prefix("uint") {
            Some(bits) => integer(bits, false),
            None => other.strip_prefix("int").and_then(|bits| integer(bits, true)),
        },
    };
    found.ok_or_else(|| PyValueError::new_err(format!("no type {dtype}")))
}

/// The result of a function, from its bits.
fn result(py: Python<'_>, scalar: Option<Scalar>, bits: u64) -> PyResult<Py<PyAny>> {
    Ok(match scalar {
        None => py.None(),
        Some(Scalar::Double) => f64::from_bits(bits).into_pyobject(py)?.into_any().unbind(),
        Some(Scalar::Float) => f64::from(f32::from_bits(bits as u32)).into_pyobject(py)?.into_any().unbind(),
        Some(Scalar::Integer { bytes, signed }) => {
            let shift = 64 - 8 * u32::from(bytes.clamp(1, 8));
            if signed {
                ((bits << shift) as i64 >> shift).into_pyobject(py)?.into_any().unbind()
            } else {
                (bits << shift >> shift).into_pyobject(py)?.into_any().unbind()
            }
        }
    })
}

/// An argument, without Python.
enum Argument {
    Integer(u64),
    Float(f32),
    Double(f64),
    Null,
    Array {
        name: String,
        size: usize,
        count: usize,
        source: Option<Memory>,
        target: Option<Memory>,
        input: bool,
        output: bool,
    },
}

impl Argument {
    /// From `None`, `(dtype, number)` or `(name, source array or None, target array or None, input, output)`.
    fn from_python(object: &Bound<'_, PyAny>) -> PyResult<Argument> {
        if object.is_none() {
            return Ok(Argument::Null);
        }
        let tuple = object.cast::<PyTuple>()?;
        if tuple.len() == 2 {
            let number = tuple.get_item(1)?;
            return Ok(match scalar(&tuple.get_item(0)?.extract::<String>()?)? {
                Scalar::Double => Argument::Double(number.extract()?),
                Scalar::Float => Argument::Float(number.extract()?),
                Scalar::Integer { signed: true, .. } => Argument::Integer(number.extract::<i64>()? as u64),
                Scalar::Integer { signed: false, .. } => Argument::Integer(number.extract()?),
            });
        }
        type Parts<'py> = (String, Option<Bound<'py, PyUntypedArray>>, Option<Bound<'py, PyUntypedArray>>, bool, bool);
        let (name, source, target, input, output): Parts<'_> = tuple.extract()?;
        let memory = |array: Option<&Bound<'_, PyUntypedArray>>| array.map(Memory::of).transpose();
        let (source, target) = (memory(source.as_ref())?, memory(target.as_ref())?);
        let some = source.or(target).ok_or_else(|| PyTypeError::new_err("an array is missing"))?;
        if target.is_some_and(|target| (target.size, target.count) != (some.size, some.count)) {
            return Err(PyValueError::new_err("source and target differ in size"));
        }
        Ok(Argument::Array { name, size: some.size, count: some.count, source, target, input, output })
    }

    /// For the session.
    ///
    /// # Safety
    /// The arrays must live as long as the value, and nobody else may use them meanwhile.
    unsafe fn value(&self) -> Value<'_> {
        match self {
            Argument::Integer(bits) => Value::Integer(*bits),
            Argument::Float(value) => Value::Float(*value),
            Argument::Double(value) => Value::Double(*value),
            Argument::Null => Value::Null,
            Argument::Array { name, size, count, source, target, input, output } => Value::Array(ArrayValue {
                size: *size,
                count: *count,
                // SAFETY: the caller's promise.
                source: source.map(|memory| unsafe { memory.read() }),
                // SAFETY: the caller's promise.
                target: target.map(|memory| unsafe { memory.write() }),
                input: *input,
                output: *output,
                name,
            }),
        }
    }
}

/// A library in a process of its own.
#[pyclass(frozen, module = "derivgrind._native")]
pub struct Session(Mutex<derivgrind_call::Session>);

impl Session {
    /// Does something with the session without holding Python's lock, but listens to Ctrl-C.
    fn act<T: Send>(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        act: impl FnOnce(&mut derivgrind_call::Session, &mut Patience<'_>) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        let timeout = timeout.map(Duration::try_from_secs_f64).transpose();
        let timeout = timeout.map_err(|error| PyValueError::new_err(format!("timeout: {error}")))?;
        let mut raised = None;
        let outcome = py.detach(|| {
            let mut session = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut give_up = || match Python::attach(|py| py.check_signals()) {
                Ok(()) => false,
                Err(error) => {
                    raised = Some(error);
                    true
                }
            };
            act(&mut session, &mut Patience { timeout, give_up: &mut give_up })
        });
        match (outcome, raised) {
            (Err(Failure::Interrupted), Some(raised)) => Err(raised),
            (outcome, _) => outcome.map_err(exception),
        }
    }
}

fn exception(error: Failure) -> PyErr {
    let text = error.to_string();
    match error {
        Failure::Load(_) => LoadError::new_err(text),
        Failure::Start(_) | Failure::Communication(_) => Error::new_err(text),
        Failure::Tape(_) => TapeError::new_err(text),
        Failure::Timeout { .. } => CallTimeout::new_err(text),
        Failure::Refused(_) | Failure::Died(_) | Failure::OutOfBounds(_) | Failure::Interrupted => {
            CallError::new_err(text)
        }
    }
}

#[pymethods]
impl Session {
    /// A session for a library, with the commands of one of these directories or of `PATH`. With `recording`, calls can be recorded.
    #[new]
    fn new(library: PathBuf, recording: bool, commands: Vec<PathBuf>) -> PyResult<Session> {
        let tools = Tools::find(&commands).map_err(Error::new_err)?;
        let mode = if recording { Mode::Recording } else { Mode::Native };
        Ok(Session(Mutex::new(derivgrind_call::Session::new(tools, &library, mode))))
    }

    /// Starts the process without waiting for it.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        self.act(py, None, |session, _| session.start())
    }

    /// Loads the library and looks for a function.
    fn find(&self, py: Python<'_>, symbol: &str) -> PyResult<()> {
        self.act(py, None, |session, patience| session.find(symbol, patience))
    }

    /// Calls a function: its result, the recording or `None`, and what was not differentiated.
    fn call(
        &self,
        py: Python<'_>,
        symbol: &str,
        result_type: Option<&str>,
        arguments: Vec<Bound<'_, PyAny>>,
        record: bool,
        timeout: Option<f64>,
    ) -> PyResult<(Py<PyAny>, Option<Tape>, String)> {
        let result_type = result_type.map(scalar).transpose()?;
        let prepared: Vec<Argument> = arguments.iter().map(Argument::from_python).collect::<PyResult<_>>()?;
        let outcome = self.act(py, timeout, move |session, patience| {
            // SAFETY: `arguments` keeps the arrays alive, and the package hands over arrays that are its own.
            let mut values: Vec<Value<'_>> = prepared.iter().map(|argument| unsafe { argument.value() }).collect();
            session.call(symbol, result_type, &mut values, record, patience)
        })?;
        Ok((result(py, result_type, outcome.bits)?, outcome.tape.map(Tape::new), outcome.notes))
    }

    /// Ends the process.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).close());
    }
}
