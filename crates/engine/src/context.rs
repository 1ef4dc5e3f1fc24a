//! The per-thread context: what cached code reaches as `fs:[constant]`.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::tool::Version;

/// Hardware numbers of the general registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Gpr {
    Rax,
    Rcx,
    Rdx,
    Rbx,
    Rsp,
    Rbp,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
}

/// Bytes reserved for an XSAVE image of everything up to AVX-512 and PKRU.
pub const VECTOR_STATE_BYTES: usize = 4096;
/// Offset of the component bitmap in an XSAVE image.
pub(crate) const XSTATE_BV: usize = 512;
/// Bytes that belong to the tool: a shadow register file for each shadow layer, and what else a mode has.
pub const TOOL_BYTES: usize = 24 * 1024;

/// State of one application thread. Cached code reaches it as `fs:[constant]`, the engine through `&mut`.
///
/// While engine code runs, `gpr`, `rip`, `rflags` and `vector_state` hold the exact application state.
#[repr(C, align(64))]
pub struct Context {
    /// XSAVE image (standard format) of the application's vector state. XMM and YMM registers and MXCSR are always there while engine code
    /// runs, AVX-512 registers if the application uses them; the rest only if `complete_image` says so, else it is still in the processor, where engine code leaves it alone. See
    /// [`Context::vector_image`].
    pub vector_state: [u8; VECTOR_STATE_BYTES],
    /// Free for the tool: shadow registers, tape cursor.
    pub tool: [u8; TOOL_BYTES],
    /// General registers, by hardware number.
    pub gpr: [u64; 16],
    /// Next application instruction.
    pub rip: u64,
    /// Application flags.
    pub rflags: u64,
    /// Base of the application's FS segment.
    pub fs_base: u64,
    /// Base of the application's GS segment.
    pub gs_base: u64,
    /// Application values of scratch registers.
    pub spill: [u64; 16],
    /// Application values of scratch vector registers, 64 bytes each.
    pub vector_spill: [[u64; 8]; 8],
    /// Application value of a mask register that is put aside.
    pub mask_spill: u64,
    /// Flags put aside inside a block.
    pub saved_flags: u64,
    /// Application target of the indirect branch being taken.
    pub branch_target: u64,
    /// Code cache address to be jumped to.
    pub jump: u64,
    /// Why cached code was left: a number given by the translator.
    pub exit: u64,
    /// Host stack pointer while cached code runs.
    pub host_rsp: u64,
    /// MXCSR of engine code.
    pub host_mxcsr: u32,
    /// Whether the upper half of a YMM register was not zero when cached code was left.
    pub upper_in_use: u8,
    /// Whether it can be now: cached code sets this before the application's first instruction with YMM or ZMM registers, and clears it behind its
    /// `vzeroupper`. (A whole word for `jrcxz`.)
    pub upper_possible: u64,
    /// Whether `vector_state` holds everything and is to be loaded as a whole.
    pub complete_image: u8,
    /// Whether `vector_state` holds AVX-512 registers as well, because the application was seen to use them.
    pub wide_image: u8,
    /// Whether the tool has ZMM16 to ZMM31 and the mask registers as scratch registers. The application's values of them are in `vector_state` then, whatever
    /// its component bitmap says. (A whole word for `jrcxz`.)
    pub lent: u64,
    /// Version in which the thread runs.
    pub version: Version,
    /// The exit that led here, to be linked to the block found: its number, and the generation of the code cache that it belongs to, 0 for
    /// none.
    pub link_from: (u64, u64),
    /// Whether an indirect branch has led here, so that the block found shall be entered in the look-up tables.
    pub fill_lookup: bool,
    /// Non-zero while an asynchronous signal waits for delivery or another thread wants this one out of the cache.
    pub attention: AtomicU32,
    /// Non-zero while the thread is not in cached code, or holds or awaits the code cache's lock. Then signal handlers leave the cache
    /// alone: locks may be held, and `attention` is looked at before cached code is entered.
    pub in_cache: AtomicU32,
    /// The generation of the code cache whose code the thread runs, or will go on with after a helper; 0 while it does neither. Set by
    /// the thread itself under the cache's lock.
    pub inside: AtomicU64,
    /// Host thread id.
    pub tid: u32,
    /// The engine's own per-thread state.
    pub thread: *mut crate::thread::ThreadState,
}

