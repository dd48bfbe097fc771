"""The table of a study: a row per phase, with expectation, model, divergence and match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

import pandas as pd

from labkit import html as markup
from labkit.scaling import Model, Term, Verdict
from labkit.study.phase_sum import NAME as SUM_OF_PHASES
from labkit.study.phase_sum import PhaseSum

__all__ = ["WHOLE_RUN", "Table", "aligned"]

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
                    v.growth if v is not None else str(m.term) if m else "",
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
            growth = v.growth if v is not None else str(m.term) if m else "?"
            rows.append([
                name, str(v.expectation.term) if v is not None else "", growth,
                str(v.divergence) if v is not None and v.divergence is not None else "", match, r2,
                m.in_unit("s") if m else "",
            ])  # fmt: skip
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
            body.append([
                escape(name),
                f"O({v.expectation.term.html()})" if v is not None else "",
                _grown(m, v),
                v.divergence.html() if v is not None and v.divergence is not None else "",
                markup.badge(v.match) if v is not None else "", r2, escape(m.in_unit("s")) if m else "",
            ])  # fmt: skip
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
        row = [SUM_OF_PHASES, "", write(found.term), "", "", "-", found.in_unit("s")]
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
