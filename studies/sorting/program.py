"""One of the sorts of table 10, on the input of table 9."""

from __future__ import annotations

from typing import Any

from labkit import registry
from labkit.datasets import inputs
from labkit.datasets.standins import stand_in

__all__ = ["program"]

#: what the paper's columns are here: the sorter and its options. As in the paper, radix sort sends plain
#: messages, and global medians are approximated by a binary tree.
SORTS: dict[str, tuple[str, dict[str, Any]]] = {
    "sample": ("sample_sort", {}),
    "histogram": ("histogram_sort", {}),
    "exact splitting": ("exact_splitting_sort", {"median": "binary"}),
    "radix 4": ("radix_sort", {"bits": 4, "exchange": "messages"}),
    "radix 8": ("radix_sort", {"bits": 8, "exchange": "messages"}),
    "radix 4 alltoallv": ("radix_sort", {"bits": 4, "exchange": "alltoallv"}),
    "radix 8 alltoallv": ("radix_sort", {"bits": 8, "exchange": "alltoallv"}),
    "mini": ("mini_sort", {"median": "binary"}),
}


def program(comm: Any, sort: str = "sample", keys: int = 10**7, name: str = "uniform") -> None:
    """Sort `keys` 64-bit integers a rank, as stand-in data; mini sort: one real key a rank."""
    sorter, options = SORTS[sort]
    if sort == "mini":
        mine: Any = inputs.keys(name, comm.rank, comm.size, 1, dtype="i8")
    else:
        mine = stand_in(name, comm.rank, comm.size, keys)
    registry.get("sorting", sorter).function(comm, mine, **options)
