//! Cases, their verdicts, and the list of known failures.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde::Deserialize;

/// Why a case did not pass.
#[derive(Debug)]
pub enum Obstacle {
    /// The behaviour is wrong; the text says what was expected and what came.
    Failure(String),
    /// The case cannot be run on this machine; the text says what is missing.
    Skip(String),
}

/// Result of a case.
pub type Outcome = Result<(), Obstacle>;

impl From<anyhow::Error> for Obstacle {
    fn from(error: anyhow::Error) -> Self {
        Self::Failure(format!("{error:#}"))
    }
}

impl From<std::io::Error> for Obstacle {
    fn from(error: std::io::Error) -> Self {
        Self::Failure(error.to_string())
    }
}

/// Shorthand for a failure.
pub fn fail<T>(message: impl Into<String>) -> Result<T, Obstacle> {
    Err(Obstacle::Failure(message.into()))
}

/// Shorthand for a case that cannot be run here.
pub fn skip<T>(reason: impl Into<String>) -> Result<T, Obstacle> {
    Err(Obstacle::Skip(reason.into()))
}

/// A test suite under construction.
pub struct Suite {
    name: &'static str,
    trials: Vec<Trial>,
    known: KnownFailures,
    report: Arc<Report>,
}

impl Suite {
    /// An empty suite. Its name is the first part of the name of each case.
    pub fn new(name: &'static str) -> Self {
        Self { name, trials: Vec::new(), known: KnownFailures::load(), report: Arc::new(Report::open(name)) }
    }

    /// Adds a case. `name` follows the suite's name and a slash.
    pub fn case(&mut self, name: impl AsRef<str>, body: impl FnOnce() -> Outcome + Send + 'static) {
        let name = format!("{}/{}", self.name, name.as_ref());
        let known = self.known.reason(&name);
        let report = Arc::clone(&self.report);
        self.trials.push(Trial::ignorable_test(name.clone(), move || {
            let (verdict, reason, completion) = judge(body(), known);
            report.line(verdict, &name, &reason);
            completion
        }));
    }

    /// Runs the cases that the command line selects, with libtest's options.
    pub fn run(self) -> ExitCode {
        if let Some(error) = self.known.error {
            eprintln!("tests/known-failures.toml: {error}");
            return ExitCode::FAILURE;
        }
        libtest_mimic::run(&Arguments::from_args(), self.trials).exit_code()
    }
}

/// Combines what a case did with what is known about it.
fn judge(outcome: Outcome, known: Option<String>) -> (&'static str, String, Result<Completion, Failed>) {
    match (outcome, known) {
        (Ok(()), None) => ("passed", String::new(), Ok(Completion::Completed)),
        (Ok(()), Some(reason)) => {
            let message = format!("passes although tests/known-failures.toml lists it ({reason}): remove the entry");
            ("failed", message.clone(), Err(message.into()))
        }
        (Err(Obstacle::Skip(reason)), _) => ("skipped", reason.clone(), Ok(Completion::ignored_with(reason))),
        (Err(Obstacle::Failure(_)), Some(reason)) => {
            let shown = format!("known failure: {reason}");
            ("known", reason, Ok(Completion::ignored_with(shown)))
        }
        (Err(Obstacle::Failure(message)), None) => ("failed", message.clone(), Err(message.into())),
    }
}

/// Where verdicts are written for `cargo xtask test`: the file named by `DERIVGRIND_TEST_REPORT`.
struct Report {
    suite: &'static str,
    path: Option<PathBuf>,
    lock: Mutex<()>,
}

impl Report {
    fn open(suite: &'static str) -> Self {
        Self { suite, path: std::env::var_os("DERIVGRIND_TEST_REPORT").map(PathBuf::from), lock: Mutex::new(()) }
    }

    fn line(&self, verdict: &str, name: &str, reason: &str) {
        let Some(path) = &self.path else { return };
        let first = reason.lines().next().unwrap_or_default().replace('\t', " ");
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| writeln!(file, "{}\t{verdict}\t{name}\t{first}", self.suite));
        if let Err(error) = written {
            eprintln!("cannot write the report {}: {error}", path.display());
        }
    }
}

/// The contents of `tests/known-failures.toml`.
#[derive(Default)]
struct KnownFailures {
    reasons: BTreeMap<String, String>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownFile {
    #[serde(default)]
    failure: Vec<KnownEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownEntry {
    case: String,
    reason: String,
}

impl KnownFailures {
    fn load() -> Self {
        match std::fs::read_to_string(crate::root().join("tests/known-failures.toml")) {
            Ok(text) => Self::parse(&text),
            Err(error) => Self { error: Some(error.to_string()), ..Self::default() },
        }
    }

    fn parse(text: &str) -> Self {
        let file: KnownFile = match toml::from_str(text) {
            Ok(file) => file,
            Err(error) => {
                return Self { error: Some(error.to_string()), ..Self::default() };
            }
        };
        let mut known = Self::default();
        for KnownEntry { case, reason } in file.failure {
            if reason.trim().is_empty() {
                known.error = Some(format!("{case} has no reason"));
            }
            if known.reasons.insert(case.clone(), reason).is_some() {
                known.error = Some(format!("{case} is listed twice"));
            }
        }
        known
    }

    fn reason(&self, case: &str) -> Option<String> {
        let mut entries = self.reasons.iter();
        entries.find(|(pattern, _)| matches(pattern, case)).map(|(_, reason)| reason.clone())
    }
}

/// Whether a name matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    (0..=name.len()).filter(|&end| name.is_char_boundary(end)).any(|end| matches(rest, &name[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_failure_counts_as_such_until_it_passes() {
        let known = || Some("reason".to_owned());
        assert_eq!(judge(fail("x"), known()).0, "known");
        assert_eq!(judge(Ok(()), known()).0, "failed");
        assert_eq!(judge(skip("x"), known()).0, "skipped");
        assert_eq!(judge(fail("x"), None).0, "failed");
        assert_eq!(judge(Ok(()), None).0, "passed");
    }

    #[test]
    fn known_failures_need_a_reason_and_are_listed_once() {
        let entry = |reason: &str| format!("[[failure]]\ncase = \"a/b\"\nreason = \"{reason}\"\n");
        assert_eq!(KnownFailures::parse(&entry("r")).reason("a/b").as_deref(), Some("r"));
        assert!(KnownFailures::parse(&entry(" ")).error.is_some());
        assert!(KnownFailures::parse(&(entry("r") + &entry("r"))).error.is_some());
        assert!(KnownFailures::parse("[[failure]]\nname = \"a\"").error.is_some());
        assert!(KnownFailures::parse("").error.is_none());
    }

    #[test]
    fn a_known_failure_can_be_a_pattern() {
        assert!(matches("a/*/c", "a/b/c") && matches("*", "") && matches("a*c*", "abcb/c"));
        assert!(!matches("a/*/c", "a/c") && !matches("a*", "ba") && !matches("a", "ab"));
    }

    #[test]
    fn the_list_in_the_repository_is_well_formed() {
        assert_eq!(KnownFailures::load().error, None);
    }
}
