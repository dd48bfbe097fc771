"""``labkit study study.toml``: a declared sweep, checked, run, stored, judged, reported."""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Callable
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from labkit import plot
from labkit.cli.judge import EXIT_CODES, refuse_with
from labkit.errors import DataError, LabkitError
from labkit.plot.still import draw_still
from labkit.scaling import Model, Verdict
from labkit.study.declared.judged import COLUMNS, paper_table
from labkit.text import html as markup

if TYPE_CHECKING:
    from labkit.study import Study
    from labkit.study.declared import DeclaredWork, Judged

__all__ = ["configure", "execute"]


BAD_INPUT = 3

_DESCRIPTION = """\
Run a study that a file declares: every combination of its parameters, on simulated machines and on real MPI.
The file is checked as a whole before anything runs. Only points that are missing are run, and each is on disk
before the next one begins: if it is killed, the same command continues. A point is run again when anything
that it depends on has changed: the files of its platform, model, mapping, calibration, rules or recorded
computation, the program and every module that it imports outside Python and installed packages, environment
variables that these name, files that are values of parameters, labkit, the MPI library. Other data files that
a program reads are not known: make them a parameter, or delete NAME.results after editing one. Every value is
kept with its environment.

In the folder of results (NAME.results next to NAME.toml): points.jsonl (every value), earlier.jsonl (values
of earlier versions), data.study (for labkit.load and labkit judge), report.html, table.txt, table.csv and
table.tex.
"""
_EPILOG = """\
A study:

  title = "Allreduce on two machines"
  program = "sums.py:program"             # a function in a file next to this one; module:function; a script

  [parameters]                            # a list is varied
  ranks = [4, 8, 16, 32, 64]              # or a range, "4..64", with numbers that are no powers of two
  on = ["star", "torus:4x4x4"]            # machines
  coll = { allreduce = ["ring", "recursive_doubling"] }
  noise = ["none", "jitter=50us"]         # what disturbs simulated machines
  n = [1000, 100000]                      # the program's own

  [run]                                   # repeats, warmup, seed, timeout_s, tolerance, calibration, jobs,
  repeats = 5                             # mapping, noise, compute: as for labkit.sweep and labkit.run

  [[expect]]                              # every curve that is left is judged by itself
  growth = "log p"
  metric = "rounds"                       # default: makespan_s, of a phase phase_s
  where = { coll = "allreduce=recursive_doubling" }
  # phase, parameter, given, deviation, tolerance: as for labkit judge

exit code: 0 every expectation is met, exactly, approximately or as a bound; 1 an alarm: faster growth than
expected; 2 undecided, or points are missing because they failed; 3 bad input; 130
interrupted
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit study``."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    refuse_with(parser, BAD_INPUT)
    add = parser.add_argument
    add("study", help="file that declares the study (TOML)")
    add("--dry-run", action="store_true", help="check everything and print what would be run")
    add("--jobs", type=int, metavar="N", help="simulate on N processes of this host")
    add("--results", metavar="FOLDER", help="the folder of results (default: NAME.results)")
    add(
        "--table",
        action="append",
        default=[],
        metavar="FILE",
        help="also write the table to this file: .txt, .csv or .tex; repeatable",
    )
    add(
        "--export",
        action="append",
        default=[],
        metavar="FILE",
        help="also export the values: .txt, .json, .jsonl, .extra-p (Extra-P), .csv",
    )
    add(
        "--matrix",
        action="append",
        default=[],
        metavar="ROWS,COLUMNS,METRIC",
        help="also draw a metric over two parameters as a heat map, one for each number of ranks, into the "
        "folder of results: matrix-METRIC-RANKS.html; repeatable",
    )
    add("--json", action="store_true", help="print one JSON object and nothing else")


def execute(arguments: argparse.Namespace) -> int:
    """Do what the command line asks for, and return the exit code.

    Raises LabkitError: For what cannot be run or written: exit code 3.
    """
    from labkit.study.declared import DeclaredWork, Results, judge_all, read_declaration, table_text

    declaration = read_declaration(arguments.study)
    place = Path(arguments.study)
    folder = Path(arguments.results) if arguments.results else place.with_name(f"{place.stem}.results")
    work = DeclaredWork(declaration, Results(folder), arguments.jobs)
    for warning in declaration.warnings:
        print(f"labkit study: {warning}", file=sys.stderr)
    if arguments.dry_run:
        return _plan(work, arguments)
    if not arguments.json:
        print(_to_do(work), file=sys.stderr)
    work.run(False if arguments.json else None)
    study = work.study()
    judged = judge_all(study, declaration.expected, declaration.metrics, work.machines)
    code = _exit_code(work, judged)
    if arguments.json:
        print(json.dumps(_record(work, judged, code), ensure_ascii=False))
    else:
        print(table_text(judged), end="")
        for failure in work.failures:
            print(f"! failed at {failure['point']}: {failure['error']}")
    sys.stdout.flush()  # before any file is written: the table is there, whatever happens to the files
    _write_files(arguments, folder, work, study, judged)
    if arguments.json:
        return code
    names = ", ".join(str(folder / name) for name in ("report.html", "table.tex", "data.study"))
    print(f"labkit study: {names}", file=sys.stderr)
    return 130 if work.remarks else code


def _draw_matrix(study: Study, text: str, folder: Path) -> None:
    """Draw ``rows,columns,metric`` for each number of ranks."""
    from labkit.plot import matrix

    parts = [part.strip() for part in text.split(",")]
    if len(parts) not in (2, 3):
        raise DataError(
            f"--matrix takes ROWS,COLUMNS,METRIC, such as input,sort,makespan_s; got {text!r}",
            code="malformed-option",
        )
    metric = parts[2] if len(parts) == 3 else "makespan_s"
    for ranks in sorted(study.data["ranks"].unique()):
        drawn = matrix(study, parts[0], parts[1], metric, where={"ranks": ranks})
        drawn.save(folder / f"matrix-{metric}-{ranks}.html")


def _write_files(
    arguments: argparse.Namespace, folder: Path, work: DeclaredWork, study: Study, judged: list[Judged]
) -> None:
    """Write all files, as far as they can be."""
    from labkit.study.declared import write_table

    tables = [*(folder / name for name in ("table.txt", "table.csv", "table.tex")), *arguments.table]
    writers: list[Callable[[], object]] = [lambda: work.save(study)]
    writers += [partial(write_table, judged, path) for path in tables]
    writers.append(lambda: write_report(work, study, judged, folder / "report.html"))
    writers += [partial(study.export, path) for path in arguments.export]
    writers += [partial(_draw_matrix, study, text, folder) for text in arguments.matrix]
    failed = []
    for write in writers:
        try:
            write()
        except LabkitError as error:
            failed.append(str(error))
    if failed:
        raise DataError("; ".join(failed), code="partly-failed")


def _to_do(work: DeclaredWork) -> str:
    total, missing = len(work.planned.plan), len(work.missing)
    text = f"{missing} of {total} points to run" if missing else f"all {total} points are there"
    changed = work.changed
    if changed:
        most = max(changed.values())
        what = f"{most} point{'s were' if most > 1 else ' was'} measured"
        text += f"; changed since {what}: {', '.join(changed)}"
    if work.stale:
        text += f"; {work.stale} of earlier versions {'goes' if work.stale == 1 else 'go'} to earlier.jsonl"
    return f"labkit study: {text}"


def _plan(work: DeclaredWork, arguments: argparse.Namespace) -> int:
    """Report what would be run."""
    missing = {point.number for point in work.missing}
    points = sorted(work.planned.plan, key=lambda point: point.number)
    if arguments.json:
        rows = [
            {
                "ranks": p.ranks,
                "on": str(p.on),
                "model": p.model,
                **p.cells,
                "is_there": p.number not in missing,
            }
            for p in points
        ]
        print(
            json.dumps(
                {"points": rows, "missing": len(missing), "changed": [*work.changed], "exit": 0}, default=str
            )
        )
        return 0
    print(_to_do(work))
    for point in points:
        done = " " if point.number in missing else "✓"
        print(f"  {done} {point.text}, on={point.on}{f', model={point.model}' if point.model else ''}")
    for number, one in enumerate(work.declaration.expected, 1):
        about = one.phase or one.metric or "makespan_s"
        print(
            f"  expectation {number}: {about} in O({one.growth}){f', where {one.where}' if one.where else ''}"
        )
    return 0


def _exit_code(work: DeclaredWork, judged: list[Judged]) -> int:
    codes = {EXIT_CODES[one.match] for one in judged if one.match}
    if 1 in codes:
        return 1
    return 2 if 2 in codes or work.failures else 0


def _record(work: DeclaredWork, judged: list[Judged], code: int) -> dict[str, object]:
    from labkit.scaling import Verdict
    from labkit.study.declared import paper_table

    rows = []
    for one in judged:
        *above, row = paper_table([one])
        verdict, found = one.verdict, one.phase_sum
        more = verdict.to_dict() if isinstance(verdict, Verdict) else {}
        entry = {"where": one.where, **row, "error": one.error, "verdict": more}
        if found is not None:
            entry["sum_of_phases"] = {**above[0], "agrees": found.agrees, "reading": found.reading}
        rows.append(entry)
    return {
        "title": work.declaration.title,
        "points": len(work.planned.plan),
        "missing": len(work.missing),
        "failures": work.failures,
        "judged": rows,
        "results": str(work.results.folder),
        "exit": code,
    }


# The report of a declared study: a page with the table, each curve's picture and verdict, and its origin.


#: pictures of a page: more would take minutes, and nobody looks at them
_MOST_PICTURES = 60


class _Html:
    """A piece of a page."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text


