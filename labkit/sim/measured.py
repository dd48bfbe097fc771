"""Computation by the host's clock: what a rank's own code takes here is what it takes there, scaled.

A program that charges nothing computes in no time. With ``compute="measured"`` the CPU time that this
process spends in a rank's code between two calls of MPI is charged to that rank instead (wall-clock time
would count the other processes of this machine). This machine counts as a host of `REFERENCE_FLOPS_PER_S`,
as the calibrated one does, so that a simulated host of twice that speed takes half the time.

Such a run is never quite the same twice; it says so, and keeps what it has measured, to be charged again to
the bit (`labkit.sim.computation`): ``compute=run``, ``compute=study``, ``compute="recorded:FILE"``. What
labkit itself does inside a call of MPI before the rank waits is charged, too: some microseconds a call.
`labkit.local` then charges nothing itself, as its work is done and measured; `labkit.compute` still
charges the given times.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.errors import DataError, MachineError, nearest
from labkit.process.fingerprint import fingerprint
from labkit.process.imports import program_digests
from labkit.request import RunRequest
from labkit.result.computation import Computation
from labkit.text.files import json_of, replace_file, text_of

__all__ = [
    "MOST_BYTES",
    "NOTE",
    "RECORDED",
    "REFERENCE_FLOPS_PER_S",
    "REPLAYED",
    "UNREPEATED",
    "Measured",
    "Records",
    "measured_of",
]


#: the speed that a simulated host must have for measured work to take as long there as here
REFERENCE_FLOPS_PER_S = 1e9
NOTE = "computation was measured on this host: not deterministic; compute=run repeats it to the bit"
UNREPEATED = (
    "computation was measured on this host: not deterministic; that of spawned ranks cannot be charged again"
)
RECORDED = (
    "computation was measured on this host, and is kept: compute=study, or the file, repeats it to the bit"
)
REPLAYED = "computation was charged as it had been recorded: nothing was measured"


@dataclass(frozen=True)
class Measured:
    """How computation is charged.

    Attributes
    ----------
    scale : float
        Factor of every measured time, > 0: 0.5 for a simulated host twice as fast as this one.
    is_everything : bool
        Whether all of the ranks' code is measured, or only what `labkit.sampled` marks.
    records : Records, optional
        Where computation is kept, and found instead of being measured.
    replay : Computation, optional
        What is charged instead of what is measured.
    """

    scale: float = 1.0
    is_everything: bool = True
    records: Records | None = None
    replay: Computation | None = None

    def __post_init__(self) -> None:
        """Refuse a scale that no host has."""
        is_number = isinstance(self.scale, int | float) and not isinstance(self.scale, bool)
        if not is_number or not 0 < self.scale < math.inf:
            raise MachineError(
                f"measured computation needs a finite scale > 0, got {self.scale!r}", code="out-of-range"
            )

    @property
    def flops_per_cpu_s(self) -> float:
        """Operations that a second of this host's CPU time stands for."""
        return REFERENCE_FLOPS_PER_S * self.scale


_ALLOWED = (
    'allowed: "charged", "measured", "measured:FACTOR", "recorded:FILE", or a run or study whose computation '
    "was measured"
)


def measured_of(compute: object) -> Measured:
    """Read the option `compute` of a run.

    Examples
    --------
    >>> measured_of("measured:0.5").scale, measured_of("charged").is_everything
    (0.5, False)
    """
    if isinstance(compute, Measured):
        return compute
    if isinstance(compute, str):
        return _from_words(compute)
    kept = (
        compute if isinstance(compute, Computation | Records) else getattr(compute, "computation", _ALLOWED)
    )
    if kept is None or (isinstance(kept, Records) and not kept):
        raise MachineError(
            f"this {type(compute).__name__} has no recorded computation: it was not measured; "
            'make it with compute="measured"',
            code="not-recorded",
        )
    if isinstance(kept, Computation):
        return Measured(kept.scale, replay=kept)
    if isinstance(kept, Records):
        return Measured(records=kept)
    raise MachineError(f"compute={compute!r} is not known; {_ALLOWED}", code="unknown-name")


