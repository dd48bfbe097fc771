"""Every exception labkit raises on purpose; all of them are `LabkitError`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

__all__ = [
    "CODES",
    "MORE_TIME",
    "CacheWarning",
    "CheckError",
    "DataError",
    "DeadlockError",
    "ExpectationError",
    "LabkitError",
    "MachineError",
    "MismatchError",
    "PlatformError",
    "ProgramError",
    "RankError",
    "RunInterrupted",
    "ScheduleError",
    "StudyWarning",
    "SuggestsNames",
    "TimeLimitError",
    "UnknownNameError",
    "UnsupportedError",
    "echoed",
]


_NOTED_RANKS, _NOTED_LINES = 16, 5

#: of an interrupted run: nothing went wrong, and what was printed is all there is to see
_KEPT_LINES = 100


#: what can go wrong, by code: what it means, and what to do
CODES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        # arguments, options and names
        "ambiguous": (
            "several things are meant by what was given",
            "choose one of those that the message lists",
        ),
        "conflicting-options": (
            "options that exclude each other, or one that does not apply here",
            "leave one out",
        ),
        "count-mismatch": ("numbers, lengths or shapes that must agree do not", "make them equal"),
        "duplicate-name": ("the same name or value is given twice", "leave one out, or rename it"),
        "invalid-value": ("a value that cannot be used here", "use a value that the message allows"),
        "malformed-name": ("a name with characters that are not allowed", "use letters, digits and _"),
        "malformed-option": ("an option of a command or magic that cannot be read", "look at its help"),
        "malformed-value": (
            "a text that is not the number, time or size it should be",
            "write it as the example in the message",
        ),
        "missing-key": ("something that is needed was not given", "add it"),
        "name-taken": ("the name has a meaning already", "choose another name"),
        "not-contiguous": ("a buffer with gaps", "copy it first"),
        "not-finite": ("an infinite or undefined number, or one that must also be positive", "leave it out"),
        "not-sorted": ("values that must be in increasing order", "sort them"),
        "out-of-range": (
            "a number below or above what is allowed",
            "use a number in the range that the message names",
        ),
        "ranks-required": ("the number of ranks is missing", "give the number of ranks"),
        "too-many-ranks": ("more ranks than the machine has room for", "use fewer ranks or a larger machine"),
        "unknown-format": (
            "a file name whose ending names no known format",
            "use one of the endings in the message",
        ),
        "unknown-name": (
            "a name that does not exist",
            "use one of those in the message; it suggests the nearest",
        ),
        "wrong-arguments": (
            "a function cannot be called with these arguments",
            "compare them with its signature",
        ),
        "wrong-order": (
            "a call at a time when it is not allowed",
            "make the calls in the order that the message gives",
        ),
        "wrong-type": ("a value of another type than is needed", "pass a value of the type in the message"),
        # files
        "changed-file": ("a file that changed while it was in use", "start again"),
        "damaged-file": ("a file that is incomplete or was altered", "fetch or write it again"),
        "malformed-file": (
            "a file that is not what its reader expects",
            "check that it is the file you meant",
        ),
        "malformed-line": (
            "a line or row of a file that cannot be read",
            "fix the line that the message names",
        ),
        "missing-definition": (
            "a file without the definition that is looked for in it",
            "add the definition",
        ),
        "missing-file": ("a file or folder that does not exist", "check the path"),
        "too-large": ("more than the limit for input or output", "make it smaller"),
        "unreadable-file": ("a file that cannot be opened or read", "check the path and its permissions"),
        "unsafe-archive": ("an archive with an entry that could overwrite other files", "do not use it"),
        "unsupported-version": (
            "a file of another version of its format",
            "use the version of labkit that wrote it",
        ),
        "unwritable-file": (
            "a file that cannot be written",
            "check the folder, its permissions and the free space",
        ),
        "wrong-kind-of-file": (
            "a folder, pipe or link where a file is needed, or the reverse",
            "give the path of the right kind",
        ),
        # texts that are parsed
        "malformed-expression": (
            "an expectation, guideline or formula that cannot be read",
            "fix it at the place that the message marks",
        ),
        "malformed-schedule": (
            "a schedule that breaks a rule of schedules",
            "fix the step that the message names",
        ),
        "malformed-specification": (
            "a platform, mapping, model or noise whose text breaks the rules of its notation",
            "fix it at the place that the message marks",
        ),
        # measurements, runs and their records
        "no-counterpart": ("another tool has nothing that corresponds", "use what the message offers"),
        "no-data": ("nothing was measured or recorded that could be shown or judged", "measure it first"),
        "not-comparable": (
            "runs or records that belong to different programs, inputs or machines",
            "compare runs of one program",
        ),
        "not-enough-data": ("too few measurements", "measure at more points"),
        "not-recordable": ("a call that a recording cannot contain", "run without the recording"),
        "not-recorded": ("the run has no record of what is asked", "run it again with trace=True"),
        # machines, packages and processes
        "in-use": ("another process is using it", "wait for that process, or end it"),
        "interrupted": ("a run or a rank was interrupted from outside", "start it again"),
        "launcher-mismatch": (
            "the launcher and the MPI library do not belong together",
            "use the launcher of that library",
        ),
        "lost-process": ("a process ended without its result", "look at what it had printed"),
        "lost-result": ("a result that cannot be sent or read back", "return plain data"),
        "machine-failed": (
            "the machine cannot be used, or failed",
            "follow the message; `labkit doctor` checks the machine",
        ),
        "missing-package": ("a Python package is not installed", "install it as the message shows"),
        "missing-tool": ("a program of the system is missing", "install it as the message shows"),
        "nested-run": ("a rank tries to start a run", "start runs from outside of ranks"),
        "not-connected": ("a machine with hosts that no route joins", "add the missing links or routes"),
        "not-contained": ("this machine cannot confine a submission", "grade on Linux with seccomp"),
        "not-started": ("a process could not be started", "follow the message"),
        "out-of-memory": ("there is not enough memory", "use fewer ranks or smaller data"),
        "scheduler-failed": ("the batch system rejected or lost a job", "follow the message"),
        "tool-failed": ("another program failed", "look at what it printed"),
        "version-mismatch": (
            "two processes have different versions of Python or labkit",
            "install the same versions",
        ),
        # programs and running ranks
        "aborted": ("a rank called Abort", "look at why it did"),
        "broken-protocol": (
            "a message that does not follow the protocol of the sandbox",
            "none: the submission is refused",
        ),
        "collective-mismatch": (
            "ranks that call different collectives, or the same with different arguments",
            "make all ranks call the same",
        ),
        "deadlock": (
            "every rank that has not finished waits for something that cannot happen",
            "break the cycle that the message shows",
        ),
        "failed": ("something that has no other code", "read the message"),
        "not-a-program": (
            "something that cannot be run as a program",
            "pass a function of a communicator, or a script",
        ),
        "not-on-ranks": ("something that only a notebook or a terminal can do", "do it outside of the ranks"),
        "not-picklable": ("an object that cannot be sent to another process", "create it inside the program"),
        "not-python": ("a program with an error of syntax", "fix the line that the message names"),
        "partly-failed": ("some of several tasks failed", "look at each in the message"),
        "rank-failed": ("a rank ended with an exception, an exit or a signal", "read its traceback"),
        "root-mismatch": ("ranks that give different roots", "give the same root on all ranks"),
        "submission-failed": ("a submission failed in the sandbox", "read its feedback"),
        "time-limit": ("the time limit was reached", "raise the limit, or use a smaller problem"),
        "unsupported": ("something that labkit does not do", "use what the message offers"),
        "wrong-result": ("a result that is not what its algorithm promises", "fix the algorithm"),
    }
)


class LabkitError(Exception):
    """Base of labkit's errors: the message states what arrived, what is allowed and what to do.

    Parameters
    ----------
    *args : object
        The message.
    code : str, optional
        The kind of the fault, one of `CODES`; that of the class if it is not given.
    **values : object
        What was wrong, by name, for programs that handle the error.

    Attributes
    ----------
    code : str
        The kind of the fault; messages may change, codes do not.
    values : mapping of str to object
        What was wrong, such as ``parameter``, ``given`` and ``line``; empty where nothing was noted.
    output : sequence of str
        What the ranks of a failed run had printed, in rank order; empty without a run.
    """

    code: str = "failed"
    values: Mapping[str, object] = MappingProxyType({})
    output: Sequence[str] = ()

    def __init__(self, *args: object, code: str | None = None, **values: object) -> None:
        super().__init__(*args)
        if code is not None:
            self.code = code
        if values:
            self.values = {name: _plain(value) for name, value in values.items()}

    def attach_output(self, output: Sequence[str]) -> None:
        """Keep what the ranks had printed; the last lines of the first ranks also become notes.

        Parameters
        ----------
        output : sequence of str
            A text for each rank.
        """
        self.output = list(output)
        _note_output(self, output)


def code_of(error: BaseException) -> str | None:
    """Return the code of an error of labkit's, None of any other."""
    return error.code if isinstance(error, LabkitError) else None


