"""Are proxies and package mirrors set so that ranks find each other and installations find their index?"""

from __future__ import annotations

import configparser
from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.core.secrets import masked
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, warned

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@check("environment.proxy", rank=2, side="host", title=say_in("check", "proxies and mirrors"))
def environment_proxy(context: CheckContext) -> Iterator[Result]:
    """Compare the two spellings, ask for exceptions of this host, and look at pip's index."""
    environment = context.host.environment
    ok = True
    set_ones = {name: environment.get(name) or environment.get(name.upper()) for name in _PROXIES}
    for name in _PROXIES:
        small, large = environment.get(name), environment.get(name.upper())
        if small and large and small != large:
            ok = False
            yield warned(
                say(
                    "{name} and {upper} differ: {small} and {large}",
                    name=name,
                    upper=name.upper(),
                    small=masked(small),
                    large=masked(large),
                ),
                say("some programs read one, some the other"),
                f'export {name.upper()}="${name}"',
            )
    exceptions = (environment.get("no_proxy") or environment.get("NO_PROXY") or "").split(",")
    wanted = ["localhost", "127.0.0.1", *filter(None, [environment.get("MASTER_ADDR")])]
    lacking = [host for host in wanted if host not in exceptions]
    if any(set_ones.values()) and lacking and "*" not in exceptions:
        ok = False
        yield warned(
            say("a proxy is set, and no_proxy lacks {hosts}", hosts=", ".join(lacking)),
            say("requests to servers on this host, and between ranks over HTTP, then go to the proxy"),
            f"export no_proxy={','.join([*filter(None, exceptions), *lacking])}",
        )
    index = _index(context)
    if index.startswith("http://"):
        ok = False
        yield warned(
            say("pip downloads packages from {index} without encryption", index=masked(index)),
            say("an attacker on the network could replace packages; without trusted-host, pip refuses this index"),
            "python -m pip config debug",
            advice=say("use an https address; the command shows which file or variable sets the index"),
        )
    if ok:
        used = [f"{name}={masked(value)}" for name, value in set_ones.items() if value]
        used += [f"pip: {masked(index)}"] if index else []
        yield passed(say("{used}", used=", ".join(used)) if used else say("no proxy and no mirror is set"))


def _index(context: CheckContext) -> str:
    environment = context.host.environment
    named = environment.get("PIP_INDEX_URL")
    if named:
        return named
    home = environment.get("HOME", "/root")
    files = [
        environment.get("PIP_CONFIG_FILE", ""),
        f"{home}/.config/pip/pip.conf",
        f"{home}/.pip/pip.conf",
        "/etc/pip.conf",
    ]
    for path in filter(None, files):
        text = context.host.read(path)
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parser.read_string(text or "")
        except configparser.Error:
            continue
        if parser.has_option("global", "index-url"):
            return parser.get("global", "index-url")
    return ""
