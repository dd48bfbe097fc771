"""MPI-IO on this host's files: what is read and written, what it takes, and what is refused."""

from __future__ import annotations

import os

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.machines.quantities import Storage, storage_of
from tests.support.refusals import raises_code

RANKS = (1, 2, 3, 4, 5, 7, 8, 16)
NEW = MPI.MODE_CREATE | MPI.MODE_RDWR


@pytest.mark.parametrize("ranks", RANKS)
def test_ranks_write_their_blocks_in_many_ways(tmp_path, ranks) -> None:
    def program(comm, folder):
        rank, found = comm.rank, {}
        mine = np.full(2, rank, np.int32)
        for how in ("at", "at all", "seek", "ordered", "split", "shared", "view", "i"):
            file = MPI.File.Open(comm, f"{folder}/{how}", NEW)
            file.Set_view(0, MPI.INT, MPI.INT)
            if how == "at":
                file.Write_at(2 * rank, mine)
            elif how == "at all":
                file.Write_at_all(2 * rank, mine)
            elif how == "seek":
                file.Seek(2 * rank)
                file.Write_all(mine)
                assert file.Get_position() == 2 * rank + 2
            elif how == "ordered":
                file.Write_ordered(mine)
                assert file.Get_position_shared() == 2 * comm.size
            elif how == "split":
                file.Write_ordered_begin(mine)
                lk.compute(seconds=1.0)
                file.Write_ordered_end(mine)
            elif how == "shared":
                for turn in range(comm.size):
                    if turn == rank:
                        file.Write_shared(mine)
                    comm.Barrier()
            elif how == "view":
                file.Set_view(8 * rank, MPI.INT, MPI.INT)
                file.Write(mine)
            else:
                MPI.Request.Waitall(
                    [file.Iwrite_at(2 * rank, mine[:1]), file.Iwrite_at(2 * rank + 1, mine[1:])]
                )
            file.Sync()
            status, got = MPI.Status(), np.full(3, -1, np.int32)
            file.Set_view(0, MPI.INT, MPI.INT)
            file.Read_at_all(2 * rank, got, status)
            found[how] = got.tolist(), status.Get_count(MPI.INT), file.Get_size()
            file.Close()
            assert file == MPI.FILE_NULL
        return found

    run = lk.run(program, ranks, f"star:{ranks}", args=(str(tmp_path),))
    everything = np.repeat(np.arange(ranks, dtype=np.int32), 2)
    for name in os.listdir(tmp_path):
        assert np.fromfile(tmp_path / name, np.int32).tolist() == everything.tolist(), name
    for rank, found in enumerate(run.results):
        read = everything[2 * rank : 2 * rank + 3].tolist()
        for got in found.values():
            assert got == (read + [-1] * (3 - len(read)), len(read), 8 * ranks)
    assert run.notes == []


def test_pointers_and_sizes(tmp_path) -> None:
    def program(comm, path):
        file = MPI.File.Open(comm, path, NEW)
        file.Set_size(100)
        file.Preallocate(40)
        file.Set_view(4, MPI.DOUBLE)
        said = [file.Get_size(), file.Get_byte_offset(3), file.Get_type_extent(MPI.DOUBLE)]
        file.Seek(-2, MPI.SEEK_END)
        said.append(file.Get_position())
        file.Seek(1, MPI.SEEK_CUR)
        file.Seek_shared(5)
        said += [file.Get_position(), file.Get_position_shared(), file.Get_amode() == NEW, file.atomicity]
        file.atomicity = True
        said += [file.atomicity, file.Get_view()[0], file.Get_view()[3], file.group_size]
        with pytest.raises(MPI.Exception, match="before the view's beginning"):
            file.Seek(-9)
        file.Close()
        again = MPI.File.Open(comm, path, MPI.MODE_RDWR | MPI.MODE_APPEND)
        said.append(again.Get_position())
        again.Close()
        return said

    results = lk.run(program, 2, "star:2", args=(str(tmp_path / "f"),)).results
    assert results == [[100, 28, 8, 10, 11, 5, True, False, True, 4, "native", 2, 100]] * 2


def test_external32_is_big_endian(tmp_path) -> None:
    def program(comm, path):
        file = MPI.File.Open(comm, path, NEW)
        file.Set_view(0, MPI.INT, MPI.INT, "external32")
        file.Write(np.array([1, 258], np.int32))
        got = np.zeros(2, np.int32)
        file.Read_at(0, got)
        file.Close()
        return got.tolist()

    assert lk.run(program, 1, "star:1", args=(str(tmp_path / "f"),)).results == [[1, 258]]
    assert (tmp_path / "f").read_bytes() == bytes([0, 0, 0, 1, 0, 0, 1, 2])


