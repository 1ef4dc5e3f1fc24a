//! Signal frames on the application's stack, laid out as the kernel does (`struct rt_sigframe` of amd64).

use super::action::Set;
use super::queue::{Arrived, FaultDetail, SIGINFO_BYTES};
use super::stack::AltStack;
use crate::context::{Context, Gpr, VECTOR_STATE_BYTES};
use crate::memory::user::{self, Fault, Plain};
use crate::tool::SignalFrame;

/// Bytes below the stack pointer that belong to the interrupted function (amd64 psABI).
const RED_ZONE: u64 = 128;
/// Code and stack segment selectors of 64-bit user code.
const SELECTORS: u64 = 0x33 | 0x2b << 48;
/// `UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS`.
const UC_FLAGS: u64 = 7;
/// Marks in the software-reserved bytes of the floating-point state and behind it.
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
/// Offset of the software-reserved bytes in the legacy area.
const SOFTWARE_RESERVED: usize = 464;
/// Offset of the XSAVE header, and the size of the legacy area.
const XSAVE_HEADER: usize = 512;
const XSAVE_HEADER_BYTES: usize = 64;
/// Offsets of MXCSR and its mask of valid bits.
const MXCSR: usize = 24;
const MXCSR_MASK: usize = 28;

/// General registers in the order of `struct sigcontext`.
const ORDER: [Gpr; 16] = [
    Gpr::R8,
    Gpr::R9,
    Gpr::R10,
    Gpr::R11,
    Gpr::R12,
    Gpr::R13,
    Gpr::R14,
    Gpr::R15,
    Gpr::Rdi,
    Gpr::Rsi,
    Gpr::Rbp,
    Gpr::Rbx,
    Gpr::Rdx,
    Gpr::Rax,
    Gpr::Rcx,
    Gpr::Rsp,
];

/// `struct sigcontext`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Machine {
    general: [u64; 16],
    rip: u64,
    flags: u64,
    selectors: u64,
    error: u64,
    trap: u64,
    old_mask: u64,
    address: u64,
    floating_point: u64,
    reserved: [u64; 8],
}

/// `struct ucontext` and what surrounds it in the frame, without the signal information.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Frame {
    restorer: u64,
    uc_flags: u64,
    link: u64,
    stack: AltStack,
    machine: Machine,
    mask: Set,
}

// SAFETY: integers without padding between or behind them, which the assertion below verifies.
unsafe impl Plain for Frame {}

const FRAME_BYTES: u64 = (size_of::<Frame>() + SIGINFO_BYTES) as u64;
const GENERAL_OFFSET: u64 = (std::mem::offset_of!(Frame, machine) + std::mem::offset_of!(Machine, general)) as u64;
const UCONTEXT_OFFSET: u64 = std::mem::offset_of!(Frame, uc_flags) as u64;
const INFORMATION_OFFSET: u64 = size_of::<Frame>() as u64;
const _: () = assert!(FRAME_BYTES == 440);

/// What a frame is made from.
pub(super) struct Content<'a> {
    pub arrived: &'a Arrived,
    /// Mask to be restored on return.
    pub mask: Set,
    /// Alternate stack settings to be restored on return.
    pub alt_stack: AltStack,
    /// The alternate stack's end, if the frame is to go there from another stack.
    pub switch_to: Option<u64>,
    pub with_information: bool,
    pub restorer: u64,
    /// Details of the thread's last fault.
    pub fault: FaultDetail,
}

/// Addresses of a frame that was built.
pub(super) struct Built {
    pub frame: u64,
    pub information: u64,
    pub ucontext: u64,
    pub registers: SignalFrame,
}

