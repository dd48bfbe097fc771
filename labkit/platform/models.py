"""Network models by name or file.

The numbers are data (``datasets/models/*.toml``), each file with its source; a file of one's own has the same
form (`labkit.platform.model_file`).
"""

from __future__ import annotations

import functools
import os
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from labkit.datasets import FOLDER
from labkit.errors import PlatformError
from labkit.nearest import nearest
from labkit.plain import require_file
from labkit.platform.model_file import read_model, read_options
from labkit.platform.network_model import OPTIONS, ModelValueError, NetworkModel, frozen

__all__ = ["DEFAULT", "OPTIONS", "ModelValueError", "NetworkModel", "frozen", "get", "names"]

#: The model of a run that names none.
DEFAULT = "lab"


@functools.cache
def _folder() -> dict[str, str]:
    """Every model file: name to text."""
    files = (FOLDER / "models").iterdir()
    return {f.name.removesuffix(".toml"): f.read_text("utf-8") for f in files if f.name.endswith(".toml")}


def names() -> list[str]:
    """List the known models.

    Examples
    --------
    >>> names()
    ['bgp', 'bgq', 'cm02', 'graphene', 'ib', 'lab', 'loggps', 'lv08', 'raw', 'rdma', 'smpi']
    """
    return sorted(_folder())


@functools.cache
def _load(name: str) -> NetworkModel:
    return read_model(_folder()[name], name, f"{name}.toml", names(), _load)


def _from_text(text: str) -> tuple[NetworkModel, dict[str, Any]]:
    """Read ``NAME`` or ``FILE.toml``, with options behind commas."""
    name, *words = text.split(",")
    options = read_options(text, words)
    if name.endswith(".toml"):
        path = Path(name)
        require_file(path, PlatformError)
        try:
            return read_model(path.read_text("utf-8"), path.stem, str(path), names(), _load), options
        except (OSError, UnicodeDecodeError) as error:
            raise PlatformError(f"the model file {name!r} cannot be read: {error}") from None
    if name not in _folder():
        raise PlatformError(
            f"network model {name!r} is not known; allowed: {', '.join(names())}, or the path of a .toml file"
            f"{nearest(name, names(), 1)}"
        )
    return _load(name), options


def get(model: str | os.PathLike[str] | NetworkModel | None = None, **options: Any) -> NetworkModel:
    """Find a model by name or file, and change single numbers of it.

    Parameters
    ----------
    model : str, path, NetworkModel or None
        A name of `names()`; the path of a model file, ending in ``.toml``; either with options behind
        commas, ``smpi,cross_traffic=no,send_overhead=0:9e-6:7e-10;1420:1.4e-5:2e-10``; or a model. None is
        the default, ``lab``.
    **options
        Fields of `NetworkModel` to replace, such as ``cross_traffic=False``, ``detached_below_bytes=0`` or
        ``wtime_s=0.0``.

    Returns
    -------
    NetworkModel
        A changed model's name says so: ``smpi(cross_traffic=False)``.

    Raises
    ------
    PlatformError
        Unknown name or option, or a value that no model can have; of a file with the line.

    Examples
    --------
    >>> get("smpi").cross_traffic, get("smpi", cross_traffic=False)
    (True, NetworkModel('smpi(cross_traffic=False)'))
    """
    if model is None:
        model = DEFAULT
    if isinstance(model, str | os.PathLike):
        model, written = _from_text(os.fspath(model))
        options = written | options
    elif not isinstance(model, NetworkModel):
        raise PlatformError(
            f"a network model is a name, a file or a NetworkModel, got {type(model).__name__}"
        )
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise PlatformError(
            f"network model option {unknown[0]!r} is not known; allowed: {', '.join(OPTIONS)}"
        )
    changed = {key: frozen(value) for key, value in options.items() if frozen(value) != getattr(model, key)}
    if not changed:
        return model
    arguments = ", ".join(f"{key}={_shown(value)}" for key, value in changed.items())
    return replace(model, name=f"{model.name}({arguments})", **changed)


def _shown(value: Any) -> str:
    """Write a changed value; a long table by its length and a sum that tells it from others."""
    text = repr(value)
    if len(text) <= 60:
        return text
    return f"<{len(value)} rows {zlib.crc32(text.encode()):08x}>"
