"""Jobs are found again: after the submitting process was killed, interrupted, or ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import labkit as lk
from labkit.errors import RankError

#: what a notebook defines in its first cell; its jobs take a while
PROGRAM = """
FACTOR = 3
def program(comm, n=1):
    time.sleep(4)
    return comm.allreduce(n) * FACTOR
"""


def run_again(slurm, text, limit_s=120):
    """Run a program text in a new Python, and return what it printed last."""
    child = slurm.python(PROGRAM + text)
    out, err = child.communicate(timeout=limit_s)
    assert child.returncode == 0, err
    return out.strip().splitlines()[-1]


def submitted(slurm):
    return list(slurm.folder.glob("*/submitted.json"))


def test_a_killed_session_finds_its_run_again(slurm):
    call = "print(lk.run(program, 2, on=cluster, timeout_s=90).results)"
    child = slurm.python(PROGRAM + call)
    slurm.wait_for(lambda: submitted(slurm))
    child.kill()
    child.communicate()
    numbers = slurm.numbers()
    assert run_again(slurm, call) == "[6, 6]"
    assert slurm.numbers() == numbers, "submitted twice"
    assert run_again(slurm, call) == "[6, 6]"
    assert len(slurm.numbers()) == len(numbers) + 1, "handed out once, the same call measures anew"


def test_a_killed_session_finds_its_sweep_again(slurm):
    call = (
        "spread = cluster.changed(ranks_per_node=1)\n"
        "study = lk.sweep(program, ranks=[1, 2, 4], on=spread, repeats=1, warmup=0)\n"
        "print(study.data.query('metric == \"makespan_s\"')['ranks'].tolist(), len(study.failures))"
    )
    child = slurm.python(PROGRAM + call)
    slurm.wait_for(lambda: len(submitted(slurm)) == 3)
    slurm.wait_for(lambda: list(slurm.folder.glob("*/points/0/status.json")))
    child.kill()
    child.communicate()
    numbers = slurm.numbers()
    assert run_again(slurm, call) == "[1, 2, 4] 0"
    assert slurm.numbers() == numbers


def test_a_session_killed_between_sbatch_and_its_answer(slurm):
    call = "print(lk.run(program, 1, on=cluster.changed(extra='--begin=now+6'), timeout_s=90).results)"
    child = slurm.python(PROGRAM + call)
    (answer,) = slurm.wait_for(lambda: submitted(slurm))
    child.kill()
    child.communicate()
    answer.unlink()  # as if it had not come so far
    numbers = slurm.numbers()
    assert run_again(slurm, call) == "[3]"
    assert slurm.numbers() == numbers


def test_a_session_killed_before_sbatch_hands_the_same_folder_in(slurm):
    call = "print(lk.run(program, 1, on=cluster.changed(extra='--begin=now+1hour'), timeout_s=90).results)"
    child = slurm.python(PROGRAM + call)
    (answer,) = slurm.wait_for(lambda: submitted(slurm))
    child.kill()
    child.communicate()
    number = json.loads(answer.read_text())["id"]
    slurm.ask("scancel", number)
    answer.unlink()
    script = answer.parent / "script.sh"  # a job of another name, as if there had been none
    script.write_text(script.read_text().replace("--begin=now+1hour", "--comment=now"))
    about = answer.parent / "job.json"
    token = json.loads(about.read_text())["token"]
    about.write_text(about.read_text().replace(token, "abcdef"))
    assert run_again(slurm, call) == "[3]"
    assert len(list(slurm.folder.iterdir())) == 1


def test_an_interrupt_says_how_to_go_on(slurm):
    call = "print(lk.run(program, 1, on=cluster, timeout_s=90).results)"
    child = slurm.python(PROGRAM + call)
    slurm.wait_for(lambda: submitted(slurm))
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    (number,) = slurm.numbers()[-1:]
    assert f"Slurm job {number} goes on. The same call, also in a new session, waits for it again" in err
    assert f"`labkit slurm cancel {number}` cancels it" in err
    assert run_again(slurm, call) == "[3]"
    assert slurm.numbers()[-1] == number


def test_a_name_keeps_results(slurm):
    calls = (
        "named = cluster.changed(name='study1')\n"
        "study = lk.sweep(program, ranks=[1, 2], on=named, repeats=1, warmup=0, n={n})\n"
        "print(study.data.query('metric == \"makespan_s\"')['value'].tolist())"
    )
    first = run_again(slurm, calls.format(n="[1]"))
    count = len(slurm.numbers())
    assert run_again(slurm, calls.format(n="[1]")) == first
    assert len(slurm.numbers()) == count
    more = json.loads(run_again(slurm, calls.format(n="[1, 2]")))
    assert len(more) == 4
    assert [more[0], more[2]] == json.loads(first)
    assert len(slurm.numbers()) == count + 2  # only the new points


def test_another_program_is_another_job(slurm):
    call = "print(lk.run(program, 1, on=cluster.changed(name='one'), timeout_s=90).results)"
    assert run_again(slurm, call) == "[3]"
    changed = slurm.python(PROGRAM.replace("FACTOR = 3", "FACTOR = 4") + call)
    out, err = changed.communicate(timeout=120)
    assert out.strip() == "[4]", err


def fails_once(comm, marker):
    if not os.path.exists(marker):
        open(marker, "w").close()
        raise RuntimeError("not yet")
    return "now"


def test_a_failure_is_told_once_and_then_tried_again(slurm, tmp_path):
    named = slurm.on(name="stubborn")
    how = {"args": (str(tmp_path / "marker"),), "timeout_s": 60}
    with pytest.raises(RankError, match="not yet"):
        lk.run(fails_once, 1, on=named, **how)
    assert lk.run(fails_once, 1, on=named, **how).results == ["now"]
    assert lk.run(fails_once, 1, on=named, **how).results == ["now"]
    assert len(lk.slurm_jobs(named)) == 2


def slow(comm, n):
    time.sleep(3)


def test_a_requeued_job_goes_on_where_it_stopped(slurm):
    cluster = slurm.on(time="5")

    def requeue():
        slurm.wait_for(lambda: list(slurm.folder.glob("*/points/*/status.json")))
        (number,) = slurm.ask("squeue", "-h", "-o", "%i").split()
        slurm.ask("scontrol", "requeue", number)

    thread = threading.Thread(target=requeue)
    thread.start()
    study = lk.sweep(slow, ranks=1, on=cluster, repeats=1, warmup=0, n=[1, 2, 3], timeout_s=60)
    thread.join()
    assert sorted(study.data.loc[study.data["metric"] == "makespan_s", "n"]) == [1, 2, 3]
    (folder,) = slurm.folder.iterdir()
    begun = [path.read_text() for path in sorted(folder.glob("points/*/status.json"))]
    restarts = [json.loads(text)["restart"] for text in begun]
    assert min(restarts) == 0
    assert max(restarts) == 1, "the first point was measured before, the last one after the restart"


def test_jobs_from_the_command_line(slurm):
    call = "lk.run(program, 1, on=cluster.changed(extra='--begin=now+1hour', wait_s=2), timeout_s=90)"
    child = slurm.python(PROGRAM + call)
    child.communicate(timeout=60)
    lk.run(len_of_world, 1, on=slurm.on(), timeout_s=60)

    def labkit(*words):
        command = [sys.executable, "-m", "labkit", "slurm", *words, "--on", slurm.spec()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    jobs = json.loads(labkit("list", "--json"))["jobs"]
    assert [(job["program"], job["state"]) for job in jobs] == [
        ("len_of_world", "completed"), ("program", "pending (BeginTime)"),
    ]  # fmt: skip
    done, waiting = (job["job"] for job in jobs)
    assert "len_of_world: 1 rank on Slurm" in labkit("collect", done)
    assert "has not ended" in labkit("collect", waiting)
    assert labkit("cancel", waiting) == f"cancelled: {waiting}\n"
    assert waiting not in slurm.ask("squeue", "-h", "-o", "%i").split()
    assert set(labkit("clean").split()[1:]) == {done, waiting}
    assert labkit("list") == "no jobs\n"


def len_of_world(comm):
    return comm.size