/// Writes a frame for the present state of `context`; does not change the context.
pub(super) fn build(context: &Context, content: &Content<'_>) -> Result<Built, Fault> {
    let layout = Layout::get();
    let stack = content.switch_to.unwrap_or_else(|| context.reg(Gpr::Rsp).wrapping_sub(RED_ZONE));
    let xsave = stack.wrapping_sub(layout.bytes_with_end_mark()) & !63;
    let frame = (xsave.wrapping_sub(FRAME_BYTES) & !15).wrapping_sub(8);

    let machine = Machine {
        general: ORDER.map(|register| context.reg(register)),
        rip: context.rip,
        flags: context.rflags,
        selectors: SELECTORS,
        error: content.fault.error,
        trap: content.fault.trap,
        old_mask: content.mask,
        address: content.fault.address,
        floating_point: xsave,
        reserved: [0; 8],
    };
    user::write(
        frame,
        Frame {
            restorer: content.restorer,
            uc_flags: UC_FLAGS,
            link: 0,
            stack: content.alt_stack,
            machine,
            mask: content.mask,
        },
    )?;
    if content.with_information {
        user::write_bytes(frame + INFORMATION_OFFSET, &content.arrived.information)?;
    }
    user::write_bytes(xsave, &layout.image(context))?;
    user::write(xsave + layout.size as u64, FP_XSTATE_MAGIC2)?;
    crate::memory::clear_shadow(frame, xsave + layout.bytes_with_end_mark() - frame);
    Ok(Built {
        frame,
        information: frame + INFORMATION_OFFSET,
        ucontext: frame + UCONTEXT_OFFSET,
        registers: registers(frame, xsave),
    })
}

/// What a frame holds beside the registers.
pub(super) struct Restored {
    pub mask: Set,
    pub alt_stack: AltStack,
    pub registers: SignalFrame,
}

/// Restores the context from the frame at `frame`, which the handler may have changed.
pub(super) fn restore(context: &mut Context, frame: u64) -> Result<Restored, Fault> {
    let content: Frame = user::read(frame)?;
    let machine = content.machine;
    restore_vectors(context, machine.floating_point)?;
    for (register, value) in ORDER.into_iter().zip(machine.general) {
        context.set_reg(register, value);
    }
    context.rip = machine.rip;
    context.rflags = context.rflags & !CHANGEABLE_FLAGS | machine.flags & CHANGEABLE_FLAGS;
    Ok(Restored { mask: content.mask, alt_stack: content.stack, registers: registers(frame, machine.floating_point) })
}

/// The flags that `rt_sigreturn` takes from the frame (`FIX_EFLAGS`): AC, OF, DF, TF, SF, ZF, AF, PF, CF, RF.
const CHANGEABLE_FLAGS: u64 = 0x40000 | 0x800 | 0x400 | 0x100 | 0x80 | 0x40 | 0x10 | 0x4 | 0x1 | 0x10000;

fn registers(frame: u64, xsave: u64) -> SignalFrame {
    let mut general = [0; 16];
    for (index, register) in ORDER.into_iter().enumerate() {
        general[register as usize] = frame + GENERAL_OFFSET + 8 * index as u64;
    }
    SignalFrame { general, xsave }
}

/// Vector and x87 registers and their control words get the values that a program starts with. So do signal handlers: the interrupted function may have
/// all x87 registers in use, and another rounding mode.
pub(super) fn initialise_vectors(context: &mut Context) {
    let mut image = [0; VECTOR_STATE_BYTES];
    image[MXCSR..MXCSR + 4].copy_from_slice(&0x1f80u32.to_le_bytes());
    context.set_vector_image(image);
}

