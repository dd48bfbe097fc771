"""The cost of a message between Python ranks: blocking send and receive at 1024 ranks, default settings.

Everything is in it: the program's own calls, isolation, the switch between ranks, matching, the network
(model lab, star). The target is 5 us per send and receive pair.
"""

from __future__ import annotations

import time

import numpy as np

import labkit as lk

TARGET_US = 5.0


def buffers(comm, rounds):
    peer, mine = comm.rank ^ 1, np.zeros(1)
    for _ in range(rounds):
        if comm.rank & 1:
            comm.Recv(mine, peer)
            comm.Send(mine, peer)
        else:
            comm.Send(mine, peer)
            comm.Recv(mine, peer)


def objects(comm, rounds):
    peer = comm.rank ^ 1
    for i in range(rounds):
        if comm.rank & 1:
            comm.recv(source=peer)
            comm.send(i, dest=peer)
        else:
            comm.send({"i": i}, dest=peer)
            comm.recv(source=peer)


def barriers(comm, rounds):
    for _ in range(rounds):
        comm.Barrier()


def main() -> None:
    print("program   ranks  messages   us per message")
    for program, rounds in ((buffers, 200), (objects, 200), (barriers, 20)):
        for ranks in (16, 1024):
            many = rounds * (10 if ranks == 16 else 1)
            lk.run(program, ranks, args=(2,))
            begin = time.perf_counter()
            run = lk.run(program, ranks, args=(many,))
            cost = (time.perf_counter() - begin) / run.messages * 1e6
            verdict = (
                ""
                if program is barriers
                else f"  target {TARGET_US:g}: {'met' if cost <= TARGET_US else 'MISSED'}"
            )
            print(f"{program.__name__:9} {ranks:5} {run.messages:9}   {cost:8.2f}{verdict}")


if __name__ == "__main__":
    main()
