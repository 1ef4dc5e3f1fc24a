//! Programs of the system.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use derivgrind_tests::numbers::SplitMix64;
use derivgrind_tests::suite::Obstacle;
use derivgrind_tests::{compiler, derivgrind};

use crate::Case;

pub fn cases() -> Vec<Case> {
    [file_tools(), text_tools(), interpreters(), compilers()].into_iter().flatten().collect()
}

/// Ten megabytes of lines with a word and two numbers.
fn large() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let mut generator = SplitMix64(10);
        let mut text = String::new();
        while text.len() < 10_000_000 {
            let bits = generator.bits();
            let _ = writeln!(text, "word{} {} {:.6}", bits % 5003, bits >> 44, generator.number() * 1000.0);
        }
        text
    })
}

/// The first lines of the large text.
fn small() -> &'static str {
    let text = large();
    let end = text
        .char_indices()
        .filter(|(_, character)| *character == '\n')
        .nth(999)
        .map_or(text.len(), |(position, _)| position + 1);
    &text[..end]
}

/// Writes the large text to `lines`.
fn large_file(directory: &Path) -> Result<(), Obstacle> {
    Ok(std::fs::write(directory.join("lines"), large())?)
}

/// Writes a thousand lines to `lines`.
fn small_file(directory: &Path) -> Result<(), Obstacle> {
    Ok(std::fs::write(directory.join("lines"), small())?)
}

/// Writes a small tree of files, directories and a link.
fn tree(directory: &Path) -> Result<(), Obstacle> {
    small_file(directory)?;
    for name in ["a", "a/b", "c"] {
        std::fs::create_dir(directory.join(name))?;
    }
    for (name, text) in [("a/one", "1\n"), ("a/b/two", "2\n2\n"), ("c/three.txt", "3\n"), ("c/.hidden", "")] {
        std::fs::write(directory.join(name), text)?;
    }
    Ok(std::os::unix::fs::symlink("a/b/two", directory.join("link"))?)
}

/// Puts a file of tests/programs/data into the directory.
fn data(name: &'static str) -> impl Fn(&Path) -> Result<(), Obstacle> + Send + Sync {
    move |directory| {
        std::fs::copy(compiler::programs().join("data").join(name), directory.join(name))?;
        Ok(())
    }
}

fn file_tools() -> Vec<Case> {
    vec![
        Case::new("true", &["true"]),
        Case::new("false", &["false"]),
        Case::new("echo", &["echo", "a", "b  c"]),
        Case::new("env", &["env"]),
        Case::new("ls-l", &["ls", "-l", "--color=always"]).prepared(tree),
        Case::new("ls-l-recursive", &["ls", "-lR", "/usr/include"]),
        Case::new("cat", &["cat", "lines", "-", "missing"]).prepared(small_file).with_input("from standard input\n"),
        Case::new("cp-recursive", &["cp", "-r", "a", "copy"]).prepared(tree),
        Case::new("mv", &["mv", "a", "c", "missing", "."]).prepared(tree),
        Case::new("rm-recursive", &["rm", "-r", "a"]).prepared(tree),
        Case::new("mkdir-mode", &["mkdir", "-p", "-m", "700", "x/y/z"]),
        Case::new("dd", &["dd", "if=lines", "of=out", "bs=777", "skip=3", "count=20", "status=none"])
            .prepared(small_file),
        Case::new("find", &["find", ".", "-name", "*e*", "-size", "-3", "-printf", "%p %s %m\n"]).prepared(tree),
        Case::new("find-exec", &["find", "a", "-type", "f", "-exec", "cat", "{}", "+"]).prepared(tree),
        Case::new("tar", &["tar", "--sort=name", "-cf", "out.tar", "a", "c"]).prepared(tree),
        Case::new("stat", &["stat", "-c", "%n %s %A %y", "lines", "a"]).prepared(tree),
        Case::new("split", &["split", "-l", "100", "lines", "part."]).prepared(small_file),
        Case::new("date", &["date", "-d", "2024-02-29 12:34:56 + 3 weeks", "+%A %j %V %s %c"]),
        Case::new("timeout", &["timeout", "0.1", "sleep", "5"]),
        Case::new("nice", &["nice", "-n", "3", "nice"]),
    ]
}

