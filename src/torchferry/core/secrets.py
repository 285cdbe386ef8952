"""Find secrets: in names of files, in files, and in texts that are shown or sent.

There is one detector. `secrets_in` names what must not leave the machine, `masked` hides it in a text. The first asks
for a value that is no placeholder, since a false alarm costs the user a file; the second hides in doubt.

Each pattern has a limit for every repetition and begins at a word that was found, so that the time grows with the size
of a text and with nothing else.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.core.secret_archives import is_packed, unpacked
from torchferry.core.secret_forms import (
    BINARY_KEYS,
    CERTIFICATE_SUFFIXES,
    HARMLESS_SUFFIXES,
    PROSE_SUFFIXES,
    PUBLIC_KEYS,
    QUOTED_DATA_SUFFIXES,
    SECRET_FILES,
    SECRET_FOLDERS,
    SECRET_NAMES,
    SECRET_PLACES,
    SECRET_SUFFIXES,
    SOURCE_SUFFIXES,
    TEXT_FORMS,
    TOKEN_FORMS,
)
from torchferry.core.secret_texts import texts_of, views
from torchferry.core.secret_values import (
    ONE_WORD,
    Assignment,
    assignments,
    columns,
    in_small_letters,
    is_dummy,
    is_placeholder,
    is_random,
    is_random_base64,
    line_before,
    may_be_secret,
    rank_of,
    words_of,
)

MASK = "***"

LARGEST_EXAMINED = 32 << 20
"""Bytes of a file that is examined; a larger one counts as one with secrets, since nobody knows."""

MOST_ASSIGNMENTS = 100_000
"""Values with the name of a secret that are examined in one text; the same limit on every machine."""

MOST_FOUND = 50
"""Secrets of one file that are named."""


class FoundSecret(NamedTuple):
    """A secret that was found: where, and its kind. The text of the secret is nowhere in it.

    Attributes:
        line: The line, from 1; 0 where the name of the file tells.
        reason: The kind, as a message.
    """

    line: int
    reason: Message


class _Span(NamedTuple):
    """A part of a text that is secret."""

    start: int
    end: int
    reason: Message


# --- files ---


def secrets_of_file(path: str, data: bytes, _depth: int = 0) -> list[FoundSecret]:
    """Return the secrets of a file, by its path (with `/`) and its content; the first of each line, in order."""
    named = _secret_name(path)
    if named is not None and path.lower().endswith(CERTIFICATE_SUFFIXES) and _is_public(data):
        named = None
    named = named or _token_in_name(path)
    if named is not None:
        return [FoundSecret(0, named)]
    if len(data) > LARGEST_EXAMINED:
        limit = LARGEST_EXAMINED >> 20
        return [FoundSecret(0, say("larger than {limit} MiB, so not examined for secrets", limit=limit))]
    if is_packed(path, data):
        return _in_archive(data, _depth) if _depth < _DEEPEST else [_UNEXAMINED_ARCHIVE]
    if BINARY_KEYS.match(data):
        return [FoundSecret(0, _reason("key"))]
    by_line: dict[int, FoundSecret] = {}
    for text, is_whole in texts_of(data):
        line, start = 1, 0
        for span in sorted(_spans(text, path, is_whole)):
            line += text.count("\n", start, span.start)
            start = span.start
            number = line if is_whole else 0
            by_line.setdefault(number, FoundSecret(number, span.reason))
            if len(by_line) >= MOST_FOUND:
                break
    return sorted(by_line.values(), key=lambda each: each.line)


def secret_name(path: str) -> Message | None:
    """Return why a file holds secrets by its name, or its name holds one; None for other files."""
    return _secret_name(path) or _token_in_name(path)


def shown_path(path: str) -> str:
    """Return a path without the tokens that are in the names of its folders and of the file."""
    for span in sorted(_path_spans(path), reverse=True):
        path = f"{path[: span.start]}{MASK}{path[span.end :]}"
    return path


def _token_in_name(path: str) -> Message | None:
    span = next(_path_spans(path), None)
    return None if span is None else say("in the name of the file: {reason}", reason=span.reason)


def _path_spans(path: str) -> Iterator[_Span]:
    """Yield the tokens in a path; each folder and the file is its own name."""
    if len(path) < _SHORTEST_TOKEN:
        return
    apart = path.replace("\\", " ").replace("/", " ")
    for form in TOKEN_FORMS:
        if form.is_telling and form.start in apart:
            apart = re.sub(f"[-_+]{re.escape(form.start)}", f" {form.start}", apart)  # `run-hf_...`
    for span in _token_spans(apart, _long_words(apart)[0]):
        if _HAS_DIGIT.search(path, span.start, span.end):  # names of models have none in words so long
            yield span


_HAS_DIGIT = re.compile("[0-9]")


def _secret_name(path: str) -> Message | None:
    *folders, name = path.lower().replace("\\", "/").strip("/").split("/")
    reason = say("files of this name usually hold secrets")
    if name.endswith(HARMLESS_SUFFIXES):
        return None
    if name in SECRET_FILES or name.endswith(SECRET_SUFFIXES) or any(form.match(name) for form in SECRET_NAMES):
        if "." in name[1:] and name[name.rindex(".") :] in SOURCE_SUFFIXES:
            return None  # source is judged by what is in it
        return reason
    if not SECRET_FOLDERS.isdisjoint(folders):
        return reason
    full = f"/{'/'.join(folders)}/{name}"
    if any(f"/{place}" in full if place.endswith("/") else full.endswith(f"/{place}") for place in SECRET_PLACES):
        return reason
    return None


_DEEPEST = 3
"""Archives in archives that are unpacked; a compressed tar is two of them."""

_UNEXAMINED_ARCHIVE = FoundSecret(0, say("an archive that was not fully examined for secrets"))


def _in_archive(data: bytes, depth: int) -> list[FoundSecret]:
    """Return what is in a packed file, unpacked to a limit; what cannot be unpacked counts as secret."""
    try:
        inside = [
            each for name, part in unpacked(data, LARGEST_EXAMINED) for each in secrets_of_file(name, part, depth + 1)
        ]
    except Exception:  # the unpackers of the standard library raise what they like on damaged files
        return [_UNEXAMINED_ARCHIVE]
    return [FoundSecret(0, say("in an archive: {reason}", reason=inside[0].reason))] if inside else []


def _is_public(data: bytes) -> bool:
    """Whether a file holds certificates or public keys alone."""
    return PUBLIC_KEYS.search(data) is not None and b"PRIVATE" not in data


# --- texts that are shown ---


def masked(text: str) -> str:
    """Return a text without what looks like a password, a token or a key."""
    spans = sorted(_hidden_spans(text))
    if not spans:
        return text
    parts: list[str] = []
    at = 0
    for start, end in spans:
        if start >= at:
            parts += (text[at:start], MASK)
        at = max(at, end)
    return "".join((*parts, text[at:]))


def masked_variables(names: Mapping[str, str]) -> dict[str, str]:
    """Return variables with the secret ones hidden: by their name, else by what is in them."""
    return {name: MASK if is_secret_name(name) else masked(value) for name, value in names.items()}


def masked_command(words: Sequence[str]) -> list[str]:
    """Return the words of a command without what looks like a secret, also where it follows its option."""
    shown: list[str] = []
    hidden = _hidden_words(words)
    for at, word in enumerate(words):
        earlier = words[at - 1] if at else ""
        if _is_secret_option(earlier) and word:
            shown.append(MASK)
        elif earlier in ("-u", "--user") and ":" in word:
            shown.append(f"{word.partition(':')[0]}:{MASK}")
        elif at in hidden:
            shown.append(f"{masked(word[: hidden[at]])}{MASK}")
        else:
            shown.append(masked(word))
    return shown


def _hidden_words(words: Sequence[str]) -> dict[int, int]:
    """Return which words of a command hold a password by the command's form, and where in them it begins.

    In a list of words nothing is quoted and no variable is meant: `$`, a quote or a space is part of the password.
    """
    line = " ".join(word.translate(_NO_SHELL) for word in words)
    lowered = in_small_letters(line)
    begins = list(accumulate((len(word) + 1 for word in words), initial=0))
    hidden: dict[int, int] = {}
    for form in TEXT_FORMS:
        if form.kind == "command" and form.word in lowered:
            for match in form.pattern.finditer(line):
                at = bisect_right(begins, match.start(1)) - 1
                hidden[at] = min(match.start(1) - begins[at], hidden.get(at, len(words[at])))
    return hidden


_NO_SHELL = {ord(letter): "x" for letter in " \t\r\n$<>|;\"'`"}


def masked_values(value: Any, name: str = "") -> Any:
    """Return what JSON can hold with its texts masked; what is under the name of a secret is hidden."""
    if isinstance(value, str):
        return MASK if value and name and may_be_secret(words_of(name)) else masked(value)
    if isinstance(value, dict):
        return {masked(key): masked_values(inner, key) for key, inner in value.items()}
    return [masked_values(inner, name) for inner in value] if isinstance(value, (list, tuple)) else value


def masked_message(message: Message) -> Message:
    """Return a message of which the values are masked."""
    return message._replace(
        values=tuple(
            (
                name,
                masked(value)
                if isinstance(value, str)
                else masked_message(value)
                if isinstance(value, Message)
                else value,
            )
            for name, value in message.values
        )
    )


def masked_text(data: bytes) -> bytes:
    """Return the content of a file, such as a log, with its text masked; what is no text is returned as it is."""
    for text, is_whole in texts_of(data):
        if is_whole:
            shown = masked(text)
            if shown != text:
                return shown.encode("utf-8", "surrogatepass")
    return data


def is_secret_name(name: str) -> bool:
    """Whether the name of a variable or of a setting is one of a secret; in doubt it is."""
    words = words_of(name)
    return may_be_secret(words) or bool(_ALSO_VARIABLES.intersection(words)) or name.lower().endswith("key")


_ALSO_VARIABLES = frozenset({"key", "keys", "cookie", "cookies", "session", "pass", "pw"})


def _is_secret_option(word: str) -> bool:
    return len(word) < 80 and _OPTION.match(word) is not None and is_secret_name(word.lstrip("-"))


_OPTION = lazy_regex(r"--?[A-Za-z][\w.-]{0,80}\Z")


# --- what is secret in a text ---

_KEY_END = lazy_regex(r"-----END[A-Z0-9 ]{0,48}-{0,5}")
_KEY_REST = lazy_regex(r"(?:[A-Za-z0-9+/=\s:,]|-(?!-)|\\{1,4}[nr]|<br ?/?>|[\"'][ \t+,\\\r\n]{0,80}[\"']){0,16384}")
_ADDRESS = lazy_regex(r"(?P<user>[^\s/@:\"'<>`]{0,256})(?::(?P<secret>[^\s/@\"'<>`]{1,512}))?@(?=[\w\[$])")
_PAIR = lazy_regex(
    r"(?i)\bak\b[ \t]{0,4},[ \t]{0,4}sk[ \t]{0,4}=[ \t]{0,4}[\"'][^\"'\n]{1,80}[\"'][ \t]{0,4},[ \t]{0,4}"
    r"[\"']([^\"'\n]{16,80})[\"']"
)
_QUOTED_RUN = lazy_regex(r"[\"'`]([A-Za-z0-9+/=_-]{40,128})(?=[\"'`])")
_NO_RANDOM = frozenset(
    {".json", ".jsonl", ".ipynb", ".lock", ".sum", ".svg", ".html", ".htm", ".css", ".csv", ".tsv", ".bib"}
)


def _spans(text: str, path: str, is_whole: bool) -> Iterator[_Span]:
    """Yield the secrets of a file's text, by their places."""
    suffix = path[path.rfind(".") :].lower() if "." in path.rpartition("/")[2] else ""
    if not is_whole:
        suffix = ".txt"  # what stands behind a label of a program is a word more often than a password
    is_dummy_here = is_dummy if is_whole and _OF_TESTS.search(f"/{path.lower()}") else None
    for view in views(text):
        for span in _spans_of(view.text, suffix):
            if is_dummy_here is not None and is_dummy_here(view.text[span.start : span.end]):
                continue
            start, end = view.span(span.start, span.end)
            yield _Span(start, end, span.reason)


