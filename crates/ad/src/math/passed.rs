//! Arguments and results in the registers and the memory of a stopped thread, and their shadow.

use derivgrind_engine::context::{Context, Gpr};
use derivgrind_engine::memory::user;
use derivgrind_engine::translate::xsave_layout;

use super::passing::Location;
use super::{Bytes, MAX_INTEGERS, Width};
use crate::instrument::{Thread, shadow_address};
use crate::shadow::{VECTOR, VECTOR_BYTES};
use crate::x87::{self, ExtendedShadow};

/// An argument. What is in memory that cannot be read is 0.
pub(super) fn argument(context: &Context, location: Location, width: Width) -> Bytes {
    match location {
        Location::Vector(byte) => vector(context, byte),
        Location::Stack(offset) => memory(stack(context, offset), width).unwrap_or_default(),
        Location::X87(_) | Location::At(_) | Location::AtElement(_) => Bytes::default(),
    }
}

/// The shadow of an argument in a layer, as of a register.
pub(super) fn argument_shadow<S: ExtendedShadow>(
    context: &mut Context,
    layer: usize,
    location: Location,
    width: Width,
) -> Bytes {
    let mut shadow = Bytes::default();
    match location {
        Location::Vector(byte) => {
            let file = Thread::new(context);
            shadow[..8].copy_from_slice(file.shadow_file(layer, VECTOR + byte, 8));
        }
        Location::Stack(offset) => {
            let address = stack(context, offset);
            if width == Width::Extended {
                return x87::argument::<S>(&mut Thread::new(context), layer, address).1;
            }
            shadow_address::read_layer(layer, address, &mut shadow[..width.bytes()]);
        }
        Location::X87(_) | Location::At(_) | Location::AtElement(_) => {}
    }
    shadow
}

/// Where a result of this call is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Target {
    /// The function has fewer results.
    #[default]
    None,
    /// At this byte of the vector registers, see [`Location::Vector`].
    Vector(u16),
    /// In the x87 register of this number.
    X87(u8),
    /// In memory, at this address.
    Memory(u64),
}

impl Target {
    /// Where a result will be, from the arguments: to be called at the function's first instruction.
    pub(super) fn new(context: &Context, location: Location, integers: &[u64; MAX_INTEGERS]) -> Target {
        match location {
            Location::Vector(byte) => Target::Vector(byte),
            Location::Stack(offset) => Target::Memory(stack(context, offset)),
            Location::X87(number) => Target::X87(number),
            Location::At(number) => Target::Memory(integers[usize::from(number)]),
            Location::AtElement(element) => {
                let [a, b, c, d, e, f, g, h, ..] = argument(context, element.into(), Width::Binary64);
                Target::Memory(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
            }
        }
    }

    /// The result; NaN if the memory is gone.
    pub(super) fn value(self, context: &Context, width: Width) -> f64 {
        match self {
            Target::None => 0.0,
            Target::Vector(byte) => width.widen(vector(context, byte)),
            Target::X87(number) => x87::State::of(context).value(number.into()).to_f64(),
            Target::Memory(address) => memory(address, width).map_or(f64::NAN, |bytes| width.widen(bytes)),
        }
    }

    /// Gives the result a shadow in a layer, which is that of a register.
    pub(super) fn set_shadow<S: ExtendedShadow>(
        self,
        context: &mut Context,
        layer: usize,
        width: Width,
        shadow: Bytes,
    ) {
        let mut thread = Thread::new(context);
        match self {
            Target::None => {}
            Target::Vector(byte) => {
                let part = &shadow[..width.bytes()];
                thread.shadow_file_mut(layer, VECTOR + byte, part.len()).copy_from_slice(part);
            }
            Target::X87(number) => x87::set_shadow(&mut thread, layer, number.into(), shadow),
            Target::Memory(address) if width == Width::Extended => {
                x87::set_result::<S>(&mut thread, layer, address, shadow);
            }
            // A wild pointer is the program's affair.
            Target::Memory(address) => shadow_address::write_layer(layer, address, &shadow[..width.bytes()]),
        }
    }
}

/// The address of what is so many bytes above the stack pointer.
fn stack(context: &Context, offset: u16) -> u64 {
    context.reg(Gpr::Rsp).wrapping_add(u64::from(offset))
}

/// Offset of the XMM registers in an XSAVE image (Intel SDM volume 1, table 10-2).
const XMM: usize = 160;
/// Offset of the bits that say which components of the image are not in their initial state.
const XSTATE_BV: usize = 512;
/// The components of the XMM registers, of the upper halves of YMM registers, of ZMM registers.
const SSE: u8 = 1 << 1;
const AVX: u8 = 1 << 2;
const ZMM: u8 = 1 << 6;

/// Up to 8 bytes of a vector register, from this byte on; fewer where its parts in the image end.
fn vector(context: &Context, byte: u16) -> Bytes {
    let (number, byte) = (usize::from(byte / VECTOR_BYTES), usize::from(byte % VECTOR_BYTES));
    let (part, size, component) = match byte {
        0..16 => (XMM, 16, SSE),
        16..32 => (xsave_layout().ymm_high, 16, AVX),
        _ => (xsave_layout().zmm_high, 32, ZMM),
    };
    let mut bytes = Bytes::default();
    if context.vector_state[XSTATE_BV] & component != 0 {
        let start = part + size * number + byte % size;
        let end = (part + size * (number + 1)).min(start + 8);
        bytes[..end - start].copy_from_slice(&context.vector_state[start..end]);
    }
    bytes
}

/// A number in application memory; `None` if it cannot be read.
fn memory(address: u64, width: Width) -> Option<Bytes> {
    let mut bytes = Bytes::default();
    user::read_bytes(address, &mut bytes[..width.bytes()]).ok()?;
    Some(bytes)
}
