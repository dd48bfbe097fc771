"""Collectives on Python objects of a real run: the messages that mpi4py makes of them.

mpi4py tells the sizes of the pickles first, then sends these; reductions go over trees of messages. The
simulated communicators do the same, so that the traces agree. Sizes come from mpi4py's own pickling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from labkit.comm.surface import METHODS, Method
from labkit.trace.recorder.collectives import ROOTED
from labkit.trace.recorder.ledger import Known, Ledger
from labkit.trace.recorder.methods import noted_methods

__all__ = ["Objects"]

_Call = Callable[..., Any]

_REDUCTIONS = ("reduce", "allreduce", "scan", "exscan")


class Objects:
    """Makes the calls that note collectives on objects.

    Parameters
    ----------
    ledger : Ledger
    is_naive : bool
        Whether mpi4py gathers objects instead of reducing them over trees (``mpi4py.rc.fast_reduce``).
    """

    def __init__(self, ledger: Ledger, is_naive: bool) -> None:
        self.ledger, self.is_naive = ledger, is_naive

    def calls(self, own: dict[str, Any]) -> dict[str, Any]:
        """Return recorded calls in place of those that a class of mpi4py defines."""
        return noted_methods(self.ledger, own, METHODS, self._note)

    def _note(self, row: Method, original: _Call) -> _Call | None:
        """Return what makes the call and notes what came of it."""
        name, ledger = row.name, self.ledger
        if row.kind != "collective" or row.is_buffer or name == "barrier":
            return None
        note = getattr(self, f"_note_{name}")
        is_rooted, has_blocks = name in ROOTED, name in ("alltoall", "scatter") and ledger.has_times
        is_refused = self.is_naive and ledger.has_lines and name in _REDUCTIONS

        def noted(comm: Any, *arguments: Any) -> Any:
            if is_refused:
                raise ledger.missing(f"Comm.{name}", "mpi4py.rc.fast_reduce is off")
            known = ledger.known(comm)
            ledger.dumped.clear()
            ledger.loaded.clear()
            roots = arguments[-1:] if is_rooted else ()
            number = ledger.joined(known, 0, *roots)
            result = original(comm, *arguments)
            ledger.sized(sum(ledger.dumped))
            if has_blocks and len(ledger.dumped) == known.size:
                ledger.gave(number, list(ledger.dumped))
            if ledger.has_lines:
                with ledger.quiet():
                    note(known, *roots)
            return result

        return noted

    # -- what is noted --------------------------------------------------------------------------------------

    def _note_bcast(self, known: Known, root: int) -> None:
        self.ledger.plain(known, "bcast", 8, 1, root)
        self.ledger.plain(known, "bcast", 1, self.ledger.loaded[0], root)

    def _note_gather(self, known: Known, root: int) -> None:
        self.ledger.plain(known, "gather", 8, 1, root)
        received = self.ledger.loaded if known.rank == root else [0] * known.size
        self.ledger.tables(known, "gatherv", self.ledger.dumped, received, root)

    def _note_scatter(self, known: Known, root: int) -> None:
        self.ledger.plain(known, "scatter", 8, 1, root)
        sent = self.ledger.dumped if known.rank == root else [0] * known.size
        self.ledger.tables(known, "scatterv", sent, self.ledger.loaded, root)

    def _note_allgather(self, known: Known) -> None:
        self.ledger.plain(known, "allgather", 8, 1)
        self.ledger.tables(known, "allgatherv", self.ledger.dumped, self.ledger.loaded)

    def _note_alltoall(self, known: Known) -> None:
        self.ledger.plain(known, "alltoall", 8, 1)
        self.ledger.tables(known, "alltoallv", self.ledger.dumped, self.ledger.loaded)

    # -- trees of messages ----------------------------------------------------------------------------------

    def _note_reduce(self, known: Known, root: int) -> None:
        self._note_tree(known, root)

    def _note_tree(self, known: Known, root: int) -> Iterator[int]:
        """Note a reduction over a binomial tree to rank 0, which sends it on; return the sizes left."""
        dumped, loaded = iter(self.ledger.dumped), iter(self.ledger.loaded)
        next(dumped), next(loaded)  # mpi4py copies the object first
        rank, size, tag = known.rank, known.size, known.private_tag()
        mask = 1
        while mask < size:
            if rank & mask:
                self._message(known, True, rank & ~mask, tag, next(dumped))
                break
            if rank | mask < size:
                self._message(known, False, rank | mask, tag, next(loaded))
            mask <<= 1
        if root != 0 and rank == 0:
            self._message(known, True, root, tag, next(dumped))
        elif root != 0 and rank == root:
            self._message(known, False, 0, tag, next(loaded))
        return loaded

    def _note_allreduce(self, known: Known) -> None:
        size = next(self._note_tree(known, 0))
        self.ledger.plain(known, "bcast", 8, 1)
        self.ledger.plain(known, "bcast", 1, size)

    def _note_scan(self, known: Known) -> None:
        """Note a prefix reduction by recursive doubling."""
        dumped, loaded = iter(self.ledger.dumped), iter(self.ledger.loaded)
        next(dumped), next(loaded)
        tag, mask = known.private_tag(), 1
        while mask < known.size:
            peer = known.rank ^ mask
            if peer < known.size:
                self._exchange(known, peer, tag, 8, 8)
                self._exchange(known, peer, tag, next(dumped), next(loaded))
            mask <<= 1

    _note_exscan = _note_scan

    def _message(self, known: Known, is_send: bool, peer: int, tag: int, size: int) -> None:
        """Note the size's message and the object's."""
        log = self.ledger.log
        for length in (8, size):
            post = log.post(is_send, known.ranks[peer], tag, length, known.number | 1, False, False, is_send)
            if not is_send:
                log.matched(post, known.ranks[peer], tag, length)
            log.waited([post])

    def _exchange(self, known: Known, peer: int, tag: int, sent: int, received: int) -> None:
        log, other, number = self.ledger.log, known.ranks[peer], known.number | 1
        first = log.post(True, other, tag, sent, number, False, False, False)
        second = log.post(False, other, tag, received, number, False, False, False)
        log.matched(second, other, tag, received)
        log.waited([second, first])
