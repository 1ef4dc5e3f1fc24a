//! git on a small repository.

use crate::Case;

use super::shell;

/// Fixed names and dates, so that commits have the same hashes every time.
pub const AUTHOR: &[(&str, &str)] = &[
    ("GIT_AUTHOR_NAME", "A"),
    ("GIT_AUTHOR_EMAIL", "a@example.org"),
    ("GIT_AUTHOR_DATE", "2001-02-03T04:05:06Z"),
    ("GIT_COMMITTER_NAME", "C"),
    ("GIT_COMMITTER_EMAIL", "c@example.org"),
    ("GIT_COMMITTER_DATE", "2001-02-03T04:05:06Z"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
];

/// Three commits on two branches and a change that is not committed.
const REPOSITORY: &str = "git init -q -b main .
seq 1 200 > numbers; printf 'a\\nb\\n' > text; git add .; git commit -q -m first
seq 1 3 300 > numbers; git commit -q -a -m 'second: every third'
git checkout -q -b other HEAD~1; mkdir d; echo x > d/x; git add .; git commit -q -m third; git checkout -q main
echo more >> text; echo new > untracked";

fn git(name: &str, arguments: &[&str]) -> Case {
    Case::new(format!("git-{name}"), &[&["git"], arguments].concat())
        .with_environment(AUTHOR)
        // It holds times and numbers of files.
        .ignoring(".git/index")
        .prepared(shell(REPOSITORY))
}

pub fn cases() -> Vec<Case> {
    vec![
        git("init", &["init", "-q", "-b", "main", "elsewhere"]),
        git("add", &["add", "untracked", "text"]),
        git("commit", &["commit", "-q", "-a", "-m", "message"]),
        git("log", &["log", "--stat", "--graph", "--all", "--format=fuller"]),
        git("diff", &["diff", "--stat", "-p", "HEAD~1"]),
        git("status", &["--no-optional-locks", "status", "--short", "--branch"]),
        git("grep", &["grep", "-n", "9[0-9]", "other"]),
        git("blame", &["blame", "-s", "numbers"]),
        git("archive", &["archive", "-o", "out.tar", "other"]),
        git("fast-export", &["fast-export", "--all"]),
        git("merge", &["merge", "-q", "--no-stat", "other"]),
        git("merge-conflict", &["merge-tree", "HEAD~1", "HEAD", "other"]),
        git("checkout", &["checkout", "-q", "-f", "other"]),
        git("gc", &["gc", "-q"]),
        git("clone", &["clone", "-q", "--no-hardlinks", ".", "copy"]).ignoring("copy/.git/index"),
        git("fsck", &["fsck", "--full", "--strict"]),
    ]
}
