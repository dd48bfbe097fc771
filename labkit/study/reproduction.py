"""Published tables, computed again: declared studies, the printed cells that they stand for, the comparison.

A reproduction is a folder with ``study.toml``: the tables of the paper, the declared studies that stand for
its machines, and for cells that come out differently the experiments on the cause: the same study with one
thing changed.

References
----------
.. [1] S. Shudler et al.: Engineering algorithms for scalability through continuous validation of performance
   expectations. IEEE TPDS 30(8), 2019. doi:10.1109/TPDS.2019.2896993
"""

from __future__ import annotations

import csv
import io
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from labkit.datasets.papers import shudler2019
from labkit.errors import DataError, nearest
from labkit.scaling import Verdict, match, space_for
from labkit.scaling.leastsquares import best_line
from labkit.scaling.samples import LEAST_VALUES
from labkit.study.declared import Declaration, DeclaredWork, Judged, Results, judge_all, read_declaration
from labkit.study.phase_sum import aligned
from labkit.study.selection import NothingMeasured
from labkit.study.study import Study, load
from labkit.text.files import replace_file, toml_of
from labkit.text.html import MATCH_SIGNS

__all__ = [
    "Cause",
    "Paper",
    "PaperMachine",
    "PrintedCell",
    "Reproduction",
    "find_reproductions",
    "read_papers",
    "read_reproduction",
    "table_text",
]

#: where the record of a reproduction is, in its folder
RECORDED = "recorded"
_TOP = ("title", "tables", "cells", "machines", "causes", "method")
_MACHINE = ("name", "printed", "files", "quick", "space")
_METHOD = ("aggregate", "space")
_PAPER = ("title", "commands", "slow")
_CAUSE = ("machine", "cells", "change", "file")
#: match symbols in the order of their distance from an exact match
_ORDER = ("exact", "approximate", "none")


@dataclass(frozen=True)
class PaperMachine:
    """A machine of the paper.

    `name`: What `--on` selects.
    `printed`: Its name in the paper's tables.
    `files`: Declared studies, in the folder of the reproduction.
    `quick`: Those of them that take at most about a minute together.
    `space`: The search space of its models, where it is not that of the method.
    """

    name: str
    printed: str
    files: tuple[str, ...]
    quick: tuple[str, ...]
    space: str = ""


@dataclass(frozen=True)
class PaperMethod:
    """How the paper turns values into a model, in addition to labkit's verdict.

    A term of the space is selected by `labkit.scaling.leastsquares.best_line`, and compared by its exponents.

    `aggregate`: What stands for the repetitions at a point, such as "quartile".
    `space`: The search space, as in `labkit.fit`.
    """

    aggregate: str
    space: str

    def growth(self, study: Study, one: Judged, space: str) -> tuple[str, str]:
        """Return the leading term of a curve, or of the sum of its phases, and how it matches.

        `space`: The search space.
        Returns: Empty texts where there is no verdict to compare with, "?" where nothing can be fitted.
        """
        verdict, chosen = one.verdict, dict(one.chosen)
        if not isinstance(verdict, Verdict):
            return "", ""
        expected, found = verdict.expectation.term, []
        terms = [each.named(expected.symbol) for each in space_for(space, expected)]
        phases = [] if one.phase else study.filter(**chosen["where"]).phases
        choices = [{"metric": "phase_s", "phase": phase} for phase in phases]
        for choice in choices or [{}]:
            try:
                samples = study.curve(**(chosen | choice)).samples
            except NothingMeasured:
                continue
            if samples.x.size >= LEAST_VALUES:
                found.append(best_line(terms, samples.x, samples.aggregate(self.aggregate)))
        if not found:
            return "?", "undecided"
        return str(max(found)), match(max(found), expected, verdict.deviation.term)


@dataclass(frozen=True)
class Cause:
    """An experiment: a declared study in which one thing is changed, to explain cells of a machine.

    `cells`: The functions as printed.
    `change`: What is changed.
    """

    machine: str
    cells: tuple[str, ...]
    change: str
    file: str


