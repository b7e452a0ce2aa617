"""Tumour genomes: formats of other tools, genome coordinates, the tumour model, purity, ploidy and clones."""

from chiasma.tumour.bins import Alleles, Bins, attach_alleles
from chiasma.tumour.formats import read_bins
from chiasma.tumour.landscape import Bounds
from chiasma.tumour.solutions import Answer, Patient, solve

__all__ = ["Alleles", "Answer", "Bins", "Bounds", "Patient", "attach_alleles", "read_bins", "solve"]


def __dir__() -> list[str]:
    return __all__
