"""Objects as bytes: `MPI.pickle`, and classes that every simulated rank has its own copy of."""

from __future__ import annotations

import contextlib
import pickle as _pickle
from collections.abc import Callable, Iterator
from typing import Any

from labkit import _kernels
from labkit.comm.handles.base import public

__all__ = ["Pickle", "pickle", "raw", "use_in_run"]

_Dumps = Callable[..., bytes]
_Loads = Callable[[Any], Any]


@public
class Pickle:
    """Turns objects into bytes and back; `dumps` and `loads` can be replaced, as in mpi4py.

    Parameters
    ----------
    dumps, loads : callable, optional
        Default: those of `pickle`.
    protocol : int, optional
        Passed to `dumps`.
    """

    def __init__(
        self,
        dumps: _Dumps | None = None,
        loads: _Loads | None = None,
        protocol: int | None = None,
        threshold: int | None = None,
    ) -> None:
        self._dumps: _Dumps = _pickle.dumps if dumps is None else dumps
        self._loads: _Loads = _pickle.loads if loads is None else loads
        self._protocol = _pickle.HIGHEST_PROTOCOL if protocol is None and dumps is None else protocol
        self.THRESHOLD = threshold
        if globals().get("pickle", self) is self:
            use(self._dumps, self._loads, self._protocol)

    @property
    def PROTOCOL(self) -> int | None:
        """Pickle protocol."""
        return self._protocol

    @PROTOCOL.setter
    def PROTOCOL(self, protocol: int | None) -> None:
        self._protocol = protocol
        if globals().get("pickle") is self:
            use(self._dumps, self._loads, protocol)

    @property
    def THRESHOLD(self) -> int:
        """Bytes from which `dumps_oob` leaves a buffer out of band; None sets the default, 256 KiB."""
        return self._threshold

    @THRESHOLD.setter
    def THRESHOLD(self, threshold: int | None) -> None:
        self._threshold = 2**18 if threshold is None else threshold

    @property
    def is_default(self) -> bool:
        """Whether it uses Python's own pickle."""
        return self._dumps is _pickle.dumps and self._loads is _pickle.loads

    def dumps(self, obj: object) -> bytes:
        """Return the object as bytes."""
        if _of_run is not None and self.is_default:
            return _of_run(obj, self._protocol)
        return self._dumps(obj) if self._protocol is None else self._dumps(obj, self._protocol)

    def loads(self, data: object) -> Any:
        """Return the object from bytes."""
        return self._loads(data)

    def dumps_oob(self, obj: object) -> tuple[bytes, list[Any]]:
        """Return the object as bytes, and its large buffers separately."""
        if not self.is_default:  # its own way knows nothing of buffers
            return self.dumps(obj), []
        buffers: list[object] = []

        def keep(one: _pickle.PickleBuffer) -> bool:
            view = one.raw()
            if view.nbytes < self.THRESHOLD:
                return True
            buffers.append(_kernels.Buffer.frombuffer(view, view.readonly))
            return False

        make = _of_run or _pickle.dumps
        return make(obj, max(self._protocol or 5, 5), buffer_callback=keep), buffers

    def loads_oob(self, data: Any, buffers: Any) -> Any:
        """Return the object from bytes and its separate buffers."""
        if not self.is_default:
            return self.loads(data)
        return _pickle.loads(data, buffers=buffers)


def use(dumps: _Dumps, loads: _Loads, protocol: int | None) -> None:
    """Give the compiled calls the functions that turn objects into bytes."""
    _kernels.register_python_side({"dumps": dumps, "loads": loads, "protocol": protocol})


@contextlib.contextmanager
def raw() -> Iterator[None]:
    """Let the lower-case calls carry bytes unchanged: nothing is pickled, and no pickle opened."""
    before = pickle._dumps, pickle._loads
    pickle._dumps, pickle._loads = lambda data, *_: data, bytes
    use(pickle._dumps, pickle._loads, None)
    try:
        yield
    finally:
        pickle._dumps, pickle._loads = before
        use_in_run(None)


def use_in_run(dumps: _Dumps | None) -> None:
    """Let a run's own `dumps` replace Python's for its messages; None ends that."""
    global _of_run
    _of_run = dumps
    if pickle.is_default:
        use(dumps or _pickle.dumps, _pickle.loads, pickle.PROTOCOL)


_of_run: _Dumps | None = None
pickle = Pickle()
