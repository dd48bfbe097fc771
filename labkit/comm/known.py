"""Classes of communicators and MPI's own communicators, by name: filled where they are made."""

from __future__ import annotations

from typing import Any

__all__ = ["KNOWN", "constant_of"]

#: a making of one communicator from another names the class of the new one
KNOWN: dict[str, Any] = {}


def constant_of(comm: Any) -> str | None:
    """Name of a communicator that the module has, None of any other."""
    for name in ("COMM_WORLD", "COMM_SELF", "COMM_NULL"):
        if KNOWN.get(name) == comm:
            return name
    return None