fn restore_vectors(context: &mut Context, xsave: u64) -> Result<(), Fault> {
    let layout = Layout::get();
    if xsave == 0 {
        // As the kernel.
        initialise_vectors(context);
        return Ok(());
    }
    let mxcsr_mask: [u8; 4] = std::array::from_fn(|n| context.vector_image()[MXCSR_MASK + n]);
    let mut image = [0u8; VECTOR_STATE_BYTES];
    user::read_bytes(xsave, &mut image[..XSAVE_HEADER])?;
    let word = |at: usize| u32::from_le_bytes([image[at], image[at + 1], image[at + 2], image[at + 3]]);
    let extended = word(SOFTWARE_RESERVED) == FP_XSTATE_MAGIC1
        && word(SOFTWARE_RESERVED + 16) as usize == layout.size
        && user::read::<u32>(xsave + layout.size as u64) == Ok(FP_XSTATE_MAGIC2);
    let mut features = LEGACY_FEATURES;
    if extended {
        user::read_bytes(xsave + XSAVE_HEADER as u64, &mut image[XSAVE_HEADER..layout.size])?;
        let mut given = [0u8; 8];
        given.copy_from_slice(&image[XSAVE_HEADER..XSAVE_HEADER + 8]);
        features = u64::from_le_bytes(given) & layout.features;
    }
    // Whatever the handler wrote there, the processor must accept it.
    image[XSAVE_HEADER..XSAVE_HEADER + XSAVE_HEADER_BYTES].fill(0);
    image[XSAVE_HEADER..XSAVE_HEADER + 8].copy_from_slice(&features.to_le_bytes());
    let valid = match u32::from_le_bytes(mxcsr_mask) {
        0 => 0xffbf,
        mask => mask,
    };
    let mxcsr = u32::from_le_bytes([image[MXCSR], image[MXCSR + 1], image[MXCSR + 2], image[MXCSR + 3]]) & valid;
    image[MXCSR..MXCSR + 4].copy_from_slice(&mxcsr.to_le_bytes());
    image[MXCSR_MASK..MXCSR_MASK + 4].copy_from_slice(&mxcsr_mask);
    context.set_vector_image(image);
    Ok(())
}

/// x87 and SSE.
const LEGACY_FEATURES: u64 = 3;
/// State components that the context's image holds: x87, SSE, AVX, AVX-512.
const KNOWN_FEATURES: u64 = 0xe7;

/// Extent of the XSAVE image in a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Components.
    features: u64,
    /// Bytes of the image.
    size: usize,
}

impl Layout {
    /// What this processor and kernel have enabled, as far as the context holds it.
    pub(super) fn get() -> Layout {
        use std::sync::OnceLock;
        static LAYOUT: OnceLock<Layout> = OnceLock::new();
        *LAYOUT.get_or_init(|| {
            if !std::is_x86_feature_detected!("xsave") {
                return Layout { features: LEGACY_FEATURES, size: XSAVE_HEADER };
            }
            // SAFETY: XSAVE is there and enabled by the kernel.
            let enabled = unsafe { enabled_features() } & KNOWN_FEATURES;
            let mut size = XSAVE_HEADER + XSAVE_HEADER_BYTES;
            for component in (2..64).filter(|component| enabled & 1 << component != 0) {
                let leaf = std::arch::x86_64::__cpuid_count(0xd, component);
                size = size.max((leaf.ebx + leaf.eax) as usize);
            }
            Layout { features: enabled, size: size.min(VECTOR_STATE_BYTES) }
        })
    }

    fn bytes_with_end_mark(&self) -> u64 {
        (self.size + size_of::<u32>()) as u64
    }

    /// The image for a frame, with the marks that say what it holds.
    fn image(&self, context: &Context) -> Vec<u8> {
        let mut image = context.vector_image()[..self.size].to_vec();
        let reserved = &mut image[SOFTWARE_RESERVED..XSAVE_HEADER];
        reserved.fill(0);
        reserved[0..4].copy_from_slice(&FP_XSTATE_MAGIC1.to_le_bytes());
        reserved[4..8].copy_from_slice(&(self.bytes_with_end_mark() as u32).to_le_bytes());
        reserved[8..16].copy_from_slice(&self.features.to_le_bytes());
        reserved[16..20].copy_from_slice(&(self.size as u32).to_le_bytes());
        image
    }
}

/// # Safety
/// The processor must have XSAVE, and the kernel must have enabled it.
#[target_feature(enable = "xsave")]
unsafe fn enabled_features() -> u64 {
    // SAFETY: as the caller promises.
    unsafe { std::arch::x86_64::_xgetbv(0) }
}
