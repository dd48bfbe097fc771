"""Persistent messages: described once and started as often as wanted.

A start does what the nonblocking call of the same name would do then; buffers are read and written at the
time of the starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.comm.buffers import parse_simple
from labkit.comm.collective.prequest import Prequest
from labkit.comm.handles.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.surface import METHODS, Method, add_methods

__all__ = ["PersistentMessages"]

_ERR_TAG, _ERR_RANK = 4, 6


class PersistentMessages:
    """The persistent sends and receives of a communicator."""

    rank: int
    size: int

    def _message_init(
        self, begin: Callable[..., Any], is_receive: bool, buf: Any, peer: int, tag: int
    ) -> Prequest:
        self._check_message(buf, peer, tag, is_receive)
        return Prequest._of(lambda: begin(buf, peer, tag))

    def _check_message(self, buf: Any, peer: int, tag: int, is_receive: bool) -> None:
        """Refuse at once what would be refused at every start."""
        rank, number = int(peer), int(tag)  # a float is cut off, as by mpi4py
        if rank != PROC_NULL:
            parse_simple(buf, is_receive)
        is_any = is_receive and rank == ANY_SOURCE
        if not (is_any or rank == PROC_NULL or 0 <= rank < self.size):
            what = "source" if is_receive else "dest"
            raise MPIException(
                _ERR_RANK,
                f"{what}={rank} is not a rank of this communicator, which has ranks 0 to {self.size - 1}",
            )
        if number < 0 and not (is_receive and number == ANY_TAG):
            raise MPIException(_ERR_TAG, f"tag={number} is not allowed: tags are 0 or more")


def _init(row: Method) -> str:
    return f"self._message_init(self.I{row.base.lower()}, {row.kind == 'receive'}, {{args}})"


add_methods(
    PersistentMessages,
    [row for row in METHODS if row.form == "persistent" and row.kind in ("send", "receive")],
    _init,
    {"ANY_SOURCE": ANY_SOURCE, "ANY_TAG": ANY_TAG, "__name__": __name__},
)
