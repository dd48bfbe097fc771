"""A sorter on an input, with the keys of the fullest rank counted."""

from __future__ import annotations

from typing import Any

from labkit import registry
from labkit.datasets import inputs
from labkit.program.context import count

__all__ = ["program"]


def program(comm: Any, sort: str = "sample_sort", input: str = "uniform", keys: int = 1000) -> None:
    """Sort `keys` 64-bit integers a rank; mini sort: one."""
    sorter = registry.get("sorting", sort)
    mine = inputs.keys(input, comm.rank, comm.size, sorter.requirements.keys_per_rank or keys, dtype="i8")
    result = sorter.function(comm, mine)
    count("keys", len(result))
