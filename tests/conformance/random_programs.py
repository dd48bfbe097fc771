"""Random programs of windows, datatypes and files, simulated and on real MPI: do they leave the same bytes?

    python -m tests.conformance.random_programs                 1000 programs on 1, 2, 3 and 4 ranks
    python -m tests.conformance.random_programs 200 --seed 7 --ranks 5
    python -m tests.conformance.random_programs --show 4711 --ranks 3     what one of them leaves, on both

Program number S is drawn from S alone; those of a launch run one after the other. Where a launch fails, its
programs are run by halves until the one that fails is found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import labkit as lk
from labkit.errors import LabkitError
from tests.support.window_programs import digests, logs

__all__ = ["differing", "main"]

#: programs in a launch
_MANY = 125


def _run(program: Callable[..., Any], ranks: int, on: str, first: int, count: int) -> list[Any]:
    """Return what the programs leave: for each, the ranks' results."""
    with tempfile.TemporaryDirectory() as folder:
        run = lk.run(program, ranks, on, args=(first, count, folder), timeout_s=60 + 5 * count)
    return list(zip(*run.results, strict=True))


def _outcomes(ranks: int, on: str, first: int, count: int) -> list[Any]:
    """Do as `_run`; of a program that fails, how."""
    try:
        return _run(digests, ranks, on, first, count)
    except LabkitError as error:
        if count == 1:
            return [f"{type(error).__name__}: {error}".splitlines()[0]]
    half = count // 2
    return _outcomes(ranks, on, first, half) + _outcomes(ranks, on, first + half, count - half)


def _machines(ranks: int) -> tuple[str, str]:
    return f"star:1,cores={ranks}", "mpi"


def differing(ranks: int, first: int, count: int) -> Iterator[tuple[int, Any, Any]]:
    """Yield the programs that do not leave the same on both machines: number, what simulated, what really."""
    for begin in range(first, first + count, _MANY):
        many = min(_MANY, first + count - begin)
        pairs = zip(*(_outcomes(ranks, on, begin, many) for on in _machines(ranks)), strict=True)
        for number, (simulated, real) in enumerate(pairs, begin):
            if simulated != real:
                yield number, simulated, real


def _show(ranks: int, number: int) -> None:
    simulated, real = (_run(logs, ranks, on, number, 1)[0] for on in _machines(ranks))
    for rank, (mine, theirs) in enumerate(zip(simulated, real, strict=True)):
        for step, (one, other) in enumerate(zip(mine, theirs, strict=False)):
            print(f"rank {rank}, step {step}: {'same' if one == other else 'DIFFERS'}")
            print(f"  simulated  {one}\n  real       {other}")


def main() -> int:
    """Run what is asked for; 1 if anything differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", type=int, nargs="?", default=1000, help="in all (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="the first one's number (default: 0)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--show", type=int, metavar="NUMBER", help="only this one, on the first of the ranks")
    given = parser.parse_args()
    if given.show is not None:
        _show(given.ranks[0], given.show)
        return 0
    found, first = 0, given.seed
    for place, ranks in enumerate(given.ranks):
        count = given.programs // len(given.ranks) + (place < given.programs % len(given.ranks))
        for number, simulated, real in differing(ranks, first, count):
            found += 1
            print(f"DIFFERS: program {number} on {ranks} ranks: simulated {simulated}, real {real}")
            print(f"  python -m tests.conformance.random_programs --show {number} --ranks {ranks}")
        print(f"{ranks} ranks: programs {first} to {first + count - 1} run", flush=True)
        first += count
    print(f"{given.programs} programs, {found} leave other bytes than on real MPI")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
