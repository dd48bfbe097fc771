"""Network models by name or file.

The numbers are data (``datasets/models/*.toml``), each file with its source; a custom file has the same
form (`labkit.machines.models`).

Network models as TOML files: the shipped ones, and a user's own measured tables.

A file has the texts ``title`` and ``source``, may name the model it starts from in ``base``, and gives
numbers in three sections::

    title = "Our cluster, March"
    source = "ping-pong over 2000 sizes, fitted manually"
    base = "smpi"                          # what is not given below is taken from here (else: as in raw)

    [network]
    weight_s_bytes = 8775.0                # S: a link adds S / bandwidth to a transfer's weight
    latency_factor = [[0, 1.9], [1426, 1.6]]       # rows of (threshold in bytes, factor)
    bandwidth_factor = [[0, 0.81], [65472, 0.94]]
    message_latency = [[0, 3e-6, 0.0]]     # added to the links' latencies: (threshold, s, s per byte)
    tcp_gamma_bytes = 4194304.0            # the window: rate <= gamma / (2 latency); 0: no such bound
    cross_traffic = true                   # 5 % of a transfer loads the way back
    penalties = [0.965, 0.925, 1.35]       # Be, Bs, ys of InfiniBand; [] for none
    sharing = "maxmin"                     # or "delay": LogGPS, with latency_s, gap_s, gap_per_byte_s
    envelope_bytes = 16
    # operations of all ranks on their own network: least s, start s, s per log2(ranks), s per byte
    collective_network = [["barrier", 0.0, 9.5e-7, 0.0, 0.0]]

    [protocol]
    detached_below_bytes = 65536           # a smaller payload lets the sender go on
    eager_below_bytes = 0                  # a smaller one is sent immediately
    send_overhead = [[0, 9e-6, 7e-10]]     # os: rows of (threshold, seconds, seconds per byte)
    isend_overhead = [[0, 9e-6, 7e-10]]    # ois
    recv_overhead = [[0, 9e-6, 8e-10]]     # or
    match_s = 1e-7                         # an entry of a matching queue that is looked at in vain

    [calls]
    wtime_s = 1e-8
    test_s = 1e-4
    iprobe_s = 1e-4

Factors are looked up with payload and envelope, costs with the payload: the row of the largest threshold
strictly below counts. Below its first row a factor is 1, and a cost is that of the first row.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import tomllib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.datasets import FOLDER
from labkit.errors import PlatformError, nearest
from labkit.machines.quantities import LONGEST_S as _LARGEST
from labkit.text.files import text_of, toml_of

if TYPE_CHECKING:
    from labkit import _kernels

__all__ = ["DEFAULT", "OPTIONS", "ModelValueError", "NetworkModel", "frozen", "get", "names", "read_options"]

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


#: section -> the fields of `NetworkModel` it may give
SECTIONS = {
    "network": (
        "weight_s_bytes", "latency_factor", "bandwidth_factor", "message_latency", "tcp_gamma_bytes",
        "cross_traffic", "penalties", "sharing", "latency_s", "gap_s", "gap_per_byte_s", "collective_network",
        "envelope_bytes",
    ),
    "protocol": (
        "detached_below_bytes", "eager_below_bytes", "send_overhead", "isend_overhead", "recv_overhead",
        "match_s",
    ),
    "calls": ("wtime_s", "test_s", "iprobe_s"),
}  # fmt: skip

_TEXTS = ("title", "source", "base")


# The numbers of a network model: how a message's size and the links it crosses turn into time.


class ModelValueError(PlatformError):
    """A value that no model can have.

    `key`: The field.
    `row`: The row of its table.
    `why`: What is wrong, without the model's name.
    """

    code = "invalid-value"

    def __init__(self, model: str, key: str, why: str, row: int | None = None) -> None:
        where = key if row is None else f"{key}, row {row + 1}"
        super().__init__(f"model {model!r}: {where}: {why}")
        self.key, self.row, self.why = key, row, why


_Factor = tuple[tuple[float, float], ...]

_Cost = tuple[tuple[int, float, float], ...]


@dataclass(frozen=True)
class NetworkModel:
    """Everything that turns a message into time, apart from the platform's links.

    `name`, `title`, `source`: What it is called, what it is, and where its numbers come from.
    `weight_s_bytes`: S of the sharing weight: a link adds S / bandwidth seconds to a flow's weight.
    `latency_factor`, `bandwidth_factor`: The factor of the largest threshold strictly below the size (payload
        and envelope); 1 below the first.
    `message_latency`: The time of a message in addition to its links' latencies, a + b * payload of the last
        section strictly below the payload: while it lasts, neither an end of the message nor a link is busy.
        Empty: nothing.
    `tcp_gamma_bytes`: Largest window: a flow's rate is at most gamma / (2 latency); 0 for no such bound.
    `cross_traffic`: Whether 5 % of a flow loads the way back.
    `penalties`: Where several transfers leave or enter one host, their windows shrink: see the model ``ib``.
    `sharing`: "maxmin": transfers share the links they cross. "delay": no link is shared; each message takes
        L + G k behind the messages before it at its two hosts' interfaces (LogGPS).
    `latency_s`, `gap_s`, `gap_per_byte_s`: Of "delay" only: L, g and G. L and G may be negative: that of the
        message's route and factors.
    `collective_network`: Operations of all ranks that the machine carries out on a separate network, such as
        the collective tree of a Blue Gene: max(least, start + stage * log2(ranks)) + per_byte * bytes. Empty:
        there is none.
    `envelope_bytes`: What travels with every payload.
    `detached_below_bytes`: A smaller payload lets the sender go on; its transfer waits for the receive to be
        posted.
    `eager_below_bytes`: A smaller payload is transferred immediately, whether or not the receive is posted.
    `send_overhead`, `isend_overhead`, `recv_overhead`: os, ois, or: a + b * payload of the last section
        strictly below the payload. Empty: free.
    `match_s`: What an entry of a matching queue costs the receiver when it is looked at in vain. A message
        looks through the receives that are posted, a receive through the messages that have arrived, oldest
        first.
    `wtime_s`, `test_s`, `iprobe_s`: What each such call costs its caller.
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
    match_s: float = 0.0
    wtime_s: float = 1e-8
    test_s: float = 1e-4
    iprobe_s: float = 1e-4

    def __post_init__(self) -> None:  # noqa: C901
        """Refuse tables and numbers no model can have."""
        for name in _FACTORS:
            self._check_table(name, 2)
            for row, (_, factor) in enumerate(getattr(self, name)):
                if not 0 < factor <= _LARGEST:
                    why = f"a factor must be positive and at most {_LARGEST:g}, got {factor}"
                    raise self._refusal(name, why, row)
        for name in _COSTS:
            self._check_table(name, 3)
            for row, (_, *costs) in enumerate(getattr(self, name)):
                if not all(0 <= cost <= _LARGEST for cost in costs):
                    raise self._refusal(name, f"a cost must be between 0 and {_LARGEST:g}, got {costs}", row)
        self._check_collective_network()
        for name in _NUMBERS:
            value = self._number(name)
            if not 0 <= value <= (_LARGEST if name.endswith("_s") else sys.float_info.max):
                allowed = f"between 0 and {_LARGEST:g}" if name.endswith("_s") else "finite and at least 0"
                raise self._refusal(name, f"{name} must be {allowed}, got {value}")
        for name in ("latency_s", "gap_per_byte_s"):
            if not self._number(name) <= _LARGEST:
                why = f"must be at most {_LARGEST:g} (negative: the route's), got {getattr(self, name)}"
                raise self._refusal(name, why)
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
            if not is_row or not all(0 <= cost <= _LARGEST for cost in entry[1:]):
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

    def build(self) -> _kernels.Model:
        """Make the engine's model object of these numbers."""
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

