"""Results: points and feedback for each check, and their sum."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from labkit.text.rank_output import clean

__all__ = ["CheckResult", "Marks", "Verdict", "clean_name", "file_stem"]


@dataclass(frozen=True)
class Verdict:
    """What one check found.

    Attributes
    ----------
    score : float
        Between 0 and 1.
    feedback : str
        What was expected, what arrived, on which smallest case.
    hint : str
        Where to look.
    """

    score: float
    feedback: str
    hint: str = ""


@dataclass(frozen=True)
class CheckResult:
    """One line of a grade.

    Attributes
    ----------
    name, title : str
    points, max_points : float
    is_bonus : bool
        Its points come on top.
    feedback, hint : str
    """

    name: str
    title: str
    points: float
    max_points: float
    feedback: str
    hint: str = ""
    is_bonus: bool = False

    def __post_init__(self) -> None:
        for name in ("feedback", "hint"):  # they quote what a submission has printed or raised
            object.__setattr__(self, name, clean(getattr(self, name)))

    @property
    def status(self) -> str:
        """Whether it is passed, partial or failed."""
        if self.points >= self.max_points:
            return "passed"
        return "partial" if self.points > 0 else "failed"


@dataclass
class Marks:
    """The marks of one submission: a `labkit.grading.page.Grade` but for how it is shown.

    Attributes
    ----------
    student, assignment : str
    results : list of CheckResult
    status : str
        "graded"; or "ungraded" when the grader itself failed: `message` shows why, a teacher must look.
    message : str
    containment : str
        What stood around the submission while it ran.
    seed : int
        The student's own, from which all inputs come.
    seconds : float
        What grading took.
    attempts : list of str
        What the submission's processes said that they asked for and ranks are not given.
    """

    student: str
    assignment: str
    results: list[CheckResult] = field(default_factory=list)
    status: str = "graded"
    message: str = ""
    containment: str = ""
    seed: int = 0
    seconds: float = 0.0
    attempts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.student, self.message = clean_name(self.student), clean(self.message)
        self.attempts = [clean(one) for one in self.attempts]

    @property
    def points(self) -> float:
        """The points reached, bonus included."""
        return round(sum(result.points for result in self.results), 6)

    @property
    def bonus(self) -> float:
        """The points reached in bonus checks."""
        return round(sum(result.points for result in self.results if result.is_bonus), 6)

    @property
    def max_points(self) -> float:
        """The points of all checks but bonus ones."""
        return round(sum(result.max_points for result in self.results if not result.is_bonus), 6)

    @property
    def is_full(self) -> bool:
        """Whether every check but bonus ones was passed."""
        wanted = [result for result in self.results if not result.is_bonus]
        return self.status == "graded" and bool(wanted) and all(r.status == "passed" for r in wanted)

    def to_dict(self) -> dict[str, Any]:
        """Return the grade as plain data."""
        rows = [{**asdict(result), "status": result.status} for result in self.results]
        return {
            "student": self.student,
            "assignment": self.assignment,
            "status": self.status,
            "message": self.message,
            "points": self.points,
            "max_points": self.max_points,
            "checks": rows,
            "containment": self.containment,
            "seed": self.seed,
            "seconds": round(self.seconds, 3),
            "attempts": [clean(one) for one in self.attempts],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` gave."""
        results = [CheckResult(**{k: v for k, v in row.items() if k != "status"}) for row in data["checks"]]
        names = ("student", "assignment", "status", "message", "containment", "seed", "seconds")
        return cls(results=results, attempts=data["attempts"], **{name: data[name] for name in names})

    def to_json(self) -> str:
        """Return the grade as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)


# Texts of submissions made fit to be shown, stored and sent.


#: bytes of a file's name that leave room for endings: file systems allow 255
_MOST_STEM_BYTES = 180


def clean_name(name: str) -> str:
    r"""Return a name on one line, with what is not printable written as an escape: other names stay others.

    Examples
    --------
    >>> clean_name("ada\neve")
    'ada\\neve'
    """
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)


def file_stem(name: str) -> str:
    """Return a name's file name without its ending: short enough for every file system, in this folder."""
    stem = name.replace("/", "_").replace("\0", "_")
    if len(stem.encode(errors="replace")) <= _MOST_STEM_BYTES and not stem.startswith("."):
        return stem
    mark = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:12]
    return f"{stem.lstrip('.')[:40]}-{mark}"
