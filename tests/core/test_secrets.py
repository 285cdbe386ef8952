"""No secret is shown."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import random
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.core.secret_table import (
    ORDINARY_DATA,
    ORDINARY_NAMES,
    ORDINARY_TEXTS,
    PLAIN_PATHS,
    SECRET_DATA,
    SECRET_NAMES,
    SECRET_TEXTS,
    TOKEN_NAMES,
    filled,
)
from torchferry.core.secret_forms import SECRET_NAMES as SECRET_FILE_NAMES
from torchferry.core.secret_forms import TEXT_FORMS, TOKEN_FORMS
from torchferry.core.secrets import (
    LARGEST_EXAMINED,
    MASK,
    MOST_ASSIGNMENTS,
    masked,
    masked_command,
    masked_values,
    masked_variables,
    secret_name,
    secrets_of_file,
    shown_path,
)


def steps(work: Callable[..., object], *arguments: object) -> int:
    """Return how many lines of Python a call takes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work(*arguments)
    finally:
        sys.settrace(before)
    return count


MASKED = {
    "http://mia:secret@10.0.0.1:3128": "http://***@10.0.0.1:3128",
    "socks5h://mia@proxy:1080 and http://a:b@c/d": "socks5h://***@proxy:1080 and http://***@c/d",
    "http://mia:p@ss@proxy:3128": "http://***@proxy:3128",
    "mia:secret@10.0.0.1:3128": "***@10.0.0.1:3128",
    "token=abc&x=1": "token=***&x=1",
    "HF_TOKEN: hf_abcdefgh12345": "HF_TOKEN: ***",
    "using hf_abcdefgh12345 now": "using *** now",
    "--password 'x' api_key=\"k y\"": "--password *** api_key=***",
    "X-Note: Bearer abc123": "X-Note: Bearer ***",
    "curl -H 'Authorization: Bearer abc123' h": "curl -H 'Authorization: Bearer ***' h",
    "curl -H 'Authorization: Basic bWlhOnB3' -u mia:pw h": "curl -H 'Authorization: Basic ***' -u mia:*** h",
    "bearer token is missing": "bearer token is missing",
    "WIFI_PSK=abc wpa_psk: 'a b'": "WIFI_PSK=*** wpa_psk: ***",
    "--hf-token abc --epochs 3": "--hf-token *** --epochs 3",
    '{"api_key": "a b", "steps": 3}': '{"api_key": ***, "steps": 3}',
    "db:\n  password: a&b;c\n  user: mia": "db:\n  password: ***\n  user: mia",
    "token: |\n  abc\nx: 1": "token: |\n  ***\nx: 1",
    'secret = """a b"""': "secret = ***",
    "https://h/x?a=1&access_token=abc&sig=0123456789abcdef0&b=2": "https://h/x?a=1&access_token=***&sig=***&b=2",
    "k\n-----BEGIN PRIVATE KEY-----\nMIIE\nAbc=\n-----END PRIVATE KEY-----\nend": "k\n***\nend",
    "密码：abc123 完": "密码：*** 完",
    'password = "unterminated text': "password = ***",
    "pad_token=0 max_tokens: 512 tokens: 1.2e9 author: Jane tokenizer=gpt2": (
        "pad_token=0 max_tokens: 512 tokens: 1.2e9 author: Jane tokenizer=gpt2"
    ),
    "curl -uU:P --proxy-user V:Q h; curl -sSu W:R h": "curl -uU:*** --proxy-user V:*** h; curl -sSu W:*** h",
    "redis-cli -h h -a pw ping": "redis-cli -h h -a *** ping",
    "ansible_become_pass=pw SSHPASS=pw x=1": "ansible_become_pass=*** SSHPASS=*** x=1",
    "服务器密码是kT7x92vQ，密码 kT7x92vQ 用户": "服务器密码是***，密码 *** 用户",
    "openssl rsa -passin pass:pw -in k": "openssl rsa -passin pass:*** -in k",
    "ldapsearch -x -w pw -b dc=x": "ldapsearch -x -w *** -b dc=x",
    "smbclient -U mia%pw //h/s": "smbclient -U mia%*** //h/s",
    "ipmitool -H h -P pw power": "ipmitool -H h -P *** power",
    "echo pw7 | sudo -S ls": "echo *** | sudo -S ls",
    '{"x": "hf\\u005fabcdefgh12345", "pass\\u0077ord": "a b"}': '{"x": "***", "pass\\u0077ord": ***}',
    "\x1b[31mhf_abcdefgh12345\x1b[0m end": "\x1b[31m***\x1b[0m end",
    "token: \x1b[36mabc\x1b[0m, hf_abc\x1b[1mdefgh12345": "token: ***, ***",
    "C:\\users\\x41 \\u00e9 \x1b[1mtokens\x1b[0m: 512": "C:\\users\\x41 \\u00e9 \x1b[1mtokens\x1b[0m: 512",
    "wc -w words; ls -a x; cp -P a b; mkdir -p a": "wc -w words; ls -a x; cp -P a b; mkdir -p a",
    "3 tests pass: 5, 2 fail; bypass=yes": "3 tests pass: 5, 2 fail; bypass=yes",
    "export no_proxy=localhost,127.0.0.1": "export no_proxy=localhost,127.0.0.1",
    "/usr/lib/x86_64-linux-gnu/musa": "/usr/lib/x86_64-linux-gnu/musa",
}


