"""The summary of a run: each rank's time, visits and messages by call path, summed up while the program runs.

No event is kept: what a summary takes grows with the ranks and the call paths, not with calls and messages.
It tells what `labkit.trace.waiting.profile` makes of a trace, but for what only events tell: which part of
the time was spent waiting, for whom, and what was on the critical path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labkit.trace.counters import EVENTS, column_of, in_units
from labkit.trace.phases import NO_PHASE
from labkit.trace.waiting.kinds import COMPUTATION, NOT_BEGUN

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SUMS", "Summary", "gives_nothing", "summary_frame"]

#: what is summed up, in the order of a row's values
SUMS = (
    "visits", "spent_s", "messages", "bytes", "empty_messages", "collective_bytes", "empty_collectives",
)  # fmt: skip
_KEYS = ("rank", "phase", "name", "call", "place")
_BELOW = " > "
_VISITS, _SPENT, _SENT, _BYTES, _EMPTY = 0, 1, 2, 5, 6

Row = dict[str, Any]


def gives_nothing(call: str, n_bytes: int) -> bool:
    """Whether a rank gives nothing to a collective call: it only synchronises.

    An object is never without bytes, but it is its root's alone.

    Examples
    --------
    >>> gives_nothing("Barrier", 0), gives_nothing("Bcast", 0), gives_nothing("Bcast", 8)
    (True, True, False)
    >>> gives_nothing("barrier", 0), gives_nothing("bcast", 0)
    (True, False)
    """
    return n_bytes == 0 and (not call[:1].islower() or call == "barrier")


class Summary:
    """Sums for ranks whose calls and phases are told one after the other, with their times.

    Parameters
    ----------
    is_real : bool
        Whether collectives count by what is given to them: those of a simulated run are messages.
    counters : sequence of str
        Names of the host's counters, whose values so far (`counted`) come with each time.

    Examples
    --------
    >>> summary = Summary()
    >>> summary.enter(0, "solve", 1.0)
    >>> at = summary.call(0, "Barrier", 0, 3.0)
    >>> summary.joined(0, 0)
    >>> summary.over(0, 4.0)
    >>> summary.leave(0, "solve", 4.0)
    >>> summary.finish(0, 4.5)
    >>> [(row["phase"], row["call"], row["visits"], row["spent_s"]) for row in summary.rows(["main"])]
    [('(no phase)', 'computation', 1, 1.5), ('solve', 'computation', 1, 2.0), ('solve', 'Barrier', 1, 1.0)]
    """

    def __init__(self, is_real: bool = True, counters: Sequence[str] = ()) -> None:
        self._is_real, self._counters = is_real, tuple(counters)
        #: by number of a node of the tree of phases: its text, its innermost phase
        self._nodes: list[tuple[str, str]] = [(NO_PHASE, NO_PHASE)]
        self._below: dict[tuple[int, str], int] = {}
        self._paths: dict[tuple[int, str, int], int] = {}
        self._sums: dict[tuple[int, int], list[float]] = {}
        # by rank: phases that it is in, until when it is accounted for, the call it is in
        self._stack: dict[int, list[tuple[str, int]]] = {}
        self._since: dict[int, float] = {}
        self._open: dict[int, tuple[int, str, float]] = {}
        self._counted: dict[int, Sequence[int]] = {}

    # -- what ranks do --------------------------------------------------------------------------------------

    def begin(self, rank: int, now: float, counted: Sequence[int] = ()) -> None:
        """A rank begins: nothing was computed before."""
        self._since[rank], self._counted[rank] = now, counted

    def enter(self, rank: int, phase: str, now: float, counted: Sequence[int] = ()) -> None:
        """It enters a phase."""
        self._compute(rank, now, counted)
        stack = self._stack.setdefault(rank, [])
        stack.append((phase, self._node(stack[-1][1] if stack else 0, phase)))
        self._visit(rank, stack[-1][1])

    def leave(self, rank: int, phase: str, now: float, counted: Sequence[int] = ()) -> None:
        """It leaves the innermost open phase of that name."""
        self._compute(rank, now, counted)
        stack = self._stack.get(rank, [])
        for at in range(len(stack) - 1, -1, -1):
            if stack[at][0] == phase:
                inner = [name for name, _ in stack[at + 1 :]]
                del stack[at:]
                for name in inner:
                    stack.append((name, self._node(stack[-1][1] if stack else 0, name)))
                return

    def call(self, rank: int, name: str, place: int, now: float, counted: Sequence[int] = ()) -> int:
        """It calls MPI, and what it was in before, by an error, is over; the number of the call path."""
        if rank in self._open:
            self.over(rank, now, counted)
        self._compute(rank, now, counted)
        path = self._path(rank, name, place)
        self._open[rank] = path, name, now
        return path

    def called(
        self, rank: int, name: str, place: int, begin: float, end: float, joined_bytes: int | None,
        sent: Sequence[int], counted: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> None:  # fmt: skip
        """It has called MPI, from begin to end, as `call`, `joined`, `sent` and `over` have it one by one.

        Parameters
        ----------
        joined_bytes : int or None
            What it gave to a collective; None of other calls.
        sent : sequence of int
            Messages, their bytes, how many had none.
        counted : pair
            The counters at begin and end.
        """
        self._compute(rank, begin, counted[0])
        path = self._path(rank, name, place)
        sums = self._of(rank, path)
        sums[_VISITS] += 1
        if joined_bytes is not None:
            sums[_BYTES] += joined_bytes * self._is_real
            sums[_EMPTY] += gives_nothing(name, joined_bytes)
        if sent[0]:
            for at, amount in enumerate(sent, _SENT):
                sums[at] += amount
        self._spend(rank, path, end, counted[1])

    def inside(self, rank: int) -> tuple[int, float]:
        """Return the call path that it is in a call of, and since when."""
        path, _, since = self._open[rank]
        return path, since

    def again(self, rank: int, path: int) -> None:
        """The last call was no call of its own, but the one before went on."""
        self._of(rank, path)[_VISITS] -= 1

    def joined(self, rank: int, n_bytes: int) -> None:
        """The call that it is in is a collective."""
        path, name, _ = self._open[rank]
        sums = self._of(rank, path)
        sums[_BYTES] += n_bytes * self._is_real
        sums[_EMPTY] += gives_nothing(name, n_bytes)

    def over(self, rank: int, now: float, counted: Sequence[int] = ()) -> None:
        """The call that it is in is over."""
        path, *_ = self._open.pop(rank)
        self._of(rank, path)[_VISITS] += 1
        self._spend(rank, path, now, counted)

    def sent(self, rank: int, path: int, messages: int, n_bytes: int, empty: int) -> None:
        """It has sent messages from a call path."""
        sums = self._of(rank, path)
        for at, amount in enumerate((messages, n_bytes, empty), _SENT):
            sums[at] += amount

    def finish(self, rank: int, now: float, counted: Sequence[int] = ()) -> None:
        """Its program is over."""
        if rank in self._open:
            self.over(rank, now, counted)
        self._compute(rank, now, counted)
        self._visit(rank, 0)

    # -- what it comes to -----------------------------------------------------------------------------------

    def rows(self, places: Sequence[str]) -> list[Row]:
        """Return a row by rank and call path, as plain data: `SUMS`, rank, phase, name, call, place.

        And the counters by their names.
        """
        names = (*SUMS, *self._counters)
        keys = list(self._paths)
        found = []
        for (rank, path), sums in self._sums.items():
            node, call, place = keys[path]
            phase, name = self._nodes[node]
            where = places[place] if place >= 0 else ""
            values = [*map(int, sums[:1]), sums[1], *map(int, sums[2:])]
            row = dict(zip(names, values, strict=True))
            found.append({"rank": rank, "phase": phase, "name": name, "call": call, "place": where, **row})
        return found

    # -- how ------------------------------------------------------------------------------------------------

    def _node(self, above: int, name: str) -> int:
        number = self._below.get((above, name))
        if number is None:
            number = self._below[above, name] = len(self._nodes)
            self._nodes.append((f"{self._nodes[above][0]}{_BELOW}{name}" if above else name, name))
        return number

    def _path(self, rank: int, call: str, place: int) -> int:
        stack = self._stack.get(rank)
        return self._path_at(stack[-1][1] if stack else 0, call, place)

    def _path_at(self, node: int, call: str, place: int) -> int:
        key = (node, call, place)
        number = self._paths.get(key)
        if number is None:
            number = self._paths[key] = len(self._paths)
        return number

    def _of(self, rank: int, path: int) -> list[float]:
        sums = self._sums.get((rank, path))
        if sums is None:
            sums = self._sums[rank, path] = [0] * (len(SUMS) + len(self._counters))
        return sums

    def _compute(self, rank: int, now: float, counted: Sequence[int] = ()) -> None:
        """Until now the rank has computed, unless it is in a call."""
        if rank in self._open or now <= self._since.get(rank, 0.0):
            return
        self._spend(rank, self._path(rank, COMPUTATION, -1), now, counted)

    def _visit(self, rank: int, node: int) -> None:
        """It has entered a phase, or the program: a visit of what it computes there, however long that is."""
        self._of(rank, self._path_at(node, COMPUTATION, -1))[_VISITS] += 1

    def _spend(self, rank: int, path: int, now: float, counted: Sequence[int]) -> None:
        since = self._since.get(rank, 0.0)
        if now > since:
            sums = self._of(rank, path)
            sums[_SPENT] += now - since
            self._since[rank] = now
            if counted:
                for at, (before, after) in enumerate(
                    zip(self._counted[rank], counted, strict=True), len(SUMS)
                ):
                    sums[at] += after - before
                self._counted[rank] = counted


def summary_frame(rows: Iterable[Mapping[str, Any]], counts: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the rows of all ranks as the table that `labkit.Run.profile` gives.

    Parameters
    ----------
    rows : iterable of mapping
        Of `Summary.rows`.
    counts : pandas.DataFrame, optional
        `labkit.Run.counts`: with memory_bytes, the table has that too.

    Returns
    -------
    pandas.DataFrame
        By rank and path: rank, path, phase, call, place, visits (of computation: how often the phase, or the
        program, was entered), spent_s (wait states included: only events tell them apart), messages, bytes,
        empty_messages, collective_bytes and empty_collectives, as in
        `labkit.trace.waiting.profile.profile_of`; but a collective counts as empty for a rank that gives
        nothing to it, whatever the others give. With ``counters=`` a column for each that the hosts have,
        NaN on those that do not.
    """
    import pandas as pd

    rows = list(rows)
    counters = [name for name in EVENTS if any(row.get(name) is not None for row in rows)]
    table = pd.DataFrame(rows, columns=[*_KEYS, *SUMS, *counters])
    table.loc[table["call"] == NOT_BEGUN, counters] = 0
    table = table.groupby(list(_KEYS), sort=False, as_index=False)[[*SUMS, *counters]].sum(min_count=1)
    table["path"] = table.groupby(list(_KEYS[1:]), sort=False).ngroup()
    table = table.sort_values(["rank", "path"], kind="stable", ignore_index=True)
    if counts is not None and "memory_bytes" in counts:
        held = counts.set_index(["rank", "phase"])["memory_bytes"]
        names = table["name"].replace(NO_PHASE, "")
        table["memory_bytes"] = held.reindex(pd.MultiIndex.from_arrays([table["rank"], names])).to_numpy()
    held_too = ["memory_bytes"] if "memory_bytes" in table else []
    for name in counters:
        held_too.append(column_of(name))
        values = table.pop(name)
        table[column_of(name)] = in_units(name, values if values.hasnans else values.astype(int))
    return table[["rank", "path", "phase", "call", "place", *SUMS, *held_too]]


def not_begun(rank: int, seconds: float) -> Row:
    """Return the row of the time before a real rank began."""
    zero = dict.fromkeys(SUMS, 0)
    where = {"rank": rank, "phase": NO_PHASE, "name": NO_PHASE, "call": NOT_BEGUN, "place": ""}
    return {**where, **zero, "spent_s": seconds}
