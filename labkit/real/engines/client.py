"""One run on the MPI engines of an ipyparallel cluster, which stays usable."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED
from concurrent.futures import wait as wait_futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.errors import LabkitError, MachineError, RankError
from labkit.process.folders import private_folder
from labkit.process.stacks import Frame, parse_stack
from labkit.process.tree import is_stopped
from labkit.process.watchdog import STACK_SIGNAL
from labkit.real.engines.target import ANSWER_S, EngineRank, Target, call, choose, find_target
from labkit.real.failure import (
    Ending,
    Where,
    first_error,
    grouped,
    interrupted,
    printed_too_much,
    read_ending,
    stopped,
    too_late,
    with_output,
)
from labkit.real.host_limits import describe_place, place_doubt
from labkit.real.mpi.deadlock import Blame, WaitWatch
from labkit.real.mpi.waits import Progress
from labkit.real.shares import (
    gather_runs,
    oversubscription,
    read_result,
    recorded_header,
    recording_for,
    run_of,
)
from labkit.real.travel import pack_job
from labkit.request import RunRequest
from labkit.result import Run
from labkit.text.progress import Live
from labkit.text.units import ranks_text

__all__ = ["Reports", "engine_failure", "run_on_engines", "watch"]

#: what all ranks together may print, unless the caller says otherwise
OUTPUT_LIMIT_BYTES = 50_000_000

#: runs that a communicator outlives, so that what is still under way arrives where it belongs
QUARANTINE_RUNS = 4

# The error of a failed run on engines: which rank, where and why, out of all reports.

#: how much of a launcher's output is read: its last lines stand at the end
_TAIL_BYTES = 50_000

#: how long the launcher may take to write down which process ended
_WORDS_S = 6.0


# The client's side of a run on engines: submit, wait, and end it when it has to end.
#
# Every rank that does not end by itself gets the interrupt signal again and again; one that is blocked in C
# does not hear it, is asked for its stack, and is remembered as stuck.

#: how long ranks may take to end once they are interrupted
STOP_S = 6.0

#: how often an interrupt is sent again
AGAIN_S = 0.5

#: how long the engines of a broken world may take to vanish
VANISH_S = 5.0

#: how frequently the clock is looked at
LOOK_S = 0.1


@dataclass
class Reports:
    """How a run ended.

    `records`: What each rank reported, by rank.
    `lost`: Why a rank has not reported, by rank: its engine died, or its reply cannot be read.
    `stuck`: Ranks that did not end although they were interrupted.
    `stopped`: Ranks that a signal had stopped when they were to end.
    `is_late`: Whether the time limit was reached.
    `blame`: Who waits for whom, where nobody could go on.
    `sees_waits`: Whether it could be seen who waits for whom: on engines that labkit has started on this
        host.
    `stack_files`: Files with the stacks of stuck ranks, as text.
    `host_seconds`: What it took.
    """

    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    lost: dict[int, BaseException] = field(default_factory=dict)
    stuck: list[int] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)
    is_late: bool = False
    blame: Blame | None = None
    sees_waits: bool = True
    stacks: dict[int, str] = field(default_factory=dict)
    host_seconds: float = 0.0

    def printed(self, places: list[EngineRank]) -> list[bytes]:
        """Return what each rank has printed, as far as it has reported."""
        return [self.records[p.rank]["output"] if p.rank in self.records else b"" for p in places]


def watch(
    target: Target,
    places: list[EngineRank],
    header: Mapping[str, object],
    payload: bytes,
    timeout_s: float | None,
    title: str = "a program",
) -> Reports:
    """Run a program on the engines, and return when no rank runs any more, or none can be reached.

    While it goes on, somebody who watches sees `title` and how far it is.
    """
    with _folder() as folder:
        run = _Watch(target, places, folder)
        begin = time.monotonic()
        try:
            with _later_interrupt():  # half of the ranks would wait for the others in a call of C
                run.submit(header, payload)
            with run.live(title):
                run.wait(None if timeout_s is None else begin + timeout_s)
        except KeyboardInterrupt:
            run.stop()
            raise interrupted(run.reports.printed(places)) from None
        except BaseException:
            run.stop()
            raise
        finally:
            run.forget()
            target.memory.stuck = {
                rank: run.replies[rank] for rank in run.reports.stuck or run.pending() if rank in run.replies
            }
        run.reports.host_seconds = time.monotonic() - begin
        return run.reports


@contextlib.contextmanager
def _folder() -> Iterator[str | None]:
    """Make a folder for the stacks of ranks of this host; without one the stacks stay unknown."""
    with contextlib.ExitStack() as stack:
        folder = None
        with contextlib.suppress(MachineError):
            folder = str(stack.enter_context(private_folder()))
        yield folder


@contextlib.contextmanager
def _later_interrupt() -> Iterator[None]:
    """Keep the user's interrupt back until the block has ended."""
    came: list[int] = []
    try:
        previous = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    except ValueError:  # not in the main thread: no interrupt is raised here
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if came:
        raise KeyboardInterrupt


