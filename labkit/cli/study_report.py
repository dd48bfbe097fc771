"""The report of a declared study: a page with the table, each curve's picture and verdict, and its origin."""

from __future__ import annotations

import base64
import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit import html as markup
from labkit import plot
from labkit.errors import DataError, LabkitError
from labkit.plot.still import draw_still
from labkit.scaling import Model, Verdict
from labkit.study.declared.judged import COLUMNS, paper_table

if TYPE_CHECKING:
    from labkit.study import Study
    from labkit.study.declared import Judged, Work

__all__ = ["write_report"]

#: pictures of a page: more would take minutes, and nobody looks at them
_MOST_PICTURES = 60


class _Html:
    """A piece of a page."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text


def write_report(work: Work, study: Study, judged: list[Judged], path: Path) -> Path:
    """Write the page; its pictures are still ones, so that it opens anywhere and prints."""
    items: list[Any] = [
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
        raise DataError(f"cannot write the page {str(path)!r}: {error.strerror or error}") from error


def _table(judged: list[Judged]) -> str:
    body = []
    for row in paper_table(judged):
        cells = [escape(row[c]) for c in COLUMNS[:-1]]
        body.append([*cells, markup.badge(row["match"]) if row["match"] else ""])
    return markup.table([escape(c) for c in COLUMNS], body)


def _notes(work: Work, study: Study) -> list[str]:
    texts = [f"failed at {one['point']}: {one['error']}" for one in work.failures]
    texts += [str(one) for one in study.notes.get("remarks", [])]
    return texts + [f"{on}: {text}" for on, text in study.notes.get("counts", {}).items()]


def _picture(study: Study, one: Judged) -> list[Any]:
    """Return a still picture of a curve; a live one where there is no matplotlib."""
    subject = one.verdict if isinstance(one.verdict, Verdict) else one.model
    if subject is None or (isinstance(subject, Verdict) and subject.samples is None):
        return []
    try:
        curve = study.curve(**one.chosen)
        figure = plot.scaling(
            subject, None if isinstance(subject, Verdict) else curve.samples,
            metric=curve.metric, unit=curve.unit, phase=curve.phase, parameter=curve.symbol,
        )  # fmt: skip
    except (LabkitError, ValueError):  # what cannot be drawn is said as text all the same
        return []
    assert isinstance(subject, Verdict | Model)
    try:
        picture = base64.b64encode(draw_still(figure, "png", 1.5)).decode()
    except ImportError:
        return [figure]
    alt = escape(figure.alt, quote=True)
    return [_Html(f'<img alt="{alt}" style="max-width:100%" src="data:image/png;base64,{picture}">')]


def _origin(work: Work, study: Study) -> str:
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
