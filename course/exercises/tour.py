"""Questions of the tour: a shared cable, rounds of a tree, growth from a doubling, the longest phase."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, is_letter, letter

__all__ = ["EXERCISES"]

_FORM = "one of the letters A to D"


EXERCISES = {
    "tour_cable": Exercise(
        _FORM,
        letter,
        is_letter("C"),
        "240 messages take 512 cables, and there are only 64: 8 messages share each on average, some 12.",
        "choose the pattern, and read the column of messages.",
        (
            Trap(is_letter("A"), "that is the pattern ring."),
            Trap(is_letter("B"), "that is the pattern transpose."),
            Trap(is_letter("D"), "that is how many messages a host sends; most of them take other cables."),
        ),
        ("1", "2", "12", "15"),
    ),
    "tour_rounds": Exercise(
        _FORM,
        letter,
        is_letter("A"),
        "the ranks that have the value double in each round: 1, 2, 4, 8, 16.",
        "move the slider of the ranks to 16, and read the rounds.",
        (
            Trap(is_letter("B"), "that many ranks have the value one round before the end."),
            Trap(is_letter("C"), "that many messages there are, and several travel in the same round."),
            Trap(is_letter("D"), "that many ranks there are; each one that has the value passes it on."),
        ),
        ("4", "8", "15", "16"),
    ),
    "tour_phase": Exercise(
        _FORM,
        letter,
        is_letter("D"),
        "from 132 to 245 microseconds: every rank sends something to every other one.",
        "each row has the time at which all ranks have ended a phase; take the differences.",
        (
            Trap(is_letter("A"), "it ends after 44 microseconds; which phase takes longer than that?"),
            Trap(is_letter("B"), "16 keys are sorted in less than a microsecond."),
            Trap(is_letter("C"), "it takes 88 microseconds; there is a longer one."),
        ),
        ("agree", "local sort", "splitters", "exchange"),
    ),
    "tour_growth": Exercise(
        _FORM,
        letter,
        is_letter("B"),
        "twice the ranks, twice the time: the time is proportional to p.",
        "type each of them as what is expected, and read the verdict.",
        (
            Trap(is_letter("A"), "then each doubling would add the same time."),
            Trap(is_letter("C"), "then each doubling would take a little more than twice as long."),
            Trap(is_letter("D"), "then each doubling would take four times as long."),
        ),
        ("log p", "p", "p log p", "p^2"),
    ),
}
