//! Programs that the program executes, with `--trace-children`: our own command line for them, and where their recordings go.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::arguments::Debugging;

/// What the directory of an executed program's recording begins with; its process id follows.
const PREFIX: &str = "exec.";

/// Our command line for executed programs: `own` command and options, and those that all commands have.
pub fn options(own: Vec<OsString>, debugging: &Debugging, quiet: bool) -> Vec<OsString> {
    let Debugging { trace, bisect, lockstep, no_avx512, code_cache } = debugging;
    let mut words = own;
    words.push("--trace-children".into());
    for (option, given) in [("--quiet", quiet), ("--lockstep", *lockstep), ("--no-avx512", *no_avx512)] {
        words.extend(given.then(|| option.into()));
    }
    let numbers = [("--bisect", *bisect), ("--code-cache", code_cache.map(|bytes| bytes as u64))];
    for (option, number) in numbers {
        words.extend(number.map(|number| format!("{option}={number}").into()));
    }
    if let Some(trace) = trace {
        words.extend(["--trace".into(), absolute(trace).into()]);
    }
    words
}

/// A path that stays right when the program changes its working directory.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Where the calling process, which has been executed by a program that is recorded into `directory`, records. A process that executes
/// several programs one after the other gets a number more for each.
pub fn recording_of_executed(directory: &Path) -> PathBuf {
    let first = directory.join(format!("{PREFIX}{}", std::process::id()));
    let further = (2..).map(|number| directory.join(format!("{PREFIX}{}.{number}", std::process::id())));
    std::iter::once(first).chain(further).find(|path| !path.exists()).expect("there are endlessly many")
}

/// Removes the recordings that programs executed by an earlier recorded program have left. What else is in their directories stays.
pub fn remove_recordings(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let starts = |entry: &fs::DirEntry, text: &str| entry.file_name().as_encoded_bytes().starts_with(text.as_bytes());
    for entry in entries.flatten().filter(|entry| starts(entry, PREFIX)) {
        let files = fs::read_dir(entry.path()).into_iter().flatten().flatten();
        for file in files.filter(|file| starts(file, "dg-")) {
            let _ = fs::remove_file(file.path());
        }
        // It is not empty if others have put something there.
        let _ = fs::remove_dir(entry.path());
    }
}

/// The trace of an executed program goes to a file of its own.
pub fn trace_of_executed(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    name.into()
}
