"""Real data that come with the package, and simulated examples with a known truth (`genome`, `tumours`)."""

from chiasma.datasets.real import RealData, household, ion_channels, ovarian_tumours

__all__ = ["RealData", "household", "ion_channels", "ovarian_tumours"]


def __dir__() -> list[str]:
    return __all__
