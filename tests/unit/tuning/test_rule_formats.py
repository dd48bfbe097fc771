"""Rules in the forms of MPI libraries: read back they decide the same; broken ones are refused."""

from __future__ import annotations

import json
import math
import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.errors import DataError, ScheduleError
from labkit.selector import Situation, selector_of
from labkit.selector.formats import read_rules
from labkit.selector.formats.bands import first_matches
from labkit.selector.libraries import library_names, names_table
from labkit.selector.rules import is_usable
from labkit.tuning.tuned import SimulatedMachine, Tuned, grow
from tests.support.refusals import raises_code

#: ending -> whose it is
FORMS = {".conf": "ompi", ".ompi.json": "ompi", ".mpich.json": "mpich", ".prf": "pgmpi", ".toml": "ompi"}
INF = math.inf


def tuned_of(operation: str, points: dict[tuple[int, int], dict[str, float]]) -> Tuned:
    rows = [(operation, p, n, name, t) for (p, n), times in points.items() for name, t in times.items()]
    columns = ["operation", "ranks", "bytes", "algorithm", "time_s"]
    return Tuned(operation, SimulatedMachine("star"), pd.DataFrame(rows, columns=columns))


@settings(max_examples=15, deadline=None)
@given(st.data())
@pytest.mark.parametrize("ending", FORMS)
def test_what_is_read_back_decides_the_same(ending, tmp_path_factory, data):
    """At every number of ranks that was tried, at and beside every bound of sizes."""
    library = FORMS[ending]
    operation = data.draw(st.sampled_from(sorted(names_table(library))))
    names = list(library_names(library, operation))
    if library == "ompi" and operation in ("bcast", "reduce"):
        names += ["pipeline:segment_bytes=8192", "chain:chains=2:segment_bytes=65536"]
    ranks = sorted(data.draw(st.sets(st.integers(1, 300), min_size=1, max_size=4)))
    sizes = sorted(data.draw(st.sets(st.integers(0, 10**6), min_size=1, max_size=4)))
    no_sizes = library == "mpich" and operation in ("barrier", "scan", "exscan")
    no_sizes |= library == "ompi" and operation in ("scatter", "alltoallv")
    points = {}
    for p in ranks:
        for n in sizes[:1] if no_sizes else sizes:
            usable = [name for name in names if is_usable(Situation(operation, p, n), name)]
            found = {name: data.draw(st.floats(1e-6, 1.0)) for name in usable}
            if found:
                points[p, n] = found
    if not points:
        return
    tuned = tuned_of(operation, points)
    path = tmp_path_factory.mktemp("rules") / f"rules{ending}"
    mock_ups = names_table("pgmpi")[operation]["algorithms"] if library == "pgmpi" else {}
    if library == "pgmpi" and not any(
        leaf.algorithm in mock_ups and any(leaf.ranks[0] <= p < leaf.ranks[1] for p in ranks)
        for leaf in tuned.tree
    ):
        with raises_code(DataError, "no-data"):
            tuned.save(path)
        return
    again = read_rules(tuned.save(path))
    again.check()
    bounds = {bound for leaf in tuned.tree for bound in leaf.bytes if bound < INF}
    for p in sorted({p for p, _ in points}):
        for bound in bounds:
            for n in {max(0, bound - 1), bound, bound + 1}:
                (leaf,) = [leaf for leaf in tuned.tree if leaf.holds(p, n)]
                is_kept = is_usable(Situation(operation, p, n), leaf.algorithm)
                is_kept &= library != "pgmpi" or leaf.algorithm in mock_ups
                # MPICH's function is for powers of two, where labkit's butterfly is for all
                is_kept &= library != "mpich" or leaf.algorithm != "butterfly" or p & (p - 1) == 0
                wanted = leaf.algorithm if is_kept else None
                assert again.choose(Situation(operation, p, n)) == wanted, (p, n)


