"""Runs in a notebook's kernel before its first cell: figures show themselves as parts of a page."""


def _labkit_site():
    from html import escape

    import ipywidgets
    from bokeh.embed import components
    from IPython.display import display

    from labkit.plot.figure import Figure

    def show(self, include=None, exclude=None):
        script, div = components(self.layout)
        reading = "" if self.has_words else escape(self.reading)
        picture = f'<div role="img" aria-label="{escape(self.alt, quote=True)}">{div}</div>'
        page = f"<figure>{picture}<figcaption>{reading}</figcaption></figure>{script}"
        return {"text/plain": repr(self), "text/html": page}

    def interact(function, **controls):
        first = {name: getattr(control, "value", control) for name, control in controls.items()}
        display(function(**first))
        words = ", ".join(f"{name} = {value}" for name, value in first.items())
        display(ipywidgets.HTML(words))  # stands for the controls: replaced by a word on the page

    Figure._repr_mimebundle_ = show
    ipywidgets.interact = interact


_labkit_site()
