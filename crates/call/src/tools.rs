//! Where the commands are that a session starts.

use std::path::{Path, PathBuf};

/// Paths of the commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    /// `derivgrind`
    pub derivgrind: PathBuf,
    /// `derivgrind-worker`
    pub worker: PathBuf,
}

impl Tools {
    /// Those in a directory, if they are there.
    pub fn in_directory(directory: &Path) -> Option<Tools> {
        let tools = Tools { derivgrind: directory.join("derivgrind"), worker: directory.join("derivgrind-worker") };
        (tools.derivgrind.is_file() && tools.worker.is_file()).then_some(tools)
    }

    /// Those in the first directory that has them: of `candidates`, then of `PATH`.
    ///
    /// # Errors
    /// A message with the places that were searched.
    pub fn find(candidates: &[PathBuf]) -> Result<Tools, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
        let directories: Vec<PathBuf> = candidates.iter().cloned().chain(path).collect();
        directories.iter().find_map(|directory| Tools::in_directory(directory)).ok_or_else(|| {
            let places: Vec<String> = candidates.iter().map(|place| place.display().to_string()).collect();
            format!("cannot find the commands derivgrind and derivgrind-worker in {} or in PATH", places.join(", "))
        })
    }
}
