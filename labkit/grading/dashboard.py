"""A page for the teacher about a class: points, checks that fail most, what was asked for, what is alike."""

from __future__ import annotations

import io
import itertools
import keyword
import re
import tokenize
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from labkit.errors import DataError
from labkit.grading.assignment import Assignment
from labkit.grading.folder import Found
from labkit.grading.page import Grade, number
from labkit.grading.result import clean_name
from labkit.grading.submission import read_submission
from labkit.process.limited import limited
from labkit.text.files import replace_file
from labkit.text.html import render
from labkit.text.rank_output import clean

__all__ = ["Alike", "Pair", "dashboard", "similar", "write_dashboard"]

#: what of the notes on attempts is the grader's, a solution's or another process's, and not just a file
_GRADERS = re.compile(
    r"grading|algorithms|solution|course|\.ipynb|labkit-|/proc|/sys|/etc|/root|/home|\.\.|frames|"
    r"objects of the|memory|traces|watches|signal|process|program"
)
_MOST_ROWS = 100


def dashboard(
    grades: Sequence[Grade],
    assignment: Assignment,
    submissions: Mapping[str, Found] | None = None,
    given: Sequence[str] = (),
) -> str:
    """Return a page of HTML about a class, without scripts and links.

    `submissions`: The files that were graded: they are compared with each other.
    `given`: Sources that everybody was given.
    """
    graded = [grade for grade in grades if grade.status == "graded"]
    alike = similar(_sources(submissions or {}, assignment), given)
    return render(
        "grading/templates/dashboard.html.j2",
        assignment=assignment,
        most=number(assignment.max_points),
        count=len(grades),
        points=_points(graded, assignment),
        checks=_checks(graded, assignment),
        causes=_causes(graded),
        attempts=_attempts(grades),
        alike=alike,
        has_sources=submissions is not None,
        percent=lambda share: f"{share:.0%}",
        ungraded=[(grade.student, grade.message) for grade in grades if grade.status != "graded"],
        students=sorted(graded, key=lambda grade: (-grade.points, grade.student)),
        number=number,
    )


def write_dashboard(
    path: Path,
    grades: Sequence[Grade],
    assignment: Assignment,
    submissions: Mapping[str, Found],
    given: Sequence[str] = (),
) -> None:
    """Write the page.

    Raises OSError.
    """
    replace_file(path, dashboard(grades, assignment, submissions, given))


def _sources(submissions: Mapping[str, Found], assignment: Assignment) -> dict[str, str]:
    found = {}
    for student, path in submissions.items():
        try:
            if isinstance(path, Path):
                found[clean_name(student)] = read_submission(path, assignment.functions)
        except DataError:  # it has its own feedback
            continue
    return found


def _points(grades: Sequence[Grade], assignment: Assignment) -> dict[str, Any]:
    """Return mean, median and how many submissions reach each tenth of the points."""
    reached = [grade.points for grade in grades]
    if not reached:
        return {"bars": []}
    most = assignment.max_points or 1.0
    tenths = Counter(min(int(10 * points / most), 10) for points in reached)
    highest = max(tenths.values())
    bars = [
        {
            "label": f"{10 * t} %" if t == 10 else f"{10 * t} to {10 * t + 9} %",
            "count": tenths[t],
            "width": round(100 * tenths[t] / highest),
        }
        for t in range(11)
    ]
    return {"bars": bars, "mean": number(mean(reached)), "median": number(median(reached))}


def _checks(grades: Sequence[Grade], assignment: Assignment) -> list[dict[str, Any]]:
    """Return for each check how many failed it, the most failed first."""
    rows = []
    for check in assignment.checks:
        status = Counter(r.status for grade in grades for r in grade.results if r.name == check.name)
        total = sum(status.values())
        share = status["failed"] / total if total else 0.0
        rows.append(
            {
                "title": check.title,
                "name": check.name,
                "is_bonus": check.is_bonus,
                "total": total,
                "failed": status["failed"],
                "partial": status["partial"],
                "passed": status["passed"],
                "share": share,
            }
        )
    return sorted(rows, key=lambda row: (row["is_bonus"], -row["share"], row["name"]))


