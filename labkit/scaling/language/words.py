"""The functions of the language, and which of them a word resembles."""

from __future__ import annotations

from labkit.nearest import nearest

__all__ = ["FUNCTIONS", "meant"]

FUNCTIONS = ("log", "log2", "sqrt", "cbrt")


def meant(word: str) -> str:
    """Suggest the function that a word resembles, as the end of a sentence; empty where it resembles none.

    Examples
    --------
    >>> meant("lgo"), meant("n")
    ("; did you mean 'log'?", '')
    """
    return nearest(word, FUNCTIONS, 1)
