//! The AD IR: what the instructions of a basic block do to shadow data.
//!
//! A block is a list of [`Operation`]s, each tagged with the instruction it belongs to. They are executed in order, and mostly all
//! operations of an instruction before the instruction itself, so that addresses and operand values are those that the
//! instruction sees. ([`Effect::BitTrick`] additionally needs the result; see there.) Operations that come *after* the instruction are
//! marked: those that must not happen twice if it faults and is executed once more, and those that look at what it has stored.
//!
//! The IR says nothing about *how* shadow is moved or recorded: analyses work on it, and each version of a block is emitted from it.

mod display;

use iced_x86::{Code, ConditionCode};

pub use crate::shadow::Range;
pub use crate::x87::Operation as X87Operation;
pub use derivgrind_tape::Operation as RealOperation;

/// Where shadow bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// An offset in the shadow register file. Real operations use it for the operand's *value* as well: the register file and its
    /// shadow have the same layout.
    Register(u16),
    /// A distance from an address that the instruction uses.
    Memory {
        /// The address.
        base: Address,
        /// Distance in bytes.
        offset: i16,
    },
}

/// An address that an instruction uses, with the register values before the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// The explicit memory operand.
    Operand,
    /// The stack pointer.
    Stack,
    /// The frame pointer (`leave`).
    Frame,
    /// `rsi` with the instruction's segment, of a string instruction.
    StringSource,
    /// `rdi` of a string instruction.
    StringDestination,
}

impl Place {
    /// The place some bytes further on.
    pub fn advanced(self, by: u16) -> Place {
        match self {
            Place::Register(offset) => Place::Register(offset + by),
            Place::Memory { base, offset } => Place::Memory { base, offset: offset + by as i16 },
        }
    }

    /// Whether the place is in memory.
    pub fn is_memory(self) -> bool {
        matches!(self, Place::Memory { .. })
    }
}

/// A number of bytes at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first byte.
    pub place: Place,
    /// Number of bytes.
    pub bytes: u16,
}

impl Span {
    /// `bytes` bytes at `place`.
    pub const fn new(place: Place, bytes: u16) -> Span {
        Span { place, bytes }
    }

    /// The range of the shadow register file, or `None` for memory.
    pub fn register(self) -> Option<Range> {
        match self.place {
            Place::Register(offset) => Some(Range { offset, bytes: self.bytes }),
            Place::Memory { .. } => None,
        }
    }

    /// A part of the span.
    pub fn part(self, offset: u16, bytes: u16) -> Span {
        debug_assert!(offset + bytes <= self.bytes);
        Span { place: self.place.advanced(offset), bytes }
    }

    /// Whether two spans share bytes. Memory spans of the same base are compared by offset; those of different bases may overlap.
    pub fn overlaps(self, other: Span) -> bool {
        let (start, other_start) = match (self.place, other.place) {
            (Place::Register(a), Place::Register(b)) => (i32::from(a), i32::from(b)),
            (Place::Memory { base: a, offset }, Place::Memory { base: b, offset: other_offset }) => {
                if a != b {
                    return true;
                }
                (i32::from(offset), i32::from(other_offset))
            }
            _ => return false,
        };
        start < other_start + i32::from(other.bytes) && other_start < start + i32::from(self.bytes)
    }
}

/// Binary interchange format of a real number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// IEEE 754 binary32, `float`.
    Binary32,
    /// IEEE 754 binary64, `double`.
    Binary64,
}

impl Format {
    /// Bytes of a value and of its shadow.
    pub const fn bytes(self) -> u16 {
        match self {
            Format::Binary32 => 4,
            Format::Binary64 => 8,
        }
    }
}

/// The format of an operand of an x87 instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum X87Format {
    /// A `float` in memory.
    Binary32,
    /// A `double` in memory.
    Binary64,
    /// A register, or a `long double` in memory.
    Extended,
    /// A 16-bit integer in memory: always passive.
    Integer16,
    /// A 32-bit integer in memory: always passive.
    Integer32,
}

impl X87Format {
    /// Bytes of a value and of its shadow.
    pub const fn bytes(self) -> u16 {
        match self {
            X87Format::Integer16 => 2,
            X87Format::Binary32 | X87Format::Integer32 => 4,
            X87Format::Binary64 => 8,
            X87Format::Extended => 10,
        }
    }
}

/// An operand of an x87 instruction. A register is named by its slot in the shadow register file before the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct X87Operand {
    /// Where it is: value and shadow.
    pub place: Place,
    /// What it is.
    pub format: X87Format,
}

impl X87Operand {
    /// ST(`number`).
    pub const fn register(number: u16) -> X87Operand {
        X87Operand { place: Place::Register(crate::shadow::x87(number)), format: X87Format::Extended }
    }

