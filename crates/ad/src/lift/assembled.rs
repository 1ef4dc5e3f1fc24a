//! Numbers that are taken apart in general registers and put together again, within a basic block.
//!
//! What compilers make of unions, bit fields and masks: the low bits of a number, moved by themselves, come together with sign and exponent, changed. No step is an operation on
//! real numbers, but all of them are one: it leaves the mantissa and changes bits above it. So the last step becomes a bit trick on the whole number
//! ([`BitOperation::Assembled`]), which has been kept, and the steps before it lose nothing.

use iced_x86::Instruction;

use super::outline;
use super::provenance::{Bit, Bits, Outcome, Provenance, Whole};
use crate::ir::{BitOperand, BitOperation, Effect, Ir, Operation, Place, Span};
use crate::shadow;

/// Where a format has its bits.
struct Layout {
    bytes: u16,
    mantissa: u64,
    sign_and_exponent: u64,
}

/// A binary64 number, two binary32 numbers, and what a binary32 number and the upper half of a binary64 number have in common.
const LAYOUTS: [Layout; 3] = [
    Layout { bytes: 8, mantissa: (1 << 52) - 1, sign_and_exponent: 0xfff << 52 },
    Layout { bytes: 8, mantissa: 0x007f_ffff_007f_ffff, sign_and_exponent: 0xff80_0000_ff80_0000 },
    Layout { bytes: 4, mantissa: (1 << 20) - 1, sign_and_exponent: 0xfff << 20 },
];

/// A number that is put together.
struct Assembly {
    /// Where, and of how many bytes.
    position: u16,
    target: Span,
    /// What the number was before.
    whole: Whole,
    /// What has been done to its parts.
    steps: Vec<u16>,
}

/// Replaces the operations of instructions that put numbers together.
pub(super) fn apply(instructions: &[Instruction], ir: &mut Ir) {
    if !outline::may_put_together(instructions) {
        return;
    }
    let mut assemblies = assemblies(instructions);
    // What is only a step towards a later number is none by itself.
    let steps: Vec<u16> = assemblies.iter().flat_map(|assembly| assembly.steps.clone()).collect();
    assemblies.retain(|assembly| !steps.contains(&assembly.position));
    let mut kept: Vec<Whole> = Vec::new();
    for assembly in &assemblies {
        if !kept.contains(&assembly.whole) {
            kept.push(assembly.whole);
        }
    }
    kept.truncate(usize::from(shadow::KEPT_BYTES / 8));
    for Assembly { position, target, whole, steps } in &assemblies {
        let Some(slot) = kept.iter().position(|kept| kept == whole) else { continue };
        replace(ir, *position, *target, slot_place(slot));
        for operation in &mut ir.operations {
            operation.of_part |= steps.contains(&operation.instruction);
        }
    }
    for (slot, whole) in kept.into_iter().enumerate() {
        keep(ir, whole, slot_place(slot));
    }
}

fn slot_place(slot: usize) -> Place {
    Place::Register(shadow::KEPT + 8 * slot as u16)
}

/// The numbers that a block puts together, also those that are only steps.
fn assemblies(instructions: &[Instruction]) -> Vec<Assembly> {
    let mut provenance = Provenance::new();
    let mut found = Vec::new();
    for (position, instruction) in instructions.iter().enumerate() {
        let position = position as u16;
        let outcome = provenance.outcome(instruction, position);
        if let Some(outcome) = &outcome
            && let Some((whole, bytes)) = put_together(outcome)
            && let Some(range) = shadow::of_register(instruction.op0_register())
        {
            let steps = outcome.operands.iter().flat_map(|operand| operand.steps.clone()).collect();
            let target = Span::new(Place::Register(range.offset), bytes);
            found.push(Assembly { position, target, whole, steps });
        }
        provenance.step(instruction, position, outcome);
    }
    found
}

/// The number of which an instruction's result has the mantissa, and its bytes, if the instruction is no operation on that number itself.
fn put_together(outcome: &Outcome) -> Option<(Whole, u16)> {
    let Outcome { result, operands } = outcome;
    if operands.is_empty() || operands.iter().any(|operand| operand.bits == result.bits) {
        return None;
    }
    outcome.wholes().into_iter().find_map(|whole| {
        let layout = LAYOUTS.iter().find(|layout| layout.is_changed(result, whole))?;
        if operands.iter().any(|operand| layout.is_less_than(operand, whole)) {
            return None;
        }
        // With constants, that is a bit trick as any other.
        let is_operation_on_it = operands.iter().any(|operand| layout.is_changed(operand, whole));
        (!is_operation_on_it || !outcome.is_with_constants()).then_some((whole, layout.bytes))
    })
}

