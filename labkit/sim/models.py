"""Network models by name: how a message's size and the links it crosses turn into time.

The numbers are data (``datasets/models/*.toml``), each file with its source.
"""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

from labkit.errors import PlatformError

__all__ = ["DEFAULT", "NetworkModel", "get", "names"]

#: The model of a run that names none.
DEFAULT = "lab"

_Factor = tuple[tuple[float, float], ...]
_Cost = tuple[tuple[int, float, float], ...]


@dataclass(frozen=True)
class NetworkModel:
    """Everything that turns a message into time, apart from the platform's links.

    Attributes
    ----------
    name, title, source : str
        What it is called, what it is, and where its numbers come from.
    weight_s_bytes : float
        S of the sharing weight: a link adds S / bandwidth seconds to a flow's weight.
    latency_factor, bandwidth_factor : tuple of (threshold_bytes, factor)
        The factor of the largest threshold strictly below the size (payload and envelope); 1 below the first.
    tcp_gamma_bytes : float
        Largest window: a flow's rate is at most gamma / (2 latency); 0 for no such bound.
    cross_traffic : bool
        Whether 5 % of a flow loads the way back.
    detached_below_bytes : int
        A smaller payload lets the sender go on; its transfer waits for the receive to be posted.
    eager_below_bytes : int
        A smaller payload is transferred at once, whether or not the receive is posted.
    send_overhead, isend_overhead, recv_overhead : tuple of (threshold_bytes, a_s, b_s_per_byte)
        os, ois, or: a + b * payload of the last section strictly below the payload. Empty: free.
    wtime_s, test_s, iprobe_s : float
        What each such call costs its caller.
    """

    name: str
    title: str = ""
    source: str = ""
    weight_s_bytes: float = 0.0
    latency_factor: _Factor = ()
    bandwidth_factor: _Factor = ()
    tcp_gamma_bytes: float = 0.0
    cross_traffic: bool = False
    detached_below_bytes: int = 65536
    eager_below_bytes: int = 0
    send_overhead: _Cost = ()
    isend_overhead: _Cost = ()
    recv_overhead: _Cost = ()
    wtime_s: float = 1e-8
    test_s: float = 1e-4
    iprobe_s: float = 1e-4

    def __post_init__(self) -> None:
        """Refuse tables and numbers no model can have."""
        for table_name in ("latency_factor", "bandwidth_factor"):
            _check_table(self, table_name, 2)
            if any(row[1] <= 0 for row in getattr(self, table_name)):
                raise PlatformError(f"model {self.name!r}: every factor of {table_name} must be positive")
        for table_name in ("send_overhead", "isend_overhead", "recv_overhead"):
            _check_table(self, table_name, 3)
            if any(min(row[1:]) < 0 for row in getattr(self, table_name)):
                raise PlatformError(f"model {self.name!r}: every cost of {table_name} must be 0 or more")
        for number in _NUMBERS:
            value = getattr(self, number)
            if not 0 <= value < float("inf"):
                raise PlatformError(f"model {self.name!r} needs a finite {number} >= 0, got {value}")
        if self.eager_below_bytes > self.detached_below_bytes:
            raise PlatformError(
                f"model {self.name!r}: eager_below_bytes={self.eager_below_bytes} is above "
                f"detached_below_bytes={self.detached_below_bytes}; an eager sender is always detached"
            )

    def __repr__(self) -> str:
        return f"NetworkModel({self.name!r})"

    def build(self) -> Any:
        """Make the engine's model object of these numbers.

        Returns
        -------
        labkit._kernels.Model
        """
        from labkit import _kernels

        return _kernels.Model(**{name: getattr(self, name) for name in ("name", *_OPTIONS)})


#: What may be overridden in `get`: every field that changes times.
_OPTIONS = tuple(f.name for f in fields(NetworkModel) if f.name not in ("name", "title", "source"))
_NUMBERS = (
    "weight_s_bytes",
    "tcp_gamma_bytes",
    "detached_below_bytes",
    "eager_below_bytes",
    "wtime_s",
    "test_s",
    "iprobe_s",
)


def _check_table(model: NetworkModel, name: str, width: int) -> None:
    table = getattr(model, name)
    if any(len(row) != width for row in table):
        raise PlatformError(f"model {model.name!r}: each row of {name} has {width} numbers, got {table}")
    thresholds = [row[0] for row in table]
    if any(b <= a for a, b in pairwise(thresholds)) or any(t < 0 for t in thresholds):
        raise PlatformError(
            f"model {model.name!r}: thresholds of {name} must ascend from 0 on, got {thresholds}"
        )


@functools.cache
def _folder() -> dict[str, str]:
    """Every model file: name to text."""
    files = (importlib.resources.files("labkit.datasets") / "models").iterdir()
    return {f.name.removesuffix(".toml"): f.read_text("utf-8") for f in files if f.name.endswith(".toml")}


def names() -> list[str]:
    """List the known models.

    Examples
    --------
    >>> names()
    ['cm02', 'graphene', 'lab', 'lv08', 'raw', 'rdma', 'smpi']
    """
    return sorted(_folder())


@functools.cache
def _load(name: str) -> NetworkModel:
    table = tomllib.loads(_folder()[name])
    values: dict[str, Any] = {"name": name, "title": table["title"], "source": table["source"].strip()}
    for section in ("network", "protocol", "calls"):
        for key, value in table.get(section, {}).items():
            if key not in _OPTIONS:
                raise PlatformError(
                    f"model file {name}.toml: unknown key {key!r}; allowed: {', '.join(_OPTIONS)}"
                )
            values[key] = tuple(map(tuple, value)) if isinstance(value, list) else value
    return NetworkModel(**values)


def get(model: str | NetworkModel | None = None, **options: Any) -> NetworkModel:
    """Find a model by name and change single numbers of it.

    Parameters
    ----------
    model : str, NetworkModel or None
        A name of `names()`, or a model; None is the default, ``lab``.
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
        Unknown name or option.

    Examples
    --------
    >>> get("smpi").cross_traffic, get("smpi", cross_traffic=False)
    (True, NetworkModel('smpi(cross_traffic=False)'))
    """
    if model is None:
        model = DEFAULT
    if isinstance(model, str):
        if model not in _folder():
            raise PlatformError(f"network model {model!r} is not known; allowed: {', '.join(names())}")
        model = _load(model)
    elif not isinstance(model, NetworkModel):
        raise PlatformError(f"a network model is a name or a NetworkModel, got {type(model).__name__}")
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise PlatformError(
            f"network model option {unknown[0]!r} is not known; allowed: {', '.join(_OPTIONS)}"
        )
    changed = {key: _frozen(value) for key, value in options.items() if _frozen(value) != getattr(model, key)}
    if not changed:
        return model
    arguments = ", ".join(f"{key}={value!r}" for key, value in changed.items())
    return replace(model, name=f"{model.name}({arguments})", **changed)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list | tuple) else value
