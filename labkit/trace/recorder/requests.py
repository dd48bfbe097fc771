"""Requests and matched messages of a real run: what they were posted for, and when they were waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from labkit.comm.buffers import Vector
from labkit.comm.surface import MAKERS, METHODS, REQUESTS, Method, made, over
from labkit.trace.recorder.ledger import Function, Known, Ledger, Sizes, guarded, noted_methods

if TYPE_CHECKING:
    from mpi4py.MPI import Comm, Status, Topocomm

__all__ = ["Communicators", "Post", "Requests", "received_bytes"]


def received_bytes(status: Status, unequal: tuple[int, int] | None) -> int:
    """Return what a receive got: the counted element, where it is sent as another number of bytes."""
    size: int = status.count
    return size if unequal is None else size // unequal[0] * unequal[1]


class Post:
    """A send or a receive that a request stands for.

    `known`: Its communicator.
    `fields`: Arguments of `RankLog.post`, but whether it blocks.
    `unequal`: A receive's bytes of an element as sent and as counted, where these differ.
    """

    __slots__ = ("fields", "known", "unequal")

    def __init__(
        self, known: Known, fields: tuple[object, ...], unequal: tuple[int, int] | None = None
    ) -> None:
        self.known, self.fields, self.unequal = known, fields, unequal

    def begin(self, log: Any) -> int:
        """Note that it is posted; the log's number of it."""
        number: int = log.post(*self.fields, False)
        return number

    def match(self, ledger: Ledger, number: int, status: Status) -> None:
        """Note what a receive got."""
        if self.fields[0]:
            return
        size = received_bytes(status, self.unequal)
        source = self.known.ranks[status.Get_source()]
        ledger.log.matched(number, source, status.Get_tag(), size)


class Requests:
    """Makes the classes of requests and messages that note what becomes of them.

    `mpi`: ``mpi4py.MPI``, before anything of it is replaced.
    `message`: What matched messages are; default: mpi4py's own.
    `disown`: Is given a request of which the program gets a copy.
    """

    def __init__(
        self,
        ledger: Ledger,
        mpi: ModuleType,
        message: Any = None,
        disown: Callable[[Any], None] | None = None,
    ) -> None:
        self.ledger = ledger
        self.status: type[Status] = mpi.Status
        self.undefined: int = mpi.UNDEFINED
        self._native_message: Any = mpi.Message
        self._native: tuple[Any, Any] = (mpi.Request, mpi.Prequest)
        self._disown = disown or (lambda request: None)
        message = message or mpi.Message
        both: dict[str, object] = {
            "__module__": mpi.__name__,
            "__hash__": None,
            "_post": None,
            "_number": None,
            "_operation": None,
            "_joins": None,
        }
        ends = {row.name: self._ending(row, getattr(mpi.Request, row.name)) for row in REQUESTS}
        self.request: Any = type("Request", (mpi.Request,), {**both, **ends})
        own = {**both, "_is_persistent": True, **self._starts(mpi.Prequest)}
        self.persistent: Any = type("Prequest", (self.request, mpi.Prequest), own)
        told = {"__module__": mpi.__name__, "__hash__": None, "_envelope": None, "_order": 0}
        self.message_type: Any = type("Message", (message,), {**told, **self._receives(message)})

    # -- made by the calls of communicators -----------------------------------------------------------------

    def wrapped(self, request: object, post: Post | None) -> Any:
        """Return a request that is noted: `post` is None for one with nobody."""
        made = self.request(request)
        made._post = post
        self._disown(request)
        return made

    def operating(self, result: object, operation: int | None) -> Any:
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

    def begun(self, request: object, post: Post, is_persistent: bool) -> Any:
        """Return the request of a post, which is noted unless it waits for its start."""
        if is_persistent:
            made = self.persistent(request)
            made._post = post
            self._disown(request)
            return made
        made = self.wrapped(request, post)
        made._number = post.begin(self.ledger.log)
        return made

    def message(self, found: object, known: Known, status: Status) -> Any:
        """Return what a probe gave: a matched message gets its source."""
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

    def _ending(self, row: Method, original: Function) -> Any:
        """Return a wait or a test, of one request or of several."""
        ledger, number = self.ledger, self.ledger.number(row.name)
        is_one, has_one_status = row.kind == "one", row.kind in ("one", "any")
        is_together = row.base == "Wait" or (row.base == "Waitall" and row.form == "blocking")

        def call(whom: Any, status: Any) -> object:
            if ledger.log.is_busy:
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

    def _starts(self, native: Any) -> dict[str, object]:
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

        def start_all(cls: object, requests: Sequence[Any]) -> None:
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

    def _receive(
        self, original: Function, arguments: tuple[object, ...], message: Any, status: Status | None
    ) -> Any:
        """Receive a matched message, and note it."""
        ledger = self.ledger
        if ledger.log.is_busy:
            return original(message, *arguments, status)
        ledger.enter(ledger.number(original.__name__))
        try:
            got = self.status() if status is None else status
            post = _posted(message, 1 << 60)
            result = original(message, *arguments, got)
            if post is not None:
                number = post.begin(ledger.log)
                ledger.log.ordered(number, message._order)
                self.over([number], [post], [got])
            return result
        finally:
            ledger.leave()

    def _begin_receive(self, original: Function, arguments: tuple[object, ...], message: Any) -> object:
        """Begin to receive a matched message, and note it."""
        ledger = self.ledger
        if ledger.log.is_busy:
            return original(message, *arguments)
        ledger.enter(ledger.number(original.__name__))
        try:
            post = _posted(message, 1 << 60)
            result = original(message, *arguments)
            if post is None:
                return self.wrapped(result, None)
            made = self.begun(result, post, False)
            ledger.log.ordered(made._number, message._order)
            return made
        finally:
            ledger.leave()

    def _receives(self, native: Any) -> dict[str, object]:
        """Return the receives of matched messages, and the probes that are called by the class."""
        receive, begin = self._receive, self._begin_receive

        def probe(name: str) -> Any:
            def call(cls: object, comm: Comm, *arguments: Any, **named: Any) -> Any:
                return getattr(comm, name)(*arguments, **named)

            return classmethod(call)

        return {
            "Recv": lambda self_, buf, status=None: receive(native.Recv, (buf,), self_, status),
            "recv": lambda self_, status=None: receive(native.recv, (), self_, status),
            "Irecv": lambda self_, buf: begin(native.Irecv, (buf,), self_),
            "irecv": lambda self_: begin(native.irecv, (), self_),
            "Probe": probe("Mprobe"),
            "probe": probe("mprobe"),
            "Iprobe": probe("Improbe"),
            "iprobe": probe("improbe"),
        }


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


