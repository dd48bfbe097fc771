"""SimGrid's ``<cluster>`` of a labkit cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labkit.platform import models
from labkit.platform.xml.elements import MODEL_PROPERTY, element

__all__ = ["cluster_element"]


def cluster_element(
    attributes: Mapping[str, str],
    model: str,
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
    attributes : mapping of str to str
        What it is made of: `labkit.platform.spec.cluster.ClusterSpec.xml_attributes`.
    model : str
        Its network model.
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
    named = {
        "id": name,
        "prefix": prefix,
        "suffix": suffix,
        "radical": ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in radical),
    }
    if router:
        named["router_id"] = router
    if model != models.DEFAULT:
        props = [*props, (MODEL_PROPERTY, model)]
    return element("cluster", {**named, **attributes}, indent, props, "\n" + indent + "         ")