_OF_TESTS = lazy_regex(
    r"/(?:tests?|testing|__tests__|fixtures)/"
    r"|/(?:test_[^/]{0,200}|conftest\.py|[^/]{1,200}[._-](?:test|spec)\.\w{1,8})\Z"
)


def _spans_of(text: str, suffix: str) -> Iterator[_Span]:
    if suffix in (".ipynb", ".json", ".jsonl"):
        text = text.replace('\\"', ' "')  # quotes in texts in JSON
    lowered = in_small_letters(text)
    long_words, longest = _long_words(text)
    yield from _token_spans(text, long_words)
    for form in TEXT_FORMS:
        if longest < form.least or (form.least and not form.pattern.search(long_words)):
            continue
        if form.word in lowered:
            for match in form.pattern.finditer(text):
                if form.kind == "basic" and not _is_basic(match[1]):
                    continue
                if form.kind in ("key", "hash") or not is_placeholder(match[1]):
                    yield _Span(match.start(1), _end_of(form.kind, text, match), _reason(form.kind))
    if "://" in text:
        yield from _address_spans(text)
    yield from _named_spans(text, lowered, suffix)
    if suffix in (".csv", ".tsv"):
        for name, start, end in columns(text):
            yield _Span(start, end, _named(name))
    if "sk" in lowered:
        for match in _PAIR.finditer(text):
            if is_random(match[1], 20):
                yield _Span(match.start(1), match.end(1), _named("sk"))
    if longest >= 40 and suffix not in _NO_RANDOM and (suffix in SOURCE_SUFFIXES or suffix not in PROSE_SUFFIXES):
        for match in _QUOTED_RUN.finditer(text):
            if is_random_base64(match[1]) and not is_placeholder(match[1]) and not _is_digest(lowered, match.start()):
                yield _Span(match.start(1), match.end(1), say("random characters, as long as a key"))


