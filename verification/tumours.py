"""Tumours, simulated and public: is the first solution right as often as its probability says?

    python verification/tumours.py            # all 200, then the table
    python verification/tumours.py --n 20     # the first 20; --first 45: seeds 45-64
    python verification/tumours.py --table    # the table of what is known so far

The tumours are those of `sequenced.py`, which shares nothing with the package, and are read from files. Each is solved
with default settings in a separate process that may use --seconds of CPU time. Outcomes are kept in
build/tumours-DIGEST.jsonl as soon as they are known, and are not computed again; the digest is that of the package's
sources.

A first solution is right if its purity is within 0.1 of the truth and its ploidy within 0.3.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import resource
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sequenced

import chiasma
from chiasma.tumour import Bins
from chiasma.tumour.samples import read_samples
from chiasma.tumour.solutions import Answer, solve

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from run import Report

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CHIASMA_DATA", ROOT.parent / "shared" / "data"))
KEPT = ROOT / "build"
N_TUMOURS = 200
SECONDS = 600
NEAR_PURITY, NEAR_PLOIDY = 0.1, 0.3
LEAST_PURITY = 0.4
# Edges of the bins of the calibration curve.
EDGES = (0.0, 0.5, 0.8, 0.95, 1.0)
# A published answer that is not first must be one of the first three, and solution 1 must not be as probable as this.
SURE = 0.9
# File, sample, published purity and ploidy.
PUBLISHED = (
    ("tumour/sequenza_example.seqz.gz", None, 0.89, 1.90),
    ("tumour/purple_tumor_sample.segment.tsv.gz", None, 0.99, 3.10),
    ("tumour/acnr_crl2324_50.tsv.gz", None, 0.50, 2.20),
    ("rascal_hgsoc_300kb.tsv", "X17222", 0.81, 3.87),
    ("rascal_hgsoc_300kb.tsv", "Y17204", 0.50, 2.88),
    ("tumour/hatchet_demo-wes.bb", "WESDemo1", 0.928, 1.907),
    ("tumour/hatchet_demo-wes.bb", "WESDemo2", 0.753, 1.846),
)


class Outcome(NamedTuple):
    """The truth of one tumour, and what came out. ended: "answered", "flat" (purity cannot be known), or why not.

    Public samples have negative seeds, their names as assay, and no truth but purity and ploidy.
    """

    seed: int
    assay: str
    purity: float
    ploidy: float
    doubled: bool
    clones: int
    altered: float
    ended: str
    found_purity: float = float("nan")
    found_ploidy: float = float("nan")
    found_clones: int = 0
    probability: float = float("nan")
    rank: int = 0
    inside: bool = False
    promised: float = float("nan")
    correct: float = float("nan")
    seconds: float = float("nan")
    megabytes: float = float("nan")

    @property
    def clear(self) -> bool:
        """Whether the tumour should be solved: alleles, and enough of it."""
        return self.assay != "depth" and self.purity >= LEAST_PURITY


def run(report: Report) -> None:
    simulated(report, solved_all(range(N_TUMOURS)))
    published(report, solved_all(public()))


# ---- Solving, each tumour in its own process -------------------------------------------------------------------------


def solved_all(seeds: Sequence[int], seconds: int = SECONDS, known_only: bool = False) -> list[Outcome]:
    """Outcomes of some seeds; those that are kept are not computed again."""
    kept_in = KEPT / f"tumours-{digest()}.jsonl"
    kept_in.parent.mkdir(exist_ok=True)
    kept = kept_outcomes(kept_in)
    for seed in seeds:
        if seed not in kept and not known_only:
            kept[seed] = outcome = in_process(seed, seconds)
            with kept_in.open("a") as file:
                file.write(json.dumps(outcome._asdict()) + "\n")
            print(f"{seed}: {in_words(outcome)}", file=sys.stderr, flush=True)
    return [kept[seed] for seed in seeds if seed in kept]


def kept_outcomes(file: Path) -> dict[int, Outcome]:
    lines = file.read_text().splitlines() if file.exists() else []
    return {outcome.seed: outcome for outcome in (Outcome(**json.loads(line)) for line in lines)}


def public() -> list[int]:
    """Seeds of the public samples that are at hand."""
    return [-i for i, (file, *_) in enumerate(PUBLISHED, start=1) if (DATA / file).exists()]


def digest() -> str:
    """Of the sources of the package."""
    source = Path(chiasma.__file__).parent
    parts = [file.read_bytes() for name in ("tumour", "kernels", "io") for file in sorted((source / name).glob("*.py"))]
    parts.append(Path(sequenced.__file__).read_bytes())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:8]


def in_process(seed: int, seconds: int) -> Outcome:
    context = multiprocessing.get_context("fork")  # which imports nothing again
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(seed, seconds, theirs))
    child.start()
    theirs.close()
    try:
        outcome: Outcome = ours.recv()
    except EOFError:
        outcome = unsolved(seed, f"ended after {seconds} s of CPU time, or killed")
    child.join()
    return outcome


def _child(seed: int, seconds: int, reply: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    reply.send(solved(seed) if seed >= 0 else solved_public(seed))


def solved(seed: int) -> Outcome:
    with TemporaryDirectory() as folder:
        made = sequenced.sample(seed, Path(folder))
        truth = made.truth
        began = process_time()
        try:
            samples = read_samples(made.file, alleles=made.alleles, gc=made.gc, mappability=made.mappability)
            answer = solve(samples, workers=1).answers[0]
        except chiasma.ChiasmaError as error:
            return unsolved(seed, f"{type(error).__name__}: {error}", made.assay)
    outcome = answered(unsolved(seed, "answered", made.assay), answer, process_time() - began)
    promised, correct = max((accuracy(answer, own) for own in copies_in(answer, truth)), key=lambda pair: pair[1])
    return outcome._replace(promised=promised, correct=correct)


def solved_public(seed: int) -> Outcome:
    file, sample, *_ = PUBLISHED[-seed - 1]
    began = process_time()
    answer = solve(read_samples(DATA / file, sample=sample), workers=1).answers[0]
    return answered(unsolved(seed, "answered"), answer, process_time() - began)


def unsolved(seed: int, ended: str, assay: str = "unknown") -> Outcome:
    if seed < 0:
        file, sample, purity, ploidy = PUBLISHED[-seed - 1]
        name = sample or Path(file).name
        return Outcome(seed, name, purity, ploidy, doubled=False, clones=0, altered=float("nan"), ended=ended)
    truth = sequenced.evolved(np.random.default_rng([7, seed]))
    return Outcome(seed, assay, truth.purity, truth.ploidy, truth.doubled, truth.n_clones, truth.altered, ended=ended)


def answered(outcome: Outcome, answer: Answer, seconds: float) -> Outcome:
    first = answer.solutions[0]
    low, high = np.quantile(answer.purity_draws(20_000), [0.05, 0.95])
    return outcome._replace(
        ended="flat" if answer.flat else "answered",
        found_purity=first.purity,
        found_ploidy=first.ploidy,
        found_clones=first.best.parameters.n_clones,
        probability=first.probability,
        rank=rank_of(answer, outcome.purity, outcome.ploidy),
        inside=bool(low <= outcome.purity <= high),
        seconds=seconds,
        megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def copies_in(answer: Answer, truth: sequenced.Truth) -> list[npt.NDArray[np.int64]]:
    """(2, T) of every clone: true copies in the middle of the bins."""
    cells = cells_of(answer.bins)
    return [own[:, cells] for own in truth.copies]


def cells_of(bins: Bins) -> npt.NDArray[np.int64]:
    """(T,) the cell of the simulated genome in which the middle of a bin is."""
    number = np.array([int(name.removeprefix("chr")) for name in bins.chromosome.tolist()]) - 1
    inside = np.minimum(bins.middle.astype(int) // sequenced.CELL, sequenced.SIZES[number] - 1)
    return np.asarray(sequenced.FIRSTS[number] + inside)


def rank_of(answer: Answer, purity: float, ploidy: float) -> int:
    """The rank of the first solution that is near; 0 if there is none."""
    for rank, one in enumerate(answer.solutions, start=1):
        if abs(one.purity - purity) <= NEAR_PURITY and abs(one.ploidy - ploidy) <= NEAR_PLOIDY:
            return rank
    return 0


def accuracy(answer: Answer, truth: npt.NDArray[np.int64]) -> tuple[float, float]:
    """Mean probability of the most probable copies (major, minor) of the main clone over all solutions, and how often
    they are true, for copies (2, T). An amplified state is true where there are more copies than it says.
    """
    major, minor = np.sort(truth, axis=0)[::-1]
    shares: dict[tuple[int, int, int], Any] = defaultdict(float)
    for solution in answer.solutions:
        for share, one in zip(solution.shares, solution.explanations, strict=True):
            for s, state in enumerate(one.states.values.astype(int)):
                shares[tuple(state)] += solution.probability * share * one.main[:, s]
    states, table = np.array(list(shares)), np.array(list(shares.values()))
    called = states[table.argmax(axis=0)]
    exact = (called[:, 0] == major) & (called[:, 1] == minor)
    if not answer.data.has_alleles:
        exact = called[:, 0] + called[:, 1] == major + minor
    above = major + minor >= called[:, 0] + called[:, 1]
    true = np.where(called[:, 2] == 1, above, exact)
    return float((table.max(axis=0) / table.sum(axis=0)).mean()), float(true.mean())


# ---- The table -------------------------------------------------------------------------------------------------------


def simulated(report: Report, outcomes: Sequence[Outcome]) -> None:
    answered = [one for one in outcomes if one.ended == "answered"]
    if not answered:
        report.text("No tumour has been solved yet.")
        return
    report.text(
        f"{len(outcomes)} tumours of `sequenced.py` (seeds {_in_words([one.seed for one in outcomes])}): purity "
        "0.15-0.95, a third doubled, one to three clones; a pileup of SNPs, bins with allele counts, or bins alone. "
        f"First: the first solution is within {NEAR_PURITY} of the true purity and {NEAR_PLOIDY} of the true "
        "ploidy. Interval: the 90% interval of purity over all solutions holds the truth. Promised and correct: mean "
        "probability of the most probable copy numbers of the main clone, and how often they are true."
    )
    clear = [one for one in outcomes if one.clear]
    _groups(report, outcomes, clear)
    _earlier(report, outcomes)
    _curve(report, answered)
    _clones(report, answered)
    others = [one for one in outcomes if one.ended not in ("answered", "flat")]
    if others:
        report.text(f"Without an answer: {'; '.join(f'{one.seed} ({one.assay}, {one.ended})' for one in others)}.")
    wrong = [one for one in answered if one.rank != 1]
    for title, chosen in (
        ("Sure and wrong", [one for one in wrong if one.probability > EDGES[-2]]),
        ("Other first solutions that are wrong", [one for one in wrong if one.probability <= EDGES[-2]]),
    ):
        report.text(f"{title}, {len(chosen)}:")
        if chosen:
            report.text("\n".join(f"- {one.seed}: {in_words(one)}" for one in chosen))
    sure = [one.rank == 1 for one in answered if one.probability > EDGES[-2]]
    if sure:
        share = np.mean(sure)
        report.goal(f"of first solutions with P above .95 at least 93% are right, here {share:.0%}", share >= 0.93)
    share = np.mean([one.rank == 1 for one in clear]) if clear else 0
    report.goal(
        f"the first solution is right in at least 92% with alleles and purity >= {LEAST_PURITY}, here {share:.0%}",
        share >= 0.92,
    )
    inside = np.mean([one.inside for one in answered])
    report.goal(f"90% intervals of purity hold the truth in 85-95%, here {inside:.0%}", 0.85 <= inside <= 0.95)


def _in_words(seeds: Sequence[int]) -> str:
    """[0, 1, 2, 5] as "0-2, 5"."""
    ordered = sorted(seeds)
    firsts = [seed for seed in ordered if seed - 1 not in ordered]
    lasts = [seed for seed in ordered if seed + 1 not in ordered]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=True))


def _groups(report: Report, outcomes: Sequence[Outcome], clear: Sequence[Outcome]) -> None:
    groups = {
        "all": outcomes,
        f"alleles, purity >= {LEAST_PURITY}": clear,
        **{assay: [one for one in outcomes if one.assay == assay] for assay in sequenced.ASSAYS},
        "doubled": [one for one in outcomes if one.doubled],
        f"purity < {LEAST_PURITY}": [one for one in outcomes if one.purity < LEAST_PURITY],
    }
    rows = []
    for name, group in groups.items():
        own = [one for one in group if one.ended == "answered"]
        if not own:
            continue
        rows.append(
            [
                name,
                str(len(group)),
                str(sum(one.ended == "flat" for one in group)),
                _share(one.rank == 1 for one in own),
                _share(0 < one.rank <= 3 for one in own),
                _share(one.inside for one in own),
                f"{np.mean([one.promised for one in own]):.3f}",
                f"{np.mean([one.correct for one in own]):.3f}",
                f"{np.median([one.seconds for one in own]):.0f} ({max(one.seconds for one in own):.0f})",
                f"{max(one.megabytes for one in own):.0f}",
            ]
        )
    heading = [
        "tumours",
        "n",
        "purity cannot be known",
        "first",
        "first three",
        "in 90% interval",
        "promised",
        "correct",
    ]
    report.table([*heading, "CPU seconds (most)", "most MB"], rows)


def _earlier(report: Report, outcomes: Sequence[Outcome]) -> None:
    """The same tumours with other versions of the package whose outcomes were kept."""
    now = {one.seed: one for one in outcomes}
    rows = []
    for file in sorted(KEPT.glob("tumours-*.jsonl"), key=lambda file: file.stat().st_mtime):
        known = kept_outcomes(file)
        shared = [seed for seed in now if seed in known]
        if shared and file.stem != f"tumours-{digest()}":
            for name, found in ((f"earlier, {file.stem[8:]}", known), ("this one, on these", now)):
                own = [found[seed] for seed in shared if found[seed].ended == "answered"]
                wrong = sum(one.rank != 1 and one.probability > EDGES[-2] for one in own)
                first, inside = _share(one.rank == 1 for one in own), _share(one.inside for one in own)
                seconds = f"{np.median([one.seconds for one in own]):.0f}" if own else "none"
                rows.append([name, str(len(shared)), first, str(wrong), inside, seconds])
    if rows:
        report.table(["package", "n", "first", "sure and wrong", "in 90% interval", "CPU seconds"], rows)


def _curve(report: Report, answered: Sequence[Outcome]) -> None:
    rows = []
    for low, high in pairwise(EDGES):
        own = [one for one in answered if low < one.probability <= high]
        if own:
            mean = np.mean([one.probability for one in own])
            with_alleles = [one.rank == 1 for one in own if one.assay != "depth"]
            cells = [f"{low:g}-{high:g}", str(len(own)), f"{mean:.2f}", _share(one.rank == 1 for one in own)]
            rows.append([*cells, _share(with_alleles)])
    report.table(["P(solution 1)", "n", "mean", "right", "right, with alleles"], rows)


def _clones(report: Report, answered: Sequence[Outcome]) -> None:
    right = [one for one in answered if one.rank == 1]
    alone = [one for one in right if one.clones == 1]
    mixed = [one for one in right if one.clones > 1]
    report.text(
        "Clones, where the first solution is right. A clone counts if it has a tenth of the cells or more and other "
        "copies in 2% of the genome or more. False clones: "
        f"{sum(one.found_clones > 1 for one in alone)} of {len(alone)} tumours with one such clone; missed: "
        f"{sum(one.found_clones == 1 for one in mixed)} of {len(mixed)} with several."
    )


def _share(flags: Iterable[bool]) -> str:
    known = list(flags)
    return f"{sum(known)} of {len(known)}" if known else "none"


def in_words(one: Outcome) -> str:
    told = (
        f"{one.assay}, purity {one.purity:.2f}, ploidy {one.ploidy:.2f}, {'doubled, ' if one.doubled else ''}"
        f"clones {one.clones}, changed {one.altered:.0%}; "
    )
    if one.ended not in ("answered", "flat"):
        return told + one.ended
    return (
        f"{told}first {one.found_purity:.2f} / {one.found_ploidy:.2f} with {one.probability:.3f}"
        f"{' (purity cannot be known)' if one.ended == 'flat' else ''}, clones {one.found_clones}; the truth has rank "
        f"{one.rank or 'none'}; {one.seconds:.0f} s, {one.megabytes:.0f} MB"
    )


def published(report: Report, outcomes: Sequence[Outcome]) -> None:
    if len(public()) < len(PUBLISHED):
        report.text("Public samples that are not at hand were not run (see verification/README.md).")
    if not outcomes:
        return
    report.text("Public samples: purity / ploidy as published, and the first solution.")
    rows = [
        [
            one.assay,
            f"{one.purity:.2f} / {one.ploidy:.2f}",
            str(one.rank or "none"),
            f"{one.found_purity:.2f} / {one.found_ploidy:.2f}",
            f"{one.probability:.3f}",
            f"{one.seconds:.0f}",
        ]
        for one in outcomes
    ]
    report.table(["sample", "published", "rank", "first solution", "probability", "CPU seconds"], rows)
    missed = [one.assay for one in outcomes if not (one.rank == 1 or (one.rank in (2, 3) and one.probability < SURE))]
    report.goal(
        f"the published answer is first, or among the first three and solution 1 below {SURE:g}; missed: "
        f"{', '.join(missed) or 'none'}",
        not missed,
    )


def main() -> None:
    from run import Report

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=N_TUMOURS, help="tumours")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="CPU seconds that one may take")
    parser.add_argument("--table", action="store_true", help="solve nothing; write the table of what is known")
    chosen = parser.parse_args()
    report = Report("tumours")
    known = solved_all(public(), chosen.seconds, chosen.table)
    simulated(report, solved_all(range(chosen.first, chosen.first + chosen.n), chosen.seconds, chosen.table))
    published(report, known)
    report.write()


if __name__ == "__main__":
    main()
