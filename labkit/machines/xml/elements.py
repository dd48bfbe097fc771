"""The spelling of SimGrid's platform XML: heads, attributes, properties, numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from labkit.errors import PlatformError
from labkit.machines import models

__all__ = [
    "MODEL_PROPERTY",
    "attributes_text",
    "cluster_element",
    "digits_of",
    "element",
    "props_text",
    "sharing_of",
    "whole_file",
]

#: The property that carries what SimGrid's platforms have no attribute for: the network model.
MODEL_PROPERTY = "labkit/model"

#: sharing policies of links: SimGrid's names and labkit's
_SHARINGS = {
    "SHARED": "shared",
    "SPLITDUPLEX": "splitduplex",
    "FULLDUPLEX": "splitduplex",
    "FATPIPE": "fatpipe",
}


def sharing_of(policy: str) -> str:
    """Return labkit's name of a sharing policy."""
    if policy.upper() not in _SHARINGS:
        allowed = ", ".join(_SHARINGS)
        raise PlatformError(
            f"sharing_policy={policy[:40]!r} is not supported; allowed: {allowed}", code="unknown-name"
        )
    return _SHARINGS[policy.upper()]


def digits_of(value: float) -> str:
    """Write the shortest text that reads back as the same double, without an exponent's plus sign."""
    return repr(float(value)).replace("e+", "e")


def attributes_text(attributes: Mapping[str, str], between: str = " ") -> str:
    """Write attributes, quoted."""
    from xml.sax.saxutils import quoteattr  # brings http and ssl along, which no run needs

    return between.join(f"{key}={quoteattr(value)}" for key, value in attributes.items())


def props_text(props: Iterable[tuple[str, str]], indent: str) -> str:
    """Write properties, a line each."""
    return "".join(f"{indent}<prop {attributes_text({'id': a, 'value': b})}/>\n" for a, b in props)


def element(
    word: str,
    attributes: Mapping[str, str],
    indent: str,
    props: Iterable[tuple[str, str]] = (),
    between: str = " ",
) -> str:
    """Write an element with its properties, a line each, and a line's end."""
    head = f"{indent}<{word} {attributes_text(attributes, between)}"
    lines = props_text(props, indent + "  ")
    return f"{head}>\n{lines}{indent}</{word}>\n" if lines else f"{head}/>\n"


def whole_file(body: str) -> str:
    """Put a file's head and end round its body."""
    return (
        "<?xml version='1.0'?>\n"
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        f'<platform version="4.1">\n{body}</platform>\n'
    )


# SimGrid's ``<cluster>`` of a labkit cluster.


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
    """Write a sized cluster."""
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
