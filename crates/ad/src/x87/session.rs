//! Computation in 80 bits beside the program's own.

use std::arch::asm;
use std::cell::{Cell, UnsafeCell};

use super::{Extended, software};

/// What `fnsave` stores in 64-bit code (Intel SDM volume 1, figure 8-9).
#[repr(C, align(16))]
struct Image([u8; 108]);

/// Arithmetic in 80 bits, rounded to nearest, with all exceptions masked, of which the program sees nothing.
///
/// What is not done by integer arithmetic is done by the processor's x87 unit: from the first such operation on until the session is dropped the unit is
/// ours. Then the program finds all of its state again: registers, tags, control word, status word with flags and TOP. Meanwhile nobody else may
/// look at it.
pub struct Session {
    /// The program's state, once the unit is ours.
    image: UnsafeCell<Image>,
    is_ours: Cell<bool>,
}

impl Session {
    /// A session that has not touched the x87 unit yet.
    pub fn begin() -> Session {
        Session { image: UnsafeCell::new(Image([0; 108])), is_ours: Cell::new(false) }
    }

    /// Puts the program's state aside.
    fn take(&self) {
        if !self.is_ours.replace(true) {
            // SAFETY: stores 108 bytes to a buffer of that size, of which there are no references, and initialises the unit, which no Rust code
            // relies on.
            unsafe { asm!("fnsave [{}]", in(reg) self.image.get(), options(nostack, preserves_flags)) };
        }
    }

    /// `a + b`
    pub fn add(&self, a: Extended, b: Extended) -> Extended {
        software::add(a, b).unwrap_or_else(|| self.unit_add(a, b))
    }

    /// `a - b`
    pub fn subtract(&self, a: Extended, b: Extended) -> Extended {
        self.add(a, b.negated())
    }

    /// `a * b`
    pub fn multiply(&self, a: Extended, b: Extended) -> Extended {
        software::multiply(a, b).unwrap_or_else(|| self.unit_multiply(a, b))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_ours.get() {
            // SAFETY: loads the 108 bytes that `fnsave` has stored.
            unsafe { asm!("frstor [{}]", in(reg) self.image.get(), options(nostack, preserves_flags)) };
        }
    }
}

