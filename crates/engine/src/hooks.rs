//! Function entries that the tool wants to hear of, by application address.
//!
//! # Whose functions are meant
//! A tool asks for names such as `log` and `exp`, and means the C library's. A user's function of that name must not be taken for it:
//! wrong derivatives without a message would follow. So a name counts only
//! - in a shared object that is part of a C, math or compression library by its `DT_SONAME` (its file name if it has none): see [`LIBRARIES`];
//! - in any shared object and executable, if the tool says that it is [unmistakable](WantedFunction::unmistakable), as copies of libraries are linked into others;
//! - in an executable, other names for statically linked copies, under stricter rules since all names lie in one pot there. glibc defines each of
//!   its functions as a weak alias of a reserved name (`log` of `__log`, `scalbn` of `__ldexp`), with a reserved name, or as IFUNC; that is what is
//!   asked for. The variants for vectors that its vector library builds from such an IFUNC count as well. Only
//!   a static executable that was not linked with glibc's start files (musl has no such second names) is taken at its word.
//!
//! Calls inside a library that do not go through the exported entry (glibc's `sincos` using the code of `sin`) are not seen, nor are copies that
//! the compiler inlined.
//!
//! # IFUNC
//! The address of an IFUNC symbol is a resolver, run by the application's loader; it returns the implementation that suits the processor.
//! The dispatcher runs a resolver on [`Hook::IfuncResolver`] and tells the outcome to [`resolved`].

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use crate::symbols::{Elf, ExecutableSegment, Function, Identity, Kind, SymbolError};
use crate::{FunctionId, WantedFunction};

/// Beginnings of the names of shared objects whose exported functions are trusted to be those that a tool means. The C library's: glibc and musl (whose
/// loader is the C library), the vector library, Intel's, AMD's and Julia's math libraries, gcc's for Fortran; and libraries that compress data.
pub const LIBRARIES: [&str; 18] = [
    "libm.",
    "libm-",
    "libc.",
    "libc-",
    "ld-musl-",
    "libmvec.",
    "libimf.",
    "libalm.",
    "libopenlibm.",
    "libgfortran.",
    "libz.",
    "liblz4.",
    "libzstd.",
    "liblzma.",
    "libbz2.",
    "libbrotlienc.",
    "libsnappy.",
    "liblzo2.",
];

const PAGE: u64 = 4096;

/// What is at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// First instruction of the function.
    Function(FunctionId),
    /// First instruction of the resolver that returns the function's address.
    IfuncResolver(FunctionId),
}

/// Hooks by application address.
struct Registry {
    hooks: BTreeMap<u64, Hook>,
}

impl Registry {
    fn new() -> Self {
        Self { hooks: BTreeMap::new() }
    }

    /// Adds the functions that lie inside the mapping. Of several names of an address the first stays.
    fn add(&mut self, functions: &[(Function, FunctionId)], load_bias: u64, mapping: std::ops::Range<u64>) {
        for (function, id) in functions {
            let address = function.address.wrapping_add(load_bias);
            if !mapping.contains(&address) {
                continue;
            }
            let hook = if function.is_ifunc { Hook::IfuncResolver(*id) } else { Hook::Function(*id) };
            self.hooks.entry(address).or_insert(hook);
        }
    }

    fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let gone: Vec<u64> = self.hooks.range(start..end).map(|(&address, _)| address).collect();
        for address in gone {
            self.hooks.remove(&address);
        }
    }

    /// Whether the address was not known as an entry before.
    fn resolved(&mut self, function: FunctionId, address: u64) -> bool {
        if self.hooks.contains_key(&address) {
            return false;
        }
        self.hooks.insert(address, Hook::Function(function));
        true
    }
}

static REGISTRY: RwLock<Option<Registry>> = RwLock::new(None);

fn with_registry<T>(change: impl FnOnce(&mut Registry) -> T) -> T {
    // A panic elsewhere leaves the map usable: each change is a single insertion or removal.
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    change(registry.get_or_insert_with(Registry::new))
}

