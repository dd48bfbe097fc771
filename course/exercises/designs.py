"""Exercises on schedules of one's own: a program that is proved and counted, and what bounds say."""

from __future__ import annotations

from typing import Any, NamedTuple

from labkit.jupyter.exercise import Exercise, Trap, choice, is_near

__all__ = ["EXERCISES"]


class _Tried(NamedTuple):
    """What a schedule is worth on 2, 4 and 8 ranks.

    Attributes
    ----------
    refuted : tuple of str
        Kinds of counterexamples; "error" where it cannot be built.
    right_on : tuple of int
        Numbers of ranks on which it is proved.
    rounds : float
        On 8 ranks, one after another; 0 where it is refuted there.
    volume : float
        Blocks one after another, on 8 ranks.
    """

    refuted: tuple[str, ...]
    right_on: tuple[int, ...]
    rounds: float
    volume: float


def _tried(rounds: Any) -> _Tried:
    from labkit.errors import LabkitError
    from labkit.schedule import build, check, count
    from labkit.schedule.check import Proof

    if not callable(rounds):
        raise TypeError(f"a function is asked for, got {type(rounds).__name__}")
    refuted, right, steps, volume = [], [], 0.0, 0.0
    for ranks in (2, 4, 8):
        try:
            schedule = build("allgather", rounds, ranks)
            found = check(schedule)
            if isinstance(found, Proof):
                right.append(ranks)
                if ranks == 8:
                    steps, volume, _ = count(schedule, 1)
            else:
                refuted.append(found.kind)
        except (LabkitError, IndexError, ValueError, TypeError):
            refuted.append("error")
    return _Tried(tuple(refuted), tuple(right), steps, volume)


def _is_near(wanted: float) -> Any:
    return lambda answer: is_near(answer, wanted, 0.01)


EXERCISES = {
    "pairs": Exercise(
        "a function pairs(group) that yields steps",
        _tried,
        lambda tried: not tried.refuted and tried.rounds == 3,
        "proved on 2, 4 and 8 ranks; three rounds on eight, and 1 + 2 + 4 = 7 blocks, which is the least.",
        "print(check(build('allgather', pairs, 4))): what does the checker say?",
        (
            Trap(
                lambda tried: not tried.refuted,
                "it is proved, but it takes too many rounds. After a round with distance d everybody has 2d "
                "blocks: what does it send in the next one?",
            ),
            Trap(
                lambda tried: tried.right_on == (2,),
                "on two ranks it is right. On four, what do the partners of the second round have by then, "
                "and do they give away all of it?",
            ),
            Trap(
                lambda tried: "missing value" in tried.refuted or "undefined" in tried.refuted,
                "a block is sent before it is there, or never comes. Is the own block copied from `send` to "
                "`recv`, and does the part begin at the right block?",
            ),
            Trap(
                lambda tried: "deadlock" in tried.refuted or "unmatched" in tried.refuted,
                "a rank waits for a message that no rank sends. Are partners each other's partners?",
            ),
        ),
    ),
    "least_time": Exercise(
        "a number of ms",
        float,
        _is_near(8),
        "eight blocks must get into every host, over one cable: 8 MB at 1 GB/s.",
        "what must get into one host, and over how many cables?",
        (
            Trap(_is_near(9), "one of the nine blocks is there already."),
            Trap(_is_near(1), "that is one block. How many have to come?"),
            Trap(_is_near(72), "they come into all hosts at the same time, each over a cable of its own."),
            Trap(
                _is_near(4),
                "the cable has 1 GB/s each way, and what leaves the host does not help what must come in.",
            ),
        ),
    ),
    "proved": choice(
        "B",
        "for another number of ranks it is another schedule, made by the same lines; its proof is a call "
        "more.",
        "what were the symbols, and what was left open?",
        A="the checker computes with symbols for blocks. Do they have a size?",
        C="every receive names its sender. Can what a rank gets then depend on who was faster?",
        D="the checker lets no send complete before its receive. Whom does that make wait?",
    ),
}  # fmt: skip