# Communicators that a real run makes, and the messages of those with neighbors, noted.


#: the colors and keys that ranks exchange: two numbers of four bytes
_SPLITS, _COLOR_AND_KEY_BYTES = ("Split", "Split_type"), 8


class Communicators:
    """Makes the calls that make communicators, and those to neighbors.

    `wrap`: Returns a communicator of mpi4py's as one whose calls are noted.
    """

    def __init__(self, ledger: Ledger, sizes: Sizes, wrap: Callable[[Any], Any]) -> None:
        self.ledger, self.sizes, self.wrap = ledger, sizes, wrap

    def calls(self, own: dict[str, Any]) -> dict[str, Any]:
        """Return recorded calls in place of those that a class of mpi4py defines."""
        made = noted_methods(self.ledger, own, METHODS, self._note)
        for name, is_of_all in MAKERS.items():
            if name in own and name != "Create_intercomm":
                original = own[name]
                note = self._make(original, name in _SPLITS) if is_of_all else self._make_group(original)
                made[name] = guarded(self.ledger, name, original, note)
        for name in ("Free", "Disconnect"):
            if name in own:
                made[name] = guarded(self.ledger, name, own[name], self._free(own[name]))
        if "free" in own:
            made["free"] = self._free_lower(own["free"])
        return made

    def _note(self, row: Method, original: Function) -> Function | None:
        """Return what makes a call to neighbors and notes it."""
        if row.kind != "neighbor" or row.form != "blocking":
            return None
        if not row.is_buffer:
            return self._objects(original, row.name.endswith("gather"))
        sizes_of = getattr(self, f"_{row.name.lower()}", None)
        return None if sizes_of is None else self._neighbors(original, sizes_of)

    # -- making ---------------------------------------------------------------------------------------------

    def _make(self, original: Function, is_split: bool) -> Function:
        ledger = self.ledger

        def noted(comm: Comm, *arguments: object, **named: object) -> object:
            known = ledger.known(comm)
            ledger.joined(known, _COLOR_AND_KEY_BYTES if is_split else 0)
            result = original(comm, *arguments, **named)
            if is_split:
                ledger.plain(known, "allgather", _COLOR_AND_KEY_BYTES, 1)
            known.collectives += 1  # agreeing on a communicator counts as a collective, as in simulation
            if not is_split:
                ledger.plain(known, "barrier")
            ledger.made(known, result)
            return self.wrap(result)

        return noted

    def _make_group(self, original: Function) -> Function:
        ledger = self.ledger

        def noted(comm: Comm, group: object, tag: int = 0) -> object:
            known = ledger.known(comm)
            result = original(comm, group, tag)
            if result != ledger.null:
                ledger.made_by_group(known, result, tag)
                ledger.plain(ledger.known(result), "barrier")
            return self.wrap(result)

        return noted

    def _free(self, original: Function) -> Function:
        ledger = self.ledger

        def noted(comm: Comm) -> None:
            known, handle = ledger.known(comm), comm.handle
            ledger.joined(known, 0)
            original(comm)
            ledger.plain(known, "barrier")
            ledger.forget(handle)

        return noted

    def _free_lower(self, original: Function) -> Function:
        def call(self_: Any) -> None:
            is_own = self_ == self.ledger.null or self.ledger.known(self_).number < 4
            return original(self_) if is_own else self_.Free()  # type: ignore[no-any-return]

        return call

    # -- neighbors -----------------------------------------------------------------------------------------

    def _neighbors(self, original: Function, sizes_of: Function) -> Function:
        ledger = self.ledger

        def noted(comm: Topocomm, sendbuf: object, recvbuf: object) -> object:
            known = ledger.known(comm)
            sources, targets = comm.inoutedges
            sent, received = sizes_of(sendbuf, recvbuf, len(sources), len(targets))
            ledger.joined(known, sum(sent))
            ledger.hears(known, sources)
            result = original(comm, sendbuf, recvbuf)
            with ledger.quiet():
                self._noted(known, comm, (sources, targets), sent, received)
            return result

        return noted

    def _objects(self, original: Function, is_gather: bool) -> Function:
        ledger = self.ledger

        def noted(comm: Topocomm, sendobj: object) -> object:
            known = ledger.known(comm)
            sources, targets = edges = comm.inoutedges
            ledger.dumped.clear()
            ledger.loaded.clear()
            ledger.joined(known, 0)
            ledger.hears(known, sources)
            result = original(comm, sendobj)
            sent = ledger.dumped * len(targets) if is_gather else list(ledger.dumped)
            ledger.sized(sum(sent))
            loaded = iter(ledger.loaded)
            received = [0 if source == ledger.no_proc else next(loaded) for source in sources]
            with ledger.quiet():
                self._noted(known, comm, edges, [8] * len(targets), [8] * len(sources))
                self._noted(known, comm, edges, sent, received)
            return result

        return noted

    def _neighbor_allgather(self, sendbuf: object, recvbuf: object, sources: int, targets: int) -> object:
        received = self.sizes.simple(recvbuf, sources).bytes if sources else 0
        return [self.sizes.bytes(sendbuf)] * targets, [received] * sources

    def _neighbor_allgatherv(self, sendbuf: object, recvbuf: object, sources: int, targets: int) -> object:
        return [self.sizes.bytes(sendbuf)] * targets, self._table(recvbuf, sources)

    def _neighbor_alltoall(self, sendbuf: object, recvbuf: object, sources: int, targets: int) -> object:
        sent = self.sizes.simple(sendbuf, targets).bytes if targets else 0
        received = self.sizes.simple(recvbuf, sources).bytes if sources else 0
        return [sent] * targets, [received] * sources

    def _neighbor_alltoallv(self, sendbuf: object, recvbuf: object, sources: int, targets: int) -> object:
        return self._table(sendbuf, targets), self._table(recvbuf, sources)

    def _table(self, message: object, blocks: int) -> list[int]:
        if blocks == 0:
            return []
        vector: Vector = self.sizes.vector(message, blocks)
        return [int(count) * vector.element_bytes for count in vector.counts]

    def _noted(
        self,
        known: Known,
        comm: Comm,
        edges: tuple[list[int], list[int]],
        sent: Sequence[int],
        received: Sequence[int],
    ) -> None:
        """Note all receives, all sends, and one wait for everything.

        In a grid a block sent in one direction arrives in the opposite one; its number is in the tag, so that
        two ranks that are neighbors twice keep their messages apart. In a graph their order does.
        """
        if not self.ledger.has_lines:
            return
        log, no_proc, number = self.ledger.log, self.ledger.no_proc, known.number | 1
        base = known.private_tag() & 0x00FFFFFF | 0x40000000
        has_grid = hasattr(type(comm), "Get_cart_rank")
        posts = []
        for i, (source, length) in enumerate(zip(edges[0], received, strict=True)):
            if source != no_proc:
                tag = base | (i ^ 1) << 24 if has_grid else base
                posts.append(log.post(False, known.ranks[source], tag, length, number, False, False, False))
                log.matched(posts[-1], known.ranks[source], tag, length)
        for i, (target, length) in enumerate(zip(edges[1], sent, strict=True)):
            if target != no_proc:
                tag = base | i << 24 if has_grid else base
                posts.append(log.post(True, known.ranks[target], tag, length, number, False, False, False))
        if posts:
            log.waited(posts)


def _posted(message: Any, room: int) -> Post | None:
    """Return the receive of a matched message, if its envelope was seen."""
    if message._envelope is None:
        return None
    known, source, tag = message._envelope
    return Post(known, (False, source, tag, room, known.number, False, False))
