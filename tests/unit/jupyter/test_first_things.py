"""What a student types first ends as meant, or with one sentence that helps."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import labkit as lk
from labkit.errors import LabkitError
from labkit.jupyter.hints import hint_of

BEGIN = """
def total(comm):
    return comm.allreduce(1)


class Sort:
    def go(self, comm):
        return comm.rank
"""
F_OF_ARRAY = "def f(comm, m):\n    return int(m.sum())\n"


def outcome(code: str, folder: Path) -> tuple[object, object]:
    """Return what the last line is worth, or the error's code and its message with the hint below a cell."""
    *before, last = code.strip().splitlines()
    names = {"lk": lk, "np": np, "pd": pd, "Path": Path, "folder": folder}
    for number, (text, mode) in enumerate(((BEGIN, "exec"), ("\n".join(before), "exec"), (last, "eval"))):
        name = f"<first things {hash(code)} {number}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        try:
            value = eval(compile(text, name, mode), names)
        except LabkitError as error:
            return error.code, "\n".join([str(error), *getattr(error, "__notes__", ())])
        except Exception as error:  # Python's own
            return type(error).__name__, hint_of(error)
    return None, value


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("lk.run(lambda comm: comm.allreduce(comm.rank), 4).results", [6, 6, 6, 6]),
        ("lk.run(Sort().go, 3).results", [0, 1, 2]),
        ("def me(comm):\n    comm.send(1, comm.rank)\n    return comm.recv()\nlk.run(me, 2).results", [1, 1]),
        ("lk.run(total, 8, on='torus').results", [8] * 8),
        ("lk.run(total, 4, on=lk.platform('star:4')).results", [4] * 4),
        ("lk.run(total, 4, on='star:4').makespan_s == lk.run(total, 4, on='star:4').makespan_s", True),
        (F_OF_ARRAY + "lk.run(f, 2, args=[np.array([1, 2])]).results", [3, 3]),
        (F_OF_ARRAY + "lk.run(f, 2, m=np.ones((2, 2))).results", [4, 4]),
        ("def hi(comm):\n    print('hello', comm.rank)\nlk.run(hi, 2).output", ["hello 0\n", "hello 1\n"]),
        ("'total: 2 ranks on star' in f'{lk.run(total, 2)}'", True),
        ("s = lk.sweep(total, [2, 4], repeats=1)\nmax(pd.read_csv(s.export(folder / 's.csv')).ranks)", 4),
        ("(folder / 'p.py').write_text('print(1)')\nlk.run(folder / 'p.py', 2).output", ["1\n", "1\n"]),
        ("lk.run(total, 2) == lk.run(total, 3)", False),
        ("max(lk.run(total, 5).results)", 5),
        # a third student
        ("lk.run(total, 4, 'star').results", [4] * 4),
        ("def f(comm):\n    return comm.allreduce([comm.rank])\nlk.run(f, 2).results", [[0, 1], [0, 1]]),
        ("def f(c):\n    a = np.ones(9)\n    c.bcast(a)\n    return a[0]\nlk.run(f, 2).results", [1, 1]),
        ("def f(comm, n=10, m=20):\n    return n\nset(lk.sweep(f, 4, n=5, progress=False).data.n)", {5}),
        ("list(lk.run(Sort().go, 3, trace=True).results)", [0, 1, 2]),
    ],
)  # fmt: skip
def test_it_ends_as_meant(code: str, value: object, tmp_path: Path) -> None:
    assert outcome(code, tmp_path) == (None, value)


