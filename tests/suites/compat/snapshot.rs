//! What a program leaves in its directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Result;

/// Files below a directory by relative path.
pub struct Snapshot(BTreeMap<PathBuf, Entry>);

#[derive(PartialEq)]
enum Entry {
    Directory {
        mode: u32,
    },
    Link(PathBuf),
    File {
        mode: u32,
        content: Vec<u8>,
    },
    /// A socket, a pipe, a device.
    Special {
        mode: u32,
    },
}

impl Snapshot {
    /// Reads everything below `directory`.
    pub fn of(directory: &Path) -> Result<Self> {
        let mut entries = BTreeMap::new();
        visit(directory, &mut |path| {
            let data = fs::symlink_metadata(path)?;
            let mode = data.permissions().mode();
            let entry = if data.is_dir() {
                Entry::Directory { mode }
            } else if data.is_symlink() {
                Entry::Link(fs::read_link(path)?)
            } else if !data.is_file() {
                Entry::Special { mode }
            } else {
                Entry::File { mode, content: fs::read(path)? }
            };
            entries.insert(path.strip_prefix(directory)?.to_owned(), entry);
            Ok(())
        })?;
        Ok(Self(entries))
    }

    /// The same without these files.
    #[must_use]
    pub fn without(mut self, paths: &[&str]) -> Self {
        self.0.retain(|path, _| !paths.iter().any(|ignored| path == Path::new(ignored)));
        self
    }

    /// What differs from the files of the native run, if anything.
    pub fn same_as(&self, native: &Self) -> Option<String> {
        for (path, entry) in &native.0 {
            match self.0.get(path) {
                None => return Some(format!("{} was written natively, and not under derivgrind", path.display())),
                Some(other) if other != entry => {
                    return Some(format!("{} differs from what was written natively", path.display()));
                }
                Some(_) => {}
            }
        }
        let more = self.0.keys().find(|path| !native.0.contains_key(*path))?;
        Some(format!("{} was written under derivgrind, and not natively", more.display()))
    }
}

/// Calls `action` for everything below `directory`, contents of a directory first.
fn visit(directory: &Path, action: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if fs::symlink_metadata(&path)?.is_dir() {
            visit(&path, action)?;
        }
        action(&path)?;
    }
    Ok(())
}

/// Gives `directory` and everything below it a fixed modification time, which some programs print.
pub fn set_times(directory: &Path) -> Result<()> {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let mut set = |path: &Path| -> Result<()> {
        let kind = fs::symlink_metadata(path)?;
        if kind.is_file() || kind.is_dir() {
            File::open(path)?.set_modified(time)?;
        }
        Ok(())
    };
    visit(directory, &mut set)?;
    set(directory)
}
