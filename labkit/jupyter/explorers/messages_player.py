"""The message player: step through a run's messages on its time line."""

from __future__ import annotations

import ipywidgets as w

from labkit.jupyter.explorers.base import Explorer, choice, slider
from labkit.jupyter.explorers.messages_view import Messages, message_figure, messages_of
from labkit.plot.figure import Figure
from labkit.result import Run

__all__ = ["MessagePlayer", "messages"]

_ALL = "all ranks"


class MessagePlayer(Explorer):
    """A run's messages to step through; see `messages`.

    Attributes
    ----------
    step, rank, play, back, forth : widgets
        The controls; `rank` lets `back` and `forth` go to messages from or to one rank alone.
    found : Messages
    figure : Figure
        What is shown.
    """

    figure: Figure

    def __init__(self, found: Messages) -> None:
        run = found.run
        super().__init__(f"Messages of {run.program} on {run.on}, {run.ranks} ranks")
        self.found = found
        self.step = slider("message", 0, 0, len(found), "0 is the beginning; arrow keys step", live=True)
        names = [(_ALL, -1), *((f"rank {rank}", rank) for rank in range(run.ranks))]
        self.rank = choice("step through", names, -1, "of one rank: the messages that it sends or receives")
        self.play = w.Play(interval=900, min=0, max=len(found), value=0)
        self._link = w.jslink((self.play, "value"), (self.step, "value"))
        self.back = w.Button(icon="step-backward", tooltip="the message before", layout=w.Layout(width="3em"))
        self.forth = w.Button(icon="step-forward", tooltip="the next message", layout=w.Layout(width="3em"))
        self.back.on_click(lambda _: self.go(-1))
        self.forth.on_click(lambda _: self.go(1))
        self._facts = w.HTML()
        place = w.VBox()
        self.start([self.step, self.rank], place, is_wide=True)
        self.step.layout.width = "32em"
        title, controls, *rest = self.children
        controls.children = [*controls.children, self.back, self.forth, self.play]
        self.children = [title, controls, *rest]
        place.children = [*self.pictures(), self._facts]

    def go(self, way: int) -> None:
        """Go to the next message, or with -1 to the one before: of the chosen rank, where one is chosen.

        Parameters
        ----------
        way : int
            1 or -1.
        """
        step, rank = self.step.value + way, self.rank.value
        while 0 < step <= len(self.found):
            one = self.found.row(step)
            if rank < 0 or rank in (one["source"], one["destination"]):
                break
            step += way
        if 0 <= step <= len(self.found):
            self.step.value = step

    def compute(self) -> None:
        """Draw the message that the controls say."""
        self.figure = message_figure(self.found, self.step.value)
        self.picture("message", self.figure)
        self._facts.value = self.found.html(self.step.value)


def messages(run: Run) -> MessagePlayer:
    """Step through a recorded run, message by message: the time line up to each, and what is known of it.

    Parameters
    ----------
    run : Run
        With ``trace=True``, on any machine: at most 64 ranks and 2000 messages.

    Returns
    -------
    MessagePlayer
        A widget: the last line of a cell shows it.

    Raises
    ------
    DataError
        No trace, no messages, or too many.

    Examples
    --------
    >>> import labkit as lk
    >>> run = lk.run(lambda comm: comm.bcast(b"news"), ranks=4, on="star", trace=True)
    >>> player = lk.explore.messages(run)
    >>> player.set(step=1)
    >>> player.figure.reading[:54]
    'Message 1 of 3: rank 0 sends 15 B to rank 2, under way'
    """
    return MessagePlayer(messages_of(run))
