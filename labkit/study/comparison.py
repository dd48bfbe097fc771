"""Tables side by side: the same programs on several machines, a verdict in every cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from html import escape

import pandas as pd

from labkit.errors import DataError
from labkit.scaling import Model, Term, Verdict
from labkit.study.phase_sum import NAME as SUM_OF_PHASES
from labkit.study.phase_sum import WHOLE_RUN, PhaseSum, Table, aligned
from labkit.text import html as markup

__all__ = ["Comparison"]

_Entry = tuple[Model | None, Verdict | None]


class Comparison:
    """`Study.table` of several programs, each on several machines.

    Parameters
    ----------
    tables : mapping of str to mapping of str to Table
        Program -> machine -> table. Machines may differ between programs.

    Raises
    ------
    DataError
        If there is no table at all.

    Examples
    --------
    >>> import labkit as lk
    >>> from labkit.study import Comparison
    >>> def program(comm):
    ...     with lk.phase("meet"):
    ...         comm.Barrier()
    >>> def table(on):
    ...     study = lk.sweep(program, ranks=[2, 4, 8, 16, 32], on=on, progress=False)
    ...     return study.table({"meet": "log p"}, total="log p")
    >>> print(Comparison({"barrier": {"star": table("star"), "no overhead": table("star,model=smpi")}}))
    barrier    expected  star     no overhead
    meet       log p     ✓ log p  ✓ log p
    whole run  log p     ✓ log p  ✓ log p
    """

    def __init__(self, tables: Mapping[str, Mapping[str, Table]]) -> None:
        self.tables = {program: dict(machines) for program, machines in tables.items()}
        if not any(self.tables.values()):
            raise DataError(
                "a comparison needs at least one table: {program: {machine: table}}", code="not-enough-data"
            )

    @property
    def programs(self) -> list[str]:
        """The programs, in the order given."""
        return list(self.tables)

    @property
    def machines(self) -> list[str]:
        """The machines, in the order of their first appearance."""
        return list(dict.fromkeys(machine for row in self.tables.values() for machine in row))

    @property
    def frame(self) -> pd.DataFrame:
        """A row per program, machine and phase, with the columns of `Table.frame`."""
        parts = []
        for program, machines in self.tables.items():
            for machine, table in machines.items():
                part = table.frame
                part.insert(0, "program", program)
                part.insert(1, "machine", machine)
                parts.append(part)
        return pd.concat(parts, ignore_index=True)

    @property
    def counts(self) -> dict[str, int]:
        """How many verdicts are exact, approximate, none, undecided."""
        found = Counter(
            verdict.match
            for machines in self.tables.values()
            for table in machines.values()
            for verdict in table.verdicts.values()
        )
        return {match: found[match] for match in markup.MATCH_SIGNS}

    def rows(self, program: str) -> list[tuple[str, str, dict[str, _Entry]]]:
        """Return a program's rows: phase, expectation, and the finding on each machine."""
        merged: dict[str, dict[str, _Entry]] = {}
        for machine, table in self.tables[program].items():
            for phase, model, verdict in table:
                merged.setdefault(phase, {})[machine] = (model, verdict)
        return [(phase, _expected(entries, str), entries) for phase, entries in merged.items()]

    def sums(self, program: str) -> dict[str, PhaseSum]:
        """Return the sum of a program's phases on each machine that has one (`Table.phase_sum`)."""
        tables = self.tables[program].items()
        return {machine: table.phase_sum for machine, table in tables if table.phase_sum is not None}

    def __str__(self) -> str:
        """Print a block per program: phases down, machines across, growth and match in the cells."""
        lines: list[list[str]] = []
        for program in self.programs:
            lines += [[""] * (2 + len(self.machines))] if lines else []
            lines.append([program, "expected", *self.machines])
            for phase, expected, entries in self.rows(program):
                if phase == WHOLE_RUN and (sums := self.sums(program)):
                    cells = (_sum_cell(sums.get(m), entries.get(m)) for m in self.machines)
                    lines.append([SUM_OF_PHASES, expected, *cells])
                lines.append([phase, expected, *(_cell(entries.get(m)) for m in self.machines)])
        return "\n".join(aligned(lines))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        body = []
        for program in self.programs:
            for number, (phase, _, entries) in enumerate(self.rows(program)):
                expected = _expected(entries, Term.html)
                name = f"<b>{escape(program)}</b>" if number == 0 else ""
                if phase == WHOLE_RUN and (sums := self.sums(program)):
                    cells = [_sum_cell(sums.get(m), entries.get(m), is_html=True) for m in self.machines]
                    body.append(["", SUM_OF_PHASES, f"O({expected})" if expected else "", *cells])
                cells = [_html_cell(entries.get(machine)) for machine in self.machines]
                body.append([name, escape(phase), f"O({expected})" if expected else "", *cells])
        head = ["Program", "Phase", "Expected", *map(escape, self.machines)]
        return markup.table(head, body) + self._details()

    def _details(self) -> str:
        """Return the full tables as text, folded away: as HTML they would be ten times as long."""
        pre = '<pre style="white-space:pre;overflow-x:auto">'
        inner = "".join(
            f"<p><b>{escape(program)}</b>, {escape(machine)}</p>{pre}{escape(str(table))}</pre>"
            for program, machines in self.tables.items()
            for machine, table in machines.items()
        )
        return f"<details><summary>divergence, R² and model of every cell</summary>{inner}</details>"


def _expected(entries: Mapping[str, _Entry], write: Callable[[Term], str]) -> str:
    """Return the expectation, or all of them where machines were given different ones."""
    found = [write(verdict.expectation.term) for _, verdict in entries.values() if verdict is not None]
    return " | ".join(dict.fromkeys(found))


def _cell(entry: _Entry | None) -> str:
    if entry is None:
        return ""
    model, verdict = entry
    if verdict is not None:
        return f"{markup.MATCH_SIGNS[verdict.match]} {verdict.growth}"
    return str(model.term) if model is not None else "?"


def _sum_cell(found: PhaseSum | None, total: _Entry | None, is_html: bool = False) -> str:
    """Return the growth of the phases' sum, with its match where the whole run has an expectation."""
    if found is None:
        return "" if total is None else "?"
    growth = f"O({found.term.html()})" if is_html else str(found.term)
    verdict = None if total is None else total[1]
    if verdict is None:
        return growth
    match = found.match(verdict)
    return f"{_sign(match)}&nbsp;{growth}" if is_html else f"{markup.MATCH_SIGNS[match]} {growth}"


def _sign(match: str) -> str:
    color, sign = markup.MATCH_COLORS[match], markup.MATCH_SIGNS[match]
    style = f"background:{color};color:#fff;border-radius:3px;padding:0 4px;font-weight:600"
    return f'<span style="{style}" title="{match}">{sign}</span>'


def _html_cell(entry: _Entry | None) -> str:
    if entry is None:
        return ""
    model, verdict = entry
    growth = f"O({model.term.html()})" if model is not None else "?"
    if model is not None and model.is_nearest:
        growth += "?"
    elif verdict is not None and verdict.growth == "levels off":
        growth = verdict.growth
    if verdict is None:
        return growth
    return f"{_sign(verdict.match)}&nbsp;{growth}"
