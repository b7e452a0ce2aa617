"""Files of a patient's answer, for people and for other programs; all writes are atomic.

Of every sample, in the given directory, or if there are several in one below it that is named after the sample:

solutions.tsv          one line per solution, the most probable first
purity-ploidy.tsv      the landscape: log evidence over purity and ploidy, one clone
bins.tsv               per bin: data, and probabilities of the copies of the main clone over all solutions
draws.npz              copies of the main clone drawn from the posterior, solutions in proportion
summary.json           the same as numbers, with versions and what was read
chiasma_mqc.json       for MultiQC
solution_N/            segments.tsv, SAMPLE.seg (IGV), SAMPLE.bed, SAMPLE.vcf (4.4), for every solution that matters

Of several samples together, in the given directory:

solutions.tsv              one line per solution and sample, the most probable solution first
clone_fractions.tsv        one line per solution, sample and clone
draws.npz                  copies of the main clone, and the purities of all samples, drawn from the joint posterior
summary.json               the same as numbers, with versions and what was read
solution_N/clones.tsv      copy numbers of the clones, which all samples share, with the data of every sample
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chiasma import atomic
from chiasma.exact import inference as exact
from chiasma.io.columns import same_chromosome
from chiasma.io.tables import write_table
from chiasma.kernels.layout import unpack_codes
from chiasma.results.findings import Finding, trust_in
from chiasma.tumour.bins import Bins
from chiasma.tumour.doubts import (
    Decision,
    better_fits,
    decided,
    equal_clones,
    family,
    first_decision,
    misfit,
    tempered,
    too_few_clones,
    uncorrected,
)
from chiasma.tumour.genome import Assembly
from chiasma.tumour.landscape import Landscape
from chiasma.tumour.model import TumourParameters, model_of, observations_of
from chiasma.tumour.pieces import TumourData
from chiasma.tumour.polish import Explanation
from chiasma.tumour.segments import CloneState, CopySegment, clone_names, segments
from chiasma.tumour.solutions import Answer, Patient, Solution
from chiasma.types import Floats, Integers

# Solutions with a directory: those with at least this probability, and always the first MOST_LIKELY.
MATTERS = 1e-3
MOST_LIKELY = 3
N_DRAWS = 200
# Columns of a table of segments that differ between samples.
OWN_DATA = ("depth_mean", "log2", "minor_allele_fraction", "mean_copies")
N_PURITIES = 20_000
INTERVAL = (0.05, 0.95)
FLAT = "no copy-number signal: purity cannot be known"
GAIN, LOSS, NEUTRAL, LOH = "178,24,43", "33,102,172", "150,150,150", "90,174,97"


class CopyDraws(NamedTuple):
    """n draws: number of the solution (n,), total copies of the main clone (n, T), purities of the samples (N, n)."""

    solution: Integers
    copies: Integers
    purities: Floats


def write_patient(
    patient: Patient, out: Path, about: Mapping[str, Any], seed: int = 0, known: Assembly | None = None
) -> None:
    """Write all files. about: first entries of summary.json, ready for JSON. known: the assembly of the bins."""
    drawn = draws(patient.answers, N_DRAWS, seed)
    atomic.tidy(*(place for folder in (out, *sample_folders(patient, out)) for place in (folder, folder / "figures")))
    for number, (answer, folder) in enumerate(zip(patient.answers, sample_folders(patient, out), strict=True)):
        _write_sample(answer, folder, about, seed, drawn, number)
        _write_solutions(answer, folder, known)
    if len(patient.answers) > 1:
        _write_joint(patient, out, about, seed, drawn)


def sample_folders(patient: Patient, out: Path) -> list[Path]:
    """The directory of every sample."""
    return [out] if len(patient.answers) == 1 else [out / file_name(sample) for sample in patient.samples]


def _write_sample(
    answer: Answer, out: Path, about: Mapping[str, Any], seed: int, drawn: CopyDraws, number: int
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_table(out / "solutions.tsv", *solution_table(answer, seed))
    write_table(out / "purity-ploidy.tsv", *landscape_table(answer.landscapes))
    write_table(out / "bins.tsv", *bin_table(answer))
    _write_draws(out, drawn, purity=drawn.purities[number])
    content = summary(answer, seed)
    _write_json(out / "summary.json", {**about, **content})
    _write_json(out / "chiasma_mqc.json", multiqc(answer, content))


def _write_solutions(answer: Answer, out: Path, known: Assembly | None) -> None:
    for i, solution in enumerate(that_matter(answer), start=1):
        folder = out / f"solution_{i}"
        folder.mkdir(exist_ok=True)
        write_solution(answer.data, solution.best, folder, known)


def _write_joint(patient: Patient, out: Path, about: Mapping[str, Any], seed: int, drawn: CopyDraws) -> None:
    write_table(out / "solutions.tsv", *joint_table(patient, seed))
    write_table(out / "clone_fractions.tsv", *fraction_table(patient))
    _write_draws(out, drawn, purity=drawn.purities, sample=np.array(patient.samples))
    _write_json(out / "summary.json", {**about, **patient_summary(patient, seed)})
    for i in range(len(that_matter(patient.answers[0]))):
        folder = out / f"solution_{i + 1}"
        folder.mkdir(exist_ok=True)
        write_table(folder / "clones.tsv", *clone_table(patient, i))


def _write_draws(out: Path, drawn: CopyDraws, **own: Any) -> None:
    with atomic.whole_file(out / "draws.npz") as partial, partial.open("wb") as file:
        np.savez_compressed(file, solution=drawn.solution, copies=drawn.copies, **own)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    atomic.write_text(path, json.dumps(content, indent=2) + "\n")


def that_matter(answer: Answer) -> list[Solution]:
    return [one for i, one in enumerate(answer.solutions) if i < MOST_LIKELY or one.probability >= MATTERS]


def write_solution(data: TumourData, explanation: Explanation, folder: Path, known: Assembly | None = None) -> None:
    """The files of one solution."""
    found = segments(data, explanation)
    sample = data.bins.sample
    name = file_name(sample)
    write_table(folder / "segments.tsv", *segment_table(found, explanation))
    atomic.write_text(folder / f"{name}.seg", seg_text(found, sample))
    atomic.write_text(folder / f"{name}.bed", bed_text(found, sample))
    atomic.write_text(folder / f"{name}.vcf", vcf_text(found, data, explanation, known))


def chance(probability: float) -> str:
    """A probability to be read: ">0.999" rather than 1, "<1e-6" rather than zeros.

    >>> chance(0.99996), chance(0.9973), chance(0.0352), chance(3e-9)
    ('>0.999', '0.997', '0.035', '<1e-6')
    """
    if probability > 0.999:
        return ">0.999"
    if probability < 1e-6:
        return "<1e-6"
    return f"{probability:.3f}" if probability > 0.99 else f"{probability:.2g}"


def interval(entry: Mapping[str, Any]) -> str:
    """The 90% interval of the purity, with a digit more if it is narrow.

    >>> interval({"purity_low": 0.5512, "purity_high": 0.6}), interval({"purity_low": 0.887, "purity_high": 0.894})
    ('0.55-0.60', '0.887-0.894')
    """
    low, high = entry["purity_low"], entry["purity_high"]
    digits = 3 if high - low < 0.02 else 2
    return f"{low:.{digits}f}-{high:.{digits}f}"


# ---- Tables ----------------------------------------------------------------------------------------------------------

Lines = tuple[list[str], Iterable[Iterable[Any]]]


def purity_interval(solution: Solution, answer: Answer, seed: int = 0) -> tuple[float, float]:
    """90% of the posterior of the purity, given a solution."""
    rng = np.random.default_rng(seed)
    parts = [
        one.purities(round(share * N_PURITIES), answer.bounds, rng)
        for one, share in zip(solution.explanations, solution.shares, strict=True)
    ]
    low, high = np.quantile(np.concatenate(parts), INTERVAL)
    return float(low), float(high)


def solution_entries(answer: Answer, seed: int = 0) -> list[dict[str, Any]]:
    """Every solution as names and numbers."""
    found: list[dict[str, Any]] = []
    for i, solution in enumerate(answer.solutions, start=1):
        best = solution.best
        low, high = purity_interval(solution, answer, seed)
        wrong = misfit(answer.data, best)
        length = answer.bins.end - answer.bins.start
        fractions = best.parameters.clone_fractions
        labels = ("normal", *clone_names(best.parameters.n_clones))
        found.append(
            {
                "rank": i,
                "probability": solution.probability,
                "purity": solution.purity,
                "purity_low": low,
                "purity_high": high,
                "ploidy": solution.ploidy,
                "clones": best.parameters.n_clones,
                "clone_fractions": dict(zip(labels, fractions, strict=True)),
                "doubled": solution.doubled,
                "altered": float(np.average(best.altered, weights=length)),
                "log_evidence": best.log_evidence,
                "log_likelihood": best.log_likelihood,
                "log_mass": best.log_mass,
                "unexplained": wrong.unexplained,
                "above_highest_level": wrong.above,
                "residual_autocorrelation": wrong.autocorrelation,
                "waves": wrong.waves,
                "findings": [*wrong.findings(i), *equal_clones(best)],
            }
        )
    if found and not answer.flat:
        found[0]["findings"] += [*tempered(answer), *too_few_clones(answer), *better_fits(found, answer.tempered)]
        if answer.bins.lacking:
            found[0]["findings"].insert(0, uncorrected(answer.bins))
    if answer.flat:  # two copies everywhere fit as well, so the probabilities of solutions are meaningless
        for entry in found:
            del entry["probability"]
        if found:
            found[0]["findings"].insert(0, Finding("flat", "none"))
    return found


def solution_table(answer: Answer, seed: int = 0) -> Lines:
    entries = solution_entries(answer, seed)
    names = [name for name in entries[0] if name != "findings"] if entries else []
    rows = [
        [_cell(name, entry[name]) for name in names] + [" ".join(one.code for one in entry["findings"]) or "none"]
        for entry in entries
    ]
    return [*names, "findings"], rows


def _cell(name: str, value: Any) -> Any:
    if name == "clone_fractions":
        return "; ".join(f"{clone} {share:.3f}" for clone, share in value.items())
    if name in ("log_evidence", "log_likelihood", "log_mass"):
        return f"{value:.2f}"
    return f"{value:.5g}" if isinstance(value, float) else value


def landscape_table(landscapes: Mapping[bool, Landscape]) -> Lines:
    """purity, ploidy, log evidence of one clone, of a genome that was not doubled and of one that was."""
    single, doubled = landscapes[False], landscapes[True]
    rows = []
    for i, purity in enumerate(single.purities):
        ploidy = single.ploidy(np.array(purity), single.scales)
        for j in range(len(single.scales)):
            if np.isfinite(single.log_evidence[i, j]):
                pair = single.log_evidence[i, j], doubled.log_evidence[i, j]
                rows.append([f"{purity:.3f}", f"{ploidy[j]:.4f}", *(f"{height:.2f}" for height in pair)])
    return ["purity", "ploidy", "log_evidence", "log_evidence_doubled"], rows


def segment_table(found: Iterable[CopySegment], explanation: Explanation) -> Lines:
    clones = clone_names(explanation.parameters.n_clones)
    alleles = explanation.states.alleles
    names = ["chromosome", "start", "end", "bins", "depth_mean", "log2", "minor_allele_fraction", "mean_copies"]
    for clone in clones:
        names += [f"{clone}_state", *([f"{clone}_major", f"{clone}_minor"] if alleles else []), f"{clone}_total"]
    names += ["probability", "rivals"]
    rows = []
    for one in found:
        cells: list[Any] = [one.chromosome, one.start, one.end, one.stop - one.first]
        cells += [_short(x) for x in (one.depth, one.log2, one.minor_fraction, one.copies)]
        for state in one.clones:
            cells += [state.text, *([state.major, state.minor] if alleles else []), state.total]
        rivals = "; ".join(f"{text}: {share:.3f}" for text, share in one.rivals) or "none"
        rows.append([*cells, f"{one.probability:.4f}", rivals])
    return names, rows


def bin_table(answer: Answer) -> Lines:
    """Data of every bin, and P(total copies of the main clone) over all solutions; the last: that many or more."""
    bins = answer.bins
    share = copy_probabilities(answer)
    names = ["chromosome", "start", "end", "depth", "weight", "copies", *(f"p_cn{n}" for n in range(share.shape[1]))]
    rows = (
        [
            bins.chromosome[t],
            bins.start[t],
            bins.end[t],
            _short(bins.depth[t]),
            _short(bins.weight[t]),
            share[t].argmax(),
        ]
        + [f"{p:.4f}" for p in share[t]]
        for t in range(bins.n_bins)
    )
    return names, rows


def copy_probabilities(answer: Answer) -> Floats:
    """(T, n) P(total copies of the main clone = 0..n-2, or n-1 and more), over all solutions."""
    every = [(solution.probability * share, one) for solution in answer.solutions for share, one in _shares(solution)]
    most = int(max(one.states.totals.max() for _, one in every))
    out = np.zeros((answer.bins.n_bins, most + 1))
    for weight, one in every:
        for s, total in enumerate(one.states.totals.astype(int)):
            out[:, total] += weight * one.main[:, s]
    return out / out.sum(axis=1, keepdims=True)


def _shares(solution: Solution) -> list[tuple[float, Explanation]]:
    return list(zip(solution.shares.tolist(), solution.explanations, strict=True))


def draws(answers: Sequence[Answer], n: int, seed: int = 0) -> CopyDraws:
    """Draws from the posterior of samples that were explained together, or of one; solutions in proportion."""
    rng = np.random.default_rng(seed)
    first = answers[0]
    # Of every explanation: the number of its solution, its probability, and the explanations of all samples.
    every = [
        (i, own[0].probability * share, joint)
        for i, own in enumerate(zip(*(answer.solutions for answer in answers), strict=True), start=1)
        for share, *joint in zip(own[0].shares, *(one.explanations for one in own), strict=True)
    ]
    weights = np.array([weight for _, weight, _ in every])
    counts = rng.multinomial(n, weights / weights.sum())
    numbers: list[int] = []
    copies, purities = [], []
    for (i, _, joint), k in zip(every, counts, strict=True):
        if k:
            parameters = [one.parameters for one in joint]
            columns = [
                a.data.columns(one.parameters.slack, 1 - one.free_level, one.known)
                for a, one in zip(answers, joint, strict=True)
            ]
            model = model_of(columns, parameters, first.most, joint[0].probabilities)
            codes = exact.draws(model, observations_of(columns), int(k), int(rng.integers(2**63)))
            paths = unpack_codes(codes, model.layout)[:, model.row_number("main")]
            copies.append(joint[0].states.totals.astype(np.int8)[paths])
            numbers += [i] * int(k)
            purities.append([one.purities(int(k), a.bounds, rng) for one, a in zip(joint, answers, strict=True)])
    return CopyDraws(np.array(numbers), np.concatenate(copies), np.concatenate(purities, axis=1))


# ---- JSON ------------------------------------------------------------------------------------------------------------


def summary(answer: Answer, seed: int = 0) -> dict[str, Any]:
    """Content of summary.json for one sample."""
    purities = answer.purity_draws(N_PURITIES, seed)
    low, high = np.quantile(purities, INTERVAL)
    entries = solution_entries(answer, seed)
    return {
        "sample": answer.bins.sample,
        "source": answer.bins.source,
        "kind": answer.bins.kind,
        "notes": list(answer.bins.notes),
        **({"together": list(answer.together)} if answer.together else {}),
        "bins": answer.bins.n_bins,
        "alleles": answer.data.has_alleles,
        "verdict": FLAT if answer.flat else verdict(answer),
        "flat": answer.flat,
        "purity": None if answer.flat else {"mean": float(purities.mean()), "low": float(low), "high": float(high)},
        "noise": answer.data.reference.sd / answer.data.reference.unit,
        "log_evidence_without_changes": answer.null_log_evidence,
        "tempered": answer.tempered,
        "decision": decision_entry(entries, answer.tempered),
        "family": [] if answer.flat else [one.entry() for one in family([answer])],
        "trust": trust_in(entries[0]["findings"]) if entries else "none",
        "solutions": [_plain(entry) for entry in entries],
    }


def decision_entry(entries: Sequence[dict[str, Any]], tempered: float) -> dict[str, Any] | None:
    """What decides between the first two solutions, and by how much; None if there is only one."""
    found = first_decision(entries, tempered)
    if found is None:
        return None
    return {"by": found.by, **asdict(found)}


def _plain(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A solution, ready for JSON."""
    return {**entry, "findings": [one.to_dict() for one in entry["findings"]]}


