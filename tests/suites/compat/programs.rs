//! Our own programs in tests/programs.

use std::path::Path;

use derivgrind_tests::suite::{Obstacle, skip};
use derivgrind_tests::{compiler, full};

use crate::Case;

pub fn cases() -> Vec<Case> {
    let mut cases = kinds_of_executable();
    cases.extend([
        own("exceptions", "g++", "exceptions.cpp", &["-O2"], &[]),
        own("exceptions-static", "g++", "exceptions.cpp", &["-O0", "-static"], &[]),
        own("setjmp-and-contexts", "gcc", "jumps.c", &["-O2"], &[]),
        own("threads", "g++", "threads.cpp", &["-O2", "-pthread"], &[]),
        own("threads-static", "g++", "threads.cpp", &["-O1", "-pthread", "-static"], &[]),
        own("crowds-of-threads", "gcc", "crowds.c", &["-O2", "-pthread"], &[if full() { "20000" } else { "4000" }]),
        own("signals", "gcc", "signals.c", &["-O2"], &[]),
        own("more-signals", "gcc", "more_signals.c", &["-O1", "-lm", "-lrt"], &[]),
        own("processes", "gcc", "processes.c", &["-O2"], &[]),
        own("seccomp", "gcc", "seccomp.c", &["-O2", "-pthread"], &[]),
        own("forking-beside-a-thread", "gcc", "forking.c", &["-O2", "-pthread", "-ldl", "-lm"], &[]),
        own("seccomp-strict", "gcc", "strict.c", &["-O2"], &[]),
        own("identity", "gcc", "identity.c", &["-O2"], &["argument"]),
        own("memory", "gcc", "memory.c", &["-O2"], &[]),
        own("growing-mappings", "gcc", "growing.c", &["-O1", "-pthread"], &[]),
        own("overflowing-stacks", "gcc", "overflow.c", &["-O1", "-w", "-pthread"], &[]),
        own("places-of-faults", "gcc", "fault_places.c", &["-O1", "-w"], &[]),
        own("system-calls", "gcc", "system_calls.c", &["-O2"], &[]),
        own("floating-point", "gcc", "floating.c", &["-O1", "-frounding-math", "-lm"], &[]),
        own("floating-point-x87", "gcc", "floating.c", &["-O1", "-mfpmath=387", "-frounding-math", "-lm"], &[]),
        own("x87-state", "gcc", "x87_state.c", &["-O1", "-lm"], &[]),
        own("avx2", "gcc", "vectors.c", &["-O2", "-mavx2", "-mfma", "-mbmi2"], &[]),
        Case::new("avx512", &["./program"]).prepared(|directory| {
            if !(is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq"))
            {
                return skip("the processor has no AVX-512");
            }
            // Masked accesses at the end of mapped memory, faults within gathers, whole registers across signals.
            build(directory, "gcc", "../../crates/engine/tests/programs/avx512.c", &["-O1", "-w", "-pthread"])
        }),
        own("generated-code", "gcc", "generated_code.c", &["-O2"], &[]),
        own("generated-code-own-page", "gcc", "generated_code.c", &["-O2"], &["own-page"]),
        own("instructions", "gcc", "instructions.c", &["-O1", "-fno-stack-protector"], &[]),
        own("foreign-encodings", "gcc", "foreign_encodings.c", &["-O1"], &[]),
        own("plugin", "gcc", "plugin_host.c", &["-O2", "-ldl"], &["./plugin.so"]).prepared(|directory| {
            let source = compiler::programs();
            compiler::compile(
                "gcc",
                &source.join("plugin.c"),
                &directory.join("plugin.so"),
                &["-O2", "-fPIC", "-shared", "-lm"],
            )?;
            compiler::compile("gcc", &source.join("plugin_host.c"), &directory.join("program"), &["-O2", "-ldl"])
        }),
    ]);
    cases.extend(in_a_small_code_cache());
    cases.extend(with_traced_children());
    let faults = [
        "nothing",
        "read",
        "write",
        "read-only",
        "jump",
        "jump-to-data",
        "non-canonical",
        "division",
        "illegal",
        "trap",
        "abort",
        "kill",
        "exit",
        "high-exit",
    ];
    cases.extend(faults.map(|kind| own(&format!("fault-{kind}"), "gcc", "faults.c", &["-O1", "-w"], &[kind])));
    cases
}

/// Programs whose code does not fit into the cache: it is translated over and over while threads, handlers and children run.
fn in_a_small_code_cache() -> Vec<Case> {
    let words: [(&str, &[&str]); 3] = [
        (
            "perl",
            &["perl", "-e", "my %n; $n{$_ % 97} += sqrt $_ for 1..5000; print map { \"$_ $n{$_}\\n\" } sort keys %n"],
        ),
        ("shell", &["sh", "-c", "for i in 1 2 3; do (echo $i; exit $i) | cat; done; wait"]),
        ("sort", &["sort", "--parallel=4", "-k2,2n", "lines"]),
    ];
    let mut cases: Vec<Case> =
        words.map(|(name, words)| Case::new(format!("small-cache-{name}"), words).prepared(lines)).into();
    cases.extend([
        own("small-cache-threads", "g++", "threads.cpp", &["-O2", "-pthread"], &[]),
        own("small-cache-crowds", "gcc", "crowds.c", &["-O2", "-pthread"], &["80"]),
        own("small-cache-more-signals", "gcc", "more_signals.c", &["-O1", "-lm", "-lrt"], &[]),
        own("small-cache-signals", "gcc", "signals.c", &["-O2"], &[]),
        own("small-cache-exceptions", "g++", "exceptions.cpp", &["-O2"], &[]),
        own("small-cache-processes", "gcc", "processes.c", &["-O2"], &[]),
        own("small-cache-generated-code", "gcc", "generated_code.c", &["-O2"], &[]),
    ]);
    cases.into_iter().map(|case| case.with_options(&["--code-cache=64K"])).collect()
}

/// Programs that execute others, which run under the tool, too.
fn with_traced_children() -> Vec<Case> {
    const SCRIPT: &str = "#!/bin/sh\necho \"$0 $# $1\"; exec ./named \"$@\"\n";
    const LINE: &str = "PATH=.:$PATH; export PATH WHERE=here; script 'a b'; ./link; (exec -a other ./named x); sh missing; ./text; env -i ./named; \
                        echo $? | cat; exit 3";
    let words: [(&str, &[&str]); 3] = [
        ("shell", &["sh", "-c", "for i in 1 2 3; do (expr $i + 1; exit $i) | sort; done; wait; exec ls /"]),
        ("xargs", &["sh", "-c", "seq 20 | xargs -n3 -P1 echo; find /etc/passwd -exec wc -l {} +"]),
        (
            "perl",
            &["perl", "-e", "print `echo $_` for 1..3; system 'false'; print $?; exec 'sh', '-c', 'kill -TERM $$'"],
        ),
    ];
    let mut cases: Vec<Case> = words.map(|(name, words)| Case::new(format!("children-{name}"), words)).into();
    cases.push(Case::new("children-scripts", &["bash", "-c", LINE]).prepared(|directory| {
        use std::os::unix::fs::{PermissionsExt, symlink};
        for (name, text) in [("script", SCRIPT), ("text", "echo no interpreter $0\n")] {
            std::fs::write(directory.join(name), text)?;
            std::fs::set_permissions(directory.join(name), std::fs::Permissions::from_mode(0o755))?;
        }
        symlink("script", directory.join("link"))?;
        let source = compiler::programs().join("named.c");
        compiler::compile("gcc", &source, &directory.join("named"), &["-O1"])
    }));
    cases.extend([
        own("children-processes", "gcc", "processes.c", &["-O2"], &[]),
        own("children-seccomp", "gcc", "seccomp.c", &["-O2", "-pthread"], &[]),
    ]);
    cases.into_iter().map(|case| case.with_options(&["--trace-children"])).collect()
}

/// Enough lines for several threads of `sort`.
fn lines(directory: &Path) -> Result<(), Obstacle> {
    let text: String = (0..200_000_u64).map(|k| format!("{k} {}\n", k * 7919 % 200_003)).collect();
    Ok(std::fs::write(directory.join("lines"), text)?)
}

/// `hello.c` as each kind of executable.
fn kinds_of_executable() -> Vec<Case> {
    let kinds: [(&str, &str, &[&str]); 8] = [
        ("pie", "gcc", &["-O2", "-fPIE", "-pie"]),
        ("no-pie", "gcc", &["-O2", "-fno-pie", "-no-pie"]),
        ("static", "gcc", &["-O2", "-fno-pie", "-static"]),
        ("static-pie", "gcc", &["-O2", "-fPIE", "-static-pie"]),
        ("unoptimised", "gcc", &["-O0"]),
        ("bind-now", "gcc", &["-O2", "-Wl,-z,now"]),
        ("lazy-binding", "gcc", &["-O2", "-Wl,-z,lazy"]),
        ("clang", "clang", &["-O2"]),
    ];
    kinds
        .map(|(kind, compiler, options)| {
            own(&format!("hello-{kind}"), compiler, "hello.c", options, &["one", "", "three four"])
                .with_input("first\nsecond")
        })
        .into()
}

/// A program compiled to `program` in the case's directory.
fn own(
    name: &str,
    compiler: &'static str,
    source: &'static str,
    options: &'static [&'static str],
    arguments: &[&str],
) -> Case {
    let words: Vec<&str> = std::iter::once("./program").chain(arguments.iter().copied()).collect();
    Case::new(name, &words).prepared(move |directory| build(directory, compiler, source, options))
}

fn build(directory: &Path, compiler: &str, source: &str, options: &[&str]) -> Result<(), Obstacle> {
    compiler::compile(compiler, &compiler::programs().join(source), &directory.join("program"), options)
}