_NUMBERS = ("weight_s_bytes", "tcp_gamma_bytes", "gap_s", *_WHOLE, "match_s", "wtime_s", "test_s", "iprobe_s")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def frozen(value: object) -> Any:
    """Turn lists into tuples, all the way down."""
    return tuple(frozen(v) for v in value) if isinstance(value, list | tuple) else value


def read_model(
    text: str, name: str, path: str, bases: Sequence[str], find: Callable[[str], NetworkModel]
) -> NetworkModel:
    """Read a model file."""
    try:
        table = toml_of(text)
    except tomllib.TOMLDecodeError as error:
        raise _refusal(path, _line_in(str(error), text), f"not TOML: {error}") from None
    values = {"name": name} | _texts(table, text, path, bases)
    base = find(values.pop("base")) if "base" in values else NetworkModel("")
    for section, content in table.items():
        if section in _TEXTS:
            continue
        if section not in SECTIONS or not isinstance(content, dict):
            allowed = f"the texts {', '.join(_TEXTS)} and the sections {', '.join(SECTIONS)}"
            raise _refusal(
                path, _line_of(text, None, section), f"{section!r} is not known; allowed: {allowed}"
            )
        for key, value in content.items():
            if key not in SECTIONS[section]:
                why = f"[{section}] has no {key!r}; allowed: {', '.join(SECTIONS[section])}"
                raise _refusal(path, _line_of(text, section, key), why)
            values[key] = frozen(value)
    try:
        return replace(base, **values)
    except ModelValueError as error:
        section = next(s for s, keys in SECTIONS.items() if error.key in keys)
        line = _line_of(text, section, error.key, error.row)
        where = "" if error.row is None else f", row {error.row + 1}"
        raise _refusal(path, line, f"{error.key}{where}: {error.why}") from None


