"""A time limit in a thread leaves nothing pending in the interpreter: a tracer afterwards must not hang."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys, threading
import labkit as lk
from labkit.errors import TimeLimitError

def endless(comm):
    while True:
        pass

def short(comm):
    return comm.rank

def in_thread():
    try:
        lk.run({program}, 2, "star", timeout_s={limit})
    except TimeLimitError:
        print("limit")

thread = threading.Thread(target=in_thread)
thread.start()
thread.join()
sys.settrace(lambda *_: None)

def traced():
    return sum(range(10))

for _ in range(100):
    traced()
print("done")
"""


@pytest.mark.parametrize(
    ("program", "limit", "said"), [("endless", 0.3, ["limit", "done"]), ("short", 60, ["done"])]
)
def test_tracer_after_a_run_in_a_thread(program, limit, said):
    script = SCRIPT.format(program=program, limit=limit)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == said
