//! Instructions and signal frames that move many registers through memory at once: their shadow goes the same way.

use derivgrind_engine::context::Context;
use derivgrind_engine::memory::user;
use derivgrind_engine::tool::SignalFrame;
use derivgrind_engine::translate::{Helper, HelperNext, xsave_layout};

use crate::ir::StateTransfer;
use crate::shadow;

use super::layout::layers;
use super::{ACTIVE, PASSIVE, SUSPENDED, Thread, shadow_address};

/// Offsets in the legacy area (Intel SDM volume 1, section 10.5.1) and the header of an XSAVE image (section 13.4).
const X87_AREA: u64 = 32;
const XMM_AREA: u64 = 160;
const XSTATE_BV: u64 = 512;
const XCOMP_BV: u64 = 520;
const COMPACTED: u64 = 1 << 63;
/// Where extended components begin.
const EXTENDED: u64 = 576;
const SSE: u64 = 1 << 1;
const AVX: u64 = 1 << 2;
const REGISTERS: u16 = 16;

/// The helper that moves the shadow of such an instruction.
pub(super) fn helper(transfer: StateTransfer) -> Helper {
    match transfer {
        StateTransfer::FxSave => |context, _| save(context, SSE),
        StateTransfer::XSave | StateTransfer::XSaveCompacted => |context, _| save(context, requested(context)),
        StateTransfer::FxRestore => |context, _| restore(context, SSE),
        StateTransfer::XRestore => |context, _| restore(context, requested(context)),
        StateTransfer::ClearAll => |context, _| {
            Thread::new(context).clear_registers();
            HelperNext::Resume
        },
    }
}

/// The requested-feature bitmap in EDX:EAX.
fn requested(context: &Context) -> u64 {
    context.gpr[0] & 0xffff_ffff | context.gpr[2] << 32
}

/// The address of the image: the memory operand of the instruction at RIP.
fn image_address(context: &Context) -> Option<u64> {
    let mut code = [0; 15];
    // The instruction may be the last in mapped memory.
    let length = (1..=code.len()).rev().find(|&length| user::read_bytes(context.rip, &mut code[..length]).is_ok())?;
    let mut decoder = iced_x86::Decoder::with_ip(64, &code[..length], context.rip, iced_x86::DecoderOptions::NONE);
    super::bits::operand_address(&decoder.decode(), context)
}

fn save(context: &mut Context, components: u64) -> HelperNext {
    let Some(image) = image_address(context) else { return HelperNext::Resume };
    save_to(context, image, components);
    HelperNext::Resume
}

fn save_to(context: &mut Context, image: u64, components: u64) {
    let thread = Thread::new(context);
    for layer in layers() {
        // Stale shadow of an earlier use of this memory must not come to life.
        shadow_address::write_layer(layer, image + X87_AREA, &[0; 128]);
        for (component, half, area) in [(SSE, 0, image + XMM_AREA), (AVX, 16, image + avx_offset())] {
            if components & component == 0 {
                continue;
            }
            for number in 0..REGISTERS {
                let shadow = thread.shadow_file(layer, shadow::vector(number) + half, 16);
                shadow_address::write_layer(layer, area + 16 * u64::from(number), shadow);
            }
        }
    }
}

/// The AVX component is the first extended one in the standard format, and in the compacted one, too.
fn avx_offset() -> u64 {
    match xsave_layout().ymm_high {
        0 => EXTENDED,
        offset => offset as u64,
    }
}

fn restore(context: &mut Context, components: u64) -> HelperNext {
    let Some(image) = image_address(context) else { return HelperNext::Resume };
    let was_passive = context.version == PASSIVE;
    restore_from(context, image, components);
    if was_passive && Thread::new(context).has_active_registers() {
        // The instruction, with this helper, is executed once more in the active version.
        context.version = ACTIVE;
        return HelperNext::Leave;
    }
    HelperNext::Resume
}

fn restore_from(context: &mut Context, image: u64, components: u64) {
    let present: u64 = user::read(image + XSTATE_BV).unwrap_or(0);
    let compacted = user::read::<u64>(image + XCOMP_BV).unwrap_or(0) & COMPACTED != 0;
    let avx = if compacted { EXTENDED } else { avx_offset() };
    for (component, half, area) in [(SSE, 0, XMM_AREA), (AVX, 16, avx)] {
        if components & component == 0 {
            continue;
        }
        let mut thread = Thread::new(context);
        for (layer, number) in layers().flat_map(|layer| (0..REGISTERS).map(move |number| (layer, number))) {
            let shadow = thread.shadow_file_mut(layer, shadow::vector(number) + half, 16);
            // A component that is not present gets its initial value, which is passive. FXSAVE images have no such bits.
            if present & component != 0 || components == SSE {
                shadow_address::read_layer(layer, image + area + 16 * u64::from(number), shadow);
            } else {
                shadow.fill(0);
            }
        }
    }
}

/// Puts the shadow registers into the shadow of a signal frame; the handler starts with passive ones.
pub(super) fn save_signal_frame(context: &mut Context, frame: SignalFrame) {
    let mut thread = Thread::new(context);
    for (number, &address) in frame.general.iter().enumerate() {
        for layer in layers() {
            shadow_address::write_layer(layer, address, thread.shadow_file(layer, shadow::general(number as u16), 8));
        }
    }
    save_to(thread.context_mut(), frame.xsave, SSE | AVX);
    thread.clear_registers();
    if context.version != SUSPENDED {
        context.version = PASSIVE;
    }
}

/// Brings them back from there.
pub(super) fn restore_signal_frame(context: &mut Context, frame: SignalFrame) {
    let mut thread = Thread::new(context);
    for (number, &address) in frame.general.iter().enumerate() {
        for layer in layers() {
            let shadow = thread.shadow_file_mut(layer, shadow::general(number as u16), 8);
            shadow_address::read_layer(layer, address, shadow);
        }
    }
    restore_from(context, frame.xsave, SSE | AVX);
    if context.version != SUSPENDED {
        context.version = ACTIVE;
    }
}
