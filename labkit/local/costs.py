"""Costs of node-local work on a calibrated machine: coefficients read from committed data.

A kernel that handles ``n`` items of one size costs ``call_s + n (item_s + item_log_s log2(m))``, where ``m``
is the number the kernel's logarithm is about: the keys of a sort, the runs of a merge, the haystack of a
search. The coefficients were measured once by ``python -m labkit.local.calibrate`` and are shipped as TOML.

The costs are seconds on one core, and no flop rate scales them: how fast a core sorts does not follow from
its peak. A named machine has the costs of its own cores (``datasets/calibrations``); every other machine has
those of the default, whatever its speed, and a run notes where the speed is not that of the default. Where
the hosts of a machine differ, the costs are those of its first host, and the others take longer or shorter
in proportion to their speeds.

Packing is free, unless the calibration has ``[kernels.pack.1]``: then gathering what a datatype with gaps
sends, and scattering what it receives, costs ``call_s + bytes item_s + pieces entry_s``, where the pieces are
the runs of consecutive bytes. ``[kernels.pack_line.L]`` adds ``item_s`` for every cache line of L bytes that
the pieces touch: a longer stride touches more of them, up to one a piece. It is charged to the rank: before
its message leaves, and when its receive is waited for.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from labkit.datasets import FOLDER
from labkit.errors import DataError, nearest
from labkit.program import context
from labkit.text.files import text_of, toml_of

__all__ = [
    "DEFAULT_CALIBRATION",
    "REFERENCE_FLOPS_PER_S",
    "Cost",
    "KernelCosts",
    "calibration",
    "charge",
    "find_calibration",
    "use_calibration",
]

#: name of the file in datasets/calibrations that is used unless the program chooses another
DEFAULT_CALIBRATION = "default"


#: speed of a simulated core that says nothing else
REFERENCE_FLOPS_PER_S = 1e9

#: kernels that compare keys: each item so often as the logarithm of the cost formula says
_COMPARING = frozenset(
    {"sort", "merge", "merge_many", "merge_order", "count_up_to", "classify", "histogram", "distribute"}
)


#: gathering and scattering data with gaps: its items are bytes, the entries pieces of consecutive bytes
PACKING = ("pack", 1)

#: a line of the cache that packing touches: its item size is the line's
_PACK_LINE = "pack_line"


@dataclass(frozen=True)
class Cost:
    """Coefficients of one kernel for items of one size.

    Attributes
    ----------
    call_s : float
        Seconds per call.
    item_s : float
        Seconds per item.
    item_log_s : float
        Seconds per item and binary logarithm.
    entry_s : float
        Seconds per entry of the table that the kernel sets up: a count for each digit, a splitter.
    largest_error : float
        Largest relative error of this formula on the measurements it was fitted to.
    """

    call_s: float
    item_s: float
    item_log_s: float
    entry_s: float = 0.0
    largest_error: float = 0.0

    def seconds(self, items: int, log_of: int, entries: int = 0) -> float:
        """Return the cost of one call, in seconds."""
        # math.log2 of an int is the one libm call on the way to simulated time; frexp and a table would
        # avoid it, but log2 of integers below 2**53 is correctly rounded wherever it was tried, and the
        # rounding below makes a last-bit difference vanish.
        logarithm = round(math.log2(log_of), 6) if log_of > 1 else 0.0
        per_item = self.item_s + self.item_log_s * logarithm
        return self.call_s + items * per_item + entries * self.entry_s


@dataclass(frozen=True)
class KernelCosts:
    """The node-local costs of one machine.

    Attributes
    ----------
    name : str
        The file's name, without its ending.
    machine : dict
        What was measured, when and how.
    reference_flops_per_s : float
        The speed of the simulated core on which work takes exactly as long as it was measured: a run sets it
        to that of its machine's first host.
    costs : dict
        (kernel, item size in bytes) -> `Cost`.
    memory_bytes_per_s : float or None
        What one core copies while all cores of its host do (bytes read and bytes written are both counted).
    facts : tuple of (str, str)
        Where the figures come from: what, and its value with the source, or "assumed".
    is_derived : bool
        Whether the costs are those of another calibration, scaled, and not measured.
    """

    name: str
    machine: dict[str, Any] = field(compare=False)
    reference_flops_per_s: float
    costs: dict[tuple[str, int], Cost]
    memory_bytes_per_s: float | None = field(default=None, compare=False)
    facts: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    is_derived: bool = False

    def seconds(self, kernel: str, itemsize: int, items: int, log_of: int = 1, entries: int = 0) -> float:
        """Return what one call of `kernel` costs on the calibrated machine, in seconds.

        Raises
        ------
        DataError
            If this calibration has no such kernel, or none for items of this size.
        """
        cost = self.costs.get((kernel, itemsize))
        if cost is None:
            raise DataError(self._has_no(kernel, itemsize), code="unknown-name")
        return cost.seconds(items, log_of, entries)

    @cached_property
    def digest(self) -> str:
        """A digest of the numbers."""
        numbers = [self.reference_flops_per_s, *sorted(self.costs.items())]
        return sha256(repr(numbers).encode()).hexdigest()

    @property
    def packing(self) -> Cost | None:
        """Cost of gathering or scattering data with gaps: per call, byte and piece; None where it is free."""
        return self.costs.get(PACKING)

    @cached_property
    def _pack_line(self) -> tuple[int, float]:
        """Return a cache line's bytes and what touching it costs in seconds; 0 s where nothing is known."""
        lines = [(size, cost.item_s) for (kernel, size), cost in self.costs.items() if kernel == _PACK_LINE]
        return lines[0] if lines else (64, 0.0)

    def packing_s(self, size: int, pieces: int, span: int) -> float:
        """Return what gathering or scattering data with gaps costs, in seconds.

        Parameters
        ----------
        size : int
            Bytes of data.
        pieces : int
            Runs of consecutive bytes.
        span : int
            Bytes of memory from the first to the last of them.
        """
        line_bytes, line_s = self._pack_line
        lines = min(pieces + (size - pieces) // line_bytes, -(-span // line_bytes))
        return self.costs[PACKING].seconds(size, 1, pieces) + lines * line_s

    def _has_no(self, kernel: str, itemsize: int) -> str:
        sizes = sorted(size for name, size in self.costs if name == kernel)
        if sizes:
            allowed = f"it has {kernel} for items of {', '.join(map(str, sizes))} bytes"
        else:
            allowed = f"its kernels are {', '.join(sorted({name for name, _ in self.costs})) or 'none'}"
        return (
            f"calibration {self.name} has no kernel {kernel!r} for items of {itemsize} bytes; {allowed}; "
            "measure again with: python -m labkit.local.calibrate --out FILE.toml"
        )

    @classmethod
    def read(cls, text: str, name: str) -> KernelCosts:
        """Read a calibration from TOML text.

        What it does not say is as in its ``base``, if it names one, times the kernel's factor in ``[scaled]``
        (``all`` is that of every other kernel). ``[memory]`` has ``bytes_per_s``; each of ``[[facts]]`` has
        what, value and source or assumed.

        Raises
        ------
        DataError
            If the text is not TOML, or a table or a number is missing or negative.
        """
        try:
            table = toml_of(text)
            _refuse_unknown(table, _KEYS, "a calibration")
            base = _base(table["base"]) if "base" in table else None
            costs = _scaled({} if base is None else base.costs, table.get("scaled", {})) | {
                _kernel(kernel, itemsize): _cost(entry)
                for kernel, sizes in table["kernels"].items()
                for itemsize, entry in sizes.items()
            }
            _refuse_unknown(table.get("memory", {}), ("bytes_per_s",), "[memory]")
            memory = table.get("memory", {}).get("bytes_per_s")
            if memory is not None and not 0 < _real(memory) < math.inf:
                raise ValueError(f"[memory] bytes_per_s must be finite and > 0, got {memory}")
            if not isinstance(table["machine"], dict):
                raise ValueError(f"[machine] is a table of facts about the machine, got {table['machine']!r}")
            facts = tuple((fact["what"], _with_source(fact)) for fact in table.get("facts", ()))
            if sum(kernel == _PACK_LINE for kernel, _ in costs) > 1:
                raise ValueError(f"[kernels.{_PACK_LINE}] has more than one length of a cache line")
            return cls(
                name,
                table["machine"],
                REFERENCE_FLOPS_PER_S,
                costs,
                None if memory is None else float(memory),
                facts,
                base is not None,
            )
        except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"calibration {name} cannot be read: {type(error).__name__}: {error}; "
                "write one with: python -m labkit.local.calibrate --out FILE.toml",
                code="unreadable-file",
            ) from error