fn text_tools() -> Vec<Case> {
    vec![
        Case::new("wc-large", &["wc", "lines"]).prepared(large_file),
        Case::new("sort-large", &["sort", "lines", "-o", "sorted"]).prepared(large_file),
        Case::new("sort-general-numeric", &["sort", "-k3,3g", "-k2,2nr", "lines"]).prepared(small_file),
        Case::new("gzip-9-large", &["gzip", "-9", "-n", "lines"]).prepared(large_file),
        Case::new("gunzip-large", &["gzip", "-d", "lines.gz"]).prepared(|directory| {
            large_file(directory)?;
            let path = directory.join("lines");
            let status = std::process::Command::new(compiler::need("gzip")?).args(["-1", "-n"]).arg(&path).status()?;
            if status.success() { Ok(()) } else { Err(Obstacle::Failure("gzip failed natively".to_owned())) }
        }),
        Case::new(
            "awk-sums",
            &[
                "awk",
                "{ s += $2; q += $3 * $3; c[$1]++ } END { printf \"%.17g %.17g %d\\n\", s, q, length(c) }",
                "lines",
            ],
        )
        .prepared(large_file),
        Case::new(
            "gawk-functions",
            &[
                "gawk",
                "function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) } BEGIN { print f(20), sin(1), exp(1), log(10), 2 ^ 0.5, substr(\"hello\", 2, 3); \"echo child\" | getline x; print x }",
            ],
        ),
        Case::new(
            "sed",
            &["sed", "-E", "-e", "s/([0-9]+)\\.([0-9]+)/\\2.\\1/g", "-e", "/7$/d", "-e", "y/abc/xyz/", "lines"],
        )
        .prepared(small_file),
        Case::new("sed-in-place", &["sed", "-i", "-n", "1~7p", "lines"]).prepared(small_file),
        Case::new("grep", &["grep", "-nE", "(12|77)[0-9]* -?[1-4]", "lines"]).prepared(small_file),
        Case::new("grep-perl-none", &["grep", "-P", "^nothing(?=here)", "lines"]).prepared(small_file),
        Case::new("bc-pi-200-digits", &["bc", "-l"]).with_input("scale=200\n4*a(1)\ne(1)\nsqrt(2)\n"),
        Case::new("seq", &["seq", "-f", "%.12g", "0", "0.1", "30"]),
        Case::new("factor", &["factor", "1234567890123456789", "18446744073709551557", "97"]),
        Case::new("numfmt", &["numfmt", "--to=si", "1500", "123456789", "0.5"]),
        Case::new("printf", &["printf", "%.20g %a %e %s\n", "0.1", "1.5", "1e300", "text"]),
        Case::new("cut-fields", &["cut", "-d", " ", "-f", "1,3", "lines"]).prepared(small_file),
        Case::new("tr", &["tr", "-cs", "a-z", "\n"]).with_input(small()),
        Case::new("uniq-count", &["uniq", "-c"]).with_input("a\na\nb\na\n"),
        Case::new("od", &["od", "-A", "x", "-t", "x1z", "-t", "fD", "lines"]).prepared(small_file),
        Case::new("diff", &["diff", "lines", "-"]).prepared(small_file).with_input("something else\n"),
        Case::new("digests", &["sha256sum", "lines"]).prepared(large_file),
        Case::new("digest-md5", &["md5sum", "lines"]).prepared(small_file),
        Case::new("base64", &["base64", "lines"]).prepared(small_file),
        Case::new("head", &["head", "-c", "100"]).with_input(small()),
        Case::new("tail", &["tail", "-n", "+990", "lines"]).prepared(small_file),
        Case::new("paste-join", &["join", "-j", "1", "a", "b"]).prepared(|directory| {
            std::fs::write(directory.join("a"), "1 x\n2 y\n3 z\n")?;
            Ok(std::fs::write(directory.join("b"), "2 p\n3 q\n4 r\n")?)
        }),
        Case::new("expr", &["expr", "12345", "*", "6789"]),
        Case::new("xargs", &["xargs", "-n", "2", "echo", "pair:"]).with_input("a b c d e\n"),
    ]
}

