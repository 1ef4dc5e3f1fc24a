//! What an ELF file says about itself: its name, its executable segments and the functions that it exports.
//!
//! Files are read piecewise rather than mapped: only headers, the dynamic section and symbol tables are looked at, which are a small part
//! of a big library, and a file that shrinks meanwhile gives an error instead of a SIGBUS.
//! Tables are found through section headers; a file without them (`sstrip`) has no functions here.

use std::fs::File;
use std::path::{Path, PathBuf};

use object::elf;
use object::endian::LittleEndian;
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::read::{ReadCache, StringTable};

type Header = elf::FileHeader64<LittleEndian>;
type Symbol = elf::Sym64<LittleEndian>;

const ENDIAN: LittleEndian = LittleEndian;

/// Why nothing can be said about a file.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// The operating system does not let us read it.
    #[error("cannot read {path}: {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// It is no amd64 ELF file, or it is damaged or truncated.
    #[error("{path} is not a well-formed 64-bit ELF file for amd64 ({reason}): its symbols cannot be used", path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// A function that a file defines for use by others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Symbol name, without its version.
    pub name: String,
    /// Virtual address of the first instruction, relative to the load bias of the file.
    pub address: u64,
    /// Bytes of machine code as the symbol table has them; 0 if it does not know.
    pub size: u64,
    /// `STT_GNU_IFUNC`: the code at `address` is a resolver, which returns the implementation's address.
    pub is_ifunc: bool,
    /// Weak binding: a definition of somebody else's takes precedence when linking.
    pub is_weak: bool,
}

/// A `PT_LOAD` segment that is mapped executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutableSegment {
    /// Where its bytes start in the file.
    pub file_offset: u64,
    /// How many bytes it has in the file.
    pub file_size: u64,
    /// Virtual address of its first byte, relative to the load bias.
    pub address: u64,
}

/// How a file takes part in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A shared object, including those that can be run as well (glibc's `libc.so.6`).
    SharedObject,
    /// An executable that is started through a dynamic loader.
    DynamicExecutable,
    /// A statically linked executable, position-independent or not.
    StaticExecutable,
}

/// The facts by which the origin of a file's functions is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// How it takes part in a process.
    pub kind: Kind,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// It was linked with glibc's start files (it has their `GNU` ABI-tag note).
    pub glibc_start_files: bool,
    /// Its executable segments.
    pub segments: Vec<ExecutableSegment>,
}

/// An ELF file opened for reading.
pub struct Elf {
    path: PathBuf,
    data: ReadCache<File>,
}

