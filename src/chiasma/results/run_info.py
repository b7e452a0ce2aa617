"""RunInfo: how the draws of a posterior were made (seed, plan, settings, timings)."""

from __future__ import annotations

from typing import Any, TypedDict


class RunInfo(TypedDict, total=False):
    """The entries of `Posterior.info`. A posterior made by hand may lack any of them."""

    n_rows: int | None  # None for plain vectors
    row_sizes: list[int] | None  # states of every row
    row_names: list[str] | None  # None where rows have numbers only
    seed: int
    plan: str  # what was chosen and why, in words
    update: str | None  # as Python code; None for a Density, which has its own update
    update_kind: str | None  # its class, such as "RowGibbs"; None for a Density
    update_named: bool  # by the caller, not chosen by "auto"
    larger_blocks: int | None  # rows of a block that holds more than the update draws jointly; None: there is none
    one_start: bool  # `init` gave all chains the same start, so their agreement says little
    starts: int | None  # of the search for optima, where the update has one
    exchange: str | None  # None if nothing was exchanged
    follows_swaps: bool  # exchanges swap whole paths, so round trips can be counted
    independent: bool  # draws are independent of each other
    proper_prior: bool  # the prior is a distribution; without one there is no evidence
    settings: dict[str, Any]  # arguments of sample()
    versions: dict[str, str]
    timings: dict[str, float]  # seconds of every stage and of compilation, of all calls that worked on the run
    complete: bool  # a stored run has all requested draws
    round_trips: list[int]  # per chain
    exchange_steps: list[int]  # per chain
    optima: list[dict[str, Any]]  # of the posterior of learned parameters, as Optima.to_dict describes them


def run_info(about: dict[str, Any], timings: dict[str, float]) -> RunInfo:
    """The entries of `Posterior.info` that come from the description of a run."""
    run = about["run"]
    return {
        "n_rows": about["n_rows"],
        "row_sizes": about.get("row_sizes"),
        "row_names": about.get("row_names"),
        "seed": run["seed"],
        "plan": about["plan"],
        "update": run["update"],
        "update_kind": about.get("update_kind"),
        "update_named": about.get("update_named", False),
        "larger_blocks": about.get("larger_blocks"),
        "one_start": about.get("one_start", False),
        "starts": about.get("starts"),
        "exchange": run["exchange"],
        "follows_swaps": about["follows_swaps"],
        "independent": about["independent"],
        "proper_prior": about.get("proper_prior", True),
        "settings": run,
        "versions": about["versions"],
        "timings": dict(timings),
        "optima": about.get("optima", []),
    }
