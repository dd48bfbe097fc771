"""Communicators that a real run makes, and the messages of those with neighbours, noted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from labkit.comm.buffers import Vector
from labkit.comm.surface import MAKERS, METHODS, Method
from labkit.trace.recorder.ledger import Known, Ledger
from labkit.trace.recorder.sizes import Sizes, guarded, noted_methods

__all__ = ["Communicators"]

_Call = Callable[..., Any]

#: the colors and keys that ranks exchange: two numbers of four bytes
_SPLITS, _COLOR_AND_KEY_BYTES = ("Split", "Split_type"), 8


class Communicators:
    """Makes the calls that make communicators, and those to neighbours.

    Parameters
    ----------
    ledger : Ledger
    sizes : Sizes
    wrap : callable
        Returns a communicator of mpi4py's as one whose calls are noted.
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

    def _note(self, row: Method, original: _Call) -> _Call | None:
        """Return what makes a call to neighbours and notes it."""
        if row.kind != "neighbor" or row.form != "blocking":
            return None
        if not row.is_buffer:
            return self._objects(original, row.name.endswith("gather"))
        sizes_of = getattr(self, f"_{row.name.lower()}", None)
        return None if sizes_of is None else self._neighbors(original, sizes_of)

    # -- making ---------------------------------------------------------------------------------------------

    def _make(self, original: _Call, is_split: bool) -> _Call:
        ledger = self.ledger

        def noted(comm: Any, *arguments: Any, **named: Any) -> Any:
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

    def _make_group(self, original: _Call) -> _Call:
        ledger = self.ledger

        def noted(comm: Any, group: Any, tag: int = 0) -> Any:
            known = ledger.known(comm)
            result = original(comm, group, tag)
            if result != ledger.null:
                ledger.made_by_group(known, result, tag)
                ledger.plain(ledger.known(result), "barrier")
            return self.wrap(result)

        return noted

    def _free(self, original: _Call) -> _Call:
        ledger = self.ledger

        def noted(comm: Any) -> None:
            known, handle = ledger.known(comm), comm.handle
            ledger.joined(known, 0)
            original(comm)
            ledger.plain(known, "barrier")
            ledger.forget(handle)

        return noted

    def _free_lower(self, original: _Call) -> _Call:
        def call(self_: Any) -> None:
            is_own = self_ == self.ledger.null or self.ledger.known(self_).number < 4
            return original(self_) if is_own else self_.Free()  # type: ignore[no-any-return]

        return call

    # -- neighbours -----------------------------------------------------------------------------------------

    def _neighbors(self, original: _Call, sizes_of: _Call) -> _Call:
        ledger = self.ledger

        def noted(comm: Any, sendbuf: Any, recvbuf: Any) -> Any:
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

    def _objects(self, original: _Call, is_gather: bool) -> _Call:
        ledger = self.ledger

        def noted(comm: Any, sendobj: Any) -> Any:
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

    def _neighbor_allgather(self, sendbuf: Any, recvbuf: Any, sources: int, targets: int) -> Any:
        received = self.sizes.simple(recvbuf, sources).bytes if sources else 0
        return [self.sizes.bytes(sendbuf)] * targets, [received] * sources

    def _neighbor_allgatherv(self, sendbuf: Any, recvbuf: Any, sources: int, targets: int) -> Any:
        return [self.sizes.bytes(sendbuf)] * targets, self._table(recvbuf, sources)

    def _neighbor_alltoall(self, sendbuf: Any, recvbuf: Any, sources: int, targets: int) -> Any:
        sent = self.sizes.simple(sendbuf, targets).bytes if targets else 0
        received = self.sizes.simple(recvbuf, sources).bytes if sources else 0
        return [sent] * targets, [received] * sources

    def _neighbor_alltoallv(self, sendbuf: Any, recvbuf: Any, sources: int, targets: int) -> Any:
        return self._table(sendbuf, targets), self._table(recvbuf, sources)

    def _table(self, message: Any, blocks: int) -> list[int]:
        if blocks == 0:
            return []
        vector: Vector = self.sizes.vector(message, blocks)
        return [int(count) * vector.element_bytes for count in vector.counts]

    def _noted(
        self, known: Known, comm: Any, edges: tuple[list[int], list[int]], sent: Sequence[int],
        received: Sequence[int],
    ) -> None:  # fmt: skip
        """Note all receives, all sends, and one wait for everything.

        In a grid a block sent in one direction arrives in the opposite one; its number is in the tag, so that
        two ranks that are neighbours twice keep their messages apart. In a graph their order does.
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
