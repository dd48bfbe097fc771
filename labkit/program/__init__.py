"""Services for a running program: phases, computation, counts, sampling, sized buffers."""

__all__: list[str] = []
