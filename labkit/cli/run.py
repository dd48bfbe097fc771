"""``labkit run``: an unmodified mpi4py script on a simulated machine, or on real MPI."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from labkit.errors import DataError, MachineError, ProgramError
from labkit.run.result import Run

__all__ = ["collectives_of", "configure", "execute", "limit_of", "model_of", "record", "tolerance_of"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit run``."""
    parser.usage = "labkit run -n RANKS [--on MACHINE] [options] program.py [arguments of the program]"
    add = parser.add_argument
    add("program", help="the script")
    add("arguments", nargs=argparse.REMAINDER, help="its own arguments: everything behind the script")
    add("-n", "--ranks", type=int, required=True, metavar="RANKS", help="number of ranks")
    add("--on", default="star", metavar="MACHINE",
        help="mpi, or a platform such as star:64 (default: star, with a host for each rank)")  # fmt: skip
    add("--model", metavar="NAME",
        help="network model: lab (default), smpi, lv08, cm02, ib, raw, loggps, or a .toml file; changes "
        "behind commas, as in smpi,detached_below_bytes=0")  # fmt: skip
    add("--no-crosstraffic", action="store_true", help="acknowledgements load no link")
    add("--coll", action="append", default=[], metavar="PROBLEM=NAME",
        help="algorithm of a collective, as in allreduce=ring; may be given again")  # fmt: skip
    add("--mapping", metavar="HOW",
        help="hosts of the ranks: block, cyclic, random:SEED, or a file, a host a line")  # fmt: skip
    add(
        "--timeout",
        default="60",
        metavar="SECONDS",
        help="limit of host time (default 60; none for no limit)",
    )
    add("--seed", type=int, default=0, help="seeds random and numpy.random of each rank (default 0)")
    add("--tolerance", default="0", metavar="T",
        help="a link's capacity may be off by this share where many messages share it, as in 1e-3; for huge "
        "simulations (default 0: exact)")  # fmt: skip
    add("--calibration", metavar="NAME",
        help="what node-local work costs: a shipped calibration, or a .toml file "
        "(default: default)")  # fmt: skip
    add("--noise", metavar="TEXT",
        help="seeded noise, as in jitter=50us,period=1ms,stragglers=1,slowdown=2,links=5%%,"
        "bandwidth=0.1")  # fmt: skip
    add("--compute", default="charged", metavar="HOW",
        help="charged (default): code takes the time it charges; measured or measured:FACTOR: this "
        "host's CPU time")  # fmt: skip
    add("--trace", action="store_true", help="write every message to PROGRAM.trace.csv")
    add("--explain", action="store_true",
        help="say what the run's time went into: its critical path, and the links that held it")  # fmt: skip
    add("--trace-ti", metavar="FILE",
        help="record a time-independent trace for labkit replay: a file (.gz packs it), or a folder/ with a "
        "file a rank")  # fmt: skip
    add("--mpi", metavar="WHICH", help="with --on mpi: bundled, system, or the path of an mpiexec")
    add("--json", action="store_true", help="print one JSON object and nothing else")


def execute(arguments: argparse.Namespace) -> int:
    """Run the script; what it printed goes to stdout, what labkit has to say to stderr."""
    from labkit.run.front import run

    if arguments.mpi and arguments.on.strip().lower() != "mpi":
        raise MachineError(f"--mpi belongs to --on mpi, and this run is --on {arguments.on}; leave it out")
    if arguments.explain and arguments.on.strip().lower() == "mpi":
        raise MachineError("--explain needs a simulated machine; give --on a platform such as star:64")
    try:
        result = run(
            arguments.program,
            arguments.ranks,
            arguments.on,
            args=arguments.arguments,
            model=model_of(arguments),
            coll=collectives_of(arguments.coll),
            mapping=arguments.mapping,
            timeout_s=limit_of(arguments.timeout),
            seed=arguments.seed,
            trace=arguments.trace or arguments.explain,
            tolerance=tolerance_of(arguments.tolerance),
            calibration=arguments.calibration,
            trace_ti=arguments.trace_ti,
            noise=arguments.noise,
            compute=arguments.compute,
            **({"mpi": arguments.mpi} if arguments.mpi else {}),
        )
    except Exception as error:
        if not arguments.json:  # what the ranks had printed belongs before the report
            print("".join(getattr(error, "output", ())), end="")
            sys.stdout.flush()
        raise
    path = _save_trace(result) if arguments.trace else None
    explanation = result.explain() if arguments.explain else None
    if arguments.json:
        explained = {"explanation": explanation.record()} if explanation else {}
        print(json.dumps(record(result) | {"trace": path} | explained))
        return 0
    print(result.printed(), end="")
    sys.stdout.flush()
    print(f"labkit run: {result!r}" + (f"\n  trace in {path}" if path else ""), file=sys.stderr)
    if explanation:
        print(f"labkit run: {explanation!r}", file=sys.stderr)
    return 0


def _save_trace(run: Run) -> str | None:
    """Write the messages beside where the command was called, as CSV; None where the machine records none."""
    if run.trace is None:
        return None
    path = Path(f"{Path(run.program).stem}.trace.csv")
    try:
        run.trace.messages.to_csv(path, index=False)
    except OSError as error:
        raise DataError(f"the trace cannot be written to {str(path)!r}: {error}") from error
    return str(path)


def record(run: Run) -> dict[str, Any]:
    """Return what ``--json`` prints: plain data only, None for what the machine does not measure."""
    return {
        "program": run.program,
        "ranks": run.ranks,
        "on": run.on,
        "model": run.model,
        "tolerance": run.tolerance.record() if run.tolerance is not None else None,
        "makespan_s": run.makespan_s if math.isfinite(run.makespan_s) else None,
        "messages": run.messages,
        "bytes": run.bytes,
        "host_seconds": run.host_seconds,
        "phases": [
            {"phase": name, "entries": entries, "max_s": largest, "mean_s": mean, "imbalance": imbalance}
            for name, entries, largest, mean, imbalance in run.phase_rows()
        ],
        "output": run.output,
        "notes": run.notes,
        "is_valid": run.is_valid,
        "machine": {key: value for key, value in run.machine.items() if _is_plain(value)},
        "exit": 0,
    }


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def collectives_of(words: list[str]) -> dict[str, str] | None:
    """Read the values of ``--coll``."""
    chosen = {}
    for word in words:
        problem, sign, name = word.partition("=")
        if not (problem and sign and name):
            raise ProgramError(f"--coll takes PROBLEM=NAME, as in allreduce=ring; got {word!r}")
        chosen[problem] = name
    return chosen or None


def limit_of(word: str) -> float | None:
    """Read the value of ``--timeout``."""
    if word.strip().lower() == "none":
        return None
    try:
        return float(word)
    except ValueError:
        raise MachineError(f"--timeout takes a number of seconds or none, got {word!r}") from None


def tolerance_of(word: str) -> float:
    """Read the value of ``--tolerance``."""
    try:
        return float(word)
    except ValueError:
        raise MachineError(f"--tolerance takes a number, as in 1e-3, got {word!r}") from None


def model_of(arguments: argparse.Namespace) -> Any:
    """Return the model to use: its name, or the changed model without cross-traffic."""
    if not arguments.no_crosstraffic:
        return arguments.model
    if arguments.on.strip().lower() == "mpi":
        raise MachineError("--no-crosstraffic belongs to simulated machines, not to --on mpi")
    from labkit.sim import models, platform

    name = arguments.model or platform(arguments.on).description.model
    return models.get(name, cross_traffic=False)
