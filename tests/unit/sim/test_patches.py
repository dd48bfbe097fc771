"""Patches of the same attributes come and go in any order: what is left is what was there."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from labkit.sim.isolation.patches import Patches

ORDERS = list(itertools.permutations("ab"))


class Above:
    def told(self) -> str:
        return "method"


class Owner(Above):
    pass


def around(word: str) -> Callable[[], list[tuple[type, str, Any]]]:
    def make() -> list[tuple[type, str, Any]]:
        inner = Owner.told
        return [(Owner, "told", lambda self: f"{word}({inner(self)})")]

    return make


def said(there: str) -> str:
    return {"": "method", "a": "a(method)", "b": "b(method)", "ab": "b(a(method))"}[there]


@pytest.mark.parametrize("begin", ORDERS, ids="".join)
@pytest.mark.parametrize("end", ORDERS, ids="".join)
def test_what_lies_upon_others_does_so_in_any_order(begin: tuple[str, ...], end: tuple[str, ...]) -> None:
    below = Patches(around("a"))
    patches = {"a": below, "b": Patches(around("b"), upon=below)}
    stacks = {word: ExitStack() for word in patches}
    for number, word in enumerate(begin):
        stacks[word].enter_context(patches[word])
        assert Owner().told() == said("".join(sorted(begin[: number + 1])))
    for number, word in enumerate(end):
        stacks[word].close()
        assert Owner().told() == said("".join(sorted(end[number + 1 :])))
    assert "told" not in vars(Owner)


def test_the_last_of_several_users_takes_them_back() -> None:
    patches, first, second = Patches(around("a")), ExitStack(), ExitStack()
    first.enter_context(patches)
    second.enter_context(patches)
    first.close()
    assert Owner().told() == "a(method)"
    second.close()
    assert Owner().told() == "method"
