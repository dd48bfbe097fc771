"""``labkit tune allreduce --on torus:4x4x4 --ranks 8,64 --sizes 8,1M``: the fastest algorithm everywhere."""

from __future__ import annotations

import argparse
import json

from labkit import plot
from labkit.errors import DataError
from labkit.launch.options import numbers_of
from labkit.text.html import quantity

__all__ = ["configure", "execute"]

_DESCRIPTION = """\
Simulate every algorithm of a collective operation at every number of ranks and size, and print which is the
fastest where, a decision tree over both, and what the tree and the usual selectors lose against the fastest.
On real MPI (--on mpi) measure the library's own algorithms instead, and what the rules gain over its choice.
With --out the tree is written as rules, for --coll FILE of labkit: .toml and .json are labkit's own form.
Those of libraries, where --library has tried their algorithms only: .conf and (Open MPI 6.0) .ompi.json for
--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename FILE; .mpich.json for
MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=FILE; .prf, a folder of profiles for PGMPITuneLib; .cfg for smpirun.
"""
_EPILOG = """\
examples:
  labkit tune allreduce --on torus:4x4x4 --ranks 8,27,64 --sizes 8,4K,1M
  labkit tune allreduce --on mpi --ranks 2 --out allreduce.conf
  labkit tune bcast --on fattree:4x4:1x2:1x2 --ranks 4,8,16 --library ompi --out bcast.conf
  labkit run -n 64 --on torus:4x4x4 --coll allreduce.toml prog.py
"""

_FORMATS = {
    "library_s": lambda s: quantity(s, "s", 3),
    "tuned_s": lambda s: quantity(s, "s", 3),
    "gain": lambda share: f"{share:.2f}",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit tune``."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("operation", help="the collective, such as allreduce")
    add("--on", default="star", metavar="MACHINE", help="a simulated machine (default: star), or mpi")
    add(
        "-n",
        "--ranks",
        metavar="P,P,...",
        help="numbers of ranks (default: those of 4,8,16,32,64 that the machine holds; mpi: 2)",
    )
    add(
        "--sizes",
        default="8,64,512,4K,32K,256K,2M",
        metavar="N,N,...",
        help="bytes, with K or M: the message of a bcast, reduction or scan, one block of the others "
        "(default: 8,64,512,4K,32K,256K,2M)",
    )
    add("--algorithms", metavar="NAME,NAME,...", help="algorithms to try (default: all)")
    add("--library", help="ompi, mpich, pgmpi or smpi: only algorithms of this library")
    add(
        "--leaves",
        type=int,
        default=25,
        metavar="L",
        help="maximum number of leaves of the tree (default: 25)",
    )
    add("--model", help="network model of the simulation")
    add("--mapping", metavar="RULE", help="hosts of the simulated ranks, as in labkit run (default: block)")
    add("--out", action="append", default=[], metavar="FILE", help="write the rules to this file; repeatable")
    add("--times", metavar="FILE", help="write all measurements to this CSV file")
    add(
        "--plot",
        action="append",
        default=[],
        metavar="FILE",
        help="draw the regions of the fastest algorithms: .pdf, .png, .svg or .html; repeatable",
    )
    add(
        "--width",
        metavar="WIDTH",
        help="of --plot, for a paper: single (3.5 in), double (7.16 in) or a number of inches",
    )
    add("--json", action="store_true", help="print one JSON object and nothing else")


def _check_figures(arguments: argparse.Namespace) -> None:
    """Refuse files and widths that no figure has before anything is measured."""
    if arguments.width is not None and not arguments.plot:
        raise DataError(
            "--width is the width of a figure; name its file with --plot", code="conflicting-options"
        )
    if arguments.plot:
        from labkit.plot.figure import check_files

        check_files(arguments.plot, arguments.width)


def execute(arguments: argparse.Namespace) -> int:
    """Tune, print, write; 0.

    Raises LabkitError: For input that cannot be used: exit code 3.
    """
    from labkit.text.files import writing
    from labkit.tuning.off_line import off_line
    from labkit.tuning.real_machine import RealMachine, gain

    _check_figures(arguments)
    ranks = numbers_of(arguments.ranks, "--ranks") if arguments.ranks else None
    tuned = off_line(
        arguments.operation,
        arguments.on,
        ranks,
        numbers_of(arguments.sizes, "--sizes"),
        model=arguments.model,
        mapping=arguments.mapping,
        library=arguments.library,
        algorithms=arguments.algorithms.split(",") if arguments.algorithms else None,
        leaves=arguments.leaves,
    )
    written = [str(tuned.save(path)) for path in arguments.out]
    if arguments.times:
        with writing(arguments.times):
            tuned.times.to_csv(arguments.times, index=False)
        written.append(arguments.times)
    if arguments.plot:
        drawn = plot.regions(tuned)
        written += [str(drawn.save(path, width=arguments.width)) for path in arguments.plot]
    compared = tuned.compare()
    is_ours = isinstance(tuned.machine, RealMachine) and tuned.machine.library == "ompi"
    gained = gain(tuned) if is_ours else None
    if arguments.json:
        found = {**tuned.to_dict(), "penalty": compared.to_dict("index"), "written": written}
        if gained is not None:
            found["gain"] = gained.to_dict("records")
        print(json.dumps(found))
        return 0
    print(tuned)
    print("slower than the fastest, on average and at most:")
    for name, row in compared.iterrows():
        print(f"  {name:<10} {row['mean']:8.1%} {row['max']:8.1%}")
    if gained is not None:
        print("the rules given to the library, compared with its own choice:")
        print(gained.to_string(index=False, formatters=_FORMATS))
    for note in getattr(tuned.machine, "notes", ()):
        print(f"note: {note}")
    for path in written:
        print(f"written: {path}")
    return 0
