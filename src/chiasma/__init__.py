"""chiasma: Bayesian inference in factorial hidden Markov models."""

from chiasma import exact
from chiasma.errors import BudgetExceeded, ChiasmaError, ImpossibleData, InvalidInput
from chiasma.models.chains import BinaryChains
from chiasma.models.emissions import (
    Custom,
    Gaussian,
    IntegratedDepth,
    NegativeBinomial,
    Poisson,
    StudentT,
    Table,
)
from chiasma.models.factorial import FactorialHMM, log_joint
from chiasma.models.observations import Observations

__version__ = "0.1.0"
__all__ = [
    "BinaryChains",
    "BudgetExceeded",
    "ChiasmaError",
    "Custom",
    "FactorialHMM",
    "Gaussian",
    "ImpossibleData",
    "IntegratedDepth",
    "InvalidInput",
    "NegativeBinomial",
    "Observations",
    "Poisson",
    "StudentT",
    "Table",
    "exact",
    "log_joint",
]