@dataclass(frozen=True)
class PrintedCell:
    """A printed verdict, that of the paper's method on values computed here, and labkit's.

    `model`, `match`: labkit's; of a run whose phases were measured: from the sum of the phases' models, as in
        the paper.
    `method_model`, `method_match`: Those of the paper's method on the same values, where it is declared.
    `total`: Such a run's growth, fitted to its whole time.
    `points`: The range of the parameter that was computed.
    `agreement` ({"same", "close", "different", "not run"}): Of the match symbols, by the paper's method where
        it is declared: equal, neighbors (exact and approximate, approximate and none), or neither.
    `why`: What the experiments on this cell have shown.
    """

    machine: str
    function: str
    expectation: str
    paper_model: str
    paper_match: str
    model: str = ""
    match: str = ""
    method_model: str = ""
    method_match: str = ""
    total: str = ""
    points: str = ""
    agreement: str = "not run"
    why: str = ""


class Reproduction:
    """A reproduction as its folder declares it.

    `tables`: Of the paper.
    `cells`: The printed function by the value (or the phase) that names a curve of the declared studies.
    `method`: The paper's way to models, where it is declared.
    """

    def __init__(
        self,
        folder: Path,
        title: str,
        tables: Sequence[int],
        cells: Mapping[str, str],
        machines: Sequence[PaperMachine],
        causes: Sequence[Cause],
        method: PaperMethod | None = None,
    ) -> None:
        self.folder, self.title, self.tables, self.cells = folder, title, list(tables), dict(cells)
        self.machines, self.causes, self.method = list(machines), list(causes), method

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    def chosen(self, on: str | None = None) -> list[PaperMachine]:
        """Return the machines to compute.

        Raises DataError: There is no machine of this name.
        """
        names = [machine.name for machine in self.machines]
        if on is not None and on not in names:
            raise DataError(
                f"{self.name} has no machine {on!r}{nearest(on, names, 1, 0.5)}; it has: {', '.join(names)}",
                code="unknown-name",
            )
        return [machine for machine in self.machines if on in (None, machine.name)]

    def files(self, machines: Sequence[PaperMachine], is_quick: bool = False) -> list[str]:
        """Return the declared studies to run: those of the machines, then those of the experiments."""
        found = [name for machine in machines for name in (machine.quick if is_quick else machine.files)]
        if not is_quick:
            names = {machine.name for machine in machines}
            found += [cause.file for cause in self.causes if cause.machine in names]
        return list(dict.fromkeys(found))

    def declaration(self, file: str) -> Declaration:
        """Read one of the declared studies."""
        return read_declaration(self.folder / file)

    def work(self, file: str, results: Path, jobs: int | None = None) -> DeclaredWork:
        """Return the work on one of the declared studies, with its results in a subfolder."""
        return DeclaredWork(self.declaration(file), Results(results / Path(file).stem), jobs)

    def judge(self, file: str, study: Study) -> dict[str, Judged]:
        """Judge a declared study; return the verdicts by printed function."""
        judged = judge_all(study, self.declaration(file).expected)
        found = {}
        for one in judged:
            names = [one.phase, *(str(value) for value in _curve(one).values())]
            for name in names:
                if name in self.cells and one.expected is not None:
                    found[self.cells[name]] = one
        return found

    def compare(self, machines: Sequence[PaperMachine], studies: Mapping[str, Study]) -> list[PrintedCell]:
        """Compare what was printed with the studies.

        `studies`: What has been measured, by the name of its file.
        """
        printed = shudler2019()
        printed = printed[printed["table"].isin(self.tables)]
        judged = {file: self.judge(file, study) for file, study in studies.items()}
        cells = []
        for machine in machines:
            ours = {name: (file, one) for file in machine.files for name, one in judged.get(file, {}).items()}
            for row in printed[printed["machine"] == machine.printed].itertuples(index=False):
                name = str(row.function)
                cell = PrintedCell(machine.name, name, str(row.expectation), str(row.model), str(row.match))
                if name in ours:
                    file, one = ours[name]
                    cell = self._filled(cell, one, studies[file], machine)
                    if cell.agreement != "same":
                        cell = replace(cell, why=self._why(cell, one, machine, judged, studies))
                cells.append(cell)
        return cells

    def _why(
        self,
        cell: PrintedCell,
        one: Judged,
        machine: PaperMachine,
        judged: Mapping[str, Mapping[str, Judged]],
        studies: Mapping[str, Study],
    ) -> str:
        """Return what was tried to explain a cell: labkit's verdict, and the experiments."""
        tried = []
        if cell.method_match and cell.match == cell.paper_match:
            tried.append(f"labkit's verdict on the same values: {cell.model}, {cell.match}, as printed")
        for cause in self.causes:
            found = judged.get(cause.file, {}).get(cell.function)
            if cause.machine == cell.machine and cell.function in cause.cells and found is not None:
                tried.append(_tried(cause, self._filled(cell, found, studies[cause.file], machine)))
        return "; ".join(tried) or one.error or "no experiment was run"

    def _filled(self, cell: PrintedCell, one: Judged, study: Study, machine: PaperMachine) -> PrintedCell:
        """Return a cell with what a curve of a study says."""
        model, match = _growth(one)
        method = ("", "")
        if self.method is not None:
            method = self.method.growth(study, one, machine.space or self.method.space)
        return replace(
            cell,
            model=model,
            match=match,
            method_model=method[0],
            method_match=method[1],
            total=str(one.model.term) if one.phase_sum is not None and one.model is not None else "",
            points=_range(one, study),
            agreement=_agreement(cell.paper_match, method[1] or match),
        )

    def record(self, cells: Sequence[PrintedCell], works: Mapping[str, DeclaredWork]) -> Path:
        """Write values, table and provenance into the folder's record; without `works`, the table alone.

        Raises DataError: They cannot be written.
        """
        folder = self.folder / RECORDED
        about: dict[str, object] = {}
        try:
            folder.mkdir(exist_ok=True)
            for file, work in works.items():
                study = work.study()
                Study(recorded_values(study), study.notes).save(folder / f"{Path(file).stem}.study")
                about[file] = work.effort
            if works:
                environments = {
                    name: one for work in works.values() for name, one in work.results.environments.items()
                }
                text = json.dumps({"studies": about, "environments": environments}, indent=1, default=str)
                replace_file(folder / "provenance.json", f"{text}\n".encode())
            replace_file(folder / "table.csv", _csv(cells).encode())
        except OSError as error:
            raise DataError(
                f"{str(folder)!r} cannot be written: {error.strerror or error}", code="unwritable-file"
            ) from error
        return folder

    def recorded(self) -> dict[str, Study]:
        """Return the recorded values of each declared study that has some."""
        names = self.files(self.machines)
        paths = {name: self.folder / RECORDED / f"{Path(name).stem}.study" for name in names}
        return {name: load(path) for name, path in paths.items() if path.is_file()}


