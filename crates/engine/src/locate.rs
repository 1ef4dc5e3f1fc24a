//! From an offset in an executable or library to the function and the source line that the code there comes from.
//!
//! Debug information may be in the file itself or in a separate one, which is looked for as gdb does: by build ID and by `.gnu_debuglink`
//! (GDB manual, section "Debugging Information in Separate Files").

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use object::Object as _;

use crate::symbols::{Elf, ExecutableSegment};

/// Where Linux distributions have separate debug information.
const DEBUG_DIRECTORY: &str = "/usr/lib/debug";

/// What is known about a place in code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// Function, demangled; the innermost of inlined ones.
    pub function: Option<String>,
    /// Source file as the debug information names it, and line.
    pub line: Option<(String, u32)>,
}

/// Looks places up; what it has read of a file it keeps for the next one.
#[derive(Default)]
pub struct Locator {
    objects: HashMap<PathBuf, Option<Debugged>>,
}

/// A file with its debug information.
struct Debugged {
    segments: Vec<ExecutableSegment>,
    /// The file itself, then the file with its debug information.
    loaders: Vec<Loader>,
}

impl Locator {
    /// Nothing is read yet.
    pub fn new() -> Locator {
        Locator::default()
    }

    /// What is known about the code at `offset` of a file. What cannot be found out is left out: a note that names no line is better than none.
    pub fn locate(&mut self, file: &Path, offset: u64) -> Location {
        let debugged = self.objects.entry(file.to_owned()).or_insert_with(|| Debugged::read(file));
        debugged.as_ref().map(|debugged| debugged.locate(offset)).unwrap_or_default()
    }
}

impl Debugged {
    fn read(file: &Path) -> Option<Debugged> {
        let segments = Elf::open(file).ok()?.identity().ok()?.segments;
        let separate = separate_files(file).into_iter().find(|path| path.is_file());
        let loaders =
            std::iter::once(file).chain(separate.as_deref()).filter_map(|path| Loader::new(path).ok()).collect();
        Some(Debugged { segments, loaders })
    }

    fn locate(&self, offset: u64) -> Location {
        let mut location = Location::default();
        let within = |segment: &&ExecutableSegment| {
            (segment.file_offset..segment.file_offset + segment.file_size).contains(&offset)
        };
        let Some(segment) = self.segments.iter().find(within) else { return location };
        let address = segment.address + (offset - segment.file_offset);
        for loader in &self.loaders {
            let frame = loader.find_frames(address).ok().and_then(|mut frames| frames.next().ok()?);
            if let Some(frame) = frame {
                let name = frame.function.and_then(|name| Some(name.demangle().ok()?.into_owned()));
                location.function = name.or(location.function);
                let line = frame.location.and_then(|at| Some((at.file?.to_owned(), at.line?)));
                location.line = line.or(location.line);
            }
            if location.function.is_none() {
                location.function =
                    loader.find_symbol(address).map(|name| addr2line::demangle_auto(name.into(), None).into_owned());
            }
            if location.line.is_some() {
                break;
            }
        }
        location
    }
}

/// Where the debug information of a file may be, if it is not in the file, most likely places first.
fn separate_files(file: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let Ok(data) = std::fs::File::open(file) else { return paths };
    let data = object::read::ReadCache::new(data);
    let Ok(object) = object::File::parse(&data) else { return paths };
    if let Ok(Some([first, rest @ ..])) = object.build_id() {
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        paths.push(format!("{DEBUG_DIRECTORY}/.build-id/{first:02x}/{rest}.debug").into());
    }
    if let (Ok(Some((name, _))), Some(directory)) = (object.gnu_debuglink(), file.parent()) {
        let name = OsStr::from_bytes(name);
        paths.push(directory.join(name));
        paths.push(directory.join(".debug").join(name));
        if let Ok(inner) = directory.strip_prefix("/") {
            paths.push(Path::new(DEBUG_DIRECTORY).join(inner).join(name));
        }
    }
    paths.retain(|path| path != file);
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::process::Command;

    const SOURCE: &str = "int middle(int a) {\n  return a * 3;\n}\nint main(void) { return middle(0); }\n";

    fn run(directory: &Path, line: &str) {
        let status = Command::new("sh").args(["-c", line]).current_dir(directory).status().unwrap();
        assert!(status.success(), "{line}");
    }

    fn offset_of(file: &Path, function: &str) -> u64 {
        let functions = crate::symbols::exported_functions(file, |name| name == function).unwrap();
        let segments = Elf::open(file).unwrap().identity().unwrap().segments;
        functions[0].address - segments[0].address + segments[0].file_offset
    }

    #[test]
    fn lines_and_functions_are_found_in_the_file_and_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("p.c"), SOURCE).unwrap();
        run(directory.path(), "cc -g -O0 -o with p.c && cc -O0 -o without p.c");
        run(directory.path(), "objcopy --only-keep-debug with stripped.debug && cp with stripped");
        run(directory.path(), "objcopy --strip-all --add-gnu-debuglink=stripped.debug stripped");
        let with = directory.path().join("with");
        let offset = offset_of(&with, "middle");
        let mut locator = Locator::new();
        for (name, line) in [("with", true), ("stripped", true), ("without", false)] {
            let file = directory.path().join(name);
            let found = locator.locate(&file, offset);
            assert_eq!(found.function.as_deref(), Some("middle"), "{name}");
            let expected = line.then(|| (directory.path().join("p.c").display().to_string(), 1));
            assert_eq!(found.line, expected, "{name}");
        }
    }

    #[test]
    fn files_that_are_none_are_no_error() {
        let mut locator = Locator::new();
        assert_eq!(locator.locate(Path::new("/etc/passwd"), 0), Location::default());
        assert_eq!(locator.locate(Path::new("/nonexistent/file"), 0), Location::default());
        assert_eq!(locator.locate(Path::new("/bin/sh"), u64::MAX), Location::default());
    }
}
