"""SimGrid's ``<cluster>`` of a labkit cluster."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from labkit.platform import models
from labkit.platform.spec import ClusterSpec, StarSpec

__all__ = ["MODEL_PROPERTY", "attributes_text", "cluster_element", "number", "props_text"]

#: The property that carries what SimGrid's platforms have no attribute for: the network model.
MODEL_PROPERTY = "labkit/model"


def number(value: float) -> str:
    """Write the shortest text that reads back as the same double, without an exponent's plus sign."""
    return repr(float(value)).replace("e+", "e")


def attributes_text(attributes: dict[str, str], between: str = " ") -> str:
    """Write attributes, quoted."""
    return between.join(f"{key}={quoteattr(value)}" for key, value in attributes.items())


def props_text(props: Sequence[tuple[str, str]], indent: str) -> str:
    """Write properties, a line each."""
    return "".join(f"{indent}<prop {attributes_text({'id': a, 'value': b})}/>\n" for a, b in props)


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
    if isinstance(spec, StarSpec) and spec.bb_bw is not None:
        attributes |= {"bb_bw": f"{number(spec.bb_bw)}Bps", "bb_lat": f"{number(spec.bb_lat or 0.0)}s"}
        attributes["bb_sharing_policy"] = (spec.bb_sharing or "shared").upper()
    if spec.limiter is not None:
        attributes["limiter_link"] = f"{number(spec.limiter)}Bps"
    if spec.loopback_bw is not None:
        attributes |= {
            "loopback_bw": f"{number(spec.loopback_bw)}Bps",
            "loopback_lat": f"{number(spec.loopback_lat or 0.0)}s",
        }
    if router:
        attributes["router_id"] = router
    attributes |= spec.xml_attributes()
    if spec.model != models.DEFAULT:
        props = [*props, (MODEL_PROPERTY, spec.model)]
    body = attributes_text(attributes, "\n" + indent + "         ")
    if not props:
        return f"{indent}<cluster {body}/>\n"
    return f"{indent}<cluster {body}>\n{props_text(props, indent + '  ')}{indent}</cluster>\n"
