//! Client requests: how a program names its inputs and outputs to derivgrind.
//!
//! A request is a short sequence of instructions that does nothing at all on a processor and that derivgrind recognises
//! (see [`sequence`]). So the same executable runs with and without the tool, with the same results.
//!
//! ```
//! let mut x = 3.0;
//! derivgrind_client::input(&mut x);
//! let y = x * x;
//! derivgrind_client::output(&y);
//! ```
//!
//! Run under `derivgrind grad`, this program yields the derivative 6.
//!
//! The C and C++ headers with the same requests are in this crate's directory `include`; [`HEADER`] is the text of the main one. The
//! directory `fortran` has the module for Fortran programs.

mod real;
pub mod sequence;

pub use real::Real;
use sequence::{Number, request};

/// Text of the C and C++ header `derivgrind.h`.
pub const HEADER: &str = include_str!("../include/derivgrind.h");

/// Text of the C and C++ header `valgrind/derivgrind.h`, which includes the former.
pub const COMPATIBILITY_HEADER: &str = include_str!("../include/valgrind/derivgrind.h");

/// Text of the Fortran module `derivgrind_clientrequests`.
pub const FORTRAN_MODULE: &str = include_str!("../fortran/derivgrind_clientrequests.f90");

/// Text of the C file with the module's procedures.
pub const FORTRAN_REQUESTS: &str = include_str!("../fortran/requests.c");

/// Number of a block of the tape; 0 belongs to passive values.
pub type Index = u64;

/// What the program runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Neither of the following: requests have no effect.
    Native,
    /// Forward mode: dot values are carried along.
    Forward,
    /// Recording: operations go to a tape.
    Recording,
    /// Bit-trick finder.
    BitTrickFinder,
}

/// Which index file an index is appended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexFile {
    /// `dg-input-indices`
    Inputs = 0,
    /// `dg-output-indices`
    Outputs = 1,
}

/// The mode in which the program runs.
pub fn mode() -> Mode {
    match u8::try_from(request(0, Number::GetMode, [0; 5])) {
        Ok(b'd') => Mode::Forward,
        Ok(b'b') => Mode::Recording,
        Ok(b't') => Mode::BitTrickFinder,
        _ => Mode::Native,
    }
}

/// Declares a variable as an input and returns its new index, 0 if nothing is recorded.
pub fn input<T: Real>(variable: &mut T) -> Index {
    let created = new_index([0, 0], [0.0, 0.0], value_of(variable));
    set_index(variable, created);
    index_to_file(IndexFile::Inputs, created);
    created
}

/// Declares each element as an input, in order, by a single request.
pub fn inputs<T: Real>(variables: &mut [T]) {
    declare_array(IndexFile::Inputs, variables);
}

/// Declares a variable as an output and returns the output's index, 0 if nothing is recorded.
///
/// The output is a copy with an index of its own on the tape; the variable keeps its index. So each output is told from
/// another that happens to hold the same value.
pub fn output<T: Real>(variable: &T) -> Index {
    let copy = new_index([index(variable), 0], [1.0, 0.0], value_of(variable));
    index_to_file(IndexFile::Outputs, copy);
    copy
}

/// Declares each element as an output, in order, by a single request.
pub fn outputs<T: Real>(variables: &[T]) {
    declare_array(IndexFile::Outputs, variables);
}

fn declare_array<T: Real>(file: IndexFile, variables: &[T]) {
    let address = variables.as_ptr().addr() as u64;
    request(0, Number::DeclareArray, [file as u64, address, variables.len() as u64, size_of::<T>() as u64, 0]);
}

/// A variable's index: 0 if it is passive or if nothing is recorded.
pub fn index<T: Real>(variable: &T) -> Index {
    let mut index: Index = 0;
    request(0, Number::GetIndex, [address(variable), (&raw mut index).addr() as u64, size_of::<T>() as u64, 0, 0]);
    index
}

