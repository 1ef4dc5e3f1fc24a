//! Each kind of file that is no program gets its own error.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn attempt(content: &[u8], mode: u32) -> LoadError {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program");
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    let found = search::find(&[path.into()], None, None);
    found.and_then(|found| Image::read(found.file, &found.path).map(drop)).unwrap_err()
}

/// An ELF header with one program header, for the given class, machine and type.
fn elf(class: u8, machine: u16, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0u8; 64 + 56];
    bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
    bytes[16..18].copy_from_slice(&kind.to_le_bytes());
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
    bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
    bytes[56..58].copy_from_slice(&1u16.to_le_bytes());
    // PT_LOAD of 8192 bytes from the file's start.
    bytes[64] = 1;
    bytes[64 + 32..64 + 40].copy_from_slice(&8192u64.to_le_bytes());
    bytes[64 + 40..64 + 48].copy_from_slice(&8192u64.to_le_bytes());
    bytes
}

const CLASS_32: u8 = 1;
const CLASS_64: u8 = 2;

#[test]
fn each_unusable_file_has_its_own_error() {
    use object::elf::{EM_386, EM_AARCH64, EM_X86_64, ET_EXEC, ET_REL};
    assert!(matches!(attempt(b"", 0o755), LoadError::Empty(_)));
    assert!(matches!(attempt(b"hello\n", 0o755), LoadError::NoInterpreterLine(_)));
    assert!(matches!(attempt(b"\x01\x02\x03", 0o755), LoadError::UnknownFormat(_)));
    assert!(matches!(attempt(b"#!/bin/sh\n", 0o644), LoadError::Permission(_)));
    assert!(matches!(attempt(b"\x7fELF\x02\x01", 0o755), LoadError::Damaged { .. }));
    assert!(matches!(attempt(&elf(CLASS_64, EM_X86_64, ET_EXEC), 0o755), LoadError::Damaged { .. }));
    assert!(matches!(attempt(&elf(CLASS_32, EM_386, ET_EXEC), 0o755), LoadError::ThirtyTwoBit(_)));
    assert!(matches!(attempt(&elf(CLASS_64, EM_X86_64, ET_REL), 0o755), LoadError::NotAProgram { .. }));
    let error = attempt(&elf(CLASS_64, EM_AARCH64, ET_EXEC), 0o755);
    assert!(matches!(&error, LoadError::ForeignArchitecture { architecture, .. } if architecture == "64-bit ARM"));
    assert_eq!(error.exit_code(), 126);
}

#[test]
fn scripts_that_cannot_be_interpreted() {
    assert!(matches!(attempt(b"#!\n", 0o755), LoadError::EmptyInterpreterLine(_)));
    let error = attempt(b"#!/does/not/exist\n", 0o755);
    let LoadError::BadInterpreter { interpreter, source, .. } = &error else { panic!("{error}") };
    assert_eq!(interpreter, Path::new("/does/not/exist"));
    assert!(matches!(**source, LoadError::NotFound { searched: false, .. }));
    assert_eq!(error.exit_code(), 127);

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("circle");
    fs::write(&path, format!("#!{}\n", path.display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(search::find(&[path.into()], None, None), Err(LoadError::TooManyInterpreters(_))));
}

#[test]
fn names_that_lead_nowhere() {
    let find = |name: &str| search::find(&[name.into()], None, Some(OsStr::new("/usr/bin:/bin"))).unwrap_err();
    assert!(matches!(find("/does/not/exist"), LoadError::NotFound { searched: false, .. }));
    assert!(matches!(find("does-not-exist"), LoadError::NotFound { searched: true, .. }));
    assert!(matches!(find("/usr"), LoadError::Directory(_)));
    assert!(matches!(find("/dev/null"), LoadError::NotRegular(_)));
    assert!(matches!(search::find(&[], None, None), Err(LoadError::NoProgram)));
    assert_eq!(find("does-not-exist").exit_code(), 127);
    assert_eq!(find("/usr").exit_code(), 126);
}

#[test]
fn a_program_in_path_is_found_and_mapped_near() {
    let _lock = crate::memory::tests::address_space();
    let found = search::find(&["true".into()], None, Some(OsStr::new("/nowhere:/usr/bin:/bin"))).unwrap();
    assert_eq!(found.arguments, ["true"]);
    let image = Image::read(found.file, &found.path).unwrap();
    let placed = image.map().unwrap();
    assert!(placed.range.start >= 0x2000_0000 && placed.range.end <= 0x7fff_0000);
    assert!(memory::executable_until(placed.entry).is_some());
    let magic: [u8; 4] = memory::user::read(placed.range.start).unwrap();
    assert_eq!(&magic, b"\x7fELF");
    memory::unmap(placed.range.start, placed.range.end - placed.range.start).unwrap();
}
