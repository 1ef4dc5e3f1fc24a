//! Readable form of the IR, for traces and failing tests.

use std::fmt::{Display, Formatter, Result};

use super::{Address, BitOperand, Effect, Format, Ir, Operation, Place, Span, Updated, X87Operand};
use crate::shadow;

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match *self {
            Place::Register(offset) => match offset {
                shadow::KEPT.. => write!(f, "kept+{}", offset - shadow::KEPT),
                shadow::OPERAND.. => write!(f, "fetched+{}", offset - shadow::OPERAND),
                shadow::TEMPORARY.. => write!(f, "temporary+{}", offset - shadow::TEMPORARY),
                shadow::MASK.. => write!(f, "k{}", (offset - shadow::MASK) / 8),
                shadow::X87.. => write!(f, "st{}+{}", (offset - shadow::X87) / 16, (offset - shadow::X87) % 16),
                shadow::VECTOR.. => write!(f, "v{}+{}", (offset - shadow::VECTOR) / 64, offset % 64),
                _ => write!(f, "r{}+{}", offset / 8, offset % 8),
            },
            Place::Memory { base, offset } => {
                let base = match base {
                    Address::Operand => "operand",
                    Address::Stack => "stack",
                    Address::Frame => "frame",
                    Address::StringSource => "source",
                    Address::StringDestination => "destination",
                };
                write!(f, "[{base}{offset:+}]")
            }
        }
    }
}

impl Display for Span {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}:{}", self.place, self.bytes)
    }
}

impl Display for Format {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Format::Binary32 => "binary32",
            Format::Binary64 => "binary64",
        })
    }
}

impl Display for BitOperand {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            BitOperand::Span(span) => span.fmt(f),
            BitOperand::Immediate(value) => write!(f, "{value:#x}"),
            BitOperand::Count { span, .. } => write!(f, "count {span}"),
            BitOperand::Ones(span) => write!(f, "ones {span}"),
        }
    }
}

impl Display for X87Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{:?} {}", self.format, self.span())
    }
}

impl Display for Effect {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match *self {
            Effect::Clear { target } => write!(f, "{target} = passive"),
            Effect::Copy { target, source, bytes } => write!(f, "{} = {source}", Span::new(target, bytes)),
            Effect::Convert { to, target, source } => write!(f, "{target} = {to} of {source}"),
            Effect::Real { operation, format, target, a, b } => {
                write!(f, "{target} = {} {format} {a}", operation.name())?;
                b.map_or(Ok(()), |b| write!(f, ", {b}"))
            }
            Effect::BitTrick { operation, target, a, b, c } => {
                write!(f, "{target} = bits {operation:?} {a}")?;
                [b, c].into_iter().flatten().try_for_each(|operand| write!(f, ", {operand}"))
            }
            Effect::Fetch { target, source, element } => write!(f, "{target} = elements of {element} of {source}"),
            Effect::Replay { target, data, .. } => write!(f, "{target} = replay {data:#b}"),
            Effect::RepeatedMove { element } => write!(f, "repeated move of {element}"),
            Effect::RepeatedStore { element } => write!(f, "repeated store of {element}"),
            Effect::CompareExchange { destination, .. } => write!(f, "compare and exchange {destination}"),
            Effect::X87 { operation, target, a, b } => {
                write!(f, "{} = {} {a}", Span::new(target, 10), operation.name())?;
                b.map_or(Ok(()), |b| write!(f, ", {b}"))
            }
            Effect::X87Move { target, source } => write!(f, "{target} = {source}"),
            Effect::Rotate { by } => write!(f, "rotate x87 by {by}"),
            Effect::Stack { change } => write!(f, "x87 {change:?}"),
            Effect::Select { condition, target, source } => write!(f, "{target} = {source} if {condition:?}"),
            Effect::Update { memory, becomes: Updated::Exchanged(register), .. } => {
                write!(f, "exchange {memory}, {register}")
            }
            Effect::Update { memory, becomes: Updated::Bits { operation, .. }, .. } => {
                write!(f, "{memory} = bits {operation:?} in one step")
            }
            Effect::State { transfer } => write!(f, "{transfer:?}"),
            Effect::Lost { source } => write!(f, "lost if active: {source}"),
        }
    }
}

impl Display for Operation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let when = if self.after { "after " } else { "" };
        write!(f, "{:3}: {when}{}", self.instruction, self.effect)?;
        let Some(mask) = self.mask else { return Ok(()) };
        let otherwise = if mask.zeroing { ", else passive" } else { "" };
        write!(f, " where k{} from bit {}, elements of {}{otherwise}", mask.register, mask.bit, mask.element)
    }
}

impl Display for Ir {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.operations.iter().try_for_each(|operation| writeln!(f, "{operation}"))
    }
}
