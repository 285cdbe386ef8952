"""Names and values: which name is one of a secret, what is assigned to it, and whether that is no placeholder."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterator
from functools import lru_cache

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.core.secret_forms import words_in

BASE64_ENTROPY = 4.3
"""Bits a character from which on a base64 text is random. truffleHog and detect-secrets take 4.5, which 2 % of
random texts of 40 characters does not reach; one of a thousand has less than 4.3. Text that people write has less; so
have hexadecimal digits, which have 4 at most and are mostly digests."""

# --- names of values ---

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[\u4e00-\u9fff]+")

_KEYWORDS = (
    "pass", "pwd", "secret", "token", "key", "auth", "cred", "psk", "cookie",
    "密码", "口令", "令牌", "密钥",
)  # fmt: skip
"""One of these is in each name of a secret, in small letters. Names that are `sk` or end so are looked for apart."""

_PASSWORDS = ("password", "passwd", "passphrase", "passcode", "pwd", "psk", "密码", "口令", "密钥", "令牌")
_CHINESE_NAMES = ("密码", "口令", "令牌", "密钥")
_PASS_OF = words_in("""
    admin auth become bind bmc db email ftp guest ipmi key keystore ldap login mail mongo mqtt my mysql oracle pg
    postgres proxy rabbitmq redis root sftp smtp ssh sshd store sudo svn trust truststore user vault vnc wifi
""")
_KEY_OF = words_in("""
    access account admin anthropic api app auth azure client comet consumer dashscope deepseek encryption gemini
    google groq hf huggingface license master neptune openai private qianfan secret service shared sign signing
    storage subscription swanlab wandb zhipu
""")
_JOINED_KEYS = ("apikey", "accesskey", "secretkey", "privatekey", "authkey", "appkey", "accountkey", "wandbkey")
_NOT_TOKENS = words_in("""
    added additional audio begin bos box chunk class classification cls code completion control coord current
    decoder default depth detection distillation distill dummy empty end eod eof eol eos eot extra eov fake fill
    first grounding global im image img ignore input instance inst label language lang last learnable mask max
    memory min modality motion new next no noise null num number object obj other output pad padding patch per
    placeholder point pos position prefix previous prompt prune query quant ref region register response role
    segment sep separator seq sequence simple single sink smp sos soft special speech start state step stop suffix
    system tail target task temporal text think time to token tool type unk unknown user value video vision visual
    vocab voice whitespace word
""")
"""Words before `token` in programs of language models, where it is no secret."""

_TAIL_WORDS = words_in("""
    admin b64 backup base64 cur current default dev hex key live local main new old plain plaintext prod production
    raw root staging str string test user val value
""")
"""Words after the word that tells, as in `DB_PASSWORD_PROD`."""


@lru_cache(4096)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name, in small letters: `hfToken` and `HF_TOKEN` have the same."""
    return tuple(word.lower() for word in _WORD.findall(name))


@lru_cache(4096)
def rank_of(words: tuple[str, ...]) -> int:
    """Return 3 for the name of a password, 2 for the one of a token or key, 1 for one that may be, 0 for others."""
    while words and (words[-1].isdigit() or (words[-1] in _TAIL_WORDS and len(words) > 1 and words[-1] != "key")):
        words = words[:-1]
    if not words:
        return 0
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last.endswith(_PASSWORDS):
        return 3
    if last in ("pass", "pw"):
        return 3 if before in _PASS_OF else int(not before)
    if last.endswith("pass") and last[:-4] in _PASS_OF:
        return 3
    if last in ("secret", "secrets") or last.endswith("secret"):
        return 2
    if last in ("token", "tokens") or last.endswith("token"):
        return 0 if before in _NOT_TOKENS else 2
    if last.endswith(_JOINED_KEYS) or (last == "key" and before in _KEY_OF):
        return 2
    if "secret" in words and last in ("key", "id", "token"):
        return 2 if last != "id" else 0
    if last in ("credential", "credentials", "auth", "authorization", "cookie"):
        return 1
    return 2 if last in ("sk", "aksk") else 0


