"""The commands of a wheel: each becomes the one of the same name in the package."""

import os
import sys

from ._places import command_directories


def _become(name):
    for directory in command_directories():
        path = directory / name
        if path.is_file():
            os.execv(path, [name, *sys.argv[1:]])
    sys.exit(f"{name}: this installation of the Python package has no commands; install it again from the project")


def derivgrind():
    """``derivgrind``"""
    _become("derivgrind")


def tape_evaluation():
    """``tape-evaluation``"""
    _become("tape-evaluation")


def derivgrind_config():
    """``derivgrind-config``"""
    _become("derivgrind-config")


def library_caller():
    """``derivgrind-library-caller``"""
    _become("derivgrind-library-caller")