def _interrupted(rank: int) -> dict[str, object]:
    """Describe a rank that was interrupted just outside its program."""
    return {"rank": rank, "kind": "interrupted", "text": "", "time": time.monotonic(), "place": [],
            "has_finished": False, "shares": [], "leftover": [], "is_clean": False, "reason": "",
            "output": b"", "threads": 0}  # fmt: skip


class _Watch:
    def __init__(self, target: Target, places: list[EngineRank], folder: str | None) -> None:
        self.target, self.places, self.folder = target, places, folder
        self.replies: dict[int, Any] = {}
        self.reports = Reports()
        self.is_stopping = False
        #: finds out when nobody can go on; None where that cannot be seen from here
        self.waits = self._noted_waits()
        self.reports.sees_waits = self.waits is not None

    def file(self, rank: int, kind: str) -> str:
        """Return the path of one of a rank's files."""
        return os.path.join(self.folder or "", f"rank-{rank}.{kind}")

    def _noted_waits(self) -> WaitWatch | None:
        """Put what the engines of this host note of their waits where it is looked for."""
        pages = [str(place.about.get("waits") or "") for place in self.places]
        hosts = {place.about["host"] for place in self.places}
        if self.folder is None or hosts != {platform.node()} or not all(map(os.path.isfile, pages)):
            return None
        for place, page in zip(self.places, pages, strict=True):
            os.symlink(page, self.file(place.rank, "wait"))
            Path(self.file(place.rank, "pid")).write_text(str(place.about["pid"]), "ascii")
        return WaitWatch(self.folder, len(self.places))

    def live(self, title: str) -> Any:
        """Return the context in which the run is shown while it goes on."""
        if self.folder is None:
            return contextlib.nullcontext()
        progress = Progress(self.folder, len(self.places), has_calls=False)
        return Live(f"{title} on a cluster", progress.status, progress.lines)

    def submit(self, header: Mapping[str, object], payload: bytes) -> None:
        """Send each rank its part."""
        for place in self.places:
            own: dict[str, object] = {}
            if self.folder is not None:
                files = {"stack_file": "stack", "output_file": "out"}
                own = {name: self.file(place.rank, kind) for name, kind in files.items()}
            view = self.target.client[place.engine]
            self.replies[place.rank] = view.apply_async(call, {**header, **own}, payload)

    def forget(self) -> None:
        """Let the client forget the replies: it would keep every result as long as it lives."""
        client = self.target.client
        for reply in self.replies.values():
            if reply.ready():
                with contextlib.suppress(Exception):
                    client.purge_local_results(reply)

    def pending(self) -> list[int]:
        """List the ranks that have not replied."""
        return [rank for rank, reply in self.replies.items() if not reply.ready()]

    def wait(self, deadline: float | None) -> None:
        """Wait until all ranks have replied, one has failed, or the time is over; then end the others."""
        while pending := self.pending():
            wait_futures([self.replies[rank] for rank in pending], LOOK_S, FIRST_COMPLETED)
            self.collect()
            if self.reports.lost:
                self.vanish()
                break
            if any(record["kind"] != "done" for record in self.reports.records.values()):
                break
            if self.waits is not None and (blame := self.waits.look()) and self.pending():
                self.reports.blame = blame
                break
            if deadline is not None and time.monotonic() >= deadline and self.pending():
                self.reports.is_late = True
                break
        self.stop()

    def collect(self) -> None:
        """Take in the replies that are there."""
        for rank, reply in self.replies.items():
            if rank in self.reports.records or rank in self.reports.lost or not reply.ready():
                continue
            try:
                self.reports.records[rank] = reply.get()
                if self.folder is not None:
                    Path(self.file(rank, "done")).touch()
            except Exception as error:  # whatever the engine or the way back has raised
                if self.is_stopping and getattr(error, "ename", "") == "KeyboardInterrupt":
                    self.reports.records[rank] = _interrupted(rank)
                else:
                    self.reports.lost[rank] = error

    def vanish(self) -> None:
        """Wait a little: the launcher ends all engines of a world when one of them has died."""
        until = time.monotonic() + VANISH_S
        while (pending := self.pending()) and time.monotonic() < until:
            wait_futures([self.replies[rank] for rank in pending], LOOK_S)

    def stop(self) -> None:
        """Interrupt the ranks that still run, until they have replied or nothing helps."""
        self.is_stopping = True
        self.continue_stopped()
        until = time.monotonic() + STOP_S
        while (pending := self.pending()) and time.monotonic() < until:
            self.signal(signal.SIGINT, pending)
            wait_futures([self.replies[rank] for rank in pending], AGAIN_S)
        self.collect()
        self.reports.stuck = self.pending()
        if self.reports.stuck:
            self.ask_for_stacks()

    def continue_stopped(self) -> None:
        """Find the ranks of this host that a signal has stopped, and continue them so that they can end."""
        waiting = set(self.pending())
        for place in self.places:
            pid = int(place.about["pid"])
            if place.rank in waiting and place.about["host"] == platform.node() and is_stopped(pid):
                self.reports.stopped.append(place.rank)
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGINT)  # first: what is pending comes before the program goes on
                    os.kill(pid, signal.SIGCONT)

    def signal(self, number: int, ranks: list[int]) -> None:
        """Send a signal to the engines of some ranks, and wait until it has been sent."""
        known = set(self.target.client.ids)
        engines = [place.engine for place in self.places if place.rank in ranks and place.engine in known]
        if not engines:
            return
        with contextlib.suppress(Exception):  # an engine may vanish at any moment
            sent = self.target.client.send_signal(int(number), targets=engines, block=False)
            until = time.monotonic() + 2.0
            while not sent.done() and time.monotonic() < until:
                time.sleep(0.005)

    def ask_for_stacks(self) -> None:
        """Let the stuck ranks of this host write down where they are."""
        if self.folder is None or STACK_SIGNAL is None:
            return
        self.signal(STACK_SIGNAL, self.reports.stuck)
        time.sleep(0.3)
        for rank in self.reports.stuck:
            with contextlib.suppress(OSError):
                self.reports.stacks[rank] = Path(self.file(rank, "stack")).read_text("utf-8", "replace")


