"""A list with an entry for each rank, and how numbers of NumPy are written: 3, not np.int64(3)."""

from __future__ import annotations

import contextlib
import sys
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Literal

from labkit.errors import LabkitError, SuggestsNames

__all__ = ["PLAIN_NUMBERS", "ByRank", "NoSuchRankError", "plain_numbers"]

#: NumPy's option that writes its numbers as numbers, and nothing else of note in another way
PLAIN_NUMBERS: Literal["1.25"] = "1.25"
#: what people ask of results as if they were an array
_OF_ARRAYS = ("mean", "std", "var", "max", "min", "sum", "shape", "argmax", "argmin", "tolist", "reshape")


def plain_numbers() -> AbstractContextManager[Any]:
    """Return a context in which texts of values have NumPy's numbers without their types."""
    numpy = sys.modules.get("numpy")  # where nobody has loaded it, there is no number of it
    return contextlib.nullcontext() if numpy is None else numpy.printoptions(legacy=PLAIN_NUMBERS)


class NoSuchRankError(LabkitError, IndexError, TypeError):
    """An entry of a rank that there was not."""

    code = "out-of-range"


class ByRank(list[Any], SuggestsNames):
    """A list with an entry for each rank, which shows NumPy's numbers as numbers.

    Its entries are what they were.

    Examples
    --------
    >>> import numpy as np
    >>> ByRank([np.int64(3), (np.float64(0.5), "a")])
    [3, (0.5, 'a')]
    """

    _INSTEAD = MappingProxyType({name: f"numpy.array(run.results).{name}" for name in _OF_ARRAYS})

    def __repr__(self) -> str:
        with plain_numbers():
            return super().__repr__()

    def __getitem__(self, index: Any) -> Any:
        try:
            found = super().__getitem__(index)
        except (IndexError, TypeError):
            said = f"there is an entry for each rank, 0 to {len(self) - 1}; got {index!r}"
            raise NoSuchRankError(said) from None
        return ByRank(found) if isinstance(index, slice) else found

    def _instead_of(self, name: str) -> str:
        return super()._instead_of(name) if name in self._INSTEAD else ""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Let IPython break long lists into lines, as it does with others."""
        with plain_numbers():
            printer.pretty([*self]) if not cycle else printer.text("[...]")
