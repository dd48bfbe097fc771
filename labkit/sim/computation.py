"""The measured computation of many runs: of a study's points, or in a file.

A study keeps the computation of all its points (`labkit.result.computation.Computation`), and so does a file
(``compute="recorded:pi.json"``): what is in it is replayed, what is not is measured and added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labkit.errors import DataError, MachineError
from labkit.plain import replace_file
from labkit.process.fingerprint import fingerprint
from labkit.process.imports import program_digests
from labkit.request import RunRequest
from labkit.result.computation import Computation

__all__ = ["MOST_BYTES", "Records"]

_FORMAT = "labkit computation 1"
#: what a study keeps at most, packed
MOST_BYTES = 32 << 20


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
        try:
            replace_file(self.path, json.dumps({"format": _FORMAT, "runs": self.kept}, indent=0))
        except OSError as error:
            raise DataError(f"{self.path!r} cannot be written: {error.strerror or error}") from None


def _content(program: Any) -> Any:
    """Return what a program is: of a script, its text and the modules that it imports."""
    return program_digests(program) if isinstance(program, Path) else program
