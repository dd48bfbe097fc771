"""Hints of what to type, for mistakes that beginners make on a communicator.

What a rank has met is known by its traceback's text alone, whichever machine it ran on.
"""

from __future__ import annotations

import re

from labkit.nearest import near

__all__ = ["rank_hint"]

#: a frame, its line of code, and Python's marks below the part that failed; mpi4py's own frames have no code
_FRAME = re.compile(
    r'^  File "(?P<file>[^\n"]*)", line (?P<number>\d+)[^\n]*\n(?P<line>    \S[^\n]*)'
    r"(?:\n(?P<marks> +[~^]+) *$)?",
    re.MULTILINE,
)
_CALLED = re.compile(r"(?P<comm>[\w.]+)\.(?P<name>size|rank)\(\)")
_UNCALLED = re.compile(r"(?P<comm>[\w.]+)\.Get_(?P<name>size|rank)\b(?!\()")
_UPPER = re.compile(r"(?P<comm>[\w.]+)\.(?P<call>[A-Z]\w*)\(")
_KEYWORD = re.compile(r"TypeError: (?P<call>\w+)\(\) got an unexpected keyword argument '(?P<name>\w+)'")
#: parameters of the methods, by their names
_PARAMETERS = (
    "dest", "source", "tag", "root", "op", "status", "obj", "buf", "sendobj", "sendbuf", "recvbuf", "sendtag",
    "recvtag", "color", "key",
)  # fmt: skip
#: what gives its result to the root alone, and its twin for all; the second of the names of the line
_AT_ROOT = re.compile(r"(?P<name>\w+)\s*=\s*(?P<comm>[\w.]+)\.(?P<call>gather|reduce)\(")
_IS_NONE = ("'NoneType' object is not", "object of type 'NoneType'", "'NoneType' and", "and 'NoneType'")
#: what takes any object, beside its upper-case twin for buffers
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
    "np": "import numpy as np", "numpy": "import numpy", "MPI": "from mpi4py import MPI",
    "lk": "import labkit as lk", "labkit": "import labkit", "math": "import math", "time": "import time",
    "random": "import random", "pd": "import pandas as pd", "os": "import os", "sys": "import sys",
}  # fmt: skip
_NO_BUFFER = ("a bytes-like object is required", "message: expecting", "cannot map 'O' to MPI datatype")


def rank_hint(traceback: str) -> str:
    """Return one sentence that says what to type; an empty text where nothing is known.

    Parameters
    ----------
    traceback : str
        Of a rank, as Python formats it.

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
    if "TypeError: 'int' object is not callable" in said and (found := _CALLED.search(code)):
        name = f"{found['comm']}.{found['name']}"
        return f"{name} is a number: write {name}, without parentheses"
    if "object cannot be interpreted as an integer" in said and (found := _UNCALLED.search(code)):
        comm, name = found["comm"], found["name"]
        return f"{comm}.Get_{name} is a method: write {comm}.Get_{name}(), or {comm}.{name}"
    if found := _UNKNOWN.search(said):
        return _nearest_name(found["owner"].removeprefix("mpi4py."), found["name"])
    if (found := _UNDEFINED.search(said)) and found["name"] in _IMPORTS:
        return f"{found['name']} is defined by {_IMPORTS[found['name']]!r}: write that first"
    if found := _KEYWORD.search(said):
        meant = near(found["name"], _PARAMETERS, 1) if found["call"].lower() in _LOWER else []
        return f"{found['call']} has no {found['name']!r}: did you mean {meant[0]!r}?" if meant else ""
    if said.rstrip().endswith("MPI_ERR_RANK: invalid rank"):
        return "dest, source and root are ranks of the communicator: from 0 to comm.size - 1"
    if "object is not iterable" in said and re.search(r"\bsum\s*[,)]", code):
        return "Python's sum takes one list; the operator is op=MPI.SUM"
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


def _nearest_name(owner: str, name: str) -> str:
    """Suggest a name of mpi4py's: of its two spellings the one that was begun."""
    known = {*_LOWER, *(one.capitalize() for one in _LOWER), *_OTHER}
    alike = sorted(one for one in known if one[0].isupper() == name[0].isupper())
    found = near(name, alike, 1, _CUTOFF)
    return f"{owner} has no {name!r}: did you mean {found[0]!r}?" if found else ""


def _only_at_root(file: str, number: int, code: str) -> str:
    """Say that a value is the root's alone, where the lines before have it from ``gather`` or ``reduce``."""
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
