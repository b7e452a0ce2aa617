"""Gather what all samples left: cohort.tsv, cohort.zarr and index.html."""

from __future__ import annotations

from chiasma.cohort.directory import CohortDirectory
from chiasma.cohort.outcome import Outcome
from chiasma.cohort.page import write_page
from chiasma.cohort.plan import Plan
from chiasma.cohort.store import write_cohort_store
from chiasma.cohort.table import write_cohort_table


def collect(directory: CohortDirectory, plan: Plan) -> list[Outcome]:
    """What is known of every sample, in the order of the sheet."""
    return [directory.outcome(sample.name, plan.seed_of(sample)) for sample in plan.samples]


def merge(directory: CohortDirectory, plan: Plan) -> list[Outcome]:
    """Write the files of the whole cohort from the run directories; may be done again at any time."""
    directory.remove_leftovers()
    outcomes = collect(directory, plan)
    write_cohort_table(directory.table, outcomes)
    write_cohort_store(directory, outcomes)
    write_page(directory, outcomes, plan.work.picture_shows)
    return outcomes
