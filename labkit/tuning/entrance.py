"""``lk.tune``: a function for off-line tuning, with methods that make requests for tuning at run time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from inspect import Signature, getdoc, signature
from math import ceil, log2
from typing import TYPE_CHECKING, Any

from labkit import registry
from labkit.errors import DataError, UnknownNameError
from labkit.real.collectives.chosen import Carried, situation_of
from labkit.schedule import PROBLEMS, Problem
from labkit.selector import Situation
from labkit.selector.situation import candidates, without_bytes
from labkit.text.units import format_bytes
from labkit.tuning.runtime.codelets import Codelet, FunctionSet, is_simulated
from labkit.tuning.runtime.explanation import Verification, verify
from labkit.tuning.runtime.plan import Monitor, plan_of
from labkit.tuning.runtime.request import Timer, TunedCall

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm, Topocomm

    from labkit.tuning.runtime.plan import TuningPlan
    from labkit.tuning.tuned import Tuned

__all__ = ["Tune", "collective_set"]


# Function sets of the collectives: the library's own, and labkit's algorithms, by their own names.


#: the codelet that wraps the method itself
LIBRARY = "library"


def collective_set(
    comm: Intracomm, operation: str, algorithms: Sequence[str] | None = None, node: int | None = None
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

    def call(comm: Intracomm, *args: object, **kwargs: object) -> None:
        getattr(comm, problem.method)(*args, **kwargs)

    def begin(comm: Intracomm, *args: object, **kwargs: object) -> Any:
        return getattr(comm, f"I{low}")(*args, **kwargs).Wait

    return Codelet(LIBRARY, call, {}, begin)


def _simulated(
    problem: Problem, name: str, attributes: dict[str, Hashable], ranks: int, node: int | None
) -> Codelet:
    from labkit.comm.collective.native import with_algorithm

    own: dict[int, object] = {}
    library = _library(problem)

    def forced(comm: Intracomm) -> Any:
        if id(comm) not in own:
            own[id(comm)] = with_algorithm(comm, problem.name, name)
        return own[id(comm)]

    def call(comm: Intracomm, *args: object, **kwargs: object) -> None:
        library.call(forced(comm), *args, **kwargs)

    def begin(comm: Intracomm, *args: object, **kwargs: object) -> Any:
        return library.started(forced(comm), *args, **kwargs)

    return Codelet(name, call, attributes, begin, _unmet(problem.name, name))


def _over_messages(
    problem: Problem, name: str, attributes: dict[str, Hashable], ranks: int, node: int | None
) -> Codelet:
    carried = Carried(problem, node)

    def call(comm: Intracomm, *args: object, **kwargs: object) -> None:
        at = situation_of(problem, ranks, args, kwargs)
        carried.begin(comm, name, at, carried.read(comm, args, kwargs), is_at_once=True)()

    def begin(comm: Intracomm, *args: object, **kwargs: object) -> Any:
        at = situation_of(problem, ranks, args, kwargs)
        return carried.begin(comm, name, at, carried.read(comm, args, kwargs))

    return Codelet(name, call, attributes, begin, _unmet(problem.name, name))


def _attributes(
    operation: str, names: Sequence[str], ranks: int, node: int | None
) -> dict[str, dict[str, Hashable]]:
    """Return what is known of each, without the attributes that all share."""
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


class Tune:
    """Find the fastest way to communicate: off line by simulation, or at run time inside a program.

    Off line, ``lk.tune("allreduce", "torus:4x4x4", ranks, sizes)`` simulates every algorithm at every point
    and grows a decision tree; see `labkit.tuning.off_line`.

    At run time, on real MPI and simulated alike, a request stands where the call stood::

        with lk.tune.allreduce(comm) as allreduce:
            for _ in range(1000):
                allreduce(send, recv)
            print(allreduce.explain())

    Its first calls try the library's own algorithm and labkit's, then all ranks decide together, and the rest
    takes the fastest. There is such a method for each collective; it takes what mpi4py's method takes.

    Notes
    -----
    What makes requests:

    - ``allreduce(comm, algorithms=None, **plan)``, and so for each collective on buffers;
    - ``neighborhood(comm, *arrays, width=1, send=None, recv=None, forms=None, **plan)``: an exchange with
      neighbors, in 23 forms;
    - ``request(comm, functions, **plan)``: a custom `FunctionSet`;
    - ``timer(comm, *requests, every=1, **plan)``: a region with communication and computation, whose
      requests are tuned together.

    ``verify(program, ranks, on, codelets, runs=3, phase=None, **options)`` runs a program with each codelet
    from beginning to end: which is the fastest indeed, and how sure that is.

    What `plan` may be, the same on all ranks:

    - ``search="brute force"``; ``"halving"``: all a few times, only the fastest in full; ``"attributes"``:
      one attribute after the other, what is left as by halving; both with half of the calls at the most;
    - ``estimator="drop"``, ``"iqr"``, ``"cluster"``, ``"student"``, ``"mean"``, or such as ``Drop(bound=3)``;
    - ``timing="barrier"`` or ``"nobarrier"``;
    - ``measurements=20`` of each codelet, after ``warmup=1`` calls that do not count;
    - ``use="ring"``: preselection of this codelet, without a search;
    - ``history="tuning.sqlite"``: a file of decisions and unfinished searches, for other runs and jobs. What
      is remembered is verified first; ``similar=0.05`` is how much may be lost where decisions for other
      sizes are taken over;
    - ``monitor=True`` or ``Monitor(every=200)``: whether production is watched, and tuned again when it
      changes.
    """

    def __init__(self) -> None:
        self.__name__ = self.__qualname__ = "tune"
        self.Codelet, self.FunctionSet, self.Monitor = Codelet, FunctionSet, Monitor

    @property
    def __signature__(self) -> Signature:
        """The parameters of off-line tuning."""
        return signature(_off_line())

    def __call__(self, *arguments: object, **options: object) -> Tuned:
        """Find the fastest algorithms off line, as `labkit.tuning.off_line.off_line` does."""
        return _off_line()(*arguments, **options)

    def collective(
        self, operation: str, comm: Intracomm, algorithms: Sequence[str] | None = None, **plan: object
    ) -> TunedCall:
        """Make a request for a collective on buffers; ``lk.tune.allreduce(comm)`` is short for it.

        `algorithms`: Such as ``["library", "ring", "pipeline:segment_bytes=8192"]``.
        `**plan`: See `lk.tune`.
        Raises DataError: An option has a value that is not allowed.
        """
        settings = _plan(plan)
        _require_comm(comm)
        return TunedCall(comm, lambda own, node: collective_set(own, operation, algorithms, node), settings)

    def request(self, comm: Intracomm, functions: FunctionSet, **plan: object) -> TunedCall:
        """Make a request for a custom function set.

        `**plan`: See `lk.tune`.
        Raises DataError: An option has a value that is not allowed.
        """
        if not isinstance(functions, FunctionSet):
            raise DataError(
                "a request takes lk.tune.FunctionSet(name, [lk.tune.Codelet(name, call), ...]), "
                f"got {functions!r}",
                code="wrong-type",
            )
        settings = _plan(plan)
        _require_comm(comm)
        return TunedCall(comm, functions, settings)

    def neighborhood(
        self,
        comm: Topocomm,
        *arrays: Any,
        width: int = 1,
        send: Sequence[Any] | None = None,
        recv: Sequence[Any] | None = None,
        forms: Sequence[str] | None = None,
        **plan: object,
    ) -> TunedCall:
        """Make a request for an exchange with neighbors: of halos on a grid, of any regions on a graph.

        A call, ``exchange(array)``, sends the array's regions and fills those that are received; with one
        array ``exchange()`` is enough.

        `*arrays`: Contiguous, halos included, of one shape and type; one-sided forms need to know them
            beforehand.
        `width`: Cells of a halo. On a grid all faces are exchanged, without the corners.
        `send`, `recv`: A region for each outgoing and each incoming edge; needed on graphs.
        `forms`: Of `labkit.tuning.neighbor_exchange.FORMS`; default: all.
        `**plan`: See `lk.tune`.
        Raises DataError: For arrays, regions or options that are not allowed.
        """
        from labkit.tuning.neighbor_exchange import neighborhood_set

        settings = _plan(plan)
        _require_comm(comm)
        return TunedCall(
            comm, lambda own, node: neighborhood_set(own, arrays, width, send, recv, forms), settings
        )

    def timer(self, comm: Intracomm, *requests: TunedCall, every: int = 1, **plan: object) -> Timer:
        """Make a timer for a region that these requests are in.

        `comm`: Of all ranks of the region.
        `every`: Passes between two synchronizations.
        `**plan`: See `lk.tune`, without `timing`.
        Raises DataError: An option has a value that is not allowed.
        """
        if "timing" in plan:
            raise DataError(
                "a timer has its own timing: every=1, or more passes between two barriers",
                code="conflicting-options",
            )
        settings = _plan(plan)
        _require_comm(comm)
        return Timer(comm, requests, every, settings)

    def verify(
        self, program: Callable[..., object], ranks: int, on: object, codelets: Sequence[str], **options: Any
    ) -> Verification:
        """Run a program with each codelet preselected; see `labkit.tuning.runtime.explanation.verify`."""
        return verify(program, ranks, on, codelets, **options)

    def _request_for(self, operation: str) -> Callable[..., TunedCall]:
        def make(comm: Intracomm, algorithms: Sequence[str] | None = None, **plan: object) -> TunedCall:
            return self.collective(operation, comm, algorithms, **plan)

        make.__name__ = operation
        make.__qualname__ = f"tune.{operation}"
        make.__doc__ = _OF_COLLECTIVE.format(operation, plan=_PLAN)
        return make

    def __getattr__(self, name: str) -> Callable[..., TunedCall]:
        if name in PROBLEMS:
            return self._request_for(name)
        if name.startswith("_"):
            raise AttributeError(name)
        own = [word for word in dir(self) if word not in PROBLEMS]
        raise UnknownNameError(
            f"lk.tune has no {name!r}; it has a request for each collective ({', '.join(PROBLEMS)}) and "
            f"{', '.join(own)}"
        )

    def __dir__(self) -> list[str]:
        own = (word for word in [*vars(self), *dir(type(self))] if not word.startswith("_"))
        return [*own, *PROBLEMS]

    def __reduce__(self) -> str | tuple[object, ...]:
        return Tune, ()


_OF_COLLECTIVE = """Make a request for {0}: called as mpi4py's method, it finds the fastest algorithm.

