//! The memory of NumPy arrays of any type.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The elements of a contiguous array. The array stays alive as long as the value that this is made from.
#[derive(Clone, Copy)]
pub struct Memory {
    address: *mut u8,
    /// Bytes of an element.
    pub size: usize,
    /// Number of elements.
    pub count: usize,
}

// SAFETY: plain memory; the functions below say what their callers have to ensure.
unsafe impl Send for Memory {}

impl Memory {
    /// The memory of an array.
    ///
    /// # Errors
    /// If its elements are not side by side in C order.
    pub fn of(array: &Bound<'_, PyUntypedArray>) -> PyResult<Memory> {
        if !array.is_c_contiguous() {
            return Err(PyValueError::new_err("the array is not contiguous"));
        }
        // SAFETY: the array object is alive.
        let address = unsafe { (*array.as_array_ptr()).fields.data };
        Ok(Memory { address: address.cast(), size: array.dtype().itemsize(), count: array.len() })
    }

    /// Address of the first element.
    pub fn address(self) -> u64 {
        self.address.addr() as u64
    }

    /// Number of bytes.
    pub fn bytes(self) -> usize {
        self.size * self.count
    }

    /// The bytes.
    ///
    /// # Safety
    /// The array must live as long, and nobody may change it meanwhile.
    pub unsafe fn read<'a>(self) -> &'a [u8] {
        if self.bytes() == 0 {
            return &[];
        }
        // SAFETY: a contiguous array has so many bytes; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes()) }
    }

    /// The bytes, to be written.
    ///
    /// # Safety
    /// The array must live as long, and nobody may use it meanwhile.
    pub unsafe fn write<'a>(self) -> &'a mut [u8] {
        if self.bytes() == 0 {
            return &mut [];
        }
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.bytes()) }
    }
}
