//! Instructions and signal frames that move many registers through memory at once: their shadow goes the same way.

use derivgrind_engine::context::Context;
use derivgrind_engine::memory::user;
use derivgrind_engine::tool::SignalFrame;
use derivgrind_engine::translate::{Helper, HelperNext, xsave_layout};

use crate::ir::StateTransfer;
use crate::shadow;
use crate::x87;

use super::layout::layers;
use super::{ACTIVE, Mode, PASSIVE, SUSPENDED, Thread, shadow_address};

/// Offsets in the legacy area (Intel SDM volume 1, section 10.5.1) and the header of an XSAVE image (section 13.4).
const X87_AREA: u64 = 32;
const XMM_AREA: u64 = 160;
const XSTATE_BV: u64 = 512;
const XCOMP_BV: u64 = 520;
const COMPACTED: u64 = 1 << 63;
/// Where extended components begin.
const EXTENDED: u64 = 576;
const X87: u64 = 1 << 0;
const SSE: u64 = 1 << 1;
const AVX: u64 = 1 << 2;
const REGISTERS: u16 = 16;

/// The helper that moves the shadow of such an instruction, and its payload.
pub(super) fn helper<M: Mode>(transfer: StateTransfer) -> (Helper, u64) {
    match transfer {
        StateTransfer::FxSave => (|context, _| save::<M>(context, X87 | SSE), 0),
        StateTransfer::XSave | StateTransfer::XSaveCompacted => (
            |context, _| {
                let components = requested(context);
                save::<M>(context, components)
            },
            0,
        ),
        StateTransfer::FxRestore => (|context, _| restore::<M>(context, X87 | SSE, Kind::Fx), 0),
        StateTransfer::XRestore => (
            |context, _| {
                let components = requested(context);
                restore::<M>(context, components, Kind::Xsave)
            },
            0,
        ),
        StateTransfer::FnSave(distance) => (
            |context, distance| {
                if let Some(image) = image_address(context) {
                    save_x87::<M>(context, image + distance, 10);
                }
                HelperNext::Resume
            },
            distance.into(),
        ),
        StateTransfer::FRestore(distance) => {
            (|context, distance| restore::<M>(context, X87, Kind::X87(distance)), distance.into())
        }
        StateTransfer::ClearAll => (
            |context, _| {
                Thread::new(context).clear_registers();
                HelperNext::Resume
            },
            0,
        ),
    }
}

/// What an image in memory is, as far as restoring from it must know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `fxsave`: all components are present.
    Fx,
    /// `xsave`: the header says which components are present.
    Xsave,
    /// `fnsave`: x87 registers of ten bytes each, so far behind the beginning.
    X87(u64),
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

fn save<M: Mode>(context: &mut Context, components: u64) -> HelperNext {
    let Some(image) = image_address(context) else { return HelperNext::Resume };
    save_to::<M>(context, image, components);
    HelperNext::Resume
}

/// Components that are not saved leave memory as it is, and its shadow.
fn save_to<M: Mode>(context: &mut Context, image: u64, components: u64) {
    if components & X87 != 0 {
        save_x87::<M>(context, image + X87_AREA, 16);
    }
    let thread = Thread::new(context);
    for layer in layers() {
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

/// Saves x87 registers, ST(0) first, that lie so many bytes apart.
fn save_x87<M: Mode>(context: &mut Context, area: u64, distance: u64) {
    let mut thread = Thread::new(context);
    for layer in layers() {
        let shadows: [x87::Shadow; 8] = std::array::from_fn(|number| x87::shadow_of(&thread, layer, number));
        let is_active = shadows != [x87::Shadow::default(); 8];
        let values = if is_active { x87::values(thread.context()) } else { Default::default() };
        for (number, (value, shadow)) in (0..).zip(values.into_iter().zip(shadows)) {
            let shadow = if is_active { M::stored(thread.context_mut(), value, shadow) } else { shadow };
            shadow_address::write_layer(layer, area + distance * number, &shadow);
        }
    }
}

fn restore_x87<M: Mode>(context: &mut Context, area: u64, distance: u64) {
    let mut thread = Thread::new(context);
    for layer in layers() {
        for number in 0..8 {
            let (_, shadow) = x87::argument::<M>(&mut thread, layer, area + distance * number as u64);
            x87::set_shadow(&mut thread, layer, number, shadow);
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

fn restore<M: Mode>(context: &mut Context, components: u64, kind: Kind) -> HelperNext {
    let Some(image) = image_address(context) else { return HelperNext::Resume };
    let was_passive = context.version == PASSIVE;
    restore_from::<M>(context, image, components, kind);
    if was_passive && Thread::new(context).has_active_registers() {
        // The instruction, with this helper, is executed once more in the active version.
        context.version = ACTIVE;
        return HelperNext::Leave;
    }
    HelperNext::Resume
}

fn restore_from<M: Mode>(context: &mut Context, image: u64, components: u64, kind: Kind) {
    let (present, compacted) = match kind {
        Kind::Xsave => {
            let present = user::read(image + XSTATE_BV).unwrap_or(0);
            (present, user::read::<u64>(image + XCOMP_BV).unwrap_or(0) & COMPACTED != 0)
        }
        Kind::Fx | Kind::X87(_) => (components, false),
    };
    if components & X87 != 0 {
        match kind {
            Kind::X87(distance) => restore_x87::<M>(context, image + distance, 10),
            _ if present & X87 != 0 => restore_x87::<M>(context, image + X87_AREA, 16),
            _ => Thread::new(context).clear_file(shadow::X87, shadow::X87_BYTES),
        }
    }
    let avx = if compacted { EXTENDED } else { avx_offset() };
    for (component, half, area) in [(SSE, 0, XMM_AREA), (AVX, 16, avx)] {
        if components & component == 0 {
            continue;
        }
        let mut thread = Thread::new(context);
        for (layer, number) in layers().flat_map(|layer| (0..REGISTERS).map(move |number| (layer, number))) {
            let shadow = thread.shadow_file_mut(layer, shadow::vector(number) + half, 16);
            // A component that is not present gets its initial value, which is passive.
            if present & component != 0 {
                shadow_address::read_layer(layer, image + area + 16 * u64::from(number), shadow);
            } else {
                shadow.fill(0);
            }
        }
    }
}

/// Puts the shadow registers into the shadow of a signal frame; the handler starts with passive ones.
pub(super) fn save_signal_frame<M: Mode>(context: &mut Context, frame: SignalFrame) {
    let mut thread = Thread::new(context);
    for (number, &address) in frame.general.iter().enumerate() {
        for layer in layers() {
            shadow_address::write_layer(layer, address, thread.shadow_file(layer, shadow::general(number as u16), 8));
        }
    }
    save_to::<M>(thread.context_mut(), frame.xsave, X87 | SSE | AVX);
    thread.clear_registers();
    if context.version != SUSPENDED {
        context.version = PASSIVE;
    }
}

/// Brings them back from there.
pub(super) fn restore_signal_frame<M: Mode>(context: &mut Context, frame: SignalFrame) {
    let mut thread = Thread::new(context);
    for (number, &address) in frame.general.iter().enumerate() {
        for layer in layers() {
            let shadow = thread.shadow_file_mut(layer, shadow::general(number as u16), 8);
            shadow_address::read_layer(layer, address, shadow);
        }
    }
    restore_from::<M>(context, frame.xsave, X87 | SSE | AVX, Kind::Xsave);
    if context.version != SUSPENDED {
        context.version = ACTIVE;
    }
}