def _plain(value: object) -> object:
    """Return what every process can unpickle: a number, a text, or the text of anything else."""
    return value if isinstance(value, str | int | float | None) else repr(value)


class RunInterrupted(KeyboardInterrupt):
    """A run that the user has interrupted: its ranks were ended, and what they had printed is kept.

    Attributes
    ----------
    code : str
        As of `LabkitError`.
    output : list of str
        In rank order.
    """

    code = "interrupted"

    def __init__(self, output: Sequence[str] = ()) -> None:
        super().__init__("the run was interrupted, and its ranks were ended")
        self.output = list(output)
        _note_output(self, output, _KEPT_LINES)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the output."""
        return type(self), (self.output,)


def _note_output(error: BaseException, output: Sequence[str], most: int = _NOTED_LINES) -> None:
    for rank, text in [(r, t) for r, t in enumerate(output) if t.strip()][:_NOTED_RANKS]:
        lines = text.rstrip().splitlines()
        cut = f" (the last {most} of {len(lines)} lines)" if len(lines) > most else ""
        shown = "\n".join(f"  {line}" for line in lines[-most:])
        error.add_note(f"rank {rank} had printed{cut}:\n{shown}")


#: an unbroken or quoted part of a message that is longer than this is cut in its middle
_MOST_ECHOED = 200

_LONG_LINE = re.compile(
    r"[^\n]{1001,}"
)  # no sentence of ours is so long: bytes of somebody else's, as escapes

_ECHO = re.compile(rf"(?<!\w)'[^'\n]{{{_MOST_ECHOED - 1},}}'(?!\w)|\S{{{_MOST_ECHOED + 1},}}")


def _cut(found: re.Match[str]) -> str:
    text = found[0]
    return f"{text[:120]}...({len(text)} characters)...{text[-40:]}"


def _cut_line(found: re.Match[str]) -> str:
    return f"{found[0][:600]}...{found[0][-200:]}"


def echoed(text: str) -> str:
    """Return what has arrived as a message may show it: at most 200 characters of each unbroken part.

    Parameters
    ----------
    text : str
        Of whatever length.

    Returns
    -------
    str
        Longer parts without their middles.
    """
    return _ECHO.sub(_cut, text)


class _InputError(LabkitError):
    """An error about what has arrived, however long: its message echoes at most 200 characters of it."""

    def __init__(self, *args: object, code: str | None = None, **values: object) -> None:
        if args and isinstance(args[0], str):
            args = (_LONG_LINE.sub(_cut_line, echoed(args[0])), *args[1:])
        super().__init__(*args, code=code, **values)


class CheckError(LabkitError):
    """A result that is not what its algorithm promises; the message names the ranks and the reasons."""

    code = "wrong-result"


class DataError(_InputError):
    """Input data that cannot be read or used (a file, an array, a measurement)."""

    code = "invalid-value"


class ExpectationError(_InputError):
    """An expectation that cannot be read, or that cannot be judged on the data given."""

    code = "malformed-expression"


class MachineError(_InputError):
    """A machine that cannot be used: no MPI, a launcher that fails, a wrong number of ranks."""

    code = "machine-failed"


class MismatchError(LabkitError):
    """Ranks that do not agree in a collective: another call, another root, another size."""

    code = "collective-mismatch"


class PlatformError(_InputError):
    """A platform that is not known, malformed, or too small for the ranks asked for."""

    code = "malformed-specification"


class ProgramError(_InputError):
    """A program that cannot be run: not a function of a communicator, no such script, wrong arguments."""

    code = "not-a-program"


class ScheduleError(_InputError):
    """A schedule that is malformed, or that does not do what its collective promises."""

    code = "malformed-schedule"


class CacheWarning(UserWarning):
    """What was found is right, and could not be kept for the next time."""

    code = "unwritable-file"


class StudyWarning(UserWarning):
    """What went wrong in a part of a sweep, whose other points were measured."""

    code = "partly-failed"


class UnknownNameError(_InputError, AttributeError):
    """A name that a module of labkit does not have; the message names the nearest one."""

    code = "unknown-name"


class UnsupportedError(LabkitError, NotImplementedError):
    """A name of MPI that labkit does not simulate (yet)."""

    code = "unsupported"


class TimeLimitError(LabkitError):
    """A run that exceeded its time limit; the message shows how to raise it and where each rank was."""

    code = "time-limit"


#: the end of a sentence about a time limit
MORE_TIME = "timeout_s= (--timeout in %%spmd and on the command line) gives it more, or None no limit"


class DeadlockError(LabkitError):
    """Every rank that has not finished waits for something that can never happen.

    The message lists each blocked rank, its call, peer, tag and source line, and the cycle.

    Attributes
    ----------
    waits : mapping of int to (str, tuple of int)
        What a blocked rank waits for, as text, and the ranks that could end its wait (none: anybody); at
        most 24 ranks, those of the cycle first. `labkit.plot.wait_for` draws it.
    cycle : sequence of int
        The ranks that wait for each other in a circle; empty where there is no circle.
    ranks, blocked : int
        All ranks, and those that wait.
    """

    code = "deadlock"
    waits: Mapping[int, tuple[str, tuple[int, ...]]] = MappingProxyType({})
    cycle: Sequence[int] = ()
    ranks: int = 0
    blocked: int = 0


_LINKS = re.compile(r"\n(?:During handling of the above|The above) exception.*:\n\n(?=Traceback \(most)")

_GROUPED = re.compile(r"^  \| (\w[\w.]*: .*)", re.MULTILINE)


def headline(traceback: str) -> str:
    """Return the first line of the exception of a traceback.

    A message may have more lines, and notes behind it; of a chain it is the exception raised last. Of what a
    launcher says it is the last line.
    """
    last = _LINKS.split(traceback.strip())[-1]
    if last.startswith("  + Exception Group") or last.startswith("+ Exception Group"):
        found = _GROUPED.search(last)
        if found is not None:
            return found[1]
    first, *lines = last.splitlines() or ["no traceback"]
    if first.startswith("Traceback (most recent call last)"):
        place = next((number for number, line in enumerate(lines) if line[:1].strip()), None)
        if place is None:
            return first
        is_open = lines[place].rstrip().endswith(":")  # the message begins with an empty line
        rest = [line.strip() for line in lines[place + 1 :] if line.strip()]
        return f"{lines[place].rstrip()} {rest[0]}" if is_open and rest else lines[place]
    return lines[-1] if lines else first


# Hints of what to type, for mistakes that beginners make on a communicator.
#
# What a rank has met is known by its traceback's text alone, whichever machine it ran on.

#: a frame, its line of code, and Python's marks below the part that failed; mpi4py's own frames have no code
_FRAME = re.compile(
    r'^  File "(?P<file>[^\n"]*)", line (?P<number>\d+)(?:, in (?P<function>.*))?.*\n(?P<line>    \S.*)'
    r"(?:\n(?P<marks> +[~^]+) *$)?",
    re.MULTILINE,
)

_CALLED = re.compile(r"(?P<comm>[\w.]+)\.(?P<name>size|rank)\(\)")
_UNCALLED = re.compile(r"(?P<comm>[\w.]+)\.Get_(?P<name>size|rank)\b(?!\()")

_UPPER = re.compile(r"(?P<comm>[\w.]+)\.(?P<call>[A-Z]\w*)\(")

#: calls that take a list with an item for each rank
_A_LIST = re.compile(r"[\w.]+\.(?:alltoall|scatter)\b(?=\()")

_KEYWORD = re.compile(r"TypeError: (?P<call>\w+)\(\) got an unexpected keyword argument '(?P<name>\w+)'")

#: what expects an item for each rank, and got another number of them
_ITEMS = re.compile(r"expecting \d+ items, got \d+")

#: a rank where the buffer is expected: a number, or a sum with one
_SENDER_FIRST = re.compile(
    r"(?P<comm>[\w.]+)\.(?P<call>i?recv)\(\s*(?P<sender>\d+|[^=,()]*\b(?:rank|source|src|left|right|root)\b[^=,()]*)\s*[,)]"
)

_SEND = re.compile(r"(?P<call>[\w.]+\.i?[bsr]?send)\(")

#: an object where the rank is expected
_NO_RANK = ("object cannot be interpreted as an integer", "can be converted to Python scalars")

_TOO_MANY = re.compile(
    r"TypeError: (?:\w+\.)?(?P<call>\w+)\(\) takes (?:from \d+ to )?(?P<takes>\d+) positional "
    r"arguments? but (?P<got>\d+)"
)

#: parameters of the methods, by their names
_PARAMETERS = (
    "dest", "source", "tag", "root", "op", "status", "obj", "buf", "sendobj", "sendbuf", "recvbuf", "sendtag",
    "recvtag", "color", "key",
)  # fmt: skip

#: what gives its result to the root alone, and its twin for all; the second of the names of the line
_AT_ROOT = re.compile(r"(?P<name>\w+)\s*=\s*(?P<comm>[\w.]+)\.(?P<call>gather|reduce)\(")

_IS_NONE = ("'NoneType' object is not", "object of type 'NoneType'", "'NoneType' and", "and 'NoneType'")

#: what takes any object, in addition to its upper-case twin for buffers
_LOWER = {
    "send", "ssend", "bsend", "isend", "issend", "ibsend", "recv", "irecv", "sendrecv", "bcast", "reduce",
    "allreduce", "scan", "exscan", "gather", "allgather", "scatter", "alltoall",
}  # fmt: skip

#: what else people look for on a communicator, a request or the module
_OTHER = {
    "rank", "size", "Get_rank", "Get_size", "Get_name", "barrier", "Barrier", "probe", "iprobe", "Probe",
    "Iprobe", "wait", "test", "waitall", "Wait", "Test", "Waitall", "Split", "Dup", "Free", "Abort",
    "Gatherv", "Allgatherv", "Scatterv", "Alltoallv", "Ibarrier", "Ibcast", "Iallreduce", "Get_source",
    "Get_tag", "Create_cart", "Create_group", "COMM_WORLD", "ANY_SOURCE", "ANY_TAG", "SUM", "PROD", "MAX",
    "MIN", "Wtime",
}  # fmt: skip

#: names of the table are short: what differs in a third of its letters is another one
_CUTOFF = 0.7

_UNKNOWN = re.compile(
    r"AttributeError: (?:module )?'?(?P<owner>(?:mpi4py\.)?MPI(?:\.\w+)?)'?(?: object)? has no attribute "
    r"'(?P<name>\w+)'"
)

_UNDEFINED = re.compile(r"NameError: name '(?P<name>\w+)' is not defined")

#: what programs begin with
_IMPORTS = {
    "np": "import numpy as np",
    "numpy": "import numpy",
    "MPI": "from mpi4py import MPI",
    "lk": "import labkit as lk",
    "labkit": "import labkit",
    "math": "import math",
    "time": "import time",
    "random": "import random",
    "pd": "import pandas as pd",
    "os": "import os",
    "sys": "import sys",
}

_NO_BUFFER = ("a bytes-like object is required", "message: expecting", "cannot map 'O' to MPI datatype")


def rank_hint(traceback: str) -> str:
    """Return one sentence with what to type after a rank's traceback; empty where nothing is known.

    Examples
    --------
    >>> rank_hint('''Traceback (most recent call last):
    ...   File "ring.py", line 3, in ring
    ...     right = (comm.rank() + 1) % comm.size
    ...              ^^^^^^^^^^^
    ... TypeError: 'int' object is not callable''')
    'comm.rank is a number: write comm.rank, without parentheses'
    """
    frames = list(_FRAME.finditer(traceback))
    if not frames:
        return ""
    said, code = traceback[frames[-1].end() :], frames[-1]["line"]
    if frames[-1]["marks"] is not None:
        marks = frames[-1]["marks"]
        code = code[len(marks) - len(marks.lstrip()) : len(marks)]
    if found := _UNKNOWN.search(said):
        return _nearest_name(found["owner"].removeprefix("mpi4py."), found["name"])
    if found := _UNDEFINED.search(said):
        return _undefined(found["name"], frames[-1]["function"])
    if hint := _of_call(said, code):
        return hint
    if said.rstrip().endswith("MPI_ERR_RANK: invalid rank"):
        return "dest, source and root are ranks of the communicator: from 0 to comm.size - 1"
    if "object is not iterable" in said and re.search(r"\bsum\s*[,)]", code):
        return "Python's sum takes one list; the operator is op=MPI.SUM"
    if ("object is not iterable" in said or _ITEMS.search(said)) and (found := _A_LIST.search(code)):
        return f"{found[0]} takes a list with one item for each rank: comm.size items"
    if any(words in said for words in _IS_NONE):
        return _only_at_root(frames[-1]["file"], int(frames[-1]["number"]), code)
    if any(words in said for words in _NO_BUFFER):
        for found in _UPPER.finditer(code):
            comm, call = found["comm"], found["call"]
            if call.lower() in _LOWER:
                return (
                    f"{comm}.{call} takes buffers, such as NumPy arrays of numbers: np.array([1, 2, 3]), not "
                    f"[1, 2, 3]; {comm}.{call.lower()} takes any object"
                )
    return ""


def _of_call(said: str, code: str) -> str:
    """Describe how a method is called that was called in another way."""
    if "TypeError: 'int' object is not callable" in said and (found := _CALLED.search(code)):
        name = f"{found['comm']}.{found['name']}"
        return f"{name} is a number: write {name}, without parentheses"
    if "object cannot be interpreted as an integer" in said and (found := _UNCALLED.search(code)):
        comm, name = found["comm"], found["name"]
        return f"{comm}.Get_{name} is a method: write {comm}.Get_{name}(), or {comm}.{name}"
    if any(words in said for words in _NO_RANK) and (found := _SEND.search(code)):
        return f"{found['call']} takes what is sent first, then the rank: {found['call']}(data, dest=1)"
    if "MPI_ERR_TRUNCATE" in said and (found := _SENDER_FIRST.search(code)):
        call, sender = f"{found['comm']}.{found['call']}", found["sender"].strip()
        return f"the first argument of {call} is a buffer: name the sender, {call}(source={sender})"
    if (found := _TOO_MANY.search(said)) and found["call"] in _LOWER | _OTHER:
        takes, got = (int(found[name]) - 1 for name in ("takes", "got"))  # without self
        return f"{found['call']} takes {takes or 'no'} argument{'s' if takes != 1 else ''}, got {got}"
    if found := _KEYWORD.search(said):
        meant = near(found["name"], _PARAMETERS, 1) if found["call"].lower() in _LOWER else []
        return f"{found['call']} has no {found['name']!r}: did you mean {meant[0]!r}?" if meant else ""
    return ""


def _undefined(name: str, function: str | None) -> str:
    """Return as text where a name comes from that a program has not defined."""
    if name == "comm" and function:
        head = "comm = MPI.COMM_WORLD" if function == "<module>" else f"def {function.strip('<>')}(comm, ...)"
        return f"comm is defined by {head!r}"
    if name in _IMPORTS:
        return f"{name} is defined by {_IMPORTS[name]!r}: write that first"
    if name in ("rank", "size"):
        return f"a program asks its communicator: write comm.{name}"
    meant = near(name, ("comm", "rank", "size"), 1, _CUTOFF)
    return f"{name} is not defined; did you mean {meant[0]!r}?" if meant else ""


def _nearest_name(owner: str, name: str) -> str:
    """Suggest a name of mpi4py's: of its two spellings the one that was begun, if it has any like that."""
    if owner != "MPI" and name.lower() in ("sum", "max", "min", "prod", "mean"):
        return f"{owner} has no {name!r}: comm.allreduce(x, op=MPI.SUM) adds up x of all ranks"
    known = {n for n in {*_LOWER, *map(str.capitalize, _LOWER), *_OTHER} if owner == "MPI" or not n.isupper()}
    alike = sorted(one for one in known if one[0].isupper() == name[0].isupper())
    found = near(name, alike, 1, _CUTOFF) or [one for one in sorted(known) if one.lower() == name.lower()]
    return f"{owner} has no {name!r}: did you mean {found[0]!r}?" if found else ""


