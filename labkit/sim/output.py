"""Standard output and error of simulated ranks, kept apart rank by rank."""

from __future__ import annotations

import io
import sys
from types import TracebackType
from typing import Any, TextIO

from labkit import _kernels
from labkit.errors import MachineError
from labkit.sim.isolation.waits import owner_of_thread
from labkit.text.files import write_all
from labkit.text.progress import Lines

__all__ = ["OUTPUT_LIMIT", "RankOutput", "rank_of_caller"]

#: characters that all ranks together may print: they are kept in memory
OUTPUT_LIMIT = 200_000_000


def rank_of_caller() -> int:
    """Return the rank that runs on this thread, or that has started it, or -1."""
    rank = _kernels.current_rank()
    if rank >= 0:
        return rank
    owner = owner_of_thread()
    return -1 if owner is None else owner.rank


class _Stream(io.TextIOBase):
    """A text stream that files what the running rank and its threads write; all other text goes through."""

    def __init__(self, output: RankOutput, through: TextIO, is_error: bool = False) -> None:
        self._output = output
        self._through, self.is_error = through, is_error
        self.buffer = _Bytes(self)
        #: by rank: where it has turned the stream to, where ranks have their own `sys`
        self.turned: dict[int, Any] = {}

    def write(self, text: str) -> int:
        rank = rank_of_caller()
        if rank < 0:
            return self._through.write(text)
        if rank in self.turned:
            return int(self.turned[rank].write(text))
        return self.file(rank, text)

    def file(self, rank: int, text: str) -> int:
        """File what a rank writes, whatever it has turned the stream to: that may end here."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._output.add(rank, text, self.is_error)
        return len(text)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        rank = rank_of_caller()
        if rank in self.turned:
            self.turned[rank].flush()
        elif rank >= 0:
            self._output.flush(rank)
        # At its end Python flushes a stream that is given up, maybe after the one behind it was closed.
        if rank < 0 and not getattr(self._through, "closed", False):
            self._through.flush()

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._through.fileno()

    def reconfigure(self, **settings: object) -> None:
        """Accept the options of a text stream, without effect: output is kept as text."""
        known = ("encoding", "errors", "newline", "line_buffering", "write_through")
        for name in settings:
            if name not in known:
                raise TypeError(f"{name!r} is an invalid keyword argument for reconfigure()")

    @property
    def errors(self) -> str:  # type: ignore[override]
        return getattr(self._through, "errors", None) or "backslashreplace"

    @property
    def line_buffering(self) -> bool:
        return True

    @property
    def name(self) -> Any:
        return getattr(self._through, "name", "<stdout>")

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
        rank, text = rank_of_caller(), bytes(data).decode("utf-8", "replace")
        if rank < 0:
            self._stream.write(text)
        else:
            self._stream.file(rank, text)
        return len(data)

    def close(self) -> None:
        """Stay open: a rank that gives up what it has put around this leaves it to the others."""


class RankOutput:
    """Context in which standard output and error of simulated ranks are kept.

    `is_whole`: Whether ``sys.__stdout__`` and ``sys.__stderr__`` are the ranks' as well: in a separate
        process.
    """

    def __init__(self, ranks: int, is_whole: bool = False) -> None:
        self._ranks, self.is_whole = ranks, is_whole
        self._texts: dict[int, list[str]] = {}
        self._left = OUTPUT_LIMIT
        self._before: tuple[Any, Any] | None = None
        #: whether somebody wants to see the last lines while the run goes on
        self.is_watched = False
        #: whether nothing is kept any more: the ranks have been aborted
        self.is_over = False
        self._lines = Lines()
        self._file: TextIO | None = None
        #: standard output and error of the caller that wants to see everything as it is printed
        self.streams: tuple[int, int] | None = None
        self._open: dict[tuple[int, bool], str] = {}

    def __enter__(self) -> RankOutput:
        self._before = sys.stdout, sys.stderr
        self._encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        sys.stdout = _Stream(self, sys.stdout)
        sys.stderr = _Stream(self, sys.stderr, is_error=True)
        self._originals = sys.__stdout__, sys.__stderr__
        if self.is_whole:
            sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc, assignment]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            sys.stdout, sys.stderr = self._before
            sys.__stdout__, sys.__stderr__ = self._originals  # type: ignore[misc]
        self.flush()

    def add(self, rank: int, text: str, is_error: bool = False) -> None:
        """File what a rank printed.

        Raises MachineError: All ranks together have printed too much.
        """
        if self._file is not None:
            self._file.write(text)
            self._file.flush()
            return
        if self.is_over:
            return
        self._left -= len(text) if self.streams is None else 0
        if self._left < 0:
            raise MachineError(
                f"the ranks printed more than {OUTPUT_LIMIT:,} characters, all kept in memory; print less",
                code="too-large",
            )
        if self.streams is not None:
            self._stream(rank, text, is_error)
            return
        if not text.isascii():  # a lone surrogate cannot be written to any file
            text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        self._texts.setdefault(rank, []).append(text)
        if self.is_watched:
            self._lines.add(rank, text)

    def _stream(self, rank: int, text: str, is_error: bool) -> None:
        """Write whole lines; what a rank has begun waits for its end, or for a flush."""
        before, end, rest = (self._open.pop((rank, is_error), "") + text).rpartition("\n")
        if rest:
            self._open[rank, is_error] = rest
        if end:
            self._write(before + end, is_error)

    def flush(self, rank: int | None = None) -> None:
        """Write lines that a rank has begun; None: those of all ranks."""
        for one in [one for one in self._open if rank in (None, one[0])]:
            self._write(self._open.pop(one), one[1])

    def _write(self, text: str, is_error: bool) -> None:
        if self.streams is None:
            return
        if not write_all(self.streams[is_error], text.encode(self._encoding, "backslashreplace")):
            self.streams = None
            self.is_over = True

    def last_lines(self) -> list[str]:
        """Return the last lines that were printed, where somebody watches."""
        return self._lines.texts()

    def keep_in(self, path: str) -> None:
        """From now on write everything into a file: this is another process."""
        self._file = open(path, "a", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115

    def grow(self, ranks: int) -> None:
        """Keep the output of further ranks, which have been spawned."""
        self._ranks += ranks

    def texts(self) -> list[str]:
        """Return what each rank printed, in rank order."""
        return ["".join(self._texts.get(rank, ())) for rank in range(self._ranks)]
