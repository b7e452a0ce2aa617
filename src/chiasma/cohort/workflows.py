"""All workflows of a cohort. A new one is a class and a line here."""

from __future__ import annotations

from chiasma.cohort.fit_workflow import FitWorkflow
from chiasma.cohort.tumour_workflow import TumourWorkflow
from chiasma.cohort.workflow import Workflow

WORKFLOWS: dict[str, Workflow] = {"fit": FitWorkflow(), "tumour": TumourWorkflow()}
