"""report.html in a real browser: it loads without errors or a network, zooms, shows rivals, adapts to its reader."""

import json
import re
from contextlib import contextmanager

import numpy as np
import pytest

import chiasma as ch
from chiasma.io.signal import Signal
from chiasma.models.observations import Observations
from chiasma.report.report import find
from chiasma.report.report_page import write_page

N = 60


@pytest.fixture(scope="module")
def fitted():
    """Every block has two explanations of one level; chromosome X follows 1, and rows have evil names."""
    rows = [
        ch.Row(name=name, values=[0, value], chain=ch.Switch(0.3, 0.3))
        for name, value in (("p1001", 0.2), ("<script>alert(1)</script>", 0.3), ("<!-- chart rows -->", 0.5))
    ]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(depth=20.0, sd=1.0))
    rng = np.random.default_rng(1)
    y = np.repeat([0.0, 10.0, 0.0, 10.0, 0.0], N // 5) + rng.normal(0, 1, N)
    y[3:9] = np.nan
    data = Observations(y, starts=[36])
    position = np.concatenate([np.arange(36), np.arange(24)]) * 3e5
    signal = Signal(data=data, chromosome=("1",) * 36 + ("X",) * 24, position=position)
    return ch.sample(model, data, draws=200, chains=2, seed=1, progress=False), signal


@pytest.fixture(scope="module")
def written(fitted, tmp_path_factory):
    """The page alone, in a directory with an evil name."""
    folder = tmp_path_factory.mktemp("run") / "<b>run & co"
    folder.mkdir()
    found = find(*fitted)
    about = {"name": "<script>alert(2)</script>", "settings": "</pre><script>alert(3)</script>"}
    write_page(found, folder, found.summary.to_dict(), about)
    return folder / "report.html"


def is_wrong(message):
    # A browser without a graphics card draws WebGL by software, and says that this is slow.
    return message.type in ("error", "warning") and "GL Driver Message" not in message.text


@contextmanager
def opened(browser, path, **options):
    """The page when its charts are drawn; fails on any error it reports and on anything it tries to load."""
    context = browser.new_context(**{"viewport": {"width": 1100, "height": 900}} | options)
    context.set_offline(True)
    page = context.new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text) if is_wrong(message) else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=true]", state="attached")
    yield page
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    context.close()


MODEL = "Bokeh.documents.map((d) => d.get_model_by_name('{}')).find((m) => m)"


def view(page):
    """The part of the x axis that is shown."""
    return page.evaluate(f"[{MODEL}.x_range.start, {MODEL}.x_range.end]".format("signal", "signal"))


def source(page, name):
    """The columns behind a chart."""
    return page.evaluate(
        f"""(() => {{
          const data = {MODEL.format(name)}.data;
          const columns = data instanceof Map ? Object.fromEntries(data) : data;
          return Object.fromEntries(Object.entries(columns).map(([key, values]) => [key, Array.from(values)]));
        }})()"""
    )


@pytest.fixture(scope="module")
def page(browser, written):
    """The page on a wide screen, for all tests that only look and click."""
    with opened(browser, written) as page:
        yield page


def test_page__loads_alone_and_shows_the_data(page, fitted):
    posterior, signal = fitted
    shown = source(page, "sites")
    np.testing.assert_allclose(np.array(shown["y"], float), signal.data.y, rtol=1e-6)
    levels = posterior.levels().values.reshape(-1, N) * 20
    np.testing.assert_allclose(np.array(shown["level"], float), levels.mean(axis=0), rtol=1e-5, atol=1e-5)
    assert shown["place"][36] == "site 36: chromosome X, 0.0–0.3 Mb"
    assert page.locator("canvas").count() >= 3
    assert "<script>alert(2)</script>: what the fit found" in page.inner_text("h1")
    assert page.locator("th", has_text="<script>alert(1)</script>").count() >= 1
    assert set(source(page, "probabilities")["row"]) == {"p1001", "<script>alert(1)</script>", "<!-- chart rows -->"}


def test_page__zooms_by_buttons_and_by_keys(page):
    low, high = view(page)
    assert (low, high) == pytest.approx((0.0, N * 0.3))
    page.get_by_role("button", name="zoom in").click()
    assert view(page) == pytest.approx([low + (high - low) / 4, high - (high - low) / 4])
    page.get_by_role("button", name="show all").press("Enter")
    assert view(page) == pytest.approx([low, high])
    page.locator("#along .chart").focus()
    page.keyboard.press("+")
    page.keyboard.press("ArrowLeft")
    assert view(page) == pytest.approx([low + (high - low) / 8, high - 3 * (high - low) / 8])
    page.keyboard.press("0")
    assert view(page) == pytest.approx([low, high])


def test_page__shows_the_numbers_under_the_mouse(page):
    page.get_by_role("button", name="show all").click()
    page.locator("#along").evaluate("(e) => e.scrollIntoView()")
    box = page.locator("#place-signal").bounding_box()
    for share in (0.5, 0.52):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.6 * box["height"])
    shown = page.get_by_text(re.compile(r"^site \d+: chromosome (1|X)")).first
    shown.wait_for()
    site = int(re.match(r"site (\d+)", shown.inner_text())[1])
    columns = source(page, "sites")
    assert columns["place"][site] == shown.inner_text()
    page.get_by_text(f"{columns['state'][site]}, probability {columns['share'][site]:.3f}").first.wait_for()


def test_page__drag_zooms(page):
    box = page.locator("#place-signal").bounding_box()
    y = box["y"] + 0.5 * box["height"]
    page.mouse.move(box["x"] + 0.4 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], y, steps=5)
    page.mouse.up()
    page.wait_for_timeout(200)
    low, high = view(page)
    assert high - low < 0.4 * N * 0.3


def test_page__a_rival_is_chosen_and_read_back(page):
    buttons = page.locator("button[data-region]")
    assert buttons.count() >= 2
    regions = json.loads(page.locator("#regions").text_content())
    buttons.nth(1).click()
    assert buttons.nth(1).get_attribute("aria-pressed") == "true"
    assert buttons.nth(0).get_attribute("aria-pressed") == "false"
    low, high = view(page)
    assert low <= regions[1]["left"] < regions[1]["right"] <= high
    assert high - low < 2 * (regions[1]["right"] - regions[1]["left"]) + 1e-6
    shown = page.locator(".rivals:visible")
    assert shown.count() == 1
    assert shown.get_attribute("id") == "region-1"
    states = shown.locator("tbody tr td:first-child").all_inner_texts()
    assert set(states[:2]) == {"s110", "s001"}
    shares = [float(text.split()[0]) for text in shown.locator("tbody tr td:last-child").all_inner_texts()]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1, abs=0.02)
    assert source(page, "region-levels")["level"] == [10.0]
    assert source(page, "region-points")["y"] == regions[1]["y"]


READERS = {
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 700}, "has_touch": True},
}


@pytest.mark.parametrize("options", READERS.values(), ids=READERS)
def test_page__adapts_to_its_reader(browser, written, options):
    with opened(browser, written, **options) as page:
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0  # nothing to scroll sideways
        ink, paper = page.evaluate(
            "(() => { const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]; })()"
        )
        assert ink != paper
        if options.get("color_scheme") == "dark":
            assert sum(int(x) for x in paper[4:-1].split(",")) < 150