def write_report(work: DeclaredWork, study: Study, judged: list[Judged], path: Path) -> Path:
    """Write the page; its pictures are still ones, so that it opens anywhere and prints."""
    items: list[object] = [
        f"{len(work.planned.plan)} points, {len(work.missing)} of them missing; {len(study)} values.",
        _Html(_table(judged)),
    ]
    items += [_Html(markup.properties([("note", escape(one))])) for one in _notes(work, study)]
    items.append("## Curves")
    for number, one in enumerate(judged):
        items.append(_Html(f"<h3>{escape(one.name)}</h3>"))
        if number < _MOST_PICTURES:
            items += _picture(study, one)
        if isinstance(one.verdict, Verdict):
            items.append(one.verdict)
        elif one.verdict is not None or one.error:
            items.append(_Html(f"<pre>{escape(str(one.verdict or one.error))}</pre>"))
    items += ["## Measurements", study, "## Where they come from", _Html(_origin(work, study))]
    try:
        return plot.page(work.declaration.title, items, path)
    except OSError as error:
        raise DataError(
            f"cannot write the page {str(path)!r}: {error.strerror or error}", code="unwritable-file"
        ) from error


def _table(judged: list[Judged]) -> str:
    body = []
    for row in paper_table(judged):
        cells = [escape(row[c]) for c in COLUMNS[:-1]]
        body.append([*cells, markup.badge(row["match"]) if row["match"] else ""])
    return markup.table([escape(c) for c in COLUMNS], body)