def _texts(table: dict[str, Any], text: str, path: str, bases: Sequence[str]) -> dict[str, Any]:
    for key in _TEXTS:
        if key in table and not isinstance(table[key], str):
            raise _refusal(path, _line_of(text, None, key), f"{key} must be a text, got {table[key]!r}")
    for key in ("title", "source"):
        if not table.get(key, "").strip():
            raise _refusal(
                path, 1, f"{key} is missing: say what the model is, and where its numbers come from"
            )
    if "base" in table and table["base"] not in bases:
        why = f"base {table['base']!r} is not a known model; allowed: {', '.join(bases)}"
        raise _refusal(path, _line_of(text, None, "base"), why)
    return {key: table[key].strip() for key in _TEXTS if key in table}


def _refusal(path: str, line: int, why: str) -> PlatformError:
    return PlatformError(f"model file {path}, line {line}: {why}", code="malformed-line")


def _line_in(message: str, text: str) -> int:
    """Find the line in tomllib's message; it says "at end of document" of a file that stops short."""
    found = re.search(r"line (\d+)", message)
    return int(found[1]) if found else len(text.splitlines())


def _line_of(text: str, section: str | None, key: str, row: int | None = None) -> int:
    """Find the line of a key, or of a row of its table; the file is TOML, so a plain scan will do."""
    at: str | None = None
    pattern = re.compile(rf"\s*(?:\[+\s*)?[\"']?{re.escape(key)}[\"']?\s*[=\].]")
    lines = text.splitlines()
    for number, line in enumerate(lines):
        header = re.match(r"\s*\[([\w.\-]+)\]\s*(?:#.*)?$", line)
        if header and header[1] == key and section is None:
            return number + 1
        if header:
            at = header[1]
        elif at == section and pattern.match(line):
            return number + 1 if row is None else _line_of_row(lines, number, row)
    return 1


def _line_of_row(lines: list[str], first: int, row: int) -> int:
    depth, seen = 0, -1
    for number in range(first, len(lines)):
        code = lines[number].partition("#")[0]
        if number == first:
            code = code.partition("=")[2]
        for sign in code:
            depth += (sign == "[") - (sign == "]")
            seen += sign == "[" and depth == 2
            if seen == row:
                return number + 1
    return first + 1


