"""No secret is shown."""

from __future__ import annotations

import pytest

from torchferry.doctor.masking import masked, masked_variables

MASKED = {
    "http://mia:secret@10.0.0.1:3128": "http://***@10.0.0.1:3128",
    "socks5h://mia@proxy:1080 and http://a:b@c/d": "socks5h://***@proxy:1080 and http://***@c/d",
    "http://mia:p@ss@proxy:3128": "http://***@proxy:3128",
    "mia:secret@10.0.0.1:3128": "***@10.0.0.1:3128",
    "token=abc&x=1": "token=***&x=1",
    "HF_TOKEN: hf_abcdefgh12345": "HF_TOKEN: ***",
    "using hf_abcdefgh12345 now": "using *** now",
    "--password 'x' api_key=\"k y\"": "--password 'x' api_key=***",
    "export no_proxy=localhost,127.0.0.1": "export no_proxy=localhost,127.0.0.1",
    "/usr/lib/x86_64-linux-gnu/musa": "/usr/lib/x86_64-linux-gnu/musa",
}


@pytest.mark.parametrize("text", MASKED)
def test_what_is_hidden_and_what_stays(text: str) -> None:
    assert masked(text) == MASKED[text]


def test_variables_are_hidden_by_their_names() -> None:
    shown = masked_variables({"AWS_SECRET_ACCESS_KEY": "abc", "http_proxy": "http://u:p@h:1", "HCCL_IF_IP": "10.0.0.4"})
    assert shown == {"AWS_SECRET_ACCESS_KEY": "***", "http_proxy": "http://***@h:1", "HCCL_IF_IP": "10.0.0.4"}
