"""The grader's side of the sandbox: start it, run a submission in it as often as needed, end it for sure."""

from __future__ import annotations

import base64
import json
import os
import select
import site
import socket
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from labkit.comm import pickling
from labkit.errors import DataError, DeadlockError, LabkitError, MachineError, MismatchError, RankError
from labkit.grading.sandbox.budget import Budget, PatientDeadline, SubmissionFailure
from labkit.grading.sandbox.imports import compiled, imported_by
from labkit.grading.sandbox.notes import named_in, noted
from labkit.grading.sandbox.outcome import Limits, Outcome, Work, explain_end
from labkit.grading.sandbox.proxy import RankProxy
from labkit.grading.sandbox.wire import MOST_AT_ONCE, Closed, Frames, TooLate, encode
from labkit.process.child import ChildProcess, module_words, telling_words
from labkit.process.confinement.containment import Containment
from labkit.process.limited import limited

if TYPE_CHECKING:
    from labkit.comm.intracomm import Intracomm

__all__ = ["Sandbox"]

_START_S = 120.0
#: what of the environment a submission's process is given
_KEPT = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "SYSTEMROOT")


class Sandbox:
    """Processes for the ranks of one submission, with walls around them. A context manager.

    `limits`: Of each run.
    `accepts_weak`: Run submissions also where the machine offers no containment; otherwise they are refused
        there.
    `without`: Walls to leave out, as on a machine that has none: "seccomp", "landlock", "namespaces",
        "clock". With "preload" what ranks need is not loaded, for who only wants to know the walls.
    `containment`: Which walls stand; known once it has started.
    `worked_s`: Seconds of a processor that the ranks of all runs have used.
    `named`: Which of the grader's modules the source names (`labkit.grading.sandbox.notes.named_in`).
    """

    def __init__(
        self, limits: Limits | None = None, *, accepts_weak: bool = False, without: Collection[str] = ()
    ) -> None:
        self.limits, self.without, self.accepts_weak = limits or Limits(), without, accepts_weak
        self.containment = Containment()
        self._process: ChildProcess | None = None
        self._control: socket.socket | None = None
        self._words: Any = None
        self._loaded: set[str] = set()
        self._source: str | None = None  # of the last run
        self._code: bytes | None = None
        self._refused = ""
        self.named: list[str] = []
        self.worked_s = 0.0

    def __enter__(self) -> Sandbox:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the process from which ranks are forked.

        Raises MachineError: It does not start, or the machine cannot contain a submission.
        """
        ours, theirs = socket.socketpair()
        environment = {
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": "/nonexistent",
            "PYTHONUSERBASE": site.getuserbase(),
            # else every process can read in its own memory which core it is on
            "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
        }
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        name = "labkit.grading.sandbox.zygote"
        words = module_words("labkit.process.unhooked", name, theirs.fileno(), os.getpid(), *self.without)
        try:
            self._process = ChildProcess(
                words,
                environment=environment,
                stdout=subprocess.DEVNULL,
                stderr=self._words,
                pass_fds=(theirs.fileno(),),
                cwd="/",
            )
        except OSError as error:
            ours.close()
            self._words.close()
            said = f"{error.filename}: {error.strerror}"
            raise MachineError(
                f"the sandbox's process cannot be started: {said}", code="not-started"
            ) from error
        finally:
            theirs.close()
        self._control = ours
        try:
            found = self._answer(_START_S)
        except MachineError:
            self.close()
            raise
        found.pop("is_sound")
        self.containment = Containment(**found)
        if not self.containment.is_sound and not self.accepts_weak:
            self.close()
            raise MachineError(
                f"this machine cannot contain a submission ({self.containment}); grade on Linux with seccomp "
                "(a container will do), or accept the risk with --uncontained",
                code="not-contained",
            )

    def close(self) -> None:
        """End every process of the sandbox."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.end()
            self._process = None
            self._words.close()

    def _answer(self, limit_s: float) -> dict[str, Any]:
        assert self._control is not None
        assert self._process is not None
        text = b""
        deadline = PatientDeadline(self._process.pid, limit_s)
        while not text.endswith(b"\n"):
            while not (ready := select.select([self._control], [], [], deadline.next_look_s)[0]):
                if deadline.is_over():
                    break
            data = self._control.recv(1 << 16) if ready else b""
            if not data:
                raise MachineError(
                    f"the sandbox's process does not answer{self._last_words()}", code="lost-process"
                )
            text += data
        found: dict[str, object] = json.loads(text)
        return found

    def _last_words(self) -> str:
        assert self._process is not None
        self._process.end()
        said = telling_words(self._words)
        return f": {said}" if said else ""

    @classmethod
    def look(cls) -> Containment:
        """Return the walls of this machine: tried, without what else a run needs.

        Raises MachineError: A sandbox does not start.
        """
        with cls(accepts_weak=True, without=("preload",)) as tried:
            return tried.containment

    # --- one run ----------------------------------------------------------------------------------

    def run(
        self,
        source: str,
        function: str,
        ranks: int,
        arguments: Sequence[Sequence[object]],
        *,
        on: object = "star",
        model: object = None,
        trace: bool = False,
        seed: int = 0,
        only_messages: bool = False,
        charges: bool = True,
        work: Work | None = None,
        is_plain: bool = False,
        talks_early: bool = True,
        packs: bool = False,
    ) -> Outcome:
        """Run ``function(comm, *arguments[rank])`` of a submission on simulated ranks.

        `source`: The submission.
        `function`: The function's name in it.
        `arguments`: For each rank its arguments, plain values (`labkit.grading.sandbox.wire.encode`).
        `on`, `model`, `trace`, `seed`: As for `labkit.run`.
        `only_messages`: Refuse collectives but Barrier.
        `charges`: Whether simulated time passes for what the submission charges, sleeping included; else only
            messages take time.
        `work`: Tasks: then each rank's last argument is a function that has one done.
        `is_plain`: Call ``function(*arguments[0])``, without a communicator, on one rank.
        `talks_early`: Whether it may communicate while it is loaded; else that is a failure.
        `packs`: Count for each rank the bytes, packed, that calls have brought it: `Outcome.told`.
        Returns: What goes wrong in the submission is an outcome too.
        Raises MachineError: The sandbox itself does not work.
        """
        mode = "plain" if is_plain else "program"
        job = {"source": source, "function": function, "ranks": ranks, "seed": seed, "mode": mode}
        job["has_tasks"] = work is not None
        self._load(source)
        if self._refused:
            return Outcome("source", ranks, self._refused)
        descriptors, pids = self._fork(ranks, seed)
        budget = Budget(self.limits, pids)
        rules = (budget, only_messages, charges, work, talks_early, packs)
        proxies = [RankProxy(r, Frames(descriptors[r]), pids[r], *rules) for r in range(ranks)]
        try:
            failure = self._send_jobs(job, arguments, proxies)
            if failure is None:
                outcome = _simulate(proxies, on=on, model=model, trace=trace)
            else:
                outcome = Outcome(failure.kind, ranks, str(failure), failure.rank)
            outcome.tasks = [proxy.tasks for proxy in proxies]
            outcome.told = [proxy.told_bytes for proxy in proxies] if packs else []
            outcome.attempts = list(dict.fromkeys(one for proxy in proxies for one in proxy.attempts))
            outcome.cut = [one for proxy in proxies for one in proxy.rooms.cut]
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
            ends = self._end()
        explain_end(outcome, ends, self.limits)
        return outcome

    def call(self, source: str, function: str, arguments: Sequence[object]) -> Outcome:
        """Ask a submission for a schedule: ``function(group)`` described as rows of numbers, on one process.

        Returns: Its one result is what `labkit.grading.sandbox.schedule_rows.rows_of` returns, not believed
            yet.
        """
        job = {"source": source, "function": function, "ranks": 1, "seed": 0, "mode": "schedule"}
        self._load(source)
        if self._refused:
            return Outcome("source", 1, self._refused)
        descriptors, pids = self._fork(1, seed=0)
        budget = Budget(self.limits, pids)
        proxies = [RankProxy(0, Frames(descriptors[0]), pids[0], budget, only_messages=True)]
        try:
            failure = self._send_jobs(job, [arguments], proxies)
            outcome = (
                Outcome(failure.kind, 1, str(failure), 0) if failure else _simulate(proxies, on="star:1")
            )
            outcome.attempts = proxies[0].attempts
        finally:
            os.close(descriptors[0])
            ends = self._end()
        explain_end(outcome, ends, self.limits)
        return outcome

    def _load(self, source: str) -> None:
        """Have what the source imports loaded, and it compiled, once for all ranks of all runs."""
        assert self._control is not None
        if source == self._source:
            return
        self._source, self._code, self._refused = source, None, ""
        try:
            modules, named, code = limited(_looked_at, source)
        except DataError as error:
            self._refused = str(error)
            return
        self.named = noted(self.named, named)
        self._code = None if code is None else base64.b64decode(code)
        modules = [name for name in modules if name not in self._loaded]
        if modules:
            self._loaded.update(modules)
            self._control.sendall(json.dumps({"do": "load", "modules": modules}).encode() + b"\n")
            self._answer(_START_S)

    def _fork(self, ranks: int, seed: int) -> tuple[list[int], list[int]]:
        assert self._control is not None
        pairs = [socket.socketpair() for _ in range(ranks)]
        theirs = [pair[1].fileno() for pair in pairs]
        command = {"do": "start", "limits": self.limits.of_rank(ranks), "seed": seed}
        line = json.dumps(command).encode() + b"\n"
        try:
            for begin in range(0, ranks, MOST_AT_ONCE):
                chunk = theirs[begin : begin + MOST_AT_ONCE]
                is_last = begin + MOST_AT_ONCE >= ranks
                socket.send_fds(self._control, [line if is_last else b" "], chunk)
            pids = self._answer(_START_S)["started"]
        finally:
            for pair in pairs:
                pair[1].close()
        descriptors = []
        for ours, _ in pairs:
            ours.setblocking(False)
            descriptors.append(ours.detach())
        return descriptors, pids

    def _send_jobs(
        self, job: dict[str, object], arguments: Sequence[Sequence[object]], proxies: list[RankProxy]
    ) -> SubmissionFailure | None:
        for proxy in proxies:
            parts: list[object] = []
            values = encode(list(arguments[proxy.rank]), parts)
            header = {**job, "rank": proxy.rank, "args": values, "accepts_weak": self.accepts_weak}
            if self._code is not None:
                header["code"] = len(parts)
                parts.append(self._code)
            try:
                proxy.line.write(header, parts, proxy.budget.deadline_s)
            except (Closed, TooLate):
                return SubmissionFailure("machine", proxy.rank, "its process ended before it began")
        return None

    def _end(self) -> dict[int, int]:
        assert self._control is not None
        self._control.sendall(b'{"do": "end"}\n')
        answer = self._answer(_START_S)
        self.worked_s += answer["worked_s"]
        return {int(rank): code for rank, code in answer["ends"].items()}


