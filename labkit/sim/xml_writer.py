"""A labkit machine as SimGrid reads it: platform XML, host file, options of smpirun."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

from labkit.sim.models import NetworkModel, get
from labkit.sim.platform import Platform
from labkit.sim.spec import StarSpec

__all__ = ["host_file", "platform_xml", "smpirun_options"]

#: SimGrid's own network model of each name, and what switches its extras off.
_NATIVE = {
    "raw": ["network/model:CM02", "network/crosstraffic:no", "network/TCP-gamma:0"],
    "cm02": ["network/model:CM02"],
    "lv08": ["network/model:LV08"],
    "smpi": ["network/model:SMPI"],
    "lab": ["network/model:SMPI"],
}


def _number(value: float) -> str:
    """The shortest text that reads back as the same double, without an exponent's plus sign."""
    return repr(float(value)).replace("e+", "e")


def platform_xml(platform: Platform, ranks: int) -> str:
    """Write the machine as SimGrid platform XML (version 4.1, one cluster).

    A torus or fat tree is wrapped in a zone, because some versions of SimGrid want that; its limiters are
    named by SimGrid itself, which refuses fat trees with more switches than hosts for it.

    Parameters
    ----------
    platform : Platform
        The machine.
    ranks : int
        Fixes the number of hosts of a machine that grows.

    Returns
    -------
    str
        The file's text; hosts are named host-0, host-1, ...

    Raises
    ------
    PlatformError
        The ranks do not fit.
    """
    hosts = platform.hosts_for(ranks)
    s = platform.description.sized(hosts)
    attributes = {
        "id": s.KIND,
        "prefix": "host-",
        "suffix": "",
        "radical": f"0-{hosts - 1}",
        "speed": f"{_number(s.speed)}f",
        "core": str(s.cores),
        "bw": f"{_number(s.bw)}Bps",
        "lat": f"{_number(s.lat)}s",
        "sharing_policy": s.sharing.upper(),
    }
    if isinstance(s, StarSpec) and s.bb_bw is not None:
        attributes |= {"bb_bw": f"{_number(s.bb_bw)}Bps", "bb_lat": f"{_number(s.bb_lat or 0.0)}s"}
        attributes["bb_sharing_policy"] = (s.bb_sharing or "shared").upper()
    if s.limiter is not None:
        attributes["limiter_link"] = f"{_number(s.limiter)}Bps"
    if s.loopback_bw is not None:
        attributes |= {
            "loopback_bw": f"{_number(s.loopback_bw)}Bps",
            "loopback_lat": f"{_number(s.loopback_lat or 0.0)}s",
        }
    attributes |= s.xml_attributes()
    body = "\n           ".join(f"{key}={quoteattr(value)}" for key, value in attributes.items())
    cluster = f"<cluster {body}/>"
    if s.xml_attributes():
        cluster = f'<zone id="all" routing="Full">\n  {cluster}\n  </zone>'
    return (
        "<?xml version='1.0'?>\n"
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        f'<platform version="4.1">\n  {cluster}\n</platform>\n'
    )


def host_file(platform: Platform, ranks: int) -> str:
    """Write smpirun's host file: one line a rank, so that SimGrid places the ranks as labkit does."""
    return "".join(f"host-{host}\n" for host in platform.rank_hosts(ranks))


def smpirun_options(model: str | NetworkModel | None = None) -> list[str]:
    """List the ``--cfg`` items that make SimGrid 3.32 use this network model.

    Parameters
    ----------
    model : str, NetworkModel or None
        A named model, changed or not.

    Returns
    -------
    list of str
        Items such as ``network/model:SMPI``. SimGrid's own model is chosen by name wherever there is one, so
        that a comparison also checks labkit's tables; what differs from that name is written out. Any other
        model is written out as SMPI's form with its own numbers.
    """
    model = get(model)
    name = model.name.partition("(")[0]
    base = get(name if name in _NATIVE else "smpi")
    items = list(_NATIVE.get(name, _NATIVE["smpi"]))
    if model.cross_traffic != base.cross_traffic:
        items = [item for item in items if not item.startswith("network/crosstraffic")]
        items.append(f"network/crosstraffic:{'yes' if model.cross_traffic else 'no'}")
    if model.tcp_gamma_bytes != base.tcp_gamma_bytes:
        items.append(f"network/TCP-gamma:{_number(model.tcp_gamma_bytes)}")
    if model.weight_s_bytes != base.weight_s_bytes:
        items.append(f"network/weight-S:{_number(model.weight_s_bytes)}")
    for key, table, plain in (
        ("lat-factor", model.latency_factor, base.latency_factor),
        ("bw-factor", model.bandwidth_factor, base.bandwidth_factor),
    ):
        if table != plain:
            items.append(f"smpi/{key}:" + ";".join(f"{t:.0f}:{_number(f)}" for t, f in table))
    for key, cost in (
        ("os", model.send_overhead),
        ("ois", model.isend_overhead),
        ("or", model.recv_overhead),
    ):
        if cost:
            items.append(f"smpi/{key}:" + ";".join(f"{t}:{_number(a)}:{_number(b)}" for t, a, b in cost))
    items += [
        f"smpi/send-is-detached-thresh:{model.detached_below_bytes}",
        f"smpi/async-small-thresh:{model.eager_below_bytes}",
        f"smpi/wtime:{_number(model.wtime_s)}",
        f"smpi/test:{_number(model.test_s)}",
        f"smpi/iprobe:{_number(model.iprobe_s)}",
        # Failed tests cost the same every time, as in labkit.
        "smpi/grow-injected-times:no",
        "smpi/simulate-computation:no",
    ]
    return items
