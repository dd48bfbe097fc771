"""The whole run from its phases: the sum of the phases' models, whose leading term is the run's growth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from labkit.errors import LabkitError
from labkit.scaling import Model, Term, Verdict
from labkit.scaling.verdict import outcome
from labkit.study.selection import rows_where
from labkit.text import html as markup

__all__ = ["NAME", "WHOLE_RUN", "PhaseSum", "Table", "aligned"]

#: what tables call it
NAME = "sum of phases"

#: how far ahead a phase is looked for that takes most of the time, in powers of two
_HORIZON = 60

#: phases whose sum is this near to the whole run cover it
_COVERED = 0.1

#: the share of phases without a model up to which the others are added up
_NEGLECTED = 0.1


@dataclass(frozen=True, eq=False)
class PhaseSum:
    """The sum of the phases' models, compared with the fit of the whole run.

    `models`: A model for each phase that has one.
    `total`: The fit of the whole run.
    `unmodeled`: Phases of which no model shows how they grow: none describes them, or their last value is one
        alone behind a step.

    Notes
    -----
    Growth is the leading term of the sum, as in table 10 of [1]_: a phase counts by its growth, however small
    its share of the measured times is.

    References
    ----------
    .. [1] S. Shudler et al.: Engineering algorithms for scalability through continuous validation of
       performance expectations. IEEE TPDS 30(8), 2019. doi:10.1109/TPDS.2019.2896993
    """

    models: Mapping[str, Model]
    total: Model | None = None
    unmodeled: tuple[str, ...] = ()

    @classmethod
    def of(cls, phases: Mapping[str, Model | None], total: Model | None) -> PhaseSum | None:
        """Return the sum of the phases' models.

        `phases`: The fit of each phase; None for a phase that takes no time.
        `total`: The fit of the whole run.
        Returns: None where fewer than two phases were measured, or those whose growth no model shows take
            more than a tenth of all phases' time.
        """
        known = {name: one for name, one in phases.items() if one is not None}
        described = {name: one for name, one in known.items() if _shows_growth(one)}
        time = {name: float(one.y[-1]) for name, one in known.items()}
        left_out = sum(time[name] for name in known if name not in described)
        if len(known) < 2 or not described or left_out > _NEGLECTED * sum(time.values()):
            return None
        has_total = total is not None and _shows_growth(total)
        unmodeled = tuple(name for name in known if name not in described)
        return cls(described, total if has_total else None, unmodeled)

    @classmethod
    def in_study(
        cls,
        study: Any,
        total: Model | None,
        *,
        parameter: str | None = None,
        where: Mapping[str, object] | None = None,
    ) -> PhaseSum | None:
        """Fit a study's phases and return their sum.

        `study`: With times of phases.
        `total`: The fit of the whole run.
        `parameter`, `where`: As in `Study.curve`.
        Returns: None as in `of`, and where a phase cannot be fitted.
        """
        if "phase_s" not in study.metrics:
            return None
        rows = rows_where(study.data, where)
        names = [str(one) for one in rows.loc[rows["metric"] == "phase_s", "phase"].unique()]
        try:
            return cls.of(
                {name: study.phase_model(name, parameter=parameter, where=where) for name in names}, total
            )
        except LabkitError:
            return None

    @cached_property
    def term(self) -> Term:
        """The leading term of the sum."""
        return max(model.term for model in self.models.values())

    @cached_property
    def leading(self) -> str:
        """The phase that the leading term is from; of several, the longest one at the largest value."""
        names = [name for name, model in self.models.items() if model.term == self.term]
        return max(names, key=lambda name: float(self.models[name].predict(self.last)))

    @property
    def last(self) -> float:
        """The largest measured value of the parameter."""
        return max(float(model.x[-1]) for model in self.models.values())

    @property
    def parameter(self) -> str:
        """The symbol of the parameter."""
        return self.term.symbol

    def predict(self, x: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the sum of the phases' models at x, in the unit of the measurements."""
        return np.asarray(sum(model.predict(x) for model in self.models.values()), dtype=np.float64)

    def share(self, phase: str, x: float) -> float:
        """Return a phase's share of the sum at x."""
        return float(self.models[phase].predict(x) / self.predict(x))

    @cached_property
    def takes_over_at(self) -> float | None:
        """Where the leading phase takes half of the sum or more from there on; None: nowhere in sight."""
        x = self.last * np.exp2(np.linspace(0, _HORIZON, 60 * 32 + 1))
        with np.errstate(over="ignore", invalid="ignore"):
            shares = self.models[self.leading].predict(x) / self.predict(x)
        behind = np.flatnonzero(~(shares[np.isfinite(shares)] >= 0.5))
        if not behind.size:
            return self.last
        return float(x[behind[-1] + 1]) if behind[-1] + 1 < np.isfinite(shares).sum() else None

    @property
    def agrees(self) -> bool | None:
        """Whether the sum grows as the fit of the whole run does; None where no model describes the run."""
        return None if self.total is None else self.term == self.total.term

    def match(self, verdict: Verdict) -> str:
        """Return how the growth of the sum matches the expectation of a verdict on the whole run."""
        return outcome(self.term, verdict.expectation.term, verdict.deviation.term)

    def covered(self, x: float) -> float | None:
        """Return the sum as a share of the whole run's model at x, or None."""
        return None if self.total is None else float(self.predict(x) / self.total.predict(x))

    def in_unit(self, unit: str) -> str:
        """Return the leading term with its number, and that slower ones are there."""
        parts = [part for model in self.models.values() for part in model.parts]
        lead = sum(part.coefficient for part in parts if part.term == self.term)
        if self.term.is_constant:
            return markup.quantity(lead, unit)
        rest = " + slower terms" if any(part.term != self.term for part in parts) else ""
        return f"{markup.quantity(lead, unit)} · {self.term}{rest}"

    @property
    def reading(self) -> str:
        """The sum, and whether the whole run agrees, in sentences."""
        said = [self._growth()]
        covered = self.covered(self.last)
        if covered is not None and abs(covered - 1) > _COVERED:
            said.append(f"The phases add up to {100 * covered:.0f} % of the run at {self._at(self.last)}.")
        if self.unmodeled:
            names = ", ".join(map(repr, self.unmodeled))
            grow = f"phases {names} grow" if len(self.unmodeled) > 1 else f"phase {names} grows"
            said.append(f"No model shows how the {grow}.")
        return " ".join(said)

    def _growth(self) -> str:
        led = f"The phases' models add up to O({self.term}), led by {self.leading!r}"
        if self.total is None:
            return f"{led}; no model shows how the whole run grows."
        if self.agrees:
            return f"{led}; the fit of the whole run grows like that, too."
        if self.term < self.total.term:
            return (
                f"{led}, but the whole run was fitted as O({self.total.term}), which grows faster than every "
                "phase: look at the time outside phases, and at ranks that wait for each other."
            )
        share = 100 * self.share(self.leading, self.last)
        now = f"{self.leading!r} takes {share:.3g} % of the sum at {self._at(self.last)}"
        at = self.takes_over_at
        if at is None:
            later = ", and less than half of it however far the models are extended"
        elif at > self.last:
            later = f", and half of it or more from about {self._at(float(f'{at:.2g}'))} on"
        else:
            later = ""
        return f"{led}, but the whole run was fitted as O({self.total.term}): {now}{later}."

    def _at(self, x: float) -> str:
        return f"{self.parameter} = {markup.number(x)}"

    def __str__(self) -> str:
        """Print the order of growth."""
        return f"O({self.term})"

    def __repr__(self) -> str:
        """Print the growth and its reading."""
        return f"Sum of {len(self.models)} phases {self}: {self.reading}"


