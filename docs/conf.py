"""The documentation site: `make docs` builds it into build/site, with warnings as errors."""

from __future__ import annotations

import chiasma

project = "chiasma"
author = "the chiasma developers"
project_copyright = author
version = release = chiasma.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_design",
]
exclude_patterns = ["results/*.md"]  # findings that paper.md already contains
templates_path = ["_templates"]
nitpicky = False

# Pages with code cells are executed, once, and again when their code changes. An error in a cell fails the build.
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing"]  # links to files of the repository that are no pages

autosummary_generate = True
autodoc_typehints = "none"  # signatures show them
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "chiasma"
html_static_path = ["_static"]
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