@lru_cache(4096)
def may_be_secret(words: tuple[str, ...]) -> bool:
    """Whether a name may be one of a secret, when a text is masked."""
    joined = "".join(words)
    if any(
        part in joined for part in ("secret", "passw", "passphrase", "apikey", "accesskey", "privatekey", "credential")
    ):
        return True
    return any(
        word.endswith(("pwd", "psk", *_PASSWORDS))
        or word in ("auth", "authorization", "cookie", "sk")
        or (word.endswith(("token", "tokens")) and (words[at - 1] if at else "") not in _NOT_TOKENS)
        for at, word in enumerate(words)
    ) or bool(rank_of(words))


# --- values ---

_PLACEHOLDER = lazy_regex(
    r"[\s*x.#?_\-…0]*\Z|[<\[{(%$@]"
    r"|(?:my|the|a|an|some|this|enter|use|set|put|fill|add|get|paste)[-_ ](?!.{0,80}\d.{0,80}\d)"
    r"|(?:os\.|process\.|environ|getenv|config\.|settings\.|self\.|args\.|cfg\.|opt\.|env\.|env:|vault:|secrets\.|"
    r"secretkeyref|userdata\.|st\.|var\.|data\.|local\.|file:|op://|ssm:|arn:|optional\[)"
    r"|(?:none|null|nil|undefined|true|false|yes|no|on|off|str|string|int|bool|bytes|optional|required|text|any|empty|"
    r"test|testing|foo|bar|baz|foobar|fake|mock|abc|hidden|password|passwd|pwd|pass|secret|token|key|basic|bearer|prompt|"
    r"ask|auto|default|unknown|value|username|user|credentials?|n/a)\W{0,4}\Z"
)
_PLACEHOLDER_PARTS = (
    "your", "example", "sample", "placeholder", "changeme", "change-me", "change_me", "change me", "replace",
    "insert", "dummy", "redacted", "密码", "用户", "您的", "你的", "示例", "todo", "fixme", "xxxx", "****", "...", "${",
    "{{", "$(", "%(", "_here", "-here", " here",
)  # fmt: skip


def is_placeholder(value: str, name: str = "") -> bool:
    """Whether a value represents a secret that is not there."""
    lowered = value[:512].lower()
    if _PLACEHOLDER.match(lowered) is not None or lowered.endswith((">", "]", "}", ")")):
        return True
    if any(part in lowered for part in _PLACEHOLDER_PARTS) or (len(lowered) < 6 and len(set(lowered)) < 2):
        return True
    plain, own = re.sub(r"[\W_]", "", lowered), re.sub(r"[\W_]", "", name.lower())
    if own and plain.startswith(own) and not _DIGIT.search(plain):
        return True  # `password: "PasswordFlow"`
    return plain in ("apikey", "accesstoken", "authtoken", "secretkey")


def is_random(value: str, least: int) -> bool:
    """Whether a value looks made by a machine: one word with letters and digits, no path, no name with a number."""
    if len(value) < least or not ONE_WORD.match(value):
        return False
    value = value[:128]
    if _NAME_LIKE.match(value) or "://" in value or not _LETTER.search(value):
        return False
    return _DIGIT.search(value) is not None or (len(value) >= 16 and _entropy(value) > 3.5)


_LETTER = re.compile("[A-Za-z]")
_DIGIT = re.compile("[0-9]")


ONE_WORD = lazy_regex(r"[A-Za-z0-9+/=_.:~!@#$%^&*-]+\Z")
_NAME_LIKE = lazy_regex(
    r"(?:[./~]{0,2}/|[a-zA-Z]:[\\/])|(?:[A-Za-z]*\d{0,4}(?:[-_./:]|\Z)){2,64}\Z|[A-Za-z]+\d{0,3}\Z(?<![A-Z].)|v?\d+(?:\.\d+)+(?:\Z|=)"
    r"|[-+]?\d[\d._,]*(?:[eE][-+]?\d+)?[kKMGTB]?\Z"
)
"""Paths, names such as `gpt2-medium` and `layer4.conv1`, a word with a number, versions."""


_LONG_WORD = re.compile("[a-z]{7}")
_CHANGE = re.compile(r"[a-z](?=[^a-z])|[A-Z](?=[^A-Z])|[0-9](?=[^0-9])")
"""A letter before one of another case, or before a digit: half of a random text is such, and less of a name."""


def _entropy(text: str) -> float:
    """Return Shannon's entropy of a text in bits a character."""
    counts = [text.count(letter) / len(text) for letter in set(text)]
    return -sum(part * math.log2(part) for part in counts)