def _notes(work: DeclaredWork, study: Study) -> list[str]:
    texts = [f"failed at {one['point']}: {one['error']}" for one in work.failures]
    texts += [str(one) for one in study.notes.get("remarks", [])]
    return texts + [f"{on}: {text}" for on, text in study.notes.get("counts", {}).items()]


def _picture(study: Study, one: Judged) -> list[object]:
    """Return a still picture of a curve; a live one where there is no matplotlib."""
    subject = one.verdict if isinstance(one.verdict, Verdict) else one.model
    if subject is None or (isinstance(subject, Verdict) and subject.samples is None):
        return []
    try:
        curve = study.curve(**one.chosen)
        figure = plot.scaling(
            subject,
            None if isinstance(subject, Verdict) else curve.samples,
            metric=curve.metric,
            unit=curve.unit,
            phase=curve.phase,
            parameter=curve.symbol,
        )
    except (LabkitError, ValueError):  # what cannot be drawn is said as text all the same
        return []
    assert isinstance(subject, Verdict | Model)
    try:
        picture = base64.b64encode(draw_still(figure, "png", 1.5)).decode()
    except ImportError:
        return [figure]
    alt = escape(figure.alt, quote=True)
    return [_Html(f'<img alt="{alt}" style="max-width:100%" src="data:image/png;base64,{picture}">')]


def _origin(work: DeclaredWork, study: Study) -> str:
    rows = [
        (
            "program",
            escape(f"{work.declaration.program_text}, SHA-256 {work.declaration.program_sha256[:16]}"),
        ),
        ("values", escape(str(work.results.folder / "points.jsonl"))),
    ]
    for name, about in study.notes.get("environments", {}).items():
        text = json.dumps(about, indent=1, default=str)
        rows.append((f"environment {name}", f"<pre>{escape(text)}</pre>"))
    return markup.properties(rows)
