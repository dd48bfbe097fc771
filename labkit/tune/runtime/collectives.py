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
from labkit.comm.collective.forced import with_algorithm
from labkit.errors import DataError
from labkit.schedule import PROBLEMS, Problem
from labkit.schedule.execute import Prepared
from labkit.selector import Situation
from labkit.selector.settled import settled, without_bytes
from labkit.tune.campaign import candidates
from labkit.tune.runtime.codelets import Codelet, FunctionSet
from labkit.tune.runtime.messages import Message, read_call
from labkit.tune.runtime.world import is_simulated
from labkit.units import format_bytes

__all__ = ["LIBRARY", "collective_set"]

#: the codelet that wraps the method itself
LIBRARY = "library"
#: a tag that only the private communicators of codelets see
_TAG = 11


def collective_set(
    comm: Any, operation: str, algorithms: Sequence[str] | None = None, node: int | None = None
) -> FunctionSet:
    """Return the ways to carry out a collective on buffers.

    Parameters
    ----------
    comm : communicator
    operation : str
        Such as ``"allreduce"``.
    algorithms : sequence of str, optional
        Such as ``["library", "ring", "pipeline:segment_bytes=8192"]``; default: the library's, and all of the
        registry that take so many ranks.
    node : int, optional
        How many consecutive ranks share a host.

    Raises
    ------
    DataError
        For an operation or algorithm that is not known.
    """
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
    return FunctionSet(operation, codelets, lambda *args, **kwargs: _situation(problem, ranks, args, kwargs))


def _algorithm(operation: str, name: str) -> registry.Algorithm:
    return registry.get(operation, without_bytes(operation, name))


def _is_of_use(algorithm: registry.Algorithm, ranks: int, node: int | None) -> bool:
    """Whether it takes so many ranks; one by nodes, whether there are several, with several ranks each."""
    by_nodes = "node" in algorithm.parameters
    return not algorithm.requirements.unmet(ranks, True) and (not by_nodes or 1 < (node or ranks) < ranks)


def _situation(problem: Problem, ranks: int, args: Any, kwargs: Any) -> Hashable:
    """Return bytes (0 where ranks may differ in them), and whether the operator commutes."""
    given = dict(zip(problem.arguments, args, strict=False)) | kwargs
    unknown = [name for name in given if name not in problem.arguments] or args[len(problem.arguments) :]
    if unknown:
        raise DataError(f"{problem.method} takes {', '.join(problem.arguments)}; got {unknown[0]!r} besides")
    op = given.get("op")
    commutes = True if op is None or not problem.is_reduction else bool(op.Is_commutative())
    if problem.layout == "table" or not problem.shapes:
        return Situation(problem.name, ranks, 0, commutes)
    n_bytes = 0
    for buffer, argument in zip(problem.shapes, problem.arguments, strict=False):
        size = Message.bytes_of(given.get(argument))
        if size is not None:
            n_bytes = size // (ranks if problem.shapes[buffer] == "all" else 1)
            break
    return Situation(problem.name, ranks, n_bytes, commutes)


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
    prepared: dict[Any, Prepared] = {}

    def bound(comm: Any, args: Any, kwargs: Any) -> tuple[Prepared, dict[str, Any], Callable[[], None]]:
        at = _situation(problem, ranks, args, kwargs)
        assert isinstance(at, Situation)
        message = read_call(comm, problem, args, kwargs)
        settled_name = settled(at, name, node)
        key = (settled_name, message.root, at.is_commutative)
        if key not in prepared:
            schedule = registry.get(problem.name, settled_name).build(ranks, message.root, at.is_commutative)
            prepared[key] = Prepared(comm, schedule, _TAG)
        return prepared[key], message.run_arguments(), message.restore

    def call(comm: Any, *args: Any, **kwargs: Any) -> None:
        run, given, restore = bound(comm, args, kwargs)
        run(**given)
        restore()

    def begin(comm: Any, *args: Any, **kwargs: Any) -> Any:
        run, given, restore = bound(comm, args, kwargs)
        finish = run.begin(**given)

        def wait() -> None:
            finish()
            restore()

        return wait

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
