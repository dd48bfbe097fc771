"""Choose the command, run it, and turn what it raises into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import re
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from labkit.errors import (
    DeadlockError,
    ExpectationError,
    LabkitError,
    PlatformError,
    RankError,
    TimeLimitError,
    code_of,
    nearest,
)
from labkit.text.rank_output import clean

__all__ = ["COMMANDS", "EXIT_CODES", "exit_code", "main"]

#: what is typed for a command or an option that has another name
_INSTEAD = {
    **dict.fromkeys(("mpirun", "mpiexec", "srun", "simulate", "exec", "start"), "labkit run -n 4 program.py"),
    **dict.fromkeys(("notebook", "notebooks", "jupyter", "course"), "labkit lab"),
    **dict.fromkeys(("trace", "gantt"), "labkit run -n 4 --trace program.py"),
    **dict.fromkeys(("explain", "profile"), "labkit run -n 4 --explain program.py"),
    **dict.fromkeys(("sweep", "scaling"), "labkit study FILE, or labkit.sweep(program, [2, 4, 8]) in Python"),
    **dict.fromkeys(("machines", "platforms", "topologies"), "labkit.explore.topology() in a notebook"),
    **dict.fromkeys(("algorithms", "collectives"), "labkit tune bcast"),
    **dict.fromkeys(("check", "test", "info"), "labkit doctor"),
    **dict.fromkeys(("assignments", "assignment"), "labkit grade --help"),
    "version": "labkit --version",
    "help": "labkit --help, or labkit run --help",
    **dict.fromkeys(("--machine", "--platform", "--topology", "--network"), "--on"),
    **dict.fromkeys(("--size", "--procs", "--nprocs"), "-n"),
}

#: options are short: JupyterLab's --port is not --work
_LIKE = 0.75

#: the commands, each a module of this package
COMMANDS = {
    "run": "run an mpi4py script on a simulated machine, on real MPI, or as a batch job",
    "replay": "replay a time-independent trace on a simulated machine",
    "judge": "fit measurements and judge them against an expectation",
    "guidelines": "check performance guidelines of collectives",
    "tune": "find the fastest algorithms of a collective; write rules for labkit and MPI libraries",
    "lint": "check measurements against the twelve rules for reporting performance",
    "study": "run the missing points of a declared study; judge and report it",
    "reproduce": "compute published tables again and compare them cell by cell",
    "verify": "check a bundle's hashes, and run its simulated part again",
    "calibrate": "measure a real network and write it as a platform",
    "grade": "grade a folder of submissions, each in a sandbox",
    "slurm": "list, collect and cancel batch jobs",
    "demo": "sort real data on both machines, fit, judge, draw demo.html",
    "lab": "open JupyterLab on the course",
    "report": "write a notebook as one HTML or PDF file",
    "doctor": "check what works here, and how to fix what does not",
}

EXIT_CODES = """\
exit codes:
  0    it worked (judge: the expectation is met)
  1    the program failed on a rank (judge: no match; doctor: something is broken); a program that
       calls comm.Abort(code) ends labkit run with that code, as under mpiexec
  2    the command line is wrong (judge: undecided)
  3    bad input or machine: unknown platform, ranks out of range, unreadable file, no MPI
  4    deadlock
  5    the time limit was reached
  130  interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    `argv`: Arguments without the program's name; default: ``sys.argv[1:]``.
    Returns: The exit code, see `EXIT_CODES`.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a program may print what the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        parser, commands = _parsers(argv)
        arguments, unknown = parser.parse_known_args(argv)
        if unknown:
            commands.get(arguments.command, parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as stop:  # argparse has printed help, version, or what is wrong
        return int(stop.code or 0)
    if arguments.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        return _execute(arguments)
    except BrokenPipeError:  # the reader of a pipe has seen enough; nothing may be flushed into it any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _execute(arguments: argparse.Namespace) -> int:
    try:
        code = int(_module(arguments.command).execute(arguments))
        sys.stdout.flush()
        return code
    except LabkitError as error:
        return _report(error, arguments)
    except KeyboardInterrupt:
        print(f"labkit {arguments.command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        raise
    except Exception as error:
        if arguments.debug:
            raise
        return _report(error, arguments)


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error."""
    if isinstance(error, RankError):
        return 1 if error.abort_code is None else error.abort_code & 0xFF
    if isinstance(error, DeadlockError):
        return 4
    if isinstance(error, TimeLimitError):
        return 5
    return 3


def _report(error: Exception, arguments: argparse.Namespace) -> int:
    """Print one line about what was refused; the report of a failed program is longer."""
    code = exit_code(error)
    if arguments.debug:
        traceback.print_exception(error)
    message = _message(error)
    if getattr(arguments, "json", False):
        failure: dict[str, object] = {
            "kind": type(error).__name__,
            "code": code_of(error),
            "message": message,
        }
        if isinstance(error, RankError):
            failure |= {"rank": error.rank, "traceback": error.traceback}
        print(json.dumps({"exit": code, "error": failure, "output": list(getattr(error, "output", ()))}))
    sys.stdout.flush()
    notes = [note for note in getattr(error, "__notes__", ()) if note not in message]
    message = "\n".join([message, *(f"  {note}" for note in notes)])
    print(f"labkit {arguments.command}: {clean(message)}", file=sys.stderr)  # it may name what others made
    return code


def _message(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    if isinstance(error, RankError) and error.hint:
        return f"{text}\n{error.hint}"
    if isinstance(error, RankError | DeadlockError | TimeLimitError | ExpectationError):
        return text
    if isinstance(error, PlatformError):  # the lines below the first point at the place in the specification
        return text.splitlines()[0]
    text = " ".join(text.split())
    return text if isinstance(error, LabkitError) else f"{type(error).__name__}: {text} (--debug shows where)"


class _Parser(argparse.ArgumentParser):
    """Says what was meant where it does not know a command or an option."""

    def error(self, message: str) -> NoReturn:
        if found := re.match(r"argument command: invalid choice: '([^']*)'", message):
            word = found[1]
            instead = f"labkit run -n 4 {word}" if word.endswith(".py") else _INSTEAD.get(word)
            hint = f"; use {instead}" if instead else nearest(word, COMMANDS)
            hint = hint or "; there are: " + ", ".join(COMMANDS)
            message = f"there is no command {word!r}{hint}"
        elif message.startswith("unrecognized arguments: "):
            word = message.split()[2].partition("=")[0]
            flags = [flag for action in self._actions for flag in action.option_strings]
            meant = _INSTEAD.get(word)
            hint = f"; did you mean {meant!r}?" if meant in flags else nearest(word, flags, 1, _LIKE)
            if not hint and self.prog == "labkit lab":
                hint = "; options of JupyterLab come after --, as in labkit lab -- --port=9999"
            message += hint
        super().error(message)


def _parsers(argv: list[str]) -> tuple[_Parser, dict[str, _Parser]]:
    """Return the parser, and those of the commands."""
    from labkit import __version__

    parser = _Parser(
        prog="labkit",
        description="Engineer parallel algorithms on real and on simulated machines.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"labkit {__version__}")
    parser.set_defaults(debug=False)
    commands = parser.add_subparsers(dest="command", metavar="command", title="commands")
    chosen = next((word for word in argv if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("--debug", action="store_true", help="show labkit's own traceback of an error")
        if name == chosen:  # the others are not even imported: a command starts in a blink
            _module(name).configure(command)
    return parser, commands.choices


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"labkit.cli.{name}")
