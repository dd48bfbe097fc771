"""Digests of labkit itself, of which results that are kept depend: a version number hides edits."""

from __future__ import annotations

import functools
import hashlib
import importlib
from pathlib import Path

__all__ = ["engine_digest", "labkit_digest"]


@functools.cache
def labkit_digest() -> str:
    """Return the SHA-256 of labkit's sources and data, which identifies a version exactly."""
    total = hashlib.sha256()
    for name in ("labkit", "labkit.algorithms", "labkit.datasets"):
        package = importlib.import_module(name)
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*")):
            is_text = path.suffix in (".py", ".toml", ".csv", ".xml")
            if is_text and not {"algorithms", "datasets"} & set(path.relative_to(root).parts[:1]):
                inside = f"{name}/{path.relative_to(root).as_posix()}"
                total.update(f"{inside}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


@functools.cache
def engine_digest() -> str:
    """Return the SHA-256 of the compiled engine."""
    from labkit import _kernels

    return hashlib.sha256(Path(_kernels.__file__).read_bytes()).hexdigest()
