"""Communicators that a real run makes, and the messages of those with neighbours, noted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from labkit.comm.buffers import Vector
from labkit.trace.recorder.ledger import Known, Ledger
from labkit.trace.recorder.sizes import Sizes

__all__ = ["Communicators"]

_Call = Callable[..., Any]

#: what all ranks of a communicator make together: a barrier is noted, as the simulated ones agree by one
_TOGETHER = ("Dup", "Clone", "Dup_with_info", "Create", "Create_cart", "Create_graph", "Create_dist_graph",
             "Create_dist_graph_adjacent", "Sub")  # fmt: skip
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
        made: dict[str, Any] = {}
        for name in (*_TOGETHER, *_SPLITS):
            if name in own:
                made[name] = self._make(own[name], name in _SPLITS)
        if "Create_group" in own:
            made["Create_group"] = self._make_group(own["Create_group"])
        for name in ("Free", "Disconnect"):
            if name in own:
                made[name] = self._free(own[name])
        if "free" in own:
            made["free"] = self._free_lower(own["free"])
        for name, note in (
            ("Neighbor_allgather", self._equal_gathered), ("Neighbor_allgatherv", self._gathered),
            ("Neighbor_alltoall", self._equal_exchanged), ("Neighbor_alltoallv", self._exchanged),
        ):  # fmt: skip
            if name in own:
                made[name] = self._neighbors(own[name], note)
        for name in ("neighbor_allgather", "neighbor_alltoall"):
            if name in own:
                made[name] = self._objects(own[name], name.endswith("gather"))
        return made

    # -- making ---------------------------------------------------------------------------------------------

    def _make(self, original: _Call, is_split: bool) -> _Call:
        ledger, number = self.ledger, self.ledger.number(original.__name__)

        def call(self_: Any, *arguments: Any, **named: Any) -> Any:
            if ledger.is_busy:
                return original(self_, *arguments, **named)
            ledger.enter(number)
            try:
                known = ledger.known(self_)
                ledger.joined(known, _COLOR_AND_KEY_BYTES if is_split else 0)
                result = original(self_, *arguments, **named)
                if is_split:
                    ledger.plain(known, "allgather", _COLOR_AND_KEY_BYTES, 1)
                known.collectives += 1  # agreeing on a communicator counts as a collective, as in simulation
                if not is_split:
                    ledger.plain(known, "barrier")
                ledger.made(known, result)
                return self.wrap(result)
            finally:
                ledger.leave()

        return call

    def _make_group(self, original: _Call) -> _Call:
        ledger, number = self.ledger, self.ledger.number(original.__name__)

        def call(self_: Any, group: Any, tag: int = 0) -> Any:
            if ledger.is_busy:
                return original(self_, group, tag)
            ledger.enter(number)
            try:
                known = ledger.known(self_)
                result = original(self_, group, tag)
                if result != ledger.null:
                    ledger.made_by_group(known, result, tag)
                    ledger.plain(ledger.known(result), "barrier")
                return self.wrap(result)
            finally:
                ledger.leave()

        return call

    def _free(self, original: _Call) -> _Call:
        ledger, number = self.ledger, self.ledger.number(original.__name__)

        def call(self_: Any) -> None:
            if ledger.is_busy:
                return original(self_)  # type: ignore[no-any-return]
            ledger.enter(number)
            try:
                known, handle = ledger.known(self_), self_.handle
                ledger.joined(known, 0)
                original(self_)
                ledger.plain(known, "barrier")
                ledger.forget(handle)
            finally:
                ledger.leave()

        return call

    def _free_lower(self, original: _Call) -> _Call:
        def call(self_: Any) -> None:
            is_own = self_ == self.ledger.null or self.ledger.known(self_).number < 4
            return original(self_) if is_own else self_.Free()  # type: ignore[no-any-return]

        return call

    # -- neighbours -----------------------------------------------------------------------------------------

    def _neighbors(self, original: _Call, sizes_of: _Call) -> _Call:
        ledger, number = self.ledger, self.ledger.number(original.__name__)

        def call(self_: Any, sendbuf: Any, recvbuf: Any) -> Any:
            if ledger.is_busy:
                return original(self_, sendbuf, recvbuf)
            ledger.enter(number)
            try:
                known = ledger.known(self_)
                sources, targets = self_.inoutedges
                sent, received = sizes_of(sendbuf, recvbuf, len(sources), len(targets))
                ledger.joined(known, sum(sent))
                result = original(self_, sendbuf, recvbuf)
                self._note(known, self_, (sources, targets), sent, received)
                return result
            finally:
                ledger.leave()

        return call

    def _objects(self, original: _Call, is_gather: bool) -> _Call:
        ledger, number = self.ledger, self.ledger.number(original.__name__)

        def call(self_: Any, sendobj: Any) -> Any:
            if ledger.is_busy:
                return original(self_, sendobj)
            ledger.enter(number)
            try:
                known = ledger.known(self_)
                sources, targets = edges = self_.inoutedges
                ledger.dumped.clear()
                ledger.loaded.clear()
                ledger.joined(known, 0)
                result = original(self_, sendobj)
                sent = ledger.dumped * len(targets) if is_gather else list(ledger.dumped)
                ledger.sized(sum(sent))
                loaded = iter(ledger.loaded)
                received = [0 if source == ledger.no_proc else next(loaded) for source in sources]
                self._note(known, self_, edges, [8] * len(targets), [8] * len(sources))
                self._note(known, self_, edges, sent, received)
                return result
            finally:
                ledger.leave()

        return call

    def _equal_gathered(self, sendbuf: Any, recvbuf: Any, sources: int, targets: int) -> Any:
        received = self.sizes.simple(recvbuf, sources).bytes if sources else 0
        return [self.sizes.bytes(sendbuf)] * targets, [received] * sources

    def _gathered(self, sendbuf: Any, recvbuf: Any, sources: int, targets: int) -> Any:
        return [self.sizes.bytes(sendbuf)] * targets, self._table(recvbuf, sources)

    def _equal_exchanged(self, sendbuf: Any, recvbuf: Any, sources: int, targets: int) -> Any:
        sent = self.sizes.simple(sendbuf, targets).bytes if targets else 0
        received = self.sizes.simple(recvbuf, sources).bytes if sources else 0
        return [sent] * targets, [received] * sources

    def _exchanged(self, sendbuf: Any, recvbuf: Any, sources: int, targets: int) -> Any:
        return self._table(sendbuf, targets), self._table(recvbuf, sources)

    def _table(self, message: Any, blocks: int) -> list[int]:
        if blocks == 0:
            return []
        vector: Vector = self.sizes.vector(message, blocks)
        return [int(count) * vector.datatype.extent for count in vector.counts]

    def _note(
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
        log.is_quiet = True
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
        log.is_quiet = False
