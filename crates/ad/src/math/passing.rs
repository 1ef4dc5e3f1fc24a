//! Where a function finds its arguments and leaves its results (System V ABI for AMD64, and its extension for vector functions).
//!
//! - Real numbers take a vector register each, `xmm0` and so on; the two parts of a `double _Complex` take two, those of a `float _Complex` share one.
//! - `long double` numbers are on the stack, 16 bytes each and so are the parts of a `long double _Complex`; the result is in ST(0), its imaginary part in ST(1).
//! - Integers and pointers take `rdi`, `rsi`, `rdx`.
//! - A vector function (`#pragma omp declare simd`, variants of `libmvec`) has whole vectors as arguments; one that does not fit into a register takes several. Pointers
//!   are vectors of 8-byte integers, which are 16-byte ones in the variant for AVX without AVX2.

use super::{Argument, Place, Width};
use crate::shadow::VECTOR_BYTES;

/// Where a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// At this byte of the vector registers, each of which counts [`VECTOR_BYTES`].
    Vector(u16),
    /// In memory, so many bytes above the stack pointer as it is at the function's first instruction.
    Stack(u16),
    /// In the x87 register of this number, counted from the top of the stack.
    X87(u8),
    /// In memory, at the address that is the argument of this number among those of class INTEGER.
    At(u8),
    /// In memory, at the address in an element of a vector.
    AtElement(Element),
}

/// Where an element of a vector argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// As [`Location::Vector`].
    Register(u16),
    /// As [`Location::Stack`].
    Stack(u16),
}

/// Places of the real arguments and results of one lane; a scalar function has one lane.
#[derive(Debug, Default)]
pub struct Lane {
    /// Real arguments in order.
    pub arguments: Vec<Location>,
    /// Results in order.
    pub results: Vec<Location>,
}

/// The return address is between the stack pointer and the arguments.
const RETURN_ADDRESS: u16 = 8;
/// Bytes that a `long double` takes on the stack.
const EXTENDED_SLOT: u16 = 16;
/// Vector registers that hold arguments: `xmm0` to `xmm7`.
const ARGUMENT_REGISTERS: u16 = 8;

/// The one lane of a scalar function.
pub(super) fn scalar(arguments: &[Argument], results: &[Place], width: Width, result_width: Width) -> Lane {
    let mut lane = Lane::default();
    let mut register = 0;
    for argument in arguments {
        if width == Width::Extended {
            let first = lane.arguments.len();
            let slots = (first..first + argument.reals()).map(|slot| RETURN_ADDRESS + EXTENDED_SLOT * slot as u16);
            lane.arguments.extend(slots.map(Location::Stack));
            continue;
        }
        let parts = parts_in_registers(argument.reals(), width, register);
        register += parts.last().map_or(0, |last| last / VECTOR_BYTES + 1 - register);
        lane.arguments.extend(parts.into_iter().map(Location::Vector));
    }
    let is_complex = results.contains(&Place::Imaginary);
    let parts = parts_in_registers(if is_complex { 2 } else { 1 }, result_width, 0);
    let value = |part: u8| match result_width {
        Width::Extended => Location::X87(part),
        _ => Location::Vector(parts[usize::from(part)]),
    };
    lane.results = results
        .iter()
        .map(|place| match *place {
            Place::Value => value(0),
            Place::Imaginary => value(1),
            Place::Pointer(number) => Location::At(number as u8),
        })
        .collect();
    lane
}

/// The parts of a number that is passed in vector registers, the first free of which is `register`.
fn parts_in_registers(reals: usize, width: Width, register: u16) -> Vec<u16> {
    let packed = width == Width::Binary32;
    (0..reals as u16)
        .map(|part| if packed { register * VECTOR_BYTES + 4 * part } else { (register + part) * VECTOR_BYTES })
        .collect()
}

/// An instruction set of the vector function ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VectorSet {
    /// Bytes of a register of real numbers.
    reals: u16,
    /// Bytes of a register of integers.
    integers: u16,
}

impl VectorSet {
    /// By the letter in a vector function's name: SSE, AVX, AVX2, AVX-512.
    pub(super) fn new(letter: u8) -> Option<VectorSet> {
        match letter {
            b'b' => Some(VectorSet { reals: 16, integers: 16 }),
            b'c' => Some(VectorSet { reals: 32, integers: 16 }),
            b'd' => Some(VectorSet { reals: 32, integers: 32 }),
            b'e' => Some(VectorSet { reals: 64, integers: 64 }),
            _ => None,
        }
    }

    /// By the bytes of its registers.
    pub(super) fn of_bytes(bytes: u16) -> Option<VectorSet> {
        matches!(bytes, 16 | 32 | 64).then_some(VectorSet { reals: bytes, integers: bytes })
    }

