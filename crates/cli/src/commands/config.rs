//! `derivgrind config`: where our files are, for compilers, linkers and Python.

use std::path::{Path, PathBuf};

use crate::arguments::Config;
use crate::failure::{Exit, Failure};
use crate::fortran::{self, Architecture};
use crate::start::Outcome;

/// A part of derivgrind outside the commands.
struct Part {
    /// What it is, for a message.
    name: &'static str,
    /// Its directory, from the prefix that it is installed under (`PREFIX/bin` holds the commands).
    installed: &'static str,
    /// Its directory in a build tree: from the directory of the commands, or from the sources of this crate.
    built: Origin,
    /// A file in it, by which the directory is recognised.
    file: &'static str,
}

/// What a path in a build tree starts from.
enum Origin {
    Commands(&'static str),
    Sources(&'static str),
}

const HEADERS: Part = Part {
    name: "C and C++ headers",
    installed: "include",
    built: Origin::Sources("../client/include"),
    file: "derivgrind.h",
};
/// Where an installed copy has the Fortran library, from its prefix.
const INSTALLED_LIBRARIES: &str = "lib/derivgrind";
/// Where a build tree has it, from the commands.
const BUILT_LIBRARIES: &str = "lib";
const PYTHON: Part = Part {
    name: "Python modules",
    installed: "lib/derivgrind/python",
    built: Origin::Commands("python"),
    file: "derivgrind/__init__.py",
};

impl Part {
    /// The part's directory, of the installation that the commands in `commands` belong to.
    fn directory(&self, commands: &Path) -> Result<PathBuf, Failure> {
        let installed = commands.parent().map(|prefix| prefix.join(self.installed));
        let built = match self.built {
            Origin::Commands(path) => commands.join(path),
            Origin::Sources(path) => Path::new(env!("CARGO_MANIFEST_DIR")).join(path),
        };
        let candidates: Vec<PathBuf> = installed.into_iter().chain([built]).collect();
        candidates
            .iter()
            .find_map(|candidate| candidate.join(self.file).is_file().then(|| candidate.canonicalize().ok()).flatten())
            .ok_or_else(|| {
                let places: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
                let message = format!(
                    "this installation has no {}: there is no {} in {}; in a build tree, `cargo xtask build` makes it",
                    self.name,
                    self.file,
                    places.join(" or ")
                );
                Failure::new(Exit::Unavailable, message)
            })
    }
}

/// Prints what was asked for, on a line.
pub fn config(what: &Config) -> Outcome {
    let commands = commands()?;
    let line = if what.cflags {
        format!("-I{}", headers()?.display())
    } else if what.fflags64 {
        flags(Architecture::Amd64, &commands)?
    } else if what.fflags32 {
        flags(Architecture::X86, &commands)?
    } else if what.incdir {
        headers()?.display().to_string()
    } else if what.libdir {
        libraries(Architecture::Amd64, &commands)?.display().to_string()
    } else if what.pythondir {
        python(&commands)?.display().to_string()
    } else {
        commands.display().to_string()
    };
    println!("{line}");
    Ok(0)
}

/// Directory of the Python modules. In a wheel the commands lie inside the package, two levels below.
fn python(commands: &Path) -> Result<PathBuf, Failure> {
    match commands.ancestors().nth(2).filter(|directory| directory.join(PYTHON.file).is_file()) {
        Some(directory) => Ok(directory.to_owned()),
        None => PYTHON.directory(commands),
    }
}

/// Directory of the headers.
pub fn headers() -> Result<PathBuf, Failure> {
    HEADERS.directory(&commands()?)
}

/// Directory of the command that runs.
fn commands() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .and_then(|path| path.canonicalize())
        .ok()
        .and_then(|path| path.parent().map(Path::to_owned))
        .ok_or_else(|| Failure::new(Exit::InputOutput, "cannot find the directory of this command; is /proc mounted?"))
}

/// Compiler and linker options for Fortran.
fn flags(architecture: Architecture, commands: &Path) -> Result<String, Failure> {
    let directory = libraries(architecture, commands)?;
    let directory = directory.display();
    Ok(format!("-I{directory} -L{directory} -l{}", architecture.library()))
}

/// Directory of the Fortran library. In a build tree it belongs to that.
fn libraries(architecture: Architecture, commands: &Path) -> Result<PathBuf, Failure> {
    let installed = commands.parent().map(|prefix| prefix.join(INSTALLED_LIBRARIES));
    let is_build_tree = commands.join("deps").is_dir();
    let built = is_build_tree.then(|| commands.join(BUILT_LIBRARIES));
    fortran::directory(architecture, installed.as_slice(), built)
}
