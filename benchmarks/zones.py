"""The cost of the routes of a graph: CPU time of building it and of an allreduce, beside a star.

python benchmarks/zones.py
"""

from __future__ import annotations

import time
from typing import Any

import labkit as lk

HOSTS, SWITCHES, RANKS = 16_384, 64, 4_096


def program(comm: Any) -> int:
    return int(comm.allreduce(comm.rank))


def main() -> None:
    edges = [(f"h{i}", f"s{i % SWITCHES}") for i in range(HOSTS)]
    edges += [(f"s{i}", f"s{j}") for i in range(SWITCHES) for j in range(i)]
    begin = time.process_time()
    graph = lk.graph(edges)
    took = time.process_time() - begin
    print(f"graph of {HOSTS:,} hosts on {SWITCHES} switches: built in {took:.2f} s of CPU time")
    for name, machine in (("graph", graph), ("star", lk.platform(f"star:{HOSTS}"))):
        begin = time.process_time()
        run = lk.run(program, RANKS, machine)
        took = time.process_time() - begin
        simulated = f"{run.makespan_s * 1e6:.1f} us simulated"
        print(f"{name}: allreduce of {RANKS:,} ranks {took:.2f} s of CPU time, {simulated}")


if __name__ == "__main__":
    main()
