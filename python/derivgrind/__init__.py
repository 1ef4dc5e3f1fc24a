"""Exact derivatives of compiled code.

For scripts that run under the tool (``derivgrind grad -- python3 script.py``): :func:`inputf`, :func:`outputf`,
:func:`set_dotvalue`, :func:`get_dotvalue`.

For scripts that do not, but call functions of compiled libraries: :func:`load`.

Recordings are evaluated by the module :mod:`derivgrind_tape`.
"""

from ._library import Function, Library, load, out
from ._native import CallError, CallTimeout, Error, LoadError, PrototypeError, TapeError
from ._requests import get_dotvalue, inputf, mode, outputf, set_dotvalue

__all__ = [
    "CallError",
    "CallTimeout",
    "Error",
    "Function",
    "Library",
    "LoadError",
    "PrototypeError",
    "TapeError",
    "get_dotvalue",
    "inputf",
    "load",
    "mode",
    "out",
    "outputf",
    "set_dotvalue",
]
