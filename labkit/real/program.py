"""A program on one rank: unpacked, called, and its result packed; the same on every real machine."""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import io
import os
import pickle
import re
import sys
from types import FunctionType, ModuleType
from typing import Any

from labkit.program.context import unfinished_hint
from labkit.real.context import available_cores, seed_rank

TYPE_CHECKING = False  # as in typing, which every rank would import for this alone
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, BinaryIO

    from labkit.timing import Bench, Repeats

__all__ = [
    "ResultError",
    "Turns",
    "dumps",
    "flush_streams",
    "library_of",
    "load_program",
    "may_use_numpy",
    "measuring",
    "pack_result",
    "until_exit",
]


#: in place of a script's module: it is a text (as in `labkit.sim.script_words`, not imported for this)
COMMAND = "-c"
#: a module named in a pickled function, or as the first of an import in a script
_NAMED = re.compile(rb"\x8c.(numpy|labkit)", re.DOTALL)
_IMPORTED = re.compile(r"^\s*(?:import|from)\s+(\w+)", re.MULTILINE)


class ResultError(Exception):
    """The result cannot be sent back."""


def load_program(
    header: Mapping[str, Any], payload: bytes, rank: int, repetition: int, comm: Callable[[], object]
) -> Callable[[], object]:
    """Unpack the program again, with its own seeds: a repetition must not see what the last one changed."""
    if "numpy" not in sys.modules and may_use_numpy(header, payload):
        importlib.import_module("numpy.random")  # now, where no clock runs yet
    if header.get("numbers") and "numpy" in sys.modules:
        sys.modules["numpy"].set_printoptions(legacy=header["numbers"])
    seed_rank(header["seed"] + repetition, rank)
    if header["kind"] == "script":
        return _with_regions(header, lambda: _call_script(header["script"], header["argv"], header["module"]))
    program, args, kwargs = pickle.loads(payload)
    return _with_regions(header, lambda: program(comm(), *args, **kwargs))


def _with_regions(header: Mapping[str, Any], call: Callable[[], object]) -> Callable[[], object]:
    """Return a call in which functions are phases, where that is wanted."""
    if not header.get("regions"):
        return call
    from labkit.program.function_phases import Regions

    def watched() -> object:
        with Regions(header["regions"]):
            return call()

    return watched


def may_use_numpy(header: Mapping[str, Any], payload: bytes) -> bool:
    """Whether the program may import NumPy as it runs; to import it is most of what starting a rank costs."""
    if header["kind"] == "script":
        try:
            with open(header["script"], encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeError):
            return True
        return "numpy" in text or not {*_IMPORTED.findall(text)} <= sys.stdlib_module_names | {"mpi4py"}
    is_by_name = b"_make_function" not in payload
    return is_by_name or _NAMED.search(payload) is not None


def _call_script(path: str, argv: list[str], module: str) -> None:
    try:
        _run_script(path, argv, module)
    except Exception as error:
        from labkit.process.stacks import call_excepthook  # only now: every rank's start would pay for it

        call_excepthook(error)
        raise


def _run_script(path: str, argv: list[str], module: str) -> None:
    """Run a file as Python does, or a module by its name, or (``-c``) the text in the file."""
    if module or not path.endswith(".py"):
        import runpy
    if module:
        sys.path.insert(0, os.getcwd())
    if module == COMMAND:
        with open(path, encoding="utf-8") as file:
            code = compile(file.read(), "<string>", "exec", dont_inherit=True)
        sys.argv[:] = [COMMAND, *argv]
        runpy._run_module_code(code, None, "__main__", script_name=COMMAND)  # type: ignore[attr-defined]
        return
    if module:
        sys.argv[:] = [path, *argv]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    sys.argv[:] = [path, *argv]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    if not path.endswith(".py"):
        runpy.run_path(path, run_name="__main__")
        return
    # as runpy would, but for __file__, which is absolute: of `python prog.py`, too
    main = type(sys)("__main__")
    vars(main).update(__file__=os.path.abspath(path), __cached__=None, __builtins__=builtins)
    sys.modules["__main__"] = main
    with open(path, "rb") as script:
        text = script.read()
    exec(compile(text, path, "exec", dont_inherit=True), vars(main))


def until_exit(call: Callable[[], object]) -> Any:
    """Call the program; `sys.exit(0)` is an ordinary end."""
    try:
        return call()
    except SystemExit as error:
        if error.code in (None, 0):
            return None
        raise


