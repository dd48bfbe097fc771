"""Questions of the tour: a shared cable, rounds of a tree, growth from a doubling, the longest phase."""

from __future__ import annotations

from labkit.jupyter.exercise import choice

__all__ = ["EXERCISES"]

EXERCISES = {
    "tour_cable": choice(
        "C",
        "240 messages cross 512 cables, and there are only 64: on average 8 share a cable, at most 12.",
        "choose the pattern, and read the column of messages.",
        choices=("1", "2", "12", "15"),
        A="that is the pattern ring.",
        B="that is the pattern transpose.",
        D="that is the number of messages that a host sends; most of them take other cables.",
    ),
    "tour_rounds": choice(
        "A",
        "the ranks that have the value double in each round: 1, 2, 4, 8, 16.",
        "move the slider ranks to 16, and read the number of rounds.",
        choices=("4", "8", "15", "16"),
        B="that is the number of ranks that have the value one round before the end.",
        C="that is the number of messages, and several are sent in the same round.",
        D="that is the number of ranks; each one that has the value passes it on.",
    ),
    "tour_phase": choice(
        "D",
        "from 132 to 245 microseconds: every rank sends something to every other one.",
        "each row has the time at which all ranks have finished a phase; compare the differences.",
        choices=("agree", "local sort", "splitters", "exchange"),
        A="it ends after 44 microseconds; which phase takes longer than that?",
        B="16 keys are sorted in less than a microsecond.",
        C="it takes 88 microseconds; there is a longer one.",
    ),
    "tour_growth": choice(
        "B",
        "twice the ranks, twice the time: the time is proportional to p.",
        "type each of them as what is expected, and read the verdict.",
        choices=("log p", "p", "p log p", "p^2"),
        A="then each doubling would add the same time.",
        C="then each doubling would take a little more than twice as long.",
        D="then each doubling would take four times as long.",
    ),
}
