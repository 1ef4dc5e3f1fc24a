//! Vector and x87 registers in a form that can be compared: an XSAVE image in which everything has one representation only.

use std::arch::x86_64::__cpuid_count;
use std::ops::Range;
use std::sync::OnceLock;

/// Offsets in an XSAVE image of the standard format (Intel SDM volume 1, sections 10.5.1 and 13.4).
const FCW: usize = 0;
const FSW: usize = 2;
/// Abridged tag word: a bit for each physical register that is not empty.
const FTW: usize = 4;
/// Opcode and addresses of the last x87 instruction. Translated code does not run where the application's would.
const LAST_INSTRUCTION: Range<usize> = 6..24;
const MXCSR: usize = 24;
const MXCSR_MASK: Range<usize> = 28..32;
const ST: usize = 32;
const ST_BYTES: usize = 10;
const XMM: usize = 160;
/// What follows the 16 XMM registers up to the header: reserved, or for software.
const UNUSED: Range<usize> = 416..512;
const XSTATE_BV: usize = 512;
const HEADER: Range<usize> = 512..576;

/// Initial values that are not zero.
const FCW_DEFAULT: u16 = 0x37f;
const MXCSR_DEFAULT: u32 = 0x1f80;

/// Component bits of x87 and SSE state, which lie in the legacy area.
const X87: u64 = 1 << 0;
const SSE: u64 = 1 << 1;

/// State components behind the header that the engine saves: what one register is called, and how many bytes it has.
const EXTENDED: [(u32, &str, usize); 4] = [(2, "ymm", 16), (5, "k", 8), (6, "zmm", 32), (7, "zmm", 64)];
/// The last component holds registers from this number on, whole; the others before it hold upper halves.
const UPPER_ZMM: (u32, usize) = (7, 16);

/// An extended component of this processor.
struct Component {
    number: u32,
    register: &'static str,
    register_bytes: usize,
    bytes: Range<usize>,
}

fn components() -> &'static [Component] {
    static COMPONENTS: OnceLock<Vec<Component>> = OnceLock::new();
    COMPONENTS.get_or_init(|| {
        const LEAF: u32 = 0xd;
        // SAFETY: cpuid is available on every amd64 processor.
        #[allow(unused_unsafe)]
        let leaf = |subleaf| unsafe { __cpuid_count(LEAF, subleaf) };
        let enabled = leaf(0).eax;
        let mut components = Vec::new();
        for (number, register, register_bytes) in EXTENDED {
            if enabled & (1 << number) != 0 {
                let place = leaf(number);
                let (offset, size) = (place.ebx as usize, place.eax as usize);
                components.push(Component { number, register, register_bytes, bytes: offset..offset + size });
            }
        }
        components.sort_by_key(|component: &Component| component.bytes.start);
        components
    })
}

/// Bytes of an image that are looked at.
pub(super) fn image_bytes() -> usize {
    components().iter().map(|component| component.bytes.end).max().unwrap_or(HEADER.end)
}

/// A normalised image. Two of them are equal if a program finds the same in the registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Vectors(Vec<u8>);

impl Vectors {
    /// From an XSAVE image of the standard format. What lies behind its end has its initial value.
    pub(super) fn normalised(image: &[u8]) -> Vectors {
        let mut bytes = vec![0; image_bytes()];
        let common = image.len().min(bytes.len());
        bytes[..common].copy_from_slice(&image[..common]);
        let mut present = [0; 8];
        present.copy_from_slice(&bytes[XSTATE_BV..XSTATE_BV + 8]);
        let present = u64::from_le_bytes(present);

        if present & X87 == 0 {
            bytes[FCW..MXCSR].fill(0);
            bytes[ST..XMM].fill(0);
            bytes[FCW..FCW + 2].copy_from_slice(&FCW_DEFAULT.to_le_bytes());
        }
        if present & SSE == 0 {
            bytes[XMM..UNUSED.start].fill(0);
        }
        // Between those that are looked at, other components may lie (MPX).
        let mut others = HEADER.end;
        for component in components() {
            bytes[others..component.bytes.start].fill(0);
            others = component.bytes.end;
            if present & (1 << component.number) == 0 {
                bytes[component.bytes.clone()].fill(0);
            }
        }
        // Without SSE and AVX state MXCSR is in the image all the same; only an image that has never been saved lacks it.
        if bytes[MXCSR..MXCSR + 4] == [0; 4] && present == 0 {
            bytes[MXCSR..MXCSR + 4].copy_from_slice(&MXCSR_DEFAULT.to_le_bytes());
        }
        for ignored in [LAST_INSTRUCTION, MXCSR_MASK, UNUSED, HEADER] {
            bytes[ignored].fill(0);
        }
        bytes[FTW + 1] = 0;
        let (tags, top) = (bytes[FTW], usize::from(bytes[FSW + 1] >> 3 & 7));
        for number in 0..8 {
            let register = ST + 16 * number;
            let empty = tags & (1 << ((top + number) % 8)) == 0;
            // An empty register's content cannot be read; behind each register are six reserved bytes.
            let unused = if empty { register } else { register + ST_BYTES };
            bytes[unused..register + 16].fill(0);
        }
        Vectors(bytes)
    }

