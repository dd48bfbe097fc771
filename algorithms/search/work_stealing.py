"""Tree search by work stealing: whoever has nothing to do asks others for half of their nodes.

A rank expands its youngest nodes, and looks for messages now and then. A thief gets the older half of the
victim's nodes: the roots of the largest subtrees. It asks two ranks at random. If they have nothing, it asks
the ranks 1, 2, 4, ... places further on, its *lifelines*, and waits: they remember it, and send it nodes as
soon as they have any. So idle ranks are quiet. (If they went on asking, they would keep those from working
that still have nodes: with many ranks the search would never end.)

It is over when no rank has a node *and none is on its way*. A rank cannot see that. Safra's token goes around
the ranks that have nothing to do, and adds up how many parcels of nodes each has sent and received; a rank
that has received one since the token's last visit makes it black. A round that ends white and with a sum of 0
has seen all ranks idle and nothing under way.

Cost, for n nodes on p ranks::

    search      n / p
    steal       at most 2 + log p requests for each time that a rank runs out of nodes
    end         the token's last rounds, p messages each; a reduce_scatter and an allgather

Requires: nothing. Any p.

Properties
    Nothing is sent while all ranks have work. In branch and bound each message carries the best known value.
    Answers that are late are awaited: no message is left over. The order of the search, and the number of
    nodes in branch and bound, depend on times.

Reference
    R. D. Blumofe, C. E. Leiserson: Scheduling multithreaded computations by work stealing. J. ACM 46 (1999),
    doi:10.1145/324133.324234. V. A. Saraswat et al.: Lifeline-based global load balancing. PPoPP 2011,
    doi:10.1145/1941553.1941582. E. W. Dijkstra: Shmuel Safra's version of termination detection. EWD 998,
    1987.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.search.work_stealing import work_stealing
>>> from labkit.datasets.trees import Queens
>>> [found.value for found in lk.run(work_stealing, 3, on="star:3", args=(Queens(6),)).results]
[4, 4, 4]
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit import MPI
from labkit.algorithms.search._expansion import Expansion, Searched, combine, require_positive
from labkit.datasets.trees import Tree
from labkit.program.context import count, phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cost", "work_stealing"]

_REQUEST, _LIFELINE, _ANSWER, _TOKEN, _END = range(1, 6)
#: ranks that a thief asks at random before it waits
_ATTEMPTS = 2


def work_stealing(comm: Intracomm, tree: Tree, *, chunk: int = 32, seed: int = 0) -> Searched:
    """Search a tree.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    tree : Tree
        The same on all ranks.
    chunk : int
        Nodes that a rank expands before it looks for messages.
    seed : int
        Chooses the victims.

    Returns
    -------
    Searched

    Raises
    ------
    DataError
        If chunk is not positive.
    """
    require_positive(chunk=chunk)
    thief = _Thief(comm, Expansion(tree, [tree.root] if comm.rank == 0 else []), seed)
    while not thief.is_over:
        while thief.search.stack:
            with phase("search"):
                thief.search.expand(chunk)
            with phase("steal"):
                thief.feed()
                while comm.iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG):
                    thief.receive()
        if comm.size == 1:
            break
        with phase("steal"):
            thief.pass_token()
            if not thief.is_over:
                thief.ask()
                thief.receive()
    with phase("end"):
        thief.drain()
        return combine(comm, thief.search)


class _Thief:
    """A rank's part in the exchange of nodes, and in finding out that there are none left."""

    def __init__(self, comm: Intracomm, search: Expansion, seed: int) -> None:
        self.comm, self.search = comm, search
        self.random = random.Random(f"{seed} {comm.rank}")
        self.lifelines = [(comm.rank + 2**k) % comm.size for k in range(ceil_log2(comm.size))]
        self.hanging: set[int] = set()  # lifelines that have not sent nodes since they were asked
        self.hungry: list[int] = []  # ranks whose lifeline this rank is
        self.sending: list[Any] = []
        self.asked = np.zeros(comm.size, np.int64)  # requests to each rank
        self.requests = 0  # that have arrived
        self.refusals = 0  # since this rank ran out of nodes
        self.is_waiting = self.is_over = self.is_black = False
        self.surplus = 0  # parcels of nodes, sent less received
        self.token: tuple[bool, int] | None = (True, 0) if comm.rank == 0 else None  # black: not yet around

    def send(self, content: Any, to: int, tag: int) -> None:
        """Send without waiting, with the best known value."""
        self.sending.append(self.comm.isend((self.search.best, content), to, tag))

    def ask(self) -> None:
        """Ask a random other rank for nodes, unless an answer is still to come; then all lifelines."""
        if self.is_waiting:
            return
        if self.refusals < _ATTEMPTS:
            self.is_waiting = True
            victims = [(self.comm.rank + self.random.randrange(1, self.comm.size)) % self.comm.size]
        else:
            victims = [rank for rank in self.lifelines if rank not in self.hanging]
            self.hanging.update(victims)
        for victim in victims:
            self.asked[victim] += 1
            self.send(None, victim, _REQUEST if self.is_waiting else _LIFELINE)
            count("attempts")

    def receive(self) -> None:
        """Wait for any message, and do what it asks for."""
        status = MPI.Status()
        best, content = self.comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
        self.search.learn(best)
        source, tag = status.Get_source(), status.Get_tag()
        if tag == _REQUEST:
            self.requests += 1
            self.give(source, self.half())
        elif tag == _LIFELINE:
            self.requests += 1
            self.hungry.append(source)
            self.feed()
        elif tag == _ANSWER:
            self.take(source, *content)
        elif tag == _TOKEN:
            self.token = content
        else:
            self.finish()

    def take(self, source: int, nodes: list[Any], is_lifeline: bool) -> None:
        """Take the nodes of an answer, if there are any."""
        if is_lifeline:
            self.hanging.discard(source)
        else:
            self.is_waiting = False
            self.refusals += 1
        if nodes:
            self.search.stack.extend(nodes)
            self.surplus -= 1
            self.refusals = 0
            self.is_black = True
            count("steals")

    def half(self) -> list[Any]:
        """Take the older half of the nodes out of the stack: none if there is only one."""
        stack = self.search.stack
        return [stack.popleft() for _ in range(len(stack) // 2)]

    def give(self, thief: int, nodes: list[Any], is_lifeline: bool = False) -> None:
        """Send nodes, or an empty list."""
        self.surplus += bool(nodes)
        self.send((nodes, is_lifeline), thief, _ANSWER)

    def feed(self) -> None:
        """Send nodes to those that hang on this rank, while there are any."""
        while self.hungry and len(self.search.stack) > 1:
            self.give(self.hungry.pop(0), self.half(), is_lifeline=True)

    def pass_token(self) -> None:
        """Pass the token on, with what this rank adds; rank 0 sees whether it is over."""
        if self.token is None:
            return
        is_black, surplus = self.token[0] or self.is_black, self.token[1] + self.surplus
        if self.comm.rank == 0:
            if not is_black and surplus == 0:
                self.finish()
                return
            is_black, surplus = False, 0
        self.is_black, self.token = False, None
        self.send((is_black, surplus), (self.comm.rank + 1) % self.comm.size, _TOKEN)

    def finish(self) -> None:
        """Pass the end on along a binary tree."""
        self.is_over = True
        for child in (2 * self.comm.rank + 1, 2 * self.comm.rank + 2):
            if child < self.comm.size:
                self.send(None, child, _END)

    def drain(self) -> None:
        """Answer all requests that are still on their way, and wait for the own answer."""
        coming = np.empty(1, np.int64)
        self.comm.Reduce_scatter_block(self.asked, coming)
        while self.requests < coming[0] or self.is_waiting:
            self.receive()
        MPI.Request.Waitall(self.sending)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the messages and bytes of the end alone: the number of attempts depends on times."""
    return Cost(2 * ceil_log2(ranks) + 2, 16 * ranks, is_bound=True)


ALGORITHM = Algorithm(
    "work_stealing",
    "search",
    function=work_stealing,
    cost=cost,
    expectations={"end": "p"},
)