@pytest.mark.parametrize("operation", ["bcast", "alltoall", "reduce"])
def test_smpi_gets_one_algorithm_and_hears_what_is_lost(operation, tmp_path):
    tuned = lk.tune(operation, "star:8", [3, 4], [8, 1 << 18], library="smpi")
    path = tuned.save(tmp_path / "rules.cfg")
    flag = path.read_text().splitlines()[-1]
    name = read_rules(path).choose(Situation(operation, 4, 8))
    assert flag.startswith(f"--cfg=smpi/{operation}:")
    assert names_table("smpi")[operation][flag.rpartition(":")[2]] == name
    losses = {
        other: tuned.penalty({operation: other})["mean"]
        for other in {row.algorithm for row in tuned.times.itertuples() if row.algorithm != name}
        if all(is_usable(Situation(operation, p), other) for p in (3, 4))
    }
    own = tuned.penalty({operation: name})
    assert all(own["mean"] <= lost + 1e-9 for lost in losses.values())
    assert "on average" in path.read_text()


def test_a_run_takes_a_librarys_rules(tmp_path):
    def program(comm):
        for n in (1, 100_000):
            comm.Bcast(np.zeros(n, np.uint8))

    tuned = tuned_of("bcast", {(4, n): {"linear": 1.0 * n, "chain": 50.0} for n in (1, 100_000)})
    for ending in (".conf", ".ompi.json"):
        path = tuned.save(tmp_path / f"rules{ending}")
        run = lk.run(program, ranks=4, on="star:4", coll=str(path))
        taken = {at.n_bytes: name.partition(":")[0] for at, name in run.collectives.items()}
        assert taken == {1: "linear", 100_000: "chain"}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(0, 5)), max_size=6))
def test_the_first_of_overlapping_ranges_counts(spans):
    ranges = [(low, low + width, value) for low, width, value in spans]
    cut = first_matches(ranges, lambda low, high, value: (low, high, value))
    for at in range(20):
        wanted = [value for low, high, value in ranges if low <= at < high][:1]
        assert [value for low, high, value in cut if low <= at < high] == wanted


def test_open_mpis_rules_as_its_manual_writes_them(tmp_path):
    """Version 2 of the classic form; JSON with names, overlaps, and sizes that no rule is for."""
    path = tmp_path / "r.conf"
    path.write_text("rule-file-version-2\n1 # collectives\n3\n1\n64\n2\n0 0 0 0 0\n64000 4 0 0 8\n")
    rules = read_rules(path)
    assert rules.choose(Situation("alltoall", 64, 999)) is None
    assert rules.choose(Situation("alltoall", 64, 1000)) == "linear_sync"
    path = tmp_path / "r.json"
    group = {"comm_size_min": 8, "comm_size_max": 16}
    first = {"msg_size_min": 100, "msg_size_max": 199, "alg": "segmented_ring", "seg_size": 4096}
    table = [{**group, "rules": [first, {"msg_size_max": "inf", "msg_size_min": 150, "alg": 3}]}]
    table.append({"rules": [{"alg": "rabenseifner"}]})
    path.write_text(
        json.dumps({"rule_file_version": 3, "module": "tuned", "collectives": {"allreduce": table}})
    )
    rules = read_rules(path)
    found = [rules.choose(Situation("allreduce", 8, n)) for n in (99, 100, 199, 200)]
    segmented = "ring_segmented:segment_bytes=4096"
    assert found == [None, segmented, segmented, "recursive_doubling"]
    assert rules.choose(Situation("allreduce", 17, 99)) == "rabenseifner"


def test_mpichs_trees_as_it_writes_them(tmp_path):
    """Nested conditions, of which the first one counts; blanks in keys; what labkit's calls do not tell."""
    binomial = {"algorithm=MPIR_Bcast_intra_binomial": {}}
    ring = {"algorithm = MPIR_Bcast_intra_scatter_ring_allgather": {}}
    doubling = {"algorithm=MPIR_Bcast_intra_scatter_recursive_doubling_allgather": {}}
    smp = {"algorithm=MPIR_Bcast_intra_smp": {}}
    tree = {
        "collective=bcast": {
            "comm_type=intra": {
                "comm_size < 8": binomial,
                "comm_size=pow2": {
                    "comm_hierarchy=parent": smp,
                    "comm_hierarchy=any": {"avg_msg_size<=12288": binomial, "avg_msg_size=any": doubling},
                },
                "comm_size=any": {"avg_msg_size<=12288": binomial, "avg_msg_size=any": ring},
            },
            "comm_type=inter": {"algorithm=MPIR_Bcast_inter_remote_send_local_bcast": {}},
        },
        "collective=ibcast": {"algorithm=MPIR_Ibcast_allcomm_auto": {}},
    }
    path = tmp_path / "generic.json"
    path.write_text(json.dumps(tree))
    choose = selector_of(str(path)).choose
    names = [choose(Situation("bcast", p, n)) for p in (7, 8, 9) for n in (12288, 12289)]
    long = ["binomial", "scatter_recursive_doubling_allgather", "scatter_ring_allgather"]
    assert names == ["binomial", long[0], "binomial", long[1], "binomial", long[2]]


