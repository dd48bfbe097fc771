"""The client's side of a run on engines: submit, wait, and end it when it has to end.

Every rank that does not end by itself gets the interrupt signal again and again; one that is blocked in C
does not hear it, is asked for its stack, and is remembered as stuck.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED
from concurrent.futures import wait as wait_futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.errors import MachineError
from labkit.live import Live
from labkit.process.folders import private_folder
from labkit.process.tree import is_stopped
from labkit.process.watchdog import STACK_SIGNAL
from labkit.real.engines.target import Place, Target
from labkit.real.failure import interrupted
from labkit.real.mpi.deadlock import Blame, WaitWatch
from labkit.real.mpi.progress import Progress

__all__ = ["Reports", "watch"]

#: how long ranks may take to end once they are interrupted
STOP_S = 6.0
#: how often an interrupt is sent again
AGAIN_S = 0.5
#: how long the engines of a broken world may take to vanish
VANISH_S = 5.0
#: how often the clock is looked at
LOOK_S = 0.1


@dataclass
class Reports:
    """How a run ended.

    Attributes
    ----------
    records : dict
        What each rank reported, by rank.
    lost : dict
        Why a rank has not reported, by rank: its engine died, or its reply cannot be read.
    stuck : list of int
        Ranks that did not end although they were interrupted.
    stopped : list of int
        Ranks that a signal had stopped when they were to end.
    is_late : bool
        Whether the time limit was reached.
    blame : Blame or None
        Who waits for whom, where nobody could go on.
    sees_waits : bool
        Whether it could be seen who waits for whom: on engines that labkit has started on this host.
    stack_files : dict
        Files with the stacks of stuck ranks, as text.
    host_seconds : float
        What it took.
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

    def printed(self, places: list[Place]) -> list[bytes]:
        """Return what each rank has printed, as far as it has reported."""
        return [self.records[p.rank]["output"] if p.rank in self.records else b"" for p in places]


def watch(
    target: Target, places: list[Place], header: Mapping[str, Any], payload: bytes, timeout_s: float | None,
    title: str = "a program",
) -> Reports:  # fmt: skip
    """Run a program on the engines, and return when no rank runs any more, or none can be reached.

    While it goes on, somebody who watches sees `title` and how far it is.

    Raises
    ------
    RunInterrupted
        The user interrupted; the ranks have been stopped.
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


def _interrupted(rank: int) -> dict[str, Any]:
    """Describe a rank that was interrupted just outside its program."""
    return {"rank": rank, "kind": "interrupted", "text": "", "time": time.monotonic(), "place": [],
            "has_finished": False, "shares": [], "leftover": [], "is_clean": False, "reason": "",
            "output": b"", "threads": 0}  # fmt: skip


class _Watch:
    def __init__(self, target: Target, places: list[Place], folder: str | None) -> None:
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

    def submit(self, header: Mapping[str, Any], payload: bytes) -> None:
        """Send each rank its part."""
        from labkit.real.engines.call import call

        for place in self.places:
            own: dict[str, Any] = {}
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
