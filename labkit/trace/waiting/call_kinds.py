"""The kinds of calls of a run: the same name at the same place in the program."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CallKinds"]


class CallKinds:
    """The kinds of calls of a run, numbered: the same name at the same place in the program.

    Attributes
    ----------
    names, places : arrays of str
        By number.
    numbers : array of int
        By row of `Trace.calls`.
    """

    def __init__(self, calls: pd.DataFrame | None) -> None:
        import pandas as pd

        if calls is None or not len(calls):
            self.names, self.places = np.empty(0, object), np.empty(0, object)
            self.numbers = np.empty(0, np.int32)
            return
        name, names = pd.factorize(calls["call"])
        place, places = pd.factorize(calls["place"])
        both, pairs = pd.factorize(name.astype(np.int64) * len(places) + place)
        self.numbers = both.astype(np.int32)
        self.names = np.asarray(names, object)[pairs // len(places)]
        self.places = np.asarray(places, object)[pairs % len(places)]

    def are(self, names: Collection[str]) -> NDArray[np.bool_]:
        """Return by row of `Trace.calls` whether it is one of these."""
        known: NDArray[np.bool_] = np.isin(self.names, list(names))[self.numbers]
        return known