def _causes(grades: Sequence[Grade]) -> list[tuple[str, int, list[str]]]:
    """Return what is said at the first checks that are not passed, without numbers."""
    students: dict[str, list[str]] = {}
    for grade in grades:
        failed = next((r for r in grade.results if r.status != "passed" and not r.is_bonus), None)
        if failed is not None:
            students.setdefault(_cause(failed.feedback), []).append(grade.student)
    rows = sorted(students.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(cause, len(names), names[:12]) for cause, names in rows[:12]]


def _cause(feedback: str) -> str:
    """Return the sentence that a piece of feedback begins with, without its case, numbers and values."""
    lines = feedback.partition("\nprinted by the program:")[0].splitlines() or [""]
    first = re.sub(r"^(Smallest failing case: .*?|Right in all \d+ cases, [^:]*): ", "", lines[0])
    raised = [line for line in lines if re.match(r"[A-Za-z_.]*(Error|Exception|Exit|Interrupt)\b", line)]
    if "raised an exception" in first and raised:
        first = f"{first.rstrip(':')}: {raised[-1]}"
    elif first.endswith(":"):
        # A head alone says too little: deadlocks differ by the calls that ranks wait in.
        waits = (re.match(r"  rank \d+: (\w+)", line) for line in lines)
        calls = sorted({found[1] for found in waits if found})
        if calls:
            first = f"{first} ranks wait in {', '.join(calls)}"
        elif lines[1:2] != ["Traceback (most recent call last):"]:  # everybody's is another one
            first = f"{first} {_sentence(lines[1:])}"
        first = first.rstrip(" :")
    first = re.sub(r"\[.*", "...", re.sub(r" \(rank \d+ of \d+\)", "", first))
    return clean(re.sub(r"\d[\d.,e+-]*", "#", first))[:160]


def _sentence(lines: Sequence[str]) -> str:
    """Return the first sentence of lines that were broken somewhere."""
    text = " ".join(line.strip() for line in itertools.takewhile(lambda line: line[:2] != "  ", lines))
    return text.partition(". ")[0]


def _attempts(grades: Sequence[Grade]) -> list[dict[str, Any]]:
    """Return who asked for what ranks are not given; those that look for the grader first."""
    rows = []
    for grade in grades:
        telling = [note for note in grade.attempts if _GRADERS.search(note)]
        other = [note for note in grade.attempts if note not in telling]
        if telling or other:
            rows.append(
                {"student": grade.student, "telling": telling, "other": other, "points": number(grade.points)}
            )
    return sorted(rows, key=lambda row: (not row["telling"], row["student"]))[:_MOST_ROWS]


_PASSAGE, _WINDOW = 12, 6
#: a passage shared by this share of the class, and by at least this number, belongs to the task
_COMMON_SHARE, _COMMON_LEAST = 0.4, 4
#: sources with fewer distinct passages than this are not compared
_FEWEST = 12
_SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
_MOST_TOKENS = 20_000


@dataclass(frozen=True)
class Pair:
    """Two submissions that share passages.

    `share`: Of the shorter one's passages, how many are in the other one: 0 to 1.
    `passages`: How many are shared.
    `longest`: Tokens in the longest passage that both have.
    `lines`: Where it is in each, first and last line.
    """

    students: tuple[str, str]
    share: float
    passages: int
    longest: int
    lines: tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Alike:
    """What a comparison of a class has found.

    `pairs`: The most alike first.
    `usual`: The median share of all pairs: what is normal for this task and class.
    `compared`, `short`: How many submissions were compared, and how many are too short for it.
    `threshold`: From which share on a pair is listed.
    """

    pairs: list[Pair]
    usual: float
    compared: int
    short: int
    threshold: float


def similar(sources: Mapping[str, str], given: Sequence[str] = (), threshold: float = 0.6) -> Alike:
    """Compare all pairs of submissions.

    `sources`: Python source by student.
    `given`: Sources that everybody has: the notebook that was given out.
    `threshold`: The smallest share that is listed.
    """
    tokens = {student: _tokens_of(source) for student, source in sources.items()}
    prints = {student: _fingerprints([kind for kind, _ in own]) for student, own in tokens.items()}
    known = set().union(*(_all_passages([kind for kind, _ in _tokens(source)]) for source in given), set())
    counts = Counter(one for own in prints.values() for one in own)
    most = max(_COMMON_SHARE * len(prints), _COMMON_LEAST)
    own = {
        student: {p for p in found if p not in known and counts[p] <= most}
        for student, found in prints.items()
    }
    compared = {student: found for student, found in own.items() if len(found) >= _FEWEST}
    shares: list[float] = []
    listed: list[tuple[float, int, str, str]] = []
    for one, other in itertools.combinations(sorted(compared), 2):
        both = len(compared[one] & compared[other])
        shares.append(both / min(len(compared[one]), len(compared[other])))
        if shares[-1] >= threshold:
            listed.append((shares[-1], both, one, other))
    listed.sort(key=lambda row: (-row[0], row[2], row[3]))
    pairs = []
    for share, both, one, other in listed[:200]:
        longest, lines = _longest(tokens[one], tokens[other])
        pairs.append(Pair((one, other), share, both, longest, lines))
    usual = median(shares) if shares else 0.0
    return Alike(pairs, usual, len(compared), len(own) - len(compared), threshold)


