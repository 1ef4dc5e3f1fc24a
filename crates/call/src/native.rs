//! Calls of functions whose type is known only at run time, by the x86-64 System V ABI.

use std::arch::global_asm;
use std::ffi::{CStr, CString, c_void};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// General registers for arguments.
const INTEGERS: usize = 6;
/// Vector registers for arguments.
const REALS: usize = 8;

/// A call's arguments in the places where the ABI wants them, and its results.
///
/// An argument stays where [`Frame::argument`] finds it as long as no further one is added: it can be declared as an input there.
#[derive(Debug, Default)]
pub struct Frame {
    registers: Registers,
    used_integers: usize,
    used_reals: usize,
    on_stack: Vec<u64>,
}

/// What the calling routine reads and writes.
#[derive(Debug, Default)]
#[repr(C)]
struct Registers {
    function: u64,
    integers: [u64; INTEGERS],
    reals: [u64; REALS],
    stack: u64,
    stack_words: u64,
    integer_result: u64,
    real_result: u64,
}

/// Where an argument has been put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A general register.
    Integer(usize),
    /// A vector register.
    Real(usize),
    /// The stack.
    Stack(usize),
}

impl Frame {
    /// A call of the function at an address.
    pub fn new(function: u64) -> Frame {
        Frame { registers: Registers { function, ..Registers::default() }, ..Frame::default() }
    }

    /// Adds an integer or an address.
    pub fn integer(&mut self, bits: u64) -> Slot {
        if self.used_integers == INTEGERS {
            return self.push(bits);
        }
        self.registers.integers[self.used_integers] = bits;
        self.used_integers += 1;
        Slot::Integer(self.used_integers - 1)
    }

    /// Adds a real number.
    pub fn real(&mut self, bits: u64) -> Slot {
        if self.used_reals == REALS {
            return self.push(bits);
        }
        self.registers.reals[self.used_reals] = bits;
        self.used_reals += 1;
        Slot::Real(self.used_reals - 1)
    }

    fn push(&mut self, bits: u64) -> Slot {
        self.on_stack.push(bits);
        Slot::Stack(self.on_stack.len() - 1)
    }

    /// The eight bytes of an argument.
    pub fn argument(&mut self, slot: Slot) -> &mut u64 {
        match slot {
            Slot::Integer(number) => &mut self.registers.integers[number],
            Slot::Real(number) => &mut self.registers.reals[number],
            Slot::Stack(number) => &mut self.on_stack[number],
        }
    }

    /// Calls the function.
    ///
    /// # Safety
    /// The address must be that of a function that takes these arguments.
    pub unsafe fn call(&mut self) {
        self.registers.stack = self.on_stack.as_ptr().addr() as u64;
        self.registers.stack_words = self.on_stack.len() as u64;
        // SAFETY: the registers hold what the routine expects; the rest is the caller's promise.
        unsafe { derivgrind_call_frame(&raw mut self.registers) };
    }

    /// The integer result.
    pub fn integer_result(&self) -> u64 {
        self.registers.integer_result
    }

    /// The real result.
    pub fn real_result(&mut self) -> &mut u64 {
        &mut self.registers.real_result
    }
}

unsafe extern "C" {
    /// Calls what the registers describe and leaves both results in them.
    fn derivgrind_call_frame(registers: *mut Registers);
}

// RBX holds the address of the registers during the call. Real numbers are moved through vector registers only, so that under the tool their shadow takes the
// same way. RAX says how many vector registers hold arguments, for functions with variable arguments.
global_asm!(
    ".globl derivgrind_call_frame",
    ".hidden derivgrind_call_frame",
    ".type derivgrind_call_frame, @function",
    ".p2align 4",
    "derivgrind_call_frame:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "push rbx",
    ".cfi_offset rbx, -24",
    "push r12",
    "mov rbx, rdi",
    "mov rcx, [rbx + {stack_words}]",
    "mov rsi, [rbx + {stack}]",
    "lea rax, [rcx * 8 + 15]",
    "and rax, -16",
    "sub rsp, rax",
    "xor edx, edx",
    "2: cmp rdx, rcx",
    "jae 3f",
    "movsd xmm0, [rsi + rdx * 8]",
    "movsd [rsp + rdx * 8], xmm0",
    "inc rdx",
    "jmp 2b",
    "3:",
    "movsd xmm0, [rbx + {reals}]",
    "movsd xmm1, [rbx + {reals} + 8]",
    "movsd xmm2, [rbx + {reals} + 16]",
    "movsd xmm3, [rbx + {reals} + 24]",
    "movsd xmm4, [rbx + {reals} + 32]",
    "movsd xmm5, [rbx + {reals} + 40]",
    "movsd xmm6, [rbx + {reals} + 48]",
    "movsd xmm7, [rbx + {reals} + 56]",
    "mov rdi, [rbx + {integers}]",
    "mov rsi, [rbx + {integers} + 8]",
    "mov rdx, [rbx + {integers} + 16]",
    "mov rcx, [rbx + {integers} + 24]",
    "mov r8, [rbx + {integers} + 32]",
    "mov r9, [rbx + {integers} + 40]",
    "mov eax, 8",
    "call [rbx + {function}]",
    "mov [rbx + {integer_result}], rax",
    "movsd [rbx + {real_result}], xmm0",
    "lea rsp, [rbp - 16]",
    "pop r12",
    "pop rbx",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    stack = const offset_of!(Registers, stack),
    stack_words = const offset_of!(Registers, stack_words),
    integers = const offset_of!(Registers, integers),
    reals = const offset_of!(Registers, reals),
    function = const offset_of!(Registers, function),
    integer_result = const offset_of!(Registers, integer_result),
    real_result = const offset_of!(Registers, real_result),
);

