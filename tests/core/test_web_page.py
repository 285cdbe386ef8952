"""The frame of pages: text is escaped, and nothing is run but the script that belongs to the page."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from torchferry.core.web_page import web_page


@pytest.mark.parametrize("script", ["", 'document.title = "x"\n'])
def test_a_page_runs_its_own_script_and_loads_nothing(script: str) -> None:
    page = web_page("a <b>", "b {}", ["<p>c</p>", "<p>d</p>"], "zh", kind="met", script=script)
    assert page.startswith('<!doctype html><html lang="zh">')
    assert '<h1 class="met">a &lt;b&gt;</h1><p>c</p><p>d</p>' in page
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert rules["default-src"] == "'none'"
    assert rules.get("script-src") == (f"'sha256-{digest}'" if script else None)
    assert page.count("<script>") == bool(script)