impl Elf {
    /// Opens a file; its content is not looked at yet.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path) -> Result<Self, SymbolError> {
        let file = File::open(path).map_err(|source| SymbolError::Unreadable { path: path.into(), source })?;
        Ok(Self { path: path.into(), data: ReadCache::new(file) })
    }

    /// Reads name, kind and segments.
    ///
    /// # Errors
    /// The file is no ELF file for amd64 or it is damaged.
    pub fn identity(&self) -> Result<Identity, SymbolError> {
        let header = self.header()?;
        let mut segments = Vec::new();
        let mut interpreter = false;
        let mut glibc_start_files = false;
        for segment in header.program_headers(ENDIAN, &self.data).map_err(|e| self.malformed(e))? {
            match segment.p_type(ENDIAN) {
                elf::PT_LOAD if segment.p_flags(ENDIAN) & elf::PF_X != 0 => segments.push(ExecutableSegment {
                    file_offset: segment.p_offset(ENDIAN),
                    file_size: segment.p_filesz(ENDIAN),
                    address: segment.p_vaddr(ENDIAN),
                }),
                elf::PT_INTERP => interpreter = true,
                elf::PT_NOTE => {
                    // A damaged note only costs this piece of evidence.
                    if let Ok(Some(mut notes)) = segment.notes(ENDIAN, &self.data) {
                        while let Ok(Some(note)) = notes.next() {
                            glibc_start_files |=
                                note.name() == elf::ELF_NOTE_GNU && note.n_type(ENDIAN) == elf::NT_GNU_ABI_TAG;
                        }
                    }
                }
                _ => {}
            }
        }

        let mut soname = None;
        let mut position_independent_executable = false;
        let mut dynamic = false;
        let sections = header.sections(ENDIAN, &self.data).map_err(|e| self.malformed(e))?;
        if let Some((entries, link)) = sections.dynamic(ENDIAN, &self.data).map_err(|e| self.malformed(e))? {
            dynamic = true;
            let strings = self.strings(sections.section(link).map_err(|e| self.malformed(e))?)?;
            for entry in entries {
                match entry.tag32(ENDIAN) {
                    Some(elf::DT_SONAME) => {
                        soname =
                            entry.string(ENDIAN, strings).ok().map(|name| String::from_utf8_lossy(name).into_owned());
                    }
                    Some(elf::DT_FLAGS_1) => {
                        position_independent_executable = entry.d_val(ENDIAN) & u64::from(elf::DF_1_PIE) != 0
                    }
                    _ => {}
                }
            }
        }

        let executable = header.e_type(ENDIAN) == elf::ET_EXEC || position_independent_executable || !dynamic;
        let kind = match (soname.is_some(), interpreter, executable) {
            (true, ..) | (false, false, false) => Kind::SharedObject,
            (false, true, _) => Kind::DynamicExecutable,
            (false, false, true) => Kind::StaticExecutable,
        };
        Ok(Identity { kind, soname, glibc_start_files, segments })
    }

    /// The functions that the file defines with global or weak binding and default or protected visibility and whose name and address `wants` accepts:
    /// those of `.dynsym`, and with `static_symbols` those of `.symtab` as well. Several names of one address give several
    /// entries; the same name and address in both tables gives one. A name with several versions gives one entry for each address.
    ///
    /// # Errors
    /// The file is no ELF file for amd64 or it is damaged.
    pub fn functions(
        &self,
        static_symbols: bool,
        mut wants: impl FnMut(&str, u64) -> bool,
    ) -> Result<Vec<Function>, SymbolError> {
        let sections = self.header()?.sections(ENDIAN, &self.data).map_err(|e| self.malformed(e))?;
        let mut functions = Vec::new();
        for section in sections.iter() {
            let kind = section.sh_type(ENDIAN);
            if kind != elf::SHT_DYNSYM && !(static_symbols && kind == elf::SHT_SYMTAB) {
                continue;
            }
            let symbols: &[Symbol] = section.data_as_array(ENDIAN, &self.data).map_err(|e| self.malformed(e))?;
            let strings = self.strings(sections.section(section.link(ENDIAN)).map_err(|e| self.malformed(e))?)?;
            functions.extend(symbols.iter().filter_map(|symbol| function(symbol, strings, &mut wants)));
        }
        functions.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
        functions.dedup_by(|a, b| a.address == b.address && a.name == b.name);
        Ok(functions)
    }

    fn header(&self) -> Result<&Header, SymbolError> {
        let header = Header::parse(&self.data).map_err(|e| self.malformed(e))?;
        if header.endian().is_err() || header.e_machine(ENDIAN) != elf::EM_X86_64 {
            return Err(SymbolError::Malformed { path: self.path.clone(), reason: "another machine's code".into() });
        }
        Ok(header)
    }

    /// A string table, read at once: the cache's own look-up would cost two system calls for each name.
    fn strings(&self, section: &elf::SectionHeader64<LittleEndian>) -> Result<StringTable<'_>, SymbolError> {
        let bytes = section.data(ENDIAN, &self.data).map_err(|e| self.malformed(e))?;
        Ok(StringTable::new(bytes, 0, bytes.len() as u64))
    }

    fn malformed(&self, error: object::read::Error) -> SymbolError {
        SymbolError::Malformed { path: self.path.clone(), reason: error.to_string() }
    }
}

fn function(symbol: &Symbol, strings: StringTable<'_>, wants: &mut impl FnMut(&str, u64) -> bool) -> Option<Function> {
    let is_ifunc = symbol.st_type() == elf::STT_GNU_IFUNC;
    let callable = is_ifunc || symbol.st_type() == elf::STT_FUNC;
    let binding = symbol.st_bind();
    let public = (binding == elf::STB_GLOBAL || binding == elf::STB_WEAK)
        && matches!(symbol.st_visibility(), elf::STV_DEFAULT | elf::STV_PROTECTED);
    if !callable || !public || symbol.st_shndx(ENDIAN) == elf::SHN_UNDEF {
        return None;
    }
    let name = std::str::from_utf8(strings.get(symbol.st_name(ENDIAN)).ok()?).ok()?;
    let address = symbol.st_value(ENDIAN);
    wants(name, address).then(|| Function {
        name: name.to_owned(),
        address,
        size: symbol.st_size(ENDIAN),
        is_ifunc,
        is_weak: binding == elf::STB_WEAK,
    })
}