@pytest.mark.parametrize("text", MASKED)
def test_what_is_hidden_and_what_stays(text: str) -> None:
    assert masked(text) == MASKED[text]


def test_variables_are_hidden_by_their_names() -> None:
    shown = masked_variables({"AWS_SECRET_ACCESS_KEY": "abc", "http_proxy": "http://u:p@h:1", "HCCL_IF_IP": "10.0.0.4"})
    assert shown == {"AWS_SECRET_ACCESS_KEY": "***", "http_proxy": "http://***@h:1", "HCCL_IF_IP": "10.0.0.4"}


@pytest.mark.parametrize("path", ORDINARY_NAMES)
def test_an_ordinary_name_is_none_of_a_secret_file(path: str) -> None:
    assert secret_name(path) is None


@pytest.mark.parametrize("path", SECRET_NAMES)
def test_a_secret_file_is_known_by_its_name(path: str) -> None:
    assert secrets_of_file(path, b"x\n")[0].line == 0
    assert secret_name(f"a/b c/{path}") is not None


@pytest.mark.parametrize(("path", "template"), ORDINARY_TEXTS)
def test_ordinary_text_has_no_secret(path: str, template: str) -> None:
    for seed in range(3):
        assert secrets_of_file(path, filled(template, seed)[0].encode()) == []


@pytest.mark.parametrize(("path", "template"), SECRET_TEXTS)
def test_a_secret_is_found_and_never_shown(path: str, template: str) -> None:
    for seed in range(3):
        text, values = filled(template, seed)
        found = secrets_of_file(path, b"# first\n" + text.encode())
        assert found, text
        assert path == "a.bin" or found[0].line > 1
        padding = "x = some.ordinary_words_of_a_program(1, 2)\n" * 100
        assert len(secrets_of_file(path, f"{padding}{text}\n{padding}".encode())) >= len(
            secrets_of_file(path, text.encode())
        )
        shown = " ".join(each.reason.render("en") + each.reason.render("zh") for each in found)
        assert not [value for value in values if len(value) > 5 and value in shown]


_ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "gb18030"]
_CHINESE = "本项目用于在国产加速卡上训练模型，请先阅读说明，再按步骤安装依赖。\n"


@pytest.mark.parametrize("encoding", _ENCODINGS)
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# 说明 é\nx = 1\npassword = '{p}'\n", 3),
        (_CHINESE * 20 + "密码：{p}\n" + _CHINESE * 20, 21),
        (_CHINESE * 2000 + "hf_{a34}\n", 2001),
        ("x = 1\n\0\npassword: {p}\n", 3),
        ("\0" * 9000 + "说明\npassword: {p}\n", 2),
    ],
)
def test_the_encoding_hides_nothing(encoding: str, text: str, line: int) -> None:
    assert line in [each.line for each in secrets_of_file("a.conf", filled(text)[0].encode(encoding))]


@pytest.mark.parametrize("encoding", _ENCODINGS)
def test_no_encoding_makes_a_secret(encoding: str) -> None:
    for text in (_CHINESE * 200, "密码：${P}\nx = 1\0\n" + _CHINESE, "password: ******\n"):
        assert secrets_of_file("a.conf", text.encode(encoding)) == []