    /// Puts the values into an image that has been read from a process, leaving alone what is not looked at.
    pub(super) fn put_into(&self, image: &mut [u8]) {
        let mut present = X87 | SSE;
        let mut copy = |range: Range<usize>| {
            if let (Some(target), Some(source)) = (image.get_mut(range.clone()), self.0.get(range)) {
                target.copy_from_slice(source);
            }
        };
        copy(FCW..MXCSR_MASK.start);
        copy(ST..UNUSED.start);
        for component in components() {
            copy(component.bytes.clone());
            present |= 1 << component.number;
        }
        if let Some(bits) = image.get_mut(XSTATE_BV..XSTATE_BV + 8) {
            for (bit, more) in bits.iter_mut().zip(present.to_le_bytes()) {
                *bit |= more;
            }
        }
    }

    /// The bytes, from which [`Vectors::from_bytes`] makes the same again.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// From [`Vectors::bytes`].
    pub(super) fn from_bytes(bytes: &[u8]) -> Vectors {
        Vectors(bytes.to_vec())
    }

    /// Name and bytes of each register that is not the same in `other`: the bytes here, and there.
    pub(super) fn differences<'a>(&'a self, other: &'a Vectors) -> Vec<(String, &'a [u8], &'a [u8])> {
        if self == other {
            return Vec::new();
        }
        named()
            .into_iter()
            .filter_map(|(name, range)| {
                let (one, two) = (self.0.get(range.clone())?, other.0.get(range)?);
                (one != two).then_some((name, one, two))
            })
            .collect()
    }
}

/// Names of all registers, and where they are.
fn named() -> Vec<(String, Range<usize>)> {
    let mut names: Vec<(String, Range<usize>)> =
        [("fcw", FCW..FCW + 2), ("fsw", FSW..FSW + 2), ("ftw", FTW..FTW + 1), ("mxcsr", MXCSR..MXCSR + 4)]
            .map(|(name, range)| (name.to_owned(), range))
            .into();
    names.extend((0..8).map(|n| (format!("st{n}"), ST + 16 * n..ST + 16 * n + ST_BYTES)));
    names.extend((0..16).map(|n| (format!("xmm{n}"), XMM + 16 * n..XMM + 16 * n + 16)));
    for component in components() {
        let first = if component.number == UPPER_ZMM.0 { UPPER_ZMM.1 } else { 0 };
        let part = if component.register == "k" || first != 0 { "" } else { " high" };
        let starts = component.bytes.clone().step_by(component.register_bytes);
        names.extend(starts.enumerate().map(|(n, start)| {
            (format!("{}{}{part}", component.register, first + n), start..start + component.register_bytes)
        }));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(present: u64) -> Vec<u8> {
        let mut image = vec![0xaa; image_bytes()];
        image[MXCSR..MXCSR + 4].copy_from_slice(&MXCSR_DEFAULT.to_le_bytes());
        image[XSTATE_BV..XSTATE_BV + 8].copy_from_slice(&present.to_le_bytes());
        image
    }

    #[test]
    fn absent_components_have_their_initial_values() {
        let fresh = Vectors::normalised(&[0; 0]);
        assert_eq!(Vectors::normalised(&image(0)), fresh);
        assert_ne!(Vectors::normalised(&image(SSE)), fresh);
        assert_eq!(fresh.0[FCW..FCW + 2], FCW_DEFAULT.to_le_bytes());
    }

    #[test]
    fn what_a_program_cannot_tell_apart_is_equal() {
        let one = Vectors::normalised(&image(u64::MAX));
        let mut other = image(u64::MAX);
        other[LAST_INSTRUCTION].fill(1);
        other[UNUSED].fill(1);
        other[ST + ST_BYTES] = 1;
        // 0xaa in FSW makes register 5 the top one; 0xaa in FTW leaves every second register empty, 6 (ST1) among them.
        other[ST + 16] = 7;
        assert_eq!(Vectors::normalised(&other), one);
        other[ST] = 7;
        let other = Vectors::normalised(&other);
        let names: Vec<_> = other.differences(&one).into_iter().map(|it| it.0).collect();
        assert_eq!(names, ["st0"]);
    }

    #[test]
    fn differences_are_named() {
        let one = Vectors::normalised(&image(u64::MAX));
        let mut other = image(u64::MAX);
        other[MXCSR] ^= 0x20;
        other[XMM + 16 * 3 + 5] = 0;
        let other = Vectors::normalised(&other);
        let names: Vec<_> = one.differences(&other).into_iter().map(|it| it.0).collect();
        assert_eq!(names, ["mxcsr", "xmm3"]);
    }

    #[test]
    fn values_come_back_from_an_image() {
        let vectors = Vectors::normalised(&image(u64::MAX));
        let mut kernels = vec![0x55; image_bytes() + 64];
        kernels[XSTATE_BV..XSTATE_BV + 8].fill(0);
        vectors.put_into(&mut kernels);
        assert_eq!(Vectors::normalised(&kernels), vectors);
        assert_eq!(kernels[UNUSED.start], 0x55);
    }
}