def recorded_values(study: Study) -> pd.DataFrame:
    """Return the times of a study and of its phases."""
    return study.data[study.data["metric"].isin(["makespan_s", "phase_s"])].reset_index(drop=True)


def find_reproductions(folder: Path) -> dict[str, Path]:
    """Return the folders with a ``study.toml``, by name."""
    return {path.parent.name: path.parent for path in sorted(folder.glob("*/study.toml"))}


def read_reproduction(folder: Path) -> Reproduction:
    """Read ``study.toml`` of a folder."""
    path = folder / "study.toml"
    content = _content(path)
    _require(content, _TOP, _TOP[:4], str(path))
    machines = []
    for entry in content["machines"]:
        _require(entry, _MACHINE, _MACHINE[:3], f"{path}, [[machines]]")
        files = tuple(entry["files"])
        machines.append(
            PaperMachine(
                entry["name"],
                entry["printed"],
                files,
                tuple(entry.get("quick", files)),
                entry.get("space", ""),
            )
        )
    causes = []
    for entry in content.get("causes", []):
        _require(entry, _CAUSE, _CAUSE, f"{path}, [[causes]]")
        causes.append(Cause(**{**entry, "cells": tuple(entry["cells"])}))
    method = None
    if "method" in content:
        _require(content["method"], _METHOD, _METHOD, f"{path}, [method]")
        method = PaperMethod(**content["method"])
    return Reproduction(
        folder, content["title"], content["tables"], content["cells"], machines, causes, method
    )


class Paper(NamedTuple):
    """A paper whose figures are printed by commands, the slow ones last."""

    title: str
    commands: Sequence[str]
    slow: Sequence[str] = ()


