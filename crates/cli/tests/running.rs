//! Programs under the engine: what stands after the program is the program's, and it ends as it would without us.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use common::{DERIVGRIND, ended, run};

#[test]
fn arguments_after_the_program_are_its_own() {
    for line in [&["run", "--"][..], &["run"], &["--quiet", "run"]] {
        let line: Vec<&str> = line.iter().copied().chain(["/bin/echo", "--help", "-q", "--", "run"]).collect();
        assert_eq!(run(DERIVGRIND, &line).succeeds(), "--help -q -- run\n");
    }
}

#[test]
fn a_program_named_like_a_command() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/echo", directory.path().join("demo")).unwrap();
    let output = Command::new(DERIVGRIND)
        .args(["--record=tape", "demo", "for", "example"])
        .current_dir(directory.path())
        .env("PATH", directory.path())
        .output()
        .unwrap();
    assert_eq!(ended(output).succeeds(), "for example\n");
}

#[test]
fn exit_codes_are_the_programs() {
    for code in [0, 1, 2, 65, 127, 255] {
        let ended = run(DERIVGRIND, &["run", "--", "sh", "-c", &format!("exit {code}")]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""));
    }
}

#[test]
fn a_fatal_signal_is_the_programs() {
    for (name, signal) in [("TERM", libc::SIGTERM), ("KILL", libc::SIGKILL), ("USR1", libc::SIGUSR1)] {
        let status =
            Command::new(DERIVGRIND).args(["run", "--", "sh", "-c", &format!("kill -{name} $$")]).status().unwrap();
        assert_eq!(status.signal(), Some(signal), "{name}");
    }
}

/// Rust's run-time system would ignore SIGPIPE and thereby change what the program inherits.
#[test]
fn ignored_signals_are_inherited_unchanged() {
    let native = |line: &str| Command::new("sh").args(["-c", line]).output().unwrap();
    for (handling, command) in [("", "grep SigIgn"), ("trap '' PIPE USR2;", "grep SigIgn")] {
        let expected = native(&format!("{handling} {command} /proc/self/status"));
        let engine = native(&format!("{handling} {DERIVGRIND} run -- {command} /proc/self/status"));
        assert_eq!(ended(engine).succeeds(), ended(expected).succeeds());
    }
}

#[test]
fn standard_streams_are_the_programs() {
    let mut child = Command::new(DERIVGRIND)
        .args(["run", "--", "sh", "-c", "cat; echo error >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"through the pipe\n").unwrap();
    let ended = ended(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "through the pipe\n", "error\n"));
}

/// A mistyped program must not cost an earlier recording.
#[test]
fn a_missing_program_leaves_the_directory_alone() {
    let directory = tempfile::tempdir().unwrap();
    let tape = directory.path().join("tape");
    let path = tape.to_str().unwrap();
    run(DERIVGRIND, &["record", path, "--", "/nowhere/program"]).says(127, &["/nowhere/program"]);
    assert!(!tape.exists());
    std::fs::create_dir(&tape).unwrap();
    std::fs::write(tape.join("dg-tape"), "an earlier recording").unwrap();
    run(DERIVGRIND, &["record", path, "--", "/nowhere/program"]).says(127, &["/nowhere/program"]);
    run(DERIVGRIND, &["record", path, "--", path]).says(126, &[path, "directory"]);
    assert_eq!(std::fs::read(tape.join("dg-tape")).unwrap(), b"an earlier recording");
    run(DERIVGRIND, &["grad", "--", "/nowhere/program"]).says(127, &["/nowhere/program"]);
}

#[test]
fn a_directory_that_cannot_be_made() {
    run(DERIVGRIND, &["record", "/proc/tape", "--", "/bin/true"]).says(73, &["/proc/tape"]);
    run(DERIVGRIND, &["record", "/bin/true", "--", "/bin/true"]).says(73, &["/bin/true", "directory"]);
}

#[test]
fn a_trace_has_a_line_for_each_block() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    run(DERIVGRIND, &["run", "--trace", trace.to_str().unwrap(), "--", "/bin/true"]).succeeds();
    let text = std::fs::read_to_string(&trace).unwrap();
    assert!(text.lines().count() > 1000 && text.lines().all(|line| line.contains(" 0x")));
    run(DERIVGRIND, &["run", "--trace", "/nowhere/trace", "--", "/bin/true"]).says(125, &["/nowhere/trace"]);
}

/// Each executed program leaves a trace of its own.
#[test]
fn executed_programs_run_under_the_tool_if_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    for (option, programs) in [(None, 1), (Some("--trace-children"), 4)] {
        let traces = directory.path().join(option.unwrap_or("none"));
        std::fs::create_dir(&traces).unwrap();
        let trace = traces.join("trace");
        let line = "echo before; /bin/echo one; cd /; sh -c 'exec /bin/echo two'; exit 4";
        let output = Command::new(DERIVGRIND)
            .arg("run")
            .args(option)
            .arg("--trace")
            .arg(&trace)
            .args(["--", "sh", "-c", line])
            .output()
            .unwrap();
        let ended = ended(output);
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(4), "before\none\ntwo\n", ""));
        let files = std::fs::read_dir(&traces).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        // The second `sh` and the `echo` that it becomes are one process, and write to one file one after the other.
        assert_eq!(files.len(), programs - usize::from(option.is_some()), "{files:?}");
        assert!(files.iter().all(|file| std::fs::metadata(file).unwrap().len() > 100));
    }
}

#[test]
fn derivgrind_under_derivgrind_is_executed_natively() {
    let line = format!("{DERIVGRIND} run -- echo inner; {DERIVGRIND} --version");
    let ended = run(DERIVGRIND, &["run", "--trace-children", "--", "sh", "-c", &line]);
    assert!(ended.succeeds().starts_with("inner\nderivgrind "));
}

#[test]
fn calls_that_are_not_available_fail_in_a_way_that_programs_know() {
    let numbers = [
        libc::SYS_rseq,
        libc::SYS_userfaultfd,
        libc::SYS_io_uring_setup,
        libc::SYS_modify_ldt,
        libc::SYS_set_thread_area,
        libc::SYS_remap_file_pages,
    ];
    let calls: String =
        numbers.iter().map(|number| format!("syscall({number}, 0, 0, 0, 0); print $! + 0, ' ';")).collect();
    let ended = run(DERIVGRIND, &["run", "--", "perl", "-e", &calls]);
    assert_eq!(ended.succeeds(), format!("{} ", libc::ENOSYS).repeat(numbers.len()));

    let call = format!("syscall({}, {}, 0, 0, 0); print $! + 0, ' ';", libc::SYS_ptrace, libc::PTRACE_TRACEME);
    let ended = run(DERIVGRIND, &["run", "--", "perl", "-e", &call.repeat(2)]);
    assert_eq!(ended.stdout, format!("{} ", libc::EPERM).repeat(2));
    ended.says(0, &["ptrace", "fails with EPERM"]);
    assert_eq!(ended.stderr.lines().count(), 1, "told once: {ended:?}");
}
