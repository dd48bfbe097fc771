"""What to type instead, for mistakes that beginners make on a communicator.

What a rank has met is known by its traceback's text alone, whichever machine it ran on.
"""

from __future__ import annotations

import re

from labkit.nearest import near

__all__ = ["rank_hint"]

#: a frame, its line of code, and Python's marks below the part that failed; mpi4py's own frames have no code
_FRAME = re.compile(r'^  File "[^\n]*\n(?P<line>    \S[^\n]*)(?:\n(?P<marks> +[~^]+) *$)?', re.MULTILINE)
_CALLED = re.compile(r"(?P<comm>[\w.]+)\.(?P<name>size|rank)\(\)")
_UNCALLED = re.compile(r"(?P<comm>[\w.]+)\.Get_(?P<name>size|rank)\b(?!\()")
_UPPER = re.compile(r"(?P<comm>[\w.]+)\.(?P<call>[A-Z]\w*)\(")
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
_UNKNOWN = re.compile(
    r"AttributeError: (?:module )?'?(?P<owner>(?:mpi4py\.)?MPI(?:\.\w+)?)'?(?: object)? has no attribute "
    r"'(?P<name>\w+)'"
)
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
    found = near(name, alike, 1)
    return f"{owner} has no {name!r}: did you mean {found[0]!r}?" if found else ""
