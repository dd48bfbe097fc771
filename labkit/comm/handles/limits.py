"""Limits on a rank's objects with functions of its own, as mpi4py has them."""

from __future__ import annotations

from typing import Any

from labkit import context

__all__ = ["give_back", "take_one"]

#: of one kind
_MOST = 32


def _counts() -> dict[str, int]:
    """Return how many the running rank has, by kind."""
    running = context.simulated()
    if running is None:
        return {}
    own: dict[Any, Any] = running.calls.attributes.setdefault((-1, running.calls.hub.rank), {})
    counts: dict[str, int] = own.setdefault("functions", {})
    return counts


def take_one(kind: str, what: str) -> None:
    """Count one more of a kind."""
    counts = _counts()
    if counts.get(kind, 0) >= _MOST:
        raise RuntimeError(
            f"cannot create too many user-defined {what}: a rank has {_MOST}; Free gives one back"
        )
    counts[kind] = counts.get(kind, 0) + 1


def give_back(kind: str) -> None:
    """Count one less."""
    counts = _counts()
    if counts.get(kind, 0) > 0:
        counts[kind] -= 1
