"""The engines of a caller's cluster that hold the first MPI ranks."""

from __future__ import annotations

import contextlib
import operator
import platform
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labkit import __version__
from labkit.errors import MachineError

__all__ = [
    "START_HINT",
    "EngineRank",
    "Memory",
    "Target",
    "call",
    "choose",
    "find_target",
    "is_cluster",
    "memory_of",
]

START_HINT = "start MPI engines with labkit.cluster(4), or with ipyparallel.Cluster(engines='mpi', n=4)"

#: how long an idle engine may take to answer
ANSWER_S = 20.0

# A text that needs nothing of labkit: it has to say something even where labkit is missing.
_PROBE = """
import os, sys, platform
found = {"python": platform.python_version(), "host": platform.node(), "pid": os.getpid()}
launched = any(v in os.environ for v in ("OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK"))
try:
    if launched or "mpi4py.MPI" in sys.modules:
        from mpi4py import MPI
        found.update(rank=MPI.COMM_WORLD.rank, size=MPI.COMM_WORLD.size)
except Exception as error:
    found["mpi_error"] = f"{type(error).__name__}: {error}"
try:
    import labkit
    found["labkit"] = labkit.__version__
    if found.get("size") and found["labkit"] == wanted:
        from labkit.real.engines.engine import describe_engine
        found.update(describe_engine())
except Exception as error:
    found["labkit_error"] = f"{type(error).__name__}: {error}"
"""


@dataclass(frozen=True)
class EngineRank:
    """Where a rank lives: its engine's id, and what the engine said about itself."""

    rank: int
    engine: int
    about: Mapping[str, Any]


