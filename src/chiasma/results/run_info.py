"""RunInfo: what a posterior knows of the run that made it, beside its draws."""

from __future__ import annotations

from typing import Any, TypedDict


class RunInfo(TypedDict, total=False):
    """The entries of `Posterior.info`. A posterior made by hand may lack any of them."""

    n_rows: int | None  # None for plain vectors
    seed: int
    plan: str  # what was chosen and why, in words
    update: str | None  # as it would be written in Python; None where a density brings its own
    exchange: str | None  # None where nothing was exchanged
    follows_swaps: bool  # whole paths change places, so that round trips can be counted
    independent: bool  # draws do not depend on each other
    settings: dict[str, Any]  # arguments of sample()
    versions: dict[str, str]
    timings: dict[str, float]  # seconds of every stage
    complete: bool  # a stored run has all the draws it was to have
    round_trips: list[int]  # per chain
    exchange_steps: list[int]  # per chain
    warnings: list[str]
