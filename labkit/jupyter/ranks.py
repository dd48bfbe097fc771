"""The environment of a cell on a rank: its names, its own ``__main__``, its output; IPython is not needed.

A rank is its own process, or simulated: then all of them share the interpreter, and what is one for the
whole process (``sys.stderr``, ``sys.modules``) asks which rank is running.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from labkit import _kernels

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ERROR_BEGIN", "ERROR_END", "KEPT_BYTES", "SCOPE", "CellValue", "Stage", "Text", "rank_main"]

#: the names that every cell finds, in addition to those of the notebook
SCOPE = ("comm", "rank", "size", "MPI", "lk", "display", "exit", "quit")
#: bytes of one name on one rank that are brought back unasked
KEPT_BYTES = 16_000_000
#: what stands around a text on standard error: control characters that no text has (shift out, shift in)
ERROR_BEGIN, ERROR_END = "\x0e", "\x0f"


class Text(str):
    """What stands for a value that cannot leave its rank: the text it showed there."""

    def __repr__(self) -> str:
        return str(self)


class CellValue:
    """A rank's result and names, on their way to the notebook.

    `value`: The cell's last expression.
    `names`: What the cell assigned, by name.
    `missing`: Why a name is not brought back, by name.
    """

    def __init__(
        self, value: object, names: Mapping[str, object], missing: dict[str, str] | None = None
    ) -> None:
        self.value = value
        self.names = names
        self.missing = missing or {}

    def __reduce__(self) -> tuple[object, ...]:
        """Pack each value on its own, so that one that cannot travel does not hold up the others."""
        names, missing = {}, dict(self.missing)
        for name, value in self.names.items():
            if reason := too_much(value):
                missing[name] = reason
                continue
            try:
                names[name] = _pack(value)
            except Exception as error:  # pickling runs foreign code: anything may be raised
                missing[name] = f"a {type(value).__name__} cannot be sent back ({type(error).__name__})"
        return _unpacked, (_packed_or_text(self.value), names, missing)


def _packed_or_text(value: object) -> bytes:
    try:
        return _pack(value)
    except Exception:  # as above
        return _pack(Text(f"{value!r} (cannot leave its rank)"))


def _pack(value: object) -> bytes:
    from labkit.process.by_value import dumps

    return dumps(value)


def _unpacked(value: bytes, names: dict[str, bytes], missing: dict[str, str]) -> CellValue:
    import pickle

    return CellValue(pickle.loads(value), {name: pickle.loads(raw) for name, raw in names.items()}, missing)


def too_much(value: object) -> str:
    """Explain why a value is not brought back unasked; an empty text when it is."""
    size = getattr(value, "nbytes", None)
    if size is None and isinstance(value, bytes | bytearray | str):
        size = len(value)
    if size is None and isinstance(value, list | tuple | dict | set):
        parts = value.values() if isinstance(value, dict) else value
        size = sum(8 + int(getattr(part, "nbytes", 0) or 0) for part in parts)
    if isinstance(size, int) and size > KEPT_BYTES:
        return f"{size / 1e6:.0f} MB on a rank; make it the last expression to have it brought back"
    return ""


def _is_data(value: object) -> bool:
    return not isinstance(value, ModuleType | FunctionType | type) and type(value).__module__ not in (
        "mpi4py.MPI",
        "labkit.MPI",
    )


class Stage:
    """Context in which a cell runs on one rank.

    `comm`: The rank's.
    """

    def __init__(self, comm: Intracomm) -> None:
        self._comm = comm
        self._before: tuple[Any, Any] | None = None

    def __enter__(self) -> Stage:
        scope = sys._getframe(1).f_globals
        rank = _kernels.current_rank()
        if rank >= 0:  # what is set here is put back when the simulation has ended
            main = sys.modules.get("__main__")
            if isinstance(main, _RankMain):
                main.scopes[rank] = scope
            if not isinstance(sys.stderr, _Marked):
                sys.stderr = _Marked(sys.stderr)
            return self
        self._before = sys.modules.get("__main__"), sys.stderr
        main = _RankMain(self._before[0])
        main.scopes[-1] = scope
        sys.modules["__main__"] = main
        sys.stderr = _Marked(sys.stderr)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            sys.modules["__main__"], sys.stderr = self._before

    def scope(self) -> tuple[object, ...]:
        """Return what the names in `SCOPE` mean."""
        import labkit

        comm = self._comm
        return comm, comm.Get_rank(), comm.Get_size(), labkit.MPI, labkit, _display, sys.exit, sys.exit

    def end(self, value: object, names: Mapping[str, object]) -> CellValue | tuple[Any, dict[str, Any]]:
        """Return what goes back; plain data where no process border is in the way."""
        kept = {name: one for name, one in names.items() if _is_data(one)}
        return (value, kept) if self._before is None else CellValue(value, kept)


def _display(*things: object, **options: object) -> None:
    """Show things as text, in the rank's own output: a rank has no notebook."""
    for thing in things:
        print(repr(thing))


class _Marked:
    """Standard error that marks what is written to it, so that the notebook recognizes it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if text:
            self._stream.write(f"{ERROR_BEGIN}{text}{ERROR_END}")
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _RankMain(ModuleType):
    """The ``__main__`` of ranks: its names are those of the cell on the rank that asks.

    Pickle looks classes up there by name, and so finds the receiver's own class, as in a script.
    """

    def __init__(self, original: object) -> None:
        super().__init__("__main__")
        object.__setattr__(self, "original", original)
        object.__setattr__(self, "scopes", {})

    def __getattribute__(self, name: str) -> Any:
        get = object.__getattribute__
        if name in ("scopes", "original", "__class__"):
            return get(self, name)
        scope = get(self, "scopes").get(_kernels.current_rank())
        if scope is None:
            return getattr(get(self, "original"), name)
        if name == "__dict__":
            return scope
        try:
            return scope[name]
        except KeyError:
            return getattr(get(self, "original"), name)


@contextlib.contextmanager
def rank_main() -> Iterator[None]:
    """Give simulated ranks a ``__main__`` each while the block runs."""
    before = sys.modules.get("__main__")
    sys.modules["__main__"] = _RankMain(before)
    try:
        yield
    finally:
        if before is not None:
            sys.modules["__main__"] = before