BROKEN = {
    "a.conf": [
        ("", ("malformed-line",)),
        ("1\n7\n1\n4\n1\n8 6 0 0", ("malformed-line", "0")),
        ("1\n7\n1\n4\n2\n0 6 0 0\n0 1 0 0", ("not-sorted", "0")),
        ("1\n7\n2\n4\n1\n0 6 0 0\n4\n1\n0 6 0 0", ("not-sorted", "4")),
        ("1\n99\n0", ("unknown-name", "99")),
        ("1\n7\n1\n4\n1\n0 77 0 0", ("no-counterpart", "MPI", "77")),
        ("1\n7\n1\n4\n1\n0 6 0", ("malformed-line",)),
        ("1\n7\n1\n4\n1\n0 6 0 0 5", ("malformed-line", "5")),
        ("one", ("malformed-value",)),
        ("1\n7\n1\n4\n1\n0 6 0 4096", ("no-counterpart", "bcast/binomial")),
    ],
    "a.ompi.json": [
        ('{"collectives": []}', ("wrong-type",)),
        ('{"module": "han", "collectives": {}}', ("no-counterpart", "'han'")),
        ('{"collectives": {"sort": []}}', ("unknown-name", "'sort'")),
        ('{"collectives": {"bcast": [{}]}}', ("wrong-type",)),
        ('{"collectives": {"bcast": [{"rules": [{"alg": "best"}]}]}}', ("wrong-type",)),
        ('{"collectives": {"bcast": [{"comm_size_min": "x", "rules": []}]}}', ("wrong-type", "'inf'")),
        ('{"collectives": {"bcast": [{"comm_size_max": NaN, "rules": []}]}}', ("wrong-type", "nan")),
        ('{"collectives": {"bcast": [{"comm_size_min": 2.5, "rules": []}]}}', ("wrong-type", "2.5")),
        (
            '{"collectives": {"bcast": [{"comm_rank_distribution": "single-node", "rules": []}]}}',
            ("no-counterpart",),
        ),
        ('{"collectives": {}, "colls": 1}', ("unknown-name", "'colls'")),
        ('{"rule_file_version": 9, "collectives": {}}', ("unsupported-version", "1", "2", "3")),
        ('{"collectives": {"bcast": [{"ranks": 4, "rules": []}]}}', ("unknown-name", "'ranks'")),
        (
            '{"collectives": {"bcast": [{"comm_size_min": 8, "comm_size_max": 4, "rules": []}]}}',
            ("malformed-line",),
        ),
        (
            '{"collectives": {"bcast": [{"rules": [{"alg": 1, "msg_size": 4}]}]}}',
            ("unknown-name", "'msg_size'"),
        ),
        (
            '{"collectives": {"scan": [{"rules": [{"alg": 1, "msg_size_min": 4, "msg_size_max": 3}]}]}}',
            ("malformed-line",),
        ),
        ('{"collectives": {"bcast": [{"rules": [{"alg": 1, "faninout": -1}]}]}}', ("wrong-type",)),
        ('{"collectives": {"bcast": [{"rules": [{"alg": 6, "seg_size": 64}]}]}}', ("no-counterpart",)),
    ],
    "a.mpich.json": [
        ('{"collective=bcast": {}}', ("malformed-file", "conditions")),
        (
            '{"collective=bcast": {"comm_size<8": {"algorithm=MPIR_Bcast_intra_smp": {}}}}',
            ("malformed-line",),
        ),
        ('{"collective=bcast": {"day=monday": {}, "any": {}}}', ("unknown-name", "MPICH", "'day=monday'")),
        (
            '{"collective=bcast": {"algorithm=MPIR_Bcast_intra_tree": {}}}',
            ("no-counterpart", "MPICH", "MPIR_Bcast"),
        ),
        ('{"collective=bcasts": {}}', ("unknown-name", "'bcasts'")),
        ('{"collective=bcast": {"any": {}}, "collective = bcast": {}}', ("malformed-file", "conditions")),
        ('{"collective=bcast": {"algorithm=MPIR_Bcast_intra_binomial": {}, "any": {}}}', ("malformed-line",)),
        ('{"collective=bcast": {"any": {}, "algorithm=MPIR_Bcast_intra_binomial": {}}}', ("malformed-line",)),
        ('{"collective=bcast": {"algorithm=MPIR_Bcast_intra_binomial": {"k=2": 1}}}', ("malformed-line",)),
        ('{"collective=bcast": {"algorithm=MPIR_Bcast_intra_binomial": {"k=2": {}}}}', ("no-counterpart",)),
        ('{"collective=bcast": {"comm_size<8": {}, "comm_size < 8": {}, "any": {}}}', ("duplicate-name",)),
    ],
    "a.prf": [
        ("MPI_Sort", ("no-counterpart", "'MPI_Sort'")),
        ("MPI_Bcast\n0", ("out-of-range", "1")),
        ("MPI_Bcast\n4\n1\n1 bcast_by_pigeon", ("no-counterpart", "'bcast_by_pigeon'")),
        ("MPI_Bcast\n4\n1\n1 bcast_as_scatter_allgather\n1\n8 4 1", ("malformed-line", "8", "4", "1")),
        ("MPI_Bcast\n4\n1\n1 bcast_as_scatter_allgather\n1\n4 8 2", ("malformed-line", "4", "8", "2")),
        ("MPI_Bcast\n4\n1\n1 bcast_as_scatter_allgather\n2\n4 8 1", ("malformed-line",)),
        ("MPI_Bcast\n4 5\n0\n1", ("malformed-line",)),
        ("MPI_Bcast\n4\n1\n1 bcast_as_scatter_allgather fast", ("malformed-line",)),
        ("MPI_Bcast\n4\n2\n1 bcast_as_scatter_allgather\n1 default\n0", ("duplicate-name", "1")),
        ("MPI_Bcast\n4\n1\n1 bcast_as_scatter_allgather\n1\n4 8 1 9", ("malformed-line",)),
        ("MPI_Bcast\n4\n1\n1 bcast_as_scatter_allgather\n1\n4 8 1\nx", ("malformed-line",)),
    ],
    "a.cfg": [
        ("--cfg=smpi/bcast:pigeon", ("no-counterpart", "SMPI", "'pigeon'")),
        ("--cfg=smpi/coll-selector:ompi", ("malformed-line", "--coll")),
        ("--cfg=smpi/bcst:binomial_tree", ("unknown-name", "'bcast'")),
        ("--cfg=network/model:SMPI", ("malformed-line",)),
        ("--cfg=smpi/bcast:flattree\n--cfg=smpi/reduce=binomial", ("malformed-line", "reduce=binomial")),
        ("--cgf=smpi/bcast:flattree --cfg=smpi/reduce:binomial", ("malformed-line", "--cgf")),
        ("--cfg=smpi/bcast:flattree\n}", ("malformed-line", "'}'")),
    ],
    "a.toml": [
        ("rows = []", ("unknown-name", "'rows'")),
        ("rules = 3", ("malformed-schedule",)),
        ("[[rules]]\noperation = 'bcast'", ("malformed-line",)),
        (
            "[[rules]]\noperation = 'bcast'\nuse = 'linear'\nbyte_below = 3",
            ("unknown-name", "byte_below", "3"),
        ),
        (
            "[[rules]]\noperation = 'bcast'\nuse = 'linear'\nbytes_below = nan",
            ("unknown-name", "bytes_below"),
        ),
        ("[[rules]]\noperation = 'bcast'\nuse = 'linear'\nby = 'bytes'", ("unknown-name", "'bytes'")),
        (
            "[[rules]]\noperation = 'bcast'\nuse = [[4, 'linear'], 'binomial']\nbytes_below = 9",
            ("conflicting-options", "bytes_below"),
        ),
        ("[[rules]]\noperation = 'bcast'\nuse = 'linear'\neven = 1", ("unknown-name", "1")),
    ],
}