impl Layout {
    /// Whether there are bits of the number beyond this format.
    fn is_less_than(&self, Bits { bits, .. }: &Bits, whole: Whole) -> bool {
        bits.iter()
            .any(|bit| matches!(bit, Bit::Of(of, number) if *of == whole && u16::from(*number) >= 8 * self.bytes))
    }

    /// Whether these bits are a number with its own mantissa, and a sign and an exponent that depend on nothing else. (If it did, the number could be one of which a part comes from elsewhere.)
    fn is_changed(&self, Bits { bits, .. }: &Bits, whole: Whole) -> bool {
        let all = |mask: u64, is_so: &dyn Fn(usize) -> bool| (0..64).filter(|bit| mask >> bit & 1 != 0).all(is_so);
        all(self.mantissa, &|bit| bits[bit] == Bit::Of(whole, bit as u8))
            && all(self.sign_and_exponent, &|bit| bits[bit].is_by(whole))
            && bits[8 * usize::from(self.bytes)..].iter().all(|bit| *bit == Bit::Zero)
    }
}

/// Makes an instruction's result what has been made of a number that is kept.
fn replace(ir: &mut Ir, position: u16, target: Span, number: Place) {
    let a = BitOperand::Span(Span::new(number, target.bytes));
    let mut effects = vec![Effect::BitTrick { operation: BitOperation::Assembled, target, a, b: None, c: None }];
    if target.bytes < 8 {
        effects.push(Effect::Clear { target: Span::new(target.place.advanced(target.bytes), 8 - target.bytes) });
    }
    let first = ir.operations.partition_point(|operation| operation.instruction < position);
    let end = ir.operations.partition_point(|operation| operation.instruction <= position);
    ir.operations.splice(first..end, effects.into_iter().map(|effect| operation(position, false, effect)));
}

/// Keeps the contents that a register has.
fn keep(ir: &mut Ir, Whole { register, since }: Whole, target: Place) {
    let source = Place::Register(shadow::general(register.into()));
    let copy = Effect::Copy { target, source, bytes: 8 };
    let (at, kept) = match since {
        None => (0, operation(0, false, copy)),
        Some(position) => {
            let end = ir.operations.partition_point(|operation| operation.instruction <= position);
            (end, operation(position, true, copy))
        }
    };
    ir.operations.insert(at, kept);
}

