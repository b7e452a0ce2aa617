"""The answers of a run in words: what was found, how sure it is, what to distrust, what to do next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chiasma.report.page import TONES, Verdict, judged
from chiasma.results.findings import Finding, advice, arguments, message, percent
from chiasma.results.rivals import CERTAIN, SERIOUS, Region, Rival
from chiasma.results.summary import Summary
from chiasma.types import count

Where = Callable[[int, int], str]

# Rows of a state that are listed.
SHOWN_ROWS = 8


def answers(
    summary: Summary,
    regions: Sequence[Region],
    doubtful: Sequence[Region],
    where: Where,
    command: Where,
    rows: Sequence[str],
    sequences: str,
    interrupted: str = "",
    options: Callable[[Finding], list[str]] = arguments,
) -> list[Verdict]:
    """The verdicts at the top of a report: first whether to trust it, and then why not.

    where : the location of sites start..stop-1 in words. command : the one that shows them. rows : their names.
    sequences : how many there are, in words. interrupted : how far a run came that has not all its draws. options : the
    remedies of a finding.
    """
    found = [
        *([Verdict(tone="bad", answer="The run was interrupted:", text=interrupted)] if interrupted else []),
        _found(regions, doubtful, sequences),
        *_rivals(regions, doubtful, where, command, rows),
        *_how_sure(regions),
        *_sampling(summary),
        *_fit(summary),
        _next(summary, doubtful, rows),
    ]

    def verdict(one: Finding) -> Verdict:
        return Verdict(tone=TONES[one.severity], answer=message(one, summary.place), text=advice(options(one)))

    return judged(summary.findings, summary.headline, found, verdict)


def _found(regions: Sequence[Region], doubtful: Sequence[Region], sequences: str) -> Verdict:
    measured = [one for one in regions if one.segment.n_data]
    certain = len(measured) - len(doubtful)
    blank = len(regions) - len(measured)
    more = (
        f" Another {count(blank, 'segment')} without any data {'is' if blank == 1 else 'are'} left out."
        if blank
        else ""
    )
    single = sum(one.segment.n_data == 1 for one in measured)
    # However probable a state is there: a model without outliers has no other explanation.
    has = "has" if single == 1 else "have"
    alone = f" {single:,} of them {has} a single value (n_data in segments.tsv is 1), which may be an outlier."
    return Verdict(
        tone="note",
        answer=f"{count(len(measured), 'segment')} found{sequences}.",
        text=f"In {certain:,} of them one state of the rows has a probability of {CERTAIN:.0%} or more."
        f"{alone if single else ''}{more}",
    )


def _rivals(
    regions: Sequence[Region], doubtful: Sequence[Region], where: Where, command: Where, rows: Sequence[str]
) -> list[Verdict]:
    if not doubtful:
        text = f"There are no rivals, given {_these(rows)}."
        return [Verdict(tone="good", answer="Every segment has one explanation.", text=text)]
    n_data = sum(one.segment.n_data for one in regions)
    share = sum(one.segment.n_data for one in doubtful)
    several = sum(len(one.serious) > 1 for one in doubtful)
    worst = doubtful[0]
    ends = worst.segment.start, worst.segment.stop
    place = where(*ends)
    listed = in_words(worst.serious or worst.explanations[:2], rows)
    return [
        Verdict(
            tone="doubt",
            answer=f"{count(len(doubtful), 'segment')} {'is' if len(doubtful) == 1 else 'are'} not certain.",
            text=f"No state has a probability of {CERTAIN:.0%} there; {several:,} of them "
            f"{'has' if several == 1 else 'have'} two explanations or more (states of {SERIOUS:.0%} or more). They "
            f"cover {share:,} of the {n_data:,} sites with data ({share / n_data:.0%}).",
        ),
        Verdict(
            tone="doubt",
            answer=f"The most doubtful place is {place}: {count(len(worst.serious), 'explanation')}.",
            text=" ".join(filter(None, (f"{listed}.", same_level_text(worst), f"To look at it: {command(*ends)}"))),
        ),
    ]


def _these(rows: Sequence[str]) -> str:
    return "this one row" if len(rows) == 1 else f"these {len(rows):,} rows"


def in_words(explanations: Sequence[Rival], rows: Sequence[str]) -> str:
    """States with the rows that are on and their probabilities.

    >>> one = Rival(code=1, states=(1, 0, 2), probability=0.52, level=None, arrangements=1)
    >>> in_words([one], ["kettle", "lamp", "washer"])
    's102 (kettle, washer=2) with 52%'
    """
    texts = []
    for one in explanations:
        on = [name if state == 1 else f"{name}={state}" for name, state in zip(rows, one.states, strict=True) if state]
        shown = ", ".join(on[:SHOWN_ROWS]) + (", ..." if len(on) > SHOWN_ROWS else "")
        texts.append(f"{one.name} ({shown or 'no row on'}) with {one.probability:.0%}")
    return "; ".join(texts)


def same_level_text(region: Region) -> str:
    """Whether the data can tell the explanations of a region apart."""
    levels = [one.level for one in region.serious]
    if region.same_level and levels[0] is not None:
        return (
            f"{'Both' if len(levels) == 2 else 'All'} give the same signal, {levels[0]:.5g}: the data cannot tell them "
            "apart. Their probabilities reflect only what the model assumes about how often rows switch."
        )
    if len(levels) > 1 and None not in levels:
        apart = apart_text(region)
        noise = f"; at one site the first two are {apart} in units of the noise" if apart else ""
        return f"They give the signals {', '.join(f'{level:.5g}' for level in levels)}{noise}."
    return ""


def apart_text(region: Region) -> str:
    """How far the signals of the first two explanations are apart, in units of the noise; nothing if unknown."""
    if region.apart is None:
        return ""
    if region.apart == 0:
        return "the same"
    return f"{region.apart:.2g} sd apart" if region.apart < 100 else "more than 99 sd apart"


def _how_sure(regions: Sequence[Region]) -> list[Verdict]:
    n_data = sum(one.segment.n_data for one in regions)
    if not n_data:
        return [Verdict(tone="bad", answer="There are no data.", text="All sites are missing.")]
    doubt = sum(one.segment.doubt for one in regions)
    level = [(one.segment.n_data, one.level_probability) for one in regions]
    more = ""
    if all(p is not None for _, p in level):
        surer = sum(n * (p or 0.0) for n, p in level) / n_data
        if surer > 1 - doubt / n_data + 0.001:
            more = f"The level is more certain: it is right with a mean probability of {percent(surer)}."
    answer = f"Expect {doubt:,.0f} of {n_data:,} sites to be wrong in at least one row."
    return [Verdict(tone="note", answer=answer, text=more)]


def _sampling(summary: Summary) -> list[Verdict]:
    if any(one.about == "run" for one in summary.findings):
        return []
    if summary.run.get("independent"):
        text = "All draws from the posterior are independent, so nothing had to converge."
        return [Verdict(tone="good", answer="The draws are exact.", text=text)]
    rhats = [part.rhat_worst for part in summary.convergence if part.rhat_worst == part.rhat_worst]
    sizes = [part.ess_worst for part in summary.convergence if part.ess_worst == part.ess_worst]
    text = f"Worst R-hat {max(rhats):.3f}, fewest effective draws {min(sizes):,.0f}." if rhats and sizes else ""
    return [Verdict(tone="good", answer="The chains agree.", text=text)]


def _fit(summary: Summary) -> list[Verdict]:
    if summary.misfit is None:
        return [Verdict(tone="note", answer="The fit was not checked:", text="the model has no residuals.")]
    if any(one.about == "fit" for one in summary.findings):
        return []
    text = f"Residuals: {summary.misfit.text}. A good fit does not separate rivals with the same signal."
    if not summary.parameters:
        text += " The parameters of the model (weights, noise, switching) were given, not learned."
    return [Verdict(tone="good", answer="The model fits the data.", text=text)]


def _next(summary: Summary, doubtful: Sequence[Region], rows: Sequence[str]) -> Verdict:
    if summary.trust == "none":
        text = "Try the remedies of the first finding and fit again. Do not use the probabilities below."
    elif not doubtful:
        text = (
            f"Use segments.tsv. It is conditional on {_these(rows)}; to compare other numbers of rows, compare their "
            "evidence (ch.compare in Python, or a fit of each with --evidence and the same priors)."
        )
    elif any(one.same_level for one in doubtful):
        text = (
            "Use segments.tsv for the certain segments. For the others, report all of them with their "
            "probabilities (explanations.tsv), not only the first. More data of this kind cannot separate explanations "
            "with the same signal; a second measurement with other weights can, or a row that is known (fixed)."
        )
    else:
        text = (
            "Use segments.tsv for the certain segments. For the others, report all of them with their "
            "probabilities (explanations.tsv); more sites or less noise can separate them."
        )
    if summary.trust == "limited":
        text = f"Read the findings above first. {text}"
    return Verdict(tone="note", answer="What to do next:", text=text)
