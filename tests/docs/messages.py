"""Messages of labkit's errors as a user meets them: ``python -m tests.docs.messages`` writes messages.md.

The file is read as a whole, aloud. Other tests compare codes, so a sentence changes here alone.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import labkit as lk
from labkit.errors import LabkitError

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).with_name("messages.md")
HEAD = """# Messages

What labkit says to mistakes, by code. `python -m tests.docs.messages` writes this file.
"""


def program(comm: Any, n: int = 1) -> Any:
    """Add up the ranks."""
    with lk.phase("sum"):
        return comm.allreduce(n * comm.rank)


def stuck(comm: Any) -> None:
    """Wait for a message that nobody sends."""
    comm.recv(source=1 - comm.rank)


def two_roots(comm: Any) -> None:
    """Broadcast from two roots."""
    comm.bcast(None, root=comm.rank)


def asks(comm: Any) -> None:
    """Ask a rank for a number."""
    input()


def mixed(comm: Any) -> None:
    """Call different collectives."""
    comm.barrier() if comm.rank else comm.allreduce(1)


#: as a user types them; the files are there, and are not what they should be
MISTAKES = """
lk.run(program, 0)
lk.run(program, 2.5)
lk.run(program, "4")
lk.run(4, program)
lk.run(program, [2, 4])
lk.run(program)
lk.run(program, 4, timeout_s=-1)
lk.run(program, 4, seed="a")
lk.run(program, 4, trace="yes")
lk.run(program, 4, repeats=0)
lk.run(program, 4, m=3)
lk.run("missing.py", 4)
lk.run("broken.py", 4)
lk.run(program, 4, "sta:8")
lk.run(program, 16, "star:8")
lk.run(program, 4, on=8)
lk.run(program, 4, coll="allreduce=rng")
lk.run(program, 4, coll="alreduce=ring")
lk.run(program, 4, model="smp")
lk.run(program, 4, noise="jitter=5parsec")
lk.run(program, 4, mapping="blok")
lk.run(program, 4, compute="mesured")
lk.run(program, 4, tolerance=1)
lk.run(stuck, 2)
lk.run(two_roots, 2)
lk.run(program, 2).explain()
lk.run(program, 2, trace=True).export("run.xyz")
lk.run(program, 2, trace=True).export("missing/run.json")
lk.run(program, 2).results[7]
lk.run(program, 2).result
lk.platform("torus:4x")
lk.platform("star:8,bandwith=1GBps")
lk.platform("star:8,bw=1GB")
lk.platform("fattree:4")
lk.platform("machine.toml")
lk.sweep(program, [])
lk.sweep(program, [2, 4], m=[1, 2])
study.expect("p lgo p")
study.expect("n log n")
study.expect("p log p", metric="makespn_s")
study.expect("p log p", phase="sun")
study.expect("p log p", parameter="rank")
study.save("missing/study.json")
lk.load("missing.csv")
lk.load("numbers.csv")
lk.load("empty.csv")
lk.judge([2, 4, 8], [1.0, 2.0], "p")
lk.judge([2, 4, 8, 16, 32], [1.0, 2.0, 3.0, 4.0, -1.0], "p")
lk.judge([2, 4, 8, 16, 32], [1.0, 2.0, 3.0, 4.0, 5.0], "p", tolerance=2)
lk.judge([2, 4, 8, 16, 32], [1.0, 2.0, 3.0, 4.0, 5.0], "p log(")
lk.Repeats(most=0)
lk.replay("missing.txt")
lk.replay("actions.txt")
lk.verify("missing.zip")
lk.predict({})
lk.contrast(lk.run(program, 2))
lk.card("allreduce", "star", p=0)
lk.synthesize("allreduce", "star:4", method="fast")
lk.graph([("a", "b", {"bandwith": "1GBps"})])
lk.run(asks, 2)
lk.run(mixed, 2)
lk.synthesize("allreduce", "star")
lk.synthesize("broadcast", "star:4")
lk.plot.gantt(3)
lk.swep
lk.MPI.COMM_WORLD.barrier()
""".strip().splitlines()
FILES = {
    "broken.py": "def program(comm)\n",
    "numbers.csv": "ranks,time_s\n2,1.0\n4,two\n",
    "empty.csv": "",
    "actions.txt": "0 init\n0 snd 1 0 8\n",
}


def messages() -> Iterator[tuple[str, str, str]]:
    """Yield code, mistake and message."""
    known: dict[str, object] = {"lk": lk, "program": program, "stuck": stuck, "two_roots": two_roots}
    known |= {"asks": asks, "mixed": mixed}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for name, text in FILES.items():
            Path(name).write_text(text)
        known["study"] = lk.sweep(program, [2, 4, 8, 16, 32], on="star")
        for mistake in MISTAKES:
            try:
                eval(mistake, dict(known))
            except LabkitError as error:
                yield error.code, mistake, re.sub(rf"{re.escape(str(ROOT))}/|{folder}/", "", str(error))
            else:
                raise AssertionError(f"no mistake: {mistake}")


def page() -> str:
    """Return the text of the file."""
    parts = [HEAD.rstrip()]
    for code, found in groupby(sorted(messages(), key=itemgetter(0)), itemgetter(0)):
        parts.append(f"## {code}")
        for _, mistake, text in found:
            quoted = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
            parts += [f"    {mistake}", quoted]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