/// To be held across `fork`, so that the child does not inherit the lock in the hands of a thread that does not exist there.
pub(crate) fn lock_for_fork() -> impl Sized {
    REGISTRY.write().unwrap_or_else(PoisonError::into_inner)
}

/// The application has mapped `length` bytes of the file at `path`, from `file_offset` on, executable at `mapped_at`: remembers the entries of
/// the functions that the tool wants.
///
/// A file that is not ELF (a JIT compiler's), that cannot be read or is damaged has no functions; that is no error.
pub fn object_mapped(path: &Path, mapped_at: u64, file_offset: u64, length: u64) {
    let tool = crate::tool();
    let Ok((functions, identity)) = wanted_functions(path, |name| tool.wanted_function(name)) else {
        return;
    };
    if functions.is_empty() {
        return;
    }
    if let Some(bias) = load_bias(&identity.segments, mapped_at, file_offset) {
        with_registry(|registry| registry.add(&functions, bias, mapped_at..mapped_at.saturating_add(length)));
    }
}

/// The application addresses `start..end` have been unmapped or are about to be mapped anew: forgets what was there.
pub fn unmapped(start: u64, end: u64) {
    with_registry(|registry| registry.remove(start, end));
}

/// What the tool has to hear of when the instruction at `address` is reached.
pub fn hook_at(address: u64) -> Option<Hook> {
    let registry = REGISTRY.read().unwrap_or_else(PoisonError::into_inner);
    registry.as_ref()?.hooks.get(&address).copied()
}

/// The resolver of an IFUNC has returned `implementation`: entries there are reported from now on, also if the code has been translated already.
pub fn resolved(function: FunctionId, implementation: u64) {
    if with_registry(|registry| registry.resolved(function, implementation)) {
        crate::cache::lock().invalidate(implementation, implementation + 1);
    }
}

/// The functions of the file that `wanted` knows and whose name can be trusted.
fn wanted_functions(
    path: &Path,
    wanted: impl Fn(&str) -> Option<WantedFunction>,
) -> Result<(Vec<(Function, FunctionId)>, Identity), SymbolError> {
    let elf = Elf::open(path)?;
    let identity = elf.identity()?;
    let wants = |name: &str, _| wanted(name).is_some();
    let is_unmistakable = |name: &str| wanted(name).is_some_and(|function| function.unmistakable);
    let functions = match identity.kind {
        Kind::SharedObject if is_trusted_library(path, &identity) => elf.functions(false, wants)?,
        Kind::SharedObject => elf.functions(false, |name, _| is_unmistakable(name))?,
        Kind::StaticExecutable if !identity.glibc_start_files => elf.functions(true, wants)?,
        Kind::StaticExecutable | Kind::DynamicExecutable => {
            let functions = elf.functions(true, wants)?;
            let (mut functions, candidates): (Vec<_>, Vec<_>) =
                functions.into_iter().partition(|function| is_unmistakable(&function.name));
            let addresses: HashSet<u64> = candidates.iter().map(|function| function.address).collect();
            let reserved = elf.functions(true, |name, at| name.starts_with("__") && addresses.contains(&at))?;
            functions.extend(from_glibc(candidates, &reserved));
            functions
        }
    };
    let with_id = |function: Function| wanted(&function.name).map(|WantedFunction { id, .. }| (function, id));
    Ok((functions.into_iter().filter_map(with_id).collect(), identity))
}

fn is_trusted_library(path: &Path, identity: &Identity) -> bool {
    let file_name = path.file_name().and_then(|name| name.to_str());
    identity
        .soname
        .as_deref()
        .or(file_name)
        .is_some_and(|name| LIBRARIES.iter().any(|library| name.starts_with(library)))
}

