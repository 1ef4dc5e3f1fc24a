//! Everything that an instruction can read and write.

use iced_x86::Register;

use crate::Random;

/// Bytes of the memory that instructions may access.
pub const DATA_BYTES: usize = 1024;

/// Registers and memory. It lies at a fixed address, so that the code of a [`Stage`](crate::Stage) reaches it without a register.
#[repr(C, align(64))]
#[derive(Clone, PartialEq, Eq)]
pub struct Machine {
    /// Memory.
    pub data: [u8; DATA_BYTES],
    /// General registers by hardware number.
    pub general: [u64; 16],
    /// Vector registers. See [`Registers`](crate::Registers) for how much of them is loaded and stored.
    pub vector: [[u8; 64]; 32],
    /// Mask registers.
    pub masks: [u64; 8],
    /// The x87 registers from the top of the stack on, 10 bytes each.
    pub x87: [[u8; 16]; 8],
    /// MMX registers.
    pub mmx: [u64; 8],
    /// What `fnstenv` says after the instruction: control, status and tag word, and pointers to instructions and operands.
    pub environment: [u32; 7],
    /// Control and status of the vector units.
    pub mxcsr: u32,
    /// The x87 control word.
    pub control: u32,
    /// MXCSR of the code that calls.
    pub(crate) host_mxcsr: u32,
    /// Flags.
    pub flags: u64,
    /// Address of the instruction.
    pub target: u64,
    pub(crate) host_stack: u64,
}

/// The general registers that hold addresses of [`Machine::data`], with their offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// RBX, of memory operands.
    Operand,
    /// RSI, of string instructions.
    Source,
    /// RDI, of string instructions and masked stores.
    Destination,
    /// RBP, for `leave`.
    Frame,
    /// RSP.
    Stack,
}

impl Pointer {
    /// All of them.
    pub const ALL: [Pointer; 5] =
        [Pointer::Operand, Pointer::Source, Pointer::Destination, Pointer::Frame, Pointer::Stack];

    /// The register.
    pub fn register(self) -> Register {
        match self {
            Pointer::Operand => Register::RBX,
            Pointer::Source => Register::RSI,
            Pointer::Destination => Register::RDI,
            Pointer::Frame => Register::RBP,
            Pointer::Stack => Register::RSP,
        }
    }

    /// Where in the data it points to.
    pub fn offset(self) -> usize {
        match self {
            Pointer::Operand => 0,
            Pointer::Source => 640,
            Pointer::Destination => 704,
            Pointer::Frame => 768,
            Pointer::Stack => 960,
        }
    }
}

/// MXCSR and x87 control word as a program starts with them: to nearest, all exceptions masked.
const MXCSR: u32 = 0x1f80;
const CONTROL: u32 = 0x37f;

impl Machine {
    /// All registers and memory zero, the floating-point units as a program finds them.
    pub fn zeroed() -> Machine {
        Machine {
            data: [0; DATA_BYTES],
            general: [0; 16],
            vector: [[0; 64]; 32],
            masks: [0; 8],
            x87: [[0; 16]; 8],
            mmx: [0; 8],
            environment: [0; 7],
            mxcsr: MXCSR,
            control: CONTROL,
            host_mxcsr: MXCSR,
            flags: 0x202,
            target: 0,
            host_stack: 0,
        }
    }

    /// Random bytes in memory and registers; pointers to `data` in the registers that hold one.
    pub fn random(random: &mut Random, data: u64) -> Machine {
        let mut machine = Machine::zeroed();
        random.fill(&mut machine.data);
        for value in machine.general.iter_mut().chain(&mut machine.masks).chain(&mut machine.mmx) {
            *value = random.bits();
        }
        for value in &mut machine.vector {
            random.fill(value);
        }
        for value in &mut machine.x87 {
            // Random bits are mostly no x87 number at all.
            let number = f64::from_bits(random.bits() & !(0x7ff << 52) | (0x3f0 + random.below(32)) << 52);
            *value = extended(number);
        }
        for pointer in Pointer::ALL {
            machine.general[pointer.register().number()] = data + pointer.offset() as u64;
        }
        machine.flags |= random.bits() & 0x8d5;
        machine
    }

    /// The bytes of the machine.
    pub fn bytes(&self) -> &[u8; size_of::<Machine>()] {
        // SAFETY: plain integers without padding, which `offsets` below asserts.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }

    /// The bytes of the machine.
    pub fn bytes_mut(&mut self) -> &mut [u8; size_of::<Machine>()] {
        // SAFETY: as above; any bytes are valid integers.
        unsafe { &mut *std::ptr::from_mut(self).cast() }
    }
}

const _: () = assert!(size_of::<Machine>() == std::mem::offset_of!(Machine, host_stack) + 8);

/// A normal binary64 number as the ten bytes of an x87 register.
pub fn extended(number: f64) -> [u8; 16] {
    let bits = number.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as u16 + (0x3fff - 0x3ff);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(1 << 63 | bits << 11).to_le_bytes());
    bytes[8..10].copy_from_slice(&(exponent | ((bits >> 63) as u16) << 15).to_le_bytes());
    bytes
}
