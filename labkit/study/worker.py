"""A worker process of a sweep: it runs points until nobody sends any more.

``python -m labkit.study.worker``: requests come in through standard input, answers leave through what was
standard output. It ends when its parent is gone, also in the middle of a point.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import pickle
import queue
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from labkit.errors import LabkitError, MachineError
from labkit.process.imports import is_installed
from labkit.study.measure import Found, SweepJob
from labkit.study.worker_setup import fingerprint, settle

__all__ = ["answer", "main", "unpack_sent"]


class _Unpickler(pickle.Unpickler):
    """Lets classes that came by value be found by name in ``__main__``, as where they came from."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if not (module.startswith("cloudpickle") and name.startswith("_make_skeleton")):
            return found

        def make(*args: object) -> object:
            made = found(*args)
            if made.__module__ == "__main__" and made.__qualname__.isidentifier():
                setattr(sys.modules["__main__"], made.__qualname__, made)
            return made

        return make


def unpack_sent(data: bytes) -> Any:
    """Unpack what `labkit.real.travel.pack` packed."""
    return _Unpickler(io.BytesIO(data)).load()


def answer(job: SweepJob, point: bytes) -> bytes:
    """Run one point, and pack its result."""
    from labkit.process.by_value import dumps

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            found = job.find(unpack_sent(point))
        except Exception as error:  # of a runner of the caller's own: a serial sweep would raise it
            found = Found(rows=[error])
    found.printed, found.order = (out.getvalue(), err.getvalue()), fingerprint()
    try:
        return dumps(found)
    except Exception as error:  # pickling runs foreign code: anything may be raised
        failure = found.failure or MachineError(
            f"what was measured cannot be sent back from its process ({type(error).__name__}: {error})",
            code="lost-result",
        )
        plain = MachineError(str(failure), code=failure.code)
        return dumps(Found(failure=plain))


class _Modules:
    """The files of this process's modules that are not installed, each with its time when it was read."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._times: dict[str, int] = {}

    def note(self) -> None:
        """Note those that have arrived."""
        new = set(sys.modules) - self._names
        self._names |= new
        files = {getattr(sys.modules.get(name), "__file__", None) for name in new}
        self._times |= {file: _changed(file) for file in files if file and not is_installed(file)}

    def are_current(self) -> bool:
        """Whether none of them has changed."""
        return all(_changed(file) == before for file, before in self._times.items())


def _changed(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return -1


def main() -> None:
    """Serve the parent process."""
    answers: Connection[Any, Any] = Connection(os.dup(1), readable=False)
    os.dup2(2, 1)  # what compiled code prints must not mix with the answers
    faulthandler.enable()
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests,), daemon=True).start()
    request, modules = requests.get(), _Modules()
    while True:  # a setting and a job for each sweep, then its points
        with settle(request):
            try:
                job = unpack_sent(requests.get())
            except BaseException as error:  # unpickling runs foreign code: anything may be raised
                text = f"the program cannot be read in another process: {type(error).__name__}: {error}"
                answers.send(MachineError(text, code="not-picklable"))
                return
            modules.note()
            answers.send("ready")
            while not isinstance(request := requests.get(), dict):
                if request is None:
                    answers.send(modules.are_current())
                    continue
                answers.send(answer(job, request))
                modules.note()


def _read_requests(requests: queue.SimpleQueue[object]) -> None:
    """Read what the parent sends; leave with it, whatever is being run."""
    stream: Connection[object, object] = Connection(os.dup(0), writable=False)
    with contextlib.suppress(EOFError, OSError):
        while True:
            requests.put(stream.recv())
    os._exit(0)


if __name__ == "__main__":
    try:
        main()
    except LabkitError as error:
        sys.exit(str(error))
