//! Whether a basic block can put a number together from parts: a look at registers only, as following each bit ([`super::provenance`]) takes longer than all the rest of lifting.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// What a register can hold parts of, and what has been done to them. An instruction that is not listed leaves it as it is: then a name means something else from there on, but in all registers.
#[derive(Clone, Copy)]
struct Contents {
    /// Bit n: of what has been in general register n; bit 16 + n: of vector register n.
    parts_of: u64,
    /// Some bits have been taken out or replaced.
    apart: bool,
    /// They have been moved to other places.
    moved: bool,
}

impl Contents {
    fn whole(bit: usize) -> Contents {
        Contents { parts_of: 1 << bit, apart: false, moved: false }
    }

    fn with(self, other: Contents) -> Contents {
        let parts_of = self.parts_of | other.parts_of;
        Contents { parts_of, apart: self.apart || other.apart, moved: self.moved || other.moved }
    }

    fn apart(self) -> Contents {
        Contents { apart: true, ..self }
    }
}

/// Whether it can; if not, it does not.
pub(super) fn may_put_together(instructions: &[Instruction]) -> bool {
    use Mnemonic::*;
    let mut registers: [Contents; 16] = std::array::from_fn(Contents::whole);
    for instruction in instructions {
        let Some(target) = general(instruction, 0) else { continue };
        let contents = |operand: u32| general(instruction, operand).map(|number| registers[number]);
        let is_narrow = |operand: u32| {
            instruction.op_kind(operand) == OpKind::Register && instruction.op_register(operand).size() < 4
        };
        let is_half = instruction.op0_register().size() == 4;
        let before = registers[target];
        let has_three = instruction.op_count() == 3;
        registers[target] = match instruction.mnemonic() {
            Mov | Movzx => match contents(1) {
                _ if is_narrow(0) => contents(1).map_or(before, |source| before.with(source)).apart(),
                Some(source) if is_narrow(1) || is_half => source.apart(),
                Some(source) => source,
                None => Contents::whole(target),
            },
            Movd | Movq | Vmovd | Vmovq => match instruction.op1_register() {
                vector if vector.is_xmm() => Contents::whole(16 + vector.number()),
                _ => Contents::whole(target),
            },
            // What has come from elsewhere is replaced again.
            And | Andn | Btr | Bts | Or if before.parts_of.count_ones() > 1 => return true,
            And | Andn | Bts | Btr | Btc => contents(1).map_or(before, |other| before.with(other)).apart(),
            Bzhi => contents(1).unwrap_or(before).apart(),
            Shl | Sal | Shlx | Shr | Shrx | Sar | Sarx | Rol | Ror | Rorx | Bswap => {
                let source = if has_three { contents(1).unwrap_or(before) } else { before };
                if source.moved {
                    return true;
                }
                Contents { moved: true, ..source.apart() }
            }
            Xor | Sub if instruction.op0_register() == instruction.op1_register() => Contents::whole(target),
            Or | Xor | Add | Sub | Lea => {
                let operands = match instruction.mnemonic() {
                    Lea => [instruction.memory_base(), instruction.memory_index()]
                        .map(|part| number(part).map(|part| registers[part])),
                    _ if has_three => [contents(1), contents(2)],
                    _ => [Some(before), contents(1)],
                };
                match operands {
                    [Some(a), Some(b)] if a.parts_of & b.parts_of != 0 && (a.apart || b.apart) => return true,
                    [Some(a), Some(b)] => a.with(b),
                    [Some(one), None] | [None, Some(one)] => one.apart(),
                    [None, None] => Contents::whole(target),
                }
            }
            _ => before,
        };
    }
    false
}

/// The number of a general register that is an operand.
fn general(instruction: &Instruction, operand: u32) -> Option<usize> {
    let is_register = operand < instruction.op_count() && instruction.op_kind(operand) == OpKind::Register;
    is_register.then(|| instruction.op_register(operand)).and_then(number)
}

fn number(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register().number())
}
