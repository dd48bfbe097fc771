"""The gallery of messages is what labkit says; ``python -m tests.docs.messages`` writes it."""

from __future__ import annotations

from tests.docs.messages import PAGE, page


def test_the_gallery_is_what_labkit_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
