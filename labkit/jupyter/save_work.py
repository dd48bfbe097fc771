"""Download one's work from a session that will not last: an archive, a link to it, and how long there is."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from labkit import html as markup
from labkit.errors import DataError
from labkit.jupyter.archive import ARCHIVE, Left, choose_files, read_archive, write_archive
from labkit.place import find_place

__all__ = [
    "START_VARIABLE",
    "Restored",
    "SavedWork",
    "idle_sentence",
    "restore_work",
    "save_button",
    "save_work",
]

#: environment variable with the start of the session, in seconds since the epoch (set by ``binder/start``)
START_VARIABLE = "LABKIT_SESSION_START"

FILE_LIMIT_BYTES = 20_000_000
LIMIT_BYTES = 100_000_000
#: a notebook that was saved longer ago than this may hold changes that are not on disk: JupyterLab saves by
#: itself every two minutes
FRESH_S = 20.0
_SHOWN = 12


def save_work(
    folder: str | os.PathLike[str] = ".",
    *,
    everything: bool = False,
    to: str | os.PathLike[str] | None = None,
) -> SavedWork:
    """Pack one's notebooks and files into one archive, to be downloaded.

    Parameters
    ----------
    folder : path
        What is packed: by default the folder that the notebook is in.
    everything : bool
        Also files that were not changed since the session began. Where the beginning is not known (it is on
        Binder), everything is packed anyway.
    to : path, optional
        Folder of the archive; default: `folder`.

    Returns
    -------
    SavedWork
        Shows itself in a notebook as a link. Hidden files, checkpoints, files named like keys or tokens,
        links, files above 20 MB and older archives are left out, and all but the hidden ones are listed.

    Raises
    ------
    DataError
        The folder does not exist, nothing was changed, or the archive cannot be written.

    Examples
    --------
    >>> import labkit as lk
    >>> lk.save_work()  # doctest: +SKIP
    """
    place = Path(folder)
    if not place.is_dir():
        raise DataError(f"{os.fspath(folder)!r} is no folder; save_work() packs the one that you are in")
    since = None if everything else _session_start()
    files, left = choose_files(place, since, FILE_LIMIT_BYTES, LIMIT_BYTES)
    if not files:
        raise DataError(_nothing(place, since, left))
    target = _free_name(Path(to) if to is not None else place)
    left += write_archive(place, files, target)
    stale = [
        path.relative_to(place).as_posix()
        for path in files
        if path.suffix == ".ipynb" and time.time() - path.stat().st_mtime > FRESH_S
    ]
    names = [path.relative_to(place).as_posix() for path in files]
    return SavedWork(target, names, left, target.stat().st_size, stale, since is not None)


def restore_work(archive: str | os.PathLike[str], folder: str | os.PathLike[str] = ".") -> Restored:
    """Unpack an archive of `save_work` that was uploaded again; nothing is overwritten.

    Parameters
    ----------
    archive : path
        The archive.
    folder : path
        Where its files go: by default the folder that the notebook is in.

    Returns
    -------
    Restored
        What became of each file: one that differs from yours is put beside it.

    Raises
    ------
    DataError
        The archive cannot be read, or was not made by `save_work`.
    """
    path = Path(archive)
    if not path.is_file():
        raise DataError(f"there is no archive {os.fspath(archive)!r}; upload it beside this notebook first")
    return Restored(path, read_archive(path, Path(folder), LIMIT_BYTES))


def save_button(folder: str | os.PathLike[str] = ".", *, everything: bool = False) -> Any:
    """Show a button that packs one's work anew at every click and offers it for download.

    Parameters
    ----------
    folder, everything
        As in `save_work`.

    Returns
    -------
    labkit.jupyter.save_button.SaveButton
        A widget that packs in this kernel and downloads in the browser; it needs no network.

    Raises
    ------
    DataError
        anywidget is missing.
    """
    try:
        from labkit.jupyter.save_button import SaveButton
    except ImportError as error:
        raise DataError(
            f"the button needs {error.name} (python -m pip install 'labkit[lab]'); save_work() needs nothing"
        ) from error
    return SaveButton(partial(save_work, folder, everything=everything), idle_sentence() or "")


@dataclass(frozen=True)
class SavedWork:
    """An archive of somebody's work.

    Attributes
    ----------
    path : Path
        The archive.
    files : list of str
        What is in it.
    left_out : list of (str, str)
        What is not, and why.
    size_bytes : int
        Its size.
    stale : list of str
        Notebooks in it that were saved a while ago: what was typed since is not in them.
    is_since_start : bool
        Whether files that were there before the session began were left aside.
    """

    path: Path
    files: list[str]
    left_out: list[Left] = field(default_factory=list)
    size_bytes: int = 0
    stale: list[str] = field(default_factory=list)
    is_since_start: bool = False

    def summary(self) -> str:
        """Say in one line what was packed."""
        plural = "s" if len(self.files) != 1 else ""
        which = " changed in this session" if self.is_since_start else ""
        return f"{len(self.files)} file{plural}{which}, {markup.quantity(self.size_bytes, 'B', 3)}"

    def hints(self) -> list[str]:
        """Say what the user should know before leaving."""
        texts = []
        if self.stale:
            names = ", ".join(self.stale[:3]) + (", ..." if len(self.stale) > 3 else "")
            texts.append(f"Packed as last saved: {names}. Press Ctrl-S in it first, then pack again.")
        if idle := idle_sentence():
            texts.append(idle)
        return texts

    def __repr__(self) -> str:
        lines = [f"{self.path}: {self.summary()}", *(f"  {name}" for name in self.files[:_SHOWN])]
        if len(self.files) > _SHOWN:
            lines.append(f"  ... and {len(self.files) - _SHOWN} more")
        lines += [f"  left out: {name} ({why})" for name, why in self.left_out[:_SHOWN]]
        return "\n".join([*lines, *self.hints()])

    def _repr_html_(self) -> str:
        address = quote(Path(os.path.relpath(self.path)).as_posix())
        name = markup.escape(self.path.name)
        link = f'<a href="{address}" download="{name}" style="font-weight:600">⬇ {name}</a>'
        items = "".join(f"<li><code>{markup.escape(one)}</code></li>" for one in self.files[:_SHOWN])
        if len(self.files) > _SHOWN:
            items += f"<li>and {len(self.files) - _SHOWN} more</li>"
        for one, why in self.left_out[:_SHOWN]:
            items += f"<li>left out: <code>{markup.escape(one)}</code> ({markup.escape(why)})</li>"
        listing = f"<details><summary>{markup.escape(self.summary())}</summary><ul>{items}</ul></details>"
        hints = "".join(f"<div>{markup.escape(text)}</div>" for text in self.hints())
        return markup.card(link, listing + hints)


@dataclass(frozen=True)
class Restored:
    """What became of the files of an archive, as (name, what) pairs in `files`."""

    archive: Path
    files: list[tuple[str, str]]

    def __repr__(self) -> str:
        return "\n".join([f"{self.archive}:", *(f"  {name}: {what}" for name, what in self.files)])

    def _repr_html_(self) -> str:
        rows = [(name, markup.escape(what)) for name, what in self.files]
        return markup.card(markup.escape(self.archive.name), markup.properties(rows))


def idle_sentence() -> str | None:
    """Say how long an idle session lasts here; None where it is not known to end."""
    place = find_place()
    if place is None:
        return None
    return (
        f"{place.name} ends a session after about {place.idle_minutes:.0f} minutes without activity, and its "
        "files are lost: download before you pause. Later, upload the archive and run restore_work on it."
    )


def _session_start() -> float | None:
    try:
        return float(os.environ.get(START_VARIABLE, ""))
    except ValueError:
        return None


def _nothing(folder: Path, since: float | None, left: list[Left]) -> str:
    if left:
        return f"nothing in {folder.resolve()} can be packed; left out: " + ", ".join(
            f"{name} ({why})" for name, why in left[:3]
        )
    if since is not None:
        return (
            f"nothing in {folder.resolve()} was changed since this session began; save your notebook first "
            "(Ctrl-S), or take everything: save_work(everything=True)"
        )
    return f"there is no file in {folder.resolve()}; save your notebook first (Ctrl-S)"


def _free_name(folder: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    number = 0
    while True:
        target = folder / ARCHIVE.format(f"{stamp}-{number}" if number else stamp)
        if not target.exists():
            return target
        number += 1