/// Defines operations on ST(0) = `a`, ST(1) = `b` that leave their result in ST(0), and so many numbers below it.
macro_rules! operations {
    ($( $(#[$doc:meta])* $name:ident($($operand:ident),*): $instruction:literal, $below:literal; )*) => {
        impl Session {
            $(
                $(#[$doc])*
                pub fn $name(&self, $($operand: Extended),*) -> Extended {
                    self.take();
                    operations!(@loads [$($operand)*] $instruction, $below)
                }
            )*
        }
    };
    (@loads [$a:ident] $instruction:literal, $below:literal) => {{
        let b = $a;
        operations!(@emit $a b concat!("fstp st(0)\n", "fld tbyte ptr [{a}]\n", $instruction), $below)
    }};
    (@loads [$a:ident $b:ident] $instruction:literal, $below:literal) => {
        operations!(@emit $a $b concat!("fld tbyte ptr [{a}]\n", $instruction), $below)
    };
    (@emit $a:ident $b:ident $code:expr, $below:literal) => {{
        let mut result = Extended::ZERO;
        // SAFETY: reads two numbers of ten bytes and writes one; the x87 unit is ours and its stack is left empty. EAX is for status words.
        unsafe {
            asm!(
                "fld tbyte ptr [{b}]",
                $code,
                "fstp tbyte ptr [{result}]",
                $below,
                a = in(reg) &raw const $a,
                b = in(reg) &raw const $b,
                result = in(reg) &raw mut result,
                out("eax") _,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack)
            );
        }
        result
    }};
}

operations! {
    /// `a + b`
    unit_add(a, b): "faddp st(1), st", "";
    /// `a * b`
    unit_multiply(a, b): "fmulp st(1), st", "";
    /// `a / b`
    divide(a, b): "fxch\nfdivp st(1), st", "";
    /// The square root.
    sqrt(a): "fsqrt", "";
    /// `a * 2^b`, `b` rounded towards zero
    scale(a, b): "fscale", "fstp st(0)";
    /// What one step of `fprem` makes of `a` with divisor `b`.
    remainder(a, b): "fprem", "fstp st(0)";
    /// What one step of `fprem1` makes of `a` with divisor `b`.
    nearest_remainder(a, b): "fprem1", "fstp st(0)";
    /// The significand of `a`.
    significand(a): "fxtract", "fstp st(0)";
    /// `2^a - 1` for `a` from -1 to 1
    exp2m1(a): "f2xm1", "";
    /// `b * log2(a)`
    y_log2_x(a, b): "fyl2x", "";
    /// `b * log2(1 + a)`
    y_log2_xp1(a, b): "fyl2xp1", "";
    /// The sine; `a` itself if it is 2^63 or larger.
    sin(a): "fsin", "";
    /// The cosine; `a` itself if it is 2^63 or larger.
    cos(a): "fcos", "";
    /// What `fptan` writes over its operand: the tangent, or the operand if that is out of its range.
    tan(a): "fptan\nfnstsw ax\ntest ah, 4\njnz 2f\nfstp st(0)\n2:", "";
    /// One if `fsin`, `fcos`, `fsincos` and `fptan` find `a` too large and leave it as it is, else zero.
    out_of_range(a): "fsincos\nfnstsw ax\nfninit\nfldz\ntest ah, 4\njz 2f\nfstp st(0)\nfld1\n2:", "";
    /// The constant ln 2, times `a`.
    times_ln2(a): "fldln2\nfmulp st(1), st", "";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: f64) -> Extended {
        Extended::from_f64(value)
    }

    #[test]
    fn operations_have_their_operands_in_order() {
        let session = Session::begin();
        let two = |f: fn(&Session, Extended, Extended) -> Extended, a, b| f(&session, of(a), of(b)).to_f64();
        let one = |f: fn(&Session, Extended) -> Extended, a| f(&session, of(a)).to_f64();
        assert_eq!(two(Session::add, 5.0, 3.0), 8.0);
        assert_eq!(two(Session::subtract, 5.0, 3.0), 2.0);
        assert_eq!(two(Session::multiply, 5.0, 3.0), 15.0);
        assert_eq!(two(Session::divide, 5.0, 2.0), 2.5);
        assert_eq!(two(Session::scale, 5.0, 3.9), 40.0);
        assert_eq!(two(Session::remainder, 11.0, 4.0), 3.0);
        assert_eq!(two(Session::nearest_remainder, 11.0, 4.0), -1.0);
        assert_eq!(two(Session::y_log2_x, 8.0, 5.0), 15.0);
        assert_eq!(two(Session::y_log2_xp1, 0.25, 5.0), 5.0 * 1.25f64.log2());
        assert_eq!(one(Session::sqrt, 6.25), 2.5);
        assert_eq!(one(Session::significand, 20.0), 1.25);
        assert_eq!(one(Session::exp2m1, 1.0), 1.0);
        assert_eq!(one(Session::times_ln2, 1.0), std::f64::consts::LN_2);
        for (function, expected) in [
            (Session::sin as fn(&Session, Extended) -> Extended, 0.5f64.sin()),
            (Session::cos, 0.5f64.cos()),
            (Session::tan, 0.5f64.tan()),
        ] {
            assert!((one(function, 0.5) - expected).abs() < 1e-16);
            assert_eq!(one(function, 1e30), 1e30);
        }
        assert_eq!((one(Session::out_of_range, 1e18), one(Session::out_of_range, 1e30)), (0.0, 1.0));
        // Nothing is left on the stack: eight more operations could not go on otherwise.
        assert!((0..100).all(|_| two(Session::add, 1.0, 1.0) == 2.0));
    }

    #[test]
    fn the_programs_state_comes_back() {
        let mut before = [0u8; 108];
        let mut after = [0u8; 108];
        // SAFETY: pushes three numbers, changes the precision, compares state before and after, and leaves the unit initialised.
        unsafe {
            asm!("fninit", "fldpi", "fld1", "fldz", "fld1", "fdivrp st(1), st", "push 0x27f", "fldcw [rsp]", "pop rax", "fnsave [{0}]", "frstor [{0}]",
                in(reg) &raw mut before, out("rax") _, out("st(0)") _, out("st(1)") _, out("st(2)") _);
            let session = Session::begin();
            session.divide(Extended::ONE, Extended::ZERO);
            drop(session);
            asm!("fnsave [{}]", in(reg) &raw mut after, out("st(0)") _, out("st(1)") _, out("st(2)") _);
        }
        // The pointers to the last instruction and operand apart.
        assert_eq!((&before[..12], &before[28..]), (&after[..12], &after[28..]));
    }
}
