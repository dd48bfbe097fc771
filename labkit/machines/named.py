"""Named machines (``datasets/machines``): every figure has its source or is marked as assumed.

::

    title = "a cluster of 128 nodes"
    spec = "fattree:16x8:1x4:1x2,bw=12.5GBps,lat=300ns,calibration=xeon-e5-2670"
    # or zones = "NAME.xml", SimGrid's file next to it, and calibration = "xeon-e5-2670"

    [[facts]]                                              # one for each figure
    what = "links"
    value = "100 Gb/s, 300 ns"
    source = "the vendor's data sheet"                     # or assumed = "why"
"""

from __future__ import annotations

import functools
import tomllib

from labkit.errors import PlatformError
from labkit.machines.spec import MachineSpec, parse_spec
from labkit.machines.spec.reader import folder, names

__all__ = ["NamedMachine", "load_machine", "names"]


class NamedMachine:
    """A named machine as its file says.

    `name`, `title`: What it is called, and what it is.
    `spec`: What it is made of.
    `facts`: Each figure and, behind it, its source, or "assumed".
    """

    def __init__(self, name: str, title: str, spec: MachineSpec, facts: list[tuple[str, str]]) -> None:
        self.name = name
        self.title = title
        self.spec = spec
        self.facts = facts


@functools.lru_cache(maxsize=4)
def load_machine(name: str) -> NamedMachine:
    """Read a named machine.

    Raises PlatformError: There is none of that name, or its file is broken.
    """
    if name not in names():
        raise PlatformError(
            f"machine {name!r} is not known; allowed: {', '.join(names())}", code="unknown-name"
        )
    table = tomllib.loads((folder() / f"{name}.toml").read_text("utf-8"))
    facts = []
    for fact in table["facts"]:
        kind = "source" if "source" in fact else "assumed"
        facts.append((fact["what"], f"{fact['value']} ({kind}: {fact[kind]})"))
    if "spec" in table:
        return NamedMachine(name, table["title"], parse_spec(table["spec"]), facts)
    from labkit.machines.xml.reader import read_platform

    spec, *_ = read_platform(folder() / table["zones"], source=name)
    spec.calibration = table.get("calibration")
    return NamedMachine(name, table["title"], spec, facts)