    /// Its value and shadow.
    pub fn span(self) -> Span {
        Span::new(self.place, self.format.bytes())
    }

    /// Its shadow, unless it is an integer.
    pub fn real(self) -> Option<Span> {
        (!matches!(self.format, X87Format::Integer16 | X87Format::Integer32)).then(|| self.span())
    }
}

/// How the x87 stack is changed, where the data decide about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StackChange {
    /// `fsincos`: the sine in place of the operand, and the cosine pushed; nothing if the operand is too large.
    SineCosine,
    /// `fptan`: the tangent in place of the operand, and 1 pushed; nothing if the operand is too large.
    Tangent,
    /// `fldenv`: TOP comes from memory, at this distance from the operand; registers stay where they are.
    LoadEnvironment(u8),
    /// An MMX instruction: TOP becomes 0.
    ToMmx,
}

/// An operand of a bit trick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BitOperand {
    /// A register or memory: value and shadow.
    Span(Span),
    /// An immediate, repeated over the width of the operation by the given element size.
    Immediate(u64),
    /// Numbers of bits by which elements are shifted. They are no real numbers.
    Count {
        /// The register or memory.
        span: Span,
        /// Bytes of the elements that each have their own number; 0 if the low eight bytes are that of all elements.
        element: u16,
    },
    /// A mask of as many low bits as the low byte here says.
    Ones(Span),
}

/// What is known about the operation behind a bit trick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BitOperation {
    /// Bitwise `a & b`.
    And,
    /// Bitwise `a & b` in a general register: compilers take bytes out of numbers in this way.
    Take,
    /// Bitwise `!a & b`.
    AndNot,
    /// Bitwise `a | b`.
    Or,
    /// Bitwise `a | b` of two general registers, or of one and memory: compilers put bytes together in this way.
    Merge,
    /// Bitwise `a ^ b`.
    Xor,
    /// Logical or arithmetic shift right. The second operand is the number of bits; see [`BitOperand::Count`].
    ShiftRight,
    /// Shift left by a number of bits.
    ShiftLeft,
    /// Shift left in a general register, by as many bits as another one says: compilers bring bytes to their places in this way.
    Raise,
    /// The same to the right.
    Lower,
    /// Rotation by a number of bits, which is below the width.
    Rotate,
    /// Rotation of a general register by half its width: the halves change places.
    Turn,
    /// One of the operands, whichever comes first in some order of integers.
    Select,
    /// The bitwise function of three operands whose truth table is this (`vpternlog`).
    Ternary(u8),
    /// The first operand times 2 to the power of the second, rounded down, in this format.
    Scale(Format),
    /// One of the operands, perhaps with another sign, in this format.
    Choice(Format),
    /// The operand times a power of two, in this format.
    Mantissa(Format),
    /// Conversion of integers to real numbers.
    FromInteger,
    /// Sum of two integers in general registers: compilers add where they know that no bits meet, as `or` would.
    Sum,
    /// The last one of several operations in general registers that leave the mantissa of their operand and change bits above it.
    Assembled,
    /// Any other operation on integers.
    Other,
}

impl BitOperation {
    /// Whether the second operand is a number of bits by which the first one is shifted or rotated.
    pub fn is_shift(self) -> bool {
        use BitOperation::{Lower, Raise, Rotate, ShiftLeft, ShiftRight};
        matches!(self, ShiftRight | ShiftLeft | Raise | Lower | Rotate)
    }
}

/// In which elements of its target an effect happens: those whose bit is set in a mask register of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mask {
    /// Number of the mask register.
    pub register: u8,
    /// The bit of the target's first element. The effect of a single lane has one bit, others have those from bit 0 on.
    pub bit: u8,
    /// Bytes of an element of the target.
    pub element: u8,
    /// Whether the other elements become passive instead of keeping their shadow.
    pub zeroing: bool,
}

impl Mask {
    /// The mask of an element further on.
    pub fn advanced(self, elements: u16) -> Mask {
        Mask { bit: self.bit + elements as u8, ..self }
    }

    /// Position of the first element in a register.
    pub fn offset(self) -> u16 {
        u16::from(self.bit) * u16::from(self.element)
    }
}

/// What memory becomes in an [`Effect::Update`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Updated {
    /// This register's value.
    Exchanged(Span),
    /// The result of an integer or bitwise operation on what was there and another operand, if there is one.
    Bits {
        /// What is known of the operation.
        operation: BitOperation,
        /// The other operand.
        operand: Option<BitOperand>,
    },
}

