"""Builds the wheel: maturin's backend, after the commands have been put into the package."""

import os
import shutil
import subprocess
from pathlib import Path

from maturin import *  # noqa: F403  (the other hooks of the build interface)
import maturin

_COMMANDS = ["derivgrind", "derivgrind-worker", "derivgrind-library-caller", "derivgrind-config", "tape-evaluation"]
_HERE = Path(__file__).resolve().parent


def _add_commands():
    root = _HERE.parent
    subprocess.run(["cargo", "build", "--release", "--bins"], cwd=root, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / "release"
    package = _HERE / "derivgrind"
    for part in ("bin", "include"):
        shutil.rmtree(package / part, ignore_errors=True)
    (package / "bin").mkdir()
    for command in _COMMANDS:
        shutil.copy2(target / command, package / "bin" / command)
    shutil.copytree(root / "crates" / "client" / "include", package / "include")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The hook that makes a wheel."""
    _add_commands()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
