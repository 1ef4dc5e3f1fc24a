//! The initial stack: strings, auxiliary vector, environment, arguments, as the kernel lays them out.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use super::LoadError;
use crate::memory::user;

/// Entry types of the auxiliary vector (`linux/auxvec.h`).
pub mod auxiliary {
    #![allow(missing_docs, reason = "the kernel's names")]
    pub const NULL: u64 = 0;
    pub const PHDR: u64 = 3;
    pub const PHENT: u64 = 4;
    pub const PHNUM: u64 = 5;
    pub const PAGESZ: u64 = 6;
    pub const BASE: u64 = 7;
    pub const FLAGS: u64 = 8;
    pub const ENTRY: u64 = 9;
    pub const UID: u64 = 11;
    pub const EUID: u64 = 12;
    pub const GID: u64 = 13;
    pub const EGID: u64 = 14;
    pub const PLATFORM: u64 = 15;
    pub const HWCAP: u64 = 16;
    pub const CLKTCK: u64 = 17;
    pub const SECURE: u64 = 23;
    pub const RANDOM: u64 = 25;
    pub const HWCAP2: u64 = 26;
    pub const EXECFN: u64 = 31;
    pub const MINSIGSTKSZ: u64 = 51;
}

/// Values for the auxiliary vector that depend on the program.
#[derive(Clone, Copy, Debug)]
pub struct ProgramValues {
    /// Address of the program headers.
    pub program_headers: u64,
    /// Their number.
    pub program_header_count: u64,
    /// Where the dynamic linker was mapped, 0 if there is none.
    pub interpreter_base: u64,
    /// The program's (not the dynamic linker's) first instruction.
    pub entry: u64,
}

/// What was built.
#[derive(Clone, Debug)]
pub struct Built {
    /// Initial stack pointer.
    pub stack_pointer: u64,
    /// Addresses of the argument strings: what `/proc/self/cmdline` shows.
    pub arguments: Range<u64>,
    /// Addresses of the environment strings.
    pub environment: Range<u64>,
    /// The auxiliary vector: what `/proc/self/auxv` shows.
    pub auxiliary: Vec<(u64, u64)>,
}

/// Fills the stack mapping `stack` from its end.
pub fn build(
    stack: Range<u64>,
    arguments: &[OsString],
    environment: &[OsString],
    executed: &OsStr,
    values: ProgramValues,
) -> Result<Built, LoadError> {
    let strings = |list: &[OsString]| list.iter().map(|string| string.len() as u64 + 1).sum::<u64>();
    let bytes = strings(arguments) + strings(environment) + 8 * (arguments.len() + environment.len()) as u64;
    if bytes > (stack.end - stack.start) / 4 {
        return Err(LoadError::ArgumentsTooLong { bytes });
    }
    let mut writer = Writer { at: stack.end, failed: false };
    // The last eight bytes are zero, below lies the file name, below that the environment and the arguments, all ascending.
    writer.at -= 8;
    let executed_at = writer.string(executed);
    let environment_end = writer.at;
    let environment_at = writer.strings(environment);
    let arguments_end = writer.at;
    let arguments_at = writer.strings(arguments);
    let arguments_start = writer.at;

    writer.at &= !15;
    let platform = writer.string(OsStr::new("x86_64"));
    let random = writer.bytes(&random_bytes());

    let auxiliary = auxiliary_vector(values, executed_at, platform, random);
    let words = 1 + arguments_at.len() + 1 + environment_at.len() + 1 + 2 * auxiliary.len();
    let stack_pointer = (writer.at - 8 * words as u64) & !15;
    let mut content = Vec::with_capacity(words);
    content.push(arguments_at.len() as u64);
    content.extend(&arguments_at);
    content.push(0);
    content.extend(&environment_at);
    content.push(0);
    content.extend(auxiliary.iter().flat_map(|&(kind, value)| [kind, value]));
    writer.at = stack_pointer + 8 * words as u64;
    let content: Vec<u8> = content.iter().flat_map(|word| word.to_le_bytes()).collect();
    writer.bytes(&content);
    if writer.failed {
        return Err(LoadError::ArgumentsTooLong { bytes });
    }
    Ok(Built {
        stack_pointer,
        arguments: arguments_start..arguments_end,
        environment: arguments_end..environment_end,
        auxiliary,
    })
}

/// Writes downwards.
struct Writer {
    at: u64,
    failed: bool,
}

impl Writer {
    fn bytes(&mut self, bytes: &[u8]) -> u64 {
        self.at -= bytes.len() as u64;
        self.failed |= user::write_bytes(self.at, bytes).is_err();
        self.at
    }

