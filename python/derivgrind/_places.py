"""Where the commands are."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def command_directories():
    """Directories that may have the commands: in a wheel, a build tree, an installed copy."""
    return [_PACKAGE / "bin", _PACKAGE.parent.parent, _PACKAGE.parents[3] / "bin" if len(_PACKAGE.parents) > 3 else _PACKAGE]