def _only_at_root(file: str, number: int, code: str) -> str:
    """Return the sentence that only the root has the result of a ``gather`` or ``reduce`` before."""
    import linecache  # for a mistake only: every rank of a real run loads this file

    used = set(re.findall(r"[A-Za-z_]\w*", code))
    for line in reversed(linecache.getlines(file)[: number - 1]):
        if re.match(r"\s*(def|class)\b", line):  # another function's
            return ""
        found = _AT_ROOT.search(line)
        if found and found["name"] in used:
            comm, call = found["comm"], found["call"]
            return (
                f"{found['name']} is None here: {comm}.{call} gives its result to the root alone; "
                f"{comm}.all{call} gives it to every rank"
            )
    return ""


class RankError(LabkitError):
    """A rank that ended with an exception, an exit or a signal.

    Attributes
    ----------
    rank : int
        The rank that failed first.
    traceback : str
        Its traceback as text, or what the launcher reported.
    abort_code : int or None
        The error code of ``comm.Abort``; None if the rank ended otherwise.
    code : str
        That of labkit's error that the rank raised; ``"aborted"`` after ``comm.Abort``.
    """

    code = "rank-failed"

    def __init__(
        self,
        rank: int,
        traceback: str,
        message: str | None = None,
        abort_code: int | None = None,
        code: str | None = None,
    ) -> None:
        self.rank = rank
        self.traceback = traceback
        self.abort_code = abort_code
        message = message or f"rank {rank} failed: {headline(traceback)}\n{traceback}"
        super().__init__(message, code=code if abort_code is None else "aborted")
        self.hint = rank_hint(traceback)
        if self.hint:
            self.add_note(self.hint)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the arguments, so that the error crosses process borders whole."""
        return type(self), (self.rank, self.traceback, self.args[0]), self.__dict__


class SuggestsNames:
    """Base of classes that answer a name they do not have with the one that was meant."""

    #: what people ask for under another name, and what to write
    _INSTEAD: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # for whom every name would be there

        def __getattr__(self, name: str) -> object:
            if name.startswith("_") or hasattr(type(self), name):  # Python's own, or a property that fails
                return object.__getattribute__(self, name)
            instead = self._instead_of(name)
            kind = f"{'an' if type(self).__name__[0] in 'AEIOU' else 'a'} {type(self).__name__}"
            if instead:
                raise UnknownNameError(f"{kind} has no {name!r}; use {instead}")
            raise unknown_name(kind, name, [one for one in dir(self) if one[0] != "_"])

    def _instead_of(self, name: str) -> str:
        return self._INSTEAD.get(name, "")


def unknown_name(
    module: str, name: str, known: Iterable[str], instead: Mapping[str, str] | None = None
) -> UnknownNameError:
    """Return the error of a name that a module does not have, with the nearest ones that it has.

    `instead`: What people ask for under another name, and what to write.
    """
    if instead and name in instead:
        return UnknownNameError(f"{module} has no {name!r}; use {instead[name]}")
    known = sorted(known)
    hint = nearest(name, known) or f"; it has {', '.join(known)}"
    return UnknownNameError(f"{module} has no {name!r}{hint}")


def __dir__() -> list[str]:
    """Offer, at Tab, what can be caught."""
    named = ((name, globals()[name]) for name in __all__)
    return [name for name, one in named if isinstance(one, type) and issubclass(one, BaseException)]


# Names that resemble one that is not known: every "did you mean" of labkit.


#: Comparing is quadratic in the length of a name and linear in their number.
_MOST_NAMES, _MOST_LETTERS = 5000, 200
_NEAREST_CUTOFF = 0.6
#: of a string that is only the beginning of a name: "smaple" for "sample_sort"
_LEAST_BEGUN, _CUTOFF_BEGUN = 4, 0.8


def near(name: object, known: Iterable[str], most: int = 3, cutoff: float = _NEAREST_CUTOFF) -> list[str]:
    """Return up to `most` names that resemble one, the nearest first; upper and lower case are the same.

    Examples
    --------
    >>> near("Grafene", ["graphene", "jugene"], most=1)
    ['graphene']
    >>> near("smaple", ["radix_sort", "sample_sort"])
    ['sample_sort']
    """
    import difflib  # for a mistake only: every rank of a real run loads this file

    if not isinstance(name, str):  # such as a function where its name is meant
        return []
    lower = {one.lower(): one for one in islice(known, _MOST_NAMES) if len(one) <= _MOST_LETTERS}
    word = name[:_MOST_LETTERS].lower()
    found = difflib.get_close_matches(word, list(lower), most, cutoff)
    if not found and len(word) >= _LEAST_BEGUN:
        begun = {one[: len(word)]: one for one in reversed(lower) if len(one) > len(word)}
        found = [begun[one] for one in difflib.get_close_matches(word, list(begun), most, _CUTOFF_BEGUN)]
    return [lower[one] for one in found]


def nearest(
    name: object,
    known: Iterable[str],
    most: int = 3,
    cutoff: float = _NEAREST_CUTOFF,
    instead: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Suggest such names, as the end of a sentence; empty where none is near.

    A known string that is not a name gets its suggestion from `instead`.

    Examples
    --------
    >>> nearest("grafene", ["graphene", "xyz"])
    "; did you mean 'graphene'?"
    >>> nearest("xyz", ["graphene"])
    ''
    >>> nearest("bandwith", ["lat", "bandwidth"], instead={"bandwidth": "bw"})
    "; did you mean 'bw'?"
    """
    found = [instead.get(one, one) for one in near(name, known, most, cutoff)]
    return "; did you mean " + " or ".join(map(repr, found)) + "?" if found else ""
