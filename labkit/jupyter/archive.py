"""Archives of a user's own files: selection, packing, unpacking."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from labkit.errors import DataError
from labkit.plain import replace_file

__all__ = ["ARCHIVE", "Left", "choose_files", "read_archive", "write_archive"]

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
    """Choose what is packed of a folder.

    Parameters
    ----------
    folder : Path
        The folder.
    since : float or None
        Files that were last changed before, in seconds since the epoch, are not packed, and not counted as
        left out.
    file_limit_bytes, limit_bytes : int
        What one file, and all files together, may have.

    Returns
    -------
    (list of Path, list of (str, str))
        The files, in the order of their paths; what was left out with the reason.
    """
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
    """Say why a file is not packed; None when it is."""
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
    """Pack files; the archive appears whole or not at all.

    Parameters
    ----------
    folder : Path
        The paths in the archive are relative to it.
    files : list of Path
        What to pack.
    target : Path
        The archive.

    Returns
    -------
    list of (str, str)
        Files that could not be read after all.

    Raises
    ------
    DataError
        The archive cannot be written.
    """
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
            "as in save_work(to='/tmp')"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
    return left


def read_archive(archive: Path, folder: Path, limit_bytes: int) -> list[tuple[str, str]]:
    """Unpack an archive without overwriting anything.

    Parameters
    ----------
    archive : Path
        A zip file.
    folder : Path
        Where its files go.
    limit_bytes : int
        What all files together may have.

    Returns
    -------
    list of (str, str)
        Each file and what became of it: restored, the same already, or put beside a different one.

    Raises
    ------
    DataError
        No zip file; names that lead out of the folder; too large; cannot be written.
    """
    try:
        with zipfile.ZipFile(archive) as source:
            entries = [entry for entry in source.infolist() if not entry.is_dir()]
            _check_entries(archive, entries, folder, limit_bytes)
            return [
                (entry.filename, _restore(source.read(entry), folder / entry.filename)) for entry in entries
            ]
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise DataError(f"{archive} is no archive that can be read: {error}") from error
    except OSError as error:
        raise DataError(f"{archive} cannot be restored in {folder}: {error}") from error


def _check_entries(archive: Path, entries: list[zipfile.ZipInfo], folder: Path, limit_bytes: int) -> None:
    size = sum(entry.file_size for entry in entries)
    if size > limit_bytes:
        raise DataError(f"{archive} unpacks to {size / 1e6:.0f} MB, more than {limit_bytes // 10**6} MB")
    root = folder.resolve()
    for entry in entries:
        target = (root / entry.filename).resolve()
        hidden = any(part.startswith(".") for part in Path(entry.filename).parts)
        if not target.is_relative_to(root) or hidden or stat.S_ISLNK(entry.external_attr >> 16):
            raise DataError(
                f"{archive} holds {entry.filename!r}, which leads out of the folder, is hidden or a link: it "
                "is not an archive of save_work()"
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
