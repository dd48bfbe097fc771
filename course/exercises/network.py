"""Exercises on latency, bandwidth and LogGP."""

from __future__ import annotations

from labkit.jupyter.exercise import Exercise, Trap, choice, is_near

__all__ = ["EXERCISES"]

EXERCISES = {
    "by_hand": Exercise(
        "a number of seconds",
        float,
        lambda t: is_near(t, 1.262, 0.03),
        "seven messages, one after another through the root's cable, 0.180 s each: 1.26 s, as measured.",
        "how long does one message of 400 kB take by the line, and how many leave the root?",
        (
            Trap(lambda t: is_near(t, 8 * 0.1803, 0.03), "to how many others does the root have to send?"),
            Trap(
                lambda t: is_near(t, 3 * 0.1803, 0.03),
                "that would be three rounds of a tree. Here the root does it all.",
            ),
            Trap(
                lambda t: is_near(t, 0.1803, 0.03),
                "that is one message. Can the root's cable carry all at once?",
            ),
            Trap(lambda t: is_near(t, 7 * 0.4505, 0.03), "that is for 1 MB. The message has 400 kB."),
        ),
    ),
    "half_bandwidth": Exercise(
        "a number of bytes",
        float,
        lambda n: is_near(n, 1e4, 0.02),
        "10 kB: their bytes take 10 µs, as long as the start-up, so that half of the time is start-up.",
        "how long are the bytes under way when they take as long as the start-up?",
        (
            Trap(lambda n: is_near(n, 10, 0.02), "in bytes, not in kB."),
            Trap(
                lambda n: is_near(n, 5000, 0.02),
                "then the bytes take 5 µs of 15 µs: a third of the bandwidth.",
            ),
            Trap(lambda n: is_near(n, 20_000, 0.02), "then the bytes take 20 µs of 30 µs: two thirds of it."),
            Trap(
                lambda n: is_near(n, 5e8, 0.02), "that is half of the bandwidth. At which size is it reached?"
            ),
        ),
    ),
    "train": Exercise(
        "a number of µs",
        float,
        lambda t: is_near(t, 46, 0.005),
        "one message takes 2 + 5 + 1 + 2 = 10 µs; each of the other nine follows max(2, 3 + 1) = 4 µs later.",
        "how long does one take, and how soon can the next one leave?",
        (
            Trap(
                lambda t: is_near(t, 100, 0.005), "does the second message wait until the first has arrived?"
            ),
            Trap(lambda t: is_near(t, 28, 0.005), "the processor is free after 2 µs. Is the interface?"),
            Trap(lambda t: is_near(t, 37, 0.005), "the gap is right. And the bytes of the message before?"),
            Trap(lambda t: is_near(t, 50, 0.005), "ten messages have nine gaps between them."),
        ),
    ),
    "hidden": choice(
        "B",
        "the overhead is the processor's own work; during the others it is free for something else.",
        "during which of the four is the processor itself at work?",
        A="while the message is on its way nobody's processor has anything to do with it.",
        C="the interface rests. Does the processor rest, too?",
        D="the interface moves the bytes. What does the processor do meanwhile?",
    ),
}
