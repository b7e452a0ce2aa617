"""The Content-Security-Policy of a page: it runs the scripts that it has inside, and loads nothing from elsewhere.

Scripts are named by their hashes, so markup that slipped into a page could not run. A policy is the last thing that a
page gets: a script that is added later does not run, unless the page gets its policy again.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

SCRIPT = re.compile(r"<script([^>]*)>(.*?)</script>", re.DOTALL)
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>\n')
HEAD = '<meta charset="utf-8">\n'


def with_policy(page: str, *, evaluates: bool = False, pictures_beside: bool = False) -> str:
    """The page with its policy, in place of an earlier one.

    evaluates : its scripts compile others, as those of bokeh do. pictures_beside : it shows pictures of its folder.

    >>> "script-src 'none'" in with_policy(f"<head>{HEAD}</head><body></body>")
    True
    """
    page = POLICY.sub("", page)
    bodies = [body for about, body in SCRIPT.findall(page) if "application/json" not in about]
    hashes = [f"'sha256-{b64encode(sha256(body.encode()).digest()).decode()}'" for body in bodies]
    scripts = " ".join(dict.fromkeys(hashes)) + (" 'unsafe-eval'" if evaluates else "")
    parts = {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "img-src": "data: 'self' file:" if pictures_beside else "data:",
        "style-src": "'unsafe-inline'",
        "script-src": scripts.strip() or "'none'",
    }
    content = "; ".join(f"{name} {allowed}" for name, allowed in parts.items())
    return page.replace(HEAD, f'{HEAD}<meta http-equiv="Content-Security-Policy" content="{content}">\n', 1)
