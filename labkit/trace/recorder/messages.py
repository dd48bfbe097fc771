"""Sends, receives and probes of a real run, noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.trace.recorder.ledger import Known, Ledger
from labkit.trace.recorder.requests import Post, Requests
from labkit.trace.recorder.sizes import Sizes

__all__ = ["Messages"]

_Call = Callable[..., Any]
_Note = Callable[[Known, int, Any, Any], None]

#: sends: name -> synchronous, buffered, of an object, blocking
_SENDS = {
    "Send": (False, False, False, True), "send": (False, False, True, True),
    "Ssend": (True, False, False, True), "ssend": (True, False, True, True),
    "Bsend": (False, True, False, True), "bsend": (False, True, True, True),
    "Rsend": (False, False, False, True),
    "Isend": (False, False, False, False), "isend": (False, False, True, False),
    "Issend": (True, False, False, False), "issend": (True, False, True, False),
    "Ibsend": (False, True, False, False), "ibsend": (False, True, True, False),
    "Irsend": (False, False, False, False),
    "Send_init": (False, False, False, False), "Ssend_init": (True, False, False, False),
    "Bsend_init": (False, True, False, False), "Rsend_init": (False, False, False, False),
}  # fmt: skip

#: an object's receive takes whatever comes (as the simulator writes it); mpi4py's irecv has this room
_NO_BOUND, _IRECV_BYTES = (1 << 64) - 1, 32768


class Messages:
    """Makes the calls that note messages.

    Parameters
    ----------
    ledger : Ledger
    sizes : Sizes
    requests : Requests
    status : type
        ``mpi4py.MPI.Status``.
    """

    def __init__(self, ledger: Ledger, sizes: Sizes, requests: Requests, status: Any) -> None:
        self.ledger, self.sizes, self.requests, self.status = ledger, sizes, requests, status

    def calls(self, own: dict[str, Any]) -> dict[str, Any]:
        """Return recorded calls in place of those that a class of mpi4py defines.

        Parameters
        ----------
        own : dict
            What the class itself defines, by name.
        """
        anything, any_tag = self.ledger.any_source, self.ledger.any_tag
        made: dict[str, Any] = {}
        for name, kind in _SENDS.items():
            if name in own:
                made[name] = self._send(name, own[name], *kind)
        for name, is_object in (("Recv", False), ("recv", True)):
            if name in own:
                made[name] = self._receive(own[name], is_object, anything, any_tag)
        for name, is_object in (("Irecv", False), ("irecv", True), ("Recv_init", False)):
            if name in own:
                made[name] = self._ireceive(own[name], is_object, anything, any_tag)
        for name, is_object in (("Sendrecv", False), ("sendrecv", True)):
            if name in own:
                made[name] = self._exchange(own[name], is_object, anything, any_tag)
        if "Sendrecv_replace" in own:
            made["Sendrecv_replace"] = self._replace(own["Sendrecv_replace"], anything, any_tag)
        for name in ("Probe", "probe", "Mprobe", "mprobe"):
            if name in own:
                made[name] = self._look(own[name], anything, any_tag, self._note_probe)
        for name in ("Iprobe", "iprobe", "Improbe", "improbe"):
            if name in own:
                made[name] = self._look(own[name], anything, any_tag, self._note_poll)
        return made

    # -- sends ----------------------------------------------------------------------------------------------

    def _send(
        self, name: str, original: _Call, is_synchronous: bool, is_buffered: bool, is_object: bool,
        is_blocking: bool,
    ) -> _Call:  # fmt: skip
        ledger, log, no_proc = self.ledger, self.ledger.log, self.ledger.no_proc
        number = ledger.number(name)

        def noted(comm: Any, data: Any, dest: int, tag: int) -> Any:
            if ledger.is_busy:
                return original(comm, data, dest, tag)
            ledger.enter(number)
            try:
                known = ledger.known(comm)
                ledger.dumped.clear()
                result = original(comm, data, dest, tag)
                if dest == no_proc:
                    return result if is_blocking else self.requests.wrapped(result, None)
                size = ledger.dumped[0] if is_object else self.sizes.bytes(data)
                fields = (True, known.ranks[dest], tag, size, known.number, is_synchronous, is_buffered)
                if is_blocking:
                    log.waited([log.post(*fields, True)])
                    return result
                return self.requests.begun(result, Post(known, fields), name.endswith("_init"))
            finally:
                ledger.leave()

        def of_object(self_: Any, obj: Any, dest: int, tag: int = 0) -> Any:
            return noted(self_, obj, dest, tag)

        def of_buffer(self_: Any, buf: Any, dest: int, tag: int = 0) -> Any:
            return noted(self_, buf, dest, tag)

        return of_object if is_object else of_buffer

    # -- receives -------------------------------------------------------------------------------------------

    def _room(self, buffer: Any, is_object: bool, is_blocking: bool) -> int:
        """Return how much a receive takes."""
        if not is_object:
            return self.sizes.bytes(buffer)
        if buffer is None:
            return _NO_BOUND if is_blocking else _IRECV_BYTES
        return int(buffer) if hasattr(buffer, "__index__") else self.sizes.bytes(buffer)

    def _fields(self, known: Known, source: int, tag: int, room: int) -> tuple[Any, ...]:
        label = -1 if tag == self.ledger.any_tag else tag
        return False, self.ledger.world_peer(known, source), label, room, known.number, False, False

    def _receive(self, original: _Call, is_object: bool, anything: int, any_tag: int) -> _Call:
        ledger, number = self.ledger, self.ledger.number(original.__name__)

        def call(
            self_: Any, buf: Any = None, source: int = anything, tag: int = any_tag, status: Any = None
        ) -> Any:
            if ledger.is_busy:
                return original(self_, buf, source, tag, status)
            ledger.enter(number)
            try:
                known = ledger.known(self_)
                got = self.status() if status is None else status
                result = original(self_, buf, source, tag, got)
                if source != ledger.no_proc:
                    fields = self._fields(known, source, tag, self._room(buf, is_object, True))
                    post = Post(known, fields, None if is_object else self.sizes.unequal(buf))
                    self.requests.over([post.begin(ledger.log)], [post], [got])
                return result
            finally:
                ledger.leave()

        return call

    def _ireceive(self, original: _Call, is_object: bool, anything: int, any_tag: int) -> _Call:
        ledger, is_init = self.ledger, original.__name__.endswith("_init")
        number = ledger.number(original.__name__)

        def call(self_: Any, buf: Any = None, source: int = anything, tag: int = any_tag) -> Any:
            if ledger.is_busy:
                return original(self_, buf, source, tag)
            ledger.enter(number)
            try:
                known = ledger.known(self_)
                result = original(self_, buf, source, tag)
                if source == ledger.no_proc:
                    return self.requests.wrapped(result, None)
                fields = self._fields(known, source, tag, self._room(buf, is_object, False))
                post = Post(known, fields, None if is_object else self.sizes.unequal(buf))
                return self.requests.begun(result, post, is_init)
            finally:
                ledger.leave()

        return call

    # -- both at once ---------------------------------------------------------------------------------------

    def _exchange(self, original: _Call, is_object: bool, anything: int, any_tag: int) -> _Call:
        ledger, number = self.ledger, self.ledger.number(original.__name__)

        def noted(
            comm: Any, data: Any, ends: tuple[int, int], buffer: Any, origin: tuple[int, int], status: Any
        ) -> Any:
            if ledger.is_busy:
                return original(comm, data, *ends, buffer, *origin, status)
            ledger.enter(number)
            try:
                known = ledger.known(comm)
                got = self.status() if status is None else status
                ledger.dumped.clear()
                result = original(comm, data, *ends, buffer, *origin, got)
                size = 0
                if ends[0] != ledger.no_proc:
                    size = ledger.dumped[0] if is_object else self.sizes.bytes(data)
                room = self._room(buffer, is_object, True) if origin[0] != ledger.no_proc else 0
                self._exchanged(
                    known, ends, size, origin, room, got, None if is_object else self.sizes.unequal(buffer)
                )
                return result
            finally:
                ledger.leave()

        def of_objects(
            self_: Any, sendobj: Any, dest: int, sendtag: int = 0, recvbuf: Any = None,
            source: int = anything, recvtag: int = any_tag, status: Any = None,
        ) -> Any:  # fmt: skip
            return noted(self_, sendobj, (dest, sendtag), recvbuf, (source, recvtag), status)

        def of_buffers(
            self_: Any, sendbuf: Any, dest: int, sendtag: int = 0, recvbuf: Any = None,
            source: int = anything, recvtag: int = any_tag, status: Any = None,
        ) -> Any:  # fmt: skip
            return noted(self_, sendbuf, (dest, sendtag), recvbuf, (source, recvtag), status)

        return of_objects if is_object else of_buffers

    def _replace(self, original: _Call, anything: int, any_tag: int) -> _Call:
        ledger, number = self.ledger, self.ledger.number(original.__name__)

        def call(
            self_: Any, buf: Any, dest: int, sendtag: int = 0, source: int = anything, recvtag: int = any_tag,
            status: Any = None,
        ) -> Any:  # fmt: skip
            if ledger.is_busy:
                return original(self_, buf, dest, sendtag, source, recvtag, status)
            ledger.enter(number)
            try:
                known = ledger.known(self_)
                got = self.status() if status is None else status
                result = original(self_, buf, dest, sendtag, source, recvtag, got)
                room = self.sizes.bytes(buf)
                self._exchanged(
                    known, (dest, sendtag), room, (source, recvtag), room, got, self.sizes.unequal(buf)
                )
                return result
            finally:
                ledger.leave()

        return call

    def _exchanged(
        self, known: Known, ends: tuple[int, int], size: int, origin: tuple[int, int], room: int, status: Any,
        unequal: tuple[int, int] | None,
    ) -> None:  # fmt: skip
        """Note a send and a receive that were over together; with oneself nothing moves."""
        log, no_proc = self.ledger.log, self.ledger.no_proc
        if ends[0] == origin[0] == known.rank:
            return
        sent = None
        if ends[0] != no_proc:
            sent = log.post(True, known.ranks[ends[0]], ends[1], size, known.number, False, False, False)
        if origin[0] == no_proc:
            if sent is not None:
                log.waited([sent])
            return
        post = Post(known, self._fields(known, *origin, room), unequal)
        received = post.begin(log)
        post.match(self.ledger, received, status)
        log.waited([received] if sent is None else [received, sent])

    # -- probes ---------------------------------------------------------------------------------------------

    def _look(self, original: _Call, anything: int, any_tag: int, note: _Note) -> _Call:
        """Wrap a probe; `note(known, source, result, status)` writes down what it came to."""
        ledger, number = self.ledger, self.ledger.number(original.__name__)

        def call(self_: Any, source: int = anything, tag: int = any_tag, status: Any = None) -> Any:
            if ledger.is_busy:
                return original(self_, source, tag, status)
            ledger.enter(number)
            try:
                known = ledger.known(self_)
                got = self.status() if status is None else status
                result = original(self_, source, tag, got)
                note(known, source, result, got)
                return self.requests.message(result, known, got)
            finally:
                ledger.leave()

        return call

    def _note_probe(self, known: Known, source: int, result: Any, status: Any) -> None:
        if source != self.ledger.no_proc:
            self.ledger.log.probed(known.ranks[status.Get_source()], status.Get_tag(), known.number)

    def _note_poll(self, known: Known, source: int, result: Any, status: Any) -> None:
        if result is None or result is False:
            self.ledger.polled()
