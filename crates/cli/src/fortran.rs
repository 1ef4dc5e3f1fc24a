//! The Fortran module and library. Module files are of one compiler version, so they are built for the compiler that is there, when they are first asked
//! for, and kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use derivgrind_client::{FORTRAN_MODULE, FORTRAN_REQUESTS, HEADER};

use crate::failure::{Exit, Failure};

/// Programs for which a library is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// 64-bit.
    Amd64,
    /// 32-bit.
    X86,
}

impl Architecture {
    /// The part of the library's name that tells it.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::Amd64 => "amd64",
            Architecture::X86 => "x86",
        }
    }

    /// The compiler's option for it.
    fn option(self) -> &'static str {
        match self {
            Architecture::Amd64 => "-m64",
            Architecture::X86 => "-m32",
        }
    }

    /// Name of the library as the linker takes it.
    pub fn library(self) -> String {
        format!("derivgrind_clientrequests-{}_linux", self.name())
    }

    /// Where the library lies below the directory of libraries.
    fn place(self, directory: &Path) -> PathBuf {
        match self {
            Architecture::Amd64 => directory.to_owned(),
            Architecture::X86 => directory.join("x86"),
        }
    }
}

/// Beside the library: what it was built from, and by which compiler.
const ORIGIN: &str = "derivgrind_clientrequests.origin";

/// Directory of the module and the library for the gfortran that is installed. They are built if `existing` does not have them: in `build`, or in the
/// user's cache if that is `None`.
///
/// # Errors
/// If there is no gfortran, or it cannot build for the architecture.
pub fn directory(architecture: Architecture, existing: &[PathBuf], build: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let origin = origin()?;
    let cache = cache();
    let known = existing.iter().chain(&build).chain(&cache).map(|directory| architecture.place(directory));
    for directory in known {
        let built_from = fs::read_to_string(directory.join(ORIGIN)).unwrap_or_default();
        if built_from == origin && directory.join(format!("lib{}.a", architecture.library())).is_file() {
            return directory.canonicalize().map_err(|error| not_written(&directory, &error));
        }
    }
    let target = build.or(cache).ok_or_else(|| {
        Failure::new(Exit::CannotCreate, "no directory for the Fortran library: set HOME or XDG_CACHE_HOME")
    })?;
    let target = architecture.place(&target);
    make(architecture, &target, &origin)?;
    target.canonicalize().map_err(|error| not_written(&target, &error))
}

/// `$XDG_CACHE_HOME/derivgrind`, `~/.cache/derivgrind` by default.
fn cache() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    variable("XDG_CACHE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("derivgrind"))
}

/// The compiler's version and all sources.
fn origin() -> Result<String, Failure> {
    let output = Command::new("gfortran").arg("-dumpfullversion").output().map_err(|error| {
        Failure::new(
            Exit::Unavailable,
            format!(
                "the Fortran module is built for your gfortran, which cannot be started ({error}): install it (Debian: apt install gfortran)"
            ),
        )
    })?;
    let version = String::from_utf8_lossy(&output.stdout);
    Ok(format!("gfortran {}\n{FORTRAN_MODULE}{FORTRAN_REQUESTS}{HEADER}", version.trim()))
}

/// Builds in a directory beside the target and moves the files, so that nobody finds them half written.
fn make(architecture: Architecture, target: &Path, origin: &str) -> Result<(), Failure> {
    fs::create_dir_all(target).map_err(|error| not_written(target, &error))?;
    let scratch =
        tempfile::Builder::new().prefix(".build-").tempdir_in(target).map_err(|error| not_written(target, &error))?;
    let write = |name: &str, text: &str| {
        fs::write(scratch.path().join(name), text).map_err(|error| not_written(scratch.path(), &error))
    };
    write("derivgrind_clientrequests.f90", FORTRAN_MODULE)?;
    write("requests.c", FORTRAN_REQUESTS)?;
    write("derivgrind.h", HEADER)?;
    write(ORIGIN, origin)?;
    let library = format!("lib{}.a", architecture.library());
    let compile = ["-O2", "-fPIC", architecture.option(), "-c"];
    run(scratch.path(), architecture, "gfortran", &[&compile[..], &["derivgrind_clientrequests.f90"]].concat())?;
    run(scratch.path(), architecture, "gcc", &[&compile[..], &["-std=c11", "requests.c"]].concat())?;
    run(scratch.path(), architecture, "ar", &["rcs", &library, "requests.o", "derivgrind_clientrequests.o"])?;
    // What tells that all is there comes last.
    for name in ["derivgrind_clientrequests.mod", &library, ORIGIN] {
        fs::rename(scratch.path().join(name), target.join(name)).map_err(|error| not_written(target, &error))?;
    }
    Ok(())
}

fn run(directory: &Path, architecture: Architecture, command: &str, arguments: &[&str]) -> Result<(), Failure> {
    let output = Command::new(command).args(arguments).current_dir(directory).output();
    let said = match output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    let hint = match architecture {
        Architecture::Amd64 => "",
        Architecture::X86 => {
            "; 32-bit programs need the compiler's 32-bit libraries (Debian: apt install gfortran-multilib gcc-multilib)"
        }
    };
    Err(Failure::new(
        Exit::Unavailable,
        format!("cannot build the Fortran library: {command} {}: {said}{hint}", arguments.join(" ")),
    ))
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::CannotCreate, format!("cannot write the Fortran library to {}: {error}", path.display()))
}