def _is_basic(value: str) -> bool:
    """Whether a text is what `Basic` asks for: user and password in base64."""
    import binascii  # imported late: the word is rare

    try:
        pair = binascii.a2b_base64(value + "=" * (-len(value) % 4)).decode("utf-8")
    except ValueError:
        return False
    user, colon, secret = pair.partition(":")
    return bool(colon) and pair.isprintable() and not _is_spoken_pair(user, secret)


def _is_digest(lowered: str, at: int) -> bool:
    """Whether a random text is one of a digest or of an address."""
    before = line_before(lowered, at, 60)
    return any(
        word in before for word in ("sha", "hash", "integrity", "digest", "md5", "drive", "gdown", "url", "http")
    )


def _reason(kind: str) -> Message:
    if kind == "key":
        return say("a private key, a key store or an encrypted vault")
    if kind == "hash":
        return say("a hash of a password")
    if kind in ("bearer", "basic"):
        return say("a token in an HTTP header")
    if kind == "command":
        return say("a password in a command")
    if kind == "call":
        return say("a password in a call")
    if kind == "cookie":
        return say("a cookie, which can give access to an account")
    if kind == "signature":
        return say("a signed URL, which gives access to what it names")
    return say("text that has the form of a token or key")


def _named(name: str) -> Message:
    return say("the value of `{name}`", name=masked(name[-64:]))


