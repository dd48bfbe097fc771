"""Texts of submissions made fit to be shown, stored and sent."""

from __future__ import annotations

import hashlib

from labkit.printed import clean

__all__ = ["clean", "clean_name", "file_stem"]

#: bytes of a file's name that leave room for endings: file systems allow 255
_MOST_STEM_BYTES = 180


def clean_name(name: str) -> str:
    r"""Return a name on one line, with what is not printable written as an escape: other names stay others.

    Examples
    --------
    >>> clean_name("ada\neve")
    'ada\\neve'
    """
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)


def file_stem(name: str) -> str:
    """Return a name's file name without its ending: short enough for every file system, in this folder."""
    stem = name.replace("/", "_").replace("\0", "_")
    if len(stem.encode(errors="replace")) <= _MOST_STEM_BYTES and not stem.startswith("."):
        return stem
    mark = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:12]
    return f"{stem.lstrip('.')[:40]}-{mark}"
