"""What the tests have in common. The working directory has libfunctions.so, made from functions.c."""

import contextlib


@contextlib.contextmanager
def raises(kind, *parts):
    """The block raises an exception of this kind whose text has these parts."""
    try:
        yield
    except kind as error:
        text = str(error)
        missing = [part for part in parts if part not in text]
        assert not missing, f"{missing} not in {text!r}"
    else:
        raise AssertionError(f"no {kind.__name__}")
