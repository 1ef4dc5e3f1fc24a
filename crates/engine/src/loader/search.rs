//! From a command line to the ELF file that is to be mapped: `PATH` and `#!` lines.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::LoadError;

/// Bytes of a file that the kernel looks at for `#!` (`BINPRM_BUF_SIZE`).
const HEAD: usize = 256;
/// How many scripts may name each other as interpreters before the kernel gives up with ELOOP.
const DEEPEST: usize = 5;

/// A program that was found.
#[derive(Debug)]
pub struct Found {
    /// The ELF file.
    pub file: File,
    /// Its path.
    pub path: PathBuf,
    /// What goes to AT_EXECFN: the path that `execve` would have got.
    pub executed: PathBuf,
    /// The arguments, with those that `#!` lines add.
    pub arguments: Vec<OsString>,
}

/// Finds the ELF file for a command, as a shell and the kernel would. `executed` is the file, if that is not what its first word says.
pub fn find(command: &[OsString], executed: Option<&Path>, path_variable: Option<&OsStr>) -> Result<Found, LoadError> {
    let name = command.first().ok_or(LoadError::NoProgram)?;
    let executed = match executed {
        Some(path) => path.to_owned(),
        None => in_path(name, path_variable)?,
    };
    let mut path = executed.clone();
    let mut arguments = command.to_vec();
    for _ in 0..DEEPEST {
        let (mut file, head) = open(&path)?;
        let Some(line) = head.strip_prefix(b"#!") else {
            use std::io::Seek;
            file.rewind().map_err(|source| LoadError::Unreadable { path: path.clone(), source })?;
            return Ok(Found { file, path, executed, arguments });
        };
        let (interpreter, argument) = interpreter_line(line, &path)?;
        let mut longer = vec![interpreter.clone().into_os_string()];
        longer.extend(argument);
        longer.push(path.clone().into_os_string());
        longer.extend(arguments.drain(1..));
        arguments = longer;
        check_interpreter(&path, &interpreter)?;
        path = interpreter;
    }
    Err(LoadError::TooManyInterpreters(path))
}

fn check_interpreter(path: &Path, interpreter: &Path) -> Result<(), LoadError> {
    open(interpreter).map(drop).map_err(|source| LoadError::BadInterpreter {
        path: path.to_owned(),
        interpreter: interpreter.to_owned(),
        source: Box::new(source),
    })
}

/// Opens an executable file and reads its first bytes; explains why it is none.
pub fn open(path: &Path) -> Result<(File, Vec<u8>), LoadError> {
    let status = fs::metadata(path).map_err(|source| LoadError::from_io(path.to_owned(), source))?;
    if status.is_dir() {
        return Err(LoadError::Directory(path.to_owned()));
    }
    if !status.is_file() {
        return Err(LoadError::NotRegular(path.to_owned()));
    }
    if status.mode() & 0o111 == 0 || !may_execute(path) {
        return Err(LoadError::Permission(path.to_owned()));
    }
    let mut file = File::open(path).map_err(|source| LoadError::from_io(path.to_owned(), source))?;
    let mut head = Vec::with_capacity(HEAD);
    let unreadable = |source| LoadError::Unreadable { path: path.to_owned(), source };
    (&mut file).take(HEAD as u64).read_to_end(&mut head).map_err(unreadable)?;
    if head.is_empty() {
        return Err(LoadError::Empty(path.to_owned()));
    }
    if head.starts_with(b"\x7fELF") || head.starts_with(b"#!") {
        return Ok((file, head));
    }
    // An ELF file cut off within its magic number is not text either, because 0x7f is a control character.
    let text = head.iter().all(|&byte| byte >= 0x80 || matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | b' '..=b'~'));
    if text {
        return Err(LoadError::NoInterpreterLine(path.to_owned()));
    }
    Err(LoadError::UnknownFormat(path.to_owned()))
}

fn may_execute(path: &Path) -> bool {
    rustix::fs::accessat(rustix::fs::CWD, path, rustix::fs::Access::EXEC_OK, rustix::fs::AtFlags::EACCESS).is_ok()
}

/// Looks a name without slashes up in `PATH`. As `execvp`: a file that may not be executed does not end the search, but is reported
/// if nothing better comes.
fn in_path(name: &OsStr, path_variable: Option<&OsStr>) -> Result<PathBuf, LoadError> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let not_found = || LoadError::NotFound { path: name.into(), searched: true };
    if name.is_empty() {
        return Err(not_found());
    }
    let mut denied = None;
    let directories = path_variable.map_or(OsStr::new("/bin:/usr/bin"), |variable| variable);
    for directory in directories.as_bytes().split(|&byte| byte == b':') {
        // An empty entry is the current directory.
        let candidate = Path::new(OsStr::from_bytes(directory)).join(name);
        match fs::metadata(&candidate) {
            Ok(status) if status.is_file() => {
                if status.mode() & 0o111 != 0 && may_execute(&candidate) {
                    return Ok(candidate);
                }
                denied.get_or_insert(candidate);
            }
            _ => {}
        }
    }
    Err(denied.map_or_else(not_found, LoadError::Permission))
}

/// Splits the rest of a `#!` line as the kernel does: the interpreter, and everything behind it as one argument.
fn interpreter_line(line: &[u8], path: &Path) -> Result<(PathBuf, Option<OsString>), LoadError> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let end = line.iter().position(|byte| matches!(byte, b'\n' | b'\0')).unwrap_or(line.len());
    let line = line[..end].trim_ascii_end();
    let start = line.iter().position(|byte| !blank(byte));
    let Some(line) = start.map(|start| &line[start..]) else {
        return Err(LoadError::EmptyInterpreterLine(path.to_owned()));
    };
    let name_end = line.iter().position(blank).unwrap_or(line.len());
    let (name, rest) = line.split_at(name_end);
    let argument = rest.iter().position(|byte| !blank(byte)).map(|start| OsString::from_vec(rest[start..].to_vec()));
    Ok((PathBuf::from(OsString::from_vec(name.to_vec())), argument))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> (String, Option<String>) {
        let (path, argument) = interpreter_line(line.as_bytes(), Path::new("script")).unwrap();
        (path.to_str().unwrap().to_owned(), argument.map(|argument| argument.into_string().unwrap()))
    }

    #[test]
    fn interpreter_line_has_at_most_one_argument() {
        assert_eq!(split("/bin/sh\necho"), ("/bin/sh".into(), None));
        assert_eq!(split(" \t/usr/bin/env  -S a  b \nx"), ("/usr/bin/env".into(), Some("-S a  b".into())));
        assert!(matches!(interpreter_line(b"  \n", Path::new("script")), Err(LoadError::EmptyInterpreterLine(_))));
    }

    #[test]
    fn script_arguments_are_inserted_before_the_scripts_own() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        fs::write(&script, "#!/bin/sh -e\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&script, mode).unwrap();
        let found = find(&[script.clone().into(), "one".into()], None, None).unwrap();
        assert_eq!(found.executed, script);
        assert_eq!(found.path, Path::new("/bin/sh"));
        let expected: [OsString; 4] = ["/bin/sh".into(), "-e".into(), script.clone().into(), "one".into()];
        assert_eq!(found.arguments, expected);
        let renamed = find(&["name".into(), "one".into()], Some(&script), None).unwrap();
        assert_eq!((renamed.executed, renamed.arguments), (script.clone(), expected.to_vec()));
    }
}
