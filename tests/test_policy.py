"""The Content-Security-Policy of every page: exactly the scripts that it has inside may run, and nothing is loaded."""

import hashlib
from base64 import b64encode
from html.parser import HTMLParser

import numpy as np
import pytest

from chiasma.cohort.directory import CohortDirectory, Outcome
from chiasma.cohort.page import write_page
from chiasma.io.settings import Settings
from chiasma.report.fitting import fit_file
from chiasma.report.page import render
from chiasma.report.run_directory import RunDirectory


class Page(HTMLParser):
    """The policy and the scripts of a page, as a browser finds them."""

    def __init__(self, text):
        super().__init__()
        self.policy, self.scripts, self.foreign, self._in_script = None, [], [], False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if given.get("http-equiv") == "Content-Security-Policy":
            assert self.policy is None
            assert not self.scripts  # a policy holds from where it is
            parts = (part.strip().split(" ") for part in given["content"].split(";"))
            self.policy = {name: allowed for name, *allowed in parts}
        self._in_script = tag == "script" and given.get("type") != "application/json"
        if self._in_script:
            self.scripts.append("")
        source = given.get("src", "") if tag != "link" else given.get("href", "")
        if source and not source.startswith("data:"):
            self.foreign.append(source)
        assert not [name for name in given if name.startswith("on")]  # no policy but unsafe-inline allows them

    def handle_data(self, text):
        if self._in_script:
            self.scripts[-1] += text

    def handle_endtag(self, tag):
        self._in_script = False


def hashed(script):
    return f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def cohort_page(tmp_path):
    outcome = Outcome(name="a", status="done", seed=1, error="<script>steal()</script>")
    directory = CohortDirectory(tmp_path)
    write_page(directory, [outcome], "nothing")
    return directory.page.read_text()


def report(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("value\n" + "\n".join(map(str, np.arange(40) % 3)) + "\n")
    model = {"weights": [1.0, 1.0], "enter": 0.1, "leave": 0.1, "sd": 1.0}
    settings = Settings(model=model, sampler={"draws": 4, "chains": 2, "seed": 1})
    fit_file(data, settings, RunDirectory(tmp_path / "out"))
    return (tmp_path / "out" / "report.html").read_text()


def template(tmp_path):
    return render("base.html", title="plain", lead="<script>steal()</script>")


@pytest.mark.parametrize("make", [cohort_page, report, template])
def test_page__allows_its_own_scripts_and_loads_nothing(make, tmp_path, monkeypatch):
    monkeypatch.setattr("chiasma.report.report.write_figures", lambda found, folder: [])
    page = Page(make(tmp_path))
    assert page.policy["default-src"] == page.policy["base-uri"] == page.policy["form-action"] == ["'none'"]
    allowed = set(page.policy["script-src"]) - {"'unsafe-eval'", "'none'"}
    assert allowed == {hashed(script) for script in page.scripts}
    assert "'unsafe-eval'" not in page.policy["script-src"] or make is report
    beside = {"'self'", "file:"} if make is cohort_page else set()
    assert set(page.policy["img-src"]) == {"data:"} | beside
    assert all(beside and source.startswith("samples/") for source in page.foreign)
