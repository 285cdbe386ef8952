"""The JSON report follows its schema, and the schema says enough to refuse what is none."""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.report.reports import hostile, real
from torchferry.backends import registry
from torchferry.report import json_format
from torchferry.report.model import ProjectVerdict

SCHEMA = json.loads((Path(json_format.__file__).with_name("schema.json")).read_text(encoding="utf-8"))


def test_the_schema_is_one_and_has_a_version() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["$id"] == f"urn:torchferry:report:{json_format.SCHEMA_VERSION}"
    assert SCHEMA["properties"]["schema"] == {"const": json_format.SCHEMA_VERSION}
    assert SCHEMA["properties"]["verdict"]["enum"] == [verdict.value for verdict in ProjectVerdict]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("target", [*sorted(set(registry.built_in()) - {"cuda"}), "hostile"])
def test_reports_follow_the_schema(target: str, lang: str) -> None:
    report = hostile() if target == "hostile" else real(target)
    document = json.loads(json_format.render(report, lang))
    jsonschema.validate(document, SCHEMA)
    assert set(document) == set(SCHEMA["properties"])
    described = set(SCHEMA["$defs"]["finding"]["properties"])
    for finding, found in zip(document["findings"], report.findings, strict=True):
        assert described - {"cell", "origin", "decided_by"} <= set(finding) <= described
        assert finding["path"] == found.location.path
    assert sum(document["counts"].values()) == len(report.findings)


def test_version_2_is_as_it_was() -> None:
    newer = json.loads(json_format.render(hostile(), "en"))
    older = json.loads(json_format.render_older(hostile(), "en"))
    assert (older["schema"], newer["schema"]) == ("2.3", "3.3")
    assert set(newer) - set(older) == {"style", "since", "words", "roles", "decisions"}
    for before, after in zip(older["programs"], newer["programs"], strict=True):
        assert set(after) - set(before) == {"role", "unresolved", "waits_for"}
    for before, after in zip(older["findings"], newer["findings"], strict=True):
        assert set(after) - set(before) <= {"effect", "anchor", "origin", "history", "decided_by"}
        steps = [(step["stage"], step["grade_before"]) for step in after["history"]]
        assert [(step["stage"], step["before"]) for step in before.get("regraded", ())] == steps


def test_text_is_utf8_whatever_a_file_is_called() -> None:
    text = json_format.render(hostile(), "en")
    document = json.loads(text.encode("utf-8"))
    assert os.fsencode(document["findings"][0]["path"]).endswith(b"\n=cmd.py\xe9")
    assert not re.search("[\ud800-\udfff]", text)


def _set(**values: object) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["findings"][0].update(values)


WRONG: dict[str, Callable[[dict[str, Any]], None]] = {
    "another version": lambda document: document.update(schema="4.0"),
    "unknown verdict": lambda document: document.update(verdict="fine"),
    "no summary": lambda document: document.pop("summary"),
    "unknown grade": _set(grade="sure"),
    "grade in counts": lambda document: document["counts"].update(sure=1),
    "line 0": _set(line=0),
    "cell 0": _set(cell=0),
    "code of no form": _set(code="dev1"),
    "blocker as text": _set(blocker="yes"),
    "no message": lambda document: document["findings"][0].pop("message"),
    "count of nothing": lambda document: document["kept"].update(comments=0),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_the_schema_refuses_what_is_no_report(wrong: Callable[[dict[str, Any]], None]) -> None:
    document = copy.deepcopy(json_format.document(real(), "en"))
    jsonschema.validate(document, SCHEMA)
    wrong(document)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)
