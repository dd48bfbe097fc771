"""Off-line tuning: which algorithm of a collective is the fastest where, on a simulated machine."""

from __future__ import annotations

from collections.abc import Sequence

from labkit.checks import whole_numbers
from labkit.selector.libraries import library_names
from labkit.selector.situation import candidates
from labkit.study.points import is_real
from labkit.study.sweep_points import progress_bar
from labkit.tuning.real_machine import RealMachine
from labkit.tuning.tuned import SimulatedMachine, Tuned, measure_algorithms

__all__ = ["off_line"]

#: numbers of ranks that are tried unless others are asked for, as far as the machine holds them
USUAL_RANKS = (4, 8, 16, 32, 64)


def off_line(
    operation: str,
    on: object = "star",
    ranks: Sequence[int] | int | None = None,
    sizes: Sequence[int] | int = (8, 64, 512, 4096, 32_768, 262_144, 2_097_152),
    *,
    model: object = None,
    mapping: object = None,
    algorithms: Sequence[str] | None = None,
    library: str | None = None,
    leaves: int = 25,
    progress: bool | None = None,
) -> Tuned:
    """Time every algorithm of a collective at every number of ranks and size, and grow a decision tree.

    On a simulated machine all of labkit's algorithms are simulated. On a real one (``on="mpi"``, a cluster)
    the algorithms of the MPI library are measured, each by its switch. `labkit.tuning.real_machine.gain`
    compares the rules with the choice of the library.

    Examples
    --------
    >>> tuned = off_line("bcast", "star:16", [4, 16], [8, 10**6], algorithms=["linear", "binomial"])
    >>> tuned.best["algorithm"].tolist()
    ['binomial', 'linear', 'binomial', 'binomial']
    """
    if is_real(on):
        return _measured(operation, on, ranks, sizes, algorithms, library, leaves, progress)
    machine = SimulatedMachine(on, model, mapping)
    if ranks is None:
        ranks = _held(machine)
    all_ranks, all_sizes, [leaves] = _whole(ranks, sizes, leaves)
    for p in all_ranks:
        machine.platform.rank_hosts(p)  # too small: refused before anything runs
    if library is not None:
        known = library_names(library, operation)
        every = candidates(operation, algorithms)
        if library == "ompi":  # its rules have lengths of segments
            algorithms = [name for name in every if name.partition(":")[0] in known]
        else:
            algorithms = [name for name in known if algorithms is None or name in every]
    names = candidates(operation, algorithms, machine.has_network_for(operation))
    points = [(p, n) for p in all_ranks for n in all_sizes]
    if operation == "barrier":
        points = sorted({(p, 0) for p, _ in points})
    with progress_bar(len(points), progress) as bar:
        times = measure_algorithms(machine, operation, points, names, bar.update)
    return Tuned(operation, machine, times, leaves)


def _whole(ranks: object, sizes: object, leaves: object) -> tuple[list[int], list[int], list[int]]:
    return (
        whole_numbers("ranks", ranks, 1),
        whole_numbers("sizes", sizes, 0),
        whole_numbers("leaves", [leaves], 1),
    )


def _measured(
    operation: str,
    on: object,
    ranks: Sequence[int] | int | None,
    sizes: Sequence[int] | int,
    algorithms: Sequence[str] | None,
    library: str | None,
    leaves: int,
    progress: bool | None,
) -> Tuned:
    """Measure the library's own algorithms on a real machine; two ranks unless others are asked for."""
    machine = RealMachine(on, library or "ompi")
    sizes = [0] if operation == "barrier" else sizes
    all_ranks, all_sizes, [leaves] = _whole([2] if ranks is None else ranks, sizes, leaves)
    times = machine.measure(operation, all_ranks, all_sizes, algorithms, progress)
    return Tuned(operation, machine, times, leaves)


def _held(machine: SimulatedMachine) -> list[int]:
    """Return the usual numbers of ranks that a machine holds; the least of all where it holds none."""
    most = machine.platform.capacity
    held = [p for p in USUAL_RANKS if most is None or p <= most]
    return held or [USUAL_RANKS[0]]  # which is refused with the machine's size
