"""Random programs of windows, datatypes and files: MPI determines what they leave, on every machine."""

from __future__ import annotations

import hashlib
import os
import random
from typing import Any

import numpy as np

from labkit import MPI
from tests.support.datatype_programs import datatype_program, numbers

__all__ = ["AMOUNTS", "amounts", "digests", "logs"]

_CODES = ("u1", "i2", "i4", "i8", "f4", "f8")
_MODES = ("fence", "pscw", "lock", "shared lock", "lock all")


def digests(comm: Any, first: int, count: int, folder: str) -> list[str]:
    """Run programs number `first` and following; a digest of what each left at this rank."""
    found = logs(comm, first, count, folder)
    return [hashlib.sha256(repr(log).encode()).hexdigest()[:16] for log in found]


def logs(comm: Any, first: int, count: int, folder: str) -> list[list[Any]]:
    """Run programs number `first` and following; what each left at this rank."""
    found = []
    for seed in range(first, first + count):
        log: list[Any] = []
        dice = random.Random(seed)  # the same at all ranks
        path = os.path.join(folder, f"{seed}.bin")
        kind = dice.random()
        if kind < 0.4:
            _window_program(comm, dice, seed, log)
        elif kind < 0.6:
            _file_program(comm, dice, seed, path, log)
        else:
            datatype_program(comm, dice, seed, path, log)
        found.append(log)
    return found


# --- windows ------------------------------------------------------------------------------------------


def _window_program(comm: Any, dice: random.Random, seed: int, log: list[Any]) -> None:
    p, me = comm.size, comm.rank
    code, n = dice.choice(_CODES), dice.randint(p, 3 * p + 4)
    item = np.dtype(code).itemsize
    unit = dice.choice((1, item))
    flavor = dice.choice(("create", "allocate", "dynamic", "shared"))
    mine = numbers(seed, me, code, n)
    shared = None
    if flavor == "create":
        memory = mine.copy()
        win = MPI.Win.Create(memory, unit, comm=comm)
    elif flavor == "dynamic":
        memory, unit = mine.copy(), 1
        win = MPI.Win.Create_dynamic(comm=comm)
        win.Attach(memory)
    else:
        if flavor == "shared":
            shared = comm.Split_type(MPI.COMM_TYPE_SHARED)
        make = MPI.Win.Allocate_shared if flavor == "shared" else MPI.Win.Allocate
        win = make(n * item, unit, comm=shared or comm)
        memory = np.frombuffer(win.tomemory(), code)
        memory[:] = mine
    team = shared or comm
    bases = [0] * team.size
    if flavor == "dynamic":
        bases = team.allgather(win_address(memory))
    team.Barrier()
    for turn in range(dice.randint(1, 4)):
        _epoch(team, win, memory, bases, unit, dice, seed + turn, log)
    win.Free()
    if shared is not None:
        shared.Free()


def win_address(memory: np.ndarray) -> int:
    return memory.__array_interface__["data"][0]


def _epoch(  # noqa: C901
    comm: Any,
    win: Any,
    memory: Any,
    bases: list[int],
    unit: int,
    dice: random.Random,
    seed: int,
    log: list[Any],
) -> None:
    """One round: every element of every rank belongs to one origin, or is what all accumulate on."""
    p, me, n, item = comm.size, comm.rank, len(memory), memory.dtype.itemsize
    mode = dice.choice(_MODES)
    op = dice.choice((MPI.SUM, MPI.MAX, MPI.MIN, MPI.PROD))
    group = comm.Get_group()
    results: list[np.ndarray] = []
    plans = [[dice.choice(_KINDS) for _ in range(n)] for _ in range(p)]  # by target and element
    owners = [[dice.randrange(p) for _ in range(n)] for _ in range(p)]

    def access(target: int) -> None:
        for element in range(n):
            kind, place = plans[target][element], bases[target] + element * item // unit
            value = numbers(seed + 7 * element, me, memory.dtype.str, 1)
            got = np.zeros(1, memory.dtype)
            if kind == "acc":
                win.Accumulate(value, target, place, op)
            if owners[target][element] != me:
                continue
            if kind == "put":
                win.Put(value, target, place)
            elif kind == "get":
                win.Get(got, target, place)
                results.append(got)
            elif kind == "fetch" and mode != "pscw":
                win.Fetch_and_op(value, got, target, place, op)
                results.append(got)
            elif kind == "getacc":
                win.Get_accumulate(value, got, target, place, dice_op)
                results.append(got)
            elif kind == "cas" and memory.dtype.kind in "iu":
                win.Compare_and_swap(value, numbers(seed, 9, memory.dtype.str, 1), got, target, place)
                results.append(got)
            elif kind == "rget" and "lock" in mode:
                win.Rget(got, target, place).Wait()
                results.append(got)
            elif kind == "rput" and "lock" in mode:
                win.Rput(value, target, place).Wait()

    dice_op = dice.choice((MPI.SUM, MPI.REPLACE, MPI.NO_OP))
    if mode == "fence":
        win.Fence()
        for target in range(p):
            access(target)
        win.Fence()
    elif mode == "pscw":
        win.Post(group)
        win.Start(group)
        for target in range(p):
            access(target)
        win.Complete()
        win.Wait()
    elif mode == "lock all":
        win.Lock_all()
        for target in range(p):
            access(target)
            if target % 2:
                win.Flush(target)
        win.Unlock_all()
    else:
        for target in range(p):
            win.Lock(target, MPI.LOCK_EXCLUSIVE if mode == "lock" else MPI.LOCK_SHARED)
            access(target)
            win.Unlock(target)
    comm.Barrier()
    win.Lock(me)
    log.append((mode, memory.tobytes(), [got.tobytes() for got in results]))
    win.Unlock(me)
    group.Free()
    comm.Barrier()