def _end_of(kind: str, text: str, match: re.Match[str]) -> int:
    """Return where a secret ends; a key reaches to its last line."""
    if kind != "key" or not match[1].startswith("----"):
        return match.end(1)
    end = text.find("-----END", match.end(1), match.end(1) + 16384)
    if end < 0:
        rest = _KEY_REST.match(text, match.end(1))
        return match.end(1) if rest is None else rest.end()
    line = _KEY_END.match(text, end)
    return end if line is None else line.end()


def _token_spans(text: str, long_words: str = "") -> Iterator[_Span]:
    """Yield tokens with a form of their own.

    Args:
        text: The text.
        long_words: Its words that are as long as tokens are; empty where shorter texts and placeholders count, too.
    """
    is_eager = not long_words
    for form in TOKEN_FORMS:
        at = text.find(form.start) if is_eager or form.start in long_words else -1
        while at >= 0:
            behind = at + len(form.start)
            match = form.rest.match(text, behind) if _begins(text, at, form.reaches_back) else None
            if match is None and is_eager and form.is_telling and _begins(text, at, False):
                match = _LOOSE.match(text, behind)
            if match is not None and (is_eager or not is_placeholder(match[0])):
                start = at if not form.reaches_back else at - len(_BACK.search(text[max(0, at - 40) : at])[0])  # type: ignore[index]
                yield _Span(start, match.end(), say("a token of {service}", service=form.service))
            at = text.find(form.start, behind if match is None else max(match.end(), behind))