/// One effect on shadow data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The shadow becomes passive: the data written there is no real number that depends on inputs.
    Clear {
        /// What is cleared.
        target: Span,
    },
    /// Shadow moves as the data does. All bytes are read before any is written.
    Copy {
        /// Where to.
        target: Place,
        /// Where from.
        source: Place,
        /// Number of bytes, at most 64.
        bytes: u16,
    },
    /// The value is converted from one format to the other: the index moves between the 4-byte and the 8-byte form.
    Convert {
        /// Format of the result.
        to: Format,
        /// Where the index of the result goes.
        target: Place,
        /// Where the operand's index is.
        source: Place,
    },
    /// A real-number operation on one lane: records when an operand is active, else makes the target passive.
    Real {
        /// Its rule.
        operation: RealOperation,
        /// Format of operands and result.
        format: Format,
        /// Where the index of the result goes.
        target: Place,
        /// First operand: index and, unless it is a temporary, value.
        a: Place,
        /// Second operand, if the operation has two.
        b: Option<Place>,
    },
    /// An integer or bitwise operation that may be a real operation in disguise. If an operand is active, the rule of
    /// [`crate::bit_tricks`] is applied to operand values, result and indices at run time; else the target becomes passive.
    BitTrick {
        /// What is known of the operation.
        operation: BitOperation,
        /// Where the result goes.
        target: Span,
        /// First operand.
        a: BitOperand,
        /// Second operand, if there are two.
        b: Option<BitOperand>,
        /// Third operand, if there are three.
        c: Option<BitOperand>,
    },
    /// The memory operand is read as the instruction reads it, value and shadow: under its mask, one element for all lanes. Other effects
    /// find it at [`crate::shadow::OPERAND`].
    Fetch {
        /// Where to.
        target: Span,
        /// The memory operand. If it has fewer bytes than the target it is repeated.
        source: Span,
        /// Bytes of an element.
        element: u8,
    },
    /// The instruction moves data in a way that depends on data (a mask, a selector, a condition): it is executed once more with
    /// the data operands replaced by their shadow.
    Replay {
        /// Bit k is set if the instruction's operand k is data.
        data: u8,
        /// What is written, possibly in part.
        target: Span,
        /// What is read.
        sources: [Option<Span>; 2],
        /// A mask says what is accessed: reading the whole of a span in memory could fault, and not all of the target is written.
        masked: bool,
    },
    /// `rep movs`: shadow moves like data, `element` bytes at a time.
    RepeatedMove {
        /// Bytes of an element.
        element: u8,
    },
    /// `rep stos`: shadow is cleared.
    RepeatedStore {
        /// Bytes of an element.
        element: u8,
    },
    /// `cmpxchg`, `cmpxchg8b`, `cmpxchg16b`: source to memory or memory to accumulator, depending on a comparison.
    CompareExchange {
        /// The destination operand.
        destination: Span,
        /// What is stored there if the comparison succeeds: low and high half.
        source: [Option<Span>; 2],
        /// What the destination is compared with and what receives it otherwise: low and high half.
        accumulator: [Option<Span>; 2],
    },
    /// An x87 operation on real numbers: if an operand is active, the target gets the result's shadow, else it becomes passive.
    X87 {
        /// Its rule.
        operation: X87Operation,
        /// A register's shadow, or a temporary.
        target: Place,
        /// First operand.
        a: X87Operand,
        /// Second operand, if the operation has two.
        b: Option<X87Operand>,
    },
    /// An x87 register is loaded or stored: the shadow changes its format as the number does.
    X87Move {
        /// Where to.
        target: X87Operand,
        /// Where from.
        source: X87Operand,
    },
    /// The x87 stack moves: the shadow of ST(k) becomes that of ST(k + by), counted modulo 8. A push is 1, a pop -1.
    Rotate {
        /// By so many registers.
        by: i8,
    },
    /// The x87 stack moves in a way that depends on data.
    Stack {
        /// How.
        change: StackChange,
    },
    /// The target becomes a copy of the source if a condition holds (`fcmov`).
    Select {
        /// The condition.
        condition: ConditionCode,
        /// Where to.
        target: Span,
        /// Where from.
        source: Place,
    },
    /// Memory is read and written in one step (`xchg`, or a `lock` prefix): data and shadow change together, whatever other threads do.
    Update {
        /// The memory operand.
        memory: Span,
        /// What it becomes.
        becomes: Updated,
        /// The register that receives what was there before.
        previous: Option<Span>,
    },
    /// Processor state is saved to memory or restored from it.
    State {
        /// Which way and in which layout.
        transfer: StateTransfer,
    },
    /// An operation that is not differentiated reads this. If it is active, derivative information is lost here.
    Lost {
        /// The operand.
        source: Span,
    },
}

