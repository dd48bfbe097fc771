"""SimGrid's platform XML, read and written."""

__all__: list[str] = []
