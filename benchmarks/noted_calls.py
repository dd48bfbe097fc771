"""The cost of noting calls to a real rank, which is how a deadlock is told: a rank to itself.

One rank, so that no scheduler is in it. Two processes, one whose calls are noted and one whose calls are not,
take turns, block by block; processor nanoseconds of a round: the least of each, and the median of the pairs'
ratios. The first programs do nothing but call, the last one computes as well. Give an mpiexec, or the one of
labkit is taken. With --instructions, valgrind counts those of a round instead: a busy machine does not change
them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

PAIRS, BLOCK_NS = 200, 1_000_000
ROUNDS = 1000, 6000  # whose instructions are counted: the difference is without the start


def programs() -> dict[str, Callable[[], object]]:
    """Return what is measured: name -> one round."""
    from mpi4py import MPI

    comm, data, got = MPI.COMM_WORLD, np.zeros(1), np.zeros(1)
    edge, other = np.zeros(1000), np.zeros(1000)
    cells, new = np.zeros((100, 1000)), np.zeros((100, 1000))

    def ping_pong() -> None:
        comm.Send(data, 0)
        comm.Recv(got, 0)

    def posted() -> None:
        request = comm.Isend(data, 0)
        comm.Recv(got, 0)
        request.Wait()

    def waitall() -> None:
        MPI.Request.Waitall([comm.Irecv(got, 0), comm.Isend(data, 0)])

    def stencil() -> None:
        for _ in range(2):
            comm.Sendrecv(edge, 0, 0, other, 0, 0)
        np.add(cells[:-2], cells[2:], out=new[1:-1])
        np.add(new[1:-1], cells[1:-1], out=new[1:-1])
        comm.Allreduce(data, got)

    return {
        "Send, Recv": ping_pong,
        "Isend, Recv, Wait": posted,
        "Irecv, Isend, Waitall": waitall,
        "Sendrecv": lambda: comm.Sendrecv(data, 0, 0, got, 0, 0),
        "Allreduce": lambda: comm.Allreduce(data, got),
        "sendrecv of an object": lambda: comm.sendrecv(1, 0, 0, None, 0, 0),
        "a stencil's step": stencil,
    }


def rank(folder: str) -> None:
    """Measure in the rank: a block of the named program for each line that comes in."""
    from labkit.real.mpi.waits_page import load_library, open_page

    library = load_library()
    from mpi4py import MPI

    if folder and not open_page(library, os.path.join(folder, "wait"), MPI, 0, 1):
        raise SystemExit("the calls of this MPI cannot be noted")
    known, rounds = programs(), dict[str, int]()
    if counted := sys.argv[3:]:
        program = known[counted[0]]
        for _ in range(int(counted[1])):
            program()
        return
    for line in sys.stdin:
        program = known[name := line.strip()]
        if name not in rounds:
            begin = time.process_time_ns()
            for _ in range(20):
                program()
            rounds[name] = max(20, 20 * BLOCK_NS // (time.process_time_ns() - begin))
        count = rounds[name]
        begin = time.process_time_ns()
        for _ in range(count):
            program()
        print((time.process_time_ns() - begin) / count, flush=True)


@contextmanager
def started(launcher: str, environment: dict[str, str], folder: str) -> Iterator[Callable[[str], float]]:
    """Start a rank, and yield what has it run a block."""
    words = [launcher, "-n", "1", sys.executable, __file__, "--rank", folder]
    with subprocess.Popen(
        words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        send, receive = process.stdin, process.stdout
        assert send is not None
        assert receive is not None

        def block(name: str) -> float:
            print(name, file=send, flush=True)
            return float(receive.readline())

        yield block
        send.close()


def instructions(launcher: str, environment: dict[str, str], folder: str, name: str) -> float:
    """Return those of a round, as valgrind counts them."""
    counts = []
    for rounds in ROUNDS:
        words = [launcher, "-n", "1", "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        words += [sys.executable, __file__, "--rank", folder, name, str(rounds)]
        ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        counts.append(int(ended.stderr.partition("Collected : ")[2].split()[0]))
    return (counts[1] - counts[0]) / (ROUNDS[1] - ROUNDS[0])


def main() -> None:
    """Start both ranks, and have them take turns."""
    from labkit.real.mpi.environment import rank_environment
    from labkit.real.mpi.find import find_launcher

    words = sys.argv[1:]
    are_counted = "--instructions" in words
    if are_counted:
        words.remove("--instructions")
    launcher = find_launcher(words[0] if words else None)
    how = "instructions of a round" if are_counted else f"{PAIRS} pairs of blocks"
    print(f"{launcher.describe()}: a rank to itself, {how}", flush=True)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as both:
        environment = rank_environment(launcher, os.environ, "benchmark", folder, None)
        for name in programs() if are_counted else ():
            before, after = (instructions(launcher.path, environment, one, name) for one in ("", folder))
            print(
                f"{name:21}  bare {before:7.0f}  noted {after:7.0f}  {100 * after / before - 100:+5.2f} %",
                flush=True,
            )
        if are_counted:
            return
        bare, noted = (both.enter_context(started(launcher.path, environment, one)) for one in ("", folder))
        for name in programs():
            pairs = [(bare(name), noted(name)) for _ in range(PAIRS)]
            least, most = (min(one) for one in zip(*pairs, strict=True))
            ratio = statistics.median(after / before for before, after in pairs)
            print(
                f"{name:21}  bare {least:7.0f} ns  noted {most:7.0f} ns  {most - least:+5.0f} ns"
                f"  median of the pairs {100 * ratio - 100:+5.1f} %",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(sys.argv[2])
    else:
        main()
