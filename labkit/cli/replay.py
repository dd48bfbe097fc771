"""``labkit replay``: off-line simulation of a time-independent trace."""

from __future__ import annotations

import argparse
import json

from labkit.cli import run as run_command
from labkit.cli.run import add_export, check_targets, write_exports
from labkit.launch.options import collectives_of, limit_of, model_of, tolerance_of

__all__ = ["configure", "execute"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit replay``."""
    add = parser.add_argument
    add("trace", help="SimGrid's trace of all ranks, a list of one file a rank (also gzip), or a GOAL file")
    add(
        "--on",
        default="star",
        metavar="MACHINE",
        help="a platform such as star:64, or its file (default: star, a host for each rank)",
    )
    add("--model", metavar="NAME", help="network model: lab (default), smpi, lv08, cm02, raw")
    add("--no-crosstraffic", action="store_true", help="acknowledgements load no link")
    add(
        "--coll",
        action="append",
        default=[],
        metavar="PROBLEM=NAME",
        help="algorithm of a collective, as in allreduce=ring; may be given again",
    )
    add("--mapping", metavar="HOW", help="hosts of the ranks: block, cyclic, random:SEED, a file of hosts")
    add(
        "--timeout",
        default="60",
        metavar="SECONDS",
        help="limit of host time (default 60; none for no limit)",
    )
    add(
        "--tolerance",
        default="0",
        metavar="T",
        help="a link's capacity may be off by this share where many messages share it (default 0: exact)",
    )
    add("--noise", metavar="TEXT", help="seeded noise, as in jitter=50us,period=1ms,stragglers=1,slowdown=2")
    add("--seed", type=int, default=0, help="draws the noise (default 0)")
    add(
        "--explain",
        action="store_true",
        help="say what the time went into: the critical path, and the links that held it",
    )
    add(
        "--plain",
        metavar="FILE",
        help="write the trace with its loops written out, as SimGrid's replay reads it, and do not replay it",
    )
    add_export(parser)
    add("--json", action="store_true", help="print one JSON object and nothing else")


def execute(arguments: argparse.Namespace) -> int:
    """Replay; the result goes to stdout."""
    from labkit.sim.replay import replay
    from labkit.trace.formats.ti_writer import write_plain

    if arguments.plain:
        print(f"labkit replay: written out in {write_plain(arguments.plain, arguments.trace)}")
        return 0
    is_exported = check_targets(arguments)
    result = replay(
        arguments.trace,
        arguments.on,
        model=model_of(arguments),
        coll=collectives_of(arguments.coll),
        mapping=arguments.mapping,
        timeout_s=limit_of(arguments.timeout),
        tolerance=tolerance_of(arguments.tolerance),
        trace=arguments.explain or is_exported,
        noise=arguments.noise,
        seed=arguments.seed,
    )
    exported = write_exports(arguments, result)
    explanation = result.explain() if arguments.explain else None
    if arguments.json:
        record = run_command.record(result)
        del record["output"]
        explained: dict[str, object] = {"exported": exported} if exported else {}
        explained |= {"explanation": explanation.record()} if explanation else {}
        print(json.dumps(record | {"finish_s": result.machine["finish_s"]} | explained))
        return 0
    print(f"labkit replay: {result!r}{''.join(f'{chr(10)}  trace in {file}' for file in exported)}")
    if explanation:
        print(f"labkit replay: {explanation!r}")
    return 0