@pytest.mark.parametrize(
    ("code", "kind", "fact"),
    [
        ("def f():\n    print('hi')\nlk.run(f, 4)", "wrong-arguments", "def f(comm)"),
        ("lk.run(Sort.go, 4)", "wrong-arguments", "labkit.run(Sort().go, 4)"),
        ("def f(comm, n):\n    return n\nlk.run(f, 4)", "wrong-arguments", "labkit.run(f, 4, n=...)"),
        ("lk.run(total, 0)", "out-of-range", "at least 1, got 0"),
        ("lk.run(total, '4')", "wrong-type", "without quotes"),
        ("lk.run(total, [2, 4])", "wrong-type", "labkit.sweep(program, ["),
        ("lk.run(total, 4, on='tours:2x2')", "unknown-name", "did you mean 'torus'"),
        ("lk.run(total, 4, args=np.ones((1, 3)))", "wrong-type", "args=[array]"),
        ("def f(comm):\n    yield comm.rank\nlk.run(f, 4)", "wrong-type", "take out yield or async"),
        ("async def f(comm):\n    return 1\nlk.run(f, 4)", "wrong-type", "take out yield or async"),
        ("def f(comm):\n    return input()\nlk.run(f, 4)", "not-on-ranks", "before the run"),
        ("def f(comm):\n    comm.Barrier\n    return 1\nlk.run(f, 4)", "not-a-program", "line 2"),
        ("from labkit.algorithms.sorting import sample_sort\nlk.run(sample_sort, 4)", "wrong-type",
         "from labkit.algorithms.sorting.sample_sort import sample_sort"),
        ("lk.sweep(total, [2, 4], progress=False).save(folder / 's.csv')", "unknown-format", "study.export"),
        ("lk.sorting", "unknown-name", "labkit.algorithms.sorting"),
        ("lk.torus", "unknown-name", 'labkit.platform("torus:4x4")'),
        ("lk.compare", "unknown-name", "labkit.contrast"),
        ("lk.run(total, 2).compare(1)", "unknown-name", "labkit.contrast"),
        ("lk.run(total, 2).plot()", "unknown-name", "labkit.plot.gantt(run)"),
        ("lk.run(total, 2).speedup()", "unknown-name", "labkit.plot.efficiency(study)"),
        ("lk.run(total, 2) - lk.run(total, 2)", "TypeError", "makespan_s"),
        ("lk.run(total, 2) < lk.run(total, 2)", "TypeError", "makespan_s"),
        ("f'{lk.run(total, 2):.3f}'", "TypeError", "run.makespan_s"),
        ("pd.DataFrame(lk.run(total, 2))", "ValueError", "run.phases"),
        ("lk.platform()", "TypeError", 'lk.platform("torus:4x4'),
        ("lk.run(total(4), 4)", "AttributeError", "lk.run(total, ...)"),
        ("x = [1, 2, 4, 8, 16]\nlk.judge(x, x, 'p').plot()", "unknown-name", "labkit.plot.scaling(verdict)"),
        # a third student
        ("__import__('labkit', fromlist=['mpi4py']).mpi4py", "unknown-name", "from mpi4py import MPI"),
        ("lk.run(total, np=4)", "unknown-name", "did you mean 'ranks'"),
        ("lk.run(total, n=4)", "unknown-name", "did you mean 'ranks'"),
        ("lk.run(total)", "ranks-required", "labkit.run(program, 8)"),
        ("lk.run(lambda: 1, 4)", "wrong-arguments", "lambda comm: ..."),
        ("lk.run([total, total], 4)", "wrong-type", "[labkit.run(f, 4) for f in"),
        ("lk.run(total, 4, on='ring:4')", "unknown-name", "torus:8"),
        ("lk.run(total, 4, on='hypercube')", "unknown-name", "torus:2x2x2"),
        ("lk.run(total, 4, on='mesh')", "unknown-name", "torus:4x4"),
        ("lk.simulate(total, 4)", "unknown-name", "labkit.run(program, 8)"),
        ("lk.explain(lk.run(total, 4))", "unknown-name", ".explain()"),
        ("lk.platforms", "unknown-name", "labkit.explore.topology()"),
        ("lk.collectives", "unknown-name", "dir(labkit.algorithms)"),
        ("lk.sort", "unknown-name", "labkit.algorithms.sorting"),
        ("lk.explore.bcast", "unknown-name", 'labkit.explore.collective("bcast")'),
        ("lk.run(total, 4).trace.plot()", "AttributeError", "trace=True"),
        ("run = lk.run(total, 4)\nrun.counts['messages']", "TypeError", "count=True"),
        ("lk.run(total, 4).save('x')", "unknown-name", "run.export(file)"),
        ("s = lk.sweep(total, [2, 4], progress=False)\ns.makespan_s", "unknown-name", 'curve("makespan_s")'),
        ("s = lk.sweep(total, [2, 4], progress=False)\ns.mean()", "unknown-name", "to_frame(wide=True)"),
        ("def f(comm):\n    comm.alltoall(comm.rank)\nlk.run(f, 4)", "rank-failed", "a list with one item"),
        ("def f(comm):\n    lk.compute('1ms')\nlk.run(f, 2)", "rank-failed", "a number of seconds"),
        ("lk.tune(total)", "unknown-name", "there are: allgather"),
        ("lk.lecture(total)", "wrong-type", "got function"),
        ("lk.check('tour_round')", "unknown-name", "did you mean 'tour_rounds'"),
        ("lk.check('1')", "unknown-name", "the notebooks name them"),
        ("lk.check()", "TypeError", "checks an exercise"),
        ("lk.tune()", "TypeError", 'lk.tune("bcast"'),
        ("lk.card()", "TypeError", 'lk.card("bcast"'),
        ("lk.run()", "TypeError", "lk.run(program, 8)"),
        ("lk.predict()", "TypeError", 'lk.predict("p log p")'),
        # a fourth student
        ("lk.run(total, 4, timeout=2)", "unknown-name", "did you mean 'timeout_s'"),
        ("lk.plot.gantt(lk.run(total, 2), lk.run(total, 2))", "wrong-arguments", "one at a time"),
        ("lk.plot.gantt(lk.run(total, 2, trace=True), widht=3)", "unknown-name", "did you mean 'width'"),
        ("lk.plot.save(lk.run(total, 2))", "unknown-name", '.save("figure.pdf")'),
        ("lk.run(total, 2, trace=True).explain().plot()", "unknown-name", "labkit.plot.critical_path"),
        ("lk.run(total, 2, trace=True).waits().show()", "unknown-name", "labkit.plot.waits(run)"),
        ("x = [1, 2, 4, 8, 16]\nlk.judge(x, x, 'p').save('a.pdf')", "unknown-name", "labkit.plot.scaling"),
        ("lk.plot.topology('star:4').save()", "TypeError", 'save("figure.pdf")'),
        ("lk.predict(['2 ms', '3 ms'])", "wrong-type", "numbers by name"),
        ("lk.tune('bcast', 'star', ranks=[2], algorithms=[total])", "wrong-type", "my_algorithms/"),
        ("f'{lk.run(total, 2).results:.2f}'", "TypeError", "run.results[0]"),
        ("run = lk.run(lambda comm: comm.reduce(1), 3)\nsum(run.results)", "TypeError", "None for 2 of 3"),
        ("run = lk.run(lambda comm: comm.reduce(1), 3)\nnp.mean(run.results)", "TypeError", "for 2 of 3"),
        ("run = lk.run(lambda comm: None, 3)\nmax(run.results)", "TypeError", "returns nothing"),
        ("from labkit.algorithms.sorting import sample_sort\nsample_sort([3, 1])", "TypeError",
         "from labkit.algorithms.sorting.sample_sort import sample_sort"),
        ("from labkit.algorithms.sorting.sample_sort import sample_sort\nsample_sort([3, 1])", "TypeError",
         "lk.run(sample_sort, 8, keys=...)"),
        ("def f(x):\n    return comm.rank\nlk.run(f, 2)", "rank-failed", "def f(comm, ...)"),
        ("lk.run(lambda comm: comm.sum(1), 2)", "rank-failed", "comm.allreduce(x, op=MPI.SUM)"),
        ("lk.run(total, 4, latency_s=1e-6)", "unknown-name", 'on="star,lat=1us'),
        ("lk.run(total, 4, algorithm='ring')", "unknown-name", 'coll={"allreduce": "ring"}'),
        ("lk.run(total, 4, on='localhost')", "unknown-name", 'on this computer is "mpi"'),
        ("lk.run(total, 4).show()", "unknown-name", "labkit.plot.gantt(run)"),
        ("lk.platform('torus', 4)", "TypeError", 'lk.platform("torus:4x4,lat=1us")'),
        ("lk.platform('star', latency=1e-6)", "TypeError", 'lk.platform("torus:4x4,lat=1us")'),
        ("lk.card('bcast', size=8)", "TypeError", 'lk.card("bcast", "torus:4x4")'),
        ("lk.lecture('bcast', 'binomial', 8)", "TypeError", 'lk.lecture("bcast")'),
        ("lk.sweep(total, [2, 4], progress=False).plot(metric='speedup')", "unknown-name",
         "labkit.plot.speedup(study)"),
        ("def f(comm):\n    return comm.scatter([1] * comm.rank)\nlk.run(f, 4)", "rank-failed",
         "scatter takes a list with one item for each rank"),
        ("def f(comm):\n    return comm.allreduce(1, lk.MPI.max)\nlk.run(f, 2)", "rank-failed",
         "did you mean 'MAX'"),
        ("def f(comm):\n    comm.barrier(1)\nlk.run(f, 2)", "rank-failed", "barrier takes no arguments"),
        ("def f(comm):\n    return rank\nlk.run(f, 2)", "rank-failed", "write comm.rank"),
        ("def f(comm):\n    rank = 1\n    return rnak\nlk.run(f, 2)", "rank-failed", "did you mean 'rank'"),
        ("def f(comm):\n    comm.send(1, np.ones(3))\n    return 1\nlk.run(f, 2)", "rank-failed",
         "comm.send(data, dest=1)"),
        ("def f(comm):\n    comm.send('a', comm.rank)\n    comm.irecv(0).wait()\nlk.run(f, 1)",
         "rank-failed", "comm.irecv(source=0)"),
    ],
)  # fmt: skip
def test_it_ends_with_a_sentence_that_helps(code: str, kind: str, fact: str, tmp_path: Path) -> None:
    found, said = outcome(code, tmp_path)
    assert found == kind, said
    assert fact in str(said)


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("from labkit import mpi4py", "from mpi4py import MPI"),
        ("from labkit import simulate", "labkit.run(program, 8)"),
        ("from labkit.algorithms.sorting import samplesort", "did you mean 'sample_sort'"),
        ("from labkit.algorithms import sorts", "did you mean 'sorting'"),
        ("import labkit.algorithms.sort", "did you mean 'sorting'"),
        ("from labkit.scaling import fitt", "did you mean 'fit'"),
        ("import no_such_module", ""),
        ("from math import sinus", ""),
    ],
)
def test_an_import_that_fails_gets_the_name_that_was_meant(line: str, fact: str) -> None:
    with pytest.raises(ImportError) as found:
        exec(line, {})
    hint = hint_of(found.value)
    assert fact in hint
    assert bool(hint) == bool(fact)


