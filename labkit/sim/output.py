"""Standard output and error of simulated ranks, kept apart rank by rank."""

from __future__ import annotations

import io
import sys
from types import TracebackType
from typing import Any, TextIO

from labkit import _kernels
from labkit.errors import MachineError

__all__ = ["OUTPUT_LIMIT", "RankOutput"]

#: characters that all ranks together may print: they are kept in memory
OUTPUT_LIMIT = 200_000_000


class _Stream(io.TextIOBase):
    """A text stream that files what the running rank writes; the hub's own text goes through."""

    def __init__(self, output: RankOutput, through: TextIO) -> None:
        self._output = output
        self._through = through
        self.buffer = _Bytes(self)

    def write(self, text: str) -> int:
        rank = _kernels.current_rank()
        if rank < 0:
            return self._through.write(text)
        self._output.add(rank, text)
        return len(text)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        # At its end Python flushes a stream that is given up, maybe after the one behind it was closed.
        if _kernels.current_rank() < 0 and not getattr(self._through, "closed", False):
            self._through.flush()

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._through.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._through, "encoding", None) or "utf-8"


class _Bytes(io.RawIOBase):
    """The `buffer` of a stream: bytes are filed as the text they are."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._stream.write(bytes(data).decode("utf-8", "replace"))
        return len(data)


class RankOutput:
    """Context in which standard output and error of simulated ranks are kept.

    Parameters
    ----------
    ranks : int
    """

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._texts: dict[int, list[str]] = {}
        self._left = OUTPUT_LIMIT
        self._before: tuple[Any, Any] | None = None

    def __enter__(self) -> RankOutput:
        self._before = sys.stdout, sys.stderr
        sys.stdout = _Stream(self, sys.stdout)
        sys.stderr = _Stream(self, sys.stderr)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            sys.stdout, sys.stderr = self._before

    def add(self, rank: int, text: str) -> None:
        """File what a rank printed.

        Raises
        ------
        MachineError
            All ranks together have printed too much.
        """
        self._left -= len(text)
        if self._left < 0:
            raise MachineError(
                f"the ranks printed more than {OUTPUT_LIMIT:,} characters, all kept in memory; print less"
            )
        if not text.isascii():  # a lone surrogate cannot be written to any file
            text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        self._texts.setdefault(rank, []).append(text)

    def texts(self) -> list[str]:
        """Return what each rank printed, in rank order."""
        return ["".join(self._texts.get(rank, ())) for rank in range(self._ranks)]
