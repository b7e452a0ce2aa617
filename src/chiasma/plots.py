"""Plots of a posterior, one function each.

Every function draws on the given axes (`ax`) or figure (`fig`, also a subfigure), or on a new one, and returns it.
Colours follow Okabe and Ito; line styles, markers and hatches keep the plots readable in grey.
"""

from chiasma.report.figures.parameters import plot_pairs, plot_parameters
from chiasma.report.figures.paths import plot_configurations, plot_level, plot_marginals, plot_row, plot_states
from chiasma.report.figures.runs import plot_hamming, plot_jumps, plot_ladder, plot_log_joint
from chiasma.report.figures.sites import Labels

__all__ = [
    "Labels",
    "plot_configurations",
    "plot_hamming",
    "plot_jumps",
    "plot_ladder",
    "plot_level",
    "plot_log_joint",
    "plot_marginals",
    "plot_pairs",
    "plot_parameters",
    "plot_row",
    "plot_states",
]


def __dir__() -> list[str]:
    return __all__
