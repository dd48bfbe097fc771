"""The options of ``%%spmd``: those of ``labkit run``, and those of notebooks only."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NoReturn

from labkit.checks import check_ranks
from labkit.errors import LabkitError, MachineError, ProgramError, nearest
from labkit.launch.options import add_run_options
from labkit.launch.run import machine_of
from labkit.text.units import format_seconds

__all__ = [
    "SIMULATED_ONLY",
    "Machines",
    "cell_options",
    "describe_options",
    "effective",
    "help_text",
    "is_own_machine",
    "option_values",
    "session_options",
]

#: options of simulated machines: those of the session rest while a cell runs on a real one
SIMULATED_ONLY = (
    *("model", "no_crosstraffic", "coll", "mapping", "tolerance", "calibration", "noise", "compute"),
    *("trace_ti", "storage", "check", "explore", "shape"),
)

_HELP = {
    "--on": "mpi (real MPI on this host), cluster (engines that labkit starts and keeps), slurm, the name of "
    "a cluster or platform of this notebook, or a platform such as star:64 or torus:4x4 (default: star, "
    "with a host for each rank)",
    "--trace": "record every message: _spmd.trace",
    "--summary": "sum time, calls and messages up by call path, without keeping events: _spmd.profile()",
}


#: what people type for an option that has another name
_MEANT = {
    **dict.fromkeys(("--machine", "--platform", "--topology", "--network"), "; the machine is --on"),
    **dict.fromkeys(("--np", "--nprocs", "--size", "--procs"), "; the number of ranks is -n"),
    **dict.fromkeys(
        ("--plot", "--gantt", "--draw", "--show"),
        "; after a cell with --trace, lk.plot.gantt(_spmd) draws it",
    ),
}


class _Parser(argparse.ArgumentParser):
    """Refuses with an exception, in one sentence."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments: "):
            words = message.removeprefix("unrecognized arguments: ")
            flags = [flag for action in self._actions for flag in action.option_strings]
            first = words.partition(" ")[0].partition("=")[0]
            hint = _MEANT.get(first) or nearest(first, flags, 1)
            if words.isdigit():
                hint = f"; the number of ranks is -n {words}"
            elif "(" in words and not words.startswith("-"):
                hint = "; the ranks' code stands below a first line with %%spmd and the options"
            elif not hint and not words.startswith("-"):
                hint = "; an option begins with --, as in --on torus:4x4"
            message = f"{words!r} is not an option here{hint}"
        raise ProgramError(f"{self.prog}: {message}; %%spmd? shows the options", code="malformed-option")


def _parser(is_session: bool) -> _Parser:
    parser = _Parser(
        prog="%spmd" if is_session else "%%spmd",
        argument_default=argparse.SUPPRESS,
        add_help=False,
        allow_abbrev=False,
        usage=argparse.SUPPRESS,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=24, width=100),
    )
    add_run_options(parser, help=_HELP)
    add = parser.add_argument
    add("-q", "--quiet", action="store_true", help="show neither what the ranks print nor their results")
    if is_session:
        add("--reset", action="store_true", help="forget the session's options")
    else:
        add("-o", "--out", metavar="NAME", help="keep the run under this name too (always: _spmd)")
    return parser


def option_values(is_session: bool) -> dict[str, bool]:
    """Return the options of a magic, by their long flags: whether a value follows."""
    actions = _parser(is_session)._actions
    return {flag: action.nargs != 0 for action in actions for flag in action.option_strings}


def help_text() -> str:
    """Return the options as text."""
    return _parser(False).format_help().removeprefix("options:\n").rstrip()


def cell_options(line: str) -> dict[str, object]:
    """Read the options of ``%%spmd``: only what was given."""
    found = _read(line, is_session=False)
    out = found.get("out")
    if out is not None and not out.isidentifier():
        raise ProgramError(
            f"%%spmd: -o takes a name for the run, such as -o first; got {out!r}", code="malformed-option"
        )
    if out is not None and (machine_of(out).is_real or _is_platform(out)):
        raise ProgramError(
            f"%%spmd: {out} is a machine: write --on {out}; -o takes a name for the run, such as -o first",
            code="malformed-option",
        )
    return found


def session_options(line: str) -> dict[str, object]:
    """Read the options of ``%spmd``: only what was given."""
    return _read(line, is_session=True)


