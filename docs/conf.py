"""The documentation site: `make docs` builds it into build/site, with warnings as errors."""

from __future__ import annotations

import inspect
import os
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx import addnodes

import chiasma
from chiasma.cohort import api

# Modules that are public under another name than that of their file, and a package that is called as a function.
sys.modules["chiasma.calibration"] = chiasma.calibration
sys.modules["chiasma.diagnostics"] = chiasma.diagnostics
chiasma.cohort = api.cohort

project = "chiasma"
author = "the chiasma developers"
project_copyright = author
version = release = chiasma.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
]
exclude_patterns = ["results/*.md"]  # findings that paper.md already contains
templates_path = ["_templates"]

# Pages with code cells are executed, once, and again when their code changes. An error in a cell fails the build.
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
nb_render_markdown_format = "myst"  # tables of commands
# Kernels warn that they listen without encryption. They end with the build.
profile = Path(__file__).parent.parent / "build" / "ipython" / "profile_default"
profile.mkdir(parents=True, exist_ok=True)
(profile / "ipython_kernel_config.py").write_text('c.IPKernelApp.log_level = "ERROR"\n')
os.environ["IPYTHONDIR"] = str(profile.parent)
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

default_role = "code"  # of `text` in docstrings
autosummary_generate = True
autodoc_typehints = "none"  # signatures show them
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

smartquotes = False  # two hyphens of an option stay two hyphens
html_math_renderer = "mathml"  # browsers draw it themselves; MathJax, where it can be loaded, draws it better
MATHJAX = "https://cdn.jsdelivr.net/npm/mathjax@4/tex-mml-chtml.js"
html_theme = "pydata_sphinx_theme"
html_title = "chiasma"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system
html_sidebars = {
    page: [] for page in ("start", "about", "paper", "glossary", "comparison", "threat-model", "development")
}
html_theme_options = {
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navigation_with_keys": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False


def leave_out(app: Any, kind: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Of a class, show properties, and methods with an example: those without are for the package's own modules."""
    if kind != "class" or skip:
        return None
    if isinstance(thing, property | cached_property):
        return None
    return not (inspect.isroutine(thing) and ">>> " in (inspect.getdoc(thing) or ""))


def join_lines(app: Any, kind: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Put what a docstring says of a parameter on one line: numpydoc takes the first line for its type."""
    joined: list[str] = []
    inside = False
    for line in lines:
        if re.match(r"\w+$", line):
            inside = line == "Parameters"
        if inside and line.startswith("    ") and joined and " : " in joined[-1]:
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line)
    lines[:] = joined


# How pages write a public name, and what it stands for: ch.compare(...), posterior.levels().
NAMES = ((re.compile(r"ch\.((?:\w+\.)*\w+)"), "chiasma."), (re.compile(r"posterior\.(\w+)"), "chiasma.Posterior."))


def link_names(app: Any, tree: nodes.document) -> None:
    """Make every public name in `code` a link to the reference; what the reference does not have stays as it is."""
    for literal in list(tree.findall(nodes.literal)):
        if isinstance(literal.parent, nodes.reference | addnodes.pending_xref | nodes.title):
            continue
        for written, prefix in NAMES:
            if found := written.match(literal.astext()):
                target = prefix + found[1]
                if app.env.docname != f"reference/api/{target}":
                    link = addnodes.pending_xref(
                        "", refdomain="py", reftype="obj", reftarget=target, refwarn=False, refdoc=app.env.docname
                    )
                    literal.replace_self(link)
                    link += literal


def unlink_files(app: Any, tree: nodes.document) -> None:
    """Show links to files and folders of the repository, which the site does not have, as text: paths as code."""
    docs = Path(app.srcdir)

    def exists(name: str) -> bool:
        # CONTRIBUTING.md, which a page includes, has links from the folder above.
        return bool(name) and any((folder / name).exists() for folder in (docs, docs.parent))

    for link in list(tree.findall(addnodes.pending_xref)):
        if link.get("reftype") != "myst":
            continue
        target, is_page = link["reftarget"], link.get("refdomain") == "doc"
        if target not in app.env.found_docs and exists(f"{target}.md" if is_page else target):
            text = link.astext()
            link.replace_self(nodes.literal("", text) if exists(text) else nodes.Text(text))


def hide_magic(app: Any, tree: nodes.document) -> None:
    """Show cells without their first line %%bash or %%writefile, so that they can be copied as they stand."""
    for block in tree.findall(nodes.literal_block):
        magic, _, rest = block.astext().partition("\n")
        if magic.startswith("%%"):
            block[:] = [nodes.Text(rest)]
            block.rawsource = rest  # or Sphinx takes it for text with markup, and does not highlight it
            block["language"] = "bash" if magic.startswith("%%bash") else "python"


def mathml(tex: str, display: str) -> str:
    """MathML as browsers draw it: functions stand apart from what follows, blackboard letters are letters."""
    drawn = convert(tex, display=display).replace('<mi mathvariant="double-struck">E</mi>', "<mi>𝔼</mi>")
    return re.sub(r"(<mi>(?:log|exp)</mi>)(?!<mo)", r'\1<mspace width="0.17em" />', drawn)


def inline_formula(visitor: Any, node: nodes.math) -> None:
    visitor.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def formula(visitor: Any, node: nodes.math_block) -> None:
    visitor.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def add_mathjax(app: Any, page: str, template: str, context: dict[str, Any], tree: nodes.document | None) -> None:
    if tree is not None and (tree.next_node(nodes.math) or tree.next_node(nodes.math_block)):
        app.add_js_file(MATHJAX, loading_method="defer")


def setup(app: Any) -> None:
    app.connect("html-page-context", add_mathjax)
    app.connect("doctree-read", unlink_files)
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", hide_magic)
    app.connect("autodoc-process-docstring", join_lines, priority=100)  # before numpydoc
    app.connect("autodoc-skip-member", leave_out)
    app.add_html_math_renderer("mathml", (inline_formula, None), (formula, None))