_SHORTEST_TOKEN = 16
_OF_TOKENS = bytes(letter if chr(letter).isalnum() or chr(letter) in "_-.+/=%:?&@~$\\" else 32 for letter in range(128))


def _long_words(text: str) -> tuple[str, int]:
    """Return the words of a text that are as long as tokens are, with spaces around, and the length of the longest."""
    words = text.encode("ascii", "replace").translate(_OF_TOKENS + bytes([32]) * 128).split()
    taken = [word for word in words if len(word) >= _SHORTEST_TOKEN]
    return f" {b' '.join(taken).decode('ascii')} ", max(map(len, taken), default=0)


_LOOSE = lazy_regex(r"[A-Za-z0-9][\w-]{7,512}")
_BACK = re.compile(r"[\w./-]{0,40}\Z")


def _begins(text: str, at: int, is_within: bool) -> bool:
    """Whether a token may begin at a place: no letter, digit or sign of base64 before it."""
    if at == 0:
        return not is_within
    before = text[at - 1]
    if is_within:
        return before.isalnum() or before in "_-m"
    if not (before.isalnum() and before.isascii()) and before not in "_-+":
        return True
    head = text[max(0, at - 3) : at]
    return (head[-2:-1] == "\\" and before in "nrt") or (head[:1] == "%" and len(head) == 3)


def _address_spans(text: str) -> Iterator[_Span]:
    """Yield passwords and tokens in addresses."""
    at = text.find("://")
    while at >= 0:
        at += 3
        match = _ADDRESS.match(text, at)
        if match is not None:
            user, secret = match["user"], match["secret"]
            is_named = secret is not None and not secret.isdigit() and not _is_spoken_pair(user, secret)
            if is_named if secret is not None else is_random(user, 20) and not is_placeholder(user):
                group = "user" if secret is None else "secret"
                yield _Span(match.start(group), match.end(group), say("a password in a URL"))
        at = text.find("://", at)


def _is_spoken_pair(user: str, secret: str) -> bool:
    """Whether a user and a password are placeholders, such as `user:pass`."""
    return is_placeholder(secret, user) or (user.lower() in _SPOKEN_USERS and secret.lower().startswith("pass"))


_SPOKEN_USERS = frozenset({"user", "username", "login", "name", "u"})


def _named_spans(text: str, lowered: str, suffix: str) -> Iterator[_Span]:
    """Yield values that are secret by their name, and no placeholders."""
    is_code = suffix in SOURCE_SUFFIXES
    for count, each in enumerate(assignments(text, lowered)):
        if count == MOST_ASSIGNMENTS:
            yield _Span(each.start, each.start + 1, say("too many names of secrets: the rest was not examined"))
            return
        rank = rank_of(each.words)
        value = text[each.start : each.end].strip()
        is_prose = suffix in PROSE_SUFFIXES or (is_code and _is_comment(text, each.at))
        if not each.is_quoted:
            value = value.partition("<")[0] if each.way == "element" else value.rstrip(",;)}]")
            value = value.rstrip(".,") if each.way in ("said", "spoken", "space") else value
            value = value.partition("&")[0] if each.before in ("?", "&") else value
            is_expression = (is_code or suffix in QUOTED_DATA_SUFFIXES) and not is_prose
            if is_expression and each.way != "element" and each.before not in ("?", "&", "-"):
                if each.way != "sign" or each.before not in " ;'\"" or not _is_in_quotes(text, each.at):
                    continue
                is_prose = True  # `connect("user=mia password=...")`
        if "{" in value or (" " in value.strip() and rank < 3) or is_placeholder(value, each.name):
            continue
        if _is_secret_value(value, rank, each, is_prose):
            yield _Span(each.start, max(each.end, each.start + 1), _named(each.name))


