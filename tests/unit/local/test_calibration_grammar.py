"""Grammar of calibrations: each table and key is used, or refused by name."""

from __future__ import annotations

import pytest

from labkit.errors import DataError
from labkit.local.costs import KernelCosts
from tests.support.refusals import raises_code

WHOLE = (
    '{top}[machine]\ncpu = "none"\n[memory]\n{memory}\n[scaled]\n{scaled}\n[[facts]]\n'
    'what = "a"\nvalue = "b"\n{fact}\n[kernels.sort.8]\n{cost}\n{kernels}'
)
KNOWN = {
    "top": 'base = "default"\n', "memory": "bytes_per_s = 1e9", "scaled": "merge = 2.0",
    "fact": 'source = "c"', "cost": "call_s = 1e-6\nitem_s = 1e-9", "kernels": "",
}  # fmt: skip

#: where the text goes, the text, and a part of the refusal; "": it is used
CASES = [
    ("top", 'base = "cortex-a9"\n', ""),
    ("top", 'base = "none"\n', "none"),
    ("top", 'base = "mine.toml"\n', "base"),
    ("top", "base = 3\n", "base"),
    ("top", "reference_flops_per_s = 1e9\n", "reference_flops_per_s"),
    ("memory", "bytes_per_s = 2e9", ""),
    ("memory", "bytes_per_s = 0", "bytes_per_s"),
    ("memory", "bytes_per_s = true", "number"),
    ("memory", "bytes = 1e9", "'bytes'"),
    ("scaled", "merge = 3.0", ""),
    ("scaled", "all = 3.0", ""),
    ("scaled", "merg = 3.0", "merg"),
    ("scaled", "merge = 'fast'", "number"),
    ("fact", 'assumed = "d"', ""),
    ("fact", 'source = "c"\nunit = "s"', "unit"),
    ("fact", "", "assumed"),
    *(("cost", f"{name} = 2e-6", "") for name in ("call_s", "item_s", "item_log_s", "entry_s")),
    ("cost", "largest_error = 0.5", ""),
    ("cost", "largest_error = nan", "finite"),
    ("cost", "item_s = -1.0", "finite"),
    ("cost", "item_s = '1'", "number"),
    ("cost", "items = 1.0", "items"),
    ("kernels", "[kernels.pack.1]\nitem_s = 1e-9\n", ""),
    ("kernels", "[kernels.pack.8]\nitem_s = 1e-9\n", "pack.1"),
    ("kernels", "[kernels.pack_line.64]\nitem_s = 1e-9\n", ""),
    (
        "kernels",
        "[kernels.pack_line.64]\nitem_s = 1e-9\n[kernels.pack_line.32]\nitem_s = 1e-9\n",
        "more than",
    ),
    ("kernels", "[kernels.sort.-1]\nitem_s = 1e-9\n", "kernels.sort"),
    ("kernels", "[kernels.sort.wide]\nitem_s = 1e-9\n", "kernels.sort"),
    ("kernels", "[kernel.sort.8]\nitem_s = 1e-9\n", "'kernel'"),
]


@pytest.mark.parametrize(("where", "text", "what"), CASES)
def test_every_key_is_used_or_refused(where, text, what) -> None:
    before = KernelCosts.read(WHOLE.format(**KNOWN), "a")
    changed = WHOLE.format(**{**KNOWN, where: text})
    if what:
        with raises_code(DataError, "unknown-name" if what == "none" else "unreadable-file", what):
            KernelCosts.read(changed, "a")
        return
    after = KernelCosts.read(changed, "a")
    assert (after.costs, after.memory_bytes_per_s, after.facts) != (
        before.costs, before.memory_bytes_per_s, before.facts,
    )  # fmt: skip
