"""Platform files for fuzzing: seeds, and what must hold of any bytes at all."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from labkit.errors import PlatformError
from labkit.machines.mapping import mapping_of
from labkit.machines.platform import Platform, platform

__all__ = ["SEEDS", "check"]

_MACHINES = Path(__file__).parents[2] / "datasets" / "machines"
_HEAD = b'<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
SEEDS = [
    (_MACHINES / "graphene.xml").read_bytes(),
    _HEAD
    + b"""<platform version="4.1">
<zone id="all" routing="Floyd">
<zone id="room" routing="Dijkstra"><prop id="a" value="b"/>
<host id="x" speed="1Gf,2Gf" core="2" pstate="1"><disk id="d" read_bw="1Bps" write_bw="1Bps"/></host>
<host id="y" speed="2.5gigaflops"/><router id="r"/>
<link id="l" bandwidth="1Gbps" latency="1us" sharing_policy="SPLITDUPLEX"/>
<link id="m" bandwidth="1KiBps" latency="0" sharing_policy="FATPIPE"/>
<route src="x" dst="r"><link_ctn id="l" direction="UP"/><link_ctn id="m"/></route>
<route src="r" dst="y" symmetrical="NO"><link_ctn id="m"/></route>
<route src="y" dst="r" symmetrical="NO"><link_ctn id="m"/></route></zone>
<cluster id="c" prefix="c-" suffix=".x" radical="0-1,5,7" speed="1Gf" bw="1GBps" lat="1us" bb_bw="2GBps"
 bb_lat="1us" limiter_link="3GBps" loopback_bw="1GBps" loopback_lat="1us" router_id="cr"/>
<cluster id="t" prefix="t-" suffix="" radical="0-5" speed="1Gf" bw="1GBps" lat="1us" topology="TORUS"
 topo_parameters="3,2" sharing_policy="SHARED"/>
<cluster id="f" prefix="f-" suffix="" radical="0-3" speed="1Gf" bw="1GBps" lat="1us" topology="FAT_TREE"
 topo_parameters="2;2,2;1,2;1,1"/>
<cluster id="d" prefix="d-" suffix="" radical="0-15" speed="1Gf" bw="1GBps" lat="1us" topology="DRAGONFLY"
 topo_parameters="2,1;2,1;2,1;2"/>
<link id="w" bandwidth="1Gbps"/>
<zoneRoute src="room" dst="c" gw_src="r" gw_dst="cr"><link_ctn id="w"/></zoneRoute>
<zoneRoute src="c" dst="t" gw_src="cr" gw_dst="t-t_router"><link_ctn id="w"/></zoneRoute>
<zoneRoute src="t" dst="f" gw_src="t-1" gw_dst="f-f_router"><link_ctn id="w"/></zoneRoute>
<zoneRoute src="f" dst="d" gw_src="f-3" gw_dst="d-d_router"><link_ctn id="w"/></zoneRoute>
</zone></platform>
""",
    _HEAD
    + b"""<platform version="4.1"><zone id="z" routing="Cluster"><host id="h" speed="1Gf"/>
<link id="a" bandwidth="1GBps" latency="1us"/><link id="b" bandwidth="1GBps" latency="2us"/>
<host_link id="h" up="a" down="b"/>
<cabinet id="cab" prefix="n" suffix="" radical="1-3" speed="1Gf" bw="1GBps" lat="1us"/>
<backbone id="bb" bandwidth="5GBps" latency="4us"/><router id="r"/></zone></platform>
""",
    _HEAD + b'<platform version="4"><cluster id="c" prefix="host-" suffix="" radical="0-3" speed="1Gf" '
    b'bw="125MBps" lat="50us"/></platform>\n',
]
_LABEL = re.compile(r"p\.xml(, line \d+)?: .", re.DOTALL)


def check(data: bytes) -> bool:
    """Read any bytes as a platform file; True if they are one.

    Raises
    ------
    AssertionError
        An error without the file's name, or a machine that cannot be used.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.xml"
        path.write_bytes(data)
        try:
            _use(platform(path))
        except PlatformError as error:
            said = str(error)
        else:
            return True
    assert _LABEL.search(said), f"no file and line: {said}"
    assert len(said) < 4000 + len(os.fspath(path)), "an error of unbounded length"
    return False


def _use(machine: Platform) -> None:
    """Ranks on the first and the last host of a machine that was read have routes, or are refused."""
    hosts = machine.hosts or 0
    assert hosts >= 1
    built = Platform(machine.description, mapping=mapping_of([0, hosts - 1])).build(2)
    for src, dst in {(0, hosts - 1), (hosts - 1, 0), (0, 0)}:
        links, latency = built.route(src, dst)
        assert links
        assert 0 <= latency < float("inf")
