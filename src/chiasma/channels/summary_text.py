"""An answer in sentences, the same on the screen and on the page."""

from __future__ import annotations

from chiasma.channels.analysis import ChannelAnswer
from chiasma.results.findings import advice, headline, options


def number_in_words(answer: ChannelAnswer) -> str:
    """How many channels there are."""
    n, share = answer.n_channels, answer.probabilities[answer.n_channels]
    if n == 0:
        return f"No channel activity (P = {share:.3f})."
    text = f"{n} channel{'s' * (n > 1)} (P = {share:.3f})."
    if answer.not_counted:
        more = " or ".join(map(str, answer.not_counted))
        text = (
            f"{text} The evidence of {more} does not count: they were never all open, or never all closed, and dwell "
            "times contradict the scheme."
        )
    if answer.never_all_open:
        return f"{text} At most {int(answer.n_open.max())} were open at once, so there may be another number."
    return text


def verdict_in_words(answer: ChannelAnswer) -> str:
    """Whether to trust it, the first reason why not, and what to try."""
    tried = "" if answer.trust == "good" else advice(options(answer.findings[0], {}))
    return f"{headline(answer.findings, answer.promised_accuracy)} {tried}".strip()
