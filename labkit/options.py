"""The options of a run as words: the command line and the notebook's magic read the same ones."""

from __future__ import annotations

import argparse
from typing import Any

from labkit.errors import MachineError, ProgramError

__all__ = [
    "add_run_options",
    "check_options",
    "collectives_of",
    "limit_of",
    "model_of",
    "run_keywords",
    "tolerance_of",
]

#: the flags of each option, its default, and what argparse is told besides
_OPTIONS: tuple[tuple[tuple[str, ...], Any, dict[str, Any]], ...] = (
    (("-n", "--ranks"), None, {
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
        "help": "algorithm of a collective, as in allreduce=ring, or a .toml or .json file of rules; may be "
        "given again"}),
    (("--mapping",), None, {
        "metavar": "HOW",
        "help": "hosts of the ranks: block, cyclic, random:SEED, or a file, a host a line"}),
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
        "measured:FACTOR: this host's CPU time (default of --on mpi --trace-ti, which also has none)"}),
    (("--trace",), False, {"action": "store_true", "help": "record every message"}),
    (("--explain",), False, {
        "action": "store_true",
        "help": "say what the run's time went into: its critical path, and the links that held it"}),
    (("--trace-ti",), None, {
        "metavar": "FILE",
        "help": "record a time-independent trace for labkit replay: a file (.gz packs it), or a folder/ with "
        "a file a rank"}),
    (("--mpi",), None, {
        "metavar": "WHICH", "help": "with --on mpi: bundled, system, or the path of an mpiexec"}),
)  # fmt: skip


def add_run_options(parser: argparse.ArgumentParser, *, help: dict[str, str] | None = None) -> None:
    """Add the options of a run to a parser.

    Parameters
    ----------
    parser : ArgumentParser
        One whose `argument_default` is SUPPRESS gets no defaults either: its namespace then holds only what
        was given.
    help : dict, optional
        Other words for some of the options, by flag.
    """
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
        raise MachineError(f"--mpi belongs to --on mpi, and this run is --on {arguments.on}; leave it out")


def _is_mpi(on: Any) -> bool:
    return isinstance(on, str) and on.strip().lower() == "mpi"


def run_keywords(arguments: argparse.Namespace) -> dict[str, Any]:
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
        **({"mpi": arguments.mpi} if arguments.mpi else {}),
    }


def collectives_of(words: list[str]) -> Any:
    """Read the values of ``--coll``: a mapping, or with files of rules a selector that asks them after it."""
    from labkit.selector import First, Fixed, Rules

    chosen, rules = {}, []
    for word in words:
        problem, sign, name = word.partition("=")
        if problem and sign and name:
            chosen[problem] = name
        elif word.endswith((".json", ".toml")):
            rules.append(Rules.read(word))
        else:
            raise ProgramError(
                f"--coll takes PROBLEM=NAME, as in allreduce=ring, or a file of rules; got {word!r}"
            )
    return First(Fixed(chosen), *rules) if rules else chosen or None


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
    if _is_mpi(arguments.on):
        raise MachineError("--no-crosstraffic belongs to simulated machines, not to --on mpi")
    from labkit.platform import models, platform

    name = arguments.model or platform(arguments.on).description.model
    return models.get(name, cross_traffic=False)
