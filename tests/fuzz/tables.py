"""Fuzzing target: TOML, JSON, CSV, Extra-P's files, rules of MPI libraries, and orders of growth.

Each gives a value, or a short sentence.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import labkit as lk
from labkit.errors import LabkitError
from labkit.local.costs import KernelCosts
from labkit.machines import models
from labkit.machines.mapping import mapping_of
from labkit.machines.platform import Platform
from labkit.scaling.parser import parse
from labkit.selector import Rules
from labkit.selector.formats import read_rules
from labkit.study.declared.declaration import read_declaration
from labkit.study.formats.reader import read_data
from labkit.text.files import text_of

__all__ = ["SEEDS", "check"]

_COSTS = Path(__file__).parents[2] / "datasets" / "calibrations"
_MODELS = Path(__file__).parents[2] / "datasets" / "models"
_MACHINES = Path(__file__).parents[2] / "datasets" / "machines"
_ROWS = "".join(f"{p},{p * 0.5},{p}\n" for p in (2, 4, 8, 16, 32))
_DATA = "".join(f"DATA {p} {p}.5\n" for p in (2, 4, 8))


def _placed(path: Path) -> None:
    """Read a file of hosts, and place ranks by it."""
    star = lk.platform("star:4").description
    Platform(star, mapping=mapping_of(str(path), star.host_number)).build(2)


#: by the first byte: the file's ending, and what reads it
_READERS: dict[bytes, tuple[str, Callable[[Path], Any]]] = {
    b"c": ("toml", lambda path: KernelCosts.read(text_of(path), "a")),
    b"p": ("toml", lk.platform),
    b"r": ("toml", Rules.read),
    b"j": ("json", Rules.read),
    b"d": ("dat", read_data),
    b"o": ("conf", read_rules),
    b"m": ("json", read_rules),
    b"f": ("prf", read_rules),
    b"s": ("cfg", read_rules),
    b"y": ("toml", read_declaration),
    b"n": ("toml", models.get),
    b"h": ("txt", _placed),
}
SEEDS = [
    b"c" + sorted(_COSTS.glob("*.toml"))[0].read_bytes(),
    b"p" + b"name = 'a'\nspec = 'fattree:4x4:1x2:1x2,bw=1GBps,lat=2us,speed=1Gf'\nsource = 'b'\n",
    b"pspec = 'torus:4x4x4,model=raw'\n",
    b"r[[rules]]\noperation = 'allreduce'\nuse = 'ring'\nbytes_from = 1024\nranks_at_most = 8\n"
    b"machine = 'torus*'\n",
    b"r[[rules]]\noperation = 'alltoall'\nbytes_below_line = [2, 100]\neven = true\n"
    b"use = [[4096, 'bruck'], 'pairwise']\nby = 'total_bytes'\n",
    b'j{"rules": [{"operation": "bcast", "use": "binomial", "bytes_below": 10}]}',
    b"dp,value,other\n" + _ROWS.encode(),
    b"dp;metric;phase;value;unit;repetition;is_valid\n2;m;a;1.5;s;0;True\n4;m;a;2.5;s;1;False\n",
    b"dPARAMETER p\nPOINTS ( 2 ) ( 4 ) ( 8 )\nREGION r\nMETRIC m\n" + _DATA.encode(),
    b'd{"params": {"p": 2}, "value": [1, 2], "metric": "m"}\n{"params": {"p": 4}, "value": 3}\n',
    b'd{"parameters": ["p"], "measurements": {"r": {"m": [{"point": [2], "values": [1, 2]}]}}}',
    b'd{"parameters": [{"id": 1, "name": "p"}], "callpaths": [{"id": 1, "name": "r"}], "metrics": [{"id": 1, '
    b'"name": "m"}], "coordinates": [{"id": 1, "parameter_value_pairs": [{"parameter_id": 1, '
    b'"parameter_value": 2}]}], "measurements": [{"coordinate_id": 1, '
    b'"callpath_id": 1, "metric_id": 1, "value": 3}]}',
    b'd{"parameters":{"p":2;"n":4};"metric":"time";"callpath":"main";"value":1.5}\n'
    b'{"parameters":{"p":4;"n":4};"metric":"time";"callpath":"main";"value":2.5}\n',
    b"o1  # one operation\n2  # allreduce\n1\n2  # ranks and more\n2\n0 3 0 0\n4096 4 0 0  # ring\n",
    b'm{"collectives": {"allreduce": [{"comm_size_min": 2, "comm_size_max": 64, "rules": '
    b'[{"msg_size_min": 0, "msg_size_max": 4096, "alg": 3}]}]}}',
    b'm{"collective=allreduce": {"comm_type=intra": {"avg_msg_size<=2048": {"algorithm='
    b'MPIR_Allreduce_intra_recursive_doubling": {}}, "avg_msg_size=any": {"algorithm='
    b'MPIR_Allreduce_intra_reduce_scatter_allgather": {}}}}}',
    b"fMPI_Allreduce\n16\n1\n1 allreduce_as_reduce_bcast\n1\n0 1024 1\n",
    b"s--cfg=smpi/allreduce:rdb\n--cfg=smpi/bcast:binomial_tree\n",
    b"ytitle = 'a'\nprogram = 'builtins:print'\n[parameters]\nranks = [2, 4, 8, 16, 32]\non = 'star:32'\n"
    b"model = ['raw', 'lab']\n[run]\nrepeats = 1\ntimeout_s = 60\nseed = 3\n"
    b"[[expect]]\ngrowth = 'log p'\nphase = 'x'\n",
    b"n" + sorted(_MODELS.glob("*.toml"))[0].read_bytes(),
    b"n" + (_MODELS / "smpi.toml").read_bytes(),
    b"hhost-0:1 # first\nhost-3\n",
    b"h0\n3:1\n\n# x\n",
    b"ep^2 log p + n/p * log2(n/p) + 3 k^3 2^k",
    b"esqrt(p)^(1/3) / log^2 p",
]


def check(data: bytes) -> bool:
    """Read the bytes by the reader that the first one names; True if it takes them."""
    kind, content = data[:1], data[1:]
    try:
        if kind == b"e":
            parse(content.decode("utf-8", "surrogateescape"))
        elif kind in _READERS:
            ending, read = _READERS[kind]
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"a.{ending}"
                path.write_bytes(content)
                read(path)
    except LabkitError as error:
        if len(str(error)) > 2500:
            raise AssertionError("an error of unbounded length") from error
        return False
    return True
