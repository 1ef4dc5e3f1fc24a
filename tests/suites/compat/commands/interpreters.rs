//! Interpreters and virtual machines.

use std::path::Path;

use derivgrind_tests::derivgrind;
use derivgrind_tests::suite::Obstacle;

use crate::Case;

use super::{data, shell};

pub fn cases() -> Vec<Case> {
    [scripts(), numerical(), virtual_machines()].into_iter().flatten().collect()
}

fn scripts() -> Vec<Case> {
    vec![
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

/// OpenBLAS chooses its kernels by the processor, of which the tool hides AVX-512; other kernels round differently.
const KERNELS: (&str, &str) = ("OPENBLAS_CORETYPE", "Haswell");

/// R without the shell script that starts it.
fn r(name: &str, expression: &str) -> Case {
    Case::new(format!("r-{name}"), &["/usr/lib/R/bin/exec/R", "--vanilla", "--no-echo", "-e", expression])
        .with_environment(&[("R_HOME", "/usr/lib/R"), ("R_SHARE_DIR", "/usr/share/R/share"), KERNELS])
}

fn numerical() -> Vec<Case> {
    vec![
        r("linear-model", "x <- seq(0, 1, 0.05); print(summary(lm(sin(3 * x) ~ x + I(x^2))))"),
        r("optim", "print(optim(c(-1.2, 1), function(p) 100 * (p[2] - p[1]^2)^2 + (1 - p[1])^2, method = 'BFGS'))"),
        r("matrices", "a <- outer(1:6, 1:6, function(i, j) 1 / (i + j - 1)); print(solve(a)); print(svd(a)$d); print(eigen(a))"),
        r("random", "set.seed(7); x <- rgamma(1000, 2.5); print(quantile(x)); print(t.test(x, mu = 2.5))"),
        r("fourier", "print(Mod(fft(c(1:16, 3.5, -2)))); print(integrate(dnorm, -1.96, 1.96)); print(besselJ(1:5, 0.5))"),
        Case::new("numpy", &["/usr/bin/python3", "-c", "import numpy as n; a = n.arange(1., 17).reshape(4, 4) + n.eye(4); print(n.linalg.inv(a), n.sin(a), n.fft.fft(a), n.exp(a.astype(n.float32)).sum())"])
            .with_environment(&[
                KERNELS,
                ("OPENBLAS_NUM_THREADS", "1"),
            ]),
        Case::new("dc", &["dc", "-e", "40 k 2 v 3 7 / + p 1000 ! 2 100 ^ p"]),
    ]
}

fn virtual_machines() -> Vec<Case> {
    let lua = "local s = 0; for i = 1, 3000000 do s = s + math.sin(i) / i end; print(s); \
               local t = {}; for i = 1, 1000 do t[i] = (i * 7919) % 1009 end; table.sort(t); print(t[1], t[500], #t)";
    vec![
        Case::new("luajit", &["luajit", "-e", lua]),
        Case::new("luajit-interpreted", &["luajit", "-joff", "-e", lua]),
        Case::new("lua", &["lua5.4", "-e", lua]),
        Case::new(
            "ruby",
            &["ruby", "-e", "puts (1..2000).map { |x| Math.sqrt(x) }.sum, [3, 1, 2].sort.inspect, 2**200"],
        ),
        Case::new(
            "php",
            &["php", "-n", "-r", "echo array_sum(array_map('sqrt', range(1, 1000))), \" \", md5('x'), \"\\n\";"],
        ),
        Case::new("tcl", &["tclsh8.6", "-"])
            .with_input("puts [expr {sin(1.0) + 2 ** 0.5}]; puts [lsort -real {3 1.5 2}]\n"),
        Case::new("java-version", &["java", "-version"]),
        Case::new("java", &["java", "Sum"]).prepared(shell(
            "cat > Sum.java <<'END'
public class Sum {
    public static void main(String[] a) throws Exception {
        double[] s = new double[4];
        Thread[] t = new Thread[4];
        for (int k = 0; k < 4; k++) {
            final int j = k;
            t[k] = new Thread(() -> { for (int i = 1; i < 1000000; i++) s[j] += Math.sin(i + j) / i; });
            t[k].start();
        }
        for (Thread x : t) x.join();
        for (double x : s) System.out.println(x);
        System.out.println(new java.math.BigInteger(\"3\").pow(500).mod(java.math.BigInteger.valueOf(1000007)));
    }
}
END
javac Sum.java",
        )),
        Case::new(
            "node",
            &[
                "node",
                "-e",
                "let s = 0; for (let i = 1; i < 3e6; i++) s += Math.sin(i) / i; console.log(s, [3, 1, 2].sort())",
            ],
        ),
        Case::new("go", &["./sum"]).prepared(shell(
            "cat > sum.go <<'END'
package main

import (\"fmt\"; \"math\"; \"runtime\"; \"sort\"; \"sync\")

func main() {
	var wait sync.WaitGroup
	sums := make([]float64, 50)
	for k := range sums {
		wait.Add(1)
		go func(k int) {
			defer wait.Done()
			for i := 1; i < 20000; i++ { sums[k] += math.Sin(float64(i+k)) / float64(i) }
			runtime.GC()
		}(k)
	}
	wait.Wait()
	sort.Float64s(sums)
	fmt.Println(sums)
	defer func() { fmt.Println(recover()) }()
	var p *int
	fmt.Println(*p)
}
END
GOCACHE=$PWD/cache GO111MODULE=off go build -o sum sum.go; chmod -R u+w cache; rm -r cache",
        )),
    ]
}

/// Writes an executable file `script`.
fn script(directory: &Path, text: &str) -> Result<(), Obstacle> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = directory.join("script");
    std::fs::write(&path, text)?;
    Ok(std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?)
}
