"""``labkit guidelines --on star --ranks 4,8,16 --sizes 8,1K``: performance guidelines and the litmus test."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from labkit.errors import DataError
from labkit.launch.options import numbers_of

if TYPE_CHECKING:
    from labkit.study.guidelines.litmus import Litmus
    from labkit.study.guidelines.report import GuidelineReport

__all__ = ["configure", "execute"]

_DESCRIPTION = """\
Check performance guidelines of collective operations: allreduce must not take longer than a reduce and a
bcast (patterns), nor an operation than a more general one (special), a short message than a long one
(monotony), or a message than its pieces (split). Operations and mock-ups are run on the machine; each
guideline is reported as held, violated (where, and by which factor) or undecided, with what to do. On
real machines each is repeated in windows in several launches, and compared by rank tests corrected for their
number.

With --data, guidelines are checked on measurements and on their models for more ranks. The litmus test
(--litmus) compares the library's broadcast with one of known steps, to separate faults of the machine from
those of the library.
"""
_EPILOG = """\
exit code: 0 none violated and some held (litmus: nothing to blame); 1 something is violated, or predicted to
be (litmus: something is to blame); 2 nothing is decided; 3 bad input

examples:
  labkit guidelines --on star --ranks 4,8,16,32 --sizes 8,1K,64K
  labkit guidelines --on torus:8x8 --ranks 64 --only allreduce --coll allreduce=ring
  labkit guidelines --on mpi --ranks 2 --only "allreduce <= reduce + bcast"
  labkit guidelines --data collectives.study --only "allreduce <= reduce + bcast"
  labkit guidelines --litmus --on fattree:4x4:1x2:1x2 --ranks 2,4,8,16 --sizes 8
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit guidelines``."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("--on", default="star", metavar="MACHINE", help='a platform, or "mpi" (default: star)')
    add(
        "--ranks", metavar="P,P,...", help="numbers of ranks (default: 4,8,16,32; on mpi: 2; litmus: 2 to 64)"
    )
    add(
        "--sizes",
        metavar="N,N,...",
        help="message sizes in bytes, with K or M (default: 8,1K,64K; litmus: 8)",
    )
    add(
        "--only",
        action="append",
        metavar="WORD",
        help="a kind (pattern, special, monotony, split), an operation, a statement; repeatable",
    )
    add("--data", metavar="FILE", help="check on these measurements instead; --only has the statements")
    add("--size-column", metavar="NAME", help="with --data: the column of message sizes")
    add("--metric", help="with --data: the metric")
    add("--litmus", action="store_true", help="run the litmus test instead")
    add("--margin", type=float, default=0.05, metavar="M", help="tolerated relative excess (default: 0.05)")
    add(
        "--launches", type=int, metavar="K", help="runs of MPI, or seeds of the noise (default: 3; noise: 20)"
    )
    add("--model", help="network model of the simulation")
    add(
        "--coll",
        action="append",
        default=[],
        metavar="NAME=ALGORITHM",
        help="the algorithm of a collective, such as allreduce=ring; simulated machines only",
    )
    add("--noise", metavar="N", help="disturb the simulated machine, such as jitter=50us,period=1ms")
    add("--seed", type=int, default=0, help="shuffles the order, and draws the noise (default: 0)")
    add("--timeout", type=float, default=600.0, metavar="S", help="time limit of each launch (default: 600)")
    add("--list", action="store_true", help="list the guidelines with their sources without running them")
    add("--json", action="store_true", help="print one JSON object and nothing else")


def execute(arguments: argparse.Namespace) -> int:
    """Check, print, and return the exit code.

    Raises LabkitError: For input that cannot be used: exit code 3.
    """
    if arguments.list:
        return _list(arguments)
    found = (
        _data(arguments) if arguments.data else _litmus(arguments) if arguments.litmus else _run(arguments)
    )
    code = _code(found)
    print(json.dumps({**found.to_dict(), "exit": code}, ensure_ascii=False) if arguments.json else found)
    return code


def _code(found: Any) -> int:
    is_report = hasattr(found, "outcomes")
    if not is_report and found.word == "undecided":
        return 2
    if not found:
        return 1
    return 2 if is_report and not found.of("held") else 0


def _list(arguments: argparse.Namespace) -> int:
    from labkit.study.guidelines import catalogue

    some = catalogue(arguments.only)
    if arguments.json:
        rows = [{"guideline": str(one), "kind": one.kind, "source": one.source} for one in some]
        print(json.dumps({"guidelines": rows, "exit": 0}, ensure_ascii=False))
        return 0
    width = max(len(str(one)) for one in some)
    for one in some:
        print(f"{one!s:<{width}}  {one.kind:<8}  {one.source}")
    return 0


def _data(arguments: argparse.Namespace) -> GuidelineReport:
    from labkit.study import Study
    from labkit.study.formats.reader import read_data

    if not arguments.only:
        raise DataError('--data needs guidelines: --only "allreduce <= reduce + bcast"', code="missing-key")
    study = Study(*read_data(arguments.data))
    how = {"size": arguments.size_column, "margin": arguments.margin}
    return study.guideline(arguments.only, arguments.metric, **how)


def _run(arguments: argparse.Namespace) -> GuidelineReport:
    from labkit.study.guidelines import guidelines

    is_mpi = arguments.on.strip().lower() == "mpi"
    return guidelines(
        arguments.on,
        numbers_of(arguments.ranks or ("2" if is_mpi else "4,8,16,32"), "--ranks"),
        numbers_of(arguments.sizes or "8,1K,64K", "--sizes"),
        arguments.only,
        margin=arguments.margin,
        **_options(arguments),
    )


def _litmus(arguments: argparse.Namespace) -> Litmus:
    from labkit.study.guidelines import litmus

    sizes = numbers_of(arguments.sizes or "8", "--sizes")
    if len(sizes) != 1:
        raise DataError(f"the litmus test takes exactly one size, got {arguments.sizes}", code="out-of-range")
    is_mpi = arguments.on.strip().lower() == "mpi"
    ranks = numbers_of(arguments.ranks or ("2" if is_mpi else "2,4,8,16,32,64"), "--ranks")
    return litmus(arguments.on, ranks, sizes[0], **_options(arguments))


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    options: dict[str, object] = {
        "launches": arguments.launches,
        "seed": arguments.seed,
        "timeout_s": arguments.timeout,
    }
    pairs = [word.partition("=") for word in arguments.coll]
    if any(not (name and value) for name, _, value in pairs):
        raise DataError(f"--coll takes NAME=ALGORITHM, got {arguments.coll}", code="malformed-option")
    if pairs:
        options["coll"] = {name: value for name, _, value in pairs}
    return options | {name: v for name in ("model", "noise") if (v := getattr(arguments, name)) is not None}
