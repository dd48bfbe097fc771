"""``labkit run``: an unmodified mpi4py script on a simulated machine, or on real MPI."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from labkit.errors import DataError
from labkit.options import add_run_options, check_options, run_keywords
from labkit.result import Run

__all__ = ["configure", "execute", "record"]

_USAGE = "labkit run [-n RANKS] [--on MACHINE] [options] program.py [arguments of the program]"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit run``."""
    parser.usage = _USAGE
    add = parser.add_argument
    add("program", help="the script")
    add("arguments", nargs=argparse.REMAINDER, help="its own arguments: everything behind the script")
    add_run_options(parser, help={"--trace": "write every message to PROGRAM.trace.csv"})
    add("--json", action="store_true", help="print one JSON object and nothing else")


def execute(arguments: argparse.Namespace) -> int:
    """Run the script; what it printed goes to stdout, what labkit has to say to stderr."""
    from labkit.run import machine_of, run

    if arguments.ranks is None and machine_of(arguments.on).size(arguments.on) is None:
        print(f"usage: {_USAGE}\nlabkit run: error: {_no_ranks(arguments)}", file=sys.stderr)
        return 2
    check_options(arguments)
    try:
        result = run(
            arguments.program,
            arguments.ranks,
            arguments.on,
            args=arguments.arguments,
            **run_keywords(arguments),
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


def _no_ranks(arguments: argparse.Namespace) -> str:
    """Say how to give the number of ranks; mpiexec, too, takes its options before the program."""
    own = [word for word in arguments.arguments if word.startswith(("-n", "--ranks"))]
    if not own:
        return "how many ranks? write -n RANKS before the program, or a machine of a size, as in --on star:8"
    return (
        f"{own[0]} stands behind {arguments.program} and so belongs to it; labkit's options stand before the "
        f"program: labkit run -n RANKS [--on MACHINE] {arguments.program}"
    )


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
