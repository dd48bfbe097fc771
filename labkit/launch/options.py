"""Command-line options of a run, shared by ``labkit run`` and the notebook magic ``%%spmd``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from labkit.errors import DataError, MachineError

if TYPE_CHECKING:
    from labkit.selector.situation import Selector

__all__ = [
    "add_run_options",
    "check_options",
    "collectives_of",
    "limit_of",
    "model_of",
    "numbers_of",
    "run_keywords",
    "tolerance_of",
]

#: the flags of each option, its default, and further arguments of argparse
_OPTIONS: tuple[tuple[tuple[str, ...], Any, dict[str, Any]], ...] = (
    (("-n", "-np", "--ranks"), None, {
        "type": int, "metavar": "RANKS",
        "help": "number of ranks (default: as many as a machine such as star:64 holds)"}),
    (("--on",), "star", {
        "metavar": "MACHINE",
        "help": "mpi, or a platform such as star:64 (default: star, with a host for each rank)"}),
    (("--model",), None, {
        "metavar": "NAME",
        "help": "network model: lab (default), smpi, lv08, cm02, ib, raw, loggps, or a .toml file; changes "
        "behind commas, as in smpi,detached_below_bytes=0"}),
    (("--no-crosstraffic",), False, {"action": "store_true", "help": "acknowledgements load no link"}),
    (("--coll",), (), {
        "action": "append", "metavar": "PROBLEM=NAME",
        "help": "algorithm of a collective, as in allreduce=ring; a selector (ompi, mpich, mvapich2 and impi "
        "decide as these libraries do, smpi as SimGrid's default, best simulates all and takes the fastest); "
        "or a .toml or .json file of rules; several behind commas, or given again; on real MPI library:ring "
        "forces Open MPI's own"}),
    (("--mapping",), None, {
        "metavar": "HOW",
        "help": "hosts of the ranks: block (default: as many on a host as it has cores), block:1 (a "
        "host for each rank), cyclic, random:SEED, fragmented:SEED (any hosts, each filled), or a file, a "
        "host a line"}),
    (("--shape",), None, {
        "metavar": "SIDES",
        "help": "block of hosts of a torus that the run gets as a separate torus: its sides as in 4x4x2, "
        "compact (the smallest that holds the ranks; default of Blue Genes) or whole"}),
    (("--timeout",), "60", {
        "metavar": "SECONDS", "help": "limit of host time (default 60; none for no limit)"}),
    (("--seed",), 0, {
        "type": int, "help": "seeds random and numpy.random of each rank (default 0)"}),
    (("--tolerance",), "0", {
        "metavar": "T",
        "help": "a link's capacity may be off by this share where many messages share it, as in 1e-3; for "
        "huge simulations (default 0: exact)"}),
    (("--calibration",), None, {
        "metavar": "NAME",
        "help": "what node-local work costs: a shipped calibration, or a .toml file (default: default)"}),
    (("--noise",), None, {
        "metavar": "TEXT",
        "help": "seeded noise, as in jitter=50us,period=1ms,stragglers=1,slowdown=2,links=5%%,"
        "bandwidth=0.1"}),
    (("--compute",), None, {
        "metavar": "HOW",
        "help": "charged (default of simulations): code takes the time it charges; measured or "
        "measured:FACTOR: this host's CPU time (default of --on mpi --trace-ti, which also has none); "
        "recorded:FILE: as measured once and kept in FILE, the same to the bit each time"}),
    (("--storage",), None, {
        "metavar": "TEXT",
        "help": "the file server of a simulated run, as in bw=2GBps,lat=500us (default: bw=1GBps,lat=1ms)"}),
    (("--no-warnings",), False, {
        "action": "store_true",
        "help": "simulated: do not name what works here and may fail on real MPI",
    }),
    (("--check",), False, {
        "action": "store_true",
        "help": "simulated: look at buffers in use, types of both ends, requests left alone; say the lines"}),
    (("--explore",), 0, {
        "type": int, "metavar": "TRIES",
        "help": "simulated: run again with N other legal orders of messages; report which results differ"}),
    (("--trace",), False, {"action": "store_true", "help": "record every message"}),
    (("--summary",), False, {
        "action": "store_true",
        "help": "sum time, calls and messages up by call path while the program runs; no event is kept"}),
    (("--counters",), (), {
        "action": "append", "metavar": "COUNTER",
        "help": "with --on mpi: counters of the host by call path, as page-faults or instructions; several "
        "behind commas, or given again"}),
    (("--explain",), False, {
        "action": "store_true",
        "help": "say what the run's time went into: its critical path, and the links that held it"}),
    (("--region",), (), {
        "action": "append", "metavar": "FUNCTION",
        "help": "make a phase of each call of a function, as in merge or solver.Grid.smooth (* stands for "
        "anything); several behind commas, or given again"}),
    (("--leave-out",), (), {
        "action": "append", "metavar": "PHASE",
        "help": "with --trace or --summary: phases in which nothing is recorded (* stands for anything), "
        "several behind commas or given again; or a file NAME.filter that a score wrote"}),
    (("--trace-ti",), None, {
        "metavar": "FILE",
        "help": "record a time-independent trace for labkit replay: a file (.gz packs it), or a folder/ with "
        "a file a rank"}),
    (("--mpi",), None, {
        "metavar": "WHICH", "help": "with --on mpi: bundled, system, or the path of an mpiexec"}),
)  # fmt: skip


def add_run_options(parser: argparse.ArgumentParser, *, help: dict[str, str] | None = None) -> None:
    """Add the options of a run to a parser."""
    for flags, default, more in _OPTIONS:
        name = flags[-1]
        keywords = dict(more)
        if help and name in help:
            keywords["help"] = help[name]
        if parser.argument_default is argparse.SUPPRESS:
            keywords["default"] = argparse.SUPPRESS
        else:
            keywords["default"] = list(default) if isinstance(default, tuple) else default
        parser.add_argument(*flags, **keywords)


def check_options(arguments: argparse.Namespace) -> None:
    """Refuse options that the chosen machine does not have."""
    is_mpi = _is_mpi(arguments.on)
    if arguments.mpi and not is_mpi:
        raise MachineError(
            f"--mpi belongs to --on mpi, and this run is --on {arguments.on}; leave it out",
            code="conflicting-options",
        )


def _is_mpi(on: object) -> bool:
    return isinstance(on, str) and on.strip().lower() == "mpi"


def run_keywords(arguments: argparse.Namespace) -> dict[str, object]:
    """Turn the options into the keyword arguments of `labkit.run`; ranks and machine stay outside."""
    return {
        "model": model_of(arguments),
        "coll": collectives_of(arguments.coll),
        "mapping": arguments.mapping,
        "timeout_s": limit_of(arguments.timeout),
        "seed": arguments.seed,
        "trace": arguments.trace or arguments.explain,
        "tolerance": tolerance_of(arguments.tolerance),
        "calibration": arguments.calibration,
        "trace_ti": arguments.trace_ti,
        "noise": arguments.noise,
        "compute": arguments.compute,
        **({"regions": ",".join(arguments.region)} if arguments.region else {}),
        **({"leave_out": ",".join(arguments.leave_out)} if arguments.leave_out else {}),
        **({"storage": arguments.storage} if arguments.storage else {}),
        **({"shape": arguments.shape} if arguments.shape else {}),
        **({"summary": True} if arguments.summary else {}),
        **({"counters": ",".join(arguments.counters)} if arguments.counters else {}),
        **({"check": True} if arguments.check else {}),
        **({"warnings": False} if arguments.no_warnings else {}),
        **({"explore": arguments.explore} if arguments.explore else {}),
        **({"mpi": arguments.mpi} if arguments.mpi else {}),
    }


def collectives_of(words: list[str]) -> Selector | None:
    """Read the values of ``--coll``, each one or several separated by commas."""
    if not words:
        return None
    from labkit.selector import of_words

    return of_words([part for word in words for part in word.split(",")])


def limit_of(word: str) -> float | None:
    """Read the value of ``--timeout``."""
    if word.strip().lower() == "none":
        return None
    try:
        return float(word)
    except ValueError:
        raise MachineError(
            f"--timeout takes a number of seconds or none, got {word!r}", code="malformed-option"
        ) from None


def tolerance_of(word: str) -> float:
    """Read the value of ``--tolerance``."""
    try:
        return float(word)
    except ValueError:
        raise MachineError(
            f"--tolerance takes a number, as in 1e-3, got {word!r}", code="malformed-option"
        ) from None


def model_of(arguments: argparse.Namespace) -> Any:
    """Return the model to use: its name, or the changed model without cross-traffic."""
    if not arguments.no_crosstraffic:
        return arguments.model
    if _is_mpi(arguments.on):
        raise MachineError(
            "--no-crosstraffic belongs to simulated machines, not to --on mpi", code="conflicting-options"
        )
    from labkit.machines import models, platform

    name = arguments.model or platform(arguments.on).description.model
    return models.get(name, cross_traffic=False)


def numbers_of(text: str, option: str) -> list[int]:
    """Read whole numbers with commas between them, with K, M or G behind them: ``8,1K,64K``."""
    units = {"K": 1024, "M": 1024**2, "G": 1024**3}
    found = []
    for word in text.split(","):
        digits = word.strip().upper().removesuffix("B")
        unit = units.get(digits[-1:], 1)
        digits = digits[:-1] if unit > 1 else digits
        if not digits.isascii() or not digits.isdigit():
            raise DataError(
                f"{option} takes whole numbers with commas between them, got {text!r}",
                code="malformed-option",
            )
        found.append(int(digits) * unit)
    return found
