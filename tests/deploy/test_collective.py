"""Which hosts meet in which round, what their answers mean, and all of it on servers whose links are slow or cut."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.deploy.lab.servers import Servers, reason_to_skip
from tests.warm_python import ferry
from torchferry.deploy.collective import (
    ALL_PAIRS,
    CardAnswer,
    ClusterAnswers,
    Link,
    LinkAnswer,
    answer_of,
    document,
    judge,
    not_judged,
    report_lines,
    rounds,
)

FOUR = ("a", "b", "c", "d")


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 16, 33, 100])
def test_no_host_is_in_two_links_of_a_round(count: int) -> None:
    hosts = [f"h{number}" for number in range(count)]
    tested = rounds(hosts)
    for row in tested:
        members = [host for link in row for host in link]
        assert len(members) == len(set(members))
    links = {frozenset(link) for row in tested for link in row}
    assert sum(map(len, tested)) == len(links), "no pair twice"
    if count <= ALL_PAIRS:
        assert len(links) == count * (count - 1) // 2
        assert len(tested) <= count
    else:
        assert all(sum(host in link for link in links) >= 4 for host in hosts), "a host is told from a link by others"
        assert len(tested) <= 4 * count.bit_length()


def answers(**problems: LinkAnswer) -> ClusterAnswers:
    links = [link for row in rounds(FOUR) for link in row]
    return ClusterAnswers(links=tuple(problems.get("".join(link), LinkAnswer(link, 0.1, 10.0)) for link in links))


def broken(name: str) -> LinkAnswer:
    return LinkAnswer(Link(*name), error="timed out")


def slow(name: str, gigabytes: float = 1.0, latency: float = 0.1) -> LinkAnswer:
    return LinkAnswer(Link(*name), latency, gigabytes)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (answers(), []),
        (answers(bc=broken("bc")), ["link b - c"]),
        (answers(bc=slow("bc")), ["link b - c"]),
        (answers(bc=slow("bc", 10.0, 9.0)), ["link b - c"]),
        (answers(bc=slow("bc", 6.0)), []),
        (answers(ac=broken("ac"), bc=broken("bc"), cd=broken("cd")), ["host c"]),
        (answers(ac=slow("ac"), bc=slow("bc"), cd=slow("cd")), ["host c"]),
        (answers(ac=slow("ac"), bc=slow("bc"), cd=slow("cd"), ab=broken("ab")), ["host c", "link a - b"]),
        (answers()._replace(silent=("d",)), ["host d"]),
        (answers()._replace(cards=(CardAnswer("a", "x:1", error="no memory"),)), ["card a x:1"]),
        (
            answers()._replace(
                cards=(*(CardAnswer("b", f"x:{row}", 1.0) for row in range(3)), CardAnswer("a", "x:0", 2.5))
            ),
            ["card a x:0"],
        ),
        (
            answers(ac=slow("ac"), bc=slow("bc"), cd=slow("cd"))._replace(
                cards=(*(CardAnswer(name, "x:0", 1.0) for name in "abd"), CardAnswer("c", "x:0", 9.0))
            ),
            ["host c", "card c x:0"],
        ),
        (answers()._replace(everyone=LinkAnswer(Link("a", "d"), error="b: timed out")), ["cluster *"]),
    ],
)
def test_what_is_slow_or_broken_is_named(given: ClusterAnswers, named: list[str]) -> None:
    findings = judge(given)
    assert [f"{row.kind} {row.name}" for row in findings] == named
    for lang in ("en", "zh"):
        assert all(row.name in text for row, text in zip(findings, said(given, lang), strict=True))


def said(given: ClusterAnswers, lang: str) -> list[str]:
    findings = judge(given)
    lines = list(report_lines(given, findings, not_judged(given), lang))
    return lines[-len(findings) :] if findings else []


PAIR = slow("ab", 0.01, 80.0)
ONE_CARD = CardAnswer("a", "card 0", 1.0)


@pytest.mark.parametrize(
    ("given", "at_least", "unjudged"),
    [
        (ClusterAnswers(links=(PAIR,)), 0.0, [("a - b", "bandwidth latency")]),
        (ClusterAnswers(links=(PAIR,)), 0.001, [("a - b", "latency")]),
        (ClusterAnswers(links=(PAIR, broken("ac"), slow("bc"))), 0.0, [("a - b, b - c", "bandwidth latency")]),
        (ClusterAnswers(links=(PAIR, slow("ac"), slow("bc"))), 0.0, []),
        (ClusterAnswers(links=(broken("ab"),), cards=(CardAnswer("a", "card 0", error="no memory"),)), 0.0, []),
        (ClusterAnswers(cards=(ONE_CARD, CardAnswer("a", "card 1", 9.0))), 9.0, [("a card 0, a card 1", "speed")]),
        (
            ClusterAnswers(cards=(ONE_CARD, *(ONE_CARD._replace(host=name) for name in "bc")), silent=("c",)),
            0.0,
            [("a card 0, b card 0", "speed")],
        ),
        (ClusterAnswers(cards=tuple(ONE_CARD._replace(card=f"card {row}") for row in range(3))), 0.0, []),
    ],
)
def test_what_has_nothing_to_be_compared_with_is_said_to_be_not_judged(
    given: ClusterAnswers, at_least: float, unjudged: list[tuple[str, str]]
) -> None:
    findings = judge(given, at_least)
    found = not_judged(given, at_least)
    assert [(", ".join(row.names), " ".join(row.measures)) for row in found] == unjudged
    for lang, praise in (("en", "every link and every card"), ("zh", "每条链路和每张卡都正常")):
        text = "\n".join(report_lines(given, findings, found, lang))
        assert (praise in text) == (not findings and not found)
        assert ("--at-least" in text) == any("bandwidth" in measures for _, measures in unjudged)
        rows = document(given, findings, found, lang)["not_judged"]
        assert all(row["message"] in text and all(name in text for name in row["names"]) for row in rows)
        assert len(rows) == len(unjudged)


def test_a_figure_that_is_asked_for_judges_the_only_link() -> None:
    pair = ClusterAnswers(links=(PAIR,))
    assert judge(pair) == []
    assert [row.name for row in judge(pair, 1.0)] == ["a - b"]


def test_an_end_that_fails_or_says_nothing_breaks_a_link() -> None:
    link, well = Link("a", "b"), {"latency_ms": 1.0, "gigabytes": 2.0}
    assert answer_of(link, well, {**well, "latency_ms": 3.0}) == LinkAnswer(link, 3.0, 2.0)
    assert answer_of(link, well, {"error": "refused"}).error == "b: refused"
    assert answer_of(link, None, well).error == "a: no answer"


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Return three servers whose containers are this machine's own system, each in its own network."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    servers = Servers(tmp_path_factory.mktemp("cluster") / "servers", 120)
    try:
        for name in ("one", "two", "three"):
            files = {"machine": "", "no-docker": ""}
            servers.add(name, files=files, programs={"/usr/local/sbin/docker": "cluster/docker"})
        servers.wait(docker=False)
        if reason := servers.reason_apart():
            pytest.skip(reason)
        yield servers
    finally:
        servers.close()


@pytest.mark.skipif(os.environ.get("TORCHFERRY_TEST_DEPLOY") != "1", reason="runs with `make test-deploy`")
def test_a_slow_line_a_slow_card_and_a_link_that_is_cut_are_named(cluster: Servers) -> None:
    pytest.importorskip("torch")
    python = cluster.folder / "python"
    rehearse = f"{sys.executable} -m torchferry rehearse -t npu --plugin simulated --devices 2"
    # the cards of one host wait before each product when the test wants it
    fault = f"test -e {cluster.folder}/slow -a $(hostname) = two && set -- --fault op=aten.mm,kind=slow,scale=2"
    text = f'#!/bin/bash\nwords=("$@")\nset --\n{fault}\nexec {rehearse} "$@" -- {sys.executable} "${{words[@]}}"\n'
    python.write_text(text, encoding="utf-8")
    python.chmod(0o755)

    def verify() -> dict[str, list[dict[str, str]]]:
        words = ["deploy", "verify", "-t", "npu", "-i", str(cluster.inventory), "-f", "json", "--only", "precheck"]
        words += ["--set", "image=lab:1", "--set", f"python={python}", "--collective", "--round-timeout", "60"]
        command = [ferry(), "-m", "torchferry", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert done.stdout, done.stderr
        assert "10.99.0." not in done.stdout + done.stderr
        found: dict[str, list[dict[str, str]]] = json.loads(done.stdout)["collective"]
        return found

    slow_line = ["tbf", "rate", "20mbit", "burst", "32kbit", "latency", "50ms"]
    subprocess.run(["tc", "qdisc", "add", "dev", "tfvthree", "root", *slow_line], check=True)
    result = verify()
    # these cards are shares of this machine's processor: what else it does makes one of them slow
    found = [f"{row['kind']} {row['name']}" for row in result["findings"] if row["kind"] != "card"]
    assert found == ["host three"], result
    assert len([row for row in result["cards"] if row["card"].startswith("card")]) == 6, "all cards took part"
    subprocess.run(["tc", "qdisc", "del", "dev", "tfvthree", "root"], check=True)
    (cluster.folder / "slow").touch()
    result = verify()
    slow_cards = [row for row in result["findings"] if row["kind"] == "card"]
    assert {"two card 0", "two card 1"} <= {row["name"] for row in slow_cards}, result
    assert all("slow: a matrix product takes" in row["message"] for row in slow_cards), slow_cards
    (cluster.folder / "slow").unlink()
    cluster.on("one", f"ip route add blackhole {cluster.address('two')}/32")
    result = verify()
    links = [row["name"] for row in result["findings"] if row["kind"] == "link"]
    assert links == ["one - two"], result