def engine_failure(
    target: Target,
    places: list[EngineRank],
    reports: Reports,
    timeout_s: float | None,
    output_limit_bytes: int,
) -> LabkitError | None:
    """Find out why a run failed."""
    records = reports.records
    if len(records) == len(places) and all(one["kind"] == "done" for one in records.values()):
        return None
    failed = [one for one in records.values() if one["kind"] not in ("done", "interrupted")]
    error = first_error(failed)
    if error is None and reports.lost:
        error = _from_lost(target, places, reports)
    elif error is None and any(one["reason"] == "output" for one in records.values()):
        error = printed_too_much("a rank", output_limit_bytes)
    elif error is None and _is_deadlocked(reports):
        error = _deadlock(places, reports)
    elif error is None and reports.is_late:
        error = too_late(timeout_s, _places(places, reports))
        if not reports.sees_waits:
            error.add_note(
                "If all of them wait for each other, this is a deadlock: it is recognized, with its cycle, "
                "only on engines that labkit has started on this host."
            )
    elif error is None:
        interrupted = [rank for rank, one in sorted(records.items()) if one["kind"] == "interrupted"]
        error = MachineError(
            f"{ranks_text(interrupted)} got an interrupt from outside this run, and it was ended:\n"
            f"{grouped(_places(places, reports))}",
            code="interrupted",
        )
    if reports.stuck:
        error.add_note(
            f"{ranks_text(reports.stuck)} could not be interrupted (blocked in a call of C code?); until the "
            f"engines are restarted no run can use them: {target.restart_hint}"
        )
    return with_output(error, reports.printed(places))


