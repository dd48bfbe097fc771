"""Submitted notebooks made fit for nbgrader, which gives up a whole class for one that is not.

What nbgrader reads is a notebook written here: the student's cells as plain text, without outputs, with the
marks that the teacher's cells have, each once, and the teacher's test cells where the student has none any
more. HTML of the student's is shown as text. A file that is no notebook becomes the teacher's, and says so.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

from labkit.errors import DataError
from labkit.grading.result import clean_name
from labkit.grading.submission import MOST_BYTES, read_notebook
from labkit.process.limited import limited
from labkit.text.files import notebook_text
from labkit.text.rank_output import clean

__all__ = ["UNREADABLE", "prepare", "student_id"]

#: in a notebook's metadata: why the submission could not be read
UNREADABLE = "labkit_unreadable"
_CODE_KINDS = ("code", "markdown", "raw")
_MOST_CELLS = 5000


def student_id(folder: str) -> str:
    """Return a folder's name as nbgrader can use it: letters, digits and a few signs, one for each name."""
    plain = re.sub(r"[^\w.@-]", "_", folder.encode("utf-8", "replace").decode("utf-8"))[:80]
    if plain == folder and not folder.startswith("."):
        return folder
    mark = hashlib.sha256(folder.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain.lstrip('.')}-{mark}"


def prepare(course: Path, assignment: str, submitted: dict[str, Path | DataError], target: Path) -> None:
    """Write the notebooks that nbgrader is to read: ``target/<student>/<assignment>/<assignment>.ipynb``."""
    shutil.rmtree(target, ignore_errors=True)
    own = [course / kind / assignment / f"{assignment}.ipynb" for kind in ("release", "source")]
    try:
        teachers = json.loads(next(path for path in own if path.exists()).read_text(encoding="utf-8"))
    except (StopIteration, OSError, ValueError) as error:
        raise DataError(
            f"the teacher's notebook {str(own[1])!r} cannot be read: {error}", code="unreadable-file"
        ) from error
    for student, found in submitted.items():
        folder = target / student / assignment
        folder.mkdir(parents=True)
        try:
            if not isinstance(found, Path):
                raise found
            made = _rebuilt(limited(_cells_of, found, what=clean_name(found.name)), teachers)
            _copy_time(found.parent, folder)
        except DataError as error:
            made = _stand_in(str(error), teachers)
        (folder / f"{assignment}.ipynb").write_text(json.dumps(made), encoding="utf-8")


def _cells_of(path: Path) -> list[dict[str, object]]:
    """Return kind, text and grade id of a notebook's cells; for `limited`."""
    name = clean_name(path.name)
    try:
        if path.is_symlink() or not path.is_file():
            raise DataError(f"{name} is not a file", code="wrong-kind-of-file")
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{name} has more than {MOST_BYTES >> 20} MiB", code="too-large")
        cells = read_notebook(notebook_text(path.read_bytes()))["cells"]
        found = []
        for cell in cells[:_MOST_CELLS]:
            source = cell["source"]
            marks = cell.get("metadata", {}).get("nbgrader") or {}
            text = source if isinstance(source, str) else "".join(source)
            kind = cell["cell_type"] if cell["cell_type"] in _CODE_KINDS else "raw"
            found.append({"kind": kind, "text": text, "id": str(marks.get("grade_id", ""))})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{name} is not a notebook that can be read: {clean(str(error))[:200]}", code="malformed-file"
        ) from error
    return found


def _rebuilt(cells: list[dict[str, Any]], teachers: dict[str, Any]) -> dict[str, object]:
    known = {cell["metadata"]["nbgrader"]["grade_id"]: cell for cell in teachers["cells"] if _is_marked(cell)}
    last = {cell["id"]: number for number, cell in enumerate(cells)}  # as nbgrader: of two, the later one
    made, seen = [], set()
    for number, cell in enumerate(cells):
        grade_id = cell["id"] if last[cell["id"]] == number else ""
        theirs = known.get(grade_id)
        if theirs is not None and theirs["cell_type"] == cell["kind"]:
            seen.add(grade_id)
            made.append(_cell(cell["kind"], cell["text"], theirs["metadata"]))
        elif cell["id"] not in known or not _is_test(known[cell["id"]]):  # a copied test cell counts once
            made.append(_cell(cell["kind"], cell["text"], {}))
    for grade_id, theirs in known.items():
        if grade_id not in seen and not theirs["metadata"]["nbgrader"].get("solution"):
            made.append(_cell(theirs["cell_type"], _text(theirs["source"]), theirs["metadata"]))
    return _notebook(made, teachers, {})


def _stand_in(why: str, teachers: dict[str, Any]) -> dict[str, object]:
    said = _cell("markdown", f"**This submission cannot be graded:** {why}", {})
    cells = [_cell(cell["cell_type"], _text(cell["source"]), cell["metadata"]) for cell in teachers["cells"]]
    return _notebook([said, *cells], teachers, {UNREADABLE: why})


def _notebook(
    cells: list[dict[str, Any]], teachers: dict[str, Any], extra: dict[str, Any]
) -> dict[str, object]:
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return {"cells": cells, "metadata": {**teachers["metadata"], **extra}, "nbformat": 4, "nbformat_minor": 5}


def _cell(kind: str, text: str, metadata: dict[str, Any]) -> dict[str, object]:
    text = text.encode("utf-8", "replace").decode("utf-8")  # half a character cannot be written
    if kind != "code" and not metadata.get("nbgrader", {}).get("locked"):
        text = _without_html(text)
    found: dict[str, object] = {"cell_type": kind, "metadata": dict(metadata), "source": text}
    return {**found, "execution_count": None, "outputs": []} if kind == "code" else found


def _without_html(text: str) -> str:
    """Show a student's HTML as text: pages of feedback carry no script of theirs."""
    from nbconvert.preprocessors.sanitize import SanitizeHTML

    sanitizer: Any = SanitizeHTML  # untyped
    return str(sanitizer().sanitize_html_tags(text))


def _is_marked(cell: dict[str, Any]) -> bool:
    return bool(cell.get("metadata", {}).get("nbgrader", {}).get("grade_id"))


def _is_test(cell: dict[str, Any]) -> bool:
    marks = cell["metadata"]["nbgrader"]
    return bool(marks.get("grade")) and not marks.get("solution")


def _text(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)


def _copy_time(source: Path, target: Path) -> None:
    """Keep the time of submission, from which nbgrader takes what is late, where it is one."""
    from nbgrader.utils import parse_utc

    try:
        text = (source / "timestamp.txt").read_text(encoding="utf-8")[:100].strip()
        parse_utc(text)
    except (OSError, ValueError, TypeError, AttributeError, OverflowError):
        return
    (target / "timestamp.txt").write_text(text, encoding="utf-8")
