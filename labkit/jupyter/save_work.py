"""Download your work from a session that will not last: an archive, a link to it, and how long there is."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from labkit.errors import DataError
from labkit.real.host_limits import find_place
from labkit.text import html as markup
from labkit.text.files import DAMAGED, replace_file

if TYPE_CHECKING:
    from labkit.jupyter.save_button import SaveButton

__all__ = [
    "START_VARIABLE",
    "Restored",
    "SavedWork",
    "idle_sentence",
    "read_archive",
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


# Archives of a user's own files: selection, packing, unpacking.

#: name of an archive; older ones are not packed again
ARCHIVE = "labkit-work-{}.zip"

_ARCHIVES = re.compile(r"labkit-work-\d{8}-\d{6}(-\d+)?\.zip")

#: folders that are made by tools, not by people
_TOOL_FOLDERS = {"__pycache__", "node_modules", "build", "dist"}

#: names that keys, passwords and tokens usually have
_SECRETS = re.compile(
    r"(id_(rsa|dsa|ecdsa|ed25519).*|.*\.(pem|key|p12|pfx|kdbx|keytab)|credentials(\..*)?|.*password.*\.txt|"
    r"kaggle\.json|.*token(s)?(\.txt|\.json)?|jpserver-.*|nbserver-.*|kernel-.*\.json)",
    re.IGNORECASE,
)

_COMPILED = (".pyc", ".so", ".o")

#: a file that was left out, and why
Left = tuple[str, str]


def choose_files(
    folder: Path, since: float | None, file_limit_bytes: int, limit_bytes: int
) -> tuple[list[Path], list[Left]]:
    """Choose what is packed of a folder."""
    chosen: list[Path] = []
    left: list[Left] = []
    total = 0
    for path in _walk(folder, left):
        name = path.relative_to(folder).as_posix()
        try:
            about = path.lstat()
        except OSError as error:
            left.append((name, error.strerror or "cannot be read"))
            continue
        if since is not None and about.st_mtime <= since:
            continue
        reason = _reason(path, about, file_limit_bytes)
        if reason is None and total + about.st_size > limit_bytes:
            reason = f"all files together would exceed {limit_bytes // 10**6} MB"
        if reason is not None:
            left.append((name, reason))
            continue
        chosen.append(path)
        total += about.st_size
    return chosen, left


def _walk(folder: Path, left: list[Left]) -> Iterator[Path]:
    """Yield the files below a folder, in order; hidden names and those of tools are passed over."""
    for place, folders, files in os.walk(folder, onerror=None, followlinks=False):
        here = Path(place)
        for name in list(folders):
            if (here / name).is_symlink():
                left.append(((here / name).relative_to(folder).as_posix(), "a link to a folder"))
                folders.remove(name)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in _TOOL_FOLDERS and not name.endswith(".egg-info")
        )
        for name in sorted(files):
            if not name.startswith(".") and not _ARCHIVES.fullmatch(name) and not name.endswith(_COMPILED):
                yield here / name


def _reason(path: Path, about: os.stat_result, file_limit_bytes: int) -> str | None:
    """Explain why a file is not packed; None when it is."""
    if not stat.S_ISREG(about.st_mode):
        return "a link" if stat.S_ISLNK(about.st_mode) else "not a file"
    if _SECRETS.fullmatch(path.name):
        return "its name is that of a key, a password or a token"
    if about.st_size > file_limit_bytes:
        return f"{about.st_size / 1e6:.0f} MB, more than {file_limit_bytes // 10**6} MB"
    if not os.access(path, os.R_OK):
        return "it cannot be read"
    return None


def write_archive(folder: Path, files: list[Path], target: Path) -> list[Left]:
    """Pack files; the archive appears whole or not at all."""
    left: list[Left] = []
    part = target.with_name(f".{target.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
            for path in files:
                name = path.relative_to(folder).as_posix()
                try:
                    content = path.read_bytes()  # whole: a file that breaks off must not break the archive
                    about = zipfile.ZipInfo.from_file(path, name, strict_timestamps=False)
                except OSError as error:
                    left.append((name, error.strerror or "cannot be read"))
                    continue
                about.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(about, content)
        os.replace(part, target)
    except OSError as error:
        raise DataError(
            f"the archive {target} cannot be written: {error.strerror or error}; name a folder that can be, "
            "as in save_work(to='/tmp')",
            code="unwritable-file",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
    return left


def read_archive(archive: Path, folder: Path, limit_bytes: int) -> list[tuple[str, str]]:
    """Unpack an archive without overwriting anything."""
    try:
        with zipfile.ZipFile(archive) as source:
            entries = [entry for entry in source.infolist() if not entry.is_dir()]
            _check_entries(archive, entries, folder, limit_bytes)
            return [
                (entry.filename, _restore(source.read(entry), folder / entry.filename)) for entry in entries
            ]
    except OSError as error:
        raise DataError(
            f"{archive} cannot be restored in {folder}: {error}", code="unreadable-file"
        ) from error
    except DAMAGED as error:
        raise DataError(
            f"{archive} is no archive that can be read: {error}", code="malformed-file"
        ) from error


def _check_entries(archive: Path, entries: list[zipfile.ZipInfo], folder: Path, limit_bytes: int) -> None:
    size = sum(entry.file_size for entry in entries)
    if size > limit_bytes:
        raise DataError(
            f"{archive} unpacks to {size / 1e6:.0f} MB, more than {limit_bytes // 10**6} MB", code="too-large"
        )
    root = folder.resolve()
    for entry in entries:
        target = (root / entry.filename).resolve()
        hidden = any(part.startswith(".") for part in Path(entry.filename).parts)
        if not target.is_relative_to(root) or hidden or stat.S_ISLNK(entry.external_attr >> 16):
            raise DataError(
                f"{archive} holds {entry.filename!r}, which leads out of the folder, is hidden or a link: it "
                "is not an archive of save_work()",
                code="unsafe-archive",
            )


def _restore(content: bytes, target: Path) -> str:
    """Write one file; a different one of the same name stays."""
    if target.exists():
        if target.is_file() and target.read_bytes() == content:
            return "the same already"
        stamp = time.strftime("%Y%m%d-%H%M%S")
        beside = target.with_name(f"{target.stem} (restored {stamp}){target.suffix}")
        replace_file(beside, content)
        return f"yours differs and stays; restored as {beside.name}"
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, content)
    return "restored"


def save_work(
    folder: str | os.PathLike[str] = ".",
    *,
    everything: bool = False,
    to: str | os.PathLike[str] | None = None,
) -> SavedWork:
    """Pack your notebooks and files into one archive, to be downloaded.

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
        raise DataError(
            f"{os.fspath(folder)!r} is no folder; save_work() packs the one that you are in",
            code="wrong-kind-of-file",
        )
    since = None if everything else _session_start()
    files, left = choose_files(place, since, FILE_LIMIT_BYTES, LIMIT_BYTES)
    if not files:
        raise DataError(_nothing(place, since, left), code="missing-file")
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
        What became of each file: one that differs from yours is put next to it.

    Raises
    ------
    DataError
        The archive cannot be read, or was not made by `save_work`.
    """
    path = Path(archive)
    if not path.is_file():
        raise DataError(
            f"there is no archive {os.fspath(archive)!r}; upload it next to this notebook first",
            code="missing-file",
        )
    return Restored(path, read_archive(path, Path(folder), LIMIT_BYTES))


def save_button(folder: str | os.PathLike[str] = ".", *, everything: bool = False) -> SaveButton:
    """Show a button that packs your work again at every click and offers it for download.

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
            f"the button needs {error.name} (python -m pip install 'labkit[lab]'); save_work() needs nothing",
            code="missing-package",
        ) from error
    return SaveButton(partial(save_work, folder, everything=everything), idle_sentence() or "")


