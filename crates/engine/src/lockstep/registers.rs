//! Registers of the application, as the engine has them and as the processor has them.

use iced_x86::{Instruction, OpKind, RflagsBits};

use super::vectors::Vectors;
use crate::context::Context;

/// All registers that a program can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registers {
    /// By hardware number.
    pub general: [u64; 16],
    pub rip: u64,
    pub rflags: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    pub vectors: Vectors,
}

/// How many 64-bit words stand before the vector registers when they are sent.
pub(super) const WORDS: usize = 20;

/// Names by hardware number.
const NAMES: [&str; 16] =
    ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];

/// Status and direction flags: as the processor has them, as iced has them, and their names.
const FLAGS: [(u64, u32, &str); 7] = [
    (1 << 0, RflagsBits::CF, "CF"),
    (1 << 2, RflagsBits::PF, "PF"),
    (1 << 4, RflagsBits::AF, "AF"),
    (1 << 6, RflagsBits::ZF, "ZF"),
    (1 << 7, RflagsBits::SF, "SF"),
    (1 << 10, RflagsBits::DF, "DF"),
    (1 << 11, RflagsBits::OF, "OF"),
];

/// The processor's bits for flags in iced's form.
pub(super) fn flag_bits(flags: u32) -> u64 {
    FLAGS.iter().filter(|(_, iced, _)| flags & iced != 0).fold(0, |bits, flag| bits | flag.0)
}

/// The register that an instruction loads, by its hardware number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loaded {
    /// A general register.
    General(u8),
    /// A vector register.
    Vector(u8),
}

impl Loaded {
    /// What an instruction with a memory operand loads.
    pub(super) fn by(instruction: &Instruction) -> Option<Loaded> {
        if instruction.op0_kind() != OpKind::Register || instruction.op1_kind() != OpKind::Memory {
            return None;
        }
        let register = instruction.op0_register();
        let number = register.full_register().number() as u8;
        if register.is_gpr() {
            Some(Loaded::General(number))
        } else {
            register.is_vector_register().then_some(Loaded::Vector(number))
        }
    }

    /// The form in a message: 0 is none.
    pub(super) fn to_word(loaded: Option<Loaded>) -> u64 {
        match loaded {
            None => 0,
            Some(Loaded::General(number)) => 0x100 | u64::from(number),
            Some(Loaded::Vector(number)) => 0x200 | u64::from(number),
        }
    }

    pub(super) fn from_word(word: u64) -> Option<Loaded> {
        let number = word as u8;
        match word >> 8 {
            1 => Some(Loaded::General(number)),
            2 => Some(Loaded::Vector(number)),
            _ => None,
        }
    }

    /// Whether a register of this name is (a part of) it.
    fn has_name(self, name: &str) -> bool {
        match self {
            Loaded::General(number) => NAMES.get(usize::from(number)) == Some(&name),
            Loaded::Vector(number) => {
                let name = name.split(' ').next().unwrap_or_default();
                ["xmm", "ymm", "zmm"].iter().any(|kind| name.strip_prefix(kind) == Some(&number.to_string()))
            }
        }
    }
}

/// A register with two values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub register: String,
    pub native: String,
    pub engine: String,
}

impl Registers {
    /// The application's registers as the engine has them, with RIP where the application stands.
    pub(super) fn of(context: &Context, rip: u64) -> Registers {
        Registers {
            general: context.gpr,
            rip,
            rflags: context.rflags,
            fs_base: context.fs_base,
            gs_base: context.gs_base,
            vectors: Vectors::normalised(&context.vector_image()),
        }
    }

    pub(super) fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[..16].copy_from_slice(&self.general);
        words[16..].copy_from_slice(&[self.rip, self.rflags, self.fs_base, self.gs_base]);
        words
    }

    pub(super) fn from_words(words: &[u64; WORDS], vectors: Vectors) -> Registers {
        let mut general = [0; 16];
        general.copy_from_slice(&words[..16]);
        let [rip, rflags, fs_base, gs_base] = [words[16], words[17], words[18], words[19]];
        Registers { general, rip, rflags, fs_base, gs_base, vectors }
    }

    /// The value of a general register, empty for any other.
    pub(super) fn value(&self, register: &str) -> String {
        let number = NAMES.iter().position(|name| *name == register);
        number.map_or_else(String::new, |number| format!("{:#018x}", self.general[number]))
    }

    /// What is not the same as `engine` has it, of the flags only those in `flags`, without the register `loaded`.
    pub(super) fn differences(&self, engine: &Registers, flags: u64, loaded: Option<Loaded>) -> Vec<Difference> {
        let mut found = Vec::new();
        let names = NAMES.into_iter().chain(["rip", "rflags", "fs base", "gs base"]);
        for ((name, native), engine) in names.zip(self.words()).zip(engine.words()) {
            let is_flags = name == "rflags";
            if (native ^ engine) & if is_flags { flags } else { u64::MAX } == 0 {
                continue;
            }
            let text = |value: u64| if is_flags { flag_names(value & flags) } else { format!("{value:#018x}") };
            found.push(Difference { register: name.to_owned(), native: text(native), engine: text(engine) });
        }
        let vectors = self.vectors.differences(&engine.vectors).into_iter();
        found.extend(vectors.map(|(register, native, engine)| Difference {
            register,
            native: hexadecimal(native),
            engine: hexadecimal(engine),
        }));
        found.retain(|difference| !loaded.is_some_and(|loaded| loaded.has_name(&difference.register)));
        found
    }
}

fn flag_names(flags: u64) -> String {
    let names: Vec<&str> = FLAGS.iter().filter(|flag| flags & flag.0 != 0).map(|flag| flag.2).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(" ") }
}

/// Bytes as one number, the most significant first.
fn hexadecimal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers() -> Registers {
        let words = std::array::from_fn(|n| n as u64);
        Registers::from_words(&words, Vectors::normalised(&[]))
    }

    #[test]
    fn words_and_back() {
        assert_eq!(Registers::from_words(&registers().words(), Vectors::normalised(&[])), registers());
    }

    #[test]
    fn only_the_flags_asked_for_are_compared() {
        let carry = flag_bits(RflagsBits::CF);
        let zero = flag_bits(RflagsBits::ZF);
        let one = Registers { rflags: carry | 0x202, ..registers() };
        let other = Registers { rflags: zero | 0x246, ..registers() };
        assert_eq!(one.differences(&other, 0, None), []);
        let [difference] = &one.differences(&other, carry, None)[..] else { panic!("one difference") };
        assert_eq!((difference.native.as_str(), difference.engine.as_str()), ("CF", "none"));
    }

    #[test]
    fn differences_are_named_in_order() {
        let mut other = registers();
        other.general[15] = 0;
        other.rip = 0;
        let names: Vec<_> = registers().differences(&other, u64::MAX, None).into_iter().map(|it| it.register).collect();
        assert_eq!(names, ["r15", "rip"]);
    }

    #[test]
    fn a_register_that_is_about_to_be_loaded_is_not_compared() {
        let mut other = registers();
        other.general[3] ^= 1;
        let found = |loaded| registers().differences(&other, 0, Some(loaded)).len();
        assert_eq!((found(Loaded::General(3)), found(Loaded::General(4)), found(Loaded::Vector(3))), (0, 1, 1));
        assert!(Loaded::Vector(3).has_name("xmm3") && Loaded::Vector(3).has_name("ymm3 high"));
        assert!(!Loaded::Vector(3).has_name("xmm13") && !Loaded::Vector(3).has_name("k3"));
    }
}