def read_papers(studies: Path) -> dict[str, Paper]:
    """Read ``papers.toml`` of the folder of studies: papers whose figures commands print; none without it."""
    path = studies / "papers.toml"
    papers = _content(path) if path.exists() else {}
    for name, paper in papers.items():
        _require(paper, _PAPER, _PAPER[:2], f"{path}, [{name}]")
    return {name: Paper(**paper) for name, paper in papers.items()}


def _content(path: Path) -> dict[str, Any]:
    try:
        return toml_of(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{str(path)!r} cannot be read: {error}", code="unreadable-file") from error


def _require(table: Mapping[str, object], known: Sequence[str], needed: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise DataError(
                f"{where}: {key!r} is not known here; known: {', '.join(known)}", code="unknown-name"
            )
    if missing := [key for key in needed if key not in table]:
        raise DataError(
            f"{where}: {missing[0]!r} is missing; needed: {', '.join(needed)}", code="missing-key"
        )


def _curve(one: Judged) -> dict[str, object]:
    where = dict(one.expected.where) if one.expected is not None else {}
    return where | one.where


def _growth(one: Judged) -> tuple[str, str]:
    """Return the growth and the match of a curve, from the sum of phases where there is one."""
    verdict = one.verdict
    if one.phase_sum is not None and isinstance(verdict, Verdict):
        return str(one.phase_sum.term), one.phase_sum.match(verdict)
    return (verdict.growth if isinstance(verdict, Verdict) else "?"), one.match


def _agreement(paper: str, ours: str) -> str:
    if ours == paper:
        return "same"
    if {paper, ours} in ({"exact", "approximate"}, {"approximate", "none"}, {"approximate", "bound"}):
        return "close"
    return "different"


def _tried(cause: Cause, found: PrintedCell) -> str:
    """Return what an experiment shows, in one clause."""
    by_labkit = f"{found.model}, {found.match}"
    if not found.method_match:
        return f"with {cause.change}: {by_labkit}, {_is_printed(found.match, found)}"
    said = f"with {cause.change}: {found.method_model}, {found.method_match}"
    if found.match == found.method_match:
        return f"{said}, {_is_printed(found.match, found)}"
    return (
        f"{said}, {_is_printed(found.method_match, found)} "
        f"(labkit: {by_labkit}, {_is_printed(found.match, found)})"
    )


def _is_printed(match: str, cell: PrintedCell) -> str:
    return "as printed" if match == cell.paper_match else "not as printed"


def _range(one: Judged, study: Study) -> str:
    chosen = one.chosen.get("parameter") or "ranks"
    values = study.data
    for column, value in one.chosen.get("where", {}).items():
        values = values[values[column] == value] if column in values else values
    if chosen not in values or not len(values):
        return ""
    symbol = "p" if chosen == "ranks" else chosen
    return f"{symbol} = {values[chosen].min()}..{values[chosen].max()}"


def _csv(cells: Sequence[PrintedCell]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(asdict(cells[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(cell) for cell in cells)
    return out.getvalue()


def table_text(cells: Sequence[PrintedCell]) -> str:
    """Return the comparison as aligned text, and below it the causes and the share of equal symbols."""
    head = ["machine", "function", "expected", "paper", "", "its method", "", "labkit", "", "whole fit"]
    rows = [[*head, "agreement", "computed"]]
    for cell in cells:
        pairs = [
            (cell.paper_model, cell.paper_match),
            (cell.method_model, cell.method_match),
            (cell.model, cell.match),
        ]
        shown = [text for model, match in pairs for text in (model, MATCH_SIGNS.get(match, ""))]
        name = [cell.machine, cell.function, cell.expectation]
        rows.append([*name, *shown, cell.total, cell.agreement, cell.points])
    filled = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    lines = aligned([[row[i] for i in filled] for row in rows])
    below = [f"! {cell.machine}, {cell.function}: {cell.why}" for cell in cells if cell.why]
    run = [cell for cell in cells if cell.agreement != "not run"]
    same = sum(cell.agreement == "same" for cell in run)
    count = f"{same} of {len(run)} cells have the paper's match symbol"
    if any(cell.method_match for cell in run):
        by_labkit = sum(cell.match == cell.paper_match for cell in run)
        count += f" by the paper's method, {by_labkit} by labkit's verdicts"
    if len(run) < len(cells):
        count += f"; {len(cells) - len(run)} were not run"
    return "\n".join([*lines, *below, count]) + "\n"
