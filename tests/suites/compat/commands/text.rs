//! Programs that work on text and numbers.

use crate::Case;

use super::{large_file, large_file_and, small, small_file};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("wc-large", &["wc", "lines"]).prepared(large_file),
        Case::new("sort-large", &["sort", "lines", "-o", "sorted"]).prepared(large_file),
        Case::new("sort-general-numeric", &["sort", "-k3,3g", "-k2,2nr", "lines"]).prepared(small_file),
        Case::new("gzip-9-large", &["gzip", "-9", "-n", "lines"]).prepared(large_file),
        Case::new("gunzip-large", &["gzip", "-d", "lines.gz"]).prepared(large_file_and("gzip -1 -n lines")),
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
        Case::new("tac", &["tac", "lines"]).prepared(large_file),
        Case::new("nl", &["nl", "-ba", "-w3", "lines"]).prepared(small_file),
        Case::new("fold", &["fold", "-w", "7", "lines"]).prepared(small_file),
        Case::new("fmt", &["fmt", "-w", "50", "lines"]).prepared(small_file),
        Case::new("pr", &["pr", "-3", "-h", "title", "-"]).with_input(small()).masking_numbers(),
        Case::new("ptx", &["ptx"]).with_input("the quick brown fox\njumps over\n"),
        Case::new("tsort", &["tsort"]).with_input("a b\nb c\na d\nd c\n"),
        Case::new("shuf", &["shuf", "--random-source=lines", "-n", "20", "lines"]).prepared(small_file),
        Case::new("csplit", &["csplit", "-s", "lines", "/7/", "{3}"]).prepared(small_file),
        Case::new("comm", &["comm", "a", "b"]).prepared(|directory| {
            std::fs::write(directory.join("a"), "1\n2\n3\n")?;
            Ok(std::fs::write(directory.join("b"), "2\n3\n4\n")?)
        }),
        Case::new("column", &["column", "-t"]).with_input(small()),
        Case::new("xxd", &["xxd", "-b", "lines"]).prepared(small_file),
        Case::new("hexdump", &["hexdump", "-C", "lines"]).prepared(small_file),
        Case::new("iconv", &["iconv", "-f", "latin1", "-t", "utf-16"]).with_input("gr\u{fc}\u{df}e\n"),
        Case::new("cal", &["ncal", "-b", "2", "2024"]),
        Case::new("ed", &["ed", "-s", "lines"]).prepared(small_file).with_input("1,5p\ng/77/d\nw out\nq\n"),
        Case::new("sort-parallel", &["sort", "--parallel=2", "-S", "2M", "-k2,2n", "-o", "sorted", "lines"])
            .prepared(large_file),
        Case::new("xargs", &["xargs", "-n", "2", "echo", "pair:"]).with_input("a b c d e\n"),
    ]
}