def _from_words(compute: str) -> Measured:
    word, colon, rest = compute.partition(":")
    if word == "recorded":
        return Measured(records=Records.at(os.path.expanduser(rest)))
    if word not in ("charged", "measured"):
        meant = nearest(word, ("charged", "measured", "recorded"))
        raise MachineError(f"compute={compute!r} is not known{meant}; {_ALLOWED}", code="unknown-name")
    try:
        return Measured(float(rest) if colon else 1.0, word == "measured")
    except ValueError:
        raise MachineError(
            f"compute={compute!r}: {rest!r} is not a number; {_ALLOWED}", code="malformed-value"
        ) from None


# The measured computation of many runs: of a study's points, or in a file.
#
# A study keeps the computation of all its points (`labkit.result.computation.Computation`), and so does a
# file (``compute="recorded:pi.json"``): what is in it is replayed, what is not is measured and added.


_FORMAT = "labkit computation 1"
#: what a study keeps at most, packed
MOST_BYTES = 32 << 20


class Records:
    """The computation of many runs, found by what the program was given; in a file, if it has one.

    `kept`: As `plain` returned it.
    `path`: A file that contains them; further measurements are added to it.
    `is_closed`: Whether nothing may be measured that is not there.
    """

    def __init__(
        self, kept: Mapping[str, object] | None = None, path: str | None = None, is_closed: bool = False
    ) -> None:
        self.kept: dict[str, Any] = dict(kept or {})
        self.path, self.is_closed = path, is_closed

    @classmethod
    def at(cls, path: str) -> Records:
        """Return those of a file, which may not be there yet.

        Raises DataError: The file holds something else, or its folder is not there.
        """
        if not path:
            raise MachineError(
                'compute="recorded:FILE" needs the name of a file, as in "recorded:pi.json"',
                code="missing-key",
            )
        file = Path(path)
        if not file.parent.is_dir():
            raise DataError(
                f"{path!r} cannot be written: its folder is not there; make it first", code="unwritable-file"
            )
        if not file.exists():
            return cls(path=path)
        try:
            read = json_of(text_of(file))
        except ValueError as error:
            raise DataError(
                f"{path!r} cannot be read as recorded computation: {error}", code="unreadable-file"
            ) from None
        if (
            not isinstance(read, dict)
            or read.get("format") != _FORMAT
            or not isinstance(read.get("runs"), dict)
        ):
            raise DataError(
                f"{path!r} holds no recorded computation; name a new file, or one labkit has made",
                code="malformed-file",
            )
        return cls(read["runs"], path)

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def packed_bytes(self) -> int:
        """How much they are, packed."""
        return sum(len(one["ns"]) for one in self.kept.values())

    def key(self, request: RunRequest) -> str:
        """Return the name of a run: what was given to the program, then where it ran."""
        given = fingerprint(list(request.args), dict(request.kwargs))
        program = f" program={fingerprint(_content(request.program))}" if self.path else ""
        model = getattr(request.model, "name", request.model)
        return (
            f"ranks={request.ranks} seed={request.seed} given={given}{program} "
            f"on={request.on.spec} model={model} mapping={request.on.mapping}"
        )

    def find(self, key: str) -> Computation | None:
        """Return a run's computation; where none was kept of this machine, that of another one.

        Raises MachineError: There is none, and none may be measured.
        """
        form = self.kept.get(key)
        if form is None:
            program = key.partition(" on=")[0] + " on="
            form = next((one for name, one in self.kept.items() if name.startswith(program)), None)
        if form is not None:
            return Computation.unpacked(form)
        if self.is_closed:
            raise MachineError(
                "no computation was recorded for these ranks, parameters and seed "
                f"({key.partition(' given=')[0]}); "
                'sweep again with compute="measured", or leave this point out',
                code="not-comparable",
            )
        return None

    def keep(self, key: str, computation: Computation) -> None:
        """Keep a run's computation, in the file as well.

        Raises DataError: The file cannot be written.
        """
        self.kept[key] = computation.packed()
        if self.path is None:
            return
        try:
            replace_file(self.path, json.dumps({"format": _FORMAT, "runs": self.kept}, indent=0))
        except OSError as error:
            raise DataError(
                f"{self.path!r} cannot be written: {error.strerror or error}", code="unwritable-file"
            ) from None


def _content(program: object) -> Any:
    """Return what a program is: of a script, its text and the modules that it imports."""
    return program_digests(program) if isinstance(program, Path) else program
