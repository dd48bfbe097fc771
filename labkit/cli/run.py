"""``labkit run``: an unmodified mpi4py script on a simulated machine, or on real MPI."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from labkit.errors import DataError, ProgramError, RunInterrupted
from labkit.launch.options import add_run_options, check_options, run_keywords
from labkit.process.folders import private_folder
from labkit.process.tree import THREADS
from labkit.request import Machine
from labkit.result import Run
from labkit.sim.script_words import COMMAND, PythonLine, module_file, python_line, without_runner

__all__ = ["add_export", "check_targets", "configure", "execute", "record", "write_exports"]


_HELP = {
    "--trace": "write every message to PROGRAM.trace.csv",
    "--summary": "write time, calls and messages by call path to PROGRAM.profile.csv; no events are stored",
}
_USAGE = "labkit run [-n RANKS] [--on MACHINE] [options] (program.py | -m MODULE | -c CODE) [arguments]"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit run``."""
    parser.usage = _USAGE
    add = parser.add_argument
    add("program", nargs="?", help="the script, or a folder with a __main__.py")
    add("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    rest = argparse.REMAINDER
    add("-m", nargs=rest, dest="module", metavar="MODULE", help="run a module, as python -m does")
    add("-c", nargs=rest, dest="command_text", metavar="CODE", help="run CODE, as python -c does")
    add_run_options(parser, help=_HELP)
    add_export(parser)
    add("--json", action="store_true", help="print one JSON object and nothing else")


def _one_thread_each() -> list[str]:
    """Let ranks have one thread of linear algebra each, before NumPy starts; the variables set here."""
    added = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    return added


def execute(arguments: argparse.Namespace) -> int:
    """Run the script; what it printed goes to stdout, what labkit has to say to stderr."""
    added = _one_thread_each()
    from labkit.launch.run import machine_of, run

    machine = machine_of(arguments.on)
    for name in added if machine.is_real else ():  # real ranks have settings of their own
        del os.environ[name]
    try:
        line = _line(arguments)
    except ProgramError as error:
        which = f"; --mpi took {arguments.mpi!r}, real MPI is --on mpi" if arguments.mpi else ""
        print(f"usage: {_USAGE}\nlabkit run: error: {error}{which}", file=sys.stderr)
        return 2
    if arguments.ranks is None and machine.size(arguments.on) is None:
        print(f"usage: {_USAGE}\nlabkit run: error: {_no_ranks(line)}", file=sys.stderr)
        return 2
    check_options(arguments)
    is_exported = check_targets(arguments)
    try:
        with contextlib.ExitStack() as stack:
            line = line if machine.is_real else without_runner(line)
            program, options = _program(line, machine, stack)
            options |= run_keywords(arguments)
            if "stream" in machine.options and not (arguments.json or arguments.explore):
                sys.stdout.flush()
                options["stream"] = True
            options["trace"] = options["trace"] or is_exported
            result = run(program, arguments.ranks, arguments.on, args=line.args, **options)
    except (Exception, RunInterrupted) as error:
        if not arguments.json:  # what the ranks had printed belongs before the report
            print("".join(getattr(error, "output", ())), end="")
            sys.stdout.flush()
        raise
    path = _save_trace(result) if arguments.trace else None
    profile = _save_profile(result) if arguments.summary or arguments.counters else None
    exported = write_exports(arguments, result)
    explanation = result.explain() if arguments.explain else None
    if arguments.json:
        extra = {"exported": exported} if exported else {}
        explained = {"explanation": explanation.record()} if explanation else {}
        summed = {"profile": profile} if profile else {}
        print(json.dumps(record(result) | {"trace": path} | summed | extra | explained))
        return 0
    print(result.printed(), end="")
    sys.stdout.flush()
    written = [f"\n  trace in {file}" for file in (*([path] if path else []), *exported)]
    written += [f"\n  profile in {profile}"] if profile else []
    print(f"labkit run: {result!r}{''.join(written)}", file=sys.stderr)
    if explanation:
        print(f"labkit run: {explanation!r}", file=sys.stderr)
    return 0


def _line(arguments: argparse.Namespace) -> PythonLine:
    """Read what is to be run: everything behind labkit's own options."""
    if arguments.module is not None:
        words = ["-m", *arguments.module]
    elif arguments.command_text is not None:
        words = ["-c", *arguments.command_text]
    else:
        words = [word for word in (arguments.program,) if word is not None] + arguments.arguments
    return python_line(words)


def _program(
    line: PythonLine, machine: Machine, stack: contextlib.ExitStack
) -> tuple[str | Path, dict[str, Any]]:
    """Return the file to run, and the options of the machine that say how it starts and what it reads."""
    start: dict[str, object] = {"module": line.module} if line.module else {}
    start |= ({"rc": dict(line.rc)} if line.rc else {}) | ({"pool": True} if line.is_pool else {})
    options: dict[str, object] = {"start": start} if start else {}
    if "stdin" in machine.options and sys.stdin is not None:
        with contextlib.suppress(OSError, ValueError):  # closed, or no file at all
            options["stdin"] = sys.stdin.fileno()
    if line.module == COMMAND:
        folder = stack.enter_context(private_folder())
        (folder / "command.py").write_text(line.program, encoding="utf-8")
        return folder / "command.py", options
    if line.module:
        return module_file(line.module, [os.getcwd(), *sys.path[1:]]), options
    return line.program, options


def _no_ranks(line: PythonLine) -> str:
    """Describe how to give the number of ranks; mpiexec, too, takes its options before the program."""
    own = [word for word in line.args if word.startswith(("-n", "--ranks"))]
    if not own:
        return (
            "the number of ranks is missing: write -n RANKS before the program, or a machine of fixed size, "
            "such as --on star:8"
        )
    name = f"-m {line.module}" if line.module and line.module != COMMAND else line.program
    return (
        f"{own[0]} comes after {name}, so it is an argument of {name}; write labkit's options before the "
        f"program: labkit run -n RANKS [--on MACHINE] {name}"
    )


def _save_trace(run: Run) -> str | None:
    """Write the messages as CSV into the working folder; None if the machine records none."""
    if run.trace is None:
        return None
    return _as_csv(run, "trace", run.trace.messages)


def _save_profile(run: Run) -> str:
    """Write the sums by call path there; of a traced run, its report."""
    return _as_csv(run, "profile", run.profile())


def _as_csv(run: Run, what: str, table: Any) -> str:
    path = Path(f"{Path(run.program).stem}.{what}.csv")
    try:
        table.to_csv(path, index=False)
    except OSError as error:
        raise DataError(
            f"the {what} cannot be written to {str(path)!r}: {error}", code="unwritable-file"
        ) from error
    return str(path)


def record(run: Run) -> dict[str, object]:
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


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


# ``--export``: a run in the formats of other tools, of ``labkit run`` and ``labkit replay``.


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--export",
        action="append",
        default=[],
        metavar="FILE",
        help="export the run for another tool, selected by the suffix: .json (Perfetto), .paje, "
        ".prv (Paraver), .cubex (Cube), .otf2, .csv (Pipit); repeatable",
    )


def check_targets(arguments: argparse.Namespace) -> bool:
    """Refuse, before the run, what cannot be written; return whether anything is wanted."""
    if not arguments.export:
        return False
    from labkit.trace.exchange import check_export

    for path in arguments.export:
        check_export(path)
    if len({*arguments.export}) < len(arguments.export):
        raise DataError("--export names a file twice", code="duplicate-name")
    return True


def write_exports(arguments: argparse.Namespace, run: Run) -> list[str]:
    """Write all; return the files."""
    return [str(file) for path in arguments.export for file in run.export(path)]
