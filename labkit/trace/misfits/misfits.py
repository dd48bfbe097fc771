"""Measured against predicted: the findings as a table, as text and as a card."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from math import floor, log10
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.html import card, escape, quantity, table
from labkit.trace.misfits.samples import paired
from labkit.trace.misfits.search import Finding, search

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.recorded_run import RecordedRun

__all__ = ["Misfits", "find_misfits"]

_SUBJECTS = {"computation": "computation", "message": "the messages", "collective": "collectives"}


@dataclass(repr=False)
class Misfits:
    """What of a measured run is not as it was predicted.

    Attributes
    ----------
    program, on, against : str
        The program, the machine that was measured, the one that was predicted.
    measured_s, predicted_s : float
        Makespans.
    samples : pandas.DataFrame
        The pairs: kind, measured_s, predicted_s, at_s, is_grouped, labels.
    findings : list of Finding
        Of a run that is slower than predicted first what took longer, of a faster one what took shorter;
        among those the least likely by chance first, below 10^-9 what makes the most seconds.
    """

    program: str
    on: str
    against: str
    measured_s: float
    predicted_s: float
    samples: pd.DataFrame
    findings: list[Finding]

    def table(self) -> pd.DataFrame:
        """Return the findings, a row each, with the columns of `Finding`."""
        import pandas as pd

        names = [field.name for field in fields(Finding)]
        return pd.DataFrame([asdict(one) for one in self.findings], columns=names)

    def members(self, finding: Finding) -> NDArray[np.int64]:
        """Return the rows of `samples` that a finding is about."""
        rows = self.samples
        own = [
            at
            for at, (kind, labels) in enumerate(zip(rows["kind"], rows["labels"], strict=True))
            if kind == finding.kind
            and (
                not finding.by
                or any(f"{finding.where} (".startswith(f"{one} (") for one in labels[finding.by])
            )
        ]
        found: NDArray[np.int64] = np.array(own, np.int64)
        if finding.what != "stall":
            found = found[rows["is_grouped"].to_numpy()[found]]
            return found
        excess = (rows["measured_s"] - rows["predicted_s"]).to_numpy()[found]
        most: NDArray[np.int64] = found[np.argsort(-excess, kind="stable")[: finding.members]]
        return most

    def reading(self) -> str:
        """Say what is off, where, by how much, and how likely that is by chance."""
        took, meant = quantity(self.measured_s, "s", 3), quantity(self.predicted_s, "s", 3)
        off = self.measured_s / self.predicted_s - 1.0 if self.predicted_s > 0 else 0.0
        said = f"{self.program} took {took} on {self.on}, and {meant} were predicted for {self.against}"
        said += f" ({off:+.0%})." if abs(off) >= 0.005 else "."
        if not self.findings:
            return (
                f"{said} In no rank, host, link, call or size were times found that are off by a fifth or "
                "more beyond chance, and that come to 1 % of the run together "
                f"({len(self.samples)} pairs of times)."
            )
        return " ".join([said, *(_sentence(one) for one in self.findings[:4])])

    def __repr__(self) -> str:
        return self.reading()

    def _repr_html_(self) -> str:
        rows = [
            [escape(one.where), escape(one.kind), escape(one.what),
             "" if one.what == "stall" else f"{one.factor:.3g}", quantity(one.excess_s, "s", 3),
             str(one.members), _odds(one.chance)]
            for one in self.findings
        ]  # fmt: skip
        head = ["where", "of", "what", "times as long", "longer by", "times", "by chance"]
        inner = f"<p>{escape(self.reading())}</p>{table(head, rows) if rows else ''}"
        return card(f"Measured against predicted: {escape(self.program)}", inner)


def find_misfits(measured: RecordedRun, predicted: RecordedRun) -> Misfits:
    """Hold a measured run against the predicted one of the same program, and say what is off.

    Slow hosts and cables, stalls, wrong thresholds of collectives show as times that are off in one place:
    computations of a rank, messages over a link or of a pair, collectives of a size. Waiting for others is in
    none of these times, so that a delay is found where it arises.

    Parameters
    ----------
    measured : Run
        Recorded with ``trace=True``, on the machine in question.
    predicted : Run
        The same program with the same arguments and ranks on the machine as it should be, recorded; mostly a
        simulated one. Hosts and links are called as that machine calls them.

    Returns
    -------
    Misfits
        Shown, it is a few sentences and a table.

    Raises
    ------
    DataError
        A run without a trace of calls, other numbers of ranks, or programs that do different things.

    Notes
    -----
    Of each pair of times the logarithm of measured by predicted is taken, less what the whole kind
    (computations, messages, collectives) is off: the median, but at most 15 % where a quarter of the pairs
    is predicted that well. Groups of pairs (of a rank, host, phase, link, pair of ranks, size, call, part
    of the run; of a link or a host those of one size, too) are compared with all others by the rank-sum
    test of Mann and Whitney [1]_, which asks nothing of the noise but that it is the same in the group and
    beside it; chances are multiplied by the number of groups. The group is named whose own median explains
    most of the absolute deviations, if it is off by at least a fifth, chance makes that at most once in
    1000 runs, and all of it comes to 1 % of the predicted run; it is taken out, and the search goes on. A
    kind is off as a whole from a factor of 1.5 on, by a sign test. A stall is a single time whose excess is
    ten times the one that a tenth of the pairs reaches and 2 % of the predicted run; its chance supposes an
    exponential tail fitted to the excesses between.

    What it cannot see: a machine of which everything is off by less than a half; places in which
    fewer than three times were paired; time in no call before or after a rank's calls.

    References
    ----------
    .. [1] H. B. Mann, D. R. Whitney: On a test of whether one of two random variables is stochastically
       larger than the other. Annals of Mathematical Statistics 18, 1947. doi:10.1214/aoms/1177730491
    """
    if not hasattr(predicted, "trace"):
        raise DataError(
            f"a run is held against another one, which lk.run(...) returned; got {predicted!r:.60}"
        )
    samples = paired(measured, predicted)
    found = search(samples, measured.makespan_s, predicted.makespan_s)
    return Misfits(
        measured.program, measured.on, predicted.on, measured.makespan_s, predicted.makespan_s, samples, found
    )


def _sentence(one: Finding) -> str:
    amount = quantity(abs(one.excess_s), "s", 3)
    odds = f"by chance {_odds(one.chance)}"
    if one.what == "stall":
        where = {"computation": "Computation on", "message": "Messages", "collective": ""}[one.kind]
        where = f"{where} {one.where}".strip()
        many = f"{one.members} times, {amount} in all" if one.members > 1 else amount
        when = (
            f"from {quantity(one.begin_s, 's', 3)} on"
            if one.members > 1
            else f"at {quantity(one.begin_s, 's', 3)}"
        )
        return f"{where} stalled: {many}, {when} ({odds})."
    times = f"{one.factor:.3g} times as long as predicted" if one.factor >= 1 else (
        f"{one.factor:.2g} of the predicted time"
    )  # fmt: skip
    longer = "longer" if one.excess_s >= 0 else "shorter"
    return f"{_subject(one)} took {times}, {amount} {longer} in all ({one.members} times; {odds})."


def _subject(one: Finding) -> str:
    if one.what == "whole" and not one.by:
        return f"{one.where[0].upper()}{one.where[1:]}"
    if one.by in ("call", "call and size"):
        return one.where
    if one.by == "size":
        return one.where[0].upper() + one.where[1:]
    if one.kind == "message":
        words = {"link": "over ", "link and size": "over ", "host": "of ", "quarter of the run": "in "}
        return f"Messages {words.get(one.by, '')}{one.where}"
    word = "in" if one.by in ("quarter of the run", "phase") else "on"
    return f"{_SUBJECTS[one.kind].capitalize()} {word} {one.where}"


def _odds(chance: float) -> str:
    """Write a chance.

    Examples
    --------
    >>> _odds(3e-7), _odds(0.0)
    ('1 in 10^6', 'less than 1 in 10^300')
    """
    return "less than 1 in 10^300" if chance < 1e-300 else f"1 in 10^{max(floor(-log10(chance)), 0)}"
