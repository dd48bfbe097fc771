"""The table of a paper: a row for each curve with its expectation, model, divergence and verdict."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path

from labkit.errors import DataError
from labkit.html import MATCH_SIGNS
from labkit.plain import replace_file
from labkit.scaling import SurfaceVerdict, Verdict
from labkit.study.declared.judged import Judged
from labkit.study.phase_sum import NAME as SUM_OF_PHASES
from labkit.study.table import aligned

__all__ = ["COLUMNS", "paper_table", "table_text", "write_table"]

COLUMNS = ("curve", "metric", "expectation", "model", "R2", "divergence", "match")


def paper_table(judged: Sequence[Judged]) -> list[dict[str, str]]:
    """Return a row for each curve, by the names of `COLUMNS`; the terms are as `labkit.judge` writes them.

    A whole run whose phases were measured has a second row, above it, for the sum of the phases' models.
    """
    return [row for one in judged for row in (*_sum_row(one), _row(one))]


def _sum_row(one: Judged) -> list[dict[str, str]]:
    if one.phase_sum is None:
        return []
    row = _row(one) | {"metric": SUM_OF_PHASES, "model": str(one.phase_sum.term), "R2": "", "match": ""}
    if isinstance(one.verdict, Verdict):
        divergence = one.phase_sum.term.over(one.verdict.expectation.term)
        row |= {"divergence": str(divergence), "match": one.phase_sum.match(one.verdict)}
    return [row]


def _row(one: Judged) -> dict[str, str]:
    verdict, model = one.verdict, one.model
    row = dict.fromkeys(COLUMNS, "")
    row["curve"] = ", ".join(f"{key}={value}" for key, value in one.where.items())
    row["metric"], row["match"] = one.what, one.match
    if one.expected is not None:
        row["expectation"] = one.expected.growth
    if isinstance(verdict, SurfaceVerdict):
        row["model"] = str(verdict.model)
    elif isinstance(verdict, Verdict):
        row["expectation"] = str(verdict.expectation.term)
        row["model"] = verdict.growth
        row["divergence"] = "" if verdict.divergence is None else str(verdict.divergence)
    elif model is not None:
        row["model"] = str(model.term)
    if model is not None:
        row["R2"] = "-" if model.r2_adjusted is None else f"{model.r2_adjusted:.3f}"
    if one.error:
        row["model"] = "?"
    return row


def table_text(judged: Sequence[Judged]) -> str:
    """Return the table as aligned text, with what could not be judged below it."""
    rows = paper_table(judged)
    shown = [c for c in COLUMNS if any(row[c] for row in rows)] or list(COLUMNS)
    lines = [shown]
    for row in rows:
        sign = f"{MATCH_SIGNS[row['match']]} " if row["match"] else ""
        lines.append([f"{sign}{row[c]}" if c == "match" else row[c] for c in shown])
    below = [f"! {one.name}: {one.error}" for one in judged if one.error]
    below += [
        f"! {one.name}: {one.phase_sum.reading}"
        for one in judged
        if one.phase_sum is not None and not one.phase_sum.agrees
    ]
    return "\n".join([*aligned(lines), *below]) + "\n"


def _csv(judged: Sequence[Judged]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(paper_table(judged))
    return out.getvalue()


def _latex(judged: Sequence[Judged]) -> str:
    """A tabular that needs the package booktabs, as most journals' classes have it."""
    rows = paper_table(judged)
    shown = [c for c in COLUMNS if any(row[c] for row in rows)] or list(COLUMNS)
    heads = {"R2": r"adj.\ $R^2$", "divergence": r"$\delta$"}
    lines = [r"\begin{tabular}{" + "l" * len(shown) + "}", r"\toprule"]
    lines.append(" & ".join(heads.get(c, c.capitalize()) for c in shown) + r" \\")
    lines.append(r"\midrule")
    for row in rows:
        lines.append(" & ".join(_cell(c, row[c]) for c in shown) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _cell(column: str, text: str) -> str:
    if column in ("expectation", "model", "divergence") and text and text not in ("levels off", "?"):
        return f"$O({_math(text)})$"
    return _escaped(text)


def _math(term: str) -> str:
    """Write a term such as ``p^0.75 log^2 p`` as LaTeX's mathematics."""
    text = re.sub(r"^O\((.*)\)$", r"\1", term.strip())
    text = re.sub(r"\bsqrt\(([^()]*)\)", r"\\sqrt{\1}", text)
    text = re.sub(r"\^\(?(-?[\w./]+)\)?", r"^{\1}", text)
    text = re.sub(r"\blog2?\b", r"\\log", text)
    return text.replace("*", r"\,").replace("  ", " ")


def _escaped(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, "\\" + c if c in "#$%&_{}" else c) for c in text)


_WRITERS = {".txt": table_text, ".csv": _csv, ".tex": _latex}


def write_table(judged: Sequence[Judged], path: str | os.PathLike[str]) -> Path:
    """Write the table; the ending says how: ``.txt``, ``.csv`` or ``.tex`` (LaTeX with booktabs).

    Raises
    ------
    DataError
        Another ending, or the file cannot be written.
    """
    target = Path(path)
    writer = _WRITERS.get(target.suffix.lower())
    if writer is None:
        raise DataError(f"{os.fspath(path)!r}: a table is written as .txt, .csv or .tex (LaTeX)")
    try:
        return replace_file(target, writer(judged).encode())
    except OSError as error:
        raise DataError(f"cannot write {str(target)!r}: {error.strerror or error}") from error
