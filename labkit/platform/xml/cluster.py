"""SimGrid's ``<cluster>`` of a labkit cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from labkit.platform import models
from labkit.platform.xml.elements import MODEL_PROPERTY, element, number

if TYPE_CHECKING:
    from labkit.platform.spec.cluster import ClusterSpec

__all__ = ["cluster_element"]


def cluster_element(
    spec: ClusterSpec,
    name: str,
    prefix: str,
    suffix: str,
    radical: Sequence[tuple[int, int]],
    router: str = "",
    props: Sequence[tuple[str, str]] = (),
    indent: str = "  ",
) -> str:
    """Write a sized cluster.

    Parameters
    ----------
    spec : ClusterSpec
        What it is.
    name, prefix, suffix, radical, router
        The names of its zone, its hosts and its gateway; no router leaves the name to SimGrid.
    props : sequence of (str, str)
        Its properties; the network model is added unless it is the default.
    indent : str
        What stands before it.

    Returns
    -------
    str
        The element, with a line's end.
    """
    attributes = {
        "id": name,
        "prefix": prefix,
        "suffix": suffix,
        "radical": ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in radical),
        "speed": f"{number(spec.speed)}f",
        "core": str(spec.cores),
        "bw": f"{number(spec.bw)}Bps",
        "lat": f"{number(spec.lat)}s",
        "sharing_policy": spec.sharing.upper(),
    }
    if spec.limiter is not None:
        attributes["limiter_link"] = f"{number(spec.limiter)}Bps"
    if spec.loopback_bw is not None:
        attributes["loopback_bw"] = f"{number(spec.loopback_bw)}Bps"
        attributes["loopback_lat"] = f"{number(spec.loopback_lat or 0.0)}s"
    if router:
        attributes["router_id"] = router
    attributes |= spec.simgrid_size()
    if spec.model != models.DEFAULT:
        props = [*props, (MODEL_PROPERTY, spec.model)]
    return element("cluster", attributes, indent, props, "\n" + indent + "         ")