def is_random_base64(value: str) -> bool:
    """Whether a text is base64 of random bytes, and neither hexadecimal nor a list of letters."""
    return (
        any(letter.islower() for letter in value)
        and any(letter.isupper() for letter in value)
        and sum(letter.isdigit() for letter in value) > 1
        and _entropy(value) >= BASE64_ENTROPY
        and "abcdefgh" not in value.lower()
        and not _NAME_LIKE.match(value)
        and not _LONG_WORD.search(value)
        and len(_CHANGE.findall(value)) * 2 >= len(value)
    )


_FOLDED = str.maketrans("013457@$!", "oieastasi")
_TELLING = re.compile("secret|passw|pwd|test|dummy|fake|mock|foo|bar|baz|wrong|invalid|incorrect|changeme")
_DUMMY = lazy_regex(
    r"(?:(?:secret|password|passwd|passw|pass|pwd|tests?|testing|dummy|fake|mock|foo|bar|baz|wrong|invalid|incorrect|bad|"
    r"good|valid|correct|old|new|other|different|my|your|the|a|an|some|this|is|top|super|very|not|no|real|really|long|short|"
    r"secure|strong|weak|changeme|key|token|value)[-_. ]?){1,8}(?:\d{1,3}|1234|12345|123456)?!?\Z"
)


def is_dummy(value: str) -> bool:
    """Whether a value is made of words that a test writes in place of a secret, such as `s3cret` and `wrong-password`.

    Only what is nothing else is one: no user name, and no word with characters that one would choose to make it strong.
    """
    if len(value) > 40:
        return False
    lowered = value.lower()
    return any(
        _TELLING.search(each) is not None and _DUMMY.match(each) is not None
        for each in (lowered, lowered.translate(_FOLDED))
    )


# --- tables ---

_OWNERS = words_in("account email host hostname login mail member name site uri url user userid username")
_MOST_ROWS = 10_000