def _looked_at(source: str) -> tuple[list[str], list[str], str | None]:
    """Return which modules a source imports, which of the grader's, and its code; for `limited`."""
    code = compiled(source)
    return imported_by(source), named_in(source), None if code is None else base64.b64encode(code).decode()


def _simulate(proxies: list[RankProxy], **how: Any) -> Outcome:
    """Run the proxies as a simulated program: whatever it raises is an outcome."""
    from labkit.launch.run import run

    ranks = len(proxies)
    failures: list[SubmissionFailure] = []

    def program(comm: Intracomm) -> object:
        try:
            return proxies[comm.rank].main(comm)
        except SubmissionFailure as failure:
            failures.append(failure)
            raise

    try:
        with pickling.raw():  # a submission's pickles are never opened here
            done = run(program, ranks, isolate=False, timeout_s=None, **how)
    except (DeadlockError, MismatchError, RankError, LabkitError) as error:
        failures += [proxy.failure for proxy in proxies if proxy.failure is not None]
        outcome = _failed(error, failures, ranks)
    else:
        late = next((proxy.failure for proxy in proxies if proxy.failure is not None), None)
        if late is not None:  # in a collective that nobody has waited for
            return Outcome(late.kind, ranks, str(late), late.rank, output=[p.output for p in proxies])
        outcome = Outcome(
            "finished",
            ranks,
            results=done.results,
            makespan_s=done.makespan_s,
            messages=done.messages,
            bytes=done.bytes,
            trace=done.trace,
        )
    outcome.output = [proxy.output for proxy in proxies]
    return outcome


def _failed(error: LabkitError, failures: list[SubmissionFailure], ranks: int) -> Outcome:
    if failures:
        first = failures[0]
        return Outcome(first.kind, ranks, str(first), first.rank, is_loading=first.is_loading)
    if isinstance(error, DeadlockError):
        return Outcome("deadlock", ranks, str(error))
    if isinstance(error, MismatchError):
        return Outcome("mismatch", ranks, str(error))
    if isinstance(error, RankError):  # a request that no program makes
        return Outcome("protocol", ranks, "a request that cannot be carried out", error.rank)
    raise error
