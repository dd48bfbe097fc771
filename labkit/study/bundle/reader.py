"""Opens a bundle that may be damaged or hostile: nothing is unpacked, and no more is read than is stated.

What is refused: what is no zip; names that leave the folder, are absolute, or occur twice; links; encrypted
or exotically packed files; more files or bytes than any study has; files that the manifest does not list, or
lists and that are not there; another hash; a newer format.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from labkit.errors import DataError
from labkit.plain import require_file
from labkit.study.bundle.writer import FORMAT, MANIFEST, VERSION, identity
from labkit.study.limits import check_table

__all__ = ["Opened", "open_bundle"]

MOST_FILES = 10_000
MOST_BYTES = 512 * 2**20
_NEEDED = ("data.csv", "environment.json", "study.json")
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True)
class Opened:
    """A bundle whose hashes all agree: its name, its manifest with that one's SHA-256, its other files."""

    name: str
    identity: str
    manifest: dict[str, Any]
    files: dict[str, bytes]

    def document(self, name: str) -> Any:
        """Return a file's JSON.

        Raises
        ------
        DataError
            There is no such file, or it is no JSON.
        """
        return _json(self.files.get(name, b""), f"{self.name!r}: {name}")


def open_bundle(path: str | os.PathLike[str]) -> Opened:
    """Read a bundle, and check its structure and every hash.

    Raises
    ------
    DataError
        Anything is not as it should be; the message says what.
    """
    name = os.fspath(path)
    if not os.path.exists(path):
        raise DataError(f"there is no file {name!r}")
    if os.path.isdir(path):
        raise DataError(f"{name!r} is a folder; give the zip that study.bundle wrote")
    require_file(path, is_whole=False)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _checked_entries(archive, name)
            if MANIFEST not in entries:
                kind = "a saved study" if "study.json" in entries else "a zip file"
                raise DataError(f"{name!r} is {kind}, but no bundle: it has no {MANIFEST}")
            content = _read(archive, entries[MANIFEST], name)
            manifest = _checked_manifest(content, name)
            files = {one: _read(archive, entry, name) for one, entry in entries.items() if one != MANIFEST}
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
        reason = str(error) or type(error).__name__
        raise DataError(
            f"{name!r} cannot be read as a bundle, it may be cut off or damaged: {reason}"
        ) from error
    _check_files(files, manifest["files"], name)
    return Opened(name, identity(content), manifest, files)


def _checked_entries(archive: zipfile.ZipFile, name: str) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > MOST_FILES:
        raise DataError(f"{name!r} is refused: {len(infos)} files, at most {MOST_FILES} are allowed")
    total = sum(info.file_size for info in infos)
    if total > MOST_BYTES:
        raise DataError(f"{name!r} is refused: unpacked it would have {total:,} B, over {MOST_BYTES:,} B")
    entries: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        if (why := _wrong(info, entries)) is not None:
            raise DataError(f"{name!r} is refused: the file {info.filename!r} {why}")
        entries[info.filename] = info
    return entries


def _wrong(info: zipfile.ZipInfo, known: Mapping[str, Any]) -> str | None:
    """Say what is wrong with an entry of a zip, if anything is."""
    text = info.orig_filename
    parts = PurePosixPath(text).parts
    mode = info.external_attr >> 16
    if not text or text.startswith("/") or ".." in parts or "\\" in text or ":" in text or "\0" in text:
        return "would be unpacked outside its folder"
    if info.is_dir() or str(PurePosixPath(text)) != text:
        return "is not written as study.bundle writes files"
    if text in known:
        return "occurs twice"
    if stat.S_ISLNK(mode) or (mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG)):
        return "is a link or a device"
    if info.flag_bits & 0x1:
        return "is encrypted"
    if info.compress_type not in _PACKINGS:
        return "is packed in a way that bundles do not use"
    return None


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> bytes:
    """Read an entry, and no byte more than its head announces: a head may lie."""
    with archive.open(info) as stream:
        content = stream.read(info.file_size + 1)
    if len(content) != info.file_size:
        raise DataError(f"{name!r} is refused: {info.filename!r} is not as long as the zip says")
    return content


def _checked_manifest(content: bytes, name: str) -> dict[str, Any]:
    manifest = _json(content, f"{name!r}: {MANIFEST}")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataError(f"{name!r} is no labkit bundle: its {MANIFEST} has another format")
    version = manifest.get("version")
    if type(version) is not int or version != VERSION:
        newer = ": install a newer one" if type(version) is int and version > VERSION else ""
        raise DataError(f"{name!r} has version {version!r} of the format; this labkit reads {VERSION}{newer}")
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(
        isinstance(one, dict) and isinstance(one.get("sha256"), str) for one in files.values()
    ):
        raise DataError(f"{name!r}: its {MANIFEST} lists no files with their SHA-256")
    return manifest


def _check_files(files: Mapping[str, bytes], listed: Mapping[str, Any], name: str) -> None:
    missing = sorted({*listed, *_NEEDED} - files.keys())
    if missing:
        raise DataError(
            f"{name!r} is not whole: {_names(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        )
    foreign = sorted(files.keys() - listed.keys())
    if foreign:
        raise DataError(f"{name!r} holds what its manifest does not list: {_names(foreign)}")
    changed = [
        one for one in sorted(files) if hashlib.sha256(files[one]).hexdigest() != listed[one]["sha256"]
    ]
    if changed:
        has = "has" if len(changed) == 1 else "have"
        raise DataError(
            f"{name!r} was changed after it was written: {_names(changed)} {has} another SHA-256 than the "
            "manifest says"
        )


def _names(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _json(content: bytes, what: str) -> Any:
    check_table(content, what)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{what} is no JSON: {error}") from error
