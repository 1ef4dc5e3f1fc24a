//! 80-bit numbers that the program puts together from a significand and a word with sign and exponent of its own: `union { long double r; uint16_t words[8]; }`.
//!
//! clang moves the significand in a general register, and never the word beside it if that is replaced (`mov rax, [S]`, `mov [D], rax`, `mov word [D + 8], cx`,
//! `fld tbyte [D]`). So the exponent of the dot value does not come along. Where the number is loaded it is what it was at the place that the significand comes from, changed as the number has been changed.

use derivgrind_engine::context::Context;
use derivgrind_engine::memory::user;
use derivgrind_engine::translate::{Condition, Emitter, HelperNext};
use iced_x86::{Code, Instruction, InstructionInfoFactory, Register};

use crate::instrument::{
    Thread, any_active, layers, lost_at, operand_address, payload_for, reach_memory, read_shadow, site, write_shadow,
};
use crate::ir::{Address, Place, Span, X87Format};
use crate::lift::is_write;
use crate::x87::Extended;

/// The memory operand of the load.
const LOADED: Place = Place::Memory { base: Address::Operand, offset: 0 };

/// Emits, before an instruction that loads an 80-bit number, what gives the dot value its exponent, if the block copies the significand there.
pub(super) fn emit(emitter: &mut Emitter<'_>, index: usize) {
    let Some(copied_from) = copied_from(&emitter.block().instructions()[..=index]) else { return };
    let payload = payload_for(emitter, index, copied_from);
    reach_memory(emitter, index);
    emitter.save_flags(index);
    any_active(emitter, index, &[Span::new(LOADED, 8)]);
    let join = emitter.asm().label();
    let cold = emitter.cold(move |emitter| {
        emitter.call_helper_here(complete, payload);
        emitter.asm().jump(join);
    });
    emitter.asm().jump_if(Condition::NotEqual, cold);
    emitter.asm().bind(join);
}

/// The instruction that loads, from where it still can be found, the significand that a later one stores where the last of these loads an 80-bit number.
fn copied_from(instructions: &[Instruction]) -> Option<Instruction> {
    let (load, before) = instructions.split_last()?;
    if load.code() != Code::Fld_m80fp {
        return None;
    }
    let stores = |instruction: &Instruction| instruction.code() == Code::Mov_rm64_r64 && same_memory(instruction, load);
    let stored = before.iter().rposition(stores)?;
    let register = before[stored].op1_register();
    let read = before[..stored].iter().rposition(|instruction| writes(instruction, register))?;
    let source = before[read];
    let is_kept = |instruction: &Instruction| {
        let addresses = [load, &source].into_iter().all(|address| {
            let parts = [address.memory_base(), address.memory_index()];
            parts.into_iter().all(|part| part == Register::None || !writes(instruction, part))
        });
        addresses && writes_nothing_beside(instruction, load)
    };
    (source.code() == Code::Mov_r64_rm64 && source.op0_register() == register && before[read..].iter().all(is_kept))
        .then_some(source)
}

/// Bytes of memory that an 80-bit number has, with what pads it.
const SIZE: u64 = 16;

/// Whether an instruction writes no memory but the number that `load` loads: what it writes could be where the significand comes from.
fn writes_nothing_beside(instruction: &Instruction, load: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    factory.info(instruction).used_memory().iter().all(|used| {
        let is_beside_base = (used.segment(), used.base(), used.index(), used.scale())
            == (load.memory_segment(), load.memory_base(), load.memory_index(), load.memory_index_scale());
        let first = used.displacement().wrapping_sub(load.memory_displacement64());
        !is_write(used.access()) || is_beside_base && first < SIZE && first + used.memory_size().size() as u64 <= SIZE
    })
}

fn same_memory(a: &Instruction, b: &Instruction) -> bool {
    let operand = |instruction: &Instruction| {
        (
            instruction.memory_segment(),
            instruction.memory_base(),
            instruction.memory_index(),
            instruction.memory_index_scale(),
            instruction.memory_displacement64(),
        )
    };
    operand(a) == operand(b)
}

/// Whether an instruction can change a general register, or a part of it.
fn writes(instruction: &Instruction, register: Register) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction).used_registers();
    used.iter().any(|used| used.register().full_register() == register.full_register() && is_write(used.access()))
}