impl Context {
    /// A general register of the application.
    pub fn reg(&self, register: Gpr) -> u64 {
        self.gpr[register as usize]
    }

    /// The XSAVE image of the application's whole vector and x87 state. To be called on the thread that the context belongs to.
    pub fn vector_image(&self) -> [u8; VECTOR_STATE_BYTES] {
        #[repr(align(16))]
        struct Legacy([u8; 512]);
        let mut image = self.vector_state;
        if self.complete_image == 0 {
            let mut legacy = Legacy([0; 512]);
            // SAFETY: stores 512 bytes to an aligned buffer of that size; the x87 registers are the application's, since engine code uses none.
            unsafe { std::arch::x86_64::_fxsave64(legacy.0.as_mut_ptr()) };
            // Control, status, tag and pointers, then the registers: all but MXCSR and XMM (Intel SDM volume 1, table 10-2).
            image[..24].copy_from_slice(&legacy.0[..24]);
            image[32..160].copy_from_slice(&legacy.0[32..160]);
            image[XSTATE_BV] |= 1;
        }
        image
    }

    /// The value of a vector register, extended with zeros.
    pub fn vector_register(&self, number: usize) -> [u8; 64] {
        /// Offset of the XMM registers.
        const XMM: usize = 160;
        let layout = crate::translate::xsave_layout();
        let present = self.vector_state[XSTATE_BV];
        let mut value = [0; 64];
        let mut take = |component: u32, at: usize, from: usize, bytes: usize| {
            if present & 1 << component != 0 {
                value[at..at + bytes].copy_from_slice(&self.vector_state[from..from + bytes]);
            }
        };
        if number < 16 {
            take(1, 0, XMM + 16 * number, 16);
            take(2, 16, layout.ymm_high + 16 * number, 16);
            take(6, 32, layout.zmm_high + 32 * number, 32);
        } else {
            take(7, 0, layout.upper_zmm + 64 * (number - 16), 64);
        }
        value
    }

    /// Gives the application another vector and x87 state.
    pub fn set_vector_image(&mut self, image: [u8; VECTOR_STATE_BYTES]) {
        self.vector_state = image;
        let layout = crate::translate::xsave_layout();
        // What is given back from the image is taken as it is there: a component that is not present is zero.
        for (component, offset, bytes) in [(5, layout.masks, 64), (7, layout.upper_zmm, 1024)] {
            if offset != 0 && image[XSTATE_BV] & 1 << component == 0 {
                self.vector_state[offset..offset + bytes].fill(0);
            }
        }
        self.complete_image = 1;
    }

    /// Sets a general register of the application.
    pub fn set_reg(&mut self, register: Gpr, value: u64) {
        self.gpr[register as usize] = value;
    }
}

struct Slot(UnsafeCell<Context>);

thread_local! {
    // SAFETY: all-zero bytes are a valid Context: integers, atomics, a null pointer.
    static CONTEXT: Slot = const { Slot(UnsafeCell::new(unsafe { std::mem::zeroed() })) };
}

/// The calling thread's context.
///
/// It is a raw pointer because cached code and signal handlers use it as well; a reference made from it must not live across
/// either.
pub fn current() -> *mut Context {
    CONTEXT.with(|slot| slot.0.get())
}

/// Distance from the FS base to the context: the same in each thread, because the context lies in the executable's static
/// thread-local block.
pub fn fs_offset() -> i64 {
    let fs: u64;
    // SAFETY: the first word of the host's thread control block holds its own address (amd64 psABI, TLS variant II).
    unsafe { std::arch::asm!("mov {}, fs:[0]", out(reg) fs, options(nostack, readonly, preserves_flags)) };
    current() as i64 - fs as i64
}