@pytest.mark.parametrize(("path", "template"), SECRET_DATA)
def test_a_secret_is_found_in_other_data(path: str, template: str) -> None:
    for seed in range(3):
        content, values = filled(template, seed)
        found = secrets_of_file(path, content.encode("latin-1"))
        assert found
        assert not [value for value in values if value in "".join(each.reason.render("en") for each in found)]


@pytest.mark.parametrize(("path", "template"), ORDINARY_DATA)
def test_other_data_has_no_secret(path: str, template: str) -> None:
    for seed in range(3):
        assert secrets_of_file(path, filled(template, seed)[0].encode("latin-1")) == []


@given(st.sampled_from([text for _, text in SECRET_TEXTS]), st.text(max_size=40), st.text(max_size=40), st.integers())
def test_what_is_found_is_masked_whatever_is_around(template: str, before: str, after: str, seed: int) -> None:
    text, values = filled(template, seed)
    once = masked(f"{before}\n{text}\n{after}")
    # What has no form or name is judged by its randomness alone, which one in a thousand does not have.
    assume('Client("{A20}"' not in template)
    # A number and a half of a public key may be read.
    if not any(part in template for part in ("login(", '"n"', "ssh-ed25519")):
        assert not [value for value in values if len(value) > 24 and value in once]
    assert masked(once).count(MASK) >= 1


@given(st.text())
def test_text_without_a_word_of_secrets_stays(text: str) -> None:
    words = "".join(letter for letter in text if letter not in "=:：＝@$`<|,( -\t\n\r\"'")
    assume(not any(form.start in words for form in TOKEN_FORMS))
    assert masked(words[:40]) == words[:40]


COMMANDS = {
    ("sshpass", "-pp $w", "ssh", "-p", "22"): "sshpass\t-p***\tssh\t-p\t22",
    ("/usr/bin/sshpass", "-v", "-p", "'pw", "ssh"): "/usr/bin/sshpass\t-v\t-p\t***\tssh",
    ("curl", "-uroot:pw", "-o", "a:b", "u"): "curl\t-uroot:***\t-o\ta:b\tu",
    ("curl", "-sSu", "root:$w", "u"): "curl\t-sSu\troot:***\tu",
    ("mysql", "-u", "root", "-ppw12", "db"): "mysql\t-u\troot\t-p***\tdb",
    ("docker", "login", "-umia", "-ppw", "r"): "docker\tlogin\t-umia\t-p***\tr",
    ("docker", "login", "-u", "mia", "-p", "pw", "r"): "docker\tlogin\t-u\tmia\t-p\t***\tr",
    ("redis-cli", "-a", "<pw>", "ping"): "redis-cli\t-a\t***\tping",
    ("ldapsearch", "-w", "pw", "-b", "x"): "ldapsearch\t-w\t***\t-b\tx",
    ("smbclient", "-U", "mia%pw", "//h/s"): "smbclient\t-U\tmia%***\t//h/s",
    ("ipmitool", "-H", "h", "-P", "pw", "power"): "ipmitool\t-H\th\t-P\t***\tpower",
    ("openssl", "rsa", "-passin", "pass:pw"): "openssl\trsa\t-passin\tpass:***",
    ("bash", "-c", "sshpass -p pw ssh h"): "bash\t-c\tsshpass -p *** ssh h",
    ("docker", "run", "-p", "80:80", "x"): "docker\trun\t-p\t80:80\tx",
    ("mkdir", "-p", "out", "-w", "x"): "mkdir\t-p\tout\t-w\tx",
    ("python", "train.py", "-a", "resnet", "-P", "8"): "python\ttrain.py\t-a\tresnet\t-P\t8",
    ("curl", "-u", "mia", "-p", "x"): "curl\t-u\tmia\t-p\tx",
}
"""Commands as lists of words, and what is shown of them, with a tab between words."""


