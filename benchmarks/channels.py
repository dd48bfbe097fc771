"""Measures what ranks of a graded submission can tell each other without a message, in bits per second.

    python benchmarks/channels.py [WALL ...]

Rank 0 tells random bits by what it does, or how long it works; rank 1 writes down what it can see. The bits
per second are the information (mutual information of bit and best split of what was seen, less what 95 of 100
shufflings of the bits stay below) over the time that the run took. WALL: walls left out, as on a machine that
lacks them ("clock", "namespaces", "landlock").
"""

from __future__ import annotations

import sys
import time

import numpy as np

from labkit.grading.counts import ENVELOPE_BYTES
from labkit.grading.sandbox import Limits, Sandbox

BITS = 400
#: channels that are messages: where bytes are bounded, what they carry costs more than sending it
SENT = ("order of two messages",)
#: of a graded run a rank has this much time of a processor; a key has this many bits
LIMIT_S, KEY_BITS = Limits().cpu_s, 64

SOURCE = """
import ctypes, os, threading, time
from mpi4py import MPI

LIBC, WORDS = ctypes.CDLL(None), (ctypes.c_long * 2)()
BLOCK, OWN, COUNTED = bytearray(1 << 22), bytes(1 << 20), [0]

def clock():
    LIBC.clock_gettime(1, ctypes.byref(WORDS))
    return WORDS[0] * 1e9 + WORDS[1]

def _asked():
    words = (ctypes.c_long * 18)()
    if LIBC.getrusage(0, words):  # the kernel, not Python, which answers a rank itself
        raise PermissionError("getrusage is refused")
    return words

def _used():
    words = _asked()
    return 1e6 * (words[0] + words[2]) + words[1] + words[3]

def _faults():
    return _asked()[8]

def _counting():
    while True:
        COUNTED[0] += 1

def _count():
    if not COUNTED[0]:
        threading.Thread(target=_counting, daemon=True).start()
        while not COUNTED[0]:
            pass
    return COUNTED[0]

def _walked(clock):
    began = clock()
    OWN.count(1)
    return clock() - began

def _swapped(bit):
    for tag in (1, 2) if bit else (2, 1):
        COMM.send(None, 1, tag)

def _first():
    status = MPI.Status()
    COMM.recv(source=0, status=status)
    COMM.recv(source=0)
    return status.Get_tag()


def run(comm, bits, tell, see):
    global COMM
    COMM, seen = comm, []
    scope = dict(globals(), comm=comm)
    for bit in bits:
        scope["bit"] = bit
        before = eval(see, scope | {"IS_AFTER": False}) if comm.rank else 0
        if comm.rank == 0:
            exec(tell, scope)
        comm.Barrier()
        if comm.rank:
            try:
                after = eval(see, scope | {"IS_AFTER": True})
                seen.append(float(after - before))
            except OSError:
                seen.append(0.0)
    return seen
"""

#: rank 0 drives rank 1's memory out of the caches that they share, or does not
_SPOIL = "BLOCK[:] = bytes(1 << 22) if bit else BLOCK"
#: channel -> (what rank 0 does, what rank 1 sees before and after)
CHANNELS = {
    "wall clock and long work": ("sum(range(40000 if bit else 10))", "clock()"),
    "wall clock and memory": ("BLOCK[:] = bytes(1 << 22) if bit else BLOCK", "clock()"),
    "simulated clock and charges": ("time.sleep(float(bit))", "MPI.Wtime()"),
    "core that it runs on": ("sum(range(40000 if bit else 10))", "LIBC.sched_getcpu()"),
    "page faults": ("bytearray(1 << 24) if bit else None", "_faults()"),
    "addresses of new memory": ("bytearray(1 << 20) if bit else None", "id(bytearray(4096)) % 65536"),
    "caches, by the clock": (_SPOIL, "_walked(clock)"),
    "caches, by used CPU time": (_SPOIL, "_walked(_used)"),
    "caches, by a thread that counts": (_SPOIL, "_walked(_count)"),
    "long work, by a thread that counts": ("sum(range(40000 if bit else 10))", "_count()"),
    "order of two messages": ("_swapped(bit)", "_first() if IS_AFTER else 0"),
}


def information(bits: np.ndarray, seen: np.ndarray) -> float:
    """Return bits of information per bit told, of the best split of what was seen into two."""
    if len(set(seen.tolist())) < 2:
        return 0.0
    best = 0.0
    for split in np.unique(np.quantile(seen, np.linspace(0.05, 0.95, 19))):
        high = seen > split
        total = 0.0
        for one in (False, True):
            for other in (0, 1):
                joint = float(np.mean((high == one) & (bits == other)))
                apart = float(np.mean(high == one) * np.mean(bits == other))
                total += joint * np.log2(joint / apart) if joint > 0 else 0.0
        best = max(best, total)
    return best


def main(without: list[str]) -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2, BITS)
    print(f"{'channel':35} {'bit/s':>8} {f'bits in {LIMIT_S:g} s':>12}")
    with Sandbox(without=without) as sandbox:
        print(sandbox.containment)
        for name, (tell, see) in CHANNELS.items():
            began = time.monotonic()
            outcome = sandbox.run(SOURCE, "run", 2, [([int(b) for b in bits], tell, see)] * 2)
            took_s = time.monotonic() - began
            if not outcome.is_finished:
                print(f"{name:35} {'refused':>8} {0:12.0f}   {outcome.message.splitlines()[-1][:60]}")
                continue
            seen = np.array(outcome.results[1])
            noise = np.quantile([information(rng.permutation(bits), seen) for _ in range(40)], 0.95)
            rate = max(information(bits, seen) - float(noise), 0.0) * BITS / took_s
            told = rate * took_s
            counted = (outcome.bytes or 0) + ENVELOPE_BYTES * (outcome.messages or 0)
            carries = ""
            if rate * LIMIT_S > KEY_BITS:
                carries = (
                    "CARRIES A KEY"
                    if name not in SENT
                    else f"messages: {counted / told:.0f} bytes a bit count"
                )
            print(f"{name:35} {rate:8.2f} {rate * LIMIT_S:12.1f}   {carries}")


if __name__ == "__main__":
    main(sys.argv[1:])
