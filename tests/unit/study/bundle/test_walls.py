"""A bundle's program that runs again reaches nothing outside: every row of the table of walls in the docs."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from labkit.process.child import ChildProcess
from labkit.process.confinement.program import WALLS
from labkit.study.bundle import verify_bundle
from labkit.study.bundle.verify_bundle import _content

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="walls of Linux")

#: wall -> what a program tries; each must fail. OUT is a folder of somebody else's, PID a process of theirs
TRIES = {
    "files": ["open(OUT + '/new', 'w')", "os.mkdir(OUT + '/folder')", "os.unlink(OUT + '/file')",
              "os.truncate(OUT + '/file', 0)", "os.symlink('/', OUT + '/link')"],
    "marks": ["os.chmod(OUT + '/file', 0o777)", "os.chown(OUT + '/file', 1, 1)", "os.utime(OUT + '/file')",
              "os.setxattr(OUT + '/file', 'user.mark', b'1')", "os.chmod(OUT, 0o777)"],
    "processes": ["os.kill(PID, 0)", "open(f'/proc/{PID}/environ').read()", "os.stat(f'/proc/{PID}')"],
    "priorities": ["os.setpriority(os.PRIO_PROCESS, 0, 5)", "os.nice(1)",
                   "os.sched_setaffinity(PID, {0})",
                   "resource.prlimit(PID, resource.RLIMIT_NOFILE, (10, 10))"],
    "sockets": ["socket.socket(socket.AF_UNIX).connect(OUT + '/socket')",
                "socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'x', OUT + '/socket')",
                "socket.socket(socket.AF_UNIX).connect(chr(0) + NAME)",
                "socket.socket(socket.AF_UNIX).bind(chr(0) + NAME + 'x')"],
    "network": ["socket.socket().connect(('127.0.0.1', PORT))"],
    "shared memory": ["open('/dev/shm/' + NAME).read()", "sysv()"],
    "machine": ["time.clock_settime(time.CLOCK_REALTIME, time.time())", "mount()"],
    "user": ["1 / (os.getuid() == 0)"],
}  # fmt: skip

PROGRAM = """
import ctypes, json, os, resource, socket, sys, time
from labkit.process.confinement.program import confine_program
walls = confine_program(sys.argv[1], 4 << 30, int(sys.argv[2]), json.loads(sys.argv[3]))
given = json.loads(sys.argv[4])
LIBC = ctypes.CDLL(None, use_errno=True)

def refused(done):
    if done == -1:
        raise PermissionError(ctypes.get_errno())

given["sysv"] = lambda: refused(LIBC.shmget(given['KEY'], 4096, 0o666))
given["mount"] = lambda: refused(LIBC.mount(b"tmpfs", sys.argv[1].encode(), b"tmpfs", 0, None))
done = []
for wall, lines in given["TRIES"].items():
    for line in lines:
        try:
            exec(line, globals(), given)
            done.append([wall, line])
        except (OSError, ZeroDivisionError):
            pass
open(sys.argv[1] + "/own", "w").write("mine")
if os.fork() == 0 and not os.setsid() and os.fork() == 0:
    os.execve("/bin/sleep", ["labkit-daemon", "300"], {})
time.sleep(0.2)
open(sys.argv[1] + "/answer", "w").write(json.dumps([walls, done]))
"""


def confined(
    folder: Path, without: list[str], given: dict[str, object]
) -> tuple[dict[str, str], list[list[str]]]:
    words = [sys.executable, "-c", PROGRAM, folder, os.getpid(), json.dumps(without), json.dumps(given)]
    with ChildProcess(list(map(str, words)), stdout=None, stderr=None) as child:
        assert child.wait(60)
        assert child.code == 0
    walls, done = json.loads((folder / "answer").read_text())
    return walls, done


@pytest.mark.parametrize("without", [[], ["namespaces"], ["landlock"], ["seccomp"]], ids=str)
def test_each_wall_that_is_told_holds(without: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name, subprocess.Popen(["sleep", "60"]) as other:
        out, own = Path(name, "out"), Path(name, "own")
        out.mkdir(), own.mkdir()
        (out / "file").write_text("theirs")
        mark = f"labkit-mark-{os.getpid()}"
        Path("/dev/shm", mark).write_text("theirs")
        with (
            socket.socket(socket.AF_UNIX) as at_path, socket.socket(socket.AF_UNIX) as abstract,
            socket.create_server(("127.0.0.1", 0)) as server,
        ):  # fmt: skip
            at_path.bind(str(out / "socket"))
            at_path.listen()
            abstract.bind("\0" + mark)
            abstract.listen()
            key = os.getpid()
            segment = ctypes.CDLL(None).shmget(key, 4096, 0o1666)
            given = {"TRIES": TRIES, "KEY": key, "OUT": str(out), "PID": other.pid, "NAME": mark}
            try:
                walls, done = confined(own, without, given | {"PORT": server.getsockname()[1]})
            finally:
                Path("/dev/shm", mark).unlink()
                other.kill()
                ctypes.CDLL(None).shmctl(segment, 0, None)
        assert (out / "file").read_text() == "theirs"
    assert set(walls) <= set(WALLS)
    assert [row for row in done if row[0] in walls] == [], walls
    if not without and os.geteuid() == 0:
        assert set(walls) == set(WALLS)
    assert b"labkit-daemon" not in b"".join(_command_lines()), "a daemon outlived it"


def _command_lines() -> list[bytes]:
    until = time.monotonic() + 2
    while True:
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found.append(entry.read_bytes())
            except OSError:
                continue
        if not any(b"labkit-daemon" in line for line in found) or time.monotonic() > until:
            return found
        time.sleep(0.05)


def test_an_answer_is_read_only_up_to_its_limit_and_only_if_it_is_a_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(verify_bundle, "MOST_ANSWER_BYTES", 1000)
    sparse, pipe, link = tmp_path / "sparse", tmp_path / "pipe", tmp_path / "link"
    with sparse.open("wb") as file:
        file.truncate(60 << 30)
    os.mkfifo(pipe)
    link.symlink_to("/etc/passwd")
    assert len(_content(sparse)) == 1000
    assert _content(pipe) == _content(link) == _content(Path("/dev/zero")) == _content(tmp_path) == b""


AS_A_PLAIN_USER = """
import json, os, sys, threading
import labkit.study.bundle.child
from labkit.process.confinement.program import confine_program
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
if sys.argv[2] == "threads":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print(json.dumps(sorted(confine_program(sys.argv[1], 4 << 30, os.getppid()))))
"""


@pytest.mark.slow
def test_threads_take_no_wall_from_a_plain_user() -> None:
    """A user namespace takes a single thread; NumPy's library of linear algebra has begun some by then."""
    place = Path(tempfile.mkdtemp(dir="/tmp"))  # which a plain user may enter
    place.chmod(0o777)
    found = []
    for how, threads in (("alone", "1"), ("threads", "2")):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads}
        words = [sys.executable, "-c", AS_A_PLAIN_USER, str(place), how]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    place.rmdir()
    assert found[0] == found[1]
