//! Files under `/proc` that describe the process: they describe the application, not derivgrind.

mod content;

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;

use crate::context::Context;
use crate::memory::user;
use crate::syscall::raw::{result, syscall};
use crate::syscall::{Arguments, Outcome};

/// A file whose content is the application's instead of the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// The link to the program.
    Program,
    Maps,
    DetailedMaps,
    CommandLine,
    Environment,
    AuxiliaryVector,
}

/// Which file of this process a path names, if it is one of those.
fn subject(path: &[u8]) -> Option<Subject> {
    let path = std::str::from_utf8(path.strip_prefix(b"/proc/")?).ok()?;
    let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    let process = parts.next()?;
    let own = process == "self" || process == "thread-self" || is_own(process);
    let mut name = parts.next()?;
    if name == "task" {
        parts.next()?;
        name = parts.next()?;
    }
    if !own || parts.next().is_some() {
        return None;
    }
    Some(match name {
        "exe" => Subject::Program,
        "maps" => Subject::Maps,
        "smaps" => Subject::DetailedMaps,
        "cmdline" => Subject::CommandLine,
        "environ" => Subject::Environment,
        "auxv" => Subject::AuxiliaryVector,
        _ => return None,
    })
}

/// Whether a directory name under `/proc` is the number of this process.
fn is_own(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_digit()) && name.parse() == Ok(std::process::id())
}

/// The file that the path at an application address names, if it is one of those.
fn subject_at(address: u64) -> Option<Subject> {
    /// Longer paths name none of these files.
    const LONGEST: usize = 256;
    // Nearly all paths end here.
    let start: [u8; 6] = user::read(address).ok()?;
    if &start != b"/proc/" {
        return None;
    }
    subject(user::read_string(address, LONGEST).ok()??.as_bytes())
}

fn program_path() -> Option<CString> {
    CString::new(crate::loader::program()?.path.as_os_str().as_bytes()).ok()
}

/// The program's path, if `path` is the link to it.
pub(crate) fn program_for_link(path: &[u8]) -> Option<CString> {
    (subject(path) == Some(Subject::Program)).then(program_path).flatten()
}

/// Opens the file at `arguments[path]`, whose flags are `flags`.
fn open_subject(context: &mut Context, number: i64, mut arguments: Arguments, path: usize, flags: u64) -> Outcome {
    let Some(subject) = subject_at(arguments[path]) else { return Outcome::Pass(number, arguments) };
    if subject == Subject::Program {
        let Some(program) = program_path() else { return Outcome::Pass(number, arguments) };
        arguments[path] = program.as_ptr() as u64;
        return crate::syscall::pass(context, number, arguments);
    }
    if flags & libc::O_ACCMODE as u64 != libc::O_RDONLY as u64 {
        return Outcome::error(libc::EACCES);
    }
    match content::of(subject) {
        Some(bytes) => memory_file(c"derivgrind-proc", &bytes, flags & libc::O_CLOEXEC as u64 != 0).into(),
        None => Outcome::Pass(number, arguments),
    }
}

/// Makes a descriptor from which `bytes` can be read.
fn memory_file(name: &CStr, bytes: &[u8], close_on_exec: bool) -> Result<u64, i32> {
    let flags = if close_on_exec { libc::MFD_CLOEXEC } else { 0 };
    // SAFETY: a zero-terminated name; the buffer has the length given.
    unsafe {
        let descriptor = result(syscall(libc::SYS_memfd_create, [name.as_ptr() as u64, flags.into(), 0, 0, 0, 0]))?;
        let written = syscall(libc::SYS_pwrite64, [descriptor, bytes.as_ptr() as u64, bytes.len() as u64, 0, 0, 0]);
        if written != bytes.len() as i64 {
            syscall(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0]);
            return Err(libc::ENOMEM);
        }
        Ok(descriptor)
    }
}

/// `open`.
pub(crate) fn open(context: &mut Context, arguments: Arguments) -> Outcome {
    open_subject(context, libc::SYS_open, arguments, 0, arguments[1])
}

/// `openat`.
pub(crate) fn openat(context: &mut Context, arguments: Arguments) -> Outcome {
    open_subject(context, libc::SYS_openat, arguments, 1, arguments[2])
}

