"""Causes told once: a check that fails for a reason which another one has told refers to that one."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import replace

from labkit.grading.checks import COUNTS_ONLY
from labkit.grading.result import Verdict
from labkit.grading.trial import Fault, headline

__all__ = ["Told"]


class Told:
    """What the feedback of one grade has said so far."""

    def __init__(self) -> None:
        self._causes: dict[str, str] = {}
        self._wrong = ""
        self._hints: set[str] = set()
        self._sentences: set[str] = set()

    def once(self, title: str, verdict: Verdict, fault: Fault | None) -> Verdict:
        """Return a check's verdict, with the cause in short where an earlier check has told it.

        Parameters
        ----------
        title : str
            The check's.
        verdict : Verdict
        fault : Fault or None
            What was wrong with the run that the verdict is about.
        """
        verdict = replace(verdict, hint=_without(verdict.hint, ()))
        if verdict.score >= 1 or fault is None:
            return verdict
        if fault.words not in verdict.feedback and headline(fault.words) not in verdict.feedback:
            return verdict  # it is about something else: a bound, a share of the points
        before = self._causes.get(fault.cause, "")
        if not before and fault.kind == "wrong" and COUNTS_ONLY in verdict.feedback:
            before = self._wrong  # it does not say which result is wrong, only that one is
        if not before:
            self._causes[fault.cause] = title
            self._wrong = self._wrong or (title if fault.kind == "wrong" else "")
            self._hints.update(_sentences(verdict.hint))
            return verdict
        short = f"as in “{before}”"
        feedback = verdict.feedback
        for words in (fault.words, headline(fault.words)):
            feedback = feedback.replace(words, short, 1)
        return replace(verdict, feedback=feedback, hint=_without(verdict.hint, self._hints))

    def sentence(self, words: str) -> str:
        """Return a sentence the first time, and that it holds again afterwards."""
        if words in self._sentences:
            return "not judged, either"
        self._sentences.add(words)
        return words


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.?!])\s+", text)


def _without(text: str, said: Container[str]) -> str:
    """Leave out of a text the sentences that it, or somebody before, has said."""
    return " ".join(one for one in dict.fromkeys(_sentences(text)) if one not in said)