def test_external32_converts_by_the_type_of_the_data(tmp_path) -> None:
    """The bytes are those of Open MPI; a view of C's long counts in its four bytes, as MPI says."""

    def program(comm, folder):
        vector = MPI.INT.Create_vector(2, 1, 2).Commit()
        struct = MPI.Datatype.Create_struct([1, 1], [0, 8], [MPI.INT, MPI.DOUBLE]).Commit()
        records = np.zeros(1, "i4,i4,f8")
        records["f0"], records["f2"] = 1, 2.0
        numbers = np.array([1, 2, 3, 4], np.int32)
        longs = np.array([1, -2, 3])
        cases = {
            "gaps in memory": ([numbers, 1, vector], MPI.INT, MPI.INT),
            "gaps in the file": (numbers, MPI.INT, vector),
            "struct": ([records.view(np.uint8), 1, struct], MPI.BYTE, MPI.BYTE),
            "long": (longs, MPI.LONG, MPI.LONG),
        }
        found = {}
        for name, (data, etype, filetype) in cases.items():
            file, status = MPI.File.Open(comm, f"{folder}/{name}", NEW), MPI.Status()
            file.Set_view(0, etype, filetype, "external32")
            file.Write(data, status)
            found[name] = [status.Get_count(MPI.BYTE), file.Get_position(), file.Get_type_extent(etype)]
            memory, *more = data if isinstance(data, list) else [data]
            again = np.zeros_like(memory)
            file.Read_at(0, [again, *more] if more else again)
            kept = memory if name != "gaps in memory" else np.array([1, 0, 3, 0])
            assert again.tolist() == kept.tolist()
            if name == "long":  # the file ends within what is asked for
                file.Read_at(2, again, status)
                assert status.Get_count(MPI.LONG) == 1
                assert again.tolist() == [3, -2, 3]
            file.Close()
        return found

    (found,) = lk.run(program, 1, "star:1", args=(str(tmp_path),)).results
    assert found == {
        "gaps in memory": [8, 2, 4],
        "gaps in the file": [16, 4, 4],
        "struct": [12, 12, 1],
        "long": [24, 3, 4],
    }
    written = {name: (tmp_path / name).read_bytes().hex() for name in found}
    assert written == {
        "gaps in memory": "0000000100000003",
        "gaps in the file": "000000010000000000000002000000030000000000000004",
        "struct": "000000014000000000000000",
        "long": "00000001fffffffe00000003",
    }


def test_what_files_cost(tmp_path) -> None:
    """A request is a latency and its bytes; the server takes one after another; collective ones together."""
    lat, bw, n = 1e-4, 1e8, 1_000_000

    def program(comm, path, how):
        file = MPI.File.Open(comm, path, NEW)
        data = bytearray(n)
        comm.Barrier()
        now = lk.program.context.simulated().calls.hub.now
        began = now()
        if how == "at":
            file.Write_at(n * comm.rank, data)
        elif how == "all":
            file.Write_at_all(n * comm.rank, data)
        elif how == "beside":
            request = file.Iwrite_at(n * comm.rank, data)
            lk.compute(seconds=0.5)
            request.Wait()
        elif how == "shared" and comm.rank == 0:
            file.Write_shared(data)
        took = now() - began
        file.Close()
        return took

    def times(how):
        args = (str(tmp_path / "f"), how)
        given = {"storage": "bw=100MBps,lat=100us", "coll": {"barrier": "linear"}, "model": "raw"}
        return lk.run(program, 4, "star:4,lat=0s,bw=1TBps", args=args, **given).results

    assert sorted(times("at")) == pytest.approx([lat + i * n / bw for i in (1, 2, 3, 4)], rel=1e-5)
    assert times("all") == pytest.approx([lat + 4 * n / bw] * 4, rel=1e-5)
    assert times("beside") == pytest.approx([0.5] * 4, rel=1e-5)
    assert times("shared")[0] == pytest.approx(2 * lat + n / bw, rel=1e-5)


def test_storage_is_read_from_text_and_refused_with_a_sentence() -> None:
    assert storage_of("bw=2GBps,lat=500us") == Storage(2e9, 5e-4)
    assert storage_of(None) == storage_of("") == Storage(1e9, 1e-3)
    for wrong in ("disk", "bw=1", "lat=1s,lat=2s", 3):
        with raises_code(lk.errors.MachineError, "malformed-value"):
            lk.run(lambda comm: None, 1, storage=wrong)


