"""Pickles for other processes keep the names of files, whatever the installed cloudpickle does with them."""

from __future__ import annotations

import pickle
import traceback
from types import CodeType

import cloudpickle
import pytest

from labkit.process import by_value
from labkit.real import program as messages
from labkit.real import travel

FILE = "/home/me/program.py"
TEXT = """
def outer(n):
    square = lambda x: x * x
    def inner():
        return square(n) + [k for k in range(n)][-1]
    return inner

class Thing:
    def fails(self):
        raise ValueError("here")
"""


def nameless(code):
    """Reduce code as cloudpickle 3.1.3 does."""
    make, parts = reduce_code(code)
    return make, tuple("<dynamic-code>" if part == code.co_filename else part for part in parts)


reduce_code = cloudpickle.Pickler.dispatch_table[CodeType]


def files(code):
    """List the files of code and of all code in it."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return {code.co_filename}.union(*map(files, inner))


@pytest.mark.parametrize("reduces", [reduce_code, nameless], ids=["installed", "3.1.3"])
@pytest.mark.parametrize(
    "dumps",
    [by_value.dumps, lambda thing: travel.pack(thing)[0], messages.dumps],
    ids=["result", "program", "message"],
)
def test_functions_and_classes_keep_the_names_of_their_files(monkeypatch, reduces, dumps):
    for table in cloudpickle.Pickler.dispatch_table.maps:
        if CodeType in table:
            monkeypatch.setitem(table, CodeType, reduces)
    known = {"__name__": "__main__"}
    exec(compile(TEXT, FILE, "exec"), known)
    outer, thing = pickle.loads(by_value.dumps((known["outer"], known["Thing"])))
    assert outer is not known["outer"]
    assert files(outer.__code__) == {FILE}
    assert outer(3)() == 11
    with pytest.raises(ValueError, match="here") as caught:
        thing().fails()
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.lineno, frame.name) == (FILE, 10, "fails")


def test_without_our_reducer_a_cloudpickle_that_takes_names_away_would_be_noticed(monkeypatch):
    for table in cloudpickle.Pickler.dispatch_table.maps:
        if CodeType in table:
            monkeypatch.setitem(table, CodeType, nameless)
    known = {"__name__": "__main__"}
    exec(compile(TEXT, FILE, "exec"), known)
    assert pickle.loads(cloudpickle.dumps(known["outer"])).__code__.co_filename == "<dynamic-code>"


CACHED = """
import functools

@functools.cache
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

@functools.lru_cache(maxsize=2)
def doubled(n):
    return 2 * n

def program(n):
    return fibonacci(n), doubled(n)
"""


def test_cached_functions_of_a_notebook_go_by_value() -> None:
    """Ranks could not find them: cloudpickle takes what functools.cache makes by its name."""
    names = {"__name__": "__main__"}
    exec(CACHED, names)
    assert pickle.loads(by_value.dumps(names["program"]))(50) == (12586269025, 100)
    again = pickle.loads(by_value.dumps(names["doubled"]))
    assert [again(1), again(1), again(2), again(3)] == [2, 2, 4, 6]
    assert again.cache_parameters() == {"maxsize": 2, "typed": False}
    assert (again.cache_info().hits, again.cache_info().currsize) == (1, 2)


def test_cached_functions_of_a_module_go_by_name() -> None:
    from labkit.jupyter.exercise import exercises

    assert pickle.loads(by_value.dumps(exercises)) is exercises