fn interpreters() -> Vec<Case> {
    vec![
        Case::new("sqlite3-memory", &["sqlite3", ":memory:"])
            .with_input(include_str!("../../programs/data/script.sql")),
        Case::new("sqlite3-file", &["sqlite3", "database"]).with_input(include_str!("../../programs/data/script.sql")),
        Case::new("perl-one-line", &["perl", "-e", "print join(' ', map { $_ * $_ } 1 .. 5), \"\\n\""]),
        Case::new("perl-script", &["perl", "script.pl"]).prepared(data("script.pl")),
        Case::new("python3-one-line", &["/usr/bin/python3", "-c", "print(sum(1 / k for k in range(1, 1000)))"]),
        Case::new("python3-script", &["/usr/bin/python3", "script.py"]).prepared(data("script.py")),
        Case::new("python3-error", &["/usr/bin/python3", "-c", "import sys; sys.stdout.write('x'); 1 / 0"]),
        Case::new(
            "python3-processes",
            &[
                "/usr/bin/python3",
                "-c",
                "import ctypes, decimal, multiprocessing, sqlite3, ssl; print(multiprocessing.Pool(2).map(abs, [-1, 2]))",
            ],
        ),
        Case::new("rust-program", &[&derivgrind().to_string_lossy(), "--help"]),
        Case::new("sh", &["sh", "-c", "for i in 1 2 3; do echo $i; done | wc -l; exit 4"]),
        Case::new("bash-script", &["bash", "script.sh"]).prepared(data("script.sh")),
        Case::new(
            "bash-loop",
            &["bash", "-c", "s=0; for ((i = 0; i < 20000; i++)); do ((s += i * i % 7)); done; echo $s"],
        ),
        Case::new("script-with-interpreter-line", &["./script", "argument"])
            .prepared(|directory| script(directory, "#!/bin/sh -e\necho $0 $1; false; echo never\n")),
        Case::new("script-through-env", &["./script", "argument"])
            .prepared(|directory| script(directory, "#!/usr/bin/env perl\nprint \"$0 @ARGV\\n\";\n")),
        Case::new("make", &["make", "-s"]).prepared(|directory| {
            Ok(std::fs::write(directory.join("Makefile"), "all: a b\n\tcat a b > c\na b:\n\techo $@ > $@\n")?)
        }),
    ]
}

/// Writes an executable file `script`.
fn script(directory: &Path, text: &str) -> Result<(), Obstacle> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = directory.join("script");
    std::fs::write(&path, text)?;
    Ok(std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?)
}

fn compilers() -> Vec<Case> {
    let source = |directory: &Path| -> Result<(), Obstacle> {
        std::fs::copy(compiler::programs().join("memory.c"), directory.join("memory.c"))?;
        Ok(())
    };
    vec![
        // The driver runs under the tool, its children natively.
        Case::new("gcc", &["gcc", "-O2", "-o", "memory", "memory.c"]).prepared(source),
        // The driver of clang compiles in its own process.
        Case::new("clang", &["clang", "-O2", "-c", "memory.c"]).prepared(source),
        Case::new("gcc-error", &["gcc", "-c", "broken.c"])
            .prepared(|directory| Ok(std::fs::write(directory.join("broken.c"), "int main( { return x; }\n")?)),
        Case::new("as", &["as", "-o", "out.o", "-"]).with_input(".globl f\nf: mov $7, %eax\n ret\n"),
        Case::new(
            "ld-relocatable",
            &["ld", "-r", "-o", "out.o", "/usr/lib/x86_64-linux-gnu/crt1.o", "/usr/lib/x86_64-linux-gnu/crti.o"],
        ),
        Case::new("objdump", &["objdump", "-d", "/usr/lib/x86_64-linux-gnu/crt1.o"]),
    ]
}
