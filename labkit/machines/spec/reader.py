"""Reading a platform specification; a refusal points at the place."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from labkit.datasets import FOLDER
from labkit.errors import PlatformError, nearest
from labkit.machines import models, topologies
from labkit.machines.spec.cluster import KINDS, ClusterSpec
from labkit.machines.spec.options import Misplaced

__all__ = ["folder", "kinds", "names", "parse_spec"]

#: other names that people use for options
_SPOKEN = {"bandwidth": "bw", "latency": "lat", "flops": "speed"}
#: shapes of machines that have another name here, as the end of a sentence
_ALSO = {
    "ring": "; a ring of 8 hosts is torus:8",
    "hypercube": "; a hypercube of 8 hosts is torus:2x2x2",
    **dict.fromkeys(("mesh", "grid"), "; torus:4x4 is a grid whose opposite ends are linked, too"),
    **dict.fromkeys(("switch", "crossbar", "bus", "ethernet"), "; hosts at one switch are star"),
    **dict.fromkeys(("tree", "clos"), "; a tree of switches is fattree"),
    **dict.fromkeys(
        ("localhost", "local", "laptop", "real", "here", "mpi4py", "mpirun", "mpiexec", "openmpi", "mpich"),
        '; real MPI on this computer is "mpi"',
    ),
}


@functools.cache
def _load_topologies() -> None:
    for module in pkgutil.iter_modules(topologies.__path__):
        importlib.import_module(f"{topologies.__name__}.{module.name}")


def kinds() -> dict[str, type[ClusterSpec]]:
    """Return the topologies that a specification may name, by name: built-in and user-defined ones."""
    _load_topologies()
    return dict(sorted(KINDS.items()))


def _refuse(spec: str, position: int, why: str, code: str = "malformed-specification") -> PlatformError:
    """Point at the place: the text, a caret under it, and what is wrong."""
    return PlatformError(
        f"platform {spec!r}, at character {position + 1}: {why}\n    {spec}\n    {' ' * position}^",
        code=code,
    )


# The files of named machines (``datasets/machines``).


def folder() -> Path:
    """Return the folder of the files."""
    return FOLDER / "machines"


@functools.cache
def names() -> tuple[str, ...]:
    """List the named machines.

    Examples
    --------
    >>> names()
    ('graphene', 'jugene', 'juqueen', 'juropa', 'lichtenberg', 'piz-daint', 'tibidabo')
    """
    files = (file.name for file in folder().iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def _kind_and_size(spec: str, head: str) -> tuple[type[ClusterSpec], dict[str, Any]]:
    name, colon, size = head.partition(":")
    known = kinds()
    if name not in known:
        forms = "; ".join(kind.FORM for kind in known.values())
        near = nearest(name, [*known, *names()]) or _ALSO.get(name, "")
        raise _refuse(
            spec,
            0,
            f"{name!r} is neither a topology nor a file nor a machine{near}; allowed: {forms}; with options "
            "behind commas, for example star:64,bw=1.25GBps,lat=1us; or one of the machines "
            + ", ".join(names()),
            "unknown-name",
        )
    kind = known[name]
    if not colon:
        return kind, {}
    try:
        return kind, kind.parse_size(size)
    except PlatformError as error:
        offset = error.offset if isinstance(error, Misplaced) else 0
        raise _refuse(spec, len(name) + 1 + offset, str(error), error.code) from None


def _unknown_option(kind: type[ClusterSpec], name: str) -> str:
    allowed = ", ".join(kind.options())
    for other in kinds().values():
        if name in other.OWN_OPTIONS:
            lacks = other.OWN_OPTIONS[name].lacks or name
            return f"a {kind.KIND} has no {lacks}, so {name!r} is not known; allowed: {allowed}"
    hint = nearest(name, [*kind.options(), *_SPOKEN], 1, instead=_SPOKEN)
    return f"option {name!r} is not known{hint}; allowed: {allowed}"


def _options(spec: str, own: Iterable[str]) -> list[str]:
    """Split behind the head; what follows a model and is an option of models alone stays with it."""
    parts: list[str] = []
    for part in spec.split(",")[1:]:
        name = part.partition("=")[0]
        if parts and parts[-1].startswith("model=") and name in models.OPTIONS and name not in own:
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def parse_spec(spec: str) -> ClusterSpec:
    """Read a platform specification.

    Parameters
    ----------
    spec : str
        ``star``, ``torus``, ``fattree`` or ``dragonfly``, then, unless it shall grow with the ranks, a colon
        and its size (``star:64``, ``torus:8x8x8``, ``fattree:4x4:1x2:1x2``, ``dragonfly:4x4:3x4:5x1:2``),
        then options behind commas: bw, lat, speed, cores, sharing, limiter, loopback_bw, loopback_lat,
        mapping, model (with options of its own, as in ``model=smpi,cross_traffic=no``); of a star also bb_bw,
        bb_lat, bb_sharing; of a dragonfly also routing, seed.

    Returns
    -------
    ClusterSpec
        Of a class of `labkit.machines.topologies`, or a custom one.

    Raises
    ------
    PlatformError
        Unknown or malformed: the message shows the place and what is allowed there.

    Examples
    --------
    >>> parse_spec("star:64,lat=24us,bw=1Gbps").bw
    125000000.0
    >>> parse_spec("torus:8x8x8").hosts
    512
    """
    if not isinstance(spec, str):
        raise PlatformError(
            f"a platform specification is text such as 'star:64', got {type(spec).__name__}",
            code="wrong-type",
        )
    head = spec.partition(",")[0]
    kind, values = _kind_and_size(spec, head)
    options = kind.options()
    given: set[str] = set()
    position = len(head) + 1
    for part in _options(spec, options):
        name, equals, text = part.partition("=")
        if not equals:
            raise _refuse(spec, position, f"an option is NAME=VALUE; allowed: {', '.join(options)}")
        if name not in options:
            raise _refuse(spec, position, _unknown_option(kind, name), "unknown-name")
        if name in given:
            raise _refuse(spec, position, f"option {name!r} is given twice", "duplicate-name")
        given.add(name)
        try:
            values[name] = options[name].read(text)
        except PlatformError as error:
            raise _refuse(spec, position + len(name) + 1, str(error), error.code) from None
        position += len(part) + 1
    try:
        return kind(**values)
    except PlatformError as error:
        raise _refuse(spec, 0, str(error), error.code) from None
