"""The numbers of a network model: how a message's size and the links it crosses turn into time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from typing import Any

from labkit.errors import PlatformError

__all__ = ["OPTIONS", "ModelValueError", "NetworkModel", "frozen"]


class ModelValueError(PlatformError):
    """A value that no model can have.

    Attributes
    ----------
    key : str
        The field.
    row : int or None
        The row of its table.
    why : str
        What is wrong, without the model's name.
    """

    def __init__(self, model: str, key: str, why: str, row: int | None = None) -> None:
        where = key if row is None else f"{key}, row {row + 1}"
        super().__init__(f"model {model!r}: {where}: {why}")
        self.key, self.row, self.why = key, row, why


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
    message_latency : tuple of (threshold_bytes, a_s, b_s_per_byte)
        What a message takes besides the latencies of its links, a + b * payload of the last section strictly
        below the payload: while it lasts, neither an end of the message nor a link is busy. Empty: nothing.
    tcp_gamma_bytes : float
        Largest window: a flow's rate is at most gamma / (2 latency); 0 for no such bound.
    cross_traffic : bool
        Whether 5 % of a flow loads the way back.
    penalties : tuple of float, empty or (Be, Bs, ys)
        Where several transfers leave or enter one host, their windows shrink: see the model ``ib``.
    sharing : str
        "maxmin": transfers share the links they cross. "delay": no link is shared; each message takes L + G k
        behind the messages before it at its two hosts' interfaces (LogGPS).
    latency_s, gap_s, gap_per_byte_s : float
        Of "delay" only: L, g and G. L and G may be negative: that of the message's route and factors.
    collective_network : tuple of (operation, least_s, start_s, stage_s, per_byte_s)
        Operations of all ranks that the machine carries out on a network of its own, such as the collective
        tree of a Blue Gene: max(least, start + stage * log2(ranks)) + per_byte * bytes. Empty: there is none.
    envelope_bytes : int
        What travels with every payload.
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
    message_latency: _Cost = ()
    tcp_gamma_bytes: float = 0.0
    cross_traffic: bool = False
    penalties: tuple[float, ...] = ()
    sharing: str = "maxmin"
    latency_s: float = -1.0
    gap_s: float = 0.0
    gap_per_byte_s: float = -1.0
    collective_network: tuple[tuple[str, float, float, float, float], ...] = ()
    envelope_bytes: int = 16
    detached_below_bytes: int = 65536
    eager_below_bytes: int = 0
    send_overhead: _Cost = ()
    isend_overhead: _Cost = ()
    recv_overhead: _Cost = ()
    wtime_s: float = 1e-8
    test_s: float = 1e-4
    iprobe_s: float = 1e-4

    def __post_init__(self) -> None:  # noqa: C901
        """Refuse tables and numbers no model can have."""
        for name in _FACTORS:
            self._check_table(name, 2)
            for row, (_, factor) in enumerate(getattr(self, name)):
                if not 0 < factor < float("inf"):
                    raise self._refusal(name, f"a factor must be positive and finite, got {factor}", row)
        for name in _COSTS:
            self._check_table(name, 3)
            for row, (_, *costs) in enumerate(getattr(self, name)):
                if not all(0 <= cost < float("inf") for cost in costs):
                    raise self._refusal(name, f"a cost must be finite and 0 or more, got {costs}", row)
        self._check_collective_network()
        for name in _NUMBERS:
            value = self._number(name)
            if not 0 <= value < float("inf"):
                raise self._refusal(name, f"a finite {name} >= 0 is needed, got {value}")
        for name in ("latency_s", "gap_per_byte_s"):
            if not self._number(name) < float("inf"):
                raise self._refusal(
                    name, f"must be finite (negative: the route's), got {getattr(self, name)}"
                )
        if self.sharing not in SHARINGS:
            raise self._refusal("sharing", f"{self.sharing!r} is not known; allowed: {', '.join(SHARINGS)}")
        if not isinstance(self.cross_traffic, bool):
            raise self._refusal("cross_traffic", f"must be true or false, got {self.cross_traffic!r}")
        if self.penalties and (
            len(self.penalties) != 3
            or not all(_is_number(v) and 0 < v < float("inf") for v in self.penalties)
        ):
            got = list(self.penalties)
            raise self._refusal(
                "penalties", f"must be three positive numbers (Be, Bs, ys) or none, got {got}"
            )
        if self.sharing == "delay" and (self.penalties or self.cross_traffic):
            why = '"delay" shares no links: leave penalties out and set cross_traffic = false'
            raise self._refusal("sharing", why)
        if self.eager_below_bytes > self.detached_below_bytes:
            raise self._refusal(
                "eager_below_bytes",
                f"eager_below_bytes={self.eager_below_bytes} is above detached_below_bytes="
                f"{self.detached_below_bytes}; an eager sender is always detached",
            )

    def _check_collective_network(self) -> None:
        """Refuse rows that are not an operation and four finite costs, or an operation given twice."""
        name, seen = "collective_network", set()
        if not isinstance(self.collective_network, tuple):
            raise self._refusal(name, f"must be a list of rows, got {self.collective_network!r}")
        for row, entry in enumerate(self.collective_network):
            is_row = isinstance(entry, tuple) and len(entry) == 5 and all(map(_is_number, entry[1:]))
            if not is_row or not all(0 <= cost < float("inf") for cost in entry[1:]):
                why = "each row is an operation and four costs (least_s, start_s, stage_s, per_byte_s) >= 0"
                raise self._refusal(name, f"{why}, got {entry!r}", row)
            if entry[0] not in ON_COLLECTIVE_NETWORKS:
                allowed = ", ".join(ON_COLLECTIVE_NETWORKS)
                raise self._refusal(name, f"{entry[0]!r} is not known; allowed: {allowed}", row)
            if entry[0] in seen:
                raise self._refusal(name, f"{entry[0]} is given twice", row)
            seen.add(entry[0])

    def _refusal(self, key: str, why: str, row: int | None = None) -> ModelValueError:
        return ModelValueError(self.name, key, why, row)

    def _number(self, name: str) -> float:
        value = getattr(self, name)
        if not _is_number(value) or (name in _WHOLE and not isinstance(value, int)):
            kind = "a whole number" if name in _WHOLE else "a number"
            raise self._refusal(name, f"{name} must be {kind}, got {value!r}")
        return float(value)

    def _check_table(self, name: str, width: int) -> None:
        table = getattr(self, name)
        if not isinstance(table, tuple) or any(not isinstance(row, tuple) for row in table):
            raise self._refusal(name, f"must be a list of rows, got {table!r}")
        for number, row in enumerate(table):
            if len(row) != width or not all(map(_is_number, row)):
                raise self._refusal(name, f"each row has {width} numbers, got {list(row)}", number)
            is_whole = name in _FACTORS or isinstance(row[0], int)
            if not is_whole or not 0 <= row[0] < 2**63:
                raise self._refusal(name, f"a threshold is a number of bytes >= 0, got {row[0]}", number)
        for number, (one, two) in enumerate(pairwise(table), 1):
            if two[0] <= one[0]:
                raise self._refusal(name, f"thresholds must ascend, got {two[0]} behind {one[0]}", number)

    def __repr__(self) -> str:
        return f"NetworkModel({self.name!r})"

    @cached_property
    def digest(self) -> str:
        """A digest of the numbers."""
        return sha256(repr([(name, getattr(self, name)) for name in OPTIONS]).encode()).hexdigest()

    @property
    def copied_below_bytes(self) -> int:
        """A shorter message is copied: one of its ends spends time on every byte of it; 0: none is.

        A detached message that costs its ends by the byte is one that they copy; from
        `detached_below_bytes` on they meet, and its bytes go from memory to memory.
        """
        longest = self.detached_below_bytes - 1
        for costs in (self.send_overhead, self.recv_overhead):
            per_byte_s = [b for threshold, _, b in costs if threshold < longest]
            if per_byte_s and per_byte_s[-1] > 0:
                return self.detached_below_bytes
        return 0

    def build(self) -> Any:
        """Make the engine's model object of these numbers.

        Returns
        -------
        labkit._kernels.Model
        """
        from labkit import _kernels

        return _kernels.Model(**{name: getattr(self, name) for name in ("name", *OPTIONS)})


#: How the messages of a model meet: in the links, or not at all.
SHARINGS = ("maxmin", "delay")

#: What may be changed in `get`, and what a model file may hold: every field that changes times.
OPTIONS = tuple(f.name for f in fields(NetworkModel) if f.name not in ("name", "title", "source"))
_FACTORS = ("latency_factor", "bandwidth_factor")
_COSTS = ("message_latency", "send_overhead", "isend_overhead", "recv_overhead")
#: Operations that a collective network may carry out: those with an algorithm ``collective_network``.
ON_COLLECTIVE_NETWORKS = ("allreduce", "barrier", "bcast")
_WHOLE = ("detached_below_bytes", "eager_below_bytes", "envelope_bytes")
_NUMBERS = ("weight_s_bytes", "tcp_gamma_bytes", "gap_s", *_WHOLE, "wtime_s", "test_s", "iprobe_s")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def frozen(value: Any) -> Any:
    """Turn lists into tuples, all the way down."""
    return tuple(frozen(v) for v in value) if isinstance(value, list | tuple) else value
