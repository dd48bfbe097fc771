"""The result of a cell: a run, with the cell's variables and the output of every rank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.errors import UnknownNameError
from labkit.jupyter.ranks import ERROR_BEGIN, ERROR_END, CellValue, too_much
from labkit.result import ByRank, Run, plain_numbers
from labkit.result.run import run_html
from labkit.text.rank_output import Piece, blocks_of, printed_html, printed_text

__all__ = ["CellRun", "Printed", "cell_run", "pieces_of", "unmarked"]

#: lines and characters of a result that are shown
_RESULT_LINES, _RESULT_CHARACTERS = 12, 1000
#: names of a cell that the notice names
_NAMES_TOLD = 4


def pieces_of(text: str) -> list[Piece]:
    """Cut what a rank printed where standard error begins and ends."""
    pieces: list[Piece] = []
    for number, part in enumerate(text.replace(ERROR_END + ERROR_BEGIN, "").split(ERROR_BEGIN)):
        error, sign, plain = part.partition(ERROR_END) if number else ("", "", part)
        if number and not sign:  # a rank that was killed in the middle of it
            error, plain = part, ""
        pieces += [piece for piece in ((True, error), (False, plain)) if piece[1]]
    return pieces


def unmarked(text: str) -> str:
    """Take the marks of standard error out of a text."""
    return text.replace(ERROR_BEGIN, "").replace(ERROR_END, "")


class Printed:
    """What ranks printed, and their results, as a notebook shows them.

    `output`: Of each rank, with the marks of standard error.
    `results`: The texts of the ranks' results, empty where there is none to show.
    `where`: What holds all of it, for what is left out.
    """

    def __init__(self, output: Sequence[str], results: Sequence[str] = (), where: str = "_spmd") -> None:
        self.where = where
        self.output = blocks_of(map(pieces_of, output))
        self.results = blocks_of(([(False, text)] if text else [] for text in results), is_result=True)

    def __bool__(self) -> bool:
        return bool(self.output or self.results)

    def __repr__(self) -> str:
        output, results = f"{self.where}.output", f"{self.where}.results"
        shown = printed_text(self.output, output), printed_text(self.results, results)
        return "\n".join(part for part in shown if part)

    def _repr_html_(self) -> str:
        output, results = f"{self.where}.output", f"{self.where}.results"
        shown = printed_html(self.output, output) + printed_html(self.results, results)
        return f"<div class='labkit-ranks'>{shown}</div>"


@dataclass(repr=False)
class CellRun(Run):
    """The run of a ``%%spmd`` cell.

    `results`: The cell's last expression on each rank, in rank order; None where the cell ends otherwise.
    `values`: What the cell's names were when it had ended: a list by rank for each name, None where a rank
        had none. Modules, functions, classes and names that begin with an underscore do not come back.
    `missing`: Why a name did not come back.
    """

    values: dict[str, list[Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    printed_parts: Printed | None = None

    def _instead_of(self, name: str) -> str:
        return f'_spmd["{name}"]' if name in vars(self).get("values", {}) else super()._instead_of(name)

    def __getitem__(self, name: str | int) -> list[Any]:
        """Return what a name of the cell was on each rank."""
        if isinstance(name, int):
            raise UnknownNameError(
                f"_spmd[...] takes a name of the cell, as in {self._example()}; got {name}: "
                "_spmd.results has an entry for each rank"
            )
        if name not in self.values:
            why = self.missing.get(name, self._names())
            raise UnknownNameError(f"{name!r} did not come back: {why}")
        return self.values[name]

    def _example(self) -> str:
        return f'_spmd["{next(iter(self.values), "x")}"]'

    def _names(self) -> str:
        return (
            f"the cell's names are {', '.join(self.values)}" if self.values else "the cell has left no names"
        )

    def facts(self) -> list[tuple[str, str]]:
        """List the figures other than the makespan, and how the cell's names are reached."""
        told = [f'_spmd["{name}"]' for name in [*self.values][:_NAMES_TOLD]]
        more = ["…"] if len(self.values) > _NAMES_TOLD else []
        return super().facts() + ([("by rank", ", ".join(told + more))] if told else [])

    def __repr__(self) -> str:
        parts = [repr(self.printed_parts)] if self.printed_parts else []
        return "\n".join([*parts, super().__repr__()])

    def _repr_html_(self) -> str:
        shown = self.printed_parts._repr_html_() if self.printed_parts else ""
        return f"{shown}{run_html(self, has_output=False)}"


#: what a real rank prints in the place of a picture of matplotlib
_FIGURE = re.compile(r"^(Figure\(\d+x\d+\)|<Figure size .*>)$", re.MULTILINE)


def cell_run(run: Run, names: Sequence[str], is_quiet: bool) -> CellRun:
    """Take apart what the ranks of a cell gave."""
    outcomes = [_cell_value(result) for result in run.results]
    missing: dict[str, str] = {}
    for outcome in outcomes:
        for name, reason in outcome.missing.items():
            missing.setdefault(name, reason)
    found = [name for name in names if any(name in outcome.names for outcome in outcomes)]
    values: dict[str, list[object]] = {
        name: ByRank(outcome.names.get(name) for outcome in outcomes) for name in found
    }
    results = [outcome.value for outcome in outcomes]
    notes = list(run.notes)
    notes += [f"{name} did not come back: {reason}" for name, reason in missing.items()]
    if run.model is None and any(map(_FIGURE.search, run.output)):
        notes.append(
            "a figure of matplotlib does not come back from a real rank: keep its data in a name of the cell "
            "and draw _spmd[...] of it in a separate cell"
        )
    texts = [] if is_quiet else [_text(value) for value in results]
    facts = {
        **vars(run),
        "results": results,
        "notes": notes,
        "output": [unmarked(text) for text in run.output],
    }
    return CellRun(**facts, values=values, missing=missing, printed_parts=Printed(run.output, texts))


def _cell_value(result: object) -> CellValue:
    if isinstance(result, CellValue):
        return result
    if not isinstance(result, tuple):  # a rank that left with sys.exit(0)
        return CellValue(None, {})
    value, names = result
    missing = {name: reason for name, one in names.items() if (reason := too_much(one))}
    return CellValue(value, {name: one for name, one in names.items() if name not in missing}, missing)


def _text(value: object) -> str:
    if value is None:
        return ""
    try:
        with plain_numbers():
            text = repr(value)
    except Exception as error:  # anybody's __repr__
        text = f"<a {type(value).__name__} whose repr fails: {type(error).__name__}>"
    if len(text) > _RESULT_CHARACTERS:
        text = f"{text[:_RESULT_CHARACTERS]}… {len(text) - _RESULT_CHARACTERS:,} more characters"
    lines = text.split("\n")
    if len(lines) > _RESULT_LINES:
        lines[_RESULT_LINES:] = [f"… {len(lines) - _RESULT_LINES} more lines"]
    return "\n".join(lines)
