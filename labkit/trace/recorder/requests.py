"""Requests and matched messages of a real run: what they were posted for, and when they were waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from labkit.comm.surface import REQUESTS, Method, made, over
from labkit.trace.recorder.ledger import Known, Ledger

__all__ = ["Post", "Requests", "received_bytes"]

_Call = Callable[..., Any]


def received_bytes(status: Any, unequal: tuple[int, int] | None) -> int:
    """Return what a receive got: an element as it is counted, where it is sent as another number of bytes."""
    size: int = status.count
    return size if unequal is None else size // unequal[0] * unequal[1]


class Post:
    """A send or a receive that a request stands for.

    Parameters
    ----------
    known : Known
        Its communicator.
    fields : tuple
        Arguments of `RankLog.post`, but whether it blocks.
    unequal : (int, int), optional
        A receive's bytes of an element as sent and as counted, where these differ.
    """

    __slots__ = ("fields", "known", "unequal")

    def __init__(self, known: Known, fields: tuple[Any, ...], unequal: tuple[int, int] | None = None) -> None:
        self.known, self.fields, self.unequal = known, fields, unequal

    def begin(self, log: Any) -> int:
        """Note that it is posted; the log's number of it."""
        number: int = log.post(*self.fields, False)
        return number

    def match(self, ledger: Ledger, number: int, status: Any) -> None:
        """Note what a receive got."""
        if self.fields[0]:
            return
        size = received_bytes(status, self.unequal)
        source = self.known.ranks[status.Get_source()]
        ledger.log.matched(number, source, status.Get_tag(), size)