/// An instruction that moves many registers between the processor and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateTransfer {
    /// `fxsave`
    FxSave,
    /// `fxrstor`
    FxRestore,
    /// `fnsave`, with the distance of the registers from the operand.
    FnSave(u8),
    /// `frstor`, likewise.
    FRestore(u8),
    /// `xsave`, `xsaveopt`: standard format.
    XSave,
    /// `xsavec`, `xsaves`: compacted format.
    XSaveCompacted,
    /// `xrstor`, `xrstors`: either format, as the header in memory says.
    XRestore,
    /// `vzeroupper` and `vzeroall` are plain clears; this is any other whole-state instruction, which makes everything passive.
    ClearAll,
}

/// An effect and the instruction that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Position of the instruction in its block.
    pub instruction: u16,
    /// Whether it happens after the instruction.
    pub after: bool,
    /// What happens.
    pub effect: Effect,
    /// In which elements of the target; everywhere if there is none.
    pub mask: Option<Mask>,
    /// Whether the result is a part of a number that is [put together](BitOperation::Assembled) later: nothing is lost here.
    pub of_part: bool,
}

/// A lifted basic block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ir {
    /// In order of execution.
    pub operations: Vec<Operation>,
    /// Instructions that have no entry in the tables and were treated by the general rule, with their positions.
    pub by_default: Vec<(u16, Code)>,
}

impl Ir {
    /// Upper bound of the number of records that one execution of the block writes inline.
    pub fn max_records(&self) -> usize {
        self.operations.iter().filter(|operation| matches!(operation.effect, Effect::Real { .. })).count()
    }
}

impl Operation {
    /// Whether all of the target is written.
    pub fn overwrites_target(&self) -> bool {
        !matches!(self.effect, Effect::Replay { .. }) && self.mask.is_none_or(|mask| mask.zeroing)
    }
}

impl Updated {
    /// The operand beside what was in memory, if it has a shadow.
    pub fn operand(&self) -> Option<Span> {
        match *self {
            Updated::Exchanged(span) | Updated::Bits { operand: Some(BitOperand::Span(span)), .. } => Some(span),
            Updated::Bits { .. } => None,
        }
    }
}

impl Effect {
    /// The shadow that is written. `RepeatedMove`, `RepeatedStore`, `CompareExchange`, `Update`, `Rotate`, `Stack` and `State` are not
    /// described by a span.
    pub fn target(&self) -> Option<Span> {
        match *self {
            Effect::Clear { target }
            | Effect::BitTrick { target, .. }
            | Effect::Fetch { target, .. }
            | Effect::Replay { target, .. } => Some(target),
            Effect::Copy { target, bytes, .. } => Some(Span::new(target, bytes)),
            Effect::Convert { to, target, .. } => Some(Span::new(target, to.bytes())),
            Effect::Real { format, target, .. } => Some(Span::new(target, format.bytes())),
            Effect::X87 { target, .. } => Some(Span::new(target, X87Format::Extended.bytes())),
            Effect::X87Move { target, .. } => Some(target.span()),
            Effect::Select { target, .. } => Some(target),
            _ => None,
        }
    }

    /// An operand of which only the value matters. If it has been fetched, this keeps the fetch alive.
    pub fn count(&self) -> Option<Span> {
        let Effect::BitTrick { a, b, c, .. } = *self else { return None };
        [Some(a), b, c].into_iter().flatten().find_map(|operand| match operand {
            BitOperand::Count { span, .. } | BitOperand::Ones(span) => Some(span),
            BitOperand::Span(_) | BitOperand::Immediate(_) => None,
        })
    }

    /// The shadow that is read, with the same exceptions but `Update`.
    pub fn sources(&self) -> [Option<Span>; 3] {
        let operand = |operand: BitOperand| match operand {
            BitOperand::Span(span) => Some(span),
            BitOperand::Immediate(_) | BitOperand::Count { .. } | BitOperand::Ones(_) => None,
        };
        match *self {
            Effect::Copy { source, bytes, .. } => [Some(Span::new(source, bytes)), None, None],
            Effect::Convert { to, source, .. } => [Some(Span::new(source, 12 - to.bytes())), None, None],
            Effect::Real { format, a, b, .. } => {
                [Some(Span::new(a, format.bytes())), b.map(|b| Span::new(b, format.bytes())), None]
            }
            Effect::BitTrick { a, b, c, .. } => [operand(a), b.and_then(operand), c.and_then(operand)],
            Effect::Replay { sources: [first, second], .. } => [first, second, None],
            Effect::X87 { a, b, .. } => [a.real(), b.and_then(X87Operand::real), None],
            Effect::X87Move { source, .. } => [source.real(), None, None],
            Effect::Select { target, source, .. } => [Some(target), Some(Span::new(source, target.bytes)), None],
            Effect::Update { memory, becomes, .. } => [Some(memory), becomes.operand(), None],
            Effect::Lost { source } | Effect::Fetch { source, .. } => [Some(source), None, None],
            _ => [None, None, None],
        }
    }
}