Its first calls try the library's own algorithm and labkit's, then all ranks decide together, and the rest
takes the fastest, on real MPI and simulated alike::

    with lk.tune.{0}(comm) as {0}:
        ...

Parameters
----------
comm : communicator
algorithms : sequence of str, optional
    Default: the library's own and all of labkit's that this communicator can have.
**plan
    See below.

Raises
------
DataError
    For an option or number that is not allowed.

Notes
-----
{plan}"""
#: once: every rank of a program asks for its request
_PLAN = "".join((getdoc(Tune) or "").rpartition("What `plan`")[1:])


def _off_line() -> Callable[..., Tuned]:
    """Return off-line tuning, whose tables and fits a rank of a tuned program does not need."""
    from labkit.tuning.off_line import off_line

    return off_line


def _plan(words: dict[str, Any]) -> TuningPlan:
    known = plan_of.__annotations__.keys() - {"return"}
    unknown = sorted(words.keys() - known)
    if unknown:
        raise DataError(
            f"tuning takes {', '.join(sorted(known))}; got {', '.join(unknown)}", code="unknown-name"
        )
    return plan_of(**words)


def _require_comm(comm: object) -> None:
    if not hasattr(comm, "Allreduce"):
        raise DataError(f"the first argument is the program's communicator, got {comm!r}", code="wrong-type")
