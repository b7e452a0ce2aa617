"""Real data with known answers, small enough to come with the package; files/README.md has sources and licences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

FILES = Path(__file__).parent / "files"


class RealData(NamedTuple):
    """A table and where it comes from.

    Parameters
    ----------
    table : DataFrame, one line per column of the signal.
    path : the same table as a compressed file, for the command line.
    source : the repository that it is an excerpt of.
    licence : of the data.

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.datasets.household().licence
    'CC BY 4.0'
    """

    table: pd.DataFrame
    path: Path
    source: str
    licence: str


def ion_channels() -> RealData:
    """Five identical ion channels under a drifting baseline, with the true number of open channels.

    Returns
    -------
    RealData. 40,000 samples at 10 kHz: `time [s]`, `current [pA]`, and `open`, the truth. Simulated channels were
    played through a patch-clamp amplifier, so noise, drift and hum are real and the truth is known.

    Examples
    --------
    >>> import chiasma as ch
    >>> recording = ch.datasets.ion_channels()
    >>> recording.table.shape, int(recording.table["open"].max())
    ((40000, 3), 5)
    """
    return _read("ion_channels.csv.gz", "github.com/RichardBJ/Deep-Channel", "MIT")


def household() -> RealData:
    """Two weeks of a house in one-minute means: the mains meter and the meters of four appliances, in watts.

    Returns
    -------
    RealData. 20,160 minutes: `Time`, `Aggregate`, `Kettle`, `Dishwasher`, `WashingMachine`, `Microwave`.

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.datasets.household().table.columns[2:].tolist()
    ['Kettle', 'Dishwasher', 'WashingMachine', 'Microwave']
    """
    return _read("household.csv.gz", "UK-DALE, house 2, by github.com/adrienpetralia/DeviceScope", "CC BY 4.0")


def ovarian_tumours() -> RealData:
    """Two high-grade serous ovarian tumours: relative copy numbers in 300 kb bins, from shallow sequencing.

    Returns
    -------
    RealData. 10,332 bins: `chrom`, `start`, `end`, `ratio_X17222`, `ratio_Y17204`; empty bins are missing. Published
    fits are ploidy 3.87 and cellularity 0.81 for X17222, 2.88 and 0.50 for Y17204.

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.datasets.ovarian_tumours().table["chrom"].nunique()
    24
    """
    return _read("ovarian.tsv.gz", "github.com/crukci-bioinformatics/rascal", "MIT", sep="\t", dtype={"chrom": str})


def _read(name: str, source: str, licence: str, **how: object) -> RealData:
    import pandas as pd

    return RealData(pd.read_csv(FILES / name, **how), FILES / name, source, licence)
