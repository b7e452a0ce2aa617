"""The documentation site in a real browser: pages open without errors, in light and dark, and the search finds words.

The site is what `make docs` wrote to build/site. It is served as `python -m http.server` does, and opened as files.
"""

import re
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote_plus, unquote

import pytest

from test_browser import is_wrong

SITE = Path(__file__).parents[1] / "build/site"
PAGES = (
    "index.html",
    "start.html",
    "examples/ion-channels.html",
    "explanation/crossovers.html",
    "reference/api/chiasma.Posterior.html",
)
# What people search for, and a page that must be among the answers.
SEARCHES = {
    "label switching": "labels.html",
    "mosaic": "crossovers.html",
    "forward filtering": "passes.html",
    "bimodal": "glossary.html",
    "pattern": "glossary.html",
}

pytestmark = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the site is not built: make docs")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def served():
    """The address of the site on a server of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@contextmanager
def opened(browser, url, **options):
    """A page; fails on any error that it reports, and on anything but MathJax that it loads from elsewhere."""
    context = browser.new_context(viewport={"width": 1250, "height": 900}, **options)
    context.route(lambda address: "mathjax" in address, lambda route: route.fulfill(body=""))
    page = context.new_page()
    said, asked = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text) if is_wrong(message) else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(url)
    yield page
    assert said == []
    home = url.split("/")[2]
    others = [address for address in asked if address.startswith("http") and address.split("/")[2] != home]
    assert [address for address in others if "mathjax" not in address] == []
    context.close()


def brightness(page):
    """Of the paper, from 0 to 765."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3])


@pytest.mark.parametrize("path", PAGES)
def test_pages__open_in_light_and_dark(browser, served, path):
    for scheme, is_bright in (("light", True), ("dark", False)):
        with opened(browser, f"{served}/{path}", color_scheme=scheme) as page:
            assert page.locator("h1").count() == 1
            assert (brightness(page) > 382) == is_bright
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0
            assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")


def test_pages__fit_a_phone(browser, served):
    for path in PAGES:
        with opened(browser, f"{served}/{path}") as page:
            page.set_viewport_size({"width": 375, "height": 700})
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, path


def test_formulas__are_drawn_without_a_network(browser, served):
    with opened(browser, f"{served}/explanation/ladders.html") as page:
        assert page.locator("math").count() > 5
        assert "$" not in page.locator("article").inner_text()
        boxes = page.evaluate("[...document.querySelectorAll('math')].map((m) => m.getBoundingClientRect().width)")
        assert min(boxes) > 0


def answers(page):
    page.wait_for_selector("#search-results .search-summary:has-text('found')")
    links = page.locator("#search-results ul.search li a")
    return [(links.nth(i).inner_text(), links.nth(i).get_attribute("href")) for i in range(links.count())]


@pytest.mark.parametrize(("words", "wanted"), SEARCHES.items())
def test_search__finds_words(browser, served, words, wanted):
    with opened(browser, f"{served}/search.html?q={quote_plus(words)}") as page:
        page.wait_for_load_state("networkidle")
        assert wanted in " ".join(link for _, link in answers(page))
        # An excerpt with the words stands below a page that holds them.
        assert words.split()[0] in page.locator("#search-results").inner_text().lower()


def test_search__works_without_a_server(browser):
    context = browser.new_context()
    context.set_offline(True)
    page = context.new_page()
    page.goto((SITE / "search.html").as_uri() + "?q=mosaic")
    assert "crossovers.html" in " ".join(link for _, link in answers(page))
    context.close()


def test_commands__can_be_copied_as_they_stand():
    for path in (SITE / "how-to").glob("*.html"):
        assert "%%bash" not in path.read_text(encoding="utf-8"), path
    own = (SITE / "examples/own-emission.html").read_text(encoding="utf-8")
    assert "writefile" not in own


def test_names__link_to_the_reference():
    page = (SITE / "how-to/number-of-rows.html").read_text(encoding="utf-8")
    assert 'href="../reference/api/chiasma.compare.html#chiasma.compare"' in page
    page = (SITE / "how-to/resume.html").read_text(encoding="utf-8")
    assert 'href="../reference/api/chiasma.Posterior.html#chiasma.Posterior.levels"' in page


def test_links__lead_to_files_and_anchors_of_the_site():
    texts = {path.resolve(): path.read_text(encoding="utf-8") for path in SITE.rglob("*.html")}
    anchors = {path: set(re.findall(r'\b(?:id|name)="([^"]+)"', text)) for path, text in texts.items()}
    broken = []
    for path, text in texts.items():
        for link in re.findall(r'<a [^>]*?href="([^"]*)"', text):
            if re.match(r"[a-z]+:", link):
                continue
            file, _, anchor = unquote(link).partition("#")
            target = (path.parent / file.partition("?")[0]).resolve() if file else path
            if not target.exists() or (anchor and anchor not in anchors.get(target, ())):
                broken.append(f"{path.relative_to(SITE.resolve())}: {link}")
    assert broken == []
