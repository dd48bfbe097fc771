"""``labkit calibrate``: a real machine's parameters, as a platform."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.errors import DataError

if TYPE_CHECKING:
    from labkit.calibration import Calibration

__all__ = ["configure", "execute"]

_DESCRIPTION = """\
Measure messages between two ranks (ping-pong, late and early receivers, bursts, exchanges), fit the network
model of the simulator (including its breaks) and write a platform:

  NAME.toml, NAME.model.toml     for labkit: --on NAME.toml --model NAME.model.toml
  NAME.xml, NAME.smpi.cfg        for SimGrid: smpirun -platform NAME.xml (the options are inside it, too)
  NAME.measurements.csv          every measurement
  NAME.residuals.csv, NAME.html  predictions of the fitted machine and measurements
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit calibrate``."""
    parser.description = _DESCRIPTION
    add = parser.add_argument
    add("--on", default="mpi", metavar="MACHINE", help="mpi (default), or a platform to test the method on")
    add("--mpi", metavar="WHICH", help="with --on mpi: bundled, system, or the path of an mpiexec")
    add("--model", metavar="NAME", help="with a platform: its network model")
    add("--name", default="calibrated", help="name of the machine (default: calibrated)")
    add(
        "--out",
        type=Path,
        default=Path("."),
        metavar="FOLDER",
        help="output folder (default: the current one)",
    )
    add("--hosts", type=int, default=2, help="number of hosts of the written star (default: 2)")
    add(
        "--pairs",
        type=int,
        default=1,
        metavar="1|2",
        help="2: also measure both directions; ranks 2 and 3 placed like 0 and 1 (default: 1)",
    )
    add(
        "--far-links",
        type=int,
        metavar="LINKS",
        help="also measure how near and far messages share a link; links between ranks 2 and 0",
    )
    add("--max-bytes", type=int, default=4_000_000, help="largest message (default 4000000)")
    add("--points", type=int, default=60, help="initial number of sizes (default: 60)")
    add("--repeats", type=int, default=7, help="measurements of each size (default 7)")
    add("--refine", type=int, default=2, help="number of refinements of the breaks (default: 2)")
    add(
        "--statistic",
        choices=["median", "quartile", "min"],
        default="median",
        help="statistic of the repetitions (default: median; use min on a shared host)",
    )
    add("--seed", type=int, default=0, help="seed of the sizes and their order (default: 0)")
    add(
        "--timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="time limit of each launch (default: 300)",
    )
    add("--json", action="store_true", help="print one JSON object and nothing else")


def execute(arguments: argparse.Namespace) -> int:
    """Calibrate, write the files, print what was found; warnings go to stderr as well."""
    from labkit import plot
    from labkit.calibration import calibrate

    if arguments.refine < 0 or arguments.hosts < 2:
        raise DataError(
            f"--refine must be 0 or more and --hosts 2 or more, got {arguments.refine} and {arguments.hosts}",
            code="out-of-range",
        )
    options = {key: value for key in ("mpi", "model") if (value := getattr(arguments, key)) is not None}
    found = calibrate(
        arguments.on,
        name=arguments.name,
        max_bytes=arguments.max_bytes,
        points=arguments.points,
        repeats=arguments.repeats,
        refine=arguments.refine,
        hosts=arguments.hosts,
        pairs=arguments.pairs,
        far_links=arguments.far_links,
        seed=arguments.seed,
        statistic=arguments.statistic,
        timeout_s=arguments.timeout,
        **options,
    )
    files = found.save(arguments.out)
    page = files[0].with_name(files[0].name.removesuffix(".model.toml") + ".html")
    plot.page(f"{found.name}: calibration", [found, plot.calibration(found)], page)
    for warning in found.warnings:
        print(f"labkit calibrate: warning: {warning}", file=sys.stderr)
    if arguments.json:
        print(json.dumps(_record(found) | {"files": [str(file) for file in [*files, page]], "exit": 0}))
    else:
        print(found)
        print("written: " + ", ".join(file.name for file in [*files, page]))
    return 0


def _record(found: Calibration) -> dict[str, object]:
    fit = found.fit
    return {
        "name": found.name,
        "on": found.machine.get("on"),
        "bandwidth_bytes_per_s": fit.bandwidth_bytes_per_s,
        "latency_s": fit.latency_s,
        "sharing": fit.sharing,
        "cross_traffic": fit.model.cross_traffic,
        "weight_s_bytes": fit.model.weight_s_bytes,
        "near_to_far": None if fit.shares is None else fit.shares.ratio,
        "detached_below_bytes": fit.model.detached_below_bytes,
        "eager_below_bytes": fit.model.eager_below_bytes,
        "breaks_bytes": [piece.above for piece in fit.curves["wire"].pieces[1:]],
        "errors": found.errors().to_dict("records"),
        "warnings": found.warnings,
    }
