"""What a run of mpi4py's test runner came to, read from what its ranks printed."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Outcome"]

_FAULT = re.compile(r"^(?:FAIL|ERROR): (\w+) \((\S+?)\)", re.MULTILINE)
#: at the end of an error of a rank that was ended because another one had failed
_ENDED = re.compile(r"^(?:[\w.]*\.)?RunEnded\b", re.MULTILINE)
_RAN = re.compile(r"^Ran (\d+) tests? in", re.MULTILINE)
_SKIPPED = re.compile(r"skipped=(\d+)")
_LEFT_OUT = re.compile(r"^\w+ \((\S+?)\)(?: \.\.\.|\n.*\.\.\.) skipped ", re.MULTILINE)


@dataclass
class Outcome:
    """One file of the suite on so many ranks.

    Attributes
    ----------
    ran, skipped : int
        Tests, at the rank that had most of them.
    failed : list of str
        Tests that failed at any rank.
    left_out : list of str
        Tests that a rank has skipped, as far as ranks that print at once let them be read.
    end : str
        How the run ended when not all ranks came to the end of the file; empty otherwise.
    """

    ran: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)
    end: str = ""
    left_out: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, printed: str, ranks: int, ended: str) -> Outcome:
        """Read it.

        Parameters
        ----------
        printed : str
            Of all ranks.
        ranks : int
        ended : str
            What the command says besides: its time limit, or its last line.
        """
        runs = [int(number) for number in _RAN.findall(printed)]
        failed = sorted(_failed(printed))
        skipped = max(map(int, _SKIPPED.findall(printed)), default=0)
        # a rank that has come to the end of a file with faults ends the others, and so does the time limit
        is_over = len(runs) >= ranks or (runs and failed and "time limit" not in ended)
        end = "" if is_over else ended or "died"
        return cls(max(runs, default=0), skipped, failed, end, sorted(set(_LEFT_OUT.findall(printed))))

    @classmethod
    def of_parts(cls, parts: list[Outcome]) -> Outcome:
        """Return what the parts of a file come to that were run one by one."""
        end = next((part.end for part in parts if part.end), "")
        ran, skipped = sum(part.ran for part in parts), sum(part.skipped for part in parts)
        failed = sorted(test for part in parts for test in part.failed)
        return cls(ran, skipped, failed, end, sorted(test for part in parts for test in part.left_out))

    @property
    def is_whole(self) -> bool:
        """Whether all tests ran and none failed."""
        return not self.failed and not self.end

    @property
    def passed(self) -> int:
        """Tests that passed; 0 for a run that did not come to its end."""
        return 0 if self.end else self.ran - self.skipped - len(self.failed)

    def as_dict(self) -> dict[str, Any]:
        """Return it for a file."""
        return asdict(self)


def _failed(printed: str) -> set[str]:
    """Return the tests that failed, without those in which a rank was when another one ended the run."""
    found = list(_FAULT.finditer(printed))
    ends = [fault.start() for fault in found[1:]] + [len(printed)] * bool(found)
    reports = [
        printed[fault.start() : end].split("\n---")[:2] for fault, end in zip(found, ends, strict=True)
    ]
    return {
        fault.group(2) for fault, report in zip(found, reports, strict=True) if not _ENDED.search(report[-1])
    }
