"""The suite with a sample of what its loops run over, for many ranks.

Tests of buffers run over all types, all ranks as roots, all counts or lengths up to the number of ranks, and
compare every element that any rank has: that grows with the fifth power of the ranks. On 64 ranks a test of
Alltoallv compares 72 kinds of arrays x 64 roots x 64 counts x 64 ranks x 4096 elements one by one, some 8e10.
The sampled suite is a copy of it in which the loops over types, roots, counts and lengths take three of their
values, the first, the last and one between; each test calls, sends and compares as it is written.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

__all__ = ["MANY", "is_sampled", "sampled_suite"]

#: on more ranks, messages and collectives alone are run, and of those of buffers a sample
MANY = 16
_SAMPLED = re.compile(r"_cco_(nb_|pr_)?(buf|vec)(_inter)?$|_p2p_buf(_part)?$")

_SAMPLE = '''
def sampled(values):
    """Some of many values, the same ones at every rank."""
    values = list(values)
    return values if len(values) <= 4 else [values[0], values[len(values) // 3], values[-1]]


'''
#: what the loops are over that say what is tried: a root, a number of elements, a length, a rank
_TRIED = re.compile(
    r"^( *for (?:root|count|s|n|rcnt|source|dest)) in (range\((?:size|rsize|lsize)(?: \+ 1)?\)|"
    r"range\(1, size \+ 1\)):$",
    re.MULTILINE,
)
_PAIRS = "itertools.product(range(size + 1), range(3))"
_SOME_PAIRS = "itertools.product(arrayimpl.sampled(range(size + 1)), range(3))"
_TYPES = "for typecode in array.TypeMap:"


def is_sampled(ranks: int, name: str) -> bool:
    """Whether a file of the suite is run from the sampled one."""
    return ranks > MANY and bool(_SAMPLED.search(name))


def sampled_suite(tests: Path) -> Path:
    """Return the folder of the sampled suite, made beside the one of the suite."""
    folder = tests.with_name("sampled")
    if folder.is_dir():
        return folder
    made = tests.with_name("sampled.new")
    shutil.rmtree(made, ignore_errors=True)
    shutil.copytree(tests, made)
    arrays = (made / "arrayimpl.py").read_text()
    before, head, behind = arrays.partition("def loop(*args):")
    if _TYPES not in behind:
        raise ValueError(f"{tests / 'arrayimpl.py'}: its loop over types is another one than of mpi4py 4.1")
    behind = behind.replace(_TYPES, "for typecode in sampled(array.TypeMap):")
    arrays = before + _SAMPLE.lstrip() + head + behind
    (made / "arrayimpl.py").write_text(arrays)
    for path in sorted(made.glob("test_*.py")):
        text = path.read_text()
        if "import arrayimpl" in text:
            text = _TRIED.sub(r"\1 in arrayimpl.sampled(\2):", text)
            path.write_text(text.replace(_PAIRS, _SOME_PAIRS))
    made.rename(folder)
    return folder