/// Those of an executable's functions that are glibc's. `reserved` are the functions with a name that is reserved to it.
fn from_glibc(mut candidates: Vec<Function>, reserved: &[Function]) -> Vec<Function> {
    let reserved: HashSet<u64> = reserved.iter().map(|function| function.address).collect();
    let ifuncs: HashSet<String> =
        candidates.iter().filter(|f| f.is_ifunc).filter_map(|f| scalar_name(&f.name)).map(str::to_owned).collect();
    candidates.retain(|function| match scalar_name(&function.name) {
        Some(name) => function.is_ifunc || ifuncs.contains(name),
        None => {
            let weak_alias = function.is_weak && reserved.contains(&function.address);
            function.is_ifunc || weak_alias || function.name.starts_with("__")
        }
    });
    candidates
}

/// The `sin` of a vector variant's name `_ZGVcN4v_sin`.
fn scalar_name(vector: &str) -> Option<&str> {
    vector.strip_prefix("_ZGV")?.split_once('_').map(|(_, name)| name)
}

/// The distance between the addresses in the file and those in memory.
///
/// Of the executable segments the one counts whose pages hold the mapping's first byte. (Segments start in the middle of a page when
/// the linker packs them densely; the loader then maps from the page's start.)
fn load_bias(segments: &[ExecutableSegment], mapped_at: u64, file_offset: u64) -> Option<u64> {
    segments
        .iter()
        .find(|segment| {
            let first_page = segment.file_offset & !(PAGE - 1);
            (first_page..segment.file_offset.saturating_add(segment.file_size)).contains(&file_offset)
        })
        .map(|segment| {
            mapped_at.wrapping_sub(segment.address.wrapping_add(file_offset).wrapping_sub(segment.file_offset))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, address: u64, is_ifunc: bool) -> Function {
        Function { name: name.into(), address, size: 16, is_ifunc, is_weak: true }
    }

    /// The C library's functions, and one whose name says whose it is.
    fn wants(name: &str) -> Option<WantedFunction> {
        let id = FunctionId(["log", "log1p", "exp", "scalbn", "sin", "LZ4_compress"].iter().position(|&n| n == name)?);
        Some(WantedFunction { id, unmistakable: name == "LZ4_compress" })
    }

    #[test]
    fn load_bias_of_dense_and_of_page_aligned_segments() {
        let aligned = ExecutableSegment { file_offset: 0x3000, file_size: 0x2345, address: 0x3000 };
        assert_eq!(load_bias(&[aligned], 0x7000_3000, 0x3000), Some(0x7000_0000));
        // A loader may map a segment in pieces.
        assert_eq!(load_bias(&[aligned], 0x7000_4000, 0x4000), Some(0x7000_0000));
        // lld: the segment continues at the file offset where the last one ended, at the next page's address.
        let dense = ExecutableSegment { file_offset: 0x1678, file_size: 0x4000, address: 0x2678 };
        assert_eq!(load_bias(&[dense], 0x7000_2000, 0x1000), Some(0x7000_0000));
        assert_eq!(load_bias(&[dense], 0x7000_2000, 0x8000), None);
        // A non-PIE executable stands where it wants to be.
        let fixed = ExecutableSegment { file_offset: 0x1000, file_size: 0x1000, address: 0x40_1000 };
        assert_eq!(load_bias(&[fixed], 0x40_1000, 0x1000), Some(0));
    }

    #[test]
    fn only_functions_inside_the_mapping_are_hooked_until_it_goes() {
        let mut registry = Registry::new();
        let [sin, log, exp] = [0, 1, 2].map(FunctionId);
        let functions = [
            (function("sin", 0x1100, true), sin),
            (function("log", 0x1200, false), log),
            (function("exp", 0x9000, false), exp),
        ];
        registry.add(&functions, 0x10000, 0x11000..0x12000);
        assert_eq!(registry.hooks.get(&0x11100), Some(&Hook::IfuncResolver(sin)));
        assert_eq!(registry.hooks.get(&0x11200), Some(&Hook::Function(log)));
        assert_eq!(registry.hooks.len(), 2);
        assert!(registry.resolved(sin, 0x11800));
        assert!(!registry.resolved(sin, 0x11800), "known already: nothing to retranslate");
        assert_eq!(registry.hooks.get(&0x11800), Some(&Hook::Function(sin)));
        registry.remove(0x11150, 0x11801);
        assert_eq!(registry.hooks.keys().copied().collect::<Vec<_>>(), [0x11100]);
        registry.remove(5, 5);
        registry.remove(6, 5);
    }

    /// The point of it all: a user's `log` is no logarithm.
    #[test]
    fn in_executables_only_aliased_functions_are_trusted() {
        // The user's `log` writes a line to a file; whose the weak `pow` is, nobody knows.
        let users = Function { is_weak: false, ..function("log", 0x1000, false) };
        let candidates =
            vec![users, function("exp", 0x2000, false), function("sin", 0x3000, true), function("pow", 0x5000, false)];
        let reserved =
            [function("__exp1", 0x2000, false), function("__icf", 0x1000, false), function("__log", 0x4000, false)];
        let names: Vec<_> = from_glibc(candidates, &reserved).into_iter().map(|f| f.name).collect();
        assert_eq!(names, ["exp", "sin"]);
    }

    /// The AVX variant is built from the SSE one, whose instructions depend on the processor.
    #[test]
    fn vector_variants_count_with_those_of_the_library() {
        let candidates = vec![
            function("_ZGVbN2v_sin", 0x1000, true),
            function("_ZGVcN4v_sin", 0x2000, false),
            function("_ZGVcN4v_log", 0x3000, false),
        ];
        let names: Vec<_> = from_glibc(candidates, &[]).into_iter().map(|f| f.name).collect();
        assert_eq!(names, ["_ZGVbN2v_sin", "_ZGVcN4v_sin"]);
    }

    #[test]
    fn libraries_are_judged_by_soname_before_file_name() {
        let identity = |soname: Option<&str>| Identity {
            kind: Kind::SharedObject,
            soname: soname.map(Into::into),
            glibc_start_files: false,
            segments: Vec::new(),
        };
        let file = Path::new("/opt/lib/libm.so.6");
        assert!(is_trusted_library(file, &identity(None)));
        assert!(is_trusted_library(Path::new("/tmp/x"), &identity(Some("libm.so.6"))));
        assert!(is_trusted_library(Path::new("/lib/ld-musl-x86_64.so.1"), &identity(Some("libc.musl-x86_64.so.1"))));
        assert!(!is_trusted_library(file, &identity(Some("libmylogger.so"))));
        assert!(!is_trusted_library(Path::new("/opt/lib/libmath_tools.so"), &identity(None)));
    }

    /// Programs of both kinds made by the system's compiler.
    #[test]
    fn user_functions_with_reserved_names_are_not_hooked_in_real_programs() {
        let directory = std::env::temp_dir().join(format!("derivgrind-hooks-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let source = directory.join("program.c");
        std::fs::write(
            &source,
            "#include <stdio.h>\n double exp(double); double sin(double); double scalbn(double, int); double log1p(double); void log(const char *s) { puts(s); }\n\
             int LZ4_compress(int n) { return n; }\n\
             int main(int c, char **v) { log(v[0]); c = LZ4_compress(c); printf(\"%g %g %g\\n\", exp(c), sin(c), scalbn(log1p(c), c)); return 0; }\n",
        )
        .unwrap();
        const EXPECTED: &[&str] = &["LZ4_compress", "exp", "log1p", "scalbn", "sin"];
        for (option, expected) in [("-static", EXPECTED), ("-static-pie", EXPECTED), ("-pie", &EXPECTED[..1])] {
            let program = directory.join(format!("program{option}"));
            let status = std::process::Command::new("cc")
                .args([option, "-fno-builtin", "-w", "-o"])
                .args([&program, &source])
                .arg("-lm")
                .status()
                .unwrap();
            assert!(status.success(), "cc {option}");
            let (functions, _) = wanted_functions(&program, wants).unwrap();
            let mut names: Vec<_> = functions.iter().map(|(f, _)| f.name.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, expected, "{option}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