def columns(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the secrets of a table by the names of its columns, with their places.

    Passwords alone are data, as those of a study of passwords; with the names of users they open something.
    """
    end = text.find("\n")
    header = text[: max(end, 0)]
    if not header or len(header) > 4096:
        return
    mark = max(",;\t|", key=header.count)
    names = [name.strip(" \"'\ufeff\r") for name in header.split(mark)]
    words = [words_of(name) for name in names]
    ranks = [rank_of(each) for each in words]
    if max(ranks) < 2 or not any(
        not rank and _OWNERS.intersection(each) for rank, each in zip(ranks, words, strict=True)
    ):
        return
    at = end + 1
    for row in text[at:].split("\n", _MOST_ROWS)[:_MOST_ROWS]:
        for name, rank, cell in zip(names, ranks, _cells(row, mark), strict=False):
            value = cell.strip(" \"'\r")
            if rank > 1 and not is_placeholder(value, name) and (is_random(value, 8) or (rank == 3 and len(value) > 3)):
                yield name, at, at + len(row)
                break
        at += len(row) + 1


def _cells(row: str, mark: str) -> list[str]:
    if '"' not in row:
        return row.split(mark)
    import csv  # imported late: few tables have quotes

    try:
        return next(csv.reader([row.replace("\0", "")], delimiter=mark), [])
    except csv.Error:
        return row.split(mark)


# --- what is assigned to a name ---

_LATER = r"\\\r?\n[ \t]{0,80}|\([ \t]{0,8}(?:\r?\n[ \t]{0,80})?(?=[rbu]?\\?[\"'`])"
"""A value that begins in the next line of a program, or in parentheses."""

_TAIL = lazy_regex(
    r"(?P<closed> ?\\?[\"'`]?)\]?[ \t]{0,8}"
    r"(?:(?P<block>:[ \t]{0,4}[|>][+-]?\d?[ \t]{0,8}\r?\n[ \t]{1,40})"
    rf"|(?P<typed>:[ \t]{{0,4}}[A-Za-z_][\w.\[\]|]{{0,40}}[ \t]{{0,8}}=[ \t]{{0,8}}(?:{_LATER})?(?=[rbu]?[\"']))"
    rf"|(?P<below>:[ \t]{{0,4}}(?:#[^\n]{{0,80}})?\r?\n[ \t]{{1,40}}(?=(?:\"[^\"\n]{{1,200}}\"|'[^'\n]{{1,200}}'"
    rf"|[^\s\"'\\#&*|>\[{{-][^\s\"'\\]{{0,256}}(?<!:))[ \t]{{0,8}}(?:[\r\n\\,}}\]]|\Z)))"
    rf"|(?P<sign>(?::=|=>|={{1,2}}|[:：＝])[ \t]{{0,16}}(?:{_LATER})?)"
    r"|(?P<said>[ \t]{0,4}(?:是|为|設為|设为|改为)[ \t]{0,4}[:：]?[ \t]{0,4})"
    r"|(?P<next>,[ \t]{0,8}\n?[ \t]{0,40}(?=[rbu]?\\?[\"'`]))"
    r"|(?P<call>\([ \t]{0,8}(?=[rbu]?\\?[\"'`]))"
    r"|(?P<default>,[^\n]{0,160}?\bdefault[ \t]{0,4}=[ \t]{0,4}(?=[rbu]?\\?[\"'`]))"
    r"|(?P<attribute>[ \t]{1,8}value[ \t]{0,4}=[ \t]{0,4}(?=\\?[\"']))"
    r"|(?P<entry>\r?\n[ \t]{0,40}value[ \t]{0,4}:[ \t]{0,8})"
    r"|(?P<element>[^<>\n]{0,40}>(?:[ \t\r\n]{0,40}<string>)?)"
    r"|(?P<spoken>[ \t]{1,4}(?:is[ \t:]{1,4}|[:：][ \t]{1,4})?(?=`)|[ \t]{1,4}is[ \t:]{1,4}(?=[^\s`]))"
    r"|(?P<cell>[ \t]{0,8}\|[ \t]{0,8}(?=[^\s|]))"
    r"|(?P<space>[ \t]{1,8}))"
)
"""The text between a name and its value, by the way in which files write it."""

_VALUE = lazy_regex(
    r"[rbuRBU]{0,2}(?P<quote>\\?(?:\"{3}|'{3}|[\"'`]))"
    r"(?P<quoted>(?:[^\"'`\\\n]|\\(?![\"'`])|(?!(?P=quote))\\?[\"'`]){0,512})"
    r"|(?P<bare>[^\s\"'`\\]{1,256})"
)
_WHOLE_VALUE = lazy_regex(
    r"[rbuRBU]{0,2}(?P<quote>\\?(?:\"{3}|'{3}|[\"'`]))"
    r"(?P<quoted>(?:[^\"'`\\\n]|\\(?![\"'`])|(?!(?P=quote))\\?[\"'`])*)"
    r"|(?P<bare>(?:[^\s&;,\"']|[&;,](?![\s&;,\"']|\Z|[\w.-]{1,40}[=:]))+)"
)
"""A value that is hidden, however long it is: names within it are not looked at again."""

_NUMBER = lazy_regex(r"[\d.,_]{1,40}(?:[eE][-+]?\d{1,4})?[kKMB]?\Z")
_SCHEME = lazy_regex(r"(?i)(?:Bearer|Basic|Token|Digest|ApiKey|Negotiate)[ \t]{1,4}")
_IDENTIFIER = f"{string.ascii_letters}{string.digits}_.-"
_IDENTIFIER_ON = re.compile(r"[\w-]{0,64}")
_CHINESE_ON = re.compile(r"..[0-9]{0,2}")
"""A name in Chinese: no space tells where it ends."""
_ASCII_ON = re.compile(r"[!-~]{1,256}")
_SK = ("sk=", "sk =", "sk:", "sk :", "sk'", 'sk"')


def line_before(text: str, at: int, most: int = 200) -> str:
    """Return the content of a line before a place, at most so many characters."""
    return text[max(0, at - most) : at].rpartition("\n")[2]


def in_small_letters(text: str) -> str:
    """Return a text in small letters, each at its place."""
    small = text.lower()
    return small if len(small) == len(text) else text.translate(_SMALL)


_SMALL = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}


class Assignment(NamedTuple):
    """A name, and what is assigned to it.

    Attributes:
        name: The name.
        words: Its words, in small letters.
        before: The character before the name; `-` where the name is an option.
        way: How the value follows: a group of `_TAIL`.
        is_quoted: Whether the value is in quotes.
        start: Where the value begins.
        end: Where it ends.
        at: Where the name begins.
    """

    name: str
    words: tuple[str, ...]
    before: str
    way: str
    is_quoted: bool
    start: int
    end: int
    at: int


def assignments(text: str, lowered: str, is_eager: bool = False) -> Iterator[Assignment]:
    """Yield what is assigned to names that may be those of secrets.

    Args:
        text: The text.
        lowered: It in small letters.
        is_eager: Whether values are yielded whole, and what is within them not again.
    """
    places: set[int] = set()
    for keyword in _KEYWORDS:
        at = lowered.find(keyword)
        while at >= 0:
            places.add(at)
            at = lowered.find(keyword, at + len(keyword))
    for keyword in _SK:
        at = lowered.find(keyword)
        while at >= 0:
            if not at or not lowered[at - 1].isalnum():
                places.add(at)
            at = lowered.find(keyword, at + 2)
    form = _WHOLE_VALUE if is_eager else _VALUE
    done = -1
    for place in sorted(places):
        if place < done:
            continue
        is_chinese = text[place : place + 2] in _CHINESE_NAMES
        on = (_CHINESE_ON if is_chinese else _IDENTIFIER_ON).match(text, place)
        assert on is not None
        first, done = len(text[max(0, place - 64) : place].rstrip(_IDENTIFIER)) + max(0, place - 64), on.end()
        if text[first] in "nrt" and text[first - 1 : first] == "\\":
            first += 1  # a new line within quotes
        name = text[first:done]
        words = words_of(name)
        if not (may_be_secret(words) if is_eager else rank_of(words)):
            continue
        tail = _TAIL.match(text, done)
        if tail is None:
            continue
        value = form.match(text, tail.end())
        if value is None:
            continue
        group = "quoted" if value["quote"] is not None else "bare"
        start, end = value.span(group)
        scheme = _SCHEME.match(text, start)
        if scheme is not None:
            start, rest = scheme.end(), form.match(text, scheme.end())
            if group == "bare":
                end = start if rest is None else rest.end()
        way = next(way for way in _WAYS if tail[way] is not None)
        if is_chinese and group == "bare":
            written = _ASCII_ON.match(text, start, end)
            if written is not None:  # the sentence goes on without a space
                end = start + len(written[0].rstrip(",.;)"))
        if way == "sign" and not tail["closed"] and value["quote"] and text[first - 1 : first] == value["quote"]:
            continue  # a label, `"Password:"`, of which the quote ends
        before = "-" if name.startswith("-") else text[max(0, first - 1) : first]
        each = Assignment(name.lstrip("-."), words, before, way, group == "quoted", start, max(start, end), first)
        if (way == "space" and not _is_told_by_space(text, each)) or (way == "element" and before != "<"):
            continue
        if words in (("pass",), ("pw",)) and (way not in ("sign", "below") or not _is_key(text, first)):
            continue  # to pass `x`; the first pass: y
        if way == "cell" and not line_before(text, first).lstrip().startswith("|"):
            continue
        if is_eager and (way in _UNTOLD or words in (("pass",), ("pw",))) and not is_random(text[start:end][:512], 6):
            continue
        if is_eager and words[-1] == "tokens" and _NUMBER.match(text[start:end][:64]):
            continue  # how many there are
        yield each
        if is_eager:
            done = max(done, end)


def _is_key(text: str, at: int) -> bool:
    """Whether a name is quoted, or the first word of its line."""
    return text[max(0, at - 1) : at] in ('"', "'") or not line_before(text, at).strip(" \t-{")


_UNTOLD = ("call", "next", "spoken", "said", "cell")
"""Ways by which other things follow a name, too: what is random counts."""

_WAYS = (
    "block", "typed", "below", "sign", "said", "next", "call", "default", "attribute", "entry", "element", "spoken",
    "cell", "space",
)  # fmt: skip


def _is_told_by_space(text: str, each: Assignment) -> bool:
    """Whether a value that follows its name with a space belongs to it: an option, a line of a Dockerfile or `set`."""
    if each.before == "-":
        return text[each.start : each.start + 1] != "-"
    if text[each.at : each.at + 2] in _CHINESE_NAMES:
        return is_random(text[each.start : each.end], 6)
    line = line_before(text, each.at, 40)
    return re.fullmatch(r"\s*(?:ENV|ARG|setenv|setx|set|export|wpa-)\s*", line) is not None
