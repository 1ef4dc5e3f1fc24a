//! Programs that the program executes and that are to run under the tool as well (`--trace-children`): in place of each one, our own executable
//! is executed with the same options and with the program as its argument.

use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::loader;
use crate::memory::user;

/// The running executable, whatever has become of its file.
const OWN: &CStr = c"/proc/self/exe";
/// Longest argument that the kernel takes (`MAX_ARG_STRLEN`).
const LONGEST_ARGUMENT: usize = 32 * 4096;

/// Our own name and options, if children are to be traced.
static OPTIONS: OnceLock<Vec<CString>> = OnceLock::new();

/// From now on programs that are executed run under the tool, with these options of our own command line. What an option cannot be is dropped:
/// a string with a zero byte.
pub(crate) fn trace(options: &[OsString]) {
    let name = CString::from(c"derivgrind");
    let options = options.iter().filter_map(|option| CString::new(option.as_bytes()).ok());
    let _ = OPTIONS.set(std::iter::once(name).chain(options).collect());
}

/// What is executed in place of a program.
pub(super) struct Command {
    /// Strings of our own that `pointers` refer to.
    _own: Vec<CString>,
    pointers: Vec<u64>,
}

impl Command {
    /// For the program in `file` with the argument list at `arguments`, an address of the application. `None` if it is to run natively: without
    /// `--trace-children`, and for files that cannot run under the tool.
    pub fn instead_of(file: &Path, arguments: u64) -> Option<Command> {
        let options = OPTIONS.get()?;
        // The program's filters would be in force for our calls.
        if super::seccomp::is_active() || !is_traceable(file) {
            return None;
        }
        let mut words =
            vec![CString::from(c"--executed"), CString::new(file.as_os_str().as_bytes()).ok()?, c"--".into()];
        let mut given = argument_pointers(arguments)?;
        if given.is_empty() {
            // The kernel starts no program without an argument.
            words.push(CString::default());
        }
        // The words are in the heap: their addresses stay when the vector moves.
        let mut pointers: Vec<u64> = options.iter().chain(&words).map(|word| word.as_ptr() as u64).collect();
        pointers.append(&mut given);
        pointers.push(0);
        Some(Command { _own: words, pointers })
    }

    /// The arguments of `execve`, with the application's environment.
    pub fn execve(&self, environment: u64) -> super::Arguments {
        [OWN.as_ptr() as u64, self.pointers.as_ptr() as u64, environment, 0, 0, 0]
    }
}

/// The addresses in a null-terminated list; `None` if the list or a string cannot be read, which `execve` then says itself.
fn argument_pointers(list: u64) -> Option<Vec<u64>> {
    let mut pointers = Vec::new();
    if list == 0 {
        return Some(pointers);
    }
    loop {
        let pointer: u64 = user::read(list + 8 * pointers.len() as u64).ok()?;
        if pointer == 0 {
            return Some(pointers);
        }
        user::read_string(pointer, LONGEST_ARGUMENT).ok()??;
        pointers.push(pointer);
    }
}

/// Whether a program can run under the tool. The others run natively: those that we cannot load, those with privileges of their own, which
/// they would lose, and derivgrind itself, since an engine cannot run another one.
fn is_traceable(file: &Path) -> bool {
    const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;
    let Ok(elf) = loader::executable_of(file) else { return false };
    let (Ok(status), Ok(own)) = (elf.metadata(), std::fs::metadata("/proc/self/exe")) else { return false };
    let is_own = (status.dev(), status.ino()) == (own.dev(), own.ino());
    !is_own && (status.mode() & SET_ID == 0 || rustix::process::geteuid().is_root()) && !has_capabilities(&elf)
}

fn has_capabilities(file: &std::fs::File) -> bool {
    use std::os::fd::AsRawFd;
    // SAFETY: a zero-terminated name, and no buffer.
    unsafe { libc::fgetxattr(file.as_raw_fd(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) >= 0 }
}

/// The file behind a descriptor of ours, under a name that it still has when descriptors have been closed; `None` if it has none.
pub(super) fn named(descriptor: &Path) -> Option<PathBuf> {
    let name = std::fs::read_link(descriptor).ok()?;
    let (by_name, itself) = (std::fs::metadata(&name).ok()?, std::fs::metadata(descriptor).ok()?);
    ((by_name.dev(), by_name.ino()) == (itself.dev(), itself.ino())).then_some(name)
}
