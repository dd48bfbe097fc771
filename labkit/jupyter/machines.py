"""The machine behind the word of ``--on``: a name of the notebook, the session's cluster, or a text."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from labkit.errors import LabkitError, MachineError
from labkit.run import machine_of
from labkit.units import format_seconds

__all__ = ["Machines", "is_own_machine"]

#: engines that are started at least: the next cell may well want a few ranks more
_FEWEST_ENGINES = 4


def _is_platform(word: str) -> bool:
    from labkit.platform import platform

    try:
        platform(word)
    except LabkitError:
        return False
    return True


def is_own_machine(value: Any) -> bool:
    """Whether a value of the notebook is a machine, not only the text of one."""
    if value is None or isinstance(value, str | ModuleType):
        return False
    is_platform = type(value).__module__.startswith("labkit.platform") and hasattr(value, "hosts")
    return is_platform or machine_of(value).is_real


class Machines:
    """Finds machines, and keeps the cluster that ``--on cluster`` started.

    Parameters
    ----------
    say : callable
        Tells the user something at once.
    """

    def __init__(self, say: Callable[[str], None] = print) -> None:
        self._say = say
        self._cluster: Any = None

    def named(self, word: str, names: Mapping[str, Any]) -> Any:
        """Return the cluster or platform that has this name in the notebook, else the word itself.

        Raises
        ------
        MachineError
            It is the name of a text, and of no machine.
        """
        value = names.get(word.strip()) if word.strip().isidentifier() else None
        if is_own_machine(value):
            return value
        if isinstance(value, str) and not machine_of(word).is_real and not _is_platform(word):
            raise MachineError(f"--on {word}: for what the variable {word} holds, write --on {{{word}}}")
        return word

    def ready(self, on: Any, ranks: int) -> Any:
        """Return the machine itself: for ``cluster`` engines enough for these ranks, started if need be."""
        if isinstance(on, str) and on.strip().lower() == "cluster":
            return self._engines(ranks)
        return on

    def _engines(self, ranks: int) -> Any:
        from labkit.checks import check_ranks
        from labkit.real.engines.cluster import cluster

        check_ranks(ranks)
        if self._cluster is not None and self._cluster.engines >= ranks:
            return self._cluster
        wanted = max(ranks, _FEWEST_ENGINES)
        if self._cluster is not None:
            self._say(f"{self._cluster.engines} engines are too few for {ranks} ranks: starting others")
            self.stop()
        self._say(f"starting a cluster of {wanted} MPI engines; the cells that follow use it too …")
        begin = time.monotonic()
        self._cluster = cluster(wanted, restart=True)
        self._say(f"it is up after {format_seconds(time.monotonic() - begin)} of host time")
        return self._cluster

    def tell_of_restart(self, on: Any) -> None:
        """Say so when engines that were lost or hang are about to be started anew."""
        if hasattr(type(on), "labkit_cluster") and on.needs_restart():
            self._say("the cluster has lost engines, or some hang: starting all of them anew …")

    def stop(self) -> None:
        """End the cluster, if there is one."""
        running, self._cluster = self._cluster, None
        if running is not None:
            running.stop()
