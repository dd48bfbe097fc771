"""Standard input of a program in separate processes: a text, an open file, a terminal, or nothing."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from labkit.errors import ProgramError

__all__ = ["given_input"]


@contextlib.contextmanager
def given_input(what: Any, *, is_relayed: bool = False) -> Iterator[int]:
    """Yield a descriptor for the ``stdin`` of a child process."""
    if what is None:
        yield subprocess.DEVNULL
    elif isinstance(what, str):
        with tempfile.TemporaryFile() as file:
            file.write(what.encode())
            file.seek(0)
            yield file.fileno()
    else:
        descriptor = _descriptor(what)
        if is_relayed and os.isatty(descriptor):
            with _relay(descriptor) as end:
                yield end
        else:
            yield descriptor


def _descriptor(what: Any) -> int:
    try:
        number = what if isinstance(what, int) else what.fileno()
        os.fstat(number)
    except (AttributeError, OSError, ValueError):
        raise ProgramError(
            f"stdin must be a string, an open file or its descriptor, got {type(what).__name__}"
        ) from None
    return int(number)


@contextlib.contextmanager
def _relay(terminal: int) -> Iterator[int]:
    """Yield the end of a pipe into which another thread writes what comes from a terminal."""
    read, write = os.pipe()
    stop_read, stop_write = os.pipe()

    def hand_on() -> None:
        with contextlib.suppress(OSError):
            while True:
                ready, _, _ = select.select([terminal, stop_read], [], [])
                data = b"" if stop_read in ready else os.read(terminal, 65536)
                if not data:
                    break
                os.write(write, data)
        os.close(write)

    thread = threading.Thread(target=hand_on, name="labkit-stdin", daemon=True)
    thread.start()
    try:
        yield read
    finally:
        os.close(stop_write)
        thread.join(1.0)
        os.close(read)
        os.close(stop_read)