/// The functions that the file at `path` exports and whose name `wants` accepts: those of `.dynsym`, and if it is an executable also the global
/// and weak ones of `.symtab` (statically linked copies).
///
/// # Errors
/// The file cannot be read, is no ELF file for amd64, or is damaged.
pub fn exported_functions(path: &Path, mut wants: impl FnMut(&str) -> bool) -> Result<Vec<Function>, SymbolError> {
    let elf = Elf::open(path)?;
    let static_symbols = elf.identity()?.kind != Kind::SharedObject;
    elf.functions(static_symbols, |name, _| wants(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn libm() -> PathBuf {
        ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6", "/usr/lib/libm.so.6"]
            .iter()
            .map(PathBuf::from)
            .find(|path| path.exists())
            .expect("a C math library")
    }

    #[test]
    fn math_library_has_its_functions_and_its_name() {
        let elf = Elf::open(&libm()).unwrap();
        let identity = elf.identity().unwrap();
        assert_eq!(identity.kind, Kind::SharedObject);
        assert_eq!(identity.soname.as_deref(), Some("libm.so.6"));
        let functions = elf.functions(false, |name, _| ["sin", "pow", "fabs"].contains(&name)).unwrap();
        for name in ["sin", "pow", "fabs"] {
            let found: Vec<_> = functions.iter().filter(|f| f.name == name).collect();
            assert!(!found.is_empty(), "{name}");
            for function in found {
                let inside = |s: &ExecutableSegment| (s.address..s.address + s.file_size).contains(&function.address);
                assert!(identity.segments.iter().any(inside), "{function:?} lies outside the code");
            }
        }
    }

    #[test]
    fn executables_show_static_symbols() {
        let own = std::env::current_exe().unwrap();
        let elf = Elf::open(&own).unwrap();
        assert_eq!(elf.identity().unwrap().kind, Kind::DynamicExecutable);
        let functions = exported_functions(&own, |name| name == "main").unwrap();
        assert_eq!(functions.len(), 1);
    }

    /// Every truncation of an ELF file must give an error or a (smaller) result, never a panic or a huge allocation.
    #[test]
    fn truncated_files_are_tolerated() {
        let whole = std::fs::read(libm()).unwrap();
        let path = std::env::temp_dir().join(format!("derivgrind-truncated-{}", std::process::id()));
        let step = whole.len() / 61 + 1;
        for length in (0..200).step_by(7).chain((200..whole.len()).step_by(step)) {
            File::create(&path).unwrap().write_all(&whole[..length]).unwrap();
            // Section headers are at a file's very end.
            assert!(exported_functions(&path, |_| true).is_err(), "{length} bytes");
        }
        std::fs::remove_file(&path).unwrap();
    }

    /// So must every single damaged byte of its headers.
    #[test]
    fn damaged_files_are_tolerated() {
        let own = libm();
        let mut bytes = std::fs::read(own).unwrap();
        let sections = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize;
        let path = std::env::temp_dir().join(format!("derivgrind-damaged-{}", std::process::id()));
        for position in (0..0x200).step_by(3).chain((sections..bytes.len()).step_by(13)) {
            let original = bytes[position];
            for value in [0, 0x7f, 0xff] {
                bytes[position] = value;
                File::create(&path).unwrap().write_all(&bytes).unwrap();
                let _ = exported_functions(&path, |name| name.starts_with('e'));
            }
            bytes[position] = original;
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn other_files_are_refused_by_name() {
        let error = exported_functions(Path::new("/etc/passwd"), |_| true).unwrap_err();
        assert!(error.to_string().contains("/etc/passwd"), "{error}");
        let error = exported_functions(Path::new("/nonexistent/file"), |_| true).unwrap_err();
        assert!(matches!(error, SymbolError::Unreadable { .. }));
    }
}
