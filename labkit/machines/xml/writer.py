"""A labkit machine as SimGrid reads it: platform XML, host file, options of smpirun."""

from __future__ import annotations

import functools

from labkit.errors import PlatformError
from labkit.machines.models import NetworkModel, get
from labkit.machines.platform import Platform
from labkit.machines.xml.elements import digits_of

__all__ = ["host_file", "platform_xml", "smpirun_options"]

#: SimGrid's own network model of each name, and what switches its extras off.
_NATIVE = {
    "raw": ["network/model:CM02", "network/crosstraffic:no", "network/TCP-gamma:0"],
    "cm02": ["network/model:CM02"],
    "lv08": ["network/model:LV08"],
    "ib": ["network/model:IB", "smpi/lat-factor:0:1", "smpi/bw-factor:0:1"],
    "smpi": ["network/model:SMPI"],
    "lab": ["network/model:SMPI"],
}


def platform_xml(platform: Platform, ranks: int) -> str:
    """Write the machine as SimGrid platform XML (version 4.1).

    A torus or fat tree is wrapped in a zone, because some versions of SimGrid want that; its limiters are
    named by SimGrid itself, which refuses fat trees with more switches than hosts for it.
    """
    part = platform.allocated(ranks)
    return part.description.sized(part.hosts_for(ranks)).xml()


def host_file(platform: Platform, ranks: int) -> str:
    """Write smpirun's host file: one line a rank, so that SimGrid places the ranks as labkit does."""
    name = functools.cache(platform.description.host_name)
    return "".join(f"{name(int(host))}\n" for host in platform.rank_hosts(ranks))


def smpirun_options(model: str | NetworkModel | None = None) -> list[str]:
    """List the ``--cfg`` items that make SimGrid 3.32 use this network model."""
    model = get(model)
    lacks = f"SimGrid has no model like {model.name!r}"
    if model.sharing != "maxmin":
        raise PlatformError(f"{lacks}, whose messages share no links", code="no-counterpart")
    if model.message_latency or model.collective_network or model.match_s:
        raise PlatformError(
            f"{lacks}, which has a latency of messages in addition to that of links, a network for "
            "collectives, or a cost of long matching queues",
            code="no-counterpart",
        )
    name = model.name.partition("(")[0]
    if name not in _NATIVE:
        name = "ib" if model.penalties else "smpi"
    base = get(name)
    items = list(_NATIVE[name])
    if model.cross_traffic != base.cross_traffic:
        items = [item for item in items if not item.startswith("network/crosstraffic")]
        items.append(f"network/crosstraffic:{'yes' if model.cross_traffic else 'no'}")
    if model.tcp_gamma_bytes != base.tcp_gamma_bytes:
        items.append(f"network/TCP-gamma:{digits_of(model.tcp_gamma_bytes)}")
    if model.weight_s_bytes != base.weight_s_bytes:
        items.append(f"network/weight-S:{digits_of(model.weight_s_bytes)}")
    for key, table, plain in (
        ("lat-factor", model.latency_factor, base.latency_factor),
        ("bw-factor", model.bandwidth_factor, base.bandwidth_factor),
    ):
        if table != plain:
            items = [item for item in items if not item.startswith(f"smpi/{key}:")]
            items.append(f"smpi/{key}:" + ";".join(f"{t:.0f}:{digits_of(f)}" for t, f in table))
    if model.penalties != base.penalties:
        items.append("smpi/IB-penalty-factors:" + ";".join(map(digits_of, model.penalties)))
    for key, cost in (
        ("os", model.send_overhead),
        ("ois", model.isend_overhead),
        ("or", model.recv_overhead),
    ):
        if cost:
            items = [item for item in items if not item.startswith(f"smpi/{key}:")]
            items.append(f"smpi/{key}:" + ";".join(f"{t}:{digits_of(a)}:{digits_of(b)}" for t, a, b in cost))
    items += [
        f"smpi/send-is-detached-thresh:{model.detached_below_bytes}",
        f"smpi/async-small-thresh:{model.eager_below_bytes}",
        f"smpi/wtime:{digits_of(model.wtime_s)}",
        f"smpi/test:{digits_of(model.test_s)}",
        f"smpi/iprobe:{digits_of(model.iprobe_s)}",
        # Failed tests cost the same every time, as in labkit.
        "smpi/grow-injected-times:no",
        "smpi/simulate-computation:no",
    ]
    return items