def verdict(answer: Answer) -> str:
    """The answer in a sentence."""
    if answer.flat:
        return FLAT
    first = answer.solutions[0]
    told = f"purity {first.purity:.2f}, ploidy {first.ploidy:.2f} with probability {chance(first.probability)}"
    if len(answer.solutions) > 1 and answer.solutions[1].probability > 0.01:
        rival = answer.solutions[1]
        told += f"; else purity {rival.purity:.2f}, ploidy {rival.ploidy:.2f} with {chance(rival.probability)}"
    return told + _by_prior(answer)


def _by_prior(answer: Answer) -> str:
    """Addition to the verdict if the prior decides between the first two solutions."""
    if len(answer.solutions) < 2:
        return ""
    first, other = (vars(one.best) for one in answer.solutions[:2])
    lead = Decision.between(first, other, answer.tempered)
    return "" if lead.by != "prior" else f". {decided(lead, 2).removesuffix('.')}"


def multiqc(answer: Answer, content: Mapping[str, Any]) -> dict[str, Any]:
    """A table of MultiQC's custom content, one line per sample."""
    first = content["solutions"][0] if content["solutions"] else {}
    numbers = {
        name: first.get(name) for name in ("purity", "ploidy", "probability", "clones", "doubled", "unexplained")
    }
    if answer.flat:
        numbers = {"verdict": FLAT}
    return {
        "id": "chiasma_tumour",
        "section_name": "chiasma: purity, ploidy and clones",
        "description": "The most probable solution of every sample; its directory has the rivals.",
        "plot_type": "table",
        "data": {answer.bins.sample: numbers},
    }


