//! Counts what passed, failed and was left out, and prints the end of a test run.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should.
    Passed,
    /// Not as it should.
    Failed,
    /// Failed as `tests/known-failures.toml` says.
    Known,
    /// Not run here, for a stated reason.
    Skipped,
}

/// A case that did not simply pass.
struct Remark {
    verdict: Verdict,
    name: String,
    reason: String,
}

/// The results of a test run.
#[derive(Default)]
pub struct Summary {
    counts: BTreeMap<String, [usize; 4]>,
    remarks: Vec<Remark>,
}

impl Summary {
    /// Counts `number` cases of `group`.
    pub fn count(&mut self, group: &str, verdict: Verdict, number: usize) {
        self.counts.entry(group.to_owned()).or_default()[verdict as usize] += number;
    }

    /// Counts one case of `group`; one that did not pass is listed at the end.
    pub fn case(&mut self, group: &str, verdict: Verdict, name: &str, reason: &str) {
        self.count(group, verdict, 1);
        if verdict != Verdict::Passed {
            self.remarks.push(Remark { verdict, name: format!("{group}: {name}"), reason: reason.to_owned() });
        }
    }

    /// Adds what libtest printed: `test NAME ... FAILED` and `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
    pub fn libtest(&mut self, group: &str, lines: &[String]) {
        for line in lines {
            if let Some(name) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED")) {
                self.case(group, Verdict::Failed, name, "see its output above");
            } else if let Some((name, reason)) =
                line.strip_prefix("test ").and_then(|line| line.split_once(" ... ignored"))
            {
                self.case(group, Verdict::Skipped, name, reason.trim_start_matches([',', ' ']));
            } else if line.starts_with("test ") && line.ends_with(" ... ok") {
                self.count(group, Verdict::Passed, 1);
            }
        }
    }

    /// Adds the report that the suites of `tests/` append to: a line `suite TAB verdict TAB case TAB reason` for each case.
    pub fn report(&mut self, path: &Path) -> Result<()> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read the report {}", path.display()));
            }
        };
        for line in text.lines() {
            let mut fields = line.splitn(4, '\t');
            let (Some(suite), Some(verdict), Some(name)) = (fields.next(), fields.next(), fields.next()) else {
                anyhow::bail!("the report {} has a broken line: {line}", path.display());
            };
            let verdict = match verdict {
                "passed" => Verdict::Passed,
                "failed" => Verdict::Failed,
                "known" => Verdict::Known,
                "skipped" => Verdict::Skipped,
                other => anyhow::bail!("the report {} has an unknown verdict: {other}", path.display()),
            };
            self.case(suite, verdict, name, fields.next().unwrap_or_default());
        }
        Ok(())
    }

    /// How many cases have failed so far.
    pub fn failures(&self) -> usize {
        self.total(Verdict::Failed)
    }

    fn total(&self, verdict: Verdict) -> usize {
        self.counts.values().map(|counts| counts[verdict as usize]).sum()
    }

    /// Prints the table, the cases that did not pass, and the closing line. Returns whether nothing failed.
    pub fn print(&self, elapsed: std::time::Duration) -> bool {
        println!("\n{:<24}{:>10}{:>10}{:>16}{:>10}", "", "passed", "failed", "known failures", "skipped");
        for (group, counts) in &self.counts {
            println!("{group:<24}{:>10}{:>10}{:>16}{:>10}", counts[0], counts[1], counts[2], counts[3]);
        }
        for (verdict, title) in [
            (Verdict::Skipped, "Skipped"),
            (Verdict::Known, "Known failures (tests/known-failures.toml)"),
            (Verdict::Failed, "FAILED"),
        ] {
            let remarks: Vec<_> = self.remarks.iter().filter(|remark| remark.verdict == verdict).collect();
            if !remarks.is_empty() {
                println!("\n{title}:");
            }
            for remark in remarks {
                println!("  {} ({})", remark.name, remark.reason.lines().next().unwrap_or_default());
            }
        }
        let known = self.total(Verdict::Known);
        println!("\n{known} known failures, counted as skipped below. Whole run: {:.0} s.", elapsed.as_secs_f64());
        println!(
            "{} passed, {} failed, {} skipped",
            self.total(Verdict::Passed),
            self.total(Verdict::Failed),
            self.total(Verdict::Skipped) + known
        );
        self.failures() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtest_lines_are_counted_by_outcome() {
        let mut summary = Summary::default();
        let lines = [
            "test a ... ok",
            "test b ... FAILED",
            "test c ... ignored, no tmpfs",
            "test result: FAILED. 1 passed; 1 failed",
            "testing ... ok",
        ];
        summary.libtest("unit", &lines.map(str::to_owned));
        assert_eq!(summary.counts["unit"], [1, 1, 0, 1]);
        assert_eq!(summary.remarks[1].reason, "no tmpfs");
        assert!(!summary.print(std::time::Duration::ZERO));
    }

    #[test]
    fn report_of_a_suite_is_added() {
        let mut summary = Summary::default();
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("report");
        std::fs::write(&path, "s\tpassed\tx\t\ns\tknown\ty\twhy\ns\tskipped\tz\tno clang\n").expect("write the report");
        summary.report(&path).expect("well-formed report");
        assert_eq!(summary.counts["s"], [1, 0, 1, 1]);
        assert!(summary.print(std::time::Duration::ZERO));
        std::fs::write(&path, "s\tunheard-of\tx\t\n").expect("write the report");
        assert!(summary.report(&path).is_err());
    }
}
