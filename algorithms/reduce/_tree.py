"""Reductions up a tree: what the algorithms that differ in their tree only have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from labkit.registry import Algorithm, Cost, Requirements, in_segments
from labkit.schedule import Group, Step, Temporary, block, whole
from labkit.schedule.group import everyone
from labkit.schedule.phases import up
from labkit.schedule.trees import Tree

__all__ = ["POSTING", "TEMPORARIES", "cost_of", "pipelined", "rounds_below"]

#: receives that are posted, and whether each send is waited for
POSTING = {"ahead": 1, "in_turn": 0}
TEMPORARIES = tuple(Temporary(name, like="send") for name in ("partial", "incoming", "incoming2"))


def pipelined(
    name: str,
    tree: Callable[..., Tree],
    segments: int = 8,
    commutative: bool = False,
    **shape: int,
) -> Algorithm:
    """Return the reduction up ``tree(size, **shape)``, segment by segment; `commutative` if it needs that.

    The tree is numbered from the root on; if the operator does not commute, from rank 0 on. Its parameters
    are `ahead`, how many receives are posted (2 at most where ranks have several children), and the switch
    `in_turn`: each send is waited for. The cost is that of their defaults.
    """

    def rounds(
        group: Group, segments: int = segments, ahead: int = 1, in_turn: int = 0, **values: int
    ) -> Iterator[Step]:
        first = group.root if group.commutative else 0
        below = tree(group.size, **shape | values)
        return rounds_below(group, below, first, segments, ahead=ahead, in_turn=in_turn)

    def cost(
        ranks: int,
        n_bytes: float,
        segments: int = segments,
        ahead: int = 1,
        in_turn: int = 0,
        **values: int,
    ) -> Cost:
        return cost_of(tree(ranks, **shape | values), n_bytes, segments)

    return Algorithm(
        name,
        "reduce",
        schedule=rounds,
        cost=cost,
        requirements=Requirements(commutative=commutative),
        parts=in_segments(segments),
        temporaries=TEMPORARIES,
        parameters={**shape, "segments": segments, **POSTING},
    )


def rounds_below(
    group: Group,
    tree: Tree,
    first: int = 0,
    segments: int = 1,
    is_in_front: bool = False,
    ahead: int = 1,
    in_turn: int = 0,
) -> Iterator[Step]:
    """Yield the way up a tree whose number 0 is rank `first`, then the result's way to the root.

    Parts follow one another; the next one is received while the last one is combined; `ahead` is that of
    `labkit.schedule.phases.up`, more than 2 for one child only, whose parts have their own places.
    """
    me, root = group.ranks, group.root
    top = (tree.top + first) % group.size
    yield group.copy(whole("send"), whole("partial"))
    yield from up(
        everyone(group, first),
        tree,
        lambda part: block("partial", part),
        lambda part, turn: block("incoming2" if turn % 2 else "incoming", part),
        segments,
        ahead,
        is_in_front=is_in_front,
        is_posted=not in_turn,
    )
    if top == root:
        yield group.copy(whole("partial"), whole("recv"), where=me == root)
    else:
        yield group.send(whole("partial"), to=root, where=me == top)
        yield group.recv(whole("recv"), source=top, where=me == root)


def cost_of(tree: Tree, n_bytes: float, segments: int = 1) -> Cost:
    """Return the cost: as many messages, and as many combinations, one after another; they may overlap."""
    rounds = tree.up(segments)
    return Cost(rounds, rounds * n_bytes / segments, rounds * n_bytes / segments, is_bound=True)
