"""Exercises on expectations and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from labkit.jupyter.exercise import Exercise, Trap, choice, is_near
from labkit.scaling import Term, outcome, read_expectation

__all__ = ["EXERCISES"]

_WORDS = ("exact", "approximate", "bound", "none", "undecided")
_PROMISE = "p log p"
#: growths that are all to be matched
_GROWTHS = ("p log p", "p", "p^0.25", "p^2")


def _words(answer: Mapping[str, str]) -> dict[str, str]:
    """Read a word of match for each growth; spelled anyhow."""
    words = {str(growth): str(word).strip().lower() for growth, word in answer.items()}
    if not set(words.values()) <= set(_WORDS) or set(words) != set(_GROWTHS):
        raise ValueError(words)
    return words


def _is_matched(words: Mapping[str, str]) -> bool:
    limit, promise = Term(0, "1/2"), read_expectation(_PROMISE).term
    return all(
        outcome(read_expectation(growth).term, promise, limit) == word for growth, word in words.items()
    )


def _says(growth: str, word: str) -> Callable[[Mapping[str, str]], bool]:
    return lambda words: words.get(growth) == word


def _term(answer: Any) -> Term:
    return read_expectation(str(answer)).term


EXERCISES = {
    "matches": Exercise(
        f'a dict of growth to match, such as {{"p": "exact"}}, for all of {", ".join(_GROWTHS)}',
        _words,
        _is_matched,
        "what counts is the quotient of the two growths: 1 is exact, anything within √p either way is "
        "approximate, slower than that is a bound that is not tight, and only faster is the alarm.",
        "divide each growth by the promise, and compare the quotient with √p and with 1/√p.",
        (
            Trap(
                _says("p", "bound"),
                "p is slower than promised, yes. By how much? Compare 1 / log p with 1 / √p.",
            ),
            Trap(
                _says("p^0.25", "none"),
                "big-O is an upper bound: is a program that grows so slowly breaking its promise?",
            ),
            Trap(
                _says("p^2", "approximate"),
                "divide p² by the promise: for large p, is what is left above √p or below?",
            ),
        ),
    ),
    "growth": Exercise(
        'a growth such as "p log p"',
        _term,
        lambda term: term == Term(0, 1),
        "each rank takes part in p - 1 exchanges, one after the other; the tree at the end adds log p, which "
        "the p hides.",
        "follow one rank from the first line to the last: how many messages does it wait for?",
        (
            Trap(
                lambda term: term == Term(0, 2),
                "so many messages cross the network in all. But which of them happen at the same time?",
            ),
            Trap(
                lambda term: term in (Term(0, 0, 1), Term(0, 0, 2)),
                "that is the tree of the last line. What does a rank do before it gets there?",
            ),
            Trap(
                lambda term: term == Term(0, 1, 1),
                "does every one of the exchanges contain a tree, or does the tree come after them?",
            ),
        ),
    ),
    "plan": choice(
        "C",
        "a growth shows itself over a range: five sizes that span a factor of 16 tell p from p², and five "
        "repetitions at each say how large the noise is.",
        "run the cell above with each plan.",
        A="you would know the time at 64 ranks very well. What would it be at 128?",
        B="how far apart do p and p² drift between 64 and 128 ranks, once each may have a constant in "
                "front, and how large is the noise?",
        D="how many curves can you draw through two points?",
    ),
    "takeover": Exercise(
        "a number of ranks",
        float,
        lambda p: is_near(p, 316.2, 0.1),
        "both summands have the same log p, so it cancels: p² = 100 µs / 1 ns = 100,000.",
        "write the two summands as equal, and simplify before you put numbers in.",
        (
            Trap(
                lambda p: is_near(p, 1e5, 0.05),
                "that is the quotient of the two constants. What does it equal: p, or something else?",
            ),
            Trap(
                lambda p: is_near(p, 121, 0.15),
                "the second summand has a log p. What about the first?",
            ),
            Trap(
                lambda p: is_near(p, 10, 0.05) or is_near(p, 31.6, 0.05),
                "how many nanoseconds has a microsecond?",
            ),
        ),
    ),
}  # fmt: skip