def _is_deadlocked(reports: Reports) -> bool:
    """Whether nobody could go on, and nobody who is to blame has gone on meanwhile."""
    blame, records = reports.blame, reports.records
    return blame is not None and not any(
        rank in records and records[rank]["kind"] == "done" for rank in blame.ranks
    )


def _deadlock(places: list[EngineRank], reports: Reports) -> LabkitError:
    """Report who waits for whom, and where in the program."""
    assert reports.blame is not None
    stacks = {rank: () if isinstance(where, str) else where for rank, where in _places(places, reports)}
    return reports.blame.error(stacks, len(places))


def _places(places: list[EngineRank], reports: Reports) -> Iterator[tuple[int, Where]]:
    """Yield where each rank was at the moment of its interrupt."""
    for place in places:
        record = reports.records.get(place.rank)
        where: Where
        if record is None:
            where = tuple(parse_stack(reports.stacks.get(place.rank, "")))
            where = where or "could not be interrupted, and did not say where it is"
        elif record["has_finished"]:
            where = "had finished"
        else:
            where = tuple(Frame(*one) for one in record["place"]) or "was outside the program"
        if place.rank in reports.stopped:
            where = stopped(() if isinstance(where, str) else where)
        yield place.rank, where


def _from_lost(target: Target, places: list[EngineRank], reports: Reports) -> LabkitError:
    """Name the rank whose engine died, from what its launcher saw."""
    gone = [place for place in places if place.engine not in target.client.ids]
    lost = sorted(reports.lost)
    if not gone:
        error = reports.lost[lost[0]]
        text = " ".join(str(error).split())[:500]
        return MachineError(f"the engine of rank {lost[0]} failed: {type(error).__name__}: {text}")
    ending = _ending(target, {int(place.about["pid"]): place.rank for place in places})
    advice = f"the engines of its MPI world are lost: {target.restart_hint}"
    if ending is None and len(gone) == 1:
        text = f"vanished: its engine {gone[0].engine} died"
        return RankError(gone[0].rank, text, f"rank {gone[0].rank} {text}; {advice}")
    if ending is None:
        ranks = ranks_text(sorted(place.rank for place in gone))
        return MachineError(
            f"the engines of {ranks} died, and which of them died first is not known; {target.restart_hint}",
            code="lost-process",
        )
    if ending.rank >= len(places):
        return MachineError(f"rank {ending.rank}, which took no part in the run, {ending.text()}; {advice}")
    said = f"rank {ending.rank} {ending.text()}; {advice}"
    return RankError(ending.rank, ending.text(), said, abort_code=ending.abort)


def _ending(target: Target, ranks_by_pid: Mapping[int, int]) -> Ending | None:
    until = time.monotonic() + _WORDS_S
    while True:
        for path in target.launcher_files():
            try:
                with Path(path).open("rb") as file:
                    file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                    text = file.read().decode("utf-8", "replace")
            except OSError:
                continue
            if ending := read_ending(text, ranks_by_pid):
                return ending
        if time.monotonic() > until or not target.launcher_files():
            return None
        time.sleep(0.1)