#: of a calibration's file; `published`: times that others measured, for the tests
_KEYS = ("machine", "base", "scaled", "kernels", "memory", "facts", "published")


def _refuse_unknown(table: Mapping[str, object], known: Sequence[str], what: str) -> None:
    for key in table:
        if key not in known:
            meant = nearest(key, known)
            raise ValueError(f"{what} has no {key[:80]!r}{meant}; it has {', '.join(known)}")


def _base(name: object) -> KernelCosts:
    """Return the calibration that another one starts from: one that comes with labkit."""
    if not isinstance(name, str) or name.endswith(".toml"):
        raise ValueError(f"base is the name of a calibration that comes with labkit, got {name!r}")
    return _load(name)


def _real(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a number is needed, got {value!r}")
    return float(value)


def _kernel(name: str, itemsize: str) -> tuple[str, int]:
    """Return a kernel and the size of its items."""
    if not (itemsize.isascii() and itemsize.isdecimal() and 0 < len(itemsize) < 10 and int(itemsize) > 0):
        raise ValueError(
            f"[kernels.{name}.{itemsize}]: behind the kernel stands the bytes of an item, 1 or more"
        )
    if name == PACKING[0] and int(itemsize) != PACKING[1]:
        raise ValueError(f"[kernels.{name}.{itemsize}]: packing is counted in bytes, as [kernels.pack.1]")
    return name, int(itemsize)


def _with_source(fact: dict[str, str]) -> str:
    _refuse_unknown(fact, ("what", "value", "source", "assumed"), "a fact")
    kind = "source" if "source" in fact else "assumed"
    return f"{fact['value']} ({kind}: {fact[kind]})"


def _scaled(costs: dict[tuple[str, int], Cost], factors: dict[str, float]) -> dict[tuple[str, int], Cost]:
    """Multiply the costs by their kernels' factors."""
    known = {kernel for kernel, _ in costs}
    for kernel, factor in factors.items():
        if kernel not in known | {"all"} or not 0 < _real(factor) <= _LARGEST:
            allowed = ", ".join(["all", *sorted(known)])
            raise ValueError(f"[scaled] {kernel} = {factor!r}; allowed: a factor > 0 of {allowed}")
    found = {}
    for (kernel, itemsize), cost in costs.items():
        factor = float(factors.get(kernel, factors.get("all", 1.0)))
        call, item, item_log, entry = (
            factor * t for t in (cost.call_s, cost.item_s, cost.item_log_s, cost.entry_s)
        )
        found[kernel, itemsize] = Cost(call, item, item_log, entry, cost.largest_error)
    return found


#: seconds: beyond it sums of times would not be finite
_LARGEST = 1e9
_COEFFICIENTS = ("call_s", "item_s", "item_log_s", "entry_s", "largest_error")


def _cost(entry: dict[str, float]) -> Cost:
    unknown = sorted(set(entry) - set(_COEFFICIENTS))
    if unknown or not entry:
        raise ValueError(f"a kernel has {', '.join(_COEFFICIENTS)}; got {', '.join(entry) or 'nothing'}")
    cost = Cost(*(_real(entry.get(key, 0.0)) for key in _COEFFICIENTS))
    if not all(0 <= getattr(cost, key) <= _LARGEST for key in _COEFFICIENTS):
        raise ValueError(f"coefficients must be finite and between 0 and {_LARGEST:g}, got {cost}")
    return cost


@cache
def _default() -> KernelCosts:
    return _load(DEFAULT_CALIBRATION)


@dataclass
class _InUse:
    """What this process uses; None: the default."""

    costs: KernelCosts | None = None


_IN_USE = _InUse()


def calibration() -> KernelCosts:
    """Return the calibration in use: the simulated run's own, else the process's; at first the default."""
    own: KernelCosts | None = getattr(context.current(), "calibration", None)
    if own is not None:
        return own
    return _IN_USE.costs or _default()


def charge(kernel: str, itemsize: int, items: int, log_of: int = 1, entries: int = 0) -> None:
    """Charge one call of `kernel` to the running simulated rank; elsewhere do nothing."""
    machine = context.current()
    if getattr(machine, "tally", None) is not None and kernel in _COMPARING:
        machine.count("comparisons", items * math.log2(max(log_of, 1)))  # type: ignore[union-attr]
    if machine is not None and not getattr(machine, "is_measured", False):
        table: KernelCosts = getattr(machine, "calibration", None) or calibration()
        seconds = table.seconds(kernel, itemsize, items, log_of, entries)
        machine.uses_kernels = True  # type: ignore[attr-defined]
        machine.compute(None, seconds * table.reference_flops_per_s)


def use_calibration(source: str | Path | KernelCosts) -> KernelCosts:
    """Charge node-local work by another calibration in all later runs of this process.

    A single run chooses its own: ``lk.run(..., calibration=...)``. A run that has begun keeps what it has.

    Parameters
    ----------
    source : str, Path or KernelCosts
        The name of a file in datasets/calibrations, a path that ends in ``.toml``, or a calibration.

    Returns
    -------
    KernelCosts
        The calibration that was in use before.

    Raises
    ------
    DataError
        If it cannot be found or read.
    """
    previous, _IN_USE.costs = calibration(), find_calibration(source)
    return previous


def find_calibration(source: object = None) -> KernelCosts:
    """Return what a user named: as for `use_calibration`; None is the calibration in use."""
    if source is None:
        return calibration()
    if isinstance(source, KernelCosts):
        return source
    if isinstance(source, str | Path):
        return _load(source)
    raise DataError(
        f"calibration must be a name, the path of a .toml file or KernelCosts, got {type(source).__name__}",
        code="wrong-type",
    )


def _load(source: str | Path) -> KernelCosts:
    if str(source).endswith(".toml"):
        path = Path(source)
        return KernelCosts.read(text_of(path), path.stem)
    folder = FOLDER / "calibrations"
    names = sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml"))
    if str(source) not in names:
        raise DataError(
            f"no calibration named {str(source)!r}{nearest(str(source), names)}; there are "
            f"{', '.join(names)}, and files that end in .toml "
            "(measure this machine with: python -m labkit.local.calibrate --out FILE.toml)",
            code="unknown-name",
        )
    return KernelCosts.read((folder / f"{source}.toml").read_text(encoding="utf-8"), str(source))
