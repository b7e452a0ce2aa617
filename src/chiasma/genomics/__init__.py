"""Tumour genomes: formats of other tools, genome coordinates, the tumour model, purity, ploidy and clones."""

from chiasma.genomics.bins import Alleles, Bins, attach_alleles
from chiasma.genomics.formats import read_bins
from chiasma.genomics.landscape import Bounds
from chiasma.genomics.patient import Patient, solve_patient
from chiasma.genomics.solutions import Answer, solve

__all__ = ["Alleles", "Answer", "Bins", "Bounds", "Patient", "attach_alleles", "read_bins", "solve", "solve_patient"]