    /// The lanes of a function all of whose `arguments` are vectors of `count` elements; `None` if that is not among what vector functions have.
    pub(super) fn lanes(
        self,
        count: u16,
        arguments: &[Argument],
        results: &[Place],
        width: Width,
    ) -> Option<Vec<Lane>> {
        let element = width.bytes() as u16;
        if width == Width::Extended
            || count == 0
            || count > 16
            || arguments.iter().any(|kind| !matches!(kind, Argument::Real | Argument::Pointer))
        {
            return None;
        }
        let mut lanes: Vec<Lane> = (0..count).map(|_| Lane::default()).collect();
        let mut places = Places::default();
        let mut pointers: Vec<Vec<Element>> = Vec::new();
        for argument in arguments {
            match argument {
                Argument::Pointer => pointers.push(places.take(count, 8, self.integers)),
                _ => {
                    let elements = places.take(count, element, self.reals);
                    lanes.iter_mut().zip(elements).for_each(|(lane, at)| lane.arguments.push(at.into()));
                }
            }
        }
        let mut value = Places::default().take(count, element, self.reals).into_iter();
        for (number, lane) in lanes.iter_mut().enumerate() {
            let value = value.next()?;
            for place in results {
                lane.results.push(match *place {
                    Place::Value => value.into(),
                    Place::Pointer(pointer) => Location::AtElement(pointers[pointer][number]),
                    Place::Imaginary => return None,
                });
            }
        }
        Some(lanes)
    }
}

impl From<Element> for Location {
    fn from(element: Element) -> Location {
        match element {
            Element::Register(byte) => Location::Vector(byte),
            Element::Stack(offset) => Location::Stack(offset),
        }
    }
}

/// Hands out registers to vectors, and the stack when there is none left.
#[derive(Default)]
struct Places {
    register: u16,
    stack: u16,
}

impl Places {
    /// Places for the elements of a vector, which is passed in pieces of at most `piece` bytes.
    fn take(&mut self, count: u16, bytes: u16, piece: u16) -> Vec<Element> {
        let pieces = (count * bytes).div_ceil(piece);
        let first = self.register;
        self.register += pieces;
        let mut elements = Vec::new();
        for index in 0..count {
            let (number, byte) = (first + index * bytes / piece, index * bytes % piece);
            elements.push(if number < ARGUMENT_REGISTERS {
                Element::Register(number * VECTOR_BYTES + byte)
            } else {
                Element::Stack(RETURN_ADDRESS + self.stack + (number - first.max(ARGUMENT_REGISTERS)) * piece + byte)
            });
        }
        let on_stack = self.register.saturating_sub(first.max(ARGUMENT_REGISTERS)).min(pieces);
        self.stack += on_stack * piece;
        elements
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_complex_numbers() {
        let complex = [Argument::Complex, Argument::Complex];
        let results = [Place::Value, Place::Imaginary];
        let wide = scalar(&complex, &results, Width::Binary64, Width::Binary64);
        assert_eq!(wide.arguments, [0, 64, 128, 192].map(Location::Vector));
        assert_eq!(wide.results, [0, 64].map(Location::Vector));
        let narrow = scalar(&complex, &results, Width::Binary32, Width::Binary32);
        assert_eq!(narrow.arguments, [0, 4, 64, 68].map(Location::Vector));
        assert_eq!(narrow.results, [0, 4].map(Location::Vector));
        let extended = scalar(&complex, &results, Width::Extended, Width::Extended);
        assert_eq!(extended.arguments, [8, 24, 40, 56].map(Location::Stack));
        assert_eq!(extended.results, [0, 1].map(Location::X87));
    }

    #[test]
    fn lanes_of_vectors() {
        let set = VectorSet::new(b'd').unwrap();
        let real = [Argument::Real, Argument::Real];
        let lanes = set.lanes(4, &real, &[Place::Value], Width::Binary64).unwrap();
        assert_eq!(lanes[3].arguments, [24, 88].map(Location::Vector));
        assert_eq!(lanes[3].results, [Location::Vector(24)]);
        // Eight numbers in two registers.
        let lanes = VectorSet::new(b'b').unwrap().lanes(8, &real[..1], &[Place::Value], Width::Binary32).unwrap();
        assert_eq!(lanes[5].arguments, [Location::Vector(68)]);
        assert_eq!(lanes[5].results, [Location::Vector(68)]);
    }

    /// Sixteen pointers of 8 bytes in pieces of 16 bytes: seven pieces in registers, the last one on the stack.
    #[test]
    fn pointers_beyond_the_registers_are_on_the_stack() {
        let arguments = [Argument::Real, Argument::Pointer, Argument::Pointer];
        let results = [Place::Pointer(0), Place::Pointer(1)];
        let lanes = VectorSet::new(b'c').unwrap().lanes(8, &arguments, &results, Width::Binary32).unwrap();
        let at = |lane: usize, result: usize| lanes[lane].results[result];
        assert_eq!(at(0, 0), Location::AtElement(Element::Register(64)));
        assert_eq!(at(7, 0), Location::AtElement(Element::Register(4 * 64 + 8)));
        assert_eq!(at(5, 1), Location::AtElement(Element::Register(7 * 64 + 8)));
        assert_eq!(at(6, 1), Location::AtElement(Element::Stack(8)));
        assert_eq!(at(7, 1), Location::AtElement(Element::Stack(16)));
    }
}
