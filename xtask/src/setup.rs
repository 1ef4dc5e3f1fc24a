//! Installs the system packages that tests and benchmarks use, and only those that are missing.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

/// What has to exist, and the Debian package that brings it.
///
/// An entry with a slash is a path, any other is the name of a command.
const REQUIREMENTS: &[(&str, &str)] = &[
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("/usr/include/stdio.h", "libc6-dev"),
    ("clang", "clang"),
    ("gfortran", "gfortran"),
    // Libraries whose gradients are tested.
    ("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so", "libopenblas-pthread-dev"),
    ("/usr/lib/x86_64-linux-gnu/blas/libblas.so.3", "libblas3"),
    ("/usr/lib/x86_64-linux-gnu/lapack/liblapack.so.3", "liblapack3"),
    ("/usr/include/fftw3.h", "libfftw3-dev"),
    ("/usr/include/gsl/gsl_sf.h", "libgsl-dev"),
    ("/usr/include/eigen3/Eigen/Dense", "libeigen3-dev"),
    ("/usr/include/nlopt.h", "libnlopt-dev"),
    ("/usr/include/cvode/cvode.h", "libsundials-dev"),
    ("/usr/lib/x86_64-linux-musl/musl-gcc.specs", "musl-dev"),
    ("/usr/include/zlib.h", "zlib1g-dev"),
    ("/usr/include/lz4.h", "liblz4-dev"),
    ("/usr/include/zstd.h", "libzstd-dev"),
    ("/usr/include/lzma.h", "liblzma-dev"),
    ("/usr/include/bzlib.h", "libbz2-dev"),
    ("/usr/include/brotli/encode.h", "libbrotli-dev"),
    ("/usr/include/snappy-c.h", "libsnappy-dev"),
    ("/usr/include/lzo/lzo1x.h", "liblzo2-dev"),
    // OpenMP with clang.
    ("/usr/lib/x86_64-linux-gnu/libomp5.so", "libomp-dev"),
    ("make", "make"),
    ("bc", "bc"),
    ("sqlite3", "sqlite3"),
    ("/usr/bin/perl", "perl"),
    ("/usr/bin/python3", "python3"),
    ("gawk", "gawk"),
    ("sed", "sed"),
    ("gzip", "gzip"),
    ("bash", "bash"),
    ("mount", "mount"),
    // Programs whose behaviour under the tool is compared with the native one.
    ("/usr/bin/git", "git"),
    ("xz", "xz-utils"),
    ("bzip2", "bzip2"),
    ("zstd", "zstd"),
    ("lz4", "lz4"),
    ("zip", "zip"),
    ("unzip", "unzip"),
    ("cpio", "cpio"),
    ("openssl", "openssl"),
    ("busybox", "busybox"),
    ("redis-server", "redis-server"),
    ("nginx", "nginx-light"),
    ("curl", "curl"),
    ("/usr/bin/convert", "imagemagick"),
    ("gnuplot", "gnuplot-nox"),
    ("/usr/lib/R/bin/exec/R", "r-base-core"),
    ("luajit", "luajit"),
    ("lua5.4", "lua5.4"),
    ("ruby", "ruby"),
    ("php", "php-cli"),
    ("tclsh8.6", "tcl8.6"),
    ("javac", "default-jdk-headless"),
    ("node", "nodejs"),
    ("go", "golang-go"),
    ("dc", "dc"),
    ("ed", "ed"),
    ("file", "file"),
    ("jq", "jq"),
    ("xmllint", "libxml2-utils"),
    ("units", "units"),
    ("xxd", "xxd"),
    ("hexdump", "bsdextrautils"),
    ("ncal", "ncal"),
    ("bison", "bison"),
    ("flex", "flex"),
    ("m4", "m4"),
    ("/usr/lib/python3/dist-packages/numpy", "python3-numpy"),
    ("/usr/lib/python3/dist-packages/torch", "python3-torch"),
    ("/usr/lib/python3.11/ensurepip", "python3-venv"),
    ("/usr/lib/python3/dist-packages/scipy", "python3-scipy"),
    ("/usr/lib/python3/dist-packages/mpmath", "python3-mpmath"),
    ("/usr/lib/python3.11/test/test_math.py", "libpython3.11-testsuite"),
    ("/usr/lib/python3/dist-packages/pytest", "python3-pytest"),
    ("/usr/lib/python3/dist-packages/hypothesis", "python3-hypothesis"),
];

/// Whether `requirement` exists on this machine.
fn present(requirement: &str) -> bool {
    if requirement.contains('/') {
        return Path::new(requirement).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(requirement).is_file())
}

/// Installs the packages and Rust components that are missing, and says so.
///
/// Without `apt-get` it names what is missing and goes on: the tests that need it are then skipped with that reason.
pub fn install_missing() -> Result<()> {
    let mut packages: Vec<&str> =
        REQUIREMENTS.iter().filter(|(what, _)| !present(what)).map(|&(_, package)| package).collect();
    packages.dedup();
    if packages.is_empty() {
        println!("System packages: all there.");
    } else if !present("apt-get") {
        println!("System packages: no apt-get here. Please install the equivalents of: {}", packages.join(" "));
    } else {
        println!("System packages: installing {}", packages.join(" "));
        apt_get(&["update", "-q"])?;
        apt_get(&[&["install", "-q", "-y", "--no-install-recommends"], packages.as_slice()].concat())?;
    }
    rust_components()
}

/// Runs `apt-get`, through `sudo` for anyone but root.
fn apt_get(arguments: &[&str]) -> Result<()> {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    let mut command = if root { Command::new("apt-get") } else { Command::new("sudo") };
    if !root {
        command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    }
    let status =
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(std::process::Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!(
            "apt-get {} failed ({status}): install the packages by hand, then run this command again",
            arguments.join(" ")
        ),
        Err(error) => bail!("cannot start {}: {error}", if root { "apt-get" } else { "sudo (this user is not root)" }),
    }
}

/// Adds `rustfmt` and `clippy` to the toolchain where they are missing.
fn rust_components() -> Result<()> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        let there = Command::new(env!("CARGO"))
            .args([subcommand, "--version"])
            .output()
            .is_ok_and(|output| output.status.success());
        if there {
            continue;
        }
        println!("Rust toolchain: adding {component}");
        let added =
            Command::new("rustup").args(["component", "add", component]).status().is_ok_and(|status| status.success());
        if !added {
            bail!("`cargo {subcommand}` is missing and `rustup component add {component}` failed: install {component}");
        }
    }
    Ok(())
}
