//! Access to application memory that may turn out not to be mapped, as the kernel's `copy_from_user`.

use std::arch::global_asm;
use std::ffi::{CString, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt;

use super::{APP_END, PAGE, SHADOW_STRIDE, growth};

/// The address is not mapped with the access that was needed: `EFAULT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("application memory at {0:#x} is not accessible")]
pub struct Fault(
    /// First address that could not be accessed.
    pub u64,
);

/// Types that any bytes are a valid value of and that have no padding to speak of.
///
/// # Safety
/// Every bit pattern must be valid for the type.
pub unsafe trait Plain: Copy {}
// SAFETY: integers.
unsafe impl Plain for u8 {}
// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for i32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: an array of such.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Reads a value from application memory.
pub fn read<T: Plain>(address: u64) -> Result<T, Fault> {
    let mut value = MaybeUninit::<T>::uninit();
    check_window(address, size_of::<T>())?;
    // SAFETY: the destination has this size.
    let rest = unsafe { copy_from(address, value.as_mut_ptr().cast(), size_of::<T>()) };
    if rest == 0 {
        // SAFETY: all bytes were written, and any bytes are a valid `T`.
        Ok(unsafe { value.assume_init() })
    } else {
        Err(Fault(address + (size_of::<T>() - rest) as u64))
    }
}

/// Writes a value to application memory.
pub fn write<T: Plain>(address: u64, value: T) -> Result<(), Fault> {
    // SAFETY: `Plain` values have no uninitialised bytes.
    write_bytes(address, unsafe { std::slice::from_raw_parts((&raw const value).cast(), size_of::<T>()) })
}

/// Reads bytes from application memory.
pub fn read_bytes(address: u64, into: &mut [u8]) -> Result<(), Fault> {
    check_window(address, into.len())?;
    // SAFETY: the destination has this length.
    match unsafe { copy_from(address, into.as_mut_ptr(), into.len()) } {
        0 => Ok(()),
        rest => Err(Fault(address + (into.len() - rest) as u64)),
    }
}

/// Copies application memory to memory of ours; returns how many bytes were left at what is not accessible.
///
/// # Safety
/// The destination has `length` bytes.
unsafe fn copy_from(address: u64, to: *mut u8, length: usize) -> usize {
    // SAFETY: the destination is as the caller promises; the routine stops at a fault.
    let copy = || unsafe { derivgrind_copy(to, address as *const u8, length) };
    let rest = copy();
    // Once more, too, if it is another thread that has made the mapping grow.
    if rest != 0 && growth::grow_for_access(address + (length - rest) as u64) { copy() } else { rest }
}

/// Writes bytes to application memory.
pub fn write_bytes(address: u64, bytes: &[u8]) -> Result<(), Fault> {
    check_window(address, bytes.len())?;
    crate::lockstep::written(address, bytes.len() as u64);
    // SAFETY: the destination lies in the application window, which holds no Rust objects; the routine stops at a fault.
    let copy = || unsafe { derivgrind_copy(address as *mut u8, bytes.as_ptr(), bytes.len()) };
    let mut rest = copy();
    if rest != 0 && super::guard::release(address..address + bytes.len() as u64) {
        rest = copy();
    }
    if rest != 0 && growth::grow_for_access(address + (bytes.len() - rest) as u64) {
        rest = copy();
    }
    if rest == 0 { Ok(()) } else { Err(Fault(address + (bytes.len() - rest) as u64)) }
}

/// Reads a shadow layer of application memory, counted from 0. What is not mapped reads as passive.
pub fn read_layer(layer: usize, address: u64, into: &mut [u8]) {
    into.fill(0);
    if has_layer(layer) && check_window(address, into.len()).is_ok() {
        let from = (address + (layer as u64 + 1) * SHADOW_STRIDE) as *const u8;
        // SAFETY: the destination is ours; the routine stops at a fault.
        unsafe { derivgrind_copy(into.as_mut_ptr(), from, into.len()) };
    }
}

/// Writes a shadow layer of application memory, counted from 0, as far as it is mapped.
pub fn write_layer(layer: usize, address: u64, bytes: &[u8]) {
    if has_layer(layer) && check_window(address, bytes.len()).is_ok() {
        let to = (address + (layer as u64 + 1) * SHADOW_STRIDE) as *mut u8;
        // SAFETY: the destination lies in the shadow range, which holds no Rust objects; the routine stops at a fault.
        unsafe { derivgrind_copy(to, bytes.as_ptr(), bytes.len()) };
    }
}

/// Reads the first shadow layer of application memory. What is not mapped reads as passive.
pub fn read_shadow(address: u64, into: &mut [u8]) {
    read_layer(0, address, into);
}

/// Writes the first shadow layer of application memory, as far as it is mapped.
pub fn write_shadow(address: u64, bytes: &[u8]) {
    write_layer(0, address, bytes);
}

/// Whether a shadow layer exists. The first one always does for code that uses shadow at all.
fn has_layer(layer: usize) -> bool {
    layer == 0 || layer < super::shadow_layers() as usize
}

/// Reads a zero-terminated string of at most `limit` bytes; `None` if it is longer.
pub fn read_string(address: u64, limit: usize) -> Result<Option<CString>, Fault> {
    let mut bytes = Vec::new();
    while bytes.len() < limit {
        let at = address + bytes.len() as u64;
        let mut chunk = [0u8; 256];
        // Not across a page boundary: the string may end just before an unmapped page.
        let length = ((PAGE - at % PAGE) as usize).min(chunk.len());
        read_bytes(at, &mut chunk[..length])?;
        if let Some(end) = chunk[..length].iter().position(|&byte| byte == 0) {
            bytes.extend_from_slice(&chunk[..end]);
            return Ok(CString::new(bytes).ok());
        }
        bytes.extend_from_slice(&chunk[..length]);
    }
    Ok(None)
}

/// Reads a null-terminated array of string pointers, as `execve` takes them. A null pointer is an empty array.
pub fn read_string_array(address: u64) -> Result<Vec<OsString>, Fault> {
    /// As the kernel's limit of a single string (`MAX_ARG_STRLEN`).
    const LONGEST: usize = 128 * 1024;
    let mut strings = Vec::new();
    if address == 0 {
        return Ok(strings);
    }
    for index in 0.. {
        let pointer: u64 = read(address + 8 * index)?;
        if pointer == 0 {
            break;
        }
        let string = read_string(pointer, LONGEST)?.ok_or(Fault(pointer))?;
        strings.push(OsString::from_vec(string.into_bytes()));
    }
    Ok(strings)
}

fn check_window(address: u64, length: usize) -> Result<(), Fault> {
    match address.checked_add(length as u64) {
        Some(end) if end <= APP_END => Ok(()),
        _ => Err(Fault(address)),
    }
}

unsafe extern "C" {
    /// Copies `length` bytes; returns how many were left when an access faulted, else 0.
    fn derivgrind_copy(to: *mut u8, from: *const u8, length: usize) -> usize;
    static derivgrind_copy_begin: u8;
    static derivgrind_copy_end: u8;
}

/// Where a fault in the copying routine continues: for the signal handler.
pub(crate) fn fault_continuation(pc: u64) -> Option<u64> {
    let begin = &raw const derivgrind_copy_begin as u64;
    let end = &raw const derivgrind_copy_end as u64;
    (begin..end).contains(&pc).then_some(end)
}

// `rep movsb` keeps the number of bytes left in RCX when it faults.
global_asm!(
    ".globl derivgrind_copy, derivgrind_copy_begin, derivgrind_copy_end",
    ".hidden derivgrind_copy, derivgrind_copy_begin, derivgrind_copy_end",
    ".p2align 4",
    "derivgrind_copy:",
    "mov rcx, rdx",
    "derivgrind_copy_begin:",
    "rep movsb",
    "derivgrind_copy_end:",
    "mov rax, rcx",
    "ret",
);
