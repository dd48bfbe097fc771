"""What a student types first: each ends as it was meant, or with one sentence that says what to type."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

#: cells, one after the other in one notebook, and what must be seen below each; "-" in front: must not
FIRST = [
    ("import labkit as lk", []),
    ("lk.run?", ["Run one SPMD program"]),
    ("def f(comm):\n    return comm.rank\n\nlk.run(f, 4)", ["f: 4 ranks on star"]),
    ('lk.run(f, on="star:8").results', ["[0, 1, 2, 3, 4, 5, 6, 7]"]),
    ('lk.run(f, 4, on="tours:2x2")', ["did you mean 'torus'?", "Cell In[", "-labkit/"]),
    ("lk.run(4, f)", ["the program comes first, as in labkit.run(f, 4)"]),
    ("lk.run(f)", ["`ranks` is required", "labkit.run(program, 8)"]),
    ("def g():\n    return 1\n\nlk.run(g, 4)", ["def g(comm)"]),
    ("study = lk.sweep(f, [1, 2, 4])\nstudy.to_frame()", ["makespan_s"]),
    ('%%spmd -n 4\nx = rank * 2\nprint("hello", rank)', ["hello 3", '_spmd["x"]']),
    ("x", ['_spmd["x"] is its value on each of them']),
    ('_spmd["x"]', ["[0, 2, 4, 6]"]),
    ("comm.rank", ["comm lives on the ranks: in cells that begin with %%spmd"]),
    ('%%spmd -n 2\nname = input("name? ")', ["ranks have no keyboard"]),
    ("%%spmd -n 2\ncomm.recv(source=1 - rank)", ["cycle: rank 0 waits for rank 1 waits for rank 0"]),
    (
        "%%spmd -n 2 --on mpi\ncomm.recv(source=1 - rank)",
        ["cycle: rank 0 waits for rank 1 waits for rank 0", "recv from rank 1, tag any at Cell In"],
    ),
    ("def bad(comm):\n    return 1 / comm.rank\n\nlk.run(bad, 4)", ["rank 0 failed: ZeroDivisionError"]),
    (
        "import numpy as np\n\n\ndef pi(comm, n=2_000_000):\n"
        "    points = np.random.default_rng(comm.rank).random((n // comm.size, 2))\n"
        "    return comm.allreduce(int((np.square(points).sum(axis=1) < 1).sum())) * 4 / n\n\n"
        "print(lk.sweep(pi, [1, 2, 4, 8, 16]))",
        ['compute="measured"', "computation was free"],
    ),
    ('measured = lk.sweep(pi, [1, 2, 4, 8, 16], compute="measured", repeats=1)\nmeasured', ["computation_s"]),
    ("lk.plot.speedup(measured)", ["Speedup"]),
    (
        "import matplotlib.pyplot as plt\n\n"
        'times = measured.data.query("metric == \'makespan_s\'")\nplt.plot(times["ranks"], times["value"]);',
        ["Figure size"],
    ),
    ('lk.run("prg.py", 2)', ["does not exist; give the path of a Python file"]),
    # typing errors, arguments in another order, odd types, figures of the wrong thing
    ("lk.run(f, [2, 4, 8])", ["several numbers of ranks are a sweep: labkit.sweep(program, [2, 4, 8])"]),
    ('lk.run(f, "4")', ["write 4, without quotes"]),
    ("lk.plot(study)", ["study.plot() a study"]),
    ('study["value"]', ["the table of a study is study.data"]),
    ('lk.judge(study, "log p")', ['study.expect("p log p") a study']),
    ("lk.plot.gantt(study)", ["takes a run; got a study; study.plot() draws a study", "-labkit/"]),
    (
        "lk.plot.speedup(lk.run(f, 4))",
        ["takes a study or several", "got a run; labkit.plot.gantt(run)", "-labkit/"],
    ),
    ("lk.sweep(pi, [2, 4, 8], progress=False).plot()", ["too few values for a model"]),
    ("lk.sweep(pi, [1, 2], N=[1000])", ["did you mean 'n'?", "-labkit/"]),
    ('lk.explore.collective("broadcast")', ["did you mean 'bcast'?"]),
    ('lk.lecture("bcast")', ["Broadcast down a binomial tree"]),
    ("%%spmd -n 4 --trcae\nrank", ["did you mean '--trace'?"]),
    # names under which people look for a thing, and pictures
    ("lk.run(f, 4, 1000)", ["by name, as in labkit.run(program, 4, n=1000)", "-labkit/"]),
    ("lk.compare(study, study)", ["use labkit.plot.compare(studies)"]),
    ("lk.plot.timeline(lk.run(f, 4))", ["use labkit.plot.gantt(run)"]),
    ('lk.plot.topology("star:4").savefig("x.png")', ['use save("figure.png")']),
    ("study.head()", ["use data.head(...)"]),
    ("import pandas as pd\n\npd.DataFrame(study)", ["the table of a study is study.data"]),
    ("lk.lecture()", ['lk.lecture("bcast") shows a broadcast']),
    (
        "%%spmd -n 2 --on mpi\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
        ["draw _spmd[...] of it in a separate cell"],
    ),
    ("%%spmd -n 4 -on torus\nrank", ["an option begins with --, as in --on torus:4x4"]),
]

#: further ones, of somebody else: mistyped names, things left out, things of MPI in plain cells
AGAIN = [
    ("%%spmd -n 2\nrank", ["run a cell `import labkit as lk` first"]),
    ("import labkit as lk\nimport numpy as np", []),
    (
        "def main(comm):\n    return np.int64(comm.rank)\n\nlk.run(main)",
        ["labkit.run(program, 8)", "-labkit/"],
    ),
    ("lk.run(main(), 4)", ["hand over the function itself, uncalled: lk.run(main, 4)"]),
    ("run = lk.run(main, 4)\nrun.results", ["[0, 1, 2, 3]", "-np.int64"]),
    ("print(run.results[1:]), run.results[2]", ["[1, 2, 3]", "(None, 2)", "-np.int64"]),
    ("run[0]", ["run.results has an entry for each rank"]),
    ("run.results[9]", ["an entry for each rank, 0 to 3; got 9", "-labkit/"]),
    ("run.results()", ["write run.results, without parentheses"]),
    ("run.time", ["use makespan_s"]),
    ("run.results.mean()", ["use numpy.array(run.results).mean"]),
    ('run.expect("p")', ["a growth needs several runs"]),
    ("%%spmd -n 2\nprint(comm)", ["labkit.MPI.COMM_WORLD"]),
    ("MPI.COMM_WORLD", ["from labkit import MPI has it", "%%spmd"]),
    ("from mpi4py import MPI\nMPI.COMM_WORLD.size", ["1"]),
    ("help(lk.run)", ["Run one SPMD program on a real or on a simulated machine"]),
    ("lk.sweep?", ["Run a program at every combination of ranks"]),
    ("%%spmd -n 2\nif rank == 0\n    x = 1", ["expected ':'", "line 2"]),
    ("%%smpd -n 4\nrank", ["write %%spmd"]),
    ("%%spmd -n 4\ncomm.Sned(np.ones(1), 0)", ["did you mean 'Send'?"]),
    ("%%spmd -n 4\ncomm.send(1, dst=0)", ["did you mean 'dest'?"]),
    ("%%spmd -n 2 --on mpi\ncomm.send(1, dest=2)", ["from 0 to comm.size - 1"]),
    ("%%spmd -n 3\ndata = comm.gather(rank)\ndata[0]", ["comm.allgather gives it to every rank"]),
    ("%%spmd -n 2\ncomm.reduce(rank, op=sum)", ["op=MPI.SUM"]),
    ("%%spmd -n 2\nx = [np.int64(rank)]", ['_spmd["x"]']),
    ('_spmd["x"]', ["[[0], [1]]"]),
    ("_spmd[0]", ['_spmd["x"]', "_spmd.results has an entry for each rank"]),
    ('lk.run(main, "mpi")', ["labkit.run(program, 4, on='mpi')"]),
    ('lk.run("main", 4)', ["or the function itself: labkit.run(main, 4)"]),
    ("def f(comm, rank):\n    return rank\n\nlk.run(f, 4)", ["inside, comm.rank is the rank"]),
    (
        'sizes = lk.sweep(lambda comm, n: n, [1, 2], n=[10, 20])\nsizes.expect("1", n=10)',
        ["sizes.expect(..., where={'n': 10})"],
    ),
    ("lk.sweep(main, [1, 2, 4], reps=3)", ["did you mean 'repeats'?", "-labkit/"]),
    (
        'study = lk.sweep(main, [1, 2, 4, 8, 16], progress=False)\nstudy.expect("1")',
        ["no computing was charged"],
    ),
    ("lk.plot.speedup(study)", ['compute="measured"', "-labkit/"]),
    ('study.plot(metric="time")', ["did you mean 'makespan_s'?"]),
    ("study.expect()", ['study.expect("p log p") judges a study']),
    ('lk.explore.sorting("smaple")', ["did you mean 'sample_sort'?"]),
    ('lk.run(main, 4, isolate="x")', ["isolate is True or False"]),
    (
        "def bad(comm):\n    return 1 / (comm.size - 2)\n\ns = lk.sweep(bad, [1, 2, 4], progress=False)",
        ["StudyWarning: the point ranks=2 failed", "(Cell In[", "-/tmp"],
    ),
    ("%%spmd -n 2\ncomm.recv(source=1 - rank)", ["cycle: rank 0 waits for rank 1"]),
]

MAKE = """async (sources) => {
  const folder = jupyterapp.shell.currentWidget.context.path.split("/").slice(0, -1)
  const path = [...folder, "first_cells.ipynb"].join("/")
  const cells = sources.map((source) => (
    {cell_type: "code", source, metadata: {}, outputs: [], execution_count: null}))
  const content = {nbformat: 4, nbformat_minor: 4, cells,
    metadata: {kernelspec: {name: "python3", display_name: "Python 3"}}}
  await jupyterapp.serviceManager.contents.save(path, {type: "notebook", format: "json", content})
  await jupyterapp.commands.execute("docmanager:open", {path})
}"""

RUN = """async (index) => {
  const notebook = jupyterapp.shell.currentWidget.content
  notebook.activeCellIndex = index
  await jupyterapp.commands.execute("notebook:run-cell")
  const text = (part) => (Array.isArray(part) ? part.join("") : part ?? "")
  return notebook.widgets[index].model.outputs.toJSON().map((one) =>
    one.text ? text(one.text) : one.traceback ? one.traceback.join("\\n") : text(one.data?.["text/plain"])
  ).join("\\n")
}"""


def typed(visitor, cells) -> Iterator[tuple[int, list[str]]]:
    """Type cells into a notebook of their own, run one after the other, and yield what each lacks."""
    visitor.arrive()
    visitor.page.evaluate(MAKE, [source for source, _ in cells] + [""])
    visitor.wait_for_notebook("first_cells.ipynb")
    for index, (source, expected) in enumerate(cells):
        began = time.monotonic()
        said = re.sub(r"\x1b\[[0-9;]*m", "", visitor.page.evaluate(RUN, index))
        print(f"{time.monotonic() - began:5.1f} s: {source.splitlines()[0]}")
        yield (
            index,
            [
                f"{source}\n  lacks {one!r}:\n{said[-800:]}"
                for one in expected
                if ((one[1:] in said) if one.startswith("-") else (one not in said))
            ],
        )


def test_what_a_student_types_first(visitor):
    wrong = []
    for index, lacking in typed(visitor, FIRST):
        wrong += lacking
        if index == 0:
            names = offered(visitor, len(FIRST), "lk.")
            assert {"run", "sweep", "plot", "explore", "algorithms"} <= set(names)
            assert "Run" not in names
            assert set(offered(visitor, len(FIRST), "lk.explore.")) >= {"topology", "sorting"}
    assert "torus" in offered(visitor, len(FIRST), "%%spmd -n 2 --on ")
    assert "expect" in offered(visitor, len(FIRST), "study.")
    visitor.shot("first_cells")
    assert not wrong, "\n\n".join(wrong)


def test_what_another_student_types_first(visitor):
    wrong = [one for _, lacking in typed(visitor, AGAIN) for one in lacking]
    visitor.page.evaluate(
        "() => jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})"
    )
    visitor.page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")
    visitor.scroll_to(len(AGAIN) - 1)
    drawn = visitor.cell(len(AGAIN) - 1).locator("img")
    assert "invert" in drawn.evaluate("one => getComputedStyle(one).filter")  # drawn on white
    visitor.shot("first_cells_again")
    assert not wrong, "\n\n".join(wrong)


def offered(visitor, index: int, text: str) -> list[str]:
    """Type a text into an empty cell, press Tab, and return what is offered."""
    page = visitor.page
    visitor.scroll_to(index)
    page.evaluate(
        """index => {
             const notebook = jupyterapp.shell.currentWidget.content
             notebook.activeCellIndex = index
             notebook.widgets[index].model.sharedModel.setSource("")
             notebook.mode = "edit"
           }""",
        index,
    )
    page.keyboard.type(text)
    began = time.monotonic()
    page.keyboard.press("Tab")
    items = page.locator(".jp-Completer:visible .jp-Completer-match")
    visitor.wait_until(lambda: items.count() > 0, f"names behind {text}")
    print(f"{time.monotonic() - began:5.2f} s: Tab behind {text}")
    names = [one.strip() for one in items.all_inner_texts()]
    page.keyboard.press("Escape")
    return names