def flush_streams() -> None:
    """Write out what the program has printed so far."""
    for stream in {sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__}:
        with contextlib.suppress(Exception):
            stream.flush()  # type: ignore[union-attr]


def pack_result(result: object, file: BinaryIO, rank: int) -> None:
    """Pickle a rank's result into a file."""
    if result is None:  # of every script; the import would be half of what starting one costs
        return pickle.dump(None, file)

    from labkit.process.by_value import Pickler

    try:
        Pickler(file).dump(result)
    except OSError:
        raise
    except Exception as error:  # pickling runs foreign code: anything may be raised
        text = " ".join(str(error).split())
        why = f"{type(error).__name__}: {text}" if text else type(error).__name__
        instead = unfinished_hint(result) or "return plain data (numbers, strings, arrays, lists, ...)"
        raise ResultError(
            f"the result of rank {rank}, a {type(result).__name__}, cannot be sent back: {why}; {instead}"
        ) from error


def library_of(mpi: ModuleType) -> str:
    """Return the MPI library's name and version, as it reports them, without build details."""
    words = str(mpi.Get_library_version()).replace("\0", "").split("\n")[0]
    return " ".join(words.split(",")[0].split())


# Messages of real ranks that hold a notebook's own classes and functions.
#
# mpi4py pickles by name. A class of a notebook lives in its ``__main__``, which no rank has: it came here by
# value, and has to go on by value. In a plain script the same program works, and so it has to work here.


@functools.cache
def _by_value() -> Any:
    """Return the pickler; what it is made of is loaded by the first message that needs it."""
    from labkit.process import by_value

    class Pickler(by_value.Pickler):
        """Takes by value what a script could pickle by name: a module's classes and functions."""

        def reducer_override(self, thing: object) -> object:
            if isinstance(thing, type | FunctionType) and "<" in thing.__qualname__:
                return NotImplemented  # defined in a function, or a lambda: pickle refuses those everywhere
            return super().reducer_override(thing)

    return Pickler


def dumps(thing: object, protocol: int | None = None, buffer_callback: Any = None) -> bytes:
    """Pickle a message, by name where that is possible."""
    try:
        return pickle.dumps(thing, protocol, buffer_callback=buffer_callback)
    except (pickle.PicklingError, AttributeError):
        file = io.BytesIO()
        _by_value()(file, protocol, buffer_callback).dump(thing)
        return file.getvalue()


# Repetitions of a launch on real MPI: a fixed number, each after a barrier, or measured (`labkit.timing`).


def measuring(repeats: Repeats, warmup: int) -> dict[str, object]:
    """Return the option that asks a real machine to measure a run: plain data."""
    return {"repeats": repeats.to_dict(), "warmup": warmup}


class Turns:
    """The numbers of the repetitions, one after the other, and what happens around each.

    `header`: Of the job: ``repeats``, and ``measuring`` where times are measured.
    `comm`: Returns a communicator of all ranks for what is agreed between the runs, and for nothing else.
    `barrier`: What comes before a run that is not measured.
    """

    def __init__(
        self,
        header: Mapping[str, Any],
        comm: Callable[[], Any],
        barrier: Callable[[], object],
    ) -> None:
        self._repeats, self._barrier = int(header["repeats"]), barrier
        #: as many as there can be
        self.most = self._repeats
        self._bench: Bench | None = None
        asked = header.get("measuring")
        if asked is not None:  # only now: NumPy, which timing needs, is most of what starting a rank costs
            from labkit.timing import Bench, Repeats

            repeats = Repeats(**asked["repeats"])
            self._bench = Bench(comm(), repeats, int(asked["warmup"]), available_cores())

    def __iter__(self) -> Iterator[int]:
        """Yield the number of the next run, as long as another one is needed."""
        if self._bench is None:
            yield from range(self._repeats)
            return
        while not self._bench.is_done:
            yield self._bench.number

    def start(self) -> None:
        """Wait until all ranks start."""
        if self._bench is None:
            self._barrier()
        else:
            self._bench.start()

    def keep(self, times: dict[str, Any]) -> dict[str, object] | None:
        """Return a run's times as stored; None where it does not count, on any rank."""
        if self._bench is None:
            return times
        if not self._bench.take(times["begin"], times["end"]):
            return None
        if "tally" not in times:  # the calls of one that is counted were noted by the ranks' own clocks
            times = self._bench.led(times)
        if self._bench.is_done:
            times |= {"is_last": True, "conduct": self._bench.conduct()}
        return times