def _tokens_of(source: str) -> list[tuple[str, int]]:
    """Return the tokens of an untrusted source; none where they are not found within the limits."""
    try:
        return [(kind, line) for kind, line in limited(_tokens, source)]
    except DataError:
        return []


def _tokens(source: str) -> list[tuple[str, int]]:
    """Return kind and line of each token; of a source that is no Python as many as there are."""
    found: list[tuple[str, int]] = []
    is_statement_begin = True
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in _SKIPPED:
                continue
            if token.type == tokenize.STRING and is_statement_begin:
                continue  # a docstring
            is_statement_begin = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
            found.append((_kind(token), token.start[0]))
            if len(found) >= _MOST_TOKENS:
                break
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass
    return found


def _kind(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME:
        return token.string if keyword.iskeyword(token.string) else "name"
    if token.type in (tokenize.NUMBER, tokenize.STRING):
        return "value"
    if token.type in (tokenize.OP, tokenize.ERRORTOKEN):
        return token.string
    return tokenize.tok_name[token.type]


def _all_passages(kinds: list[str]) -> list[int]:
    text = [zlib.crc32(kind.encode(errors="replace")) for kind in kinds]
    return [hash(tuple(text[at : at + _PASSAGE])) for at in range(len(text) - _PASSAGE + 1)]


def _fingerprints(kinds: list[str]) -> set[int]:
    passages = _all_passages(kinds)
    return {min(passages[at : at + _WINDOW]) for at in range(max(len(passages) - _WINDOW + 1, 0))}


def _longest(
    one: list[tuple[str, int]], other: list[tuple[str, int]]
) -> tuple[int, tuple[tuple[int, int], tuple[int, int]]]:
    """Return the tokens of the longest passage that both have, the first of these, and its lines in each.

    A table of thousands of equal tokens must not hold up the class, so no pair of tokens is looked at: the
    passages of 1, 2, 4, ... tokens get numbers, the same for equal ones, and the longest one is put together.
    """
    numbers: dict[str, int] = {}
    mine, theirs = (
        np.array([numbers.setdefault(kind, len(numbers)) for kind, _ in own], np.int64)
        for own in (one, other)
    )
    levels = [(mine, theirs)]
    while min(map(len, levels[-1])) > (width := 1 << (len(levels) - 1)):
        levels.append(_numbered([(own[:-width], own[width:]) for own in levels[-1]]))
    size, found = 0, (np.zeros(len(one) + 1, np.int64), np.zeros(len(other) + 1, np.int64))
    for nth, level in reversed(list(enumerate(levels))):
        if min(map(len, level)) <= size:
            continue
        rest = [own[size:] for own in level]
        longer = _numbered([(own[: len(more)], more) for own, more in zip(found, rest, strict=True)])
        if np.isin(longer[0], longer[1]).any():
            size, found = size + (1 << nth), longer
    if not size:
        return 0, ((0, 0), (0, 0))
    at = int(np.flatnonzero(np.isin(found[0], found[1]))[0])
    there = int(np.flatnonzero(found[1] == found[0][at])[0])
    return size, ((one[at][1], one[at + size - 1][1]), (other[there][1], other[there + size - 1][1]))


def _numbered(pairs: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return for each sequence of pairs of numbers a number for each pair, equal for equal ones in both."""
    joined = [np.concatenate(part) for part in zip(*pairs, strict=True)]
    which = np.unique(joined[0] * (int(joined[1].max(initial=0)) + 1) + joined[1], return_inverse=True)[1]
    return which[: len(pairs[0][0])], which[len(pairs[0][0]) :]