/// Gives a variable an index, such as one of [`new_index`]; 0 makes it passive.
pub fn set_index<T: Real>(variable: &mut T, index: Index) {
    request(0, Number::SetIndex, [address(variable), (&raw const index).addr() as u64, size_of::<T>() as u64, 0, 0]);
}

/// Records an operation by hand: its operands' indices, the partial derivatives with respect to them, the result's value.
/// Returns the result's index, 0 if nothing is recorded.
pub fn new_index(operands: [Index; 2], derivatives: [f64; 2], value: f64) -> Index {
    let mut created: Index = 0;
    let addresses: [u64; 6] = [
        (&raw const operands[0]).addr() as u64,
        (&raw const operands[1]).addr() as u64,
        (&raw const derivatives[0]).addr() as u64,
        (&raw const derivatives[1]).addr() as u64,
        (&raw mut created).addr() as u64,
        (&raw const value).addr() as u64,
    ];
    request(0, Number::NewIndexNoActivityAnalysis, [addresses.as_ptr().addr() as u64, 0, 0, 0, 0]);
    created
}

/// Appends an index to an index file.
pub fn index_to_file(file: IndexFile, index: Index) {
    request(0, Number::IndexToFile, [file as u64, (&raw const index).addr() as u64, 0, 0, 0]);
}

/// A variable's dot value in forward mode (in the first direction), otherwise 0.
pub fn dot_value<T: Real>(variable: &T) -> T {
    let mut dot = T::ZERO;
    request(0, Number::GetDotValue, [address(variable), (&raw mut dot).addr() as u64, size_of::<T>() as u64, 0, 0]);
    dot
}

/// Sets a variable's dot value in forward mode, in the first direction.
pub fn set_dot_value<T: Real>(variable: &mut T, dot: T) {
    request(0, Number::SetDotValue, [address(variable), (&raw const dot).addr() as u64, size_of::<T>() as u64, 0, 0]);
}

/// Number of directions in forward mode (`derivgrind --directions=N`), otherwise 0.
pub fn directions() -> usize {
    request(0, Number::GetDirections, [0; 5]) as usize
}

/// A variable's dot value in a direction of forward mode, counted from 0; otherwise 0.
pub fn dot_value_in<T: Real>(direction: usize, variable: &T) -> T {
    let mut dot = T::ZERO;
    let dot_address = (&raw mut dot).addr() as u64;
    let arguments = [address(variable), dot_address, size_of::<T>() as u64, direction as u64, 0];
    request(0, Number::GetDotValueDirection, arguments);
    dot
}

/// Sets a variable's dot value in a direction of forward mode, counted from 0.
pub fn set_dot_value_in<T: Real>(direction: usize, variable: &mut T, dot: T) {
    let dot_address = (&raw const dot).addr() as u64;
    let arguments = [address(variable), dot_address, size_of::<T>() as u64, direction as u64, 0];
    request(0, Number::SetDotValueDirection, arguments);
}

/// While it lives, nothing that the thread computes is differentiated, and its results are passive.
#[derive(Debug)]
pub struct Disabled(
    /// The counter belongs to a thread: the guard must not move to another.
    std::marker::PhantomData<*const ()>,
);

/// Switches differentiation off in the calling thread until the guard is dropped. Guards nest.
#[must_use = "differentiation is switched on again when the guard is dropped"]
pub fn disable() -> Disabled {
    request(0, Number::Disable, [1, 0, 0, 0, 0]);
    Disabled(std::marker::PhantomData)
}

impl Drop for Disabled {
    fn drop(&mut self) {
        request(0, Number::Disable, [0, 1, 0, 0, 0]);
    }
}

/// A variable's address as a word of a request.
fn address<T>(variable: &T) -> u64 {
    (&raw const *variable).addr() as u64
}

/// A variable's value for the user's eyes. The conversion must not show on the tape.
fn value_of<T: Real>(variable: &T) -> f64 {
    let _disabled = disable();
    // Opaque, so that the conversion stays between the two requests.
    std::hint::black_box(std::hint::black_box(*variable).to_f64())
}
