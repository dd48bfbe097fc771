"""Progress of real ranks while they run: what they have printed, who has finished, their calls."""

from __future__ import annotations

import codecs
from pathlib import Path

from labkit.live import Lines
from labkit.process.tree import is_stopped
from labkit.process.whereabouts import whereabouts
from labkit.real.mpi.waits import read_head

__all__ = ["Progress"]

#: of a rank's output that is read at a time
_MOST_BYTES = 1 << 16


class Progress:
    """Looks into the files of a launch.

    Parameters
    ----------
    directory : str
    ranks : int
    has_calls : bool
        Whether each blocking call is noted, not only waits that last.
    """

    def __init__(self, directory: str, ranks: int, has_calls: bool = True) -> None:
        self._has_calls = has_calls
        self._folder, self._ranks = Path(directory), ranks
        self._lines = Lines()
        self._read = [0] * ranks
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(ranks)]

    def lines(self) -> list[str]:
        """Return the last lines that the ranks have printed."""
        for rank in range(self._ranks):
            try:
                with open(self._folder / f"rank-{rank}.out", "rb") as file:
                    file.seek(max(self._read[rank], file.seek(0, 2) - _MOST_BYTES))
                    new = file.read()
                    self._read[rank] = file.tell()
            except OSError:
                continue
            if new:
                self._lines.add(rank, self._decoders[rank].decode(new))
        return self._lines.texts()

    def status(self) -> str:
        """Say who has finished, and how many blocking calls of MPI there were."""
        done = sum((self._folder / f"rank-{rank}.done").exists() for rank in range(self._ranks))
        heads = [read_head(self._folder / f"rank-{rank}.wait") for rank in range(self._ranks)]
        calls = sum(head.epoch // 2 for head in heads if head is not None)
        waiting = sum(head.is_waiting for head in heads if head is not None) if done < self._ranks else 0
        wait = "rank waits" if waiting == 1 else "ranks wait"
        said = f"{waiting} {wait}" if any(heads) or not self._has_calls else "starting"
        if any(heads) and self._has_calls:
            said = f"{calls:,} blocking calls of MPI, {said}"
        if stopped := sum(self._is_stopped(rank) for rank in range(self._ranks)):
            said += f", {stopped} stopped by a signal"
        return f"{said}, {done} of {self._ranks} ranks have finished"

    def _is_stopped(self, rank: int) -> bool:
        try:
            pid, _, table = (self._folder / f"rank-{rank}.pid").read_text().partition(" ")
            return table in ("", whereabouts()["table"]) and is_stopped(int(pid))
        except (OSError, ValueError):
            return False