@pytest.mark.parametrize(
    ("name", "text", "wanted"), [(name, *case) for name, cases in BROKEN.items() for case in cases]
)
def test_broken_files_are_refused_with_a_sentence(name, text, wanted: tuple[str, ...], tmp_path):
    path = tmp_path / name
    path.write_text(text)
    with raises_code(ScheduleError, *wanted):
        read_rules(path)


@pytest.mark.parametrize(
    ("operation", "use"),
    [("bcst", "linear"), ("bcst", "default"), ("bcast", "liner"), ("bcast", "default or liner")],
)
def test_names_that_no_collective_or_algorithm_has_are_refused_with_the_file(operation, use, tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(f"[[rules]]\noperation = '{operation}'\nuse = '{use}'\n")
    with raises_code(ScheduleError, "unknown-name", str(path)):
        read_rules(path).check()


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_pipe_is_refused(name, tmp_path):
    """Who opens one waits until somebody writes to it."""
    os.mkfifo(tmp_path / name)
    with raises_code(ScheduleError, "wrong-kind-of-file"):
        read_rules(tmp_path / name)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.cfg", "-np 4 --cfg=smpi/reduce:binomial\n--cfg=smpi/bcast:flattree\n"),
        ("a.conf", "1\n2\n1\n2\n1\n0 3 0 0\n"),
        ("a.prf", "MPI_Bcast\n4\n1\n1 bcast_as_scatter_allgather\n1\n4 8 1\n"),
        ("a.toml", "[[rules]]\noperation = 'bcast'\nuse = 'linear'\n"),
    ],
)
def test_the_mark_of_an_encoding_is_no_text(name, text, encoding, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    wanted = repr(read_rules(path))
    path.write_text(text, encoding)
    assert repr(read_rules(path)) == wanted


def test_what_a_form_cannot_say_is_refused(tmp_path):
    with raises_code(DataError, "conflicting-options", "MPI"):
        tuned_of("bcast", {(4, 8): {"knomial:radix=8": 1.0}}).save(tmp_path / "a.conf")
    with raises_code(DataError, "no-counterpart", "MPICH", "allreduce/swing"):
        tuned_of("allreduce", {(4, 8): {"swing": 1.0}}).save(tmp_path / "a.mpich.json")
    with raises_code(DataError, "no-counterpart", "PGMPITuneLib", "allreduce/swing"):
        tuned_of("allreduce", {(4, 8): {"swing": 1.0}}).save(tmp_path / "a.prf")
    with raises_code(DataError, "no-data", "SMPI"):
        tuned_of("allreduce", {(4, 8): {"swing": 1.0}}).save(tmp_path / "a.cfg")
    split = tuned_of("scatter", {(4, n): {"linear": 1.0 * n, "binomial": 50.0} for n in (8, 99)})
    with raises_code(DataError, "unsupported"):
        split.save(tmp_path / "a.conf")
    with raises_code(DataError, "no-counterpart"):
        lk.tune("gatherv", "star:4", [2], [8], library="ompi")
    assert grow(tuned_of("scan", {(4, 8): {"linear": 1.0}}).times, 1)


def test_of_several_flags_of_smpi_the_last_one_counts(tmp_path):
    path = tmp_path / "a.cfg"
    path.write_text(
        "--cfg=smpi/bcast:flattree,smpi/reduce:binomial # x\n"
        "--cfg=smpi/os:0:1:2 --cfg=smpi/bcast:binomial_tree"
    )
    rules = read_rules(path)
    assert rules.choose(Situation("bcast", 8, 8)) == "binomial"
    assert rules.choose(Situation("reduce", 8, 8)) == "binomial"


def test_comments_of_a_profile_stand_behind_its_numbers(tmp_path):
    path = tmp_path / "a.prf"
    path.write_text(
        "# pgtune profile\nMPI_Bcast\n4 # ranks\n1 # mock-ups\n"
        "1 bcast_as_scatter_allgather\n1 # ranges\n4 8 1\n"
    )
    assert [read_rules(path).choose(Situation("bcast", 4, n)) is None for n in (3, 4, 8, 9)] == [
        True,
        False,
        False,
        True,
    ]
