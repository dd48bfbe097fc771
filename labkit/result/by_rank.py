"""A list with an entry for each rank, and how numbers of NumPy are written: 3, not np.int64(3)."""

from __future__ import annotations

import contextlib
import sys
from contextlib import AbstractContextManager
from typing import Any, Literal

__all__ = ["PLAIN_NUMBERS", "ByRank", "plain_numbers"]

#: NumPy's option that writes its numbers as numbers, and nothing else of note in another way
PLAIN_NUMBERS: Literal["1.25"] = "1.25"


def plain_numbers() -> AbstractContextManager[Any]:
    """Return a context in which texts of values have NumPy's numbers without their types."""
    numpy = sys.modules.get("numpy")  # where nobody has loaded it, there is no number of it
    return contextlib.nullcontext() if numpy is None else numpy.printoptions(legacy=PLAIN_NUMBERS)


class ByRank(list[Any]):
    """A list with an entry for each rank, which shows NumPy's numbers as numbers.

    Its entries are what they were.

    Examples
    --------
    >>> import numpy as np
    >>> ByRank([np.int64(3), (np.float64(0.5), "a")])
    [3, (0.5, 'a')]
    """

    def __repr__(self) -> str:
        with plain_numbers():
            return super().__repr__()

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return ByRank(found) if isinstance(index, slice) else found

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Let IPython break long lists into lines, as it does with others."""
        with plain_numbers():
            printer.pretty([*self]) if not cycle else printer.text("[...]")