class Requests:
    """Makes the classes of requests and messages that note what becomes of them.

    Parameters
    ----------
    ledger : Ledger
    mpi : module
        ``mpi4py.MPI``, before anything of it is replaced.
    message : type, optional
        What matched messages are; default: mpi4py's own.
    disown : callable, optional
        Is given a request of which the program gets a copy.
    """

    def __init__(
        self, ledger: Ledger, mpi: Any, message: Any = None, disown: Callable[[Any], None] | None = None
    ) -> None:
        self.ledger = ledger
        self.status: Any = mpi.Status
        self.undefined: int = mpi.UNDEFINED
        self._native_message: Any = mpi.Message
        self._native: tuple[Any, Any] = (mpi.Request, mpi.Prequest)
        self._disown = disown or (lambda request: None)
        message = message or mpi.Message
        both: dict[str, Any] = {
            "__module__": mpi.__name__, "__hash__": None, "_post": None, "_number": None, "_operation": None,
            "_joins": None,
        }  # fmt: skip
        ends = {row.name: self._ending(row, getattr(mpi.Request, row.name)) for row in REQUESTS}
        self.request: Any = type("Request", (mpi.Request,), {**both, **ends})
        own = {**both, "_is_persistent": True, **self._starts(mpi.Prequest)}
        self.persistent: Any = type("Prequest", (self.request, mpi.Prequest), own)
        told = {"__module__": mpi.__name__, "__hash__": None, "_envelope": None, "_order": 0}
        self.message_type: Any = type("Message", (message,), {**told, **self._receives(message)})

    # -- made by the calls of communicators -----------------------------------------------------------------

    def wrapped(self, request: Any, post: Post | None) -> Any:
        """Return a request that is noted: `post` is None for one with nobody."""
        made = self.request(request)
        made._post = post
        self._disown(request)
        return made

    def operating(self, result: Any, operation: int | None) -> Any:
        """Return what a call gave whose messages are not the program's; its requests are waited for."""
        if isinstance(result, self._native[1]):
            made = self.persistent(result)
        elif isinstance(result, self._native[0]):
            made = self.request(result)
            made._operation = operation
        else:
            return result
        self._disown(result)
        return made

    def begun(self, request: Any, post: Post, is_persistent: bool) -> Any:
        """Return the request of a post, which is noted unless it waits for its start."""
        if is_persistent:
            made = self.persistent(request)
            made._post = post
            self._disown(request)
            return made
        made = self.wrapped(request, post)
        made._number = post.begin(self.ledger.log)
        return made

    def message(self, found: Any, known: Known, status: Any) -> Any:
        """Return what a probe gave: a matched message is told where it comes from."""
        if not isinstance(found, self._native_message):
            return found
        made = self.message_type(found)
        if status.Get_source() != self.ledger.no_proc:
            made._envelope = (known, known.ranks[status.Get_source()], status.Get_tag())
            made._order = self.ledger.log.tick()
        return made

    # -- the ends of requests -------------------------------------------------------------------------------

    def over(self, numbers: Sequence[int], posts: Sequence[Post], statuses: Sequence[Any]) -> None:
        """Note one wait for all of these."""
        for number, post, status in zip(numbers, posts, statuses, strict=True):
            post.match(self.ledger, number, status)
        self.ledger.log.waited(list(numbers))

    def take(self, requests: Sequence[Any], statuses: Sequence[Any], is_together: bool) -> None:
        """Note that requests are over: by one wait, or by one each."""
        numbers, posts, found = [], [], []
        for request, status in zip(requests, statuses, strict=True):
            if getattr(request, "_operation", None) is not None:
                self.ledger.log.ended(request._operation)
                request._operation = None
            number = getattr(request, "_number", None)
            if number is None:
                continue  # with nobody, over already, or not the program's messages
            request._number = None
            if status.Is_cancelled():
                self.ledger.log.cancelled(number)
                continue
            numbers.append(number)
            posts.append(request._post)
            found.append(status)
        if is_together:
            if numbers:
                self.over(numbers, posts, found)
            return
        for one in zip(numbers, posts, found, strict=True):
            self.over(*([item] for item in one))

    # -- waits and tests ------------------------------------------------------------------------------------

    def _ending(self, row: Method, original: _Call) -> Any:
        """Return a wait or a test, of one request or of several."""
        ledger, number = self.ledger, self.ledger.number(row.name)
        is_one, has_one_status = row.kind == "one", row.kind in ("one", "any")
        is_together = row.base == "Wait" or (row.base == "Waitall" and row.form == "blocking")

        def call(whom: Any, status: Any) -> Any:
            if ledger.is_busy:
                return original(whom, status)
            ledger.enter(number)
            try:
                if has_one_status:
                    status = self.status() if status is None else status
                elif not isinstance(status, list):
                    status = list(status or ())
                result = original(whom, status)
                requests, statuses = [whom] if is_one else whom, [status] if has_one_status else status
                indices = _ended(row, result, self.undefined)
                if indices is not None:
                    requests = [requests[index] for index in indices]
                if indices is None or indices:
                    self.take(requests, statuses[: len(requests)], is_together)
                elif has_one_status or len(whom):
                    ledger.polled()
                return result
            finally:
                ledger.leave()

        made_ = made(row, "call(self, {args})" if is_one else "call({args})", {"call": call})
        return made_ if is_one else classmethod(made_)

    def _starts(self, native: Any) -> dict[str, Any]:
        """Return the starts of persistent requests, each of which posts, or is a collective, again."""
        ledger = self.ledger

        def begin(request: Any) -> None:
            if getattr(request, "_post", None) is not None:
                request._number = request._post.begin(ledger.log)

        one, several = ledger.number("Start"), ledger.number("Startall")

        def start(self_: Any) -> None:
            joins = getattr(self_, "_joins", None)
            ledger.enter(one if joins is None else ledger.number(joins[0]))
            try:
                if joins is not None:
                    self_._operation = ledger.joined(*joins[1:])
                native.Start(self_)
                begin(self_)
            finally:
                ledger.leave()

        def start_all(cls: Any, requests: Sequence[Any]) -> None:
            if any(getattr(request, "_joins", None) is not None for request in requests):
                for request in requests:  # each collective is its own call
                    request.Start()
                return
            ledger.enter(several)
            try:
                native.Startall(requests)
                for request in requests:
                    begin(request)
            finally:
                ledger.leave()

        return {"Start": start, "Startall": classmethod(start_all)}

    # -- matched messages -----------------------------------------------------------------------------------

    def _receives(self, native: Any) -> dict[str, Any]:
        """Return the receives of matched messages, and the probes that are called by the class."""
        ledger = self.ledger

        def posted(message: Any, room: int) -> Post | None:
            if message._envelope is None:
                return None
            known, source, tag = message._envelope
            return Post(known, (False, source, tag, room, known.number, False, False))

        def receive(original: _Call, arguments: tuple[Any, ...], message: Any, status: Any) -> Any:
            if ledger.is_busy:
                return original(message, *arguments, status)
            ledger.enter(ledger.number(original.__name__))
            try:
                got = self.status() if status is None else status
                post = posted(message, 1 << 60)
                result = original(message, *arguments, got)
                if post is not None:
                    number = post.begin(ledger.log)
                    ledger.log.ordered(number, message._order)
                    self.over([number], [post], [got])
                return result
            finally:
                ledger.leave()

        def begin(original: _Call, arguments: tuple[Any, ...], message: Any) -> Any:
            if ledger.is_busy:
                return original(message, *arguments)
            ledger.enter(ledger.number(original.__name__))
            try:
                post = posted(message, 1 << 60)
                result = original(message, *arguments)
                if post is None:
                    return self.wrapped(result, None)
                made = self.begun(result, post, False)
                ledger.log.ordered(made._number, message._order)
                return made
            finally:
                ledger.leave()

        def probe(name: str) -> Any:
            def call(cls: Any, comm: Any, *arguments: Any, **named: Any) -> Any:
                return getattr(comm, name)(*arguments, **named)

            return classmethod(call)

        return {
            "Recv": lambda self_, buf, status=None: receive(native.Recv, (buf,), self_, status),
            "recv": lambda self_, status=None: receive(native.recv, (), self_, status),
            "Irecv": lambda self_, buf: begin(native.Irecv, (buf,), self_),
            "irecv": lambda self_: begin(native.irecv, (), self_),
            "Probe": probe("Mprobe"), "probe": probe("mprobe"),
            "Iprobe": probe("Improbe"), "iprobe": probe("improbe"),
        }  # fmt: skip


def _ended(row: Method, result: Any, undefined: int) -> list[int] | None:
    """Return which requests a wait or a test has found over; None: all of them."""
    if row.kind == "some":
        return list((result if row.is_buffer else result[0]) or [])
    if row.kind == "any":
        index = _index(result, undefined)
        return [] if index < 0 else [index]
    return None if row.form == "blocking" or over(row, result) else []


def _index(result: Any, undefined: int) -> int:
    """Return the index that Waitany or Testany gave, -1 for none."""
    first: int = result[0] if isinstance(result, tuple) else result
    is_found = result[1] if isinstance(result, tuple) and isinstance(result[1], bool) else True
    return -1 if first == undefined or not is_found else first