@dataclass
class Memory:
    """What has to be remembered of a client from run to run."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    #: the token of the ranks' communicator, by their number
    bases: dict[int, str] = field(default_factory=dict)
    #: clean runs whose communicators can be freed, oldest first, by the number of ranks
    clean: dict[int, list[str]] = field(default_factory=dict)
    #: the ranks that could not be stopped, with what they still owe
    stuck: dict[int, Any] = field(default_factory=dict)

    def stuck_ranks(self) -> list[int]:
        """List the ranks that hang in an earlier run."""
        return [rank for rank, reply in sorted(self.stuck.items()) if not reply.ready()]


_memories: weakref.WeakKeyDictionary[Any, Memory] = weakref.WeakKeyDictionary()
#: the client of each cluster, and the launchers whose engines it knows
_clients: weakref.WeakKeyDictionary[Any, tuple[Any, list[Any]]] = weakref.WeakKeyDictionary()
_guard = threading.Lock()


@dataclass
class Target:
    """A client, the engines that may be used, and how to start them again."""

    client: Any
    engines: list[int]
    restart_hint: str

    @property
    def memory(self) -> Memory:
        """Return what is remembered of this client."""
        return memory_of(self.client)

    def launcher_files(self) -> list[str]:
        """List the files that hold what the launchers of the engines printed."""
        sets = getattr(getattr(self.client, "cluster", None), "engines", None) or {}
        return [path for one in sets.values() if (path := getattr(one, "output_file", ""))]

    def ask(self, wait_s: float) -> dict[int, dict[str, Any]]:
        """Let every engine describe itself.

        Raises MachineError: An engine does not answer.
        """
        expression = (
            f"(lambda space: (exec({_PROBE!r}, space), space['found'])[1])({{'wanted': {__version__!r}}})"
        )
        asked = {engine: self.client[engine].apply_async(eval, expression) for engine in self.engines}
        deadline = time.monotonic() + wait_s
        for one in asked.values():
            one.wait(max(0.0, deadline - time.monotonic()))
        silent = [engine for engine, one in asked.items() if not one.ready()]
        if silent:
            raise MachineError(
                f"{_engines(silent)} did not answer within {wait_s:g} s: busy with other work, or stuck in a "
                f"call that cannot be interrupted; wait for it, or {self.restart_hint}",
                code="time-limit",
            )
        try:
            found = {engine: one.get() for engine, one in asked.items()}
            self.client.purge_local_results(list(asked.values()))
            return found
        except Exception as error:
            raise MachineError(
                f"an engine of the cluster failed before the run began ({type(error).__name__}: "
                f"{' '.join(str(error).split())[:300]}); {self.restart_hint}"
            ) from error


def memory_of(client: object) -> Memory:
    """Return what is remembered of a client."""
    with _guard:
        return _memories.setdefault(client, Memory())


def is_cluster(on: object) -> bool:
    """Whether `on` is a cluster of engines; ipyparallel is not imported to find out."""
    names = {base.__module__.partition(".")[0] for base in type(on).__mro__}
    return "ipyparallel" in names or hasattr(type(on), "labkit_cluster")


def find_target(on: Any) -> Target:
    """Find the engines of a cluster, a client or a direct view."""
    import ipyparallel

    hint = "restart its engines (cluster.restart_engines_sync(), then a new client)"
    if hasattr(type(on), "labkit_cluster"):
        on, hint = on.ready_client(), on.restart_hint
    if isinstance(on, ipyparallel.Cluster):
        on = _client_of(on)
    if isinstance(on, ipyparallel.DirectView):
        targets = on.targets
        known = on.client.ids
        chosen = known if targets == "all" else [targets] if isinstance(targets, int) else list(targets)
        on = on.client
        gone = sorted(set(chosen) - set(known))
        if gone:
            raise MachineError(f"{_engines(gone)} of this view no longer exist; make a new view, or {hint}")
    elif isinstance(on, ipyparallel.Client):
        chosen = on.ids
    else:
        raise MachineError(
            f"on= takes a Cluster, a Client or a DirectView of ipyparallel, got a {type(on).__name__}; a "
            "program's ranks need their own engines, so no load-balanced view",
            code="wrong-type",
        )
    if not chosen:
        raise MachineError(
            f"the cluster has no engines (any more); {hint}, or {START_HINT}", code="not-started"
        )
    return Target(on, sorted(chosen), hint)


def _client_of(cluster: Any) -> object:
    """Return a client of a cluster, the same one in every run."""
    if cluster.controller is None or not cluster.engines:
        raise MachineError(
            "this ipyparallel.Cluster is not running; call its start_cluster_sync() first", code="not-started"
        )
    with _guard:
        client, launchers = _clients.get(cluster, (None, []))
        now = list(cluster.engines.values())
        # Engines that were started again need a client that came after them.
        is_same = len(now) == len(launchers) and all(map(operator.is_, now, launchers))
        if client is not None and not is_same:
            client.close()
        if client is None or not is_same or client._closed:
            client = cluster.connect_client_sync()
            _clients[cluster] = client, now
            wanted = sum(one.n for one in now if one.state == "running")
            with contextlib.suppress(Exception):  # too few of them are refused with a better sentence
                client.wait_for_engines(wanted, timeout=cluster.engine_timeout, interactive=False)
        return client


def choose(
    found: Mapping[int, Mapping[str, Any]], ranks: int, version: str = __version__
) -> list[EngineRank]:
    """Choose the engines of the first ranks."""
    _check_mpi(found)
    if ranks > len(found):
        raise MachineError(
            f"{ranks} ranks were asked for, and the cluster has {len(found)} engines; ask for fewer ranks, "
            f"or start a cluster with as many engines: labkit.cluster({ranks})",
            code="too-many-ranks",
        )
    by_rank = {int(about["rank"]): engine for engine, about in found.items()}
    missing = [rank for rank in range(ranks) if rank not in by_rank]
    if missing or len(by_rank) < len(found):
        what = f"rank {missing[0]} of the engines' world is missing" if missing else "some share their rank"
        raise MachineError(
            f"these engines do not hold the first {ranks} ranks of one MPI world ({what}); give a cluster "
            "whose engines one mpiexec has started, or a view of the engines of its first ranks"
        )
    places = [EngineRank(rank, by_rank[rank], found[by_rank[rank]]) for rank in range(ranks)]
    _check_software(places, version)
    return places


def _check_mpi(found: Mapping[int, Mapping[str, object]]) -> None:
    broken = {engine: about["mpi_error"] for engine, about in found.items() if "mpi_error" in about}
    if broken:
        engine, reason = next(iter(broken.items()))
        raise MachineError(
            f"mpi4py cannot be used on engine {engine}: {reason}; install it there", code="not-started"
        )
    alone = [engine for engine, about in found.items() if about.get("size") is None]
    if not alone and len(found) > 1:
        alone = [engine for engine, about in found.items() if about["size"] == 1]
    if alone:
        raise MachineError(
            f"{_engines(alone)} run without MPI, each on its own; {START_HINT}", code="unsupported"
        )


def _check_software(places: list[EngineRank], version: str) -> None:
    mine = platform.python_version_tuple()[:2]
    for place in places:
        where = f"engine {place.engine} on {place.about['host']}"
        theirs = str(place.about["python"])
        if tuple(theirs.split(".")[:2]) != mine:
            raise MachineError(
                f"{where} runs Python {theirs} and this process {platform.python_version()}: a program "
                "cannot travel between them; use the same Python on both sides",
                code="version-mismatch",
            )
        if "labkit" not in place.about:
            reason = place.about.get("labkit_error", "not installed")
            raise MachineError(
                f"labkit cannot be used on {where} ({reason}); install labkit {version} in its Python",
                code="not-started",
            )
        if place.about["labkit"] != version:
            raise MachineError(
                f"{where} has labkit {place.about['labkit']} and this process {version}; install the same "
                "version on both sides, then restart the engines",
                code="version-mismatch",
            )
        if "labkit_error" in place.about:
            raise MachineError(f"labkit fails on {where}: {place.about['labkit_error']}")


def _engines(ids: list[int]) -> str:
    shown = ", ".join(map(str, ids[:8])) + (", ..." if len(ids) > 8 else "")
    return f"engine {shown}" if len(ids) == 1 else f"engines {shown}"


def call(header: dict[str, Any], payload: bytes) -> dict[str, object]:
    """Run this engine's part of a run: the function that is sent to engines, by its name."""
    from labkit.real.engines.engine import execute

    return execute(header, payload)
