"""What works in a student's notebook works graded: IPython decides what is code, and nothing is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import DataError
from labkit.grading.submission import (
    notebook_source,
    python_of,
    read_submission,
    source_of_cells,
    submitted_text,
)
from tests.support.refusals import raises_code


def ran(cells: list[str], *arguments: Any, function: str = "f") -> Any:
    """Run the function that graded cells define."""
    scope: dict[str, Any] = {"__name__": "submission"}
    exec(compile(source_of_cells(cells, function), "submission.py", "exec", dont_inherit=True), scope)
    return scope[function](*arguments)


#: cells, what f() gives in the notebook
RIGHT: dict[str, tuple[list[str], Any]] = {
    "modulo at the beginning of a line": (["def f(x=7):\n    return (x\n        % 3)"], 1),
    "modulo after a backslash": (["X = 7 \\\n% 3\ndef f():\n    return X"], 1),
    "modulo in brackets at the top": (["X = (7\n% 3)", "def f():\n    return X"], 1),
    "magics in a text": (['def f():\n    return """\n%time\n!ls\n"""'], "\n%time\n!ls\n"),
    "a call for a constant": (['INF = float("inf")', "def f():\n    return INF > int(2**6)"], True),
    "a call for a size": (["SIZE = int(2**6)\ndef f():\n    return SIZE"], 64),
    "two imports, one to draw": (
        ["import math as np, collections as plt\n", "def f():\n    return np.sqrt(4)"],
        2.0,
    ),
    "an import that is tried": (
        [
            "try:\n    import no_such_module as fast\nexcept ImportError:\n    fast = None",
            "def f():\n    return fast",
        ],
        None,
    ),
    "a table filled by a loop": (
        ["T = []\nfor i in range(4):\n    T.append(i * i)", "def f():\n    return T"],
        [0, 1, 4, 9],
    ),
    "a table filled by index": (
        ["T = [0] * 3", "for i in range(3):\n    T[i] = i", "def f():\n    return T"],
        [0, 1, 2],
    ),
    "a table filled by a function": (
        ["T = {}\ndef fill(t):\n    t['a'] = 1\n", "fill(T)", "def f():\n    return T"],
        {"a": 1},
    ),
    "a table filled by a function that knows it": (
        ["T = []\ndef fill():\n    T.append(1)\n", "fill()", "def f():\n    return T"],
        [1],
    ),
    "a global set by a function": (["def g():\n    global T\n    T = 5", "g()", "def f():\n    return T"], 5),
    "a number set by a function": (
        ["N = 0\ndef g():\n    global N\n    N = 5", "g()", "def f():\n    return N"],
        5,
    ),
    "the recursion limit": (
        [
            "import sys\nsys.setrecursionlimit(5000)",
            "def g(n):\n    return n and g(n - 1)\ndef f():\n    return g(3000)",
        ],
        0,
    ),
    "the recursion limit, imported": (
        [
            "from sys import setrecursionlimit as s",
            "s(5001)",
            "def f():\n    import sys\n    return sys.getrecursionlimit()",
        ],
        5001,
    ),
    "a partial": (
        ["from functools import partial\ndef g(a, b):\n    return a - b\n", "f = partial(g, 5, 3)"],
        2,
    ),
    "a lambda": (["f = lambda: 3"], 3),
    "a method": (["class S:\n    def go(self):\n        return 4\n", "s = S()\nf = s.go"], 4),
    "a decorator": (["def twice(g):\n    return lambda: 2 * g()", "@twice\ndef f():\n    return 4"], 8),
    "an attribute of the function": (["def f():\n    return f.k", "f.k = 3"], 3),
    "timed": (["%%time\ndef f():\n    return 1"], 1),
    "captured": (["%%capture out\n%matplotlib inline\ndef f():\n    return 1"], 1),
    "timed line": (["%time X = 3 + 4\ndef f():\n    return X"], 7),
    "timed line in a loop": (
        ["X = []\nfor i in range(2):\n    %time X.append(i)\ndef f():\n    return X"],
        [0, 1],
    ),
    "the future, late": (
        ["import math", "from __future__ import annotations\ndef f(x: No = 1):\n    return x"],
        1,
    ),
    "a question": (["np.sort?", "?print\n", "def f():\n    return 1\nf??"], 1),
    "the shell": (["x = !ls\n!ls", "files = !ls\ndef f():\n    return 1"], 1),
    "a timeit": (["r = %timeit -o -n1 -r1 f()", "def f():\n    return 1"], 1),
    "a prompt": ([">>> X = 2\n>>> def f():\n...     return X\n"], 2),
    "a cell that is no Python": (["this is no Python", "def f():\n    return 1", "def g(:\n"], 1),
    "a cell indented as a whole": (["    X = 2\n    def f():\n        return X\n"], 2),
    "the last of two": (["def f():\n    return 1", "def f():\n    return 2"], 2),
    "many terms": ([f"def f(x=1):\n    return {' + '.join(['x'] * 900)}"], 900),
    "a long literal": ([f"X = 0x{'f' * 5000}\ndef f():\n    return X % 16"], 15),
    "statements on one line": (["a = 1; b = 'ü'; c = 3\ndef f(): return a, b, c"], (1, "ü", 3)),
    "carriage returns": (["X = 1\r\ndef f():\r\n    return X\r\n"], 1),
    "names in texts": (["K = 3", "def f():\n    return eval('K')"], 3),
    "own names are not the notebook's": (
        ["for T in range(3):\n    raise SystemExit", "def f():\n    T = 3\n    return [T for T in range(2)]"],
        [0, 1],
    ),
    "a function that a decorator registers": (
        [
            "STEPS = {}\ndef step(g):\n    STEPS[g.__name__] = g\n    return g",
            "@step\ndef look():\n    return 6",
            "def f():\n    return STEPS['look']()",
        ],
        6,
    ),
    "a function that a decorator's maker registers": (
        [
            "STEPS = {}\ndef add(n, g):\n    STEPS[n] = g",
            "def step(n):\n    def inner(g):\n        add(n, g)\n        return g\n    return inner",
            "@step('a')\ndef look():\n    return 6",
            "def f():\n    return STEPS['a']()",
        ],
        6,
    ),
    "a function registered by its list": (
        ["STEPS = []", "@STEPS.append\ndef look():\n    return 6", "def f():\n    return STEPS[0]()"],
        6,
    ),
    "a singledispatch": (
        [
            "from functools import singledispatch\n@singledispatch\ndef size(x):\n    return 0",
            "@size.register\ndef _(x: list):\n    return len(x)",
            "@size.register(str)\ndef _(x):\n    return -1",
            "def f():\n    return size([1, 2]), size('a'), size(3)",
        ],
        (2, -1, 0),
    ),
    "a method that is set": (
        [
            "class Node:\n    pass",
            "def look(self):\n    return 7",
            "setattr(Node, 'look', look)",
            "def f():\n    return Node().look()",
        ],
        7,
    ),
    "a class that registers itself": (
        [
            "KINDS = {}\nclass Base:\n    def __init_subclass__(cls):\n        KINDS[cls.__name__] = cls",
            "class A(Base):\n    x = 3",
            "class B(A):\n    x = 4",
            "def f():\n    return [k.x for k in KINDS.values()]",
        ],
        [3, 4],
    ),
    "a class that its parent lists": (
        [
            "class Base:\n    known = []\n    def __init_subclass__(cls):\n        Base.known.append(cls.x)",
            "class A(Base):\n    x = 3",
            "def f():\n    return Base.known",
        ],
        [3],
    ),
    "subclasses that are asked for": (
        [
            "class Base:\n    pass",
            "class A(Base):\n    x = 3",
            "def f():\n    return [k.x for k in Base.__subclasses__()]",
        ],
        [3],
    ),
    "a name that a loop of trials leaves": (
        [
            "import labkit as lk\ntimes = []",
            "for MANY in (4, 8):\n    times.append(lk.run(f, MANY))",
            "def f():\n    return MANY",
        ],
        8,
    ),
    "conditional": (
        ["FAST = True\nif FAST:\n    def f():\n        return 1\nelse:\n    def f():\n        return 2"],
        1,
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_graded_function_finds_what_it_finds_in_the_notebook(name: str) -> None:
    cells, wanted = RIGHT[name]
    before = sys.getrecursionlimit()
    try:
        assert ran(cells) == wanted
    finally:
        sys.setrecursionlimit(before)


#: cells beside ``def f``, none of which may run
TRIALS = [
    "print(lk.run(f, 4))",
    "runs = [lk.run(f, p) for p in (2, 4)]",
    "for p in (2, 4):\n    runs.append(lk.run(f, p, args=(K,)))",
    "def trial(p):\n    return lk.run(f, p, args=(T,))\ntrial(3)",
    "lk.run(other, 4, args=(K, T))",
    'points("sort", "easy", f)',
    "plt.plot(T)\nplt.show()",
    "print(T, K)",
    "raise SystemExit",
    "input('how many?')",
    "%timeit f()",
    "!rm -rf /",
    "%%bash\nls",
    "%%writefile f.py\ndef f(): pass",
    "%%spmd -n 4\nprint(rank)",
    "import sys\nsys.exit()",
    "assert f() == 3",
    "if __name__ == '__main__':\n    f()",
]


@pytest.mark.parametrize("trial", TRIALS)
def test_trials_do_not_run(trial: str) -> None:
    head = "import labkit as lk\nimport matplotlib.pyplot as plt\nfrom labkit.grading.notebook import points"
    names = "K = 3\nT = [1]\nruns = []\ndef other(c, k, t):\n    return k"
    cells = [head, names, "def f():\n    return K, T", trial]
    assert source_of_cells(cells, "f") == "K = 3\nT = [1]\ndef f():\n    return K, T\n"


def test_what_ipython_reads_wrongly_on_purpose_is_no_python() -> None:
    for cell in ("%" * 100_000, "x = (" * 300, "\0", "\ud800 = 1", "%time \ud800", "%%time\n" * 30 + "x = ("):
        with raises_code(DataError, "not-python"):
            python_of(cell)


def test_a_function_that_no_cell_defines_names_the_cells_that_are_no_python() -> None:
    with raises_code(DataError, "invalid-value", "cell 2, line 1"):
        source_of_cells(["x = 1", "def f(:"], "f")


def test_a_notebook_is_one_however_its_ending_is_spelt(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "metadata": {}, "source": "%time\ndef f():\n    return 1"}
    path = tmp_path / "ADA.IPYNB"
    path.write_text(json.dumps({"cells": [cell], "nbformat": 4}))
    assert "return 1" in read_submission(path, "f")


def test_a_notebook_of_pictures_is_read() -> None:
    cell = {
        "cell_type": "code",
        "source": ["def f():\n", "    return 1"],
        "outputs": [{"text": "x" * (5 << 20)}],
    }
    assert "def f" in notebook_source(json.dumps({"cells": [cell]}), "f")


def test_old_notebooks_are_upgraded(tmp_path: Path) -> None:
    code = "# é\ndef f(x):\n    return x + 1\n"
    cells = [
        {"cell_type": "heading", "level": 1, "source": ["A title"], "metadata": {}},
        {"cell_type": "code", "input": code.splitlines(keepends=True), "language": "python", "outputs": [],
         "metadata": {}, "prompt_number": 1, "collapsed": False},
    ]  # fmt: skip
    book = {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {},
        "worksheets": [{"cells": cells, "metadata": {}}],
    }
    path = tmp_path / "old.ipynb"
    for encoding in ("utf-8", "latin-1"):
        path.write_bytes(json.dumps(book, ensure_ascii=False).encode(encoding))
        assert "return x + 1" in read_submission(path, "f")
        assert json.loads(submitted_text(path)) == [code]


_CELL = {"cell_type": "code", "metadata": {}, "source": "def f():\n    return 1"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        *(
            ({"more": {"cell_type": kind, "source": "f = 1", "metadata": {}}}, "")
            for kind in ("markdown", "raw")
        ),
        ({"more": {"cell_type": "Code", "source": "f = 1", "metadata": {}}}, "malformed-file"),
        ({"more": {"cell_type": None, "source": "f = 1", "metadata": {}}}, "malformed-file"),
        ({"more": {"cell_type": "code", "metadata": {}}}, "malformed-file"),
        ({"more": {"cell_type": "code", "source": 3, "metadata": {}}}, "malformed-file"),
        ({"more": {"cell_type": "code", "source": ["x", 3], "metadata": {}}}, "malformed-file"),
        ({"more": "x"}, "malformed-file"),
        ({"nbformat": 3}, ""),
        ({"nbformat": 5}, "unsupported-version"),
        ({"nbformat": "four"}, "unsupported-version"),
        ({"cells": {}}, "malformed-file"),
    ],
)
def test_the_parts_of_a_notebook_are_read_or_refused(change: dict[str, Any], code: str) -> None:
    book: dict[str, Any] = {"cells": [_CELL], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}
    more = change.pop("more", None)
    book |= change
    if more is not None:
        book["cells"].append(more)
    if code:
        with raises_code(DataError, code):
            notebook_source(json.dumps(book), "f")
    else:
        assert "def f" in notebook_source(json.dumps(book), "f")
