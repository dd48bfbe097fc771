"""Communicators on which one collective always takes one algorithm."""

from __future__ import annotations

from typing import Any

from labkit.comm.collective.native import shared_calls

__all__ = ["with_algorithm"]


def with_algorithm(comm: Any, operation: str, name: str) -> Any:
    """Return a communicator of the same ranks whose calls of one collective run one algorithm.

    All ranks of the communicator call it together; it takes no time and no messages.
    """
    label = "labkit.tune"
    private = comm._own_context(label, {"operation": operation, "algorithm": name})
    shared_calls(label).forced[private._context, operation] = name
    return private
