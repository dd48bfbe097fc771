"""Symbolic values: which ranks' contributions a block is made of."""

from __future__ import annotations

from labkit.schedule.problem import Runs, Value

__all__ = ["Unordered", "combined", "value_text"]


class Unordered(Exception):
    """Two values that must not be combined; `kind` is "twice", "order" or "wrong value"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def combined(left: Value, right: Value, commutative: bool) -> Value:
    """Return ``left op right``.

    Raises
    ------
    Unordered
        If blocks of different numbers meet, a contribution would count twice, or operands that must stay
        in rank order are not neighbours in it (what is left out between them can never get in later).

    Examples
    --------
    >>> combined((0, ((0, 2),)), (0, ((2, 3),)), commutative=False)
    (0, ((0, 3),))
    """
    if left[0] != right[0]:
        raise Unordered("wrong value", f"part {left[0]} of the message meets part {right[0]}")
    runs = _joined(sorted(left[1] + right[1]))
    if not commutative and (left[1][-1][1] != right[1][0][0]):
        text = f"operands out of order: {_ranks_text(left[1])} stands left of {_ranks_text(right[1])}"
        raise Unordered("order", text)
    return left[0], runs


def _joined(ordered: list[tuple[int, int]]) -> Runs:
    joined: list[tuple[int, int]] = []
    for begin, end in ordered:
        if joined and begin < joined[-1][1]:
            raise Unordered("twice", f"the contribution of rank {begin} is combined twice")
        if joined and begin == joined[-1][1]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return tuple(joined)


def value_text(value: Value | None) -> str:
    """Return a value as text."""
    if value is None:
        return "nothing"
    block, runs = value
    if block < 0:
        return f"the size of rank {runs[0][0]}'s block"
    if len(runs) == 1 and runs[0][1] == runs[0][0] + 1:
        return f"rank {runs[0][0]}'s block {block}"
    return f"part {block} combined over {_ranks_text(runs)}"


def _ranks_text(runs: Runs) -> str:
    spans = [str(a) if b == a + 1 else f"{a}..{b - 1}" for a, b in runs]
    word = "rank" if len(spans) == 1 and runs[0][1] == runs[0][0] + 1 else "ranks"
    return f"{word} {', '.join(spans)}"