def _shows_growth(model: Model) -> bool:
    return not model.is_nearest and (model.since is None or float(model.x[-2]) >= model.since)


# The table of a study: a row per phase, with expectation, model, divergence and match.

#: what tables call all phases and what is outside them
WHOLE_RUN = "whole run"


class Table:
    """Models and verdicts of a study's phases and of the whole run.

    Attributes
    ----------
    models : dict
        The model of each entry by its name (a phase, or "whole run").
    verdicts : dict
        The verdict of each entry that had an expectation.
    phase_sum : PhaseSum or None
        The sum of the phases' models, printed above the whole run.
    """

    def __init__(
        self, entries: Sequence[tuple[str, Model | None, Verdict | None]], phase_sum: PhaseSum | None = None
    ) -> None:
        self.phase_sum = phase_sum
        self._entries = list(entries)
        self.models = {name: model for name, model, _ in entries}
        self.verdicts = {name: verdict for name, _, verdict in entries if verdict is not None}

    @property
    def frame(self) -> pd.DataFrame:
        """The table as a data frame: phase, expectation, growth, model, r2_adjusted, divergence, match.

        Where no model describes the data, a question mark follows the growth of the nearest curve.
        """
        columns = ["phase", "expectation", "growth", "model", "r2_adjusted", "divergence", "match"]
        return pd.DataFrame(
            [
                [
                    name,
                    str(v.expectation.term) if v is not None else "",
                    m.growth if m else v.growth if v else "",
                    m.formula if m else "",
                    m.r2_adjusted if m and m.r2_adjusted is not None else float("nan"),
                    str(v.divergence) if v is not None and v.divergence is not None else "",
                    v.match if v is not None else "",
                ]
                for name, m, v in self._entries
            ],
            columns=columns,
        )

    def __iter__(self) -> Iterator[tuple[str, Model | None, Verdict | None]]:
        """Go through (name, model, verdict)."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._entries)

    def __str__(self) -> str:
        """Print as aligned text."""
        rows = [["phase", "expected", "measured", "divergence", "match", "R2", "model"]]
        for name, m, v in self._entries:
            if name == WHOLE_RUN and self.phase_sum is not None:
                rows.append(self._sum_row(v, str))
            r2 = "-" if m is None or m.r2_adjusted is None else f"{m.r2_adjusted:.3f}"
            match = f"{markup.MATCH_SIGNS[v.match]} {v.match}" if v is not None else ""
            growth = m.growth if m else "?"
            rows.append(
                [
                    name,
                    str(v.expectation.term) if v is not None else "",
                    growth,
                    str(v.divergence) if v is not None and v.divergence is not None else "",
                    match,
                    r2,
                    m.in_unit("s") if m else "",
                ]
            )
        return "\n".join([*aligned(rows), *self.remarks])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        body = []
        for name, m, v in self._entries:
            if name == WHOLE_RUN and self.phase_sum is not None:
                name_, expected, growth, divergence, _, _, formula = self._sum_row(v, Term.html)
                expected, match = (f"O({expected})", self.phase_sum.match(v)) if v is not None else ("", "")
                badge = markup.badge(match) if match else ""
                body.append([name_, expected, f"O({growth})", divergence, badge, "–", escape(formula)])
            r2 = "–" if m is None or m.r2_adjusted is None else f"{m.r2_adjusted:.3f}"
            body.append(
                [
                    escape(name),
                    f"O({v.expectation.term.html()})" if v is not None else "",
                    _grown(m, v),
                    v.divergence.html() if v is not None and v.divergence is not None else "",
                    markup.badge(v.match) if v is not None else "",
                    r2,
                    escape(m.in_unit("s")) if m else "",
                ]
            )
        head = ["Phase", "Expected", "Measured", "Divergence", "Match", "adj. R²", "Model"]
        return markup.table(head, body) + "".join(f"<p>{escape(one)}</p>" for one in self.remarks)

    @property
    def remarks(self) -> list[str]:
        """What is to be said below the table: where the sum of the phases and the whole run disagree."""
        return [] if self.phase_sum is None or self.phase_sum.agrees else [self.phase_sum.reading]

    def _sum_row(self, total: Verdict | None, write: Callable[[Term], str]) -> list[str]:
        """Return the cells of the sum of the phases; `total` is the verdict on the whole run."""
        found = self.phase_sum
        assert found is not None
        row = [NAME, "", write(found.term), "", "", "-", found.in_unit("s")]
        if total is not None:
            match = found.match(total)
            divergence = found.term.over(total.expectation.term)
            row[1], row[3] = write(total.expectation.term), write(divergence)
            row[4] = f"{markup.MATCH_SIGNS[match]} {match}"
        return row


def _grown(model: Model | None, verdict: Verdict | None) -> str:
    """The measured growth as HTML: a term, "levels off", or the nearest term with a question mark."""
    if verdict is not None and verdict.growth == "levels off":
        return verdict.growth
    return f"O({model.term.html()}){'?' if model.is_nearest else ''}" if model else "?"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines whose columns stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