/// A shared object that stays loaded.
#[derive(Debug)]
pub struct Library {
    handle: *mut c_void,
    path: String,
}

impl Library {
    /// Loads a shared object. A name without a slash is looked for in the working directory first, then where the dynamic linker looks.
    ///
    /// # Errors
    /// What the dynamic linker says.
    pub fn open(path: &Path) -> Result<Library, String> {
        let shown = path.display().to_string();
        let local = Path::new(".").join(path);
        let path = if !path.as_os_str().as_bytes().contains(&b'/') && local.is_file() { &local } else { path };
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| format!("{shown:?} is no file name"))?;
        // SAFETY: runs the library's initialisers, which is what loading it means.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(format!("cannot load the library {shown}: {}", linker_error()));
        }
        Ok(Library { handle, path: shown })
    }

    /// The address of a function.
    ///
    /// # Errors
    /// If the library has no symbol of this name.
    pub fn function(&self, symbol: &str) -> Result<u64, String> {
        let name = CString::new(symbol).map_err(|_| format!("{symbol:?} is no symbol name"))?;
        // SAFETY: a handle of dlopen and a zero-terminated name.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if address.is_null() {
            return Err(format!(
                "the library {} has no function {symbol}: {}; `nm -D {}` lists what it has (Fortran adds an underscore, C++ needs extern \"C\")",
                self.path,
                linker_error(),
                self.path
            ));
        }
        Ok(address.addr() as u64)
    }
}

/// The dynamic linker's last message.
fn linker_error() -> String {
    // SAFETY: the message is a zero-terminated string until the next call.
    unsafe {
        let message = libc::dlerror();
        if message.is_null() {
            "no reason given".to_owned()
        } else {
            CStr::from_ptr(message).to_string_lossy().into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each register and the stack: ten reals and nine integers, weighted by position.
    #[allow(clippy::too_many_arguments)]
    extern "C" fn many(
        a: f64,
        i: i64,
        b: f64,
        j: i64,
        c: f64,
        k: i64,
        d: f64,
        l: i64,
        e: f64,
        m: i64,
        f: f64,
        n: i64,
        g: f64,
        o: i64,
        h: f64,
        p: i64,
        q: f64,
        r: i64,
        s: f64,
    ) -> f64 {
        let reals = [a, b, c, d, e, f, g, h, q, s];
        let integers = [i, j, k, l, m, n, o, p, r];
        let reals: f64 = (1..).zip(reals).map(|(weight, value): (i32, f64)| f64::from(weight) * value).sum();
        let integers: i64 = (1..).zip(integers).map(|(weight, value): (i64, i64)| weight * value).sum();
        reals + 1000.0 * integers as f64
    }

    #[test]
    fn arguments_arrive_in_registers_and_on_the_stack() {
        let mut frame = Frame::new(many as *const () as usize as u64);
        let mut slots = Vec::new();
        for number in 0..19_u32 {
            slots.push(if number % 2 == 0 {
                frame.real(f64::from(number).to_bits())
            } else {
                frame.integer(number.into())
            });
        }
        assert_eq!(slots[16..], [Slot::Stack(2), Slot::Stack(3), Slot::Stack(4)]);
        // SAFETY: the function takes these arguments.
        unsafe { frame.call() };
        let reals: f64 = (1..=10).map(|weight| f64::from(weight * 2 * (weight - 1))).sum();
        let integers: f64 = (1..=9).map(|weight| f64::from(weight * (2 * weight - 1))).sum();
        assert_eq!(f64::from_bits(*frame.real_result()), reals + 1000.0 * integers);
    }

    #[test]
    fn a_missing_library_or_function_is_named() {
        let error = Library::open(Path::new("/nowhere/lib.so")).unwrap_err();
        assert!(error.contains("/nowhere/lib.so"), "{error}");
        let error = Library::open(Path::new("libc.so.6")).unwrap().function("no_such_function").unwrap_err();
        assert!(error.contains("no_such_function") && error.contains("libc.so.6"), "{error}");
    }
}
