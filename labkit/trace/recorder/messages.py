"""Sends, receives and probes of a real run, noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.comm.surface import METHODS, Method
from labkit.trace.recorder.ledger import Known, Ledger
from labkit.trace.recorder.methods import noted_methods
from labkit.trace.recorder.requests import Post, Requests, received_bytes
from labkit.trace.recorder.sizes import Sizes

__all__ = ["Messages"]

_Call = Callable[..., Any]

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
        return noted_methods(self.ledger, own, METHODS, self._note)

    def _note(self, row: Method, original: _Call) -> _Call | None:
        if row.kind == "exchange":
            if row.form != "blocking":
                return None
            return (self._replace if row.base == "Sendrecv_replace" else self._exchange)(row, original)
        kinds = {"send": self._send, "receive": self._receive, "probe": self._look}
        return kinds[row.kind](row, original) if row.kind in kinds else None

    # -- sends ----------------------------------------------------------------------------------------------

    def _send(self, row: Method, original: _Call) -> _Call:
        ledger, log, no_proc = self.ledger, self.ledger.log, self.ledger.no_proc
        is_synchronous, is_buffered = (row.base.lower() == f"{mode}send" for mode in "sb")
        is_blocking, is_init, is_buffer = row.form == "blocking", row.form == "persistent", row.is_buffer

        def noted(comm: Any, data: Any, dest: int, tag: int) -> Any:
            known = ledger.known(comm)
            ledger.dumped.clear()
            result = original(comm, data, dest, tag)
            if dest == no_proc:
                return result if is_blocking else self.requests.wrapped(result, None)
            size = self.sizes.bytes(data) if is_buffer else ledger.dumped[0]
            if is_blocking:
                log.sent(known.ranks[dest], tag, size, known.number, is_synchronous, is_buffered)
                return result
            fields = (True, known.ranks[dest], tag, size, known.number, is_synchronous, is_buffered)
            return self.requests.begun(result, Post(known, fields), is_init)

        return noted

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

    def _receive(self, row: Method, original: _Call) -> _Call:
        ledger, is_buffer, is_init = self.ledger, row.is_buffer, row.form == "persistent"
        log = ledger.log

        def noted(comm: Any, buf: Any, source: int, tag: int, status: Any) -> Any:
            known = ledger.known(comm)
            got = self.status() if status is None else status
            result = original(comm, buf, source, tag, got)
            if source != ledger.no_proc:
                label = -1 if tag == ledger.any_tag else tag
                room = self._room(buf, not is_buffer, True)
                size = received_bytes(got, self.sizes.unequal(buf) if is_buffer else None)
                log.received(
                    ledger.world_peer(known, source), label, room, known.number,
                    known.ranks[got.Get_source()], got.Get_tag(), size,
                )  # fmt: skip
            return result

        def begun(comm: Any, buf: Any, source: int, tag: int) -> Any:
            known = ledger.known(comm)
            result = original(comm, buf, source, tag)
            if source == ledger.no_proc:
                return self.requests.wrapped(result, None)
            fields = self._fields(known, source, tag, self._room(buf, not is_buffer, False))
            post = Post(known, fields, self.sizes.unequal(buf) if is_buffer else None)
            return self.requests.begun(result, post, is_init)

        return noted if row.form == "blocking" else begun

    # -- both at once ---------------------------------------------------------------------------------------

    def _exchange(self, row: Method, original: _Call) -> _Call:
        ledger, is_buffer = self.ledger, row.is_buffer

        def noted(
            comm: Any, data: Any, dest: int, sendtag: int, buffer: Any, source: int, recvtag: int, status: Any
        ) -> Any:
            known = ledger.known(comm)
            got = self.status() if status is None else status
            ledger.dumped.clear()
            result = original(comm, data, dest, sendtag, buffer, source, recvtag, got)
            size = 0
            if dest != ledger.no_proc:
                size = self.sizes.bytes(data) if is_buffer else ledger.dumped[0]
            room = self._room(buffer, not is_buffer, True) if source != ledger.no_proc else 0
            unequal = self.sizes.unequal(buffer) if is_buffer else None
            self._exchanged(known, (dest, sendtag), size, (source, recvtag), room, got, unequal)
            return result

        return noted

    def _replace(self, row: Method, original: _Call) -> _Call:
        def noted(
            comm: Any, buf: Any, dest: int, sendtag: int, source: int, recvtag: int, status: Any
        ) -> Any:
            known = self.ledger.known(comm)
            got = self.status() if status is None else status
            result = original(comm, buf, dest, sendtag, source, recvtag, got)
            room, unequal = self.sizes.bytes(buf), self.sizes.unequal(buf)
            self._exchanged(known, (dest, sendtag), room, (source, recvtag), room, got, unequal)
            return result

        return noted

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

    def _look(self, row: Method, original: _Call) -> _Call:
        ledger, is_blocking = self.ledger, row.form == "blocking"

        def noted(comm: Any, source: int, tag: int, status: Any) -> Any:
            known = ledger.known(comm)
            got = self.status() if status is None else status
            result = original(comm, source, tag, got)
            if result is None or result is False:
                ledger.polled()
            elif is_blocking and source != ledger.no_proc:
                ledger.log.probed(known.ranks[got.Get_source()], got.Get_tag(), known.number)
            return self.requests.message(result, known, got)

        return noted
