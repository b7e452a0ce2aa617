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
from chiasma.updates import BlockGibbs, Compose, Exact, HammingBall, RowGibbs

__version__ = "0.1.0"
__all__ = [
    "BinaryChains",
    "BlockGibbs",
    "BudgetExceeded",
    "ChiasmaError",
    "Compose",
    "Custom",
    "Exact",
    "FactorialHMM",
    "Gaussian",
    "HammingBall",
    "ImpossibleData",
    "IntegratedDepth",
    "InvalidInput",
    "NegativeBinomial",
    "Observations",
    "Poisson",
    "RowGibbs",
    "StudentT",
    "Table",
    "exact",
    "log_joint",
]
