"""Measured computation, kept: what each rank spent between its calls, to be charged again to the bit.

A program that computes measures something else in every run. What a run has measured is its
`Run.computation`; a run that is given it (``compute=run``) charges each stretch again, in the order of the
rank's calls, and so takes the same simulated time to the last bit: tomorrow, on another computer, on another
machine. A study keeps the computation of all its points (`Records`), and so does a file
(``compute="recorded:pi.json"``): what is in it is replayed, what is not is measured and added.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labkit.errors import DataError, MachineError
from labkit.process.fingerprint import fingerprint
from labkit.request import RunRequest

__all__ = ["Computation", "Records"]

_FORMAT = "labkit computation 1"
#: what a study keeps at most, packed; and what the packed form of one run may grow to
MOST_BYTES, _MOST_UNPACKED = 32 << 20, 1 << 30


class Computation:
    """What the ranks of one run have computed.

    Parameters
    ----------
    stretches : sequence of ndarray
        For each rank (n_calls,) int64: nanoseconds of CPU time between its calls of MPI.
    scale : float
        Simulated seconds for each of them.

    Examples
    --------
    >>> kept = Computation([np.array([2_000_000]), np.array([500_000, 1_000_000])])
    >>> kept.ranks, round(kept.total_s, 6), Computation.unpacked(kept.packed()) == kept
    (2, 0.0035, True)
    """

    def __init__(self, stretches: Sequence[Any], scale: float = 1.0) -> None:
        self.stretches = [np.ascontiguousarray(one, dtype=np.int64) for one in stretches]
        self.scale = float(scale)

    @property
    def ranks(self) -> int:
        """How many ranks there were."""
        return len(self.stretches)

    @property
    def rank_seconds(self) -> np.ndarray[Any, Any]:
        """(ranks,) seconds: what each rank is charged."""
        return np.array([1e-9 * float(one.sum()) * self.scale for one in self.stretches])

    @property
    def total_s(self) -> float:
        """What all ranks together are charged, s."""
        return float(self.rank_seconds.sum())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Computation):
            return NotImplemented
        return self.scale == other.scale and [one.tobytes() for one in self.stretches] == [
            one.tobytes() for one in other.stretches
        ]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Computation({self.ranks} ranks, {self.total_s:.6g} s)"

    def packed(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        data = b"".join(one.astype("<i8").tobytes() for one in self.stretches)
        return {
            "calls": [len(one) for one in self.stretches],
            "scale": self.scale,
            "ns": base64.b64encode(zlib.compress(data, 6)).decode("ascii"),
        }

    @classmethod
    def unpacked(cls, form: Mapping[str, Any]) -> Computation:
        """Read what `packed` returned.

        Raises
        ------
        DataError
            It is something else.
        """
        try:
            counts = [int(one) for one in form["calls"]]
            most = 8 * sum(counts)
            if min(counts, default=0) < 0 or most > _MOST_UNPACKED:
                raise ValueError("too many calls")
            data = zlib.decompressobj().decompress(base64.b64decode(form["ns"], validate=True), most + 1)
            values = np.frombuffer(data, "<i8")
            if len(values) != sum(counts):
                raise ValueError("the numbers of calls and of values differ")
            return cls(np.split(values, np.cumsum(counts)[:-1]), float(form["scale"]))
        except (KeyError, TypeError, ValueError, binascii.Error, zlib.error) as error:
            raise DataError(f"this is no recorded computation of labkit's: {error}") from None


class Records:
    """The computation of many runs, found by what the program was given; in a file, if it has one.

    Parameters
    ----------
    kept : mapping, optional
        As `plain` returned it.
    path : str, optional
        A file that holds them, and gets what is measured besides.
    is_closed : bool
        Whether nothing may be measured that is not there.
    """

    def __init__(
        self, kept: Mapping[str, Any] | None = None, path: str | None = None, is_closed: bool = False
    ) -> None:
        self.kept: dict[str, Any] = dict(kept or {})
        self.path, self.is_closed = path, is_closed

    @classmethod
    def at(cls, path: str) -> Records:
        """Return those of a file, which may not be there yet.

        Raises
        ------
        DataError
            The file holds something else, or its folder is not there.
        """
        if not path:
            raise MachineError('compute="recorded:FILE" needs the name of a file, as in "recorded:pi.json"')
        file = Path(path)
        if not file.parent.is_dir():
            raise DataError(f"{path!r} cannot be written: its folder is not there; make it first")
        if not file.exists():
            return cls(path=path)
        try:
            read = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path!r} cannot be read as recorded computation: {error}") from None
        if (
            not isinstance(read, dict)
            or read.get("format") != _FORMAT
            or not isinstance(read.get("runs"), dict)
        ):
            raise DataError(
                f"{path!r} holds no recorded computation; name a new file, or one labkit has made"
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

        Raises
        ------
        MachineError
            There is none, and none may be measured.
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
                'sweep again with compute="measured", or leave this point out'
            )
        return None

    def keep(self, key: str, computation: Computation) -> None:
        """Keep a run's computation, in the file as well.

        Raises
        ------
        DataError
            The file cannot be written.
        """
        self.kept[key] = computation.packed()
        if self.path is None:
            return
        part = f"{self.path}.{os.getpid()}.part"
        try:
            Path(part).write_text(json.dumps({"format": _FORMAT, "runs": self.kept}, indent=0), "utf-8")
            os.replace(part, self.path)
        except OSError as error:
            raise DataError(f"{self.path!r} cannot be written: {error.strerror or error}") from None


def _content(program: Any) -> Any:
    """Return what a program is: of a script, its text."""
    return program.read_bytes() if isinstance(program, Path) else program