def read_options(text: str, words: list[str]) -> dict[str, Any]:
    """Read the options behind a model's name, ``cross_traffic=no`` or ``send_overhead=0:9e-6:7e-10``."""
    options: dict[str, object] = {}
    for word in words:
        key, sign, value = word.partition("=")
        key = key.strip()
        if not sign or key not in OPTIONS:
            raise PlatformError(
                f"model {text!r}: {word!r} is not an option; write NAME=VALUE, one of {', '.join(OPTIONS)}",
                code="unknown-name" if sign else "malformed-specification",
            )
        if key in options:
            raise PlatformError(f"model {text!r}: option {key!r} is given twice", code="duplicate-name")
        try:
            options[key] = _option_value(key, value.strip())
        except (ValueError, KeyError):
            raise PlatformError(
                f"model {text!r}: {key}={value!r} cannot be read; {_form_of(key)}", code="malformed-value"
            ) from None
    return options


def _option_value(key: str, value: str) -> object:
    if key == "cross_traffic":
        return {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}[
            value.lower()
        ]
    if key == "sharing":
        return value
    if key == "penalties":
        return tuple(map(float, value.split(";"))) if value else ()
    if key == "collective_network":
        rows = (row.split(":") for row in value.split(";") if row)
        return tuple((operation, *map(float, costs)) for operation, *costs in rows)
    if key.endswith(("_factor", "_overhead", "message_latency")):
        return tuple(
            (_number(row.partition(":")[0]), *map(float, row.split(":")[1:]))
            for row in value.split(";")
            if row
        )
    return _number(value)


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _form_of(key: str) -> str:
    if key == "cross_traffic":
        return "write yes or no"
    if key == "penalties":
        return "write Be;Bs;ys, as in 0.965;0.925;1.35"
    if key.endswith("_factor"):
        return "write THRESHOLD:FACTOR;..., as in 0:2.0;1426:1.6"
    if key == "collective_network":
        return (
            "write OPERATION:LEAST:START:STAGE:PER_BYTE;..., as in bcast:0:1.3e-5:3.1e-7:4.45e-10, or nothing"
        )
    if key.endswith(("_overhead", "message_latency")):
        return "write THRESHOLD:SECONDS:SECONDS_PER_BYTE;..., as in 0:9e-6:7e-10"
    return "write a number"


@functools.cache
def _load(name: str) -> NetworkModel:
    return read_model(_folder()[name], name, f"{name}.toml", names(), _load)


def _from_text(text: str) -> tuple[NetworkModel, dict[str, object]]:
    """Read ``NAME`` or ``FILE.toml``, with options behind commas."""
    name, *words = text.split(",")
    options = read_options(text, words)
    if name.endswith(".toml"):
        path = Path(name)
        text = text_of(path, PlatformError)
        return read_model(text, path.stem, str(path), names(), _load), options
    if name not in _folder():
        raise PlatformError(
            f"network model {name!r} is not known; allowed: {', '.join(names())}, or the path of a .toml file"
            f"{nearest(name, names(), 1)}",
            code="unknown-name",
        )
    return _load(name), options


def get(model: str | os.PathLike[str] | NetworkModel | None = None, **options: object) -> NetworkModel:
    """Find a model by name or file, and change single numbers of it.

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
            f"a network model is a name, a file or a NetworkModel, got {type(model).__name__}",
            code="wrong-type",
        )
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise PlatformError(
            f"network model option {unknown[0]!r} is not known; allowed: {', '.join(OPTIONS)}",
            code="unknown-name",
        )
    changed = {key: frozen(value) for key, value in options.items() if frozen(value) != getattr(model, key)}
    if not changed:
        return model
    arguments = ", ".join(f"{key}={_shown(value)}" for key, value in changed.items())
    return replace(model, name=f"{model.name}({arguments})", **changed)


def _shown(value: Any) -> str:
    """Write a changed value; a long table by its length and a checksum."""
    text = repr(value)
    if len(text) <= 60:
        return text
    return f"<{len(value)} rows {zlib.crc32(text.encode()):08x}>"
