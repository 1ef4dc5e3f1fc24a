//! Instructions and signal frames that move many registers through memory at once: their shadow goes the same way.

use derivgrind_engine::context::Context;
use derivgrind_engine::memory::user;
use derivgrind_engine::tool::SignalFrame;
use derivgrind_engine::translate::{Helper, HelperNext, xsave_offset};

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
const X87: u64 = 1 << 0;
const SSE: u64 = 1 << 1;

/// A component of the processor's state, beside x87, that carries real numbers.
struct Component {
    /// Its number in the component bitmap.
    number: usize,
    /// Where the shadow of its first register, or part of one, is in the shadow register file, and how far on the next one's.
    file: u16,
    stride: u16,
    registers: u16,
    /// Bytes of a register.
    bytes: u16,
}

/// XMM registers, upper halves of YMM registers, mask registers (compilers put general registers aside there), upper halves of ZMM0 to ZMM15, and
/// ZMM16 to ZMM31.
const COMPONENTS: [Component; 5] = [
    Component { number: 1, file: shadow::vector(0), stride: shadow::VECTOR_BYTES, registers: 16, bytes: 16 },
    Component { number: 2, file: shadow::vector(0) + 16, stride: shadow::VECTOR_BYTES, registers: 16, bytes: 16 },
    Component { number: 5, file: shadow::MASK, stride: 8, registers: 8, bytes: 8 },
    Component { number: 6, file: shadow::vector(0) + 32, stride: shadow::VECTOR_BYTES, registers: 16, bytes: 32 },
    Component { number: 7, file: shadow::vector(16), stride: shadow::VECTOR_BYTES, registers: 16, bytes: 64 },
];

/// x87 and those components that the processor has.
fn all() -> u64 {
    COMPONENTS.iter().filter(|component| component.offset(None) != 0).fold(X87, |all, component| all | component.bit())
}

impl Component {
    fn bit(&self) -> u64 {
        1 << self.number
    }

    /// Offset in an image, of the compacted format if components are given.
    fn offset(&self, compacted: Option<u64>) -> u64 {
        if self.bit() == SSE { XMM_AREA } else { xsave_offset(self.number, compacted) as u64 }
    }

    /// For each register: offsets in the shadow register file and in an image.
    fn places(&self, compacted: Option<u64>) -> impl Iterator<Item = (u16, u64)> {
        let area = self.offset(compacted);
        (0..self.registers).map(move |n| (self.file + n * self.stride, area + u64::from(n * self.bytes)))
    }
}

/// The helper that moves the shadow of such an instruction, and its payload.
pub(super) fn helper<M: Mode>(transfer: StateTransfer) -> (Helper, u64) {
    match transfer {
        StateTransfer::FxSave => (|context, _| save::<M>(context, X87 | SSE, None), 0),
        StateTransfer::XSave => (
            |context, _| {
                let components = requested(context);
                save::<M>(context, components, None)
            },
            0,
        ),
        StateTransfer::XSaveCompacted => (
            |context, _| {
                let components = requested(context);
                save::<M>(context, components, Some(components))
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

fn save<M: Mode>(context: &mut Context, components: u64, compacted: Option<u64>) -> HelperNext {
    let Some(image) = image_address(context) else { return HelperNext::Resume };
    save_to::<M>(context, image, components, compacted);
    HelperNext::Resume
}

/// Components that are not saved leave memory as it is, and its shadow.
fn save_to<M: Mode>(context: &mut Context, image: u64, components: u64, compacted: Option<u64>) {
    if components & X87 != 0 {
        save_x87::<M>(context, image + X87_AREA, 16);
    }
    let thread = Thread::new(context);
    let saved = components & all();
    for component in COMPONENTS.iter().filter(|component| saved & component.bit() != 0) {
        for (file, offset) in component.places(compacted) {
            for layer in layers() {
                let shadow = thread.shadow_file(layer, file, component.bytes.into());
                shadow_address::write_layer(layer, image + offset, shadow);
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
        let state = is_active.then(|| x87::State::of(thread.context()));
        for (number, shadow) in shadows.into_iter().enumerate() {
            let shadow = match &state {
                Some(state) => M::stored(thread.context_mut(), state.value(number), shadow),
                None => shadow,
            };
            shadow_address::write_layer(layer, area + distance * number as u64, &shadow);
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
            let format = user::read::<u64>(image + XCOMP_BV).unwrap_or(0);
            (present, (format & COMPACTED != 0).then_some(format & !COMPACTED))
        }
        Kind::Fx | Kind::X87(_) => (components, None),
    };
    if components & X87 != 0 {
        match kind {
            Kind::X87(distance) => restore_x87::<M>(context, image + distance, 10),
            _ if present & X87 != 0 => restore_x87::<M>(context, image + X87_AREA, 16),
            _ => Thread::new(context).clear_file(shadow::X87, shadow::X87_BYTES),
        }
    }
    let restored = components & all();
    let mut thread = Thread::new(context);
    for component in COMPONENTS.iter().filter(|component| restored & component.bit() != 0) {
        for (file, offset) in component.places(compacted) {
            for layer in layers() {
                let shadow = thread.shadow_file_mut(layer, file, component.bytes.into());
                // A component that is not present gets its initial value, which is passive.
                if present & component.bit() != 0 {
                    shadow_address::read_layer(layer, image + offset, shadow);
                } else {
                    shadow.fill(0);
                }
            }
        }
    }
}

/// Puts the shadow registers into the shadow of a signal frame; the handler starts with passive ones.
pub(super) fn save_signal_frame<M: Mode>(context: &mut Context, frame: SignalFrame) {
    super::atomic::give_up(context);
    let mut thread = Thread::new(context);
    for (number, &address) in frame.general.iter().enumerate() {
        for layer in layers() {
            shadow_address::write_layer(layer, address, thread.shadow_file(layer, shadow::general(number as u16), 8));
        }
    }
    save_to::<M>(thread.context_mut(), frame.xsave, all(), None);
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
    restore_from::<M>(context, frame.xsave, all(), Kind::Xsave);
    if context.version != SUSPENDED {
        context.version = ACTIVE;
    }
}