/// `openat2`: the flags are the first word of a structure.
pub(crate) fn openat2(context: &mut Context, arguments: Arguments) -> Outcome {
    match user::read::<u64>(arguments[2]) {
        Ok(flags) => open_subject(context, libc::SYS_openat2, arguments, 1, flags),
        Err(_) => Outcome::error(libc::EFAULT),
    }
}

/// Answers for the link to the program.
fn read_program_link(number: i64, arguments: Arguments, path: usize) -> Outcome {
    let [address, capacity] = [arguments[path + 1], arguments[path + 2]];
    if subject_at(arguments[path]) != Some(Subject::Program) {
        return Outcome::Pass(number, arguments);
    }
    let Some(program) = program_path() else { return Outcome::Pass(number, arguments) };
    if (capacity as i32) <= 0 {
        return Outcome::error(libc::EINVAL);
    }
    let bytes = program.as_bytes();
    let bytes = &bytes[..bytes.len().min(capacity as usize)];
    crate::memory::clear_shadow(address, bytes.len() as u64);
    Outcome::from(user::write_bytes(address, bytes).map(|()| bytes.len() as u64).map_err(|_| libc::EFAULT))
}

/// `readlink`.
pub(crate) fn readlink(_: &mut Context, arguments: Arguments) -> Outcome {
    read_program_link(libc::SYS_readlink, arguments, 0)
}

/// `readlinkat`.
pub(crate) fn readlinkat(_: &mut Context, arguments: Arguments) -> Outcome {
    read_program_link(libc::SYS_readlinkat, arguments, 1)
}

/// Makes a call that follows links with the program's path in place of the link to it.
fn follow_program_link(context: &mut Context, number: i64, mut arguments: Arguments, path: usize) -> Outcome {
    if subject_at(arguments[path]) != Some(Subject::Program) {
        return Outcome::Pass(number, arguments);
    }
    let Some(program) = program_path() else { return Outcome::Pass(number, arguments) };
    arguments[path] = program.as_ptr() as u64;
    crate::syscall::pass(context, number, arguments)
}

/// `stat`.
pub(crate) fn stat(context: &mut Context, arguments: Arguments) -> Outcome {
    follow_program_link(context, libc::SYS_stat, arguments, 0)
}

/// `newfstatat`, unless it asks about the link itself.
pub(crate) fn newfstatat(context: &mut Context, arguments: Arguments) -> Outcome {
    if arguments[3] & libc::AT_SYMLINK_NOFOLLOW as u64 != 0 {
        return Outcome::Pass(libc::SYS_newfstatat, arguments);
    }
    follow_program_link(context, libc::SYS_newfstatat, arguments, 1)
}

/// `statx`, unless it asks about the link itself.
pub(crate) fn statx(context: &mut Context, arguments: Arguments) -> Outcome {
    if arguments[2] & libc::AT_SYMLINK_NOFOLLOW as u64 != 0 {
        return Outcome::Pass(libc::SYS_statx, arguments);
    }
    follow_program_link(context, libc::SYS_statx, arguments, 1)
}

/// `access`.
pub(crate) fn access(context: &mut Context, arguments: Arguments) -> Outcome {
    follow_program_link(context, libc::SYS_access, arguments, 0)
}

/// `faccessat`.
pub(crate) fn faccessat(context: &mut Context, arguments: Arguments) -> Outcome {
    follow_program_link(context, libc::SYS_faccessat, arguments, 1)
}

/// `faccessat2`.
pub(crate) fn faccessat2(context: &mut Context, arguments: Arguments) -> Outcome {
    follow_program_link(context, libc::SYS_faccessat2, arguments, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_files_are_recognised_under_all_their_names() {
        let own = std::process::id();
        assert_eq!(subject(b"/proc/self/maps"), Some(Subject::Maps));
        assert_eq!(subject(b"/proc//thread-self/./exe"), Some(Subject::Program));
        assert_eq!(subject(format!("/proc/{own}/auxv").as_bytes()), Some(Subject::AuxiliaryVector));
        assert_eq!(subject(format!("/proc/self/task/{own}/maps").as_bytes()), Some(Subject::Maps));
        for other in [
            "/proc/1/maps",
            "/proc/self/status",
            "/proc/self/maps/x",
            "/proc/maps",
            "/tmp/proc/self/maps",
            "/proc/self",
        ] {
            assert_eq!(subject(other.as_bytes()), None, "{other}");
        }
    }
}
