//! Compilers, assemblers and linkers.

use std::path::Path;

use derivgrind_tests::compiler;
use derivgrind_tests::suite::Obstacle;

use crate::Case;

use super::shell;

pub fn cases() -> Vec<Case> {
    [drivers(), passes(), generators()].into_iter().flatten().collect()
}

fn drivers() -> Vec<Case> {
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

/// The directory of gcc's own programs.
const GCC: &str = "/usr/lib/gcc/x86_64-linux-gnu/12";

/// What drivers start, started directly.
fn passes() -> Vec<Case> {
    let burgers = |directory: &Path| -> Result<(), Obstacle> {
        // Without the requests, so that no header of ours is needed.
        std::fs::copy(compiler::programs().join("exceptions.cpp"), directory.join("in.cpp"))?;
        Ok(())
    };
    let objects = "cat > a.c <<'END'
#include <math.h>
#include <stdio.h>
int f(int x) { return x * 3; }
int main(void) { printf(\"%d %f\\n\", f(7), sin(f(2))); return 0; }
END
gcc -g -O1 -c a.c -o a.o; gcc -g a.o -o a.out -lm";
    vec![
        Case::new("cc1", &[&format!("{GCC}/cc1"), "-quiet", "-O2", "a.c", "-o", "out.s"]).prepared(shell(objects)),
        Case::new("cc1plus", &[&format!("{GCC}/cc1plus"), "-quiet", "-D_GNU_SOURCE", "-O2", "in.cpp", "-o", "out.s"])
            .prepared(burgers),
        Case::new("f951", &[&format!("{GCC}/f951"), "in.f90", "-quiet", "-O3", "-o", "out.s"]).prepared(shell(
            "printf 'subroutine s(a, n)\\n integer :: n\\n real(8) :: a(n)\\n a = sin(a) * sum(a)\\nend\\n' > in.f90",
        )),
        Case::new("clang++", &["clang++", "-O2", "-S", "in.cpp"]).prepared(burgers),
        Case::new("collect2", &[&format!("{GCC}/collect2"), "-r", "-o", "out.o", "a.o"]).prepared(shell(objects)),
        Case::new("objdump-source", &["objdump", "-d", "-S", "a.out"]).prepared(shell(objects)),
        Case::new("readelf", &["readelf", "-aW", "--debug-dump=info", "a.out"]).prepared(shell(objects)),
        Case::new("nm", &["nm", "-n", "a.out"]).prepared(shell(objects)),
        Case::new("strip", &["strip", "-o", "stripped", "a.out"]).prepared(shell(objects)),
        Case::new("addr2line", &["addr2line", "-f", "-e", "a.o", "0", "8"]).prepared(shell(objects)),
        Case::new("size", &["size", "-A", "a.out"]).prepared(shell(objects)),
        Case::new("strings", &["strings", "-t", "x", "a.out"]).prepared(shell(objects)),
        Case::new("c++filt", &["c++filt", "_ZNSt6vectorIdSaIdEE9push_backERKd", "_Z1fILi3EEvv"]),
    ]
}

/// Programs that write programs.
fn generators() -> Vec<Case> {
    vec![
        Case::new("bison", &["bison", "-d", "in.y"])
            .prepared(shell("printf '%%%%\\ne: e \\047+\\047 t | t;\\nt: \\0471\\047;\\n' > in.y")),
        Case::new("flex", &["flex", "-o", "out.c", "in.l"])
            .prepared(shell("printf '%%%%\\n[0-9]+ puts(\"number\");\\n. ;\\n%%%%\\n' > in.l")),
        Case::new("m4", &["m4", "-"]).with_input("define(`f', `ifelse($1, 0, 1, `eval($1 * f(decr($1)))')')f(9)\n"),
        Case::new("make-jobs", &["make", "-s", "-j2"])
            .prepared(shell("printf 'all: 1 2 3 4\\n\\tcat $^ > all\\n%%:\\n\\techo $@ > $@\\n' > Makefile")),
        Case::new("make-dry-run", &["make", "-n", "-p", "-f", "rules", "x"])
            .prepared(|directory| {
                let rules = "x: y z\n\techo $(sort $^)\ny z:\n\ttouch $@\n";
                Ok(std::fs::write(directory.join("rules"), rules)?)
            })
            // The data base begins and ends with the date.
            .masking_numbers(),
    ]
}
