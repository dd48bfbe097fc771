"""Names that resemble one that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

__all__ = ["nearest"]

#: Comparing is quadratic in the length of a name and linear in their number.
_MOST_NAMES, _MOST_LETTERS = 5000, 200


def nearest(name: str, known: Sequence[str]) -> str:
    """Suggest up to three names, as the end of a sentence; empty where none is near.

    Examples
    --------
    >>> nearest("grafene", ["graphene", "jugene"])
    "; did you mean 'graphene'?"
    >>> nearest("xyz", ["graphene"])
    ''
    """
    known = known[:_MOST_NAMES]
    lower = {one.lower(): one for one in known if len(one) <= _MOST_LETTERS}
    found = difflib.get_close_matches(name[:_MOST_LETTERS].lower(), list(lower), n=3, cutoff=0.7)
    if not found:
        return ""
    return "; did you mean " + " or ".join(repr(lower[one]) for one in found) + "?"