fn complete(context: &mut Context, payload: u64) -> HelperNext {
    // SAFETY: `emit` pairs this helper with its site.
    let site = unsafe { site::<Instruction>(payload) };
    let addresses = [&site.what, &site.instruction].map(|instruction| operand_address(instruction, context));
    let [Some(source), Some(target)] = addresses else { return HelperNext::Resume };
    if source.abs_diff(target) < SIZE {
        return HelperNext::Resume;
    }
    let [Ok(before), Ok(now)] = [source, target].map(|address| user::read(address).map(Extended::from_bytes)) else {
        return HelperNext::Resume;
    };
    let span = Span::new(LOADED, X87Format::Extended.bytes());
    let mut thread = Thread::new(context);
    for layer in layers() {
        let [dot_before, dot] = [source, target].map(|address| {
            let [significand, high, ..] = read_shadow(&thread, layer, span, address);
            Extended { significand, high: high as u16 }
        });
        let is_copy = before.significand == now.significand && dot_before.significand == dot.significand;
        if !is_copy || dot.significand == 0 {
            continue;
        }
        match scaled(dot_before, before, now) {
            Scaled::Unknown => {}
            Scaled::To(dot) => write_shadow(&mut thread, layer, span, target, &[dot.significand, dot.high.into()]),
            Scaled::OutOfRange => {
                lost_at(thread.context().rip);
                write_shadow(&mut thread, layer, span, target, &[0, 0]);
            }
        }
    }
    HelperNext::Resume
}

/// What a dot value becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scaled {
    To(Extended),
    OutOfRange,
    /// One of the numbers is zero, infinite or none.
    Unknown,
}

/// The dot value of a number that gets another sign or exponent.
fn scaled(dot: Extended, before: Extended, now: Extended) -> Scaled {
    const EXPONENT: u16 = 0x7fff;
    let exponent = |number: Extended| i32::from(number.high & EXPONENT);
    let is_finite = |number: Extended| (1..i32::from(EXPONENT)).contains(&exponent(number));
    if ![dot, before, now].into_iter().all(is_finite) {
        return Scaled::Unknown;
    }
    let sign = (dot.high ^ before.high ^ now.high) & !EXPONENT;
    let scaled = exponent(dot) + exponent(now) - exponent(before);
    match u16::try_from(scaled) {
        Ok(scaled @ 1..EXPONENT) => Scaled::To(Extended { high: sign | scaled, ..dot }),
        _ => Scaled::OutOfRange,
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;

    /// The instruction that [`copied_from`] finds in this code.
    fn found(code: &[u8]) -> Option<String> {
        let instructions: Vec<_> = Decoder::new(64, code, DecoderOptions::NONE).into_iter().collect();
        copied_from(&instructions).map(|instruction| instruction.to_string())
    }

    #[test]
    fn the_place_that_a_significand_comes_from_is_found() {
        // mov rax, [rsp + 8]; mov [rsp - 18h], rax; mov word [rsp - 10h], 3ffeh; fld tbyte [rsp - 18h]
        let copied = b"\x48\x8b\x44\x24\x08";
        let stored = b"\x48\x89\x44\x24\xe8";
        let word = b"\x66\xc7\x44\x24\xf0\xfe\x3f";
        let loaded = b"\xdb\x6c\x24\xe8";
        let of = |parts: &[&[u8]]| found(&parts.concat());
        assert_eq!(of(&[copied, stored, word, loaded]).as_deref(), Some("mov rax,[rsp+8]"));
        assert_eq!(of(&[copied, word, stored, loaded]).as_deref(), Some("mov rax,[rsp+8]"));
        assert_eq!(of(&[copied, stored, word]), None);
        assert_eq!(of(&[stored, word, loaded]), None);
        let elsewhere = b"\xdb\x6c\x24\xd8";
        assert_eq!(of(&[copied, stored, word, elsewhere]), None);
        // inc rax; push rcx
        assert_eq!(of(&[copied, b"\x48\xff\xc0", stored, word, loaded]), None);
        assert_eq!(of(&[copied, b"\x51", stored, word, loaded]), None);
        // mov [rsp + 20h], rcx; mov [rdi], cx; mov [rsp - 10h], cx
        for other in [&b"\x48\x89\x4c\x24\x20"[..], b"\x66\x89\x0f"] {
            assert_eq!(of(&[copied, stored, word, other, loaded]), None, "it may have been overwritten");
        }
        assert!(of(&[copied, stored, b"\x66\x89\x4c\x24\xf0", loaded]).is_some());
    }

    #[test]
    fn dot_values_follow_sign_and_exponent() {
        let number = |high| Extended { significand: 0xc000_0000_0000_0000, high };
        let dot = Extended { significand: 0x8000_0000_0000_0001, high: 0x3ffe };
        let to = |before, now| scaled(dot, number(before), number(now));
        assert_eq!(to(0x3fff, 0xc001), Scaled::To(Extended { high: 0xc000, ..dot }));
        assert_eq!(to(0xbfff, 0x3fff), Scaled::To(dot.negated()));
        assert_eq!(to(0x0001, 0x7ffe), Scaled::OutOfRange);
        assert_eq!(to(0x7ffe, 0x0001), Scaled::OutOfRange);
        assert_eq!([to(0, 0x3fff), to(0x3fff, 0x7fff), to(0x7fff, 1)], [Scaled::Unknown; 3]);
    }
}
