//! `derivgrind-library-caller LIB FUNCTION double|float nParam nInput nOutput DIR`: calls a function of the signature
//! `void f(int nParam, char* params, int nInput, T* inputs, int nOutput, T* outputs)`.
//!
//! DIR has the files `dg-libcaller-params` and `dg-libcaller-inputs`, binary; `dg-libcaller-outputs` is written there. Run under derivgrind, inputs and
//! outputs are declared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use derivgrind_call::native::{Frame, Library};
use derivgrind_client::Real;

const USAGE: &str = "usage: derivgrind-library-caller LIB FUNCTION double|float nParam nInput nOutput DIR";

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("derivgrind-library-caller: {error}");
            ExitCode::from(if error == USAGE { 2 } else { 1 })
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let [library, function, real, params, inputs, outputs, directory] = arguments else { return Err(USAGE.to_owned()) };
    let count = |what: &str, text: &str| {
        let count = text.parse::<i32>().ok().and_then(|count| usize::try_from(count).ok());
        count.ok_or_else(|| format!("{what} has to be a number from 0 to {}, not {text:?}", i32::MAX))
    };
    let call = CallFiles {
        function: Library::open(Path::new(library))?.function(function)?,
        params: count("nParam", params)?,
        inputs: count("nInput", inputs)?,
        outputs: count("nOutput", outputs)?,
        directory: PathBuf::from(directory),
    };
    match real.as_str() {
        "double" => call.perform(f64::from_le_bytes, f64::to_le_bytes),
        "float" => call.perform(f32::from_le_bytes, f32::to_le_bytes),
        other => Err(format!("the type has to be double or float, not {other:?}")),
    }
}

/// A call with its files.
struct CallFiles {
    function: u64,
    params: usize,
    inputs: usize,
    outputs: usize,
    directory: PathBuf,
}

impl CallFiles {
    fn perform<T: Real, const BYTES: usize>(
        &self,
        from: fn([u8; BYTES]) -> T,
        to: fn(T) -> [u8; BYTES],
    ) -> Result<(), String> {
        let mut params = self.read("dg-libcaller-params", self.params)?;
        let inputs = self.read("dg-libcaller-inputs", self.inputs * BYTES)?;
        let number = |bytes: &[u8]| from(std::array::from_fn(|k| bytes[k]));
        let mut inputs: Vec<T> = inputs.chunks_exact(BYTES).map(number).collect();
        let mut outputs = vec![T::ZERO; self.outputs];
        derivgrind_client::inputs(&mut inputs);
        let mut frame = Frame::new(self.function);
        frame.integer(self.params as u64);
        frame.integer(params.as_mut_ptr().addr() as u64);
        frame.integer(self.inputs as u64);
        frame.integer(inputs.as_mut_ptr().addr() as u64);
        frame.integer(self.outputs as u64);
        frame.integer(outputs.as_mut_ptr().addr() as u64);
        // The buffers' addresses are in the frame as numbers: the compiler has to know that they are used.
        std::hint::black_box((&mut params, &mut inputs, &mut outputs));
        // SAFETY: the command line promises that the function has this signature.
        unsafe { frame.call() };
        std::hint::black_box((&mut params, &mut inputs, &mut outputs));
        derivgrind_client::outputs(&outputs);
        let path = self.directory.join("dg-libcaller-outputs");
        let bytes: Vec<u8> = outputs.into_iter().flat_map(to).collect();
        fs::write(&path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    fn read(&self, name: &str, expected: usize) -> Result<Vec<u8>, String> {
        let path = self.directory.join(name);
        let bytes = match fs::read(&path) {
            // A function without parameters needs no file.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && expected == 0 => Vec::new(),
            other => other.map_err(|error| format!("cannot read {}: {error}", path.display()))?,
        };
        if bytes.len() != expected {
            return Err(format!("{} has {} bytes instead of {expected}", path.display(), bytes.len()));
        }
        Ok(bytes)
    }
}