    fn string(&mut self, string: &OsStr) -> u64 {
        let mut bytes = string.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(&bytes)
    }

    /// Writes strings so that they ascend in memory; returns their addresses.
    fn strings(&mut self, list: &[OsString]) -> Vec<u64> {
        let mut addresses: Vec<u64> = list.iter().rev().map(|string| self.string(string)).collect();
        addresses.reverse();
        addresses
    }
}

fn auxiliary_vector(values: ProgramValues, executed: u64, platform: u64, random: u64) -> Vec<(u64, u64)> {
    use auxiliary as at;
    /// `HWCAP2_FSGSBASE`: withheld, because the engine emulates the application's FS base and a program that asks the kernel for it
    /// is cheaper to follow than one that uses `wrfsbase`.
    const FSGSBASE: u64 = 2;
    // SAFETY: reads this process's auxiliary vector.
    let own = |kind| unsafe { libc::getauxval(kind) };
    let identity = rustix::process::getuid().as_raw();
    let mut vector = vec![
        (at::MINSIGSTKSZ, own(at::MINSIGSTKSZ)),
        (at::HWCAP, own(at::HWCAP)),
        (at::PAGESZ, own(at::PAGESZ)),
        (at::CLKTCK, own(at::CLKTCK)),
        (at::PHDR, values.program_headers),
        (at::PHENT, 56),
        (at::PHNUM, values.program_header_count),
        (at::BASE, values.interpreter_base),
        (at::FLAGS, 0),
        (at::ENTRY, values.entry),
        (at::UID, identity.into()),
        (at::EUID, rustix::process::geteuid().as_raw().into()),
        (at::GID, rustix::process::getgid().as_raw().into()),
        (at::EGID, rustix::process::getegid().as_raw().into()),
        (at::SECURE, 0),
        (at::RANDOM, random),
        (at::HWCAP2, own(at::HWCAP2) & !FSGSBASE),
        (at::EXECFN, executed),
        (at::PLATFORM, platform),
        (at::NULL, 0),
    ];
    if own(at::MINSIGSTKSZ) == 0 {
        vector.remove(0);
    }
    vector
}

fn random_bytes() -> [u8; 16] {
    let mut bytes = [0u8; 16];
    // SAFETY: the buffer has the length given. Sixteen bytes come at once or, very early after boot, not at all.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    debug_assert_eq!(got, 16);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{self, Protection};

    #[test]
    fn the_stack_pointer_is_aligned_and_the_words_are_in_the_kernels_order() {
        let _lock = crate::memory::tests::address_space();
        let access = Protection { read: true, write: true, execute: false };
        let stack = memory::map_stack(1 << 20, access).unwrap();
        let values =
            ProgramValues { program_headers: 0x1040, program_header_count: 9, interpreter_base: 0x2000, entry: 0x1500 };
        for count in 1..4 {
            let arguments: Vec<OsString> = (0..count).map(|i| format!("argument{i}").into()).collect();
            let built = build(stack.clone(), &arguments, &["A=b".into()], OsStr::new("/bin/x"), values).unwrap();
            assert_eq!(built.stack_pointer % 16, 0);
            let word = |index: u64| user::read::<u64>(built.stack_pointer + 8 * index).unwrap();
            let string = |address| user::read_string(address, 100).unwrap().unwrap().into_string().unwrap();
            assert_eq!(word(0), count);
            for index in 0..count {
                assert_eq!(string(word(1 + index)), format!("argument{index}"));
            }
            assert_eq!(word(1 + count), 0);
            assert_eq!(string(word(2 + count)), "A=b");
            assert_eq!(word(3 + count), 0);
            let pairs = (0..).map(|i| (word(4 + count + 2 * i), word(5 + count + 2 * i)));
            let vector: Vec<(u64, u64)> = pairs.take_while(|pair| pair.0 != auxiliary::NULL).collect();
            let value = |kind| vector.iter().find(|pair| pair.0 == kind).map(|pair| pair.1);
            assert_eq!(value(auxiliary::PHNUM), Some(9));
            assert_eq!(value(auxiliary::EXECFN).map(string).as_deref(), Some("/bin/x"));
            assert_eq!(value(auxiliary::PLATFORM).map(string).as_deref(), Some("x86_64"));
            const SYSINFO_EHDR: u64 = 33;
            assert_eq!(value(SYSINFO_EHDR), None);
        }
        memory::unmap(stack.start, stack.end - stack.start).unwrap();
    }
}
