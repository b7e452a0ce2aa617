"""Tumour genomes: formats of other tools, genome coordinates, the tumour model, purity, ploidy and clones."""

from chiasma.genomics.bins import Alleles, Bins, attach_alleles
from chiasma.genomics.formats import read_bins

__all__ = ["Alleles", "Bins", "attach_alleles", "read_bins"]