def run_on_engines(request: RunRequest) -> Run:
    """Run a program on the first engines of a cluster; see `labkit.run`."""
    ranks, timeout_s = request.ranks, request.timeout_s
    limit_bytes = request.options.get("output_limit_bytes", OUTPUT_LIMIT_BYTES)
    header, payload = pack_job(
        request,
        path=[os.path.abspath(path) for path in sys.path],
        folder=os.getcwd(),
        run=secrets.token_hex(8),
        limit_s=timeout_s,
        output_limit_bytes=max(1, limit_bytes // ranks),
    )
    if isinstance(request.program, Path):
        header["script"] = str(request.program.resolve())
    recording = recording_for(request)
    header |= recorded_header(request, recording)
    target = find_target(request.on)
    memory = target.memory
    if not memory.lock.acquire(timeout=-1 if timeout_s is None else timeout_s):
        raise MachineError(
            f"another run has used this cluster for {timeout_s:g} s; wait for it, or start a second cluster",
            code="in-use",
        )
    try:
        title = f"{request.name}, {ranks:,} ranks"
        places, reports = _run(target, ranks, header, payload, timeout_s, title)
        error = engine_failure(target, places, reports, timeout_s, header["output_limit_bytes"])
        if error is not None:
            if recording is not None and (
                left := recording.salvage_notes(_notes(reports), ranks, str(error))
            ):
                error.add_note(left)
            raise error
    finally:
        memory.lock.release()
    runs = _read_runs(places, reports, request.name, len(target.engines))
    return run_of(runs, recording.collect_notes(_notes(reports), ranks) if recording else ())


def _notes(reports: Reports) -> dict[int, Any]:
    """Return what the ranks of a recorded run have noted."""
    return {rank: one["trace"] for rank, one in reports.records.items() if one.get("trace")}


def _run(
    target: Target, ranks: int, header: dict[str, Any], payload: bytes, timeout_s: float | None, title: str
) -> tuple[list[EngineRank], Reports]:
    """Look at the engines, run, and remember what the next run has to know."""
    memory = target.memory
    stuck = memory.stuck_ranks()
    if stuck:
        raise MachineError(
            f"{ranks_text(stuck)} of this cluster still {'hangs' if len(stuck) == 1 else 'hang'} in an "
            f"earlier run and cannot be interrupted; {target.restart_hint}",
            code="in-use",
        )
    places = choose(target.ask(ANSWER_S), ranks)
    clean = memory.clean.setdefault(ranks, [])
    free = clean[: max(0, len(clean) - QUARANTINE_RUNS)]
    header |= {"base": memory.bases.setdefault(ranks, secrets.token_hex(8)), "free": free}
    is_done = False
    try:
        reports = watch(target, places, header, payload, timeout_s, title)
        is_done = len(reports.records) == ranks and all(
            record["kind"] == "done" for record in reports.records.values()
        )
    finally:
        del clean[: len(free)]
        if not is_done:  # a collective may be half done: the ranks' own communicator is of no use any more
            memory.bases.pop(ranks, None)
            memory.clean.pop(ranks, None)
    if is_done and all(record["is_clean"] for record in reports.records.values()):
        clean.append(header["run"])
    return places, reports


def _read_runs(places: list[EngineRank], reports: Reports, name: str, engines: int) -> list[Run]:
    """Turn the ranks' reports into one run per repetition."""
    records = [reports.records[place.rank] for place in places]
    shares = [
        [(times, read_result(rank, raw)) for times, raw in one["shares"]] for rank, one in enumerate(records)
    ]
    hosts = Counter(str(place.about["host"]) for place in places)
    notes, is_valid = _validity(places, hosts)
    notes += _left_behind(records)
    alone = None if len(hosts) == 1 else [[rank] for rank in range(len(places))]
    return gather_runs(
        shares,
        [one["output"] for one in records],
        alone,
        program=name,
        on="cluster",
        host_seconds=reports.host_seconds,
        machine=_machine(places, hosts, engines),
        notes=notes,
        is_valid=is_valid,
    )


def _validity(places: list[EngineRank], hosts: Counter[str]) -> tuple[list[str], bool]:
    notes = []
    for host, ranks in hosts.items():
        cores = min(int(place.about["cores"]) for place in places if place.about["host"] == host)
        if ranks > cores:
            notes.append(oversubscription(ranks, cores, host if len(hosts) > 1 else ""))
    is_valid = not notes
    if len(hosts) > 1:
        notes.append(
            f"the ranks are on {len(hosts)} hosts with their own clocks: each rank's times count from its "
            "own entry, just behind a barrier"
        )
    if doubt := place_doubt():
        notes.append(doubt)
    return notes, is_valid and doubt is None


def _left_behind(records: list[dict[str, Any]]) -> list[str]:
    """Return as sentences what the program left on the engines."""
    notes = []
    for rank, record in enumerate(records):
        for source, tag in record["leftover"]:
            notes.append(f"rank {rank} never received a message from rank {source} with tag {tag}")
        if record["threads"] > 0:
            notes.append(f"rank {rank} left {record['threads']} thread(s) running on its engine")
    return notes


def _machine(places: list[EngineRank], hosts: Counter[str], engines: int) -> dict[str, object]:
    return {
        **describe_place(),
        "kind": "cluster",
        "library": places[0].about["library"],
        "engines": engines,
        "host": ", ".join(hosts),
        "cores": min(int(place.about["cores"]) for place in places),
        "python": platform.python_version(),
    }