_KINDS = ("put", "get", "acc", "fetch", "getacc", "cas", "rget", "rput", "none")


# --- files --------------------------------------------------------------------------------------------


def _file_program(comm: Any, dice: random.Random, seed: int, path: str, log: list[Any]) -> None:
    me = comm.rank
    code = dice.choice(_CODES)
    item = np.dtype(code).itemsize
    file = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_RDWR)
    disp = dice.choice((0, 0, 3, 16))
    etype = MPI.Datatype.fromcode(np.dtype(code).char)
    file.Set_view(disp, etype, etype)
    status = MPI.Status()
    for turn in range(dice.randint(1, 5)):
        n = dice.randint(0, 9)
        mine = numbers(seed + turn, me, code, n)
        first = dice.randint(0, 6) + me * n
        how = dice.choice(_FILE_KINDS)
        if how == "at":
            file.Write_at(first, mine)
        elif how == "at all":
            file.Write_at_all(first, mine)
        elif how == "own":
            file.Seek(first)
            file.Write(mine)
            log.append(file.Get_position())
        elif how == "all":
            file.Seek(first)
            file.Write_all(mine)
        elif how == "i":
            file.Iwrite_at(first, mine).Wait()
        elif how == "ordered":
            file.Write_ordered(mine)
            log.append(file.Get_position_shared())
        elif how == "split":
            file.Write_at_all_begin(first, mine)
            file.Write_at_all_end(mine)
        elif how == "shared":  # all write the same, so that the order does not matter
            file.Write_shared(numbers(seed + turn, 0, code, n))
        elif how == "size":
            file.Set_size(disp + dice.randint(0, 12) * item)
        file.Sync()
        comm.Barrier()
        file.Sync()
        log.append((how, file.Get_size()))
        # within the file: at its end Open MPI fills up what all read together, and never ends Iread_at
        there = max(0, (file.Get_size() - disp) // item)
        begin = min(dice.randint(0, 8), there)
        got = np.full(min(n + 2, there - begin), 7, code)
        if dice.random() < 0.5:
            file.Read_at_all(begin, got, status)
        elif dice.random() < 0.5:
            file.Read_at(begin, got, status)
        else:
            file.Seek(begin)
            file.Read(got, status)
        log.append((got.tobytes(), status.Get_count(etype)))
        comm.Barrier()
    log.append((file.Get_byte_offset(5), file.Get_view()[0]))
    file.Close()
    comm.Barrier()
    with open(path, "rb") as left:
        log.append(left.read())
    comm.Barrier()
    if me == 0:
        MPI.File.Delete(path)


_FILE_KINDS = ("at", "at all", "own", "all", "i", "ordered", "split", "shared", "size")


#: elements at the origin, and at the target
AMOUNTS = ((2, 5), (4, 2), (3, 3))


def amounts(comm: Any) -> list[Any]:
    """Put, get and accumulate less than there is room for, and more: what that leaves, or its error.

    Accumulates of more are left out: Open MPI writes behind the target then.
    """
    win = MPI.Win.Allocate(48, 4, comm=comm)
    here = np.frombuffer(win, np.int32)
    found: list[Any] = []
    for target in range(comm.size):
        for name in ("Put", "Get", "Accumulate"):
            for origin, there in AMOUNTS:
                if name == "Accumulate" and origin > there:
                    continue
                here[:] = np.arange(12) + 100 * comm.rank
                mine = np.full(origin, 7, np.int32)
                win.Fence()
                said: Any = "done"
                try:
                    if comm.rank == 0:
                        getattr(win, name)(mine, target, [1, there, MPI.INT])
                except MPI.Exception as error:
                    said = error.Get_error_class()
                win.Fence()
                # what a refused one has moved is no matter
                found.append((mine.tolist(), here.tolist()) if comm.bcast(said) == "done" else said)
    win.Free()
    return found
