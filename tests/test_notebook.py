"""What a notebook shows: HTML of models and results with every text escaped, completion, signatures."""

import inspect
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import chiasma as ch

EVIL = "<script>alert(1)</script>&[red]"
QUICK = {"update": "exact", "exchange": None, "draws": 20, "warmup": 20, "chains": 2, "seed": 1, "progress": False}


class Page(HTMLParser):
    """Tags and texts of a piece of HTML."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.texts = [], set(), []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def evil_model():
    rows = [
        ch.Row([0, 1.0, 2.0], ch.Sticky(0.1), name=EVIL),
        ch.Row([0, 1], ch.Switch(0.1, 0.1), name="lamp", copies=2, weight=ch.Gamma(2, 1)),
        ch.Row([0, 5], fixed=1),
    ]
    return ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.5))


def test_model__shows_rows_and_arguments_escaped():
    page = Page(evil_model()._repr_html_())
    assert "script" not in page.tags
    assert page.tags == {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    for text in (EVIL, "lamp", "0, 1, 2", "learned, prior Gamma(2, 1)", "fixed at 1", "row_3", "0.5"):
        assert text in page.texts


def test_model__of_switches_shows_every_argument():
    model = ch.FactorialHMM(
        rows=ch.Switches(ch.Beta(1, 99), 0.02),
        emission=ch.NegativeBinomial([1.0, 2.0], depth=30.0, dispersion=0.25),
        fixed={1: 1},
    )
    page = Page(model._repr_html_())
    for text in ("FactorialHMM: 2 rows, NegativeBinomial", "learned, prior Beta(1, 99)", "0.02", "1, 2", "30", "0.25"):
        assert text in page.texts
    assert "{1: 1}" in page.texts


@pytest.mark.parametrize(
    "emission",
    [ch.Custom(lambda y, level: -((y - level) ** 2), [1.0]), ch.Table(np.zeros((40, 2))), ch.Gaussian([[1.0, 2.0]])],
    ids=["custom", "table", "channels"],
)
def test_model__any_emission_is_shown(emission):
    page = Page(ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=emission)._repr_html_())
    assert {"<lambda>()", "array of shape (40, 2)", "(1, 2)"} & set(page.texts)


def test_posterior__shows_the_run_and_what_it_learned():
    posterior = ch.sample(evil_model(), [5.1, 6.0, 7.2], **QUICK)
    page = Page(posterior._repr_html_())
    assert "2 chains × 20 draws × 3 sites, 4 rows" in page.texts
    mean = float(posterior.parameters["lamp.weight"].mean())
    assert any(text.startswith(f"{mean:.4g} (posterior mean)") for text in page.texts)
    assert posterior.info["plan"] in page.texts


def test_posterior__of_a_density_and_with_evidence():
    density = ch.Density(lambda x: -(x**2).sum(axis=1), size=2, init=[0.0, 0.0], update=ch.RandomWalk())
    plain = ch.sample(density, ladder=[1, 2], draws=5, warmup=5, chains=1, seed=1, progress=False)
    assert "1 chain × 5 draws × 2 coordinates" in Page(plain._repr_html_()).texts
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0]))
    exact = ch.sample(model, [0.1, 1.0], draws=5, seed=1, progress=False)
    assert f"{ch.exact.log_evidence(model, [0.1, 1.0]):.3f} (exact)" in Page(exact._repr_html_()).texts


def test_tables__are_text_and_html_in_a_notebook_as_well(monkeypatch):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    models = {EVIL: ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0]))}
    found = ch.compare(models, [0.1, 1.0])
    assert EVIL in str(found)
    page = Page(found._repr_html_())
    assert page.tags <= {"pre", "span"}
    assert EVIL in "".join(page.texts)
    summary = ch.sample(models[EVIL], [0.1, 1.0], draws=20, seed=1, progress=False).summary()
    assert "R-hat" in str(summary)


COMPLETION = """
import chiasma as ch
names = dir(ch)
import sys
assert "numba" not in sys.modules and "matplotlib" not in sys.modules
print(" ".join(names))
"""


def test_completion__lists_the_public_names_and_loads_nothing():
    done = subprocess.run([sys.executable, "-c", COMPLETION], capture_output=True, text=True, check=True)
    assert set(ch.__all__) <= set(done.stdout.split())
    assert not [name for name in done.stdout.split() if name.startswith("_") and not name.startswith("__")]


def test_signatures__name_every_argument():
    assert {"sheet", "model", "workers", "resume"} <= set(inspect.signature(ch.cohort).parameters)
    assert inspect.getdoc(ch.cohort).startswith("Fit many samples")
    for name in ch.__all__:
        thing = getattr(ch, name)
        if callable(thing) and not (isinstance(thing, type) and issubclass(thing, Exception)):
            kinds = {parameter.kind for parameter in inspect.signature(thing).parameters.values()}
            assert inspect.Parameter.VAR_POSITIONAL not in kinds, name