# ---- Several samples together ----------------------------------------------------------------------------------------


def joint_table(patient: Patient, seed: int = 0) -> Lines:
    """One line per solution and sample."""
    tables = [solution_table(answer, seed) for answer in patient.answers]
    names = tables[0][0]
    rows = [
        [row[0], sample, *row[1:]]
        for together in zip(*(list(map(list, rows)) for _, rows in tables), strict=True)
        for sample, row in zip(patient.samples, together, strict=True)
    ]
    return [names[0], "sample", *names[1:]], rows


def fraction_table(patient: Patient) -> Lines:
    """Shares of all cells of normal cells and of every clone."""
    rows = []
    for i in range(patient.n_solutions):
        for sample, answer in zip(patient.samples, patient.answers, strict=True):
            fractions = answer.solutions[i].best.parameters.clone_fractions
            names = ["normal", *clone_names(len(fractions) - 1)]
            rows += [[i + 1, sample, name, f"{share:.4f}"] for name, share in zip(names, fractions, strict=True)]
    return ["rank", "sample", "clone", "fraction"], rows


def clone_table(patient: Patient, number: int) -> Lines:
    """Segments of a solution: the states of the clones, then the data of every sample."""
    names: list[str] = []
    rows: list[list[Any]] = []
    for sample, answer in zip(patient.samples, patient.answers, strict=True):
        own = answer.solutions[number].best
        heading, lines = segment_table(segments(answer.data, own), own)
        mine = [heading.index(name) for name in OWN_DATA]
        cells = [list(line) for line in lines]
        if not names:
            shared = [i for i in range(len(heading)) if i not in mine]
            names = [heading[i] for i in shared]
            rows = [[line[i] for i in shared] for line in cells]
        names += [f"{heading[i]}_{sample}" for i in mine]
        for row, line in zip(rows, cells, strict=True):
            row += [line[i] for i in mine]
    return names, rows


