"""``labkit judge data --expect "p log p"``: fit, verdict and an exit code from a file of measurements."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from labkit.errors import DataError

if TYPE_CHECKING:
    from labkit.scaling import SurfaceVerdict, Verdict

__all__ = ["EXIT_CODES", "configure", "execute", "refuse_with"]

#: 0 exact, approximate or bound, 1 none, 2 undecided, 3 bad input
EXIT_CODES = {"exact": 0, "approximate": 0, "bound": 0, "none": 1, "undecided": 2}
BAD_INPUT = 3

_DESCRIPTION = """\
Fit the measurements in a file with a scaling model and judge them against an expectation in big-O notation.

The file is a saved study, an Extra-P file (text, JSON or JSON lines) or a CSV file; which one is found from
its content. A CSV file has a header; its first column is the parameter unless --param names others. An
expectation in two parameters that both vary is judged over both.
"""
_EPILOG = """\
exit code: 0 exact or approximate match, or a bound that holds; 1 no match: faster growth than allowed;
2 undecided; 3 bad input

examples:
  labkit judge sort.study --expect "p log p" --phase exchange
  labkit judge times.csv --expect "n/p * log2(n/p)" --given n=1000000 --json
  labkit judge times.csv --expect "n/p * log2(n/p) + p" --param n --param p
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit judge``."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    refuse_with(parser, BAD_INPUT)
    add = parser.add_argument
    add("data", help="file with the measurements")
    add("--expect", required=True, metavar="E", help='the expectation: "p log p", "n/p * log2(n/p)", ...')
    add("--metric", help="metric, if the file has several")
    add("--phase", "--region", dest="phase", help="phase (Extra-P: region or call path)")
    add("--param", action="append", metavar="NAME", help="parameter that was varied (CSV: repeatable)")
    add(
        "--where",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="rows to use, if other parameters vary as well",
    )
    add(
        "--given",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help='value of another symbol: n=1000000, or "n=1000*p" for weak scaling',
    )
    add(
        "--deviation",
        metavar="D",
        help='limit of an approximate match: "sqrt(p)" (the default), "strict", "log p", ...',
    )
    add(
        "--space",
        choices=["joined", "paper", "wide", "ruler"],
        help="search space of terms (default: chosen by the data)",
    )
    add(
        "--aggregate",
        choices=["auto", "mean", "quartile", "min", "median"],
        default="auto",
        help="statistic of the repetitions (default: mean; with outliers, the quartile)",
    )
    add(
        "--tolerance",
        type=float,
        metavar="T",
        help="largest relative error of a model that fits; 0 for exact counts (default: 0.05)",
    )
    add("--html", metavar="FILE", help="write a page with the figure and the verdict")
    add("--json", action="store_true", help="print one JSON object and nothing else")


def refuse_with(parser: argparse.ArgumentParser, code: int) -> None:
    """Let wrong usage end with `code`: argparse's own 2 already means undecided."""

    def error(message: str) -> NoReturn:
        parser.print_usage(sys.stderr)
        parser.exit(code, f"{parser.prog}: error: {message}\n")

    parser.error = error  # type: ignore[method-assign]


def execute(arguments: argparse.Namespace) -> int:
    """Judge as the command line asks, print, and return the exit code.

    Raises LabkitError: For input that cannot be used: exit code 3.
    """
    verdict, remarks = _judge(arguments)
    if arguments.html:
        _write_page(verdict, arguments)
    code = EXIT_CODES[verdict.match]
    if arguments.json:
        print(json.dumps({**verdict.to_dict(), "remarks": remarks, "exit": code}, ensure_ascii=False))
    else:
        print(verdict, *(f"  note: {remark}" for remark in remarks), sep="\n")
    return code


def _judge(arguments: argparse.Namespace) -> tuple[Verdict | SurfaceVerdict, list[str]]:
    """Return the verdict, and what the reader of the data has left out."""
    from labkit.study import Study
    from labkit.study.formats.reader import read_data

    parameters = arguments.param
    study = Study(*read_data(arguments.data, parameters))
    where = {name: _value(text) for name, text in _pairs(arguments.where, "--where")}
    verdict = study.expect(
        arguments.expect,
        arguments.metric,
        arguments.phase,
        arguments.deviation,
        parameter=parameters[0] if parameters and len(parameters) == 1 else None,
        where=where,
        given={name: _value(text) for name, text in _pairs(arguments.given, "--given")},
        space=arguments.space,
        aggregate=arguments.aggregate,
        **({} if arguments.tolerance is None else {"tolerance": arguments.tolerance}),
    )
    return verdict, [str(remark) for remark in study.notes.get("remarks", [])]


def _pairs(items: Sequence[str], option: str) -> list[tuple[str, str]]:
    pairs = []
    for item in items:
        name, equals, value = item.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise DataError(f"{option} needs NAME=VALUE; got {item!r}", code="malformed-option")
        pairs.append((name.strip(), value.strip()))
    return pairs


def _value(text: str) -> float | int | str:
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number


def _write_page(verdict: Verdict | SurfaceVerdict, arguments: argparse.Namespace) -> None:
    from labkit import plot
    from labkit.scaling import Verdict

    items: list[object] = [verdict]
    if isinstance(verdict, Verdict) and verdict.model is not None:
        items.insert(0, plot.scaling(verdict))
    try:
        plot.page(f"{arguments.data}: {arguments.expect}", items, arguments.html)
    except OSError as error:
        raise DataError(
            f"cannot write the page {arguments.html!r}: {error.strerror}", code="unwritable-file"
        ) from error
