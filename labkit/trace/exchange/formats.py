"""The formats that a run is exported in: one table, an entry each."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from labkit.errors import DataError
from labkit.nearest import nearest
from labkit.trace.exchange.cube import write_cube
from labkit.trace.exchange.events import LIMIT, events_of
from labkit.trace.exchange.frames import hatchet_frame, pipit_frame, write_pipit
from labkit.trace.exchange.otf2_archive import check_archive, write_otf2
from labkit.trace.exchange.paje import write_paje
from labkit.trace.exchange.paraver import write_paraver
from labkit.trace.exchange.perfetto import write_perfetto
from labkit.trace.report import report_of

if TYPE_CHECKING:
    from labkit.trace.recorded_run import RecordedRun

__all__ = ["FORMATS", "Format", "check_export", "export", "frame_of"]


class Format(NamedTuple):
    """A format.

    Attributes
    ----------
    endings : tuple of str
        Of files' names.
    write : callable
        ``write(path, what)`` returns the files that it has written.
    is_profile : bool
        It is given a `labkit.trace.report.Report`, not `labkit.trace.exchange.Events`.
    may_be_packed : bool
        A name may also end in ``.gz``.
    opens : str
        What opens it.
    """

    endings: tuple[str, ...]
    write: Callable[[Path, Any], list[Path]]
    is_profile: bool
    may_be_packed: bool
    opens: str


FORMATS = {
    "perfetto": Format((".json",), write_perfetto, False, True, "ui.perfetto.dev, chrome://tracing"),
    "paje": Format((".paje", ".trace"), write_paje, False, True, "ViTE, PajeNG"),
    "paraver": Format((".prv",), write_paraver, False, False, "Paraver"),
    "cube": Format((".cubex",), write_cube, True, False, "Cube, Extra-P"),
    "otf2": Format((".otf2",), write_otf2, False, False, "Vampir, Scalasca, Pipit"),
    "pipit": Format((".csv",), write_pipit, False, True, "Pipit"),
}


def check_export(path: str | os.PathLike[str], form: str | None = None) -> tuple[Path, Format]:
    """Read what a file's name says, and refuse one that cannot be written.

    Raises
    ------
    DataError
        No such format or ending, or a folder that is not there.
    """
    target = Path(path)
    if form is not None and form not in FORMATS:
        raise DataError(
            f"no format is called {form!r}{nearest(form, FORMATS)}; there are {', '.join(FORMATS)}"
        )
    name = target.name.lower()
    packed = name.endswith(".gz")
    ending = Path(name.removesuffix(".gz") if packed else name).suffix
    found = FORMATS[form] if form is not None else next(
        (one for one in FORMATS.values() if ending in one.endings), None
    )  # fmt: skip
    if found is None:
        known = ", ".join(f"{one.endings[0]} ({key})" for key, one in FORMATS.items())
        raise DataError(f"the name's ending says as what a run is exported: {known}; got {str(target)!r}")
    if packed and not found.may_be_packed:
        raise DataError(f"a file {found.endings[0]} is not packed; leave out .gz in {str(target)!r}")
    if form == "paraver" and ending != ".prv":
        raise DataError(f"Paraver's file ends in .prv, beside its .pcf and .row; got {str(target)!r}")
    parent = target.absolute().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        what = "cannot be written to" if parent.is_dir() else "does not exist"
        raise DataError(f"{str(target)!r} cannot be written: the folder {str(parent)!r} {what}")
    if found.write is write_otf2:
        check_archive(target)
    elif target.is_dir():
        raise DataError(f"{str(target)!r} is a folder; give the name of a file")
    return target, found


def export(
    run: RecordedRun, path: str | os.PathLike[str], form: str | None = None, limit: int = LIMIT
) -> list[Path]:
    """Do `Run.export`."""
    target, found = check_export(path, form)
    events = None if found.is_profile else events_of(run, limit)
    what = report_of(run) if events is None else events
    try:
        files = _written_whole(found, target, what)
    except OSError as error:
        raise DataError(f"{str(target)!r} cannot be written: {error.strerror or error}") from None
    if events is not None and (said := events.said()):
        print(f"labkit: {target} is {said}", file=sys.stderr)
    return files


def _written_whole(form: Format, target: Path, what: Any) -> list[Path]:
    """Write files and move them to their place: what fails leaves no half file, and the one of before."""
    if target.exists() and not target.is_file() and not target.is_dir():  # a pipe, say
        return form.write(target, what)
    place = target.resolve()
    folder = place.parent
    part = Path(tempfile.mkdtemp(prefix=".labkit-", dir=folder))
    try:
        files = form.write(part / place.name, what)
        for one in part.iterdir():
            if (folder / one.name).is_dir():
                shutil.rmtree(folder / one.name)
            os.replace(one, folder / one.name)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    base = folder if target.is_symlink() else target.parent
    return [base / one.relative_to(part) for one in files]


def frame_of(run: RecordedRun, form: str, limit: int = LIMIT) -> Any:
    """Do `Run.frame`."""
    if form == "hatchet":
        return hatchet_frame(report_of(run))
    if form == "pipit":
        events = events_of(run, limit)
        if said := events.said():
            print(f"labkit: the frame is {said}", file=sys.stderr)
        return pipit_frame(events)
    raise DataError(f"frames are those of 'pipit' and 'hatchet'; got {form!r}")