def test_commands_and_values_are_masked_by_their_names() -> None:
    words = ["curl", "-u", "mia:pw", "--api-key", "abc", "--password=pw", "-H", "Authorization: Bearer abcdefgh", "u"]
    assert masked_command(words) == [
        "curl", "-u", "mia:***", "--api-key", "***", "--password=***", "-H", "Authorization: Bearer ***", "u"
    ]  # fmt: skip
    assert masked_command(["sshpass", "-p", "pw", "ssh", "-p", "22"])[2] == "***"
    for command, shown in COMMANDS.items():
        assert masked_command(command) == shown.split("\t")
    document = {"hfToken": "abc", "steps": 3, "list": [{"wifi_psk": ["a", "b"]}], "note": "Bearer abcdefgh"}
    assert masked_values(document) == {
        "hfToken": "***", "steps": 3, "list": [{"wifi_psk": ["***", "***"]}], "note": "Bearer ***"
    }  # fmt: skip


@pytest.mark.parametrize("template", TOKEN_NAMES)
def test_a_token_in_a_name_is_found_and_never_shown(template: str) -> None:
    path, values = filled(template)
    public = b"-----BEGIN CERTIFICATE-----\n"
    assert [each.line for each in secrets_of_file(path, public)] == [0]
    reason = secret_name(path)
    assert reason is not None
    assert not [value for value in values if value in shown_path(path) + reason.render("en")]
    assert shown_path(path).count("/") == path.count("/")


@pytest.mark.parametrize("template", PLAIN_PATHS)
def test_a_plain_path_is_shown_as_it_is(template: str) -> None:
    path = filled(template)[0]
    assert (secret_name(path), shown_path(path)) == (None, path)


def _zip(text: bytes, before: bytes = b"", comment: bytes = b"") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", text)
        archive.comment = comment
    return before + stream.getvalue()


def _tar(text: bytes, behind: bytes = b"") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        entry = tarfile.TarInfo("a.txt")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return stream.getvalue() + behind


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "zip": _zip,
    "zip behind a program": lambda text: _zip(text, b"#!/usr/bin/env python3\n"),
    "program before a zip": lambda text: _zip(b"x", b"#!/bin/sh\n" + text + b"\n"),
    "comment of a zip": lambda text: _zip(b"x", comment=text),
    "empty zip": lambda text: text + b"\nPK\x05\x06" + bytes(18),
    "tar": _tar,
    "behind a tar": lambda text: _tar(b"x", text),
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lzma alone": lambda text: lzma.compress(text, lzma.FORMAT_ALONE),
    "zlib": zlib.compress,
    "zlib, fast": lambda text: zlib.compress(text, 1),
    "behind zlib": lambda text: zlib.compress(b"x" * 9) + text,
    "zlib, long": lambda text: zlib.compress(random.Random(1).randbytes(9000) + text),
    "gzip in zlib": lambda text: zlib.compress(gzip.compress(text)),
}


@pytest.mark.parametrize("form", PACKERS)
def test_what_is_packed_is_unpacked(form: str) -> None:
    secret = filled("password: {p}\nhf_{a34}\n")[0].encode()
    assert [each.line for each in secrets_of_file("a.pyz", PACKERS[form](secret))] == [0]
    assert secrets_of_file("a.pyz", PACKERS[form](b"password: ${P}\n")) == []


# The packers write the time of day, so a case is named by a word: workers have to agree on the names of tests.
NOT_UNPACKED = {
    "7z": b"7z\xbc\xaf\x27\x1cx",
    "rar": b"Rar!\x1a\x07\x01\0",
    "zstd": b"\x28\xb5\x2f\xfdx",
    "zstd, skippable": b"\x50\x2a\x4d\x18x",
    "lz4": b"\x04\x22\x4d\x18x",
    "lz4, legacy": b"\x02\x21\x4c\x18x",
    "lzip": b"LZIP\x01x",
    "lzop": b"\x89LZO\0x",
    "compress": b"\x1f\x9dx",
    "compress, lzh": b"\x1f\xa0x",
    "snappy": b"\xff\x06\0\0sNaPpYx",
    "cabinet": b"MSCF\0\0\0\0x",
    "wim": b"MSWIM\0\0\0x",
    "rpm": b"\xed\xab\xee\xdbx",
    "deb": b"!<arch>\ndebian-binary",
    "squashfs": b"hsqs\x07\0\0\0\0",
    "xar": b"xar!\0",
    "lzma, cut": b"]\0\0\x80\0x",
    "bundle 2": b"# v2 git bundle\nx",
    "bundle 3": b"# v3 git bundle\nx",
    "pack of git": b"PACK\0\0\0\x02x",
    "too much behind zlib": zlib.compress(bytes(LARGEST_EXAMINED + 1)),
    "xz, cut": lzma.compress(b"x" * 99)[:40],
    "gzip, cut": gzip.compress(b"x" * 99)[:20],
    "zip, cut": _zip(b"x" * 99)[:-30],
}


