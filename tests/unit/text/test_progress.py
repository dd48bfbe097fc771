"""What goes on while a run goes on is shown where somebody watches; an interrupt keeps what was printed."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

import labkit as lk
from labkit.errors import RunInterrupted
from labkit.sim.isolation import host_clock
from labkit.sim.script import _Seen
from labkit.sim.script_child import _LiveFile
from labkit.sim.script_words import LIVE
from labkit.text import progress as live
from labkit.text.progress import Lines, told_to


class Seen:
    def __init__(self):
        self.shown, self.ended = [], []

    def show(self, status, lines):
        self.shown.append((status, lines))

    def end(self, status):
        self.ended.append(status)


@pytest.fixture
def seen(monkeypatch):
    monkeypatch.delenv("LABKIT_PROGRESS", raising=False)
    monkeypatch.setattr(live, "FIRST_S", 0.0)
    monkeypatch.setattr(live, "EVERY_S", 0.005)
    one = Seen()
    with told_to(one):
        yield one


def test_clock_messages_and_output_are_seen_while_a_run_goes_on(seen):
    def program(comm):
        for step in range(60):
            print("step", step)
            lk.compute(seconds=1e-3)
            comm.sendrecv(step, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
            host_clock.sleep(0.005)

    run = lk.run(program, 2, "star:2")
    assert len(seen.shown) > 3
    assert all(status.startswith("program on star:2, 2 ranks: ") for status, _ in seen.shown)
    status, lines = seen.shown[-1]
    assert "simulated clock" in status
    assert "messages" in status
    assert lines[-1].startswith(("rank 0: step ", "rank 1: step "))
    assert len(seen.ended) == 1
    assert run.output[0].count("step") == 60  # the view takes nothing away


def test_nothing_is_shown_where_nobody_watches(seen, monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", "off")
    lk.run(lambda comm: host_clock.sleep(0.05), 2)
    assert not seen.shown


def test_an_interrupt_keeps_what_was_printed():
    def program(comm):
        print("before", comm.rank)
        comm.barrier()
        end = host_clock.monotonic() + 30
        while host_clock.monotonic() < end:
            pass

    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(RunInterrupted) as caught:
        lk.run(program, 3)
    assert caught.value.output == ["before 0\n", "before 1\n", "before 2\n"]
    assert isinstance(caught.value, KeyboardInterrupt)


def test_an_interrupt_shows_more_than_the_last_lines():
    shown = RunInterrupted(["".join(f"step {i}\n" for i in range(50))]).__notes__
    assert shown[0].startswith("rank 0 had printed:\n  step 0\n  step 1")


def test_lines_come_whole_and_the_oldest_go():
    lines = Lines(3)
    for rank, text in [(0, "a"), (1, "x\ny\n"), (0, "b\n"), (0, "c\nd")]:
        lines.add(rank, text)
    assert lines.texts() == ["rank 1: y", "rank 0: ab", "rank 0: c"]


def test_a_cell_has_one_place_for_all_its_runs_and_nothing_of_them_stays_in_it(monkeypatch):
    class Handle:
        def __init__(self, text):
            self.texts = [text]

        def update(self, data, raw=False):
            self.texts.append(data["text/plain"])

    displays, cell = [], 7

    def display(data, **_):
        displays.append(Handle(data["text/plain"]))
        return displays[-1]

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(live, "_cell", lambda: cell)
    monkeypatch.setattr(live, "_display", [])
    for number in (1, 2):
        view = live._Cell()
        view.show(f"run {number} goes on", ["rank 0: hello"])
        view.end(f"run {number}")
    assert [one.texts for one in displays] == [
        ["run 1 goes on\nrank 0: hello", "", "run 2 goes on\nrank 0: hello", ""]
    ]
    cell = 8  # the next cell: what it shows stands below itself
    assert live.finished_in() is None
    view = live._Cell()
    view.show("run 3 goes on", [])
    view.end("run 3")
    assert [one.texts[-1] for one in displays] == ["", ""]
    assert live.finished_in() is displays[1]


def test_an_interrupted_simulated_script_keeps_what_was_printed(tmp_path: Path):
    seen = tmp_path / "seen"
    script = tmp_path / "endless.py"
    script.write_text(
        "from pathlib import Path\nfrom mpi4py import MPI\n"
        "print('hello from', MPI.COMM_WORLD.rank)\nMPI.COMM_WORLD.barrier()\n"
        f"Path({str(seen)!r}).touch()\nwhile True:\n    MPI.COMM_WORLD.barrier()\n"
    )

    def press() -> None:
        while not seen.exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    with pytest.raises(RunInterrupted) as caught:
        lk.run(script, 2, on="star:2", timeout_s=60)
    assert caught.value.output == ["hello from 0\n", "hello from 1\n"]


def test_a_simulated_script_is_seen_from_its_process(tmp_path: Path):
    seen, shown = _Seen(tmp_path / LIVE), _LiveFile(tmp_path / LIVE)
    assert (seen.status(), seen.lines()) == ("starting", [])
    shown.show("a.py on star, 2 ranks: 1.0 s of host time; simulated clock 3 s", ["rank 0: a; b"])
    assert (seen.status(), seen.lines()) == ("simulated clock 3 s", ["rank 0: a; b"])
