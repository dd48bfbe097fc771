"""Programs under InfiniBand's penalties, and under tables as a user would write them.

SimGrid (3.32, 4.1) revises penalties after a transfer's end only where its source can still reach over other
transfers: what else entered its destination keeps a penalty that counts the ended transfer. `STALE` is the
smallest such program, measured beside ours in `tests/unit/machines/test_infiniband.py`; the
unsynchronized mixes here are those in which that does not happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cases import CONTENDED, FINE, GIGABIT, STAR, Case, blocking_mix, pairs, ping_pong, posted_mix

__all__ = ["STALE", "model_cases"]

#: Three senders of unequal sizes to one host: 7.034 ms in SimGrid 3.32, where the definition gives 4.802 ms.
STALE = (
    "0: irecv 0 1 0 1000000; irecv 1 2 0 2000000; irecv 2 3 0 3000000; waitall 0 1 2; mark\n"
    "1: send 0 0 1000000; mark\n2: send 0 0 2000000; mark\n3: send 0 0 3000000; mark\n"
)
FAN = {
    "out": "0: isend 0 1 0 1000000; isend 1 2 0 1000000; isend 2 3 0 1000000; waitall 0 1 2; mark\n"
    "1: recv 0 0 1000000; mark\n2: recv 0 0 1000000; mark\n3: recv 0 0 1000000; mark\n",
    "in": "0: irecv 0 1 0 1000000; irecv 1 2 0 1000000; irecv 2 3 0 1000000; waitall 0 1 2; mark\n"
    "1: send 0 0 1000000; mark\n2: send 0 0 1000000; mark\n3: send 0 0 1000000; mark\n",
    # Long transfers to rank 5 keep every sender within reach; nobody marks their end.
    "crowd": "0: isend 0 4 0 500000; isend 1 6 0 300000; isend 2 5 0 9000000; waitall 0 1; mark; wait 2\n"
    "1: isend 0 4 0 500000; isend 1 5 0 9000000; wait 0; mark; wait 1\n"
    "2: isend 0 4 0 700000; isend 1 4 1 500000; isend 2 5 0 9000000; waitall 0 1; mark; wait 2\n"
    "4: irecv 0 0 0 500000; irecv 1 1 0 500000; irecv 2 2 0 700000; irecv 3 2 1 500000; "
    "waitall 0 1 2 3; mark\n"
    "5: irecv 0 0 0 9000000; irecv 1 1 0 9000000; irecv 2 2 0 9000000; waitall 0 1 2\n"
    "6: recv 0 0 300000; mark\n",
}
#: A user's own tables: other break points, thresholds, window and overheads than any shipped model's.
OWN: dict[str, Any] = {
    "latency_factor": [[0, 1.25], [1000, 2.5], [50_000, 3.75]],
    "bandwidth_factor": [[100, 0.5], [8192, 0.9], [131_072, 0.95]],
    "tcp_gamma_bytes": 65536.0,
    "weight_s_bytes": 1234.0,
    "detached_below_bytes": 20_000,
    "send_overhead": [[0, 1e-6, 1e-9], [5000, 4e-6, 2e-10]],
    "isend_overhead": [[0, 2e-6, 0.0]],
    "recv_overhead": [[0, 3e-6, 1e-9], [9000, 5e-6, 0.0]],
}


def model_cases() -> Iterator[Case]:
    """List the programs."""
    nosy = {"cross_traffic": False}
    yield ping_pong("pingpong-ib", STAR, "ib")
    yield pairs("pairs-ib-both-ways", STAR, "ib", 1_000_000, True)
    yield pairs("pairs-ib-one-way", CONTENDED, "ib", 1_000_000, False)
    for name, program in FAN.items():
        yield Case(f"fan-{name}-ib", 8, STAR.format(p=8), "ib", program)
    for spec, label in (
        (STAR.format(p=64), "star"),
        ("torus:4x4x4", "torus"),
        ("fattree:8x8:1x4:1x1", "fattree"),
    ):
        for operation in ("alltoall 65536", "allreduce 1048576", "allgather 10000", "bcast 1048576 0"):
            name = f"{operation.replace(' ', '-')}-64-{label}-ib"
            yield Case(name, 64, spec, "ib", f"*: {operation}; mark\n")
    # On the torus the transfers of a linear alltoall end one by one, and SimGrid's are stale by 3e-6.
    for spec, label in ((STAR.format(p=64), "star"), ("fattree:8x8:1x4:1x1", "fattree")):
        program = "*: alltoall_linear 65536; mark\n"
        yield Case(f"alltoall_linear-65536-64-{label}-ib", 64, spec, "ib", program, nosy)
    other = {"penalties": [1.5, 0.8, 2.0]}
    yield Case("alltoall_linear-30000-16-ib-penalties", 16, STAR.format(p=16), "ib",
               "*: alltoall_linear 30000; mark\n", other)  # fmt: skip
    yield Case("several-per-host-ib", 8, "star:4,cores=2,loopback_bw=6GBps,loopback_lat=100ns", "ib",
               "*: alltoall_linear 200000; mark\n")  # fmt: skip
    for seed in range(3):
        program = blocking_mix(seed, 8, 60)
        yield Case(f"blocking-ib-{seed}", 8, STAR.format(p=8), "ib", program, {}, FINE)
    yield ping_pong("pingpong-own", GIGABIT, "smpi", **OWN)
    yield Case(
        "posted-own", 8, GIGABIT.format(p=8), "smpi", posted_mix(7, 8, 60, False, "waitall"), OWN, FINE
    )
    yield Case("alltoall-65536-own", 64, STAR.format(p=64), "smpi", "*: alltoall 65536; mark\n", OWN)