WRONG = {
    "no such file": (lambda comm, path: MPI.File.Open(comm, path), MPI.ERR_NO_SUCH_FILE, "missing"),
    "a folder": (
        lambda comm, path: MPI.File.Open(comm, os.path.dirname(path)),
        MPI.ERR_BAD_FILE,
        "directory",
    ),
    "no mode": (lambda comm, path: MPI.File.Open(comm, path, MPI.MODE_CREATE), MPI.ERR_AMODE, "exactly one"),
    "two modes": (lambda comm, path: MPI.File.Open(comm, path, 2 | 8), MPI.ERR_AMODE, "exactly one"),
    "delete": (lambda comm, path: MPI.File.Delete(path), MPI.ERR_NO_SUCH_FILE, "missing"),
    "datarep": (
        lambda comm, path: MPI.File.Open(comm, path, NEW).Set_view(datarep="cray"),
        MPI.ERR_UNSUPPORTED_DATAREP,
        "external32",
    ),
    "longs apart": (
        lambda comm, path: MPI.File.Open(comm, path, NEW).Set_view(
            0, MPI.LONG, MPI.LONG.Create_vector(2, 1, 2).Commit(), "external32"
        ),
        MPI.ERR_UNSUPPORTED_DATAREP,
        "allowed: filetypes without gaps",
    ),
    "offset": (
        lambda comm, path: MPI.File.Open(comm, path, NEW).Read_at(-1, bytearray(1)),
        MPI.ERR_OTHER,
        "offset=-1",
    ),
    "null": (lambda comm, path: MPI.FILE_NULL.Read(bytearray(1)), MPI.ERR_FILE, "FILE_NULL"),
    "end": (
        lambda comm, path: MPI.File.Open(comm, path, NEW).Read_all_end(bytearray(1)),
        MPI.ERR_OTHER,
        "without",
    ),
    "write only": (
        lambda comm, path: MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_WRONLY).Read(bytearray(1)),
        MPI.ERR_ACCESS,
        "MODE_WRONLY",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_calls_say_what_is_allowed(what, tmp_path) -> None:
    call, kind, text = WRONG[what]

    def program(comm, path):
        with pytest.raises(MPI.Exception) as caught:
            call(comm, path)
        assert caught.value.Get_error_class() == kind
        return str(caught.value)

    assert text in lk.run(program, 1, "star:1", args=(str(tmp_path / "missing"),)).results[0]


def test_a_file_opened_to_be_read_is_not_written(tmp_path) -> None:
    (tmp_path / "f").write_bytes(b"abc")

    def program(comm, path):
        file = MPI.File.Open(comm, path)
        with pytest.raises(MPI.Exception, match="MODE_RDONLY") as caught:
            file.Write(b"x")
        got = bytearray(5)
        file.Read(got)
        file.Close()
        return caught.value.Get_error_class() == MPI.ERR_READ_ONLY, bytes(got)

    assert lk.run(program, 2, "star:2", args=(str(tmp_path / "f"),)).results == [(True, b"abc\0\0")] * 2


def test_files_that_are_kept_are_told_and_closed(tmp_path) -> None:
    before = len(os.listdir("/proc/self/fd"))

    def program(comm, path):
        MPI.File.Open(comm, path, NEW)

    (note,) = lk.run(program, 2, "star:2", args=(str(tmp_path / "f"),)).notes
    assert "was not closed by ranks 0-1" in note
    assert "test_files.py" in note
    assert len(os.listdir("/proc/self/fd")) == before


def test_delete_on_close_and_different_names(tmp_path) -> None:
    def program(comm, path):
        MPI.File.Open(comm, path, NEW | MPI.MODE_DELETE_ON_CLOSE).Close()
        MPI.File.Open(comm, f"{path}{comm.rank}", NEW)

    with raises_code(lk.errors.MismatchError, "collective-mismatch"):
        lk.run(program, 2, "star:2", args=(str(tmp_path / "f"),))
    assert not (tmp_path / "f").exists()


def test_pointers_go_on_by_what_was_asked_for(tmp_path) -> None:
    def program(comm):
        file = MPI.File.Open(comm, str(tmp_path / "file"), MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Write(bytes(10))
        file.Seek(0)
        status, found = MPI.Status(), []
        for _ in range(3):
            file.Read(bytearray(7), status)
            found.append((file.Get_position(), status.Get_count(MPI.BYTE)))
        return found

    assert lk.run(program, 1).results == [[(7, 7), (14, 3), (21, 0)]]