def _read(line: str, is_session: bool) -> dict[str, Any]:
    parser = _parser(is_session)
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise ProgramError(f"{parser.prog}: {error} in {line!r}", code="malformed-option") from None
    return vars(parser.parse_args(words))


def effective(given: dict[str, object], session: dict[str, object], machine: object) -> argparse.Namespace:
    """Put a cell's options over the session's, and those over the defaults."""
    kind = machine_of(machine)
    parser = argparse.ArgumentParser(add_help=False)
    add_run_options(parser)
    defaults = vars(parser.parse_args([]))
    rest = {
        name: value
        for name, value in session.items()
        if not (name in SIMULATED_ONLY and kind.is_real) and not (name == "mpi" and "on" in given)
    }
    merged = {**defaults, "quiet": False, "out": None, **rest, **given}
    if merged["ranks"] is None:
        merged["ranks"] = kind.size(machine)
    if merged["ranks"] is None:
        raise MachineError(
            "%%spmd: the number of ranks is required: give -n, as in %%spmd -n 16, or once for the session, "
            "%spmd -n 16; or a machine of fixed size, as in --on star:16",
            code="ranks-required",
        )
    return argparse.Namespace(**merged)


def describe_options(session: Mapping[str, object]) -> str:
    """Return as text what the session's options are."""
    if not session:
        return "no options of the session; set some with %spmd, as in %spmd -n 16 --on torus:4x4"
    words = []
    for name, value in session.items():
        flag = "-n" if name == "ranks" else f"--{name.replace('_', '-')}"
        for one in value if isinstance(value, list) else [value]:
            words.append(flag if one is True else f"{flag} {shlex.quote(str(one))}")
    return f"every %%spmd cell from now on: {' '.join(words)}"


# The machine that ``--on`` names: a name of the notebook, the session's cluster, or a text.

#: engines that are started at least: the next cell may well want a few ranks more
_FEWEST_ENGINES = 4


def _is_platform(word: str) -> bool:
    from labkit.machines import platform

    try:
        platform(word)
    except LabkitError:
        return False
    return True


def is_own_machine(value: object) -> bool:
    """Whether a value of the notebook is a machine, not only the text of one."""
    if value is None or isinstance(value, str | ModuleType):
        return False
    is_platform = type(value).__module__.startswith("labkit.machines") and hasattr(value, "hosts")
    return is_platform or machine_of(value).is_real


class Machines:
    """Finds machines, and keeps the cluster that ``--on cluster`` started.

    `say`: Prints a line for the user immediately.
    """

    def __init__(self, say: Callable[[str], None] = print) -> None:
        self._say = say
        self._cluster: Any = None

    def named(self, word: str, names: Mapping[str, object]) -> Any:
        """Return the cluster or platform that has this name in the notebook, else the name itself.

        Raises MachineError: It is the name of a text, and of no machine.
        """
        value = names.get(word.strip()) if word.strip().isidentifier() else None
        if is_own_machine(value):
            return value
        if isinstance(value, str) and not machine_of(word).is_real and not _is_platform(word):
            raise MachineError(
                f"--on {word}: for what the variable {word} holds, write --on {{{word}}}",
                code="malformed-value",
            )
        return word

    def ready(self, on: object, ranks: int) -> Any:
        """Return the machine itself: for ``cluster`` engines enough for these ranks, started if need be."""
        if isinstance(on, str) and on.strip().lower() == "cluster":
            return self._engines(ranks)
        return on

    def _engines(self, ranks: int) -> object:
        from labkit.real.engines.cluster import cluster

        check_ranks(ranks)
        if self._cluster is not None and self._cluster.engines >= ranks:
            return self._cluster
        wanted = max(ranks, _FEWEST_ENGINES)
        if self._cluster is not None:
            self._say(f"{self._cluster.engines} engines are too few for {ranks} ranks: starting others")
            self.stop()
        self._say(f"starting a cluster of {wanted} MPI engines; the cells that follow use it too …")
        begin = time.monotonic()
        self._cluster = cluster(wanted, restart=True)
        self._say(f"it is up after {format_seconds(time.monotonic() - begin)} of host time")
        return self._cluster

    def tell_of_restart(self, on: Any) -> None:
        """Report when engines that were lost or hang are about to be started again."""
        if hasattr(type(on), "labkit_cluster") and on.needs_restart():
            self._say("the cluster has lost engines, or some hang: starting all of them again …")

    def stop(self) -> None:
        """End the cluster, if there is one."""
        running, self._cluster = self._cluster, None
        if running is not None:
            running.stop()
