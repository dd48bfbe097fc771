"""Network models as TOML files: the shipped ones, and a user's own measured tables.

A file has the texts ``title`` and ``source``, may name the model it starts from in ``base``, and gives
numbers in three sections::

    title = "Our cluster, March"
    source = "ping-pong over 2000 sizes, fitted by hand"
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
    # operations of all ranks on a network of their own: least s, start s, s per log2(ranks), s per byte
    collective_network = [["barrier", 0.0, 9.5e-7, 0.0, 0.0]]

    [protocol]
    detached_below_bytes = 65536           # a smaller payload lets the sender go on
    eager_below_bytes = 0                  # a smaller one travels at once
    send_overhead = [[0, 9e-6, 7e-10]]     # os: rows of (threshold, seconds, seconds per byte)
    isend_overhead = [[0, 9e-6, 7e-10]]    # ois
    recv_overhead = [[0, 9e-6, 8e-10]]     # or

    [calls]
    wtime_s = 1e-8
    test_s = 1e-4
    iprobe_s = 1e-4

Factors are looked up with payload and envelope, costs with the payload: the row of the largest threshold
strictly below counts. Below its first row a factor is 1, and a cost is that of the first row.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from labkit.errors import PlatformError
from labkit.plain import toml_of
from labkit.platform.network_model import OPTIONS, ModelValueError, NetworkModel, frozen

__all__ = ["SECTIONS", "read_model", "read_options"]

#: section -> the fields of `NetworkModel` it may give
SECTIONS = {
    "network": (
        "weight_s_bytes", "latency_factor", "bandwidth_factor", "message_latency", "tcp_gamma_bytes",
        "cross_traffic", "penalties", "sharing", "latency_s", "gap_s", "gap_per_byte_s", "collective_network",
        "envelope_bytes",
    ),
    "protocol": (
        "detached_below_bytes", "eager_below_bytes", "send_overhead", "isend_overhead", "recv_overhead",
    ),
    "calls": ("wtime_s", "test_s", "iprobe_s"),
}  # fmt: skip
_TEXTS = ("title", "source", "base")


def read_model(
    text: str, name: str, path: str, bases: Sequence[str], find: Callable[[str], NetworkModel]
) -> NetworkModel:
    """Read a model file.

    Parameters
    ----------
    text : str
        What the file holds.
    name : str
        What to call the model.
    path : str
        What to call the file in messages.
    bases, find
        The names that `base` may have, and what gives the model of such a name.

    Raises
    ------
    PlatformError
        With the line and the reason.
    """
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
    return PlatformError(f"model file {path}, line {line}: {why}")


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
    """Read the options behind a model's name, ``cross_traffic=no`` or ``send_overhead=0:9e-6:7e-10``.

    Parameters
    ----------
    text : str
        All of it, for messages.
    words : list of str
        The options.

    Returns
    -------
    dict
        Field of `NetworkModel` to value.

    Raises
    ------
    PlatformError
        An option that is not known or cannot be read.
    """
    options: dict[str, Any] = {}
    for word in words:
        key, sign, value = word.partition("=")
        key = key.strip()
        if not sign or key not in OPTIONS:
            raise PlatformError(
                f"model {text!r}: {word!r} is no option; write NAME=VALUE with one of {', '.join(OPTIONS)}"
            )
        if key in options:
            raise PlatformError(f"model {text!r}: option {key!r} is given twice")
        try:
            options[key] = _option_value(key, value.strip())
        except (ValueError, KeyError):
            raise PlatformError(f"model {text!r}: {key}={value!r} cannot be read; {_form_of(key)}") from None
    return options


def _option_value(key: str, value: str) -> Any:
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