def _is_secret_value(value: str, rank: int, each: Assignment, is_prose: bool) -> bool:
    if each.way in ("call", "next", "default", "spoken", "said", "cell", "space") or (is_prose and not each.is_quoted):
        return is_random(value, 6 if rank == 3 else 12) or (rank == 3 and each.way == "default" and len(value) > 4)
    if rank == 3:
        if " " in value and each.words[-1] != "passphrase":
            return False
        return len(value) > 3 and not value.startswith(("/", "./", "~/")) and "://" not in value
    if rank == 1:
        return is_random(value, 6 if each.words[-1] in ("pass", "pw") else 16)
    return is_random(value, 8) or (len(value) > 11 and "secret" in each.words and ONE_WORD.match(value) is not None)


def _is_in_quotes(text: str, at: int) -> bool:
    line = line_before(text, at)
    return line.count('"') % 2 == 1 or line.count("'") % 2 == 1


def _is_comment(text: str, at: int) -> bool:
    line = line_before(text, at)
    return _COMMENT.search(line) is not None


_COMMENT = lazy_regex(r"(?:^|\s)(?:#|//)[\s#/!]|^\s*(?:\*|--|;|<!--)\s")


# --- masks ---

_USERINFO = lazy_regex(r"(?<=://)[^\s/@\"'<>]{1,512}@(?:[^\s/@\"'<>]{1,512}@){0,8}")
_BARE_USERINFO = lazy_regex(r"(?:(?<=\s)|^)[^\s/@:]{1,256}:[^\s/@]{1,256}@(?=[\w.-]{1,256}(?::\d+)?)")
_BEARER = lazy_regex(r"(?i)\bbearer[ \t]{1,4}(?!tokens?\b|auth)([^\s\"'`,;]{4,8192})")
_BASIC = lazy_regex(r"\bBasic[ \t]{1,4}([A-Za-z0-9+/]{8,4096}={0,2})")
_RUN = lazy_regex(r"(?<![A-Za-z0-9+/_-])([A-Za-z0-9+/]{56,8192}={0,2})(?![A-Za-z0-9+/_-])")


def _hidden_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of a text that are not shown, with a bias towards too many."""
    for view in views(text):
        for start, end in _hidden_spans_of(view.text):
            yield view.span(start, end)


def _hidden_spans_of(text: str) -> Iterator[tuple[int, int]]:
    lowered = in_small_letters(text)
    for span in _token_spans(text):
        yield span.start, span.end
    for form in TEXT_FORMS:
        if form.word in lowered:
            for match in form.pattern.finditer(text):
                yield match.start(1), _end_of(form.kind, text, match)
    if "@" in text:
        for match in (*_USERINFO.finditer(text), *_BARE_USERINFO.finditer(text)):
            yield match.start(), match.end() - 1
    for match in (*_BEARER.finditer(text), *_BASIC.finditer(text), *_PAIR.finditer(text)):
        yield match.span(1)
    for match in (*_RUN.finditer(text), *_QUOTED_RUN.finditer(text)):
        if is_random_base64(match[1]):
            yield match.span(1)
    for each in assignments(text, lowered, is_eager=True):
        start, end = each.start, each.end
        if each.is_quoted:  # with its quotes; to the end of the line where the last ones are missing
            start -= len(text[max(0, start - 3) : start]) - len(text[max(0, start - 3) : start].rstrip("\"'`"))
            end += len(text[end : end + 3]) - len(text[end : end + 3].lstrip("\"'`"))
        yield start, end