@pytest.mark.parametrize("form", NOT_UNPACKED)
def test_what_cannot_be_unpacked_is_named(form: str) -> None:
    found = secrets_of_file("a.dat", NOT_UNPACKED[form])
    assert [each.reason.render("en") for each in found] == ["an archive that was not fully examined for secrets"]


@pytest.mark.parametrize(
    "data",
    [b"x^2 + y^2\n", b"x\x9c", b"LZIP is a form\n", b"PACKAGE = 1\n", b"# v2 git bundles are files\n",
     b"hsqs = 1\nx = 12\n", b"BZ and PK\n", b"7z x a\n", b"Rar!\n", b"xar!\n", b"!<arch>\na.o/\n", b"]\n\n"],
)  # fmt: skip
def test_a_text_that_begins_like_an_archive_is_a_text(data: bytes) -> None:
    assert secrets_of_file("a.txt", data) == []
    assert secrets_of_file("a.txt", data + filled("\npassword: {p}\n")[0].encode())[0].line > 1


def test_what_cannot_be_examined_counts_as_secret() -> None:
    for data in (b"PK\x03\x04x", b"\x1f\x8bx", b"x" * (LARGEST_EXAMINED + 1)):
        assert [each.line for each in secrets_of_file("a.bin", data)] == [0]
    many = b"password: ${P}\n" * (MOST_ASSIGNMENTS + 1)
    assert [each.line for each in secrets_of_file("a.yaml", many)] == [MOST_ASSIGNMENTS + 1]
    assert secrets_of_file("a.yaml", many[: len(many) // 2]) == []
    assert secrets_of_file("ca.pem", b"-----BEGIN CERTIFICATE-----\nMIIB\n") == []
    assert secrets_of_file("ca.pem", b"-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n")


@pytest.mark.parametrize(
    "filler",
    ["token", "token=", "passwordpassword", "sk-", "eyJ", "eyJ.", "a:b@", "://a:", "-----BEGIN PRIVATE KEY-----\n",
     "key,", '"token":', "hf_", "curl -u ", "$1$", "machine login ", "Bearer ", "kind: Secret\n", "0a" * 16 + ".", "-",
     "\x1b[31m", "\\u0070", '\\n", "', "echo x", "assword\n", "密码是", "password:\n ", "connect(a,", "zip -", "auth=(",
     "MIIEvgIBADANBgkqhkiG9w0BAQEFAASC", "LS0tLS1CRUdJTi", "mysql -", "a\tTRUE\t/\t", "\0a", "a\0", "pass is ",
     'token = "', "token: \\", "= " * 4, "AKIA", "password ", "[", "--token default ", '"username"'],
)  # fmt: skip
def test_the_work_grows_with_the_size_alone(filler: str) -> None:
    """Counts the steps of Python; the patterns have a limit for each repetition."""
    counts = []
    for size in (3_000, 6_000):
        text = (filler * (size // len(filler) + 1))[:size]
        counts.append(steps(masked, text) + steps(secrets_of_file, "a.txt", text.encode()))
    assert counts[1] < 2.5 * counts[0] + 1_000


def unlimited(pattern: str) -> list[str]:
    """Return the repetitions of a pattern that have no limit."""
    parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
    found: list[str] = []

    def look(part: Any) -> None:
        if isinstance(part, (parser.SubPattern, list, tuple)):
            if isinstance(part, tuple) and len(part) == 3 and part[1] is parser.MAXREPEAT:
                found.append(str(part[2]))
            for inner in part:
                look(inner)

    look(parser.parse(pattern))
    return found


def test_no_repetition_of_a_form_is_without_limit() -> None:
    assert unlimited("a{2,3}(?:b|c+)") == ["[(LITERAL, 99)]"]
    patterns = [form.rest.pattern for form in TOKEN_FORMS] + [form.pattern.pattern for form in TEXT_FORMS]
    for pattern in (*patterns, *(form.pattern for form in SECRET_FILE_NAMES)):
        assert unlimited(pattern) == [], pattern
