"""python -m paper: every experiment at a small size, its files, and the page."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from chiasma.errors import InvalidInput
from chiasma.report.page import MOST_ROWS
from paper import __main__ as reproduce
from paper import page, schema, timings, tumour_cases
from paper.result import ExperimentResult, Figure, Finding, ResultTable


def run(*arguments):
    """The exit code."""
    return reproduce.main([str(one) for one in arguments])


def record(folder=Path("nowhere"), **changes):
    result = ExperimentResult(
        name="toy",
        title="Small & <fast>",
        settings={"n_draws": 10_000, "ladder": (1, 5), "nested": {"a_b": True}},
        findings=[Finding(claim="x < y", ours="max|x| is 2", verdict="agrees")],
        figures=[],
        tables=[ResultTable(stem="numbers", caption="All", header=["name", "value"], rows=[["a", 1.5], ["b", None]])],
        seconds=1.2,
        folder=folder,
    )
    return page.Record(result=replace(result, **changes), quick=False, command="python -m paper toy", versions={})


class Pictures(HTMLParser):
    """Everything that a browser would have to load."""

    def __init__(self):
        super().__init__()
        self.sources, self.tags = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.sources += [value for name, value in attrs if name in ("src", "href") and not value.startswith("#")]


def check_files(out, names):
    html = (out / reproduce.PAGE).read_text(encoding="utf-8")
    pictures = Pictures()
    pictures.feed(html)
    assert all(source.startswith("data:image/png;base64,") for source in pictures.sources)
    assert not {"script", "link", "iframe"} & set(pictures.tags)
    n_figures = 0
    for name in names:
        content = json.loads((out / name / page.RESULT).read_text(encoding="utf-8"))
        assert content["quick"]
        assert content["findings"]
        assert f'id="{name}"' in html
        for figure in content["figures"]:
            n_figures += 1
            assert (out / name / f"{figure['stem']}.png").read_bytes().startswith(b"\x89PNG")
            assert (out / name / f"{figure['stem']}.pdf").read_bytes().startswith(b"%PDF")
        for table in content["tables"]:
            lines = (out / name / f"{table['stem']}.tsv").read_text(encoding="utf-8").splitlines()
            assert lines[0].split("\t") == table["header"]
            assert len(lines) == len(table["rows"]) + 1
    assert pictures.tags.count("img") == n_figures


def test_reproduce__says_where_the_page_is_and_what_made_it(tmp_path, capsys):
    assert run("errata", "--quick", "--out", tmp_path / "paper", "--seed", "3") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'paper' / 'index.html'}\n"
    content = json.loads((tmp_path / "paper/errata" / page.RESULT).read_text(encoding="utf-8"))
    assert content["command"] == "python -m paper errata --quick --seed 3"


@pytest.mark.usefixtures("light_pictures")
def test_all_quick__runs_and_says_what_it_left_out(tmp_path, monkeypatch, light_pictures):
    monkeypatch.delenv(tumour_cases.DATA_VARIABLE, raising=False)
    assert run("all", "--quick", "--out", tmp_path) == 0
    check_files(tmp_path, page.EXPERIMENTS)
    records = {record.result.name: record.result for record in page.read_records(tmp_path)}

    study = records["simulation"]
    assert len(study.figures) == 7
    assert [table.stem for table in study.tables] == ["simulation-0.1", "simulation-0.01"]
    assert {row[1] for row in study.tables[0].rows} == {*timings.SAMPLERS, timings.EXACT}
    verdicts = {finding.claim: finding.verdict for finding in study.findings}
    assert verdicts["Gibbs alone and with swap have not moved from the start."] == "agrees"

    (table,) = records["timings"].tables
    assert [row[:3] for row in table.rows][:2] == [["HB", "alone", 130], ["HB", "swap", 132]]
    assert len(table.rows) == 8
    assert all(value > 0 for row in table.rows for value in (row[4], *row[6:]))
    assert "machines differ" in table.caption

    genomes = records["tumour"]
    assert genomes.settings["real"] == "skipped"
    assert any("skipped: no rascal_hgsoc_300kb.tsv" in finding.ours for finding in genomes.findings)
    assert [table.stem for table in genomes.tables] == [
        f"tumour-{stem}-{part}" for stem in ("genome", "selected") for part in ("runs", "configurations")
    ]
    assert [row[0] for row in genomes.tables[0].rows] == [timings.EXACT, *timings.PAPER, "mosaic"]


def test_reproduce__keeps_earlier_experiments_on_the_page(tmp_path):
    assert run("schema", "--quick", "--out", tmp_path) == 0
    assert run("errata", "--quick", "--out", tmp_path) == 0
    check_files(tmp_path, ["schema", "errata"])


def test_chosen__all_and_the_order_of_the_paper():
    assert reproduce.chosen(["toy", "schema"]) == ["schema", "toy"]
    assert reproduce.chosen(["all", "toy"]) == list(page.EXPERIMENTS)


def test_unknown_experiment__is_refused(tmp_path, capsys):
    assert run("dance", "--out", tmp_path) == 2
    assert "got dance" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_record__comes_back_from_its_file(tmp_path):
    kept = record(tmp_path, figures=[Figure(stem="f", caption="c", paper_figure="Figure 4")])
    page.write_record(kept)
    found = page.read_record(tmp_path / page.RESULT)
    assert found.result.findings == kept.result.findings
    assert found.result.figures == kept.result.figures
    assert found.result.tables == kept.result.tables
    assert found.result.settings == {"n_draws": 10_000, "ladder": [1, 5], "nested": {"a_b": True}}


def test_record__holds_no_infinity(tmp_path):
    finding = Finding(claim="", ours="", verdict="differs", numbers={"seconds": float("inf")})
    page.write_record(record(tmp_path, findings=[finding]))
    assert page.read_record(tmp_path / page.RESULT).result.findings[0].numbers == {"seconds": None}


def test_page__escapes_text_and_shortens_tables(tmp_path):
    long = ResultTable(stem="long", caption="Many", header=["n"], rows=[[n] for n in range(MOST_ROWS + 5)])
    page.write_page([record(tables=[long])], tmp_path / "index.html")
    html = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Small &amp; &lt;fast&gt;" in html
    assert "x &lt; y" in html
    assert "The other 5 rows are in long.tsv." in html
    assert "10,000" in html
    assert "a b: True" in html
    assert re.search(r"<title>.+</title>", html)


def test_page__warns_of_a_quick_run(tmp_path):
    page.write_page([replace(record(), quick=True)], tmp_path / "quick.html")
    page.write_page([record()], tmp_path / "full.html")
    assert "A quick run" in (tmp_path / "quick.html").read_text(encoding="utf-8")
    assert "A quick run" not in (tmp_path / "full.html").read_text(encoding="utf-8")


def test_refresh__keeps_results_and_writes_the_blocks(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    blocks = ["toy findings", "toy numbers", "toy run", "tumour findings", "summary"]
    text = "\n".join(f"<!-- results: {block} -->\nold\n<!-- end -->\nprose" for block in blocks)
    (docs / "paper.md").write_text(text + "\n![One](results/one.png)\n", encoding="utf-8")
    (tmp_path / "README.md").write_text("<!-- results: summary -->\n<!-- end -->\n", encoding="utf-8")
    kept = record(tmp_path, figures=[Figure(stem=stem, caption="") for stem in ("one", "two")])
    for figure in kept.result.figures:
        schema.save(schema.canvas(1, 1), tmp_path, figure)
    page.write_record(kept)
    page.refresh(docs, [kept])
    written = (docs / "paper.md").read_text(encoding="utf-8")
    assert "old" not in written
    assert written.count("prose") == len(blocks)
    assert "| x < y | max\\|x\\| is 2 | **agrees** |" in written
    assert "| a | 1.5 |\n| b |  |" in written
    assert "`python -m paper toy`, 1 seconds." in written
    assert "No results are kept yet: `make paper EXPERIMENT=tumour` makes them." in written
    assert "| Small & <fast> | agrees: 1 | 1 |" in written
    assert "| Small & <fast> | agrees: 1 | 1 |" in (tmp_path / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted((docs / "results").iterdir())] == ["one.png", "toy.json"]
    assert page.render(written, page.committed(docs)) == written


def test_refresh__refuses_quick_runs(tmp_path):
    with pytest.raises(InvalidInput, match="drop --quick"):
        page.refresh(tmp_path, [replace(record(), quick=True)])


def test_render__refuses_an_unknown_part():
    with pytest.raises(InvalidInput, match="it has findings, run, numbers"):
        page.render("<!-- results: toy pictures -->\n<!-- end -->", {"toy": record()})


def test_reproduce__refreshes_a_document(tmp_path, monkeypatch):
    monkeypatch.setattr("paper.errata.N_COLUMNS", 2)
    (tmp_path / "paper.md").write_text("<!-- results: errata errata -->\n<!-- end -->\n", encoding="utf-8")
    assert run("errata", "--out", tmp_path / "out", "--docs", tmp_path) == 0
    assert "| augmented, corrected |" in (tmp_path / "paper.md").read_text(encoding="utf-8")
    assert (tmp_path / "results" / "errata.json").exists()
