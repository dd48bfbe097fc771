"""The table of conformance: what passes on which machine, and why some of it not simulated."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.conformance.outcome import Outcome
from tests.conformance.sampled import is_sampled

__all__ = ["Document", "differences", "table"]

_REASONS = Path(__file__).with_name("reasons.toml")
#: (machine, ranks, file)
Results = dict[tuple[str, ...], Outcome]

_HEAD = """# mpi4py's own tests on simulated ranks

The test suite of mpi4py {version}, unmodified and by its own runner, simulated and on real Open MPI. This is
what `make conformance` writes. A cell holds the tests that passed, simulated / real; one number: the same on
both; a dash: the file did not come to its end there; nothing: it has not been run. Tests that the suite
itself skips are not counted; as an MPI 4.1 the simulator runs tests that are skipped on Open MPI.
A star: of the types, roots, counts and lengths over which these tests run, a sample was taken; what they
compare grows with the fifth power of the ranks (`tests/conformance/sampled.py`).

"""


class Document:
    """The table as it stands: what it says of files that have not been run again.

    Parameters
    ----------
    text : str
        Empty where there is none yet.
    """

    _LOST = re.compile(r"`([^`]+)` \(p = ([\d, ]+)\)")

    def __init__(self, text: str = "") -> None:
        rows = [
            [part.strip() for part in line.split("|")[1:-1]] for line in text.splitlines() if line[:1] == "|"
        ]
        ranks = [part.removeprefix("p = ") for part in rows[0][1:]] if rows else []
        #: (ranks, file) -> what passed simulated, and on real MPI
        self.cells: dict[tuple[str, str], list[str]] = {
            (p, row[0]): _pair(cell)
            for row in rows[2:]
            for p, cell in zip(ranks, row[1:], strict=True)
            if cell
        }
        #: test -> ranks on which it was lost
        self.lost = {test: where.split(", ") for test, where in self._LOST.findall(text)}


def _pair(cell: str) -> list[str]:
    return [part.strip() for part in cell.split("/")] if "/" in cell else [cell, cell]


def differences(results: Results) -> dict[str, list[str]]:
    """Return the tests that pass on real MPI and not simulated, and on how many ranks."""
    found: dict[str, list[str]] = {}
    for (machine, ranks, name), real in sorted(results.items()):
        mine = results.get(("simulated", ranks, name))
        if machine != "real" or mine is None or real.end:
            continue
        lost = [f"{name} ({mine.end})"] if mine.end else _lost(mine, real)
        for test in lost:
            found.setdefault(test, []).append(ranks)
    return found


def _lost(mine: Outcome, real: Outcome) -> list[str]:
    """Tests of a file that passed on real MPI, and failed or were skipped in simulation."""
    skipped = set(mine.left_out) - set(real.left_out) if mine.skipped > real.skipped else set()
    return sorted({*mine.failed, *skipped} - {*real.failed, *real.left_out})


def table(results: Results, version: str, old: str = "") -> str:
    """Return the document; what has not been run stays as the old one says."""
    before = Document(old)
    ranks = sorted({key[1] for key in results} | {key[0] for key in before.cells}, key=int)
    names = sorted({key[2] for key in results} | {key[1] for key in before.cells})
    lines = [_HEAD.format(version=version)]
    lines.append("| file | " + " | ".join(f"p = {p}" for p in ranks) + " |")
    lines.append("|---" * (len(ranks) + 1) + "|")
    for name in names:
        lines.append(f"| {name} | " + " | ".join(_cell(results, before, p, name) for p in ranks) + " |")
    lost = differences(results)
    for test, places in before.lost.items():
        name = re.split(r"[. ]", test)[0]
        kept = [
            p for p in places if any((machine, p, name) not in results for machine in ("simulated", "real"))
        ]
        if kept:
            lost[test] = sorted({*lost.get(test, []), *kept})
    reasons: dict[str, str] = tomllib.loads(_REASONS.read_text())
    groups: dict[str, list[str]] = {}
    for test, where in sorted(lost.items()):
        why = next((text for part, text in reasons.items() if part in test), "no reason: to be fixed")
        groups.setdefault(why, []).append(f"`{test}` (p = {', '.join(sorted(where, key=int))})")
    lines += ["", f"Passes on real MPI and not simulated: {len(lost)} tests, for {len(groups)} reasons.", ""]
    cells = Document("\n".join(lines)).cells
    both = {p: sum(all(cells.get((p, name), ["", ""])) for name in names) for p in ranks}
    told = ", ".join(f"{both[p]} at p = {p}" for p in ranks if both[p])
    lines += [f"Of {len(names)} files both machines have run {told}.", ""]
    for why, tests in groups.items():
        lines.append(f"- {why} ({len(tests)}): {', '.join(tests)}")
    return "\n".join(lines).rstrip() + "\n"


def _cell(results: Results, before: Document, ranks: str, name: str) -> str:
    pair = [results.get((machine, ranks, name)) for machine in ("simulated", "real")]
    star = "*" if is_sampled(int(ranks), name) else ""
    texts = [
        kept if one is None else "-" if one.end else f"{one.passed}{star}"
        for one, kept in zip(pair, before.cells.get((ranks, name), ["", ""]), strict=True)
    ]
    return texts[0] if texts[0] == texts[1] else " / ".join(texts)
