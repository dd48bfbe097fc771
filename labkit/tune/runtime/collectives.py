"""Function sets of the collectives: the library's own, and labkit's algorithms, by their own names.

In simulation an algorithm runs in the engine, as every collective does; on real MPI over mpi4py's messages
from rank to rank. Both take the arguments of mpi4py's method. The first codelet, ``library``, is the method
itself: in simulation what the run's selector chooses, on real MPI what the library does.

Attributes follow from what the registry knows of an algorithm:

rounds
    "few" (not more than twice the logarithm of the ranks) or "many"
volume
    "least" (at most 1.5 times as many bytes as the algorithm that sends the fewest) or "more"
levels
    "flat", or "by nodes" where it tells ranks of a host from others
segment
    "whole", or the longest piece that a message is cut into
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import ceil, log2
from typing import Any

from labkit import registry
from labkit.real.collectives.chosen import Carried, situation_of
from labkit.schedule import PROBLEMS, Problem
from labkit.selector import Situation
from labkit.selector.situation import candidates, without_bytes
from labkit.tune.runtime.codelets import Codelet, FunctionSet, is_simulated
from labkit.units import format_bytes

__all__ = ["LIBRARY", "collective_set"]

#: the codelet that wraps the method itself
LIBRARY = "library"


def collective_set(
    comm: Any, operation: str, algorithms: Sequence[str] | None = None, node: int | None = None
) -> FunctionSet:
    """Return the ways to carry out a collective on buffers."""
    wanted = None if algorithms is None else [str(name) for name in algorithms]
    own = candidates(operation, None if wanted is None else [name for name in wanted if name != LIBRARY])
    ranks = int(comm.Get_size())
    if wanted is None:
        own = [name for name in own if _is_of_use(_algorithm(operation, name), ranks, node)]
        wanted = [LIBRARY, *own]
    problem = PROBLEMS[operation]
    known = _attributes(operation, own, ranks, node)
    codelets = []
    for name in dict.fromkeys(wanted):
        if name == LIBRARY:
            codelets.append(_library(problem))
        else:
            make = _simulated if is_simulated(comm) else _over_messages
            codelets.append(make(problem, name, known[name], ranks, node))
    return FunctionSet(
        operation, codelets, lambda *args, **kwargs: situation_of(problem, ranks, args, kwargs)
    )


def _algorithm(operation: str, name: str) -> registry.Algorithm:
    return registry.get(operation, without_bytes(operation, name))


def _is_of_use(algorithm: registry.Algorithm, ranks: int, node: int | None) -> bool:
    """Whether it supports these ranks and, if it works by nodes, several nodes with several ranks each."""
    by_nodes = "node" in algorithm.parameters
    return not algorithm.requirements.unmet(ranks, True) and (not by_nodes or 1 < (node or ranks) < ranks)


def _unmet(operation: str, name: str) -> Callable[[Hashable], str | None]:
    requirements = _algorithm(operation, name).requirements

    length = _segment_bytes(name)

    def unmet(situation: Hashable) -> str | None:
        assert isinstance(situation, Situation)
        if length and situation.n_bytes <= length:
            return f"has nothing to cut in {format_bytes(situation.n_bytes)}"
        return requirements.unmet(situation.ranks, situation.is_commutative)

    return unmet


def _segment_bytes(name: str) -> int:
    return int(name.partition("segment_bytes=")[2].partition(":")[0] or 0)


def _library(problem: Problem) -> Codelet:
    low = problem.method[0].lower() + problem.method[1:]

    def call(comm: Any, *args: Any, **kwargs: Any) -> None:
        getattr(comm, problem.method)(*args, **kwargs)

    def begin(comm: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(comm, f"I{low}")(*args, **kwargs).Wait

    return Codelet(LIBRARY, call, {}, begin)


def _simulated(
    problem: Problem, name: str, attributes: dict[str, Hashable], ranks: int, node: int | None
) -> Codelet:
    from labkit.comm.collective.native import with_algorithm

    own: dict[int, Any] = {}
    library = _library(problem)

    def forced(comm: Any) -> Any:
        if id(comm) not in own:
            own[id(comm)] = with_algorithm(comm, problem.name, name)
        return own[id(comm)]

    def call(comm: Any, *args: Any, **kwargs: Any) -> None:
        library.call(forced(comm), *args, **kwargs)

    def begin(comm: Any, *args: Any, **kwargs: Any) -> Any:
        return library.started(forced(comm), *args, **kwargs)

    return Codelet(name, call, attributes, begin, _unmet(problem.name, name))


def _over_messages(
    problem: Problem, name: str, attributes: dict[str, Hashable], ranks: int, node: int | None
) -> Codelet:
    carried = Carried(problem, node)

    def call(comm: Any, *args: Any, **kwargs: Any) -> None:
        at = situation_of(problem, ranks, args, kwargs)
        carried.begin(comm, name, at, carried.read(comm, args, kwargs), is_at_once=True)()

    def begin(comm: Any, *args: Any, **kwargs: Any) -> Any:
        at = situation_of(problem, ranks, args, kwargs)
        return carried.begin(comm, name, at, carried.read(comm, args, kwargs))

    return Codelet(name, call, attributes, begin, _unmet(problem.name, name))


def _attributes(
    operation: str, names: Sequence[str], ranks: int, node: int | None
) -> dict[str, dict[str, Hashable]]:
    """Return what is known of each; an attribute that all share is none."""
    found: dict[str, dict[str, Hashable]] = {name: {} for name in names}
    costs = {}
    for name in names:
        algorithm = _algorithm(operation, name)
        if "node" in algorithm.parameters and node is not None and ":node=" not in name:
            algorithm = algorithm.tuned(node=node)
        if algorithm.cost is not None and not algorithm.requirements.unmet(ranks, True):
            costs[name] = algorithm.cost(ranks, 1024.0 * ranks)
        found[name]["levels"] = "by nodes" if "node" in algorithm.parameters else "flat"
        if "segments" in algorithm.parameters:
            length = _segment_bytes(name)
            found[name]["segment"] = format_bytes(length) if length else "whole"
    least = min((cost.volume_bytes for cost in costs.values()), default=0.0)
    for name, cost in costs.items():
        few = 2 * ceil(log2(ranks)) if ranks > 1 else 0
        found[name]["rounds"] = "few" if cost.rounds <= few else "many"
        found[name]["volume"] = "least" if cost.volume_bytes <= 1.5 * least else "more"
    for attribute in ("rounds", "volume", "levels", "segment"):
        if len({one[attribute] for one in found.values() if attribute in one}) < 2:
            for one in found.values():
                one.pop(attribute, None)
    return found