def patient_summary(patient: Patient, seed: int = 0) -> dict[str, Any]:
    """Content of summary.json for the patient; with one sample, the summary of that sample."""
    if len(patient.answers) == 1:
        return summary(patient.answers[0], seed)
    entries = [solution_entries(answer, seed) for answer in patient.answers]
    return {
        "verdict": patient_verdict(patient),
        "flat": patient.flat,
        "tempered": patient.answers[0].tempered,
        "decision": decision_entry(entries[0], patient.answers[0].tempered),
        "family": [] if patient.flat else [one.entry() for one in family(patient.answers)],
        "solutions": [
            {
                "rank": i + 1,
                **({} if patient.flat else {"probability": together[0]["probability"]}),
                "clones": together[0]["clones"],
                "doubled": together[0]["doubled"],
                "log_evidence": together[0]["log_evidence"],
                "samples": {
                    sample: {name: entry[name] for name in ("purity", "purity_low", "purity_high", "ploidy")}
                    | {"clone_fractions": entry["clone_fractions"], "findings": _plain(entry)["findings"]}
                    for sample, entry in zip(patient.samples, together, strict=True)
                },
            }
            for i, together in enumerate(zip(*entries, strict=True))
        ],
        "samples": [summary(answer, seed) for answer in patient.answers],
    }