@dataclass(frozen=True)
class SavedWork:
    """An archive of somebody's work.

    `path`: The archive.
    `files`: What is in it.
    `left_out`: What is not, and why.
    `size_bytes`: Its size.
    `stale`: Notebooks in it that were saved a while ago: what was typed since is not in them.
    `is_since_start`: Whether files that were there before the session began were left aside.
    """

    path: Path
    files: list[str]
    left_out: list[Left] = field(default_factory=list)
    size_bytes: int = 0
    stale: list[str] = field(default_factory=list)
    is_since_start: bool = False

    def summary(self) -> str:
        """Summarize in one line what was packed."""
        plural = "s" if len(self.files) != 1 else ""
        which = " changed in this session" if self.is_since_start else ""
        return f"{len(self.files)} file{plural}{which}, {markup.quantity(self.size_bytes, 'B', 3)}"

    def hints(self) -> list[str]:
        """Return as sentences what the user should know before leaving."""
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
        return markup.titled_block(link, listing + hints)


@dataclass(frozen=True)
class Restored:
    """What became of the files of an archive, as (name, what) pairs in `files`."""

    archive: Path
    files: list[tuple[str, str]]

    def __repr__(self) -> str:
        return "\n".join([f"{self.archive}:", *(f"  {name}: {what}" for name, what in self.files)])

    def _repr_html_(self) -> str:
        rows = [(name, markup.escape(what)) for name, what in self.files]
        return markup.titled_block(markup.escape(self.archive.name), markup.properties(rows))


def idle_sentence() -> str | None:
    """Return as text how long an idle session lasts here; None where it is not known to end."""
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
