"""A collective's cost card: its table, which algorithm is the fastest where, and both as text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from labkit import html as markup
from labkit.html import quantity
from labkit.models import LogGP
from labkit.platform.platform import Platform
from labkit.plot_backend import draw
from labkit.units import format_bytes, format_seconds, number_of_ranks

__all__ = ["Card"]

#: simulated times that differ by less are equal: sums of the same terms in another order
_EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class Card:
    """What is known of a collective's cost on one machine; made by `labkit.card`.

    Attributes
    ----------
    operation : str
    machine : Platform
    model : str
        The network model.
    alpha_s, beta_s_per_byte : float
        A message between two hosts, in the formulas.
    loggp : LogGP
    data : DataFrame
        A row for each algorithm at each point where it can be used: ranks, bytes, algorithm, rounds and
        volume_bytes on its slowest path, formula_s (alpha rounds + beta volume), loggp_s, simulated_s,
        measured_s, bound_s (no algorithm undercuts it). NaN where something is not known.
    """

    operation: str
    machine: Platform
    model: str
    alpha_s: float
    beta_s_per_byte: float
    loggp: LogGP
    data: pd.DataFrame

    @property
    def axis(self) -> str:
        """Along what the card goes: "bytes" or "ranks"."""
        return "ranks" if self.data["ranks"].nunique() > 1 else "bytes"

    @cached_property
    def winners(self) -> pd.DataFrame:
        """The fastest simulated algorithm from one point of the axis to another: first, last, algorithm.

        Of equally fast ones that is taken which stays the fastest for longer; of these the first by name,
        one without settings before others. Where it changes between two points is a crossover.
        """
        points: list[tuple[Any, set[str]]] = []
        for at, rows in self._simulated.groupby(self.axis):
            least = rows["simulated_s"].min() * (1 + _EQUAL)
            points.append((at, set(rows.loc[rows["simulated_s"] <= least, "algorithm"])))
        found: list[tuple[Any, Any, set[str]]] = []
        for at, fastest in points:
            if found and found[-1][2] & fastest:
                found[-1] = (found[-1][0], at, found[-1][2] & fastest)
            else:
                found.append((at, at, fastest))
        spans = [(first, last, min(names, key=lambda n: (":" in n, n))) for first, last, names in found]
        return pd.DataFrame(spans, columns=["first", "last", "algorithm"])

    @cached_property
    def best(self) -> pd.DataFrame:
        """The winner's row of `data` at each point of the axis."""
        rows = []
        for first, last, name in self.winners.itertuples(index=False):
            here = self._simulated[self._simulated[self.axis].between(first, last)]
            rows.append(here[here["algorithm"] == name])
        whole: pd.DataFrame = pd.concat(rows).sort_values(self.axis).reset_index(drop=True)
        return whole

    @property
    def _simulated(self) -> pd.DataFrame:
        return self.data[self.data["simulated_s"].notna()]

    @property
    def title(self) -> str:
        """What is on the card."""
        where = f"{self.operation} on {self.machine.name}"
        if self.axis == "ranks":
            size = int(self.data["bytes"].iloc[0])
            return f"{where}, {format_bytes(size)}" if self.operation != "barrier" else where
        p = int(self.data["ranks"].iloc[0])
        return f"{where}, {number_of_ranks(p)}"

    @property
    def reading(self) -> str:
        """Which algorithm is the fastest where, and how far that is from the lower bound; a few sentences."""
        count = self._simulated["algorithm"].nunique()
        parts = [
            f"{name} {self._span(first, last)}" for first, last, name in self.winners.itertuples(index=False)
        ]
        if count == 1:
            said = f"{self.title}: only {self.winners['algorithm'].iloc[0]} was simulated."
        else:
            said = f"{self.title}: simulated, none of {count} is faster than {'; '.join(parts)}."
        return " ".join([said, *self._crossed(), *self._above(), *self._off()])

    def _crossed(self) -> list[str]:
        turns = self.winners["algorithm"].nunique()
        if turns < 2:
            return []
        pairs = zip(self.winners["last"], self.winners["first"][1:], strict=False)
        places = [f"{self._at(a)} and {self._at(b)}" for a, b in pairs]
        return [f"Crossover{'s' if len(places) > 1 else ''} between {', '.join(places)}."]

    def _above(self) -> list[str]:
        ratio = (self.best["simulated_s"] / self.best["bound_s"])[self.best["bound_s"] > 0]
        if ratio.empty:
            return []
        low, high = f"{ratio.min():.3g}", f"{ratio.max():.3g}"
        span = low if low == high else f"{low} to {high}"
        return [f"The fastest takes {span} times the lower bound."]

    def _off(self) -> list[str]:
        """Say where the formula of the fastest is farthest from its simulation."""
        known = self.best[(self.best["formula_s"] > 0) & (self.best["simulated_s"] > 0)]
        if known.empty:
            return []
        ratio = (known["formula_s"] / known["simulated_s"]).to_numpy(float)
        far = int(np.abs(np.log(ratio)).argmax())
        if f"{ratio[far]:.3g}" == "1":
            return ["Formulas and simulation of the fastest agree everywhere."]
        row = known.iloc[far]
        return [
            f"A formula is farthest from the fastest's simulation for {row['algorithm']} at "
            f"{self._at(row[self.axis])}: it says {ratio[far]:.3g} times the simulated time."
        ]

    def _span(self, first: float, last: float) -> str:
        return f"at {self._at(first)}" if first == last else f"at {self._at(first)} to {self._at(last)}"

    def _at(self, value: float) -> str:
        return format_bytes(int(value)) if self.axis == "bytes" else f"{int(value)} ranks"

    def plot(self, **options: Any) -> Any:
        """Draw it: `labkit.plot.card`, which takes the options.

        Returns
        -------
        labkit.plot.Figure
        """
        return draw("card", self, **options)

    def rows(self) -> list[list[str]]:
        """Return the table that is shown: at each point the winner, all its times, and the lower bound."""
        has_measured = bool(self.data["measured_s"].notna().any())
        rows = []
        for row in self.best.to_dict("records"):
            here = self.data[self.data[self.axis] == row[self.axis]]
            cells = [self._at(row[self.axis]), row["algorithm"]]
            cells += [format_seconds(row[f"{name}_s"]) for name in ("formula", "loggp", "simulated", "bound")]
            if has_measured:
                own = here.dropna(subset="measured_s").sort_values("measured_s")
                pairs = own[["algorithm", "measured_s"]].itertuples(index=False)
                cells.append(", ".join(f"{name} {format_seconds(time_s)}" for name, time_s in pairs) or "–")
            rows.append(cells)
        return rows

    @property
    def head(self) -> list[str]:
        """The headings of `rows`."""
        more = ["measured"] if self.data["measured_s"].notna().any() else []
        return [self.axis, "fastest simulated", "formula", "LogGP", "simulated", "lower bound", *more]

    @property
    def constants(self) -> str:
        """The figures that formulas and LogGP take, as a sentence."""
        each = quantity(self.beta_s_per_byte, "s")
        alpha = quantity(self.alpha_s, "s")
        return f"Formulas: α = {alpha}, β = {each} per byte. {self.loggp}; model {self.model}."

    def __str__(self) -> str:
        cells = [self.head, *self.rows()]
        wide = [max(len(row[i]) for row in cells) for i in range(len(self.head))]
        lines = [
            "  " + "  ".join(text.ljust(n) if i < 2 else text.rjust(n) for i, (text, n) in enumerate(
                zip(row, wide, strict=True)))
            for row in cells
        ]  # fmt: skip
        return "\n".join([self.reading, *(line.rstrip() for line in lines), self.constants])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [[markup.escape(cell) for cell in row] for row in self.rows()]
        inner = markup.escape(self.reading) + markup.table(self.head, rows) + markup.escape(self.constants)
        return markup.card(markup.escape(self.title), inner)
