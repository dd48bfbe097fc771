"""Runs in a notebook's kernel before its first cell: figures show themselves as parts of a page."""


def _labkit_site():
    from html import escape

    from bokeh.embed import components

    from labkit.plot.figure import Figure
    from labkit.plot.style import unbroken

    def show(self, include=None, exclude=None):
        script, div = components(self.layout)
        reading = "" if self.has_words else escape(unbroken(self.reading))
        picture = f'<div role="img" aria-label="{escape(self.alt, quote=True)}">{div}</div>'
        page = f"<figure>{picture}<figcaption>{reading}</figcaption></figure>{script}"
        return {"text/plain": repr(self), "text/html": page}

    Figure._repr_mimebundle_ = show


_labkit_site()
