"""What ranks print, kept apart rank by rank."""

from __future__ import annotations

import io
import sys
from types import TracebackType
from typing import Any, TextIO

from labkit import _kernels

__all__ = ["RankOutput"]


class _Stream(io.TextIOBase):
    """A text stream that files what the running rank writes; the hub's own text goes through."""

    def __init__(self, texts: list[list[str]], through: TextIO) -> None:
        self._texts = texts
        self._through = through

    def write(self, text: str) -> int:
        rank = _kernels.current_rank()
        if rank < 0:
            return self._through.write(text)
        self._texts[rank].append(text)
        return len(text)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        if _kernels.current_rank() < 0:
            self._through.flush()

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._through.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._through, "encoding", None) or "utf-8"


class RankOutput:
    """Context in which standard output and error of simulated ranks are kept.

    Parameters
    ----------
    ranks : int
    """

    def __init__(self, ranks: int) -> None:
        self._texts: list[list[str]] = [[] for _ in range(ranks)]
        self._before: tuple[Any, Any] | None = None

    def __enter__(self) -> RankOutput:
        self._before = sys.stdout, sys.stderr
        sys.stdout = _Stream(self._texts, sys.stdout)
        sys.stderr = _Stream(self._texts, sys.stderr)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            sys.stdout, sys.stderr = self._before

    def texts(self) -> list[str]:
        """Return what each rank printed, in rank order."""
        return ["".join(parts) for parts in self._texts]
