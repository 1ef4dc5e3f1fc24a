//! The Python package in the build tree, and the environment with the machine-learning frameworks that its tests use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::Workspace;

/// Debian's Python: its packages include PyTorch.
pub const PYTHON: &str = "/usr/bin/python3";
/// From PyPI. Debian's PyTorch is built for NumPy 1.
const PACKAGES: &[&str] = &["numpy<2", "tensorflow-cpu", "jax", "matplotlib", "maturin"];

/// Builds the extension module and puts the package together in `target/release/python`, where `derivgrind config --pythondir` finds it.
pub fn package(workspace: &Workspace) -> Result<()> {
    let status = Command::new(env!("CARGO"))
        .current_dir(&workspace.root)
        .args(["build", "--release", "--quiet", "--package", "derivgrind-python", "--lib"])
        .status()?;
    if !status.success() {
        bail!("the Python extension module does not build");
    }
    let target = workspace.binaries.join("python");
    let source = workspace.root.join("python");
    for entry in fs::read_dir(&source).with_context(|| format!("cannot read {}", source.display()))? {
        let package = entry?.path();
        if package.join("__init__.py").is_file() {
            copy_modules(&package, &target.join(package.file_name().unwrap_or_default()))?;
        }
    }
    let module = target.join("derivgrind/_native.abi3.so");
    // A new file: the old one may be in use.
    let _ = fs::remove_file(&module);
    fs::copy(workspace.binary("lib_native.so"), &module)
        .with_context(|| format!("cannot write {}", module.display()))?;
    Ok(())
}

fn copy_modules(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if path.is_file()
            && path.extension().is_some_and(|extension| ["py", "pyi", "typed"].iter().any(|known| extension == *known))
        {
            fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
        }
    }
    Ok(())
}

/// The environment's directory.
fn environment(workspace: &Workspace) -> PathBuf {
    workspace.binaries.join("../python-environment")
}

/// Installs the frameworks into an environment of the project, unless they are there. Without them their tests are skipped, with the reason that is
/// left in the environment's file `failure`.
pub fn install_frameworks(workspace: &Workspace) -> Result<()> {
    let directory = environment(workspace);
    let list = directory.join("packages");
    if fs::read_to_string(&list).is_ok_and(|installed| installed == PACKAGES.join("\n")) {
        println!("Python environment: all there.");
        return Ok(());
    }
    println!("Python environment: installing {}", PACKAGES.join(", "));
    fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let pip = directory.join("bin/pip");
    let mut make = Command::new(PYTHON);
    make.args(["-m", "venv", "--system-site-packages"]).arg(&directory);
    let mut install = Command::new(pip);
    install.args(["install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES);
    for command in [&mut make, &mut install] {
        let output = command.stdin(Stdio::null()).output();
        let failure = match output {
            Ok(output) if output.status.success() => continue,
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        println!("Python environment: {failure}");
        fs::write(directory.join("failure"), failure)?;
        return Ok(());
    }
    let _ = fs::remove_file(directory.join("failure"));
    fs::write(list, PACKAGES.join("\n"))?;
    Ok(())
}
