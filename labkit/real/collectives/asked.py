"""The `coll` of a run on real MPI, read before it starts."""

from __future__ import annotations

from typing import Any

from labkit.selector import Selector, Situation, stated

__all__ = ["read_choice"]


def read_choice(coll: Any, ranks: int) -> Selector:
    """Return the selector of a run."""
    selector = stated(coll)
    selector.choose(Situation("barrier", ranks))  # one that would simulate says so now
    return selector