def joint_findings(samples: Sequence[str], entries: Sequence[Sequence[Mapping[str, Any]]]) -> list[tuple[str, Finding]]:
    """The findings about the first solution, and in which samples; the same finding of several samples is one."""
    found: list[tuple[list[str], Finding]] = []
    for sample, own in zip(samples, entries, strict=True):
        for finding in own[0]["findings"]:
            known = next((names for names, one in found if one == finding), None)
            if known is None:
                found.append(([sample], finding))
            else:
                known.append(sample)
    return [(", ".join(names), finding) for names, finding in found]


def patient_verdict(patient: Patient) -> str:
    """The answer of the patient in a sentence."""
    if len(patient.answers) == 1:
        return f"{patient.samples[0]}: {verdict(patient.answers[0])}"
    if patient.flat:
        return FLAT
    firsts = [answer.solutions[0] for answer in patient.answers]
    each = "; ".join(
        f"{sample}: purity {one.purity:.2f}, ploidy {one.ploidy:.2f}"
        for sample, one in zip(patient.samples, firsts, strict=True)
    )
    return f"{each}; with probability {chance(firsts[0].probability)}{_by_prior(patient.answers[0])}"


# ---- Formats of other programs ---------------------------------------------------------------------------------------


def seg_text(found: Iterable[CopySegment], sample: str) -> str:
    """SEG as IGV reads it: positions from 1, log2 of depth relative to two copies."""
    lines = ["ID\tchrom\tloc.start\tloc.end\tnum.mark\tseg.mean"]
    for one in found:
        mean = "NA" if np.isnan(one.log2) else f"{one.log2:.4f}"
        lines.append(f"{sample}\t{one.chromosome}\t{one.start + 1}\t{one.end}\t{one.stop - one.first}\t{mean}")
    return "\n".join(lines) + "\n"