SHARED = """
count, found, table, table_of = 0, [], {}, [[0]]


def assigns(comm):
    global count
    count += comm.rank


def appends(comm):
    found.append(comm.rank)


def stores(comm):
    own = {}
    own[0] = found
    table[comm.rank + len(found)] = comm.size


def returns(comm):
    found.append(comm.rank)
    return found


def reads(comm):
    own = [one for one in found]
    own.append(len(table))
    own[0] = table_of[0][0] + count
"""


@pytest.mark.parametrize(
    ("name", "changed"),
    [("assigns", "count"), ("appends", "found"), ("stores", "table"), ("returns", ""), ("reads", "")],
)
def test_globals_that_ranks_change_are_named_where_nothing_is_returned(name: str, changed: str) -> None:
    names: dict[str, object] = {}
    exec(SHARED, names)
    program = names[name]
    assert callable(program)
    notes = lk.run(program, 2).notes
    assert [f"its own copy of {changed}," in note for note in notes] == ([True] if changed else [])
    assert names["count"] == 0


@pytest.mark.parametrize(
    ("program", "method"),
    [
        (lambda comm: comm.Get_rank, "Get_rank"),
        (lambda comm: None if comm.rank else comm.barrier, "barrier"),
        (lambda comm: comm.Get_rank(), ""),
        (lambda comm: max, ""),
        (lambda comm: len, ""),
    ],
)
def test_a_method_that_a_program_returns_without_a_call_is_named(
    program: Callable[..., object], method: str
) -> None:
    notes = lk.run(program, 2).notes
    assert [f" {method}() " in note for note in notes] == ([True] if method else [])