fn operation(instruction: u16, after: bool, effect: Effect) -> Operation {
    Operation { instruction, after, effect, mask: None, of_part: false }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;
    use crate::lift::lift;

    /// Machine code in hexadecimal, and what it is.
    type Listing<'a> = &'a [(&'a str, &'a str)];

    fn decoded(listing: Listing<'_>) -> Vec<Instruction> {
        let instruction = |(code, text): &(&str, &str)| {
            let byte = |at: usize| u8::from_str_radix(&code[at..at + 2], 16).expect("hexadecimal");
            let code: Vec<u8> = (0..code.len()).step_by(2).map(byte).collect();
            let instruction = Decoder::new(64, &code, DecoderOptions::NONE).decode();
            assert_eq!(instruction.to_string(), *text);
            instruction
        };
        listing.iter().map(instruction).collect()
    }

    /// Which instructions put numbers together, of how many bytes and what they have been, and which ones compute parts.
    fn found(listing: Listing<'_>) -> (Vec<(u16, u16, Whole)>, Vec<u16>) {
        let instructions = decoded(listing);
        let found = assemblies(&instructions);
        let assemblies = found.iter().map(|found| (found.position, found.target.bytes, found.whole)).collect();
        let operations = lift(&instructions).operations;
        let parts = operations.iter().filter(|operation| operation.of_part).map(|operation| operation.instruction);
        let mut parts: Vec<u16> = parts.collect();
        parts.dedup();
        (assemblies, parts)
    }

    /// RAX behind an instruction, or at the beginning.
    fn rax(since: Option<u16>) -> Whole {
        Whole { register: 0, since }
    }

    #[test]
    fn bytes_that_are_replaced_one_by_one_make_one_operation() {
        // gcc -O1: the highest byte and then the one below it of a binary32 number, whose three parts are moved apart.
        let code = &[
            ("660f7ec0", "movd eax,xmm0"),
            ("89c2", "mov edx,eax"),
            ("c1ea18", "shr edx,18h"),
            ("81e280000000", "and edx,80h"),
            ("83ca3f", "or edx,3Fh"),
            ("c1e218", "shl edx,18h"),
            ("0fb7c8", "movzx ecx,ax"),
            ("2500007f00", "and eax,7F0000h"),
            ("09ca", "or edx,ecx"),
            ("09c2", "or edx,eax"),
        ];
        assert_eq!(found(code), (vec![(9, 4, rax(Some(0)))], vec![2, 3, 4, 5, 7, 8]));
    }

    #[test]
    fn what_a_carry_changes_depends_on_the_number_alone() {
        // clang -O3 -march=haswell: an exponent in two bytes. There is another number when only the lower one has come.
        let code = &[
            ("4889c1", "mov rcx,rax"),
            ("48c1e930", "shr rcx,30h"),
            ("0fb6c9", "movzx ecx,cl"),
            ("83c120", "add ecx,20h"),
            ("0fb6d1", "movzx edx,cl"),
            ("48c1e230", "shl rdx,30h"),
            ("40b630", "mov sil,30h"),
            ("c4e2c8f5f0", "bzhi rsi,rax,rsi"),
            ("4809d6", "or rsi,rdx"),
            ("c1e908", "shr ecx,8"),
            ("48c1e838", "shr rax,38h"),
            ("01c8", "add eax,ecx"),
            ("48c1e038", "shl rax,38h"),
            ("4809c6", "or rsi,rax"),
        ];
        let (numbers, parts) = found(code);
        assert_eq!(numbers, [(8, 8, rax(None)), (13, 8, rax(None))]);
        assert_eq!(parts, [1, 3, 5, 7, 8, 9, 10, 11, 12]);
        let operations = lift(&decoded(code)).operations;
        let assembled: Vec<u16> = operations
            .iter()
            .filter(|operation| is_assembled(operation))
            .map(|operation| operation.instruction)
            .collect();
        assert_eq!(assembled, [13]);
    }

    fn is_assembled(operation: &Operation) -> bool {
        matches!(operation.effect, Effect::BitTrick { operation: BitOperation::Assembled, .. })
    }

    #[test]
    fn a_swapped_word_has_its_sign_where_it_has_it() {
        let code = &[
            ("66480f7ec8", "movq rax,xmm1"),
            ("480fc8", "bswap rax"),
            ("48257fffffff", "and rax,0FFFFFFFFFFFFFF7Fh"),
            ("480fc8", "bswap rax"),
        ];
        assert_eq!(found(code), (vec![(3, 8, rax(Some(0)))], vec![1, 2]));
    }

    #[test]
    fn operations_on_whole_numbers_stay_what_they_are() {
        let code = &[
            ("660f7ec0", "movd eax,xmm0"),
            ("25ffff7f80", "and eax,807FFFFFh"),
            ("0d0000003f", "or eax,3F000000h"),
            ("89c1", "mov ecx,eax"),
            ("81f100000080", "xor ecx,80000000h"),
            ("4c21c2", "and rdx,r8"),
            ("4809d2", "or rdx,rdx"),
        ];
        assert_eq!(found(code), (vec![], vec![]));
    }

    #[test]
    fn what_comes_from_elsewhere_makes_another_number() {
        // Seven bytes that have come before, and the last one.
        let last_byte =
            &[("0fb60f", "movzx ecx,byte ptr [rdi]"), ("48c1e138", "shl rcx,38h"), ("4809c8", "or rax,rcx")];
        assert_eq!(found(last_byte), (vec![], vec![]));
        let lower_half = &[
            ("48c1e820", "shr rax,20h"),
            ("48c1e020", "shl rax,20h"),
            ("89c9", "mov ecx,ecx"),
            ("4809c8", "or rax,rcx"),
        ];
        assert_eq!(found(lower_half), (vec![], vec![]));
        let sign = &[
            ("48d1e0", "shl rax,1"),
            ("48d1e8", "shr rax,1"),
            ("48c1e93f", "shr rcx,3Fh"),
            ("48c1e13f", "shl rcx,3Fh"),
            ("4809c8", "or rax,rcx"),
        ];
        assert_eq!(found(sign), (vec![(1, 8, rax(None))], vec![0]));
    }

    #[test]
    fn the_number_is_kept_where_its_parts_come_from() {
        let operations =
            lift(&decoded(&[("488b07", "mov rax,[rdi]"), ("48d1e0", "shl rax,1"), ("48d1e8", "shr rax,1")])).operations;
        let kept = Effect::Copy { target: slot_place(0), source: Place::Register(shadow::general(0)), bytes: 8 };
        assert!(operations.contains(&operation(0, true, kept)), "{operations:?}");
        let assembled = operations.iter().find(|operation| is_assembled(operation)).unwrap();
        assert_eq!(assembled.effect.sources()[0], Some(Span::new(slot_place(0), 8)));
        assert_eq!((assembled.instruction, assembled.effect.target()), (2, Some(Span::new(Place::Register(0), 8))));
    }

    /// Instructions on parts of three registers, with constants that are likely to fit together.
    fn some_instruction(random: &mut impl FnMut(usize) -> usize) -> Instruction {
        use iced_x86::{Code, MemoryOperand, Register};
        const REGISTERS: [[Register; 4]; 3] = [
            [Register::RAX, Register::EAX, Register::AX, Register::AL],
            [Register::RCX, Register::ECX, Register::CX, Register::CL],
            [Register::RDX, Register::EDX, Register::DX, Register::DL],
        ];
        const MASKS: [i32; 6] = [0x80, 0xffff, 0x7f_0000, 0x7f_ffff, 0x0080_0000, -0x8000];
        let [wide, half, _, byte] = REGISTERS[random(3)];
        let other = REGISTERS[random(3)];
        let constant = MASKS[random(MASKS.len())];
        let shift = [1, 8, 16, 24, 32, 48, 56][random(7)];
        let both = |code, register, other| Instruction::with2(code, register, other);
        let with_constant = |code, register| Instruction::with2(code, register, constant);
        let shifted = |code| Instruction::with2(code, wide, shift);
        match random(20) {
            0 => both(Code::Mov_r64_rm64, wide, other[0]),
            1 => both(Code::Mov_r32_rm32, half, other[1]),
            2 => both(Code::Movzx_r32_rm16, half, other[2]),
            3 => both(Code::Movzx_r32_rm8, half, other[3]),
            4 => both(Code::Mov_r8_rm8, byte, other[3]),
            5 => with_constant(Code::And_rm32_imm32, half),
            6 => with_constant(Code::And_rm64_imm32, wide),
            7 => with_constant(Code::Or_rm32_imm32, half),
            8 => with_constant(Code::Add_rm32_imm32, half),
            9 => shifted(Code::Shl_rm64_imm8),
            10 => shifted(Code::Shr_rm64_imm8),
            11 => shifted(Code::Rol_rm64_imm8),
            12 => Instruction::with1(Code::Bswap_r64, wide),
            13 | 14 => both(Code::Or_r64_rm64, wide, other[0]),
            15 => both(Code::Xor_r64_rm64, wide, other[0]),
            16 => both(Code::Add_r64_rm64, wide, other[0]),
            17 => Instruction::with2(
                Code::Lea_r64_m,
                wide,
                MemoryOperand::with_base_index(other[0], REGISTERS[random(3)][0]),
            ),
            18 => both(Code::Movq_rm64_xmm, wide, Register::XMM1),
            _ => both(Code::Movd_rm32_xmm, half, Register::XMM1),
        }
        .expect("an instruction")
    }

    #[test]
    fn a_look_at_the_registers_misses_nothing() {
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let (mut found, mut looked_at) = (0, 0);
        for _ in 0..100_000 {
            let block: Vec<Instruction> = (0..8).map(|_| some_instruction(&mut random)).collect();
            let may = outline::may_put_together(&block);
            let does = !assemblies(&block).is_empty();
            let text: Vec<String> = block.iter().map(Instruction::to_string).collect();
            assert!(may || !does, "{text:?}");
            found += usize::from(does);
            looked_at += usize::from(may);
        }
        assert!(found > 1000 && looked_at < 80_000, "{found} of {looked_at}");
    }
}
