"""Completion of the magic's line: machines, models and algorithms behind their options, and the options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from labkit.jupyter.names import matcher_of

__all__ = ["completions", "matcher"]

_MAGICS = ("%%spmd", "%spmd")


def completions(before: str, names: Mapping[str, Any]) -> list[str] | None:
    """Return what may come next on a line."""
    words = before.split()
    if not words or words[0] not in _MAGICS or before.rstrip() == words[0] == before:
        return None
    from labkit.jupyter.options import option_values  # late: it loads what runs programs

    begun = "" if before[-1].isspace() else words.pop()
    option = words[-1] if len(words) > 1 else ""
    if "=" in begun and begun.startswith("--"):
        option, _, begun = begun.partition("=")
    flags = option_values(words[0] == "%spmd")
    known = _values(option, begun, names) if flags.get(option) else [one for one in flags if len(one) > 2]
    return [one for one in known if one.startswith(begun)]


def _values(option: str, begun: str, names: Mapping[str, Any]) -> Iterable[str]:
    """Return the values of an option; none where any may follow."""
    if option == "--on":
        return [*_machines(), *_own_machines(names)]
    if option == "--model":
        from labkit.platform import models

        return models.names()
    if option == "--coll":
        from labkit import registry
        from labkit.schedule.problem import PROBLEMS

        problem, sign, _ = begun.partition("=")
        if sign and problem in registry.problems():
            return [f"{problem}={name}" for name in registry.names(problem)]
        return [f"{name}=" for name in registry.problems() if name in PROBLEMS]
    if option == "--mapping":
        return ["block", "cyclic", "fragmented", "random"]
    if option == "--compute":
        return ["charged", "measured", "recorded:"]
    return []


def _machines() -> list[str]:
    from labkit.platform.spec import reader
    from labkit.platform.spec.reader import kinds
    from labkit.run import MACHINES

    words = [machine.words[0] for machine in MACHINES if machine.words]
    return [*words, *kinds(), *reader.names()]


def _own_machines(names: Mapping[str, Any]) -> list[str]:
    """Return the names that hold platforms or clusters."""
    from labkit.jupyter.options import is_own_machine

    return sorted(name for name, value in names.items() if not name.startswith("_") and is_own_machine(value))


def matcher(shell: Any) -> Any:
    """Return the matcher of the magic's lines."""

    def find(before: str) -> tuple[list[str], str] | None:
        found = completions(before, shell.user_ns)
        return None if found is None else (sorted(found), before.split(" ")[-1])

    return matcher_of("labkit.spmd", "magic", find)