def bed_text(found: Iterable[CopySegment], sample: str) -> str:
    """BED9 with colours: green where an allele is lost and the other is not, else gains red and losses blue; the score
    is the probability.
    """
    lines = [f'track name="{sample}" description="copy numbers of the clones" itemRgb="On"']
    for one in found:
        score, place = round(1000 * one.least_probability), f"{one.start}\t{one.end}"
        name = "|".join(state.text for state in one.clones)
        lines.append(f"{one.chromosome}\t{place}\t{name}\t{score}\t.\t{place}\t{_colour(one.seen)}")
    return "\n".join(lines) + "\n"


def _colour(state: CloneState) -> str:
    if state.lost:
        return LOH
    return NEUTRAL if state.total == 2 else GAIN if state.total > 2 else LOSS


def contig_lengths(bins: Bins, known: Assembly | None) -> dict[str, int]:
    """Lengths of the chromosomes: of the assembly, else as the file states them, else up to the end of the last bin."""
    found = {}
    for name, stop in zip(bins.chromosomes, [*bins.starts[1:], bins.n_bins], strict=True):
        length = known.lengths.get(same_chromosome(name)) if known is not None else None
        found[name] = length or bins.lengths.get(name) or int(bins.end[stop - 1])
    return found


def vcf_text(
    found: Iterable[CopySegment], data: TumourData, explanation: Explanation, known: Assembly | None = None
) -> str:
    """VCF 4.4: a record for every segment that is not as in normal cells."""
    bins = data.bins
    lengths = contig_lengths(bins, known)
    own: TumourParameters = explanation.parameters
    lines = [
        "##fileformat=VCFv4.4",
        "##source=chiasma",
        f"##purity={own.purity:.4f}",
        f"##ploidy={explanation.ploidy:.4f}",
        *([f"##reference={known.name}"] if known else []),
        *(f"##contig=<ID={name},length={lengths[name]}>" for name in bins.chromosomes),
        '##ALT=<ID=DUP,Description="More than two copies in the largest clone">',
        '##ALT=<ID=DEL,Description="Fewer than two copies in the largest clone">',
        '##ALT=<ID=CNV,Description="Two copies in the largest clone: one allele lost, or another clone differs">',
        '##INFO=<ID=END,Number=1,Type=Integer,Description="End of the segment">',
        '##INFO=<ID=SVLEN,Number=A,Type=Integer,Description="Length of the segment">',
        '##INFO=<ID=SVCLAIM,Number=A,Type=String,Description="D: claimed by depth">',
        '##INFO=<ID=LOH,Number=0,Type=Flag,Description="The largest clone has lost one allele and kept the other">',
        '##INFO=<ID=RIVALS,Number=.,Type=String,Description="Other states of the main clone and their probabilities">',
        '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype, not called">',
        '##FORMAT=<ID=CN,Number=1,Type=Float,Description="Copies in the clone with the largest share of the sample">',
        '##FORMAT=<ID=CNQ,Number=1,Type=Float,Description="Phred-scaled probability that CN is wrong">',
        '##FORMAT=<ID=MCN,Number=1,Type=Float,Description="Copies of the minor allele in it">',
        '##FORMAT=<ID=MEANCN,Number=1,Type=Float,Description="Mean copies over all tumour cells">',
        f"#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t{bins.sample}",
    ]
    normal = explanation.states.texts[explanation.states.pairs.index(explanation.states.normal)]
    for i, one in enumerate(found, start=1):
        if all(state.text == normal for state in one.clones):
            continue
        quality = min(99.0, -10 * np.log10(max(1 - one.least_probability, 1e-10)))
        rivals = ",".join(f"{text}:{share:.3f}" for text, share in one.rivals)
        # The base before a segment is its position; a segment at the very beginning has none.
        position = max(one.start, 1)
        end = min(one.end, lengths[one.chromosome])  # the last bin may reach past the end
        info = f"END={end};SVLEN={end - position};SVCLAIM=D" + (";LOH" if one.seen.lost else "")
        info += f";RIVALS={rivals}" if rivals else ""
        kind = "CNV" if one.seen.total == 2 else "DUP" if one.seen.total > 2 else "DEL"
        minor = str(one.seen.minor) if explanation.states.alleles else "."
        sample = f"./.:{one.seen.total}:{quality:.1f}:{minor}:{one.copies:.2f}"
        cells = [one.chromosome, position, f"cnv{i}", "N", f"<{kind}>", f"{quality:.1f}", "PASS", info]
        lines.append("\t".join(map(str, [*cells, "GT:CN:CNQ:MCN:MEANCN", sample])))
    return "\n".join(lines) + "\n"


def _short(value: float) -> str:
    return "NA" if np.isnan(value) else f"{value:.5g}"


def file_name(sample: str) -> str:
    """A sample's name without characters that are special in paths."""
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in sample)
