"""A program in a rank of its own: unpacked, called, and its result packed; the same on every real machine."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from labkit.real.seeds import seed_rank

__all__ = ["ResultError", "flush_streams", "library_of", "load_program", "pack_result", "until_exit"]


class ResultError(Exception):
    """The result cannot be sent back."""


def load_program(
    header: Mapping[str, Any], payload: bytes, rank: int, repetition: int, comm: Callable[[], Any]
) -> Callable[[], Any]:
    """Unpack the program anew, with seeds of its own: a repetition must not see what the last one changed.

    Parameters
    ----------
    header, payload
        As `labkit.real.travel.pack_job` made them.
    rank, repetition : int
    comm : callable
        Returns the communicator that a function gets.
    """
    seed_rank(header["seed"] + repetition, rank)
    if header["kind"] == "script":
        return lambda: _run_script(header["script"], header["argv"])
    program, args, kwargs = pickle.loads(payload)
    return lambda: program(comm(), *args, **kwargs)


def _run_script(path: str, argv: list[str]) -> None:
    import runpy

    sys.argv[:] = [path, *argv]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    runpy.run_path(path, run_name="__main__")


def until_exit(call: Callable[[], Any]) -> Any:
    """Call the program; `sys.exit(0)` is an ordinary end."""
    try:
        return call()
    except SystemExit as error:
        if error.code in (None, 0):
            return None
        raise


def flush_streams() -> None:
    """Write out what the program has printed so far."""
    for stream in {sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__}:
        with contextlib.suppress(Exception):
            stream.flush()  # type: ignore[union-attr]


def pack_result(result: Any, file: BinaryIO, rank: int) -> None:
    """Pickle a rank's result into a file.

    Raises
    ------
    ResultError
        It cannot be pickled.
    OSError
        There is no room for it.
    """
    import cloudpickle

    try:
        cloudpickle.dump(result, file)
    except OSError:
        raise
    except Exception as error:  # pickling runs foreign code: anything may be raised
        text = " ".join(str(error).split())
        why = f"{type(error).__name__}: {text}" if text else type(error).__name__
        raise ResultError(
            f"the result of rank {rank}, a {type(result).__name__}, cannot be sent back: {why}; return plain "
            "data (numbers, strings, arrays, lists, ...)"
        ) from error


def library_of(mpi: Any) -> str:
    """Return the MPI library's name and version in its own words, without its build details."""
    words = str(mpi.Get_library_version()).replace("\0", "").split("\n")[0]
    return " ".join(words.split(",")[0].split())
