"""Which names of files and which forms of text hold secrets: the tables of `core.secrets`.

The forms of tokens are those that the providers document, or that their own scanners and those of others look for:

- GitHub: docs.github.com, "Keeping your API credentials secure" and "GitHub's token formats"; GitLab: docs.gitlab.com,
  "Token overview", token prefixes; Bitbucket and Atlassian: support.atlassian.com, "API tokens".
- AWS: IAM user guide, "IAM identifiers", unique ID prefixes; Google: cloud.google.com/docs/authentication/api-keys;
  Azure: learn.microsoft.com, "Sensitive information type entity definitions".
- Alibaba Cloud (LTAI), Tencent Cloud (AKID), Volcengine (AKLT), Baidu AI Cloud (ALTAK), JD Cloud (JDC_): their pages on
  access keys, and docs.github.com, "Supported secret scanning patterns", which also has Hugging Face, OpenAI,
  Anthropic, npm, PyPI, RubyGems, Docker, Databricks, DigitalOcean, Stripe, Shopify, Slack, Discord, Telegram, SendGrid,
  Vault, Terraform, Grafana, Sentry, Doppler, Pulumi, Replicate, Groq, Perplexity, xAI, NVIDIA, Tailscale, W&B.
- JSON web tokens: RFC 7519 (each begins with `{"`, which is `eyJ` in base64); keys: RFC 7468, RFC 4716, OpenPGP
  (RFC 9580), PuTTY manual appendix C, age specification; their binary forms: RFC 5208, RFC 5915, RFC 7292, RFC 8017,
  the formats of MIT Kerberos and of Java's key stores; password hashes: crypt(5); cookies: curl.se, "HTTP cookies".
"""

from __future__ import annotations

import re

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple


def words_in(text: str) -> frozenset[str]:
    """Return the words of a text, which is how the tables are written."""
    return frozenset(text.split())


# --- names of files ---

SECRET_FILES = words_in("""
    .bash_history .boto .cos.conf .databrickscfg .dockercfg .dockerconfigjson .envrc .git-credentials .gitcookies
    .hf_token .history .htpasswd .my.cnf .mylogin.cnf .mysql_history .netrc .node_repl_history .obsutilconfig
    .ossutilconfig .passwd-s3fs .pgpass .psql_history .pypirc .python_history .rediscli_history .s3cfg
    .smbcredentials .sqlite_history .vault-token .vault_pass .vault_password .zsh_history _netrc
    application_default_credentials.json azureprofile.json accesstokens.json fish_history htpasswd kaggle.json
    known_tokens.csv kubeconfig login.keychain login.keychain-db msal_token_cache.json msal_token_cache.bin
    pgpass.conf rclone.conf secring.gpg shadow terraform.tfstate token token.txt vault_pass.txt vault_password.txt
    vault.yaml vault.yml ansible_vault.yml
""")
"""Names, in small letters, of files that are made to hold secrets."""

SECRET_FOLDERS = words_in("""
    .aliyun .aws .gcloud .gnupg .hcloud .huggingface .kaggle .kube .modelscope .oci .password-store .snowsql .ssh
    .tccli
""")
"""Folders of a home folder that hold secrets, with all that is in them."""

SECRET_PLACES = (
    ".azure/accesstokens.json", ".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".cargo/credentials",
    ".cargo/credentials.toml", ".composer/auth.json", ".config/gcloud/", ".config/gh/", ".config/hub",
    ".config/rclone/", ".docker/config.json", ".gem/credentials", ".ipython/profile_default/history.sqlite",
    ".jupyter/jupyter_server_config.json", ".jupyter/jupyter_notebook_config.json", ".wandb/netrc",
)  # fmt: skip
"""Files and folders (with `/`) of a home folder, by their path."""

SECRET_SUFFIXES = (
    ".agekey", ".gpg", ".jceks", ".jks", ".kdb", ".kdbx", ".key", ".keystore", ".keytab", ".kubeconfig", ".p12", ".p8",
    ".pem", ".pfx", ".pk8", ".pkcs12", ".ppk", ".tfstate", ".tfstate.backup", ".tfvars", ".tfvars.json", ".ovpn",
)  # fmt: skip
"""Endings of files with keys or with the state of machines."""

CERTIFICATE_SUFFIXES = (".pem", ".key", ".gpg")
"""Of these, those that may hold public parts alone."""

HARMLESS_SUFFIXES = (".dist", ".example", ".md", ".rst", ".sample", ".template", ".tmpl", ".tpl")
"""Endings of files that describe a secret file: only what is in them counts."""

_DATA = r"\.(?:bak|cfg|conf|csv|db|env|gpg|ini|json|properties|toml|txt|xml|ya?ml)"
_SETTINGS = r"(?:bash|bat|cfg|conf|csv|fish|ini|json|lock|ps1|sh|toml|tsv|txt|xml|ya?ml|zsh)\Z"
"""Formats of files called `env` that hold settings or a list of packages: only what is in them counts."""

SECRET_NAMES = (
    lazy_regex(rf"(?:[\w.-]{{0,60}}[._-])?\.?env(?:\.(?!{_SETTINGS})[\w-]{{1,40}})?\Z"),
    lazy_regex(r"\.env[\w.-]{0,60}\Z"),
    lazy_regex(r"id_(?:rsa|dsa|ecdsa|ed25519|xmss)[\w.-]{0,40}\Z"),
    lazy_regex(rf"\.?(?:[\w-]{{1,60}}[._-])?(?:credentials?|api[_-]?keys?)(?:[._-][\w-]{{1,40}})?(?:{_DATA})?\Z"),
    lazy_regex(r"(?![\w.-]{1,160}\.[ct]sv\Z)\.?(?:[\w-]{1,60}[._-])?(?:passwords?|passwd)(?:[._-][\w-]{1,40})?"
               rf"(?:{_DATA})?\Z"),  # a table of passwords may be data: its columns tell
    lazy_regex(r"krb5cc_\w{1,40}\Z"),
    lazy_regex(rf"\.?(?:[\w-]{{1,60}}[._-])?secrets?(?:[._-][\w-]{{1,40}})?{_DATA}\Z"),
    lazy_regex(r"client_secrets?[\w.-]{0,80}\.json\Z"),
    lazy_regex(r"[\w-]{0,60}service[_-]?account[\w-]{0,60}\.json\Z"),
    lazy_regex(r"\.?(?:hf|huggingface|github|gh|gitlab|auth|access|api|wandb|hub|bot|pypi|npm|vault)[_-]?token(?:\.txt)?\Z"),
    lazy_regex(r"\.(?:pgpass|netrc|htpasswd|my\.cnf)[\w.-]{0,20}\Z"),
)  # fmt: skip
"""Names in small letters; each repetition has a limit, so that no name costs time."""

SOURCE_SUFFIXES = words_in("""
    .c .cc .cpp .cs .cu .cuh .cxx .dart .go .h .hpp .hxx .hip .inl .java .jl .js .jsx .kt .lua .m .mjs .mm .php .pl
    .py .pyi .pyx .r .rb .rs .scala .swift .ts .tsx .vue .css .scss .html .htm .svg .cmake .proto .tf
""")
"""Files in which a value is in quotes: a bare word is an expression."""

QUOTED_DATA_SUFFIXES = frozenset(
    {".json", ".jsonl", ".json5", ".ipynb", ".toml", ".lock", ".sum", ".bib", ".csv", ".tsv"}
)

PROSE_SUFFIXES = frozenset(
    {".md", ".rst", ".txt", ".tex", ".ipynb", ".log", ".org", ".adoc", ".markdown", ".csv", ".tsv"}
)
"""Files in which a bare word behind `password:` is more often a word than a password."""


# --- forms of tokens ---


class TokenForm(NamedTuple):
    """A form of the tokens of one service.

    Attributes:
        service: Whose tokens.
        start: How each begins.
        rest: What follows the start.
        is_telling: Whether the start alone tells, so that a text is masked also where the length is another.
        reaches_back: Whether the start is within the token: what is before it must be a word's end no more.
    """

    service: str
    start: str
    rest: re.Pattern[str]
    is_telling: bool = True
    reaches_back: bool = False


_END = r"(?![A-Za-z0-9])"
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"


def _forms(service: str, starts: str, rest: str, is_telling: bool = True, within: bool = False) -> list[TokenForm]:
    pattern = lazy_regex(rest)
    return [TokenForm(service, start, pattern, is_telling, within) for start in starts.split()]


TOKEN_FORMS: tuple[TokenForm, ...] = (
    *_forms("Hugging Face", "hf_ api_org_", r"[A-Za-z0-9]{20,128}"),
    *_forms("GitHub", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9_]{20,255}"),
    *_forms("GitHub", "github_pat_", r"[A-Za-z0-9_]{22,255}"),
    *_forms("1Password", "ops_eyJ", r"[A-Za-z0-9+/]{100,4096}"),
    *_forms("Artifactory", "AKCp", rf"[A-Za-z0-9]{{69}}{_END}", is_telling=False),
    *_forms("Artifactory", "cmVmd", rf"[A-Za-z0-9]{{59}}{_END}", is_telling=False),
    *_forms("AWS", "ABSK", r"[A-Za-z0-9+/]{100,300}={0,2}", is_telling=False),
    *_forms("Azure", "Q~", rf"[\w~.-]{{31,34}}{_END}", is_telling=False, within=True),
    *_forms("Facebook", "EAAC EAAM", r"[A-Za-z0-9]{100,400}", is_telling=False),
    *_forms("Fly", "fo1_ fm1a_ fm1r_ fm2_", r"[\w+/-]{43,2048}={0,3}", is_telling=False),
    *_forms("GitLab", "GR1348941 glffct-", r"[\w-]{20,64}"),
    *_forms("Microsoft Teams", ".webhook.office.com/webhookb2/", rf"{_UUID}@{_UUID}(?:/[\w/-]{{1,200}})?",
            is_telling=False, within=True),
    *_forms("OpenShift", "sha256~", rf"[\w-]{{43}}{_END}", is_telling=False),
    *_forms("Prefect", "pnu_ pnb_", rf"[A-Za-z0-9]{{36}}{_END}", is_telling=False),
    *_forms("Shippo", "shippo_live_ shippo_test_", r"[0-9a-fA-F]{40}"),
    *_forms("Sourcegraph", "sgp_", r"(?:(?:[0-9a-fA-F]{16}|local)_)?[0-9a-fA-F]{40}", is_telling=False),
    *_forms("Twilio", "SK", rf"[0-9a-f]{{32}}{_END}", is_telling=False),
    *_forms("GitLab", "glpat- gldt- glrt- glptt- glft- glsoat- glcbt- glimt- glagent- gloas-", r"[\w.-]{20,300}"),
    *_forms("AWS", "AKIA ASIA ABIA ACCA", rf"[A-Z0-9]{{16}}{_END}"),
    *_forms("Google", "AIza", rf"[\w-]{{35}}{_END}"),
    *_forms("Google", "ya29.", r"[\w-]{20,2048}"),
    *_forms("Google", "GOCSPX-", r"[\w-]{20,64}"),
    *_forms("OpenAI", "sk-proj- sk-svcacct- sk-admin-", r"[\w-]{20,300}"),
    *_forms("Anthropic", "sk-ant-", r"[\w-]{20,300}"),
    *_forms("OpenRouter", "sk-or-", r"[\w-]{20,300}"),
    *_forms("OpenAI", "sk-", r"(?:[A-Za-z0-9]{32,128}|(?=[\w-]{0,20}\d)[A-Za-z0-9]{20,128})(?![\w-])",
            is_telling=False),
    *_forms("Slack", "xoxb- xoxp- xoxa- xoxe- xoxr- xoxs- xoxo- xoxc- xoxd- xapp-", r"[A-Za-z0-9%-]{10,400}"),
    *_forms("Slack", "hooks.slack.com/", r"(?:services|workflows|triggers)/[\w/-]{20,200}", is_telling=False),
    *_forms("Discord", "discord.com/api/webhooks/ discordapp.com/api/webhooks/", r"\d{10,25}/[\w-]{30,120}",
            is_telling=False),
    *_forms("Telegram", ":AA", rf"[\w-]{{33}}{_END}", is_telling=False, within=True),
    *_forms("a JSON web token", "eyJ", r"[\w-]{8,8192}={0,2}\.eyJ[\w-]{4,16384}={0,2}\.[\w-]{8,4096}",
            is_telling=False),
    *_forms("npm", "npm_", rf"[A-Za-z0-9]{{36}}{_END}", is_telling=False),
    *_forms("PyPI", "pypi-AgE", r"[\w-]{40,512}"),
    *_forms("RubyGems", "rubygems_", r"[0-9a-f]{48}"),
    *_forms("Docker", "dckr_pat_ dckr_oat_", r"[\w-]{20,128}"),
    *_forms("SendGrid", "SG.", r"[\w-]{16,40}\.[\w-]{30,64}", is_telling=False),
    *_forms("Brevo", "xkeysib-", r"[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    *_forms("Mailgun", "key-", rf"[0-9a-f]{{32}}{_END}", is_telling=False),
    *_forms("Stripe", "sk_live_ rk_live_ sk_test_ rk_test_ whsec_", r"[A-Za-z0-9+/=]{20,255}"),
    *_forms("Shopify", "shpat_ shpss_ shpca_ shppa_", r"[0-9a-fA-F]{32}"),
    *_forms("Square", "sq0csp- sq0atp-", r"[\w-]{20,64}"),
    *_forms("DigitalOcean", "dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{64}"),
    *_forms("Databricks", "dapi", rf"[0-9a-f]{{32}}(?:-\d)?{_END}", is_telling=False),
    *_forms("Linear", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{32,64}"),
    *_forms("Notion", "ntn_", rf"[A-Za-z0-9]{{40,64}}{_END}", is_telling=False),
    *_forms("Postman", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    *_forms("PlanetScale", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[\w.-]{32,64}"),
    *_forms("Vault", "hvs. hvb. hvr.", r"[\w-]{20,400}", is_telling=False),
    *_forms("Terraform", ".atlasv1.", r"[\w-]{60,80}", within=True),
    *_forms("Grafana", "glsa_ glc_", r"[A-Za-z0-9+/_=]{32,400}"),
    *_forms("New Relic", "NRAK-", r"[A-Z0-9]{27}"),
    *_forms("Sentry", "sntrys_ sntryu_", r"[A-Za-z0-9+/=_]{40,400}"),
    *_forms("Doppler", "dp.pt. dp.st. dp.ct. dp.sa.", r"[\w.]{40,80}"),
    *_forms("Pulumi", "pul-", rf"[0-9a-f]{{40}}{_END}", is_telling=False),
    *_forms("Replicate", "r8_", rf"[A-Za-z0-9]{{37}}{_END}", is_telling=False),
    *_forms("Groq", "gsk_", rf"[A-Za-z0-9]{{40,64}}{_END}", is_telling=False),
    *_forms("Perplexity", "pplx-", rf"[A-Za-z0-9]{{40,64}}{_END}", is_telling=False),
    *_forms("xAI", "xai-", rf"[A-Za-z0-9]{{70,90}}{_END}", is_telling=False),
    *_forms("NVIDIA", "nvapi-", r"[\w-]{40,128}"),
    *_forms("Weights & Biases", "wandb_v1_", r"[\w-]{40,128}"),
    *_forms("Kaggle", "KGAT_", r"[0-9a-f]{32}"),
    *_forms("Together", "tgp_v1_", r"[\w-]{40,64}"),
    *_forms("Tailscale", "tskey-", r"[\w-]{20,128}"),
    *_forms("Atlassian", "ATATT3 ATCTT3 ATSTT3", r"[\w=-]{50,400}"),
    *_forms("Bitbucket", "ATBB", rf"[A-Za-z0-9]{{32}}{_END}", is_telling=False),
    *_forms("Figma", "figd_", r"[\w-]{36,64}"),
    *_forms("Dropbox", "sl.", r"(?:u\.)?[\w-]{120,400}", is_telling=False),
    *_forms("Heroku", "HRKU-", r"[\w-]{36,80}"),
    *_forms("Alibaba Cloud", "LTAI", rf"[A-Za-z0-9]{{12,26}}{_END}", is_telling=False),
    *_forms("Tencent Cloud", "AKID", rf"[A-Za-z0-9]{{32}}{_END}", is_telling=False),
    *_forms("Volcengine", "AKLT", rf"[A-Za-z0-9+/=_-]{{30,64}}{_END}", is_telling=False),
    *_forms("Baidu AI Cloud", "ALTAK", rf"-?[A-Za-z0-9]{{21}}{_END}", is_telling=False),
    *_forms("JD Cloud", "JDC_", rf"[A-Z0-9]{{28}}{_END}"),
    *_forms("ModelScope", "ms-", _UUID, is_telling=False),
    *_forms("Tavily", "tvly-", r"(?:dev-|prod-)?[A-Za-z0-9_]{28,64}(?![\w-])", is_telling=False),
    *_forms("LangSmith", "lsv2_pt_ lsv2_sk_", rf"[0-9a-f]{{32}}_[0-9a-f]{{10}}{_END}", is_telling=False),
    *_forms("Supabase", "sbp_", rf"(?:oauth_)?[0-9a-f]{{40}}{_END}", is_telling=False),
    *_forms("Langfuse", "sk-lf-", _UUID),
    *_forms("Cerebras", "csk-", rf"[a-z0-9]{{48}}{_END}", is_telling=False),
    *_forms("E2B", "e2b_", rf"[0-9a-f]{{40}}{_END}", is_telling=False),
    *_forms("DingTalk", "oapi.dingtalk.com/robot/send?access_token=", r"[0-9a-fA-F]{40,80}", is_telling=False),
    *_forms("Feishu", "/open-apis/bot/v2/hook/ /open-apis/bot/hook/", r"[\w-]{20,64}", is_telling=False, within=True),
    *_forms("WeCom", "qyapi.weixin.qq.com/cgi-bin/webhook/send?key=", _UUID, is_telling=False),
)  # fmt: skip


# --- forms of keys, hashes and commands ---


class TextForm(NamedTuple):
    """Another form of a secret: a word that its text contains, and the pattern of which group 1 is the secret.

    Attributes:
        kind: What it is: a key of `core.secrets.KINDS`.
        word: Contained in each such text, in small letters; searched before the pattern.
        pattern: The pattern.
        least: Characters that it has at least, without a space in them; 0 where it has spaces.
    """

    kind: str
    word: str
    pattern: re.Pattern[str]
    least: int = 0


KEY_HEADER = (
    r"(-{4,5} ?BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)? ?-{4,5}|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----)"
    r"(?=[ \t]{0,40}(?:[\r\n]|\\{1,4}[nr]|\Z)"
    r"|(?:\\{1,4}[nrt]|<br ?/?>|%0[AaDd]|&#1[03];|[^A-Za-z0-9]){0,80}[A-Za-z0-9+/]{40})"
)
"""The first line of a key. Code that looks for keys has the header, too, but no key behind it in the same line."""

_PACKED_PRIVATE = r"[A-Za-z0-9+/]{0,40}(?:UFJJVkFURSBLRV|BSSVZBVEUgS0|QUklWQVRFIEtF)[A-Za-z0-9+/=]{20,65536}"
"""What follows the first line of a key in base64: `PRIVATE KEY`, which begins at each of three places of a group."""

_LINE = r"[^\n|;]{0,400}?[ \t]"
_DASH = r"(?=-)[^\n|;]{0,400}?"
_WORD = r"[\"']?([^\s\"'$<`-][^\s\"']{0,200})"
_FIRST = r"\s{0,40}[^\s,()=][^,()\n=]{0,80},"
_LAST = r"\s{0,40}[\"']([^\"'\n]{4,80})[\"']"
_PIPED = (
    r"[ \t]{1,4}(?:-[neE]{1,3}[ \t]{1,4}){0,2}(?:[\"']?%s(?:\\n)?[\"']?[ \t]{1,4})?[\"']?(?:[\w.-]{1,40}:)?"
    r"([^\s$\"'`|<>(%][^\"'|\n]{2,120}?)(?:\\[nr])?[\"']?[ \t]{0,8}\|[ \t]{0,8}(?:"
    r"sudo[ \t]{1,4}(?:-[A-Za-z]{1,4}[ \t]{1,4}(?:[\w\"'.]{1,30}[ \t]{1,4})?){0,3}(?:-[A-RT-Za-z]{0,4}S|--stdin)\b"
    r"|(?:sudo[ \t]{1,4})?(?:chpasswd|kinit|cryptsetup|passwd[ \t][^\n|;]{0,60}--stdin)\b"
    r"|[^\n|;]{1,200}?--(?:password-stdin|with-token|pass(?:word|phrase)-fd))"
)
"""A word that is printed into a program that requests a password."""

_SEQUENCE = rb"\x30(?:[\x02-\x80]|\x81.|\x82..|\x83...)"
BINARY_KEYS = lazy_regex(
    rb"(?s)(?:\xfe\xed\xfe\xed|\xce\xce\xce\xce)\0\0\0[\x01\x02]"  # key stores of Java
    rb"|\x03\xd9\xa2\x9a[\x65-\x67]\xfb\x4b\xb5"  # KeePass
    rb"|\x05\x02\0\0[\0-\x0f].\0[\x01-\x08]\0[\x01-\xff][ -~]|\x05\x04\0\x0c\0\x01\0\x08"  # Kerberos: keys, tickets
    rb"|" + _SEQUENCE + rb"(?:\x02\x01\x03" + _SEQUENCE + rb"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07"  # PKCS 12
    rb"|\x02\x01[\0\x01]" + _SEQUENCE + rb"\x06|\x02\x01\0\x02[\x81\x82]|\x02\x01\x01\x04"  # PKCS 8, PKCS 1, SEC 1
    rb"|" + _SEQUENCE + rb"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01[\x05\x0c])"  # PKCS 8, encrypted
)
"""How binary files with keys begin."""

PUBLIC_KEYS = lazy_regex(
    rb"-----BEGIN (?:(?:[A-Z0-9]{1,12} ){0,3}(?:CERTIFICATE|PUBLIC KEY)|(?:DH|EC|DSA) PARAMETERS|X509 CRL"
    rb"|(?:NEW )?CERTIFICATE REQUEST|PGP PUBLIC KEY BLOCK)-----|---- BEGIN SSH2 PUBLIC KEY"
    rb"|\A\s{0,8}(?:(?:ssh-|sk-ssh-|ecdsa-sha2-)[\w@.-]{1,60} AAAA"
    rb"|M(?:II[BC]IjANBgkqhkiG9w0BAQEFAAOC|FkwEwYHKoZIzj0|CowBQYDK2Vw))"
)
"""What files with public parts alone have."""

TEXT_FORMS = (
    TextForm("key", "private key", lazy_regex(KEY_HEADER)),
    TextForm("key", "putty-user-key-file-", lazy_regex(r"(PuTTY-User-Key-File-\d: [^\n]{1,100})")),
    TextForm("key", "openvpn static key", lazy_regex(
        r"(-----BEGIN OpenVPN Static key V1-----(?:\s|\\{1,4}[nr]){1,8}[0-9a-f]{32}[0-9a-f\s]{0,2048})")),
    TextForm("key", "age-secret-key-", lazy_regex(r"(?i)\b(AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{40,120})")),
    TextForm("key", "$ansible_vault;", lazy_regex(
        r"(\$ANSIBLE_VAULT;[\d.]{1,8};AES[^\n]{0,80}(?:\r?\n[ \t]{0,40}[0-9a-f]{1,128}){0,400})")),
    TextForm("key", "ls0tls1crudjti", lazy_regex(rf"(LS0tLS1CRUdJTi{_PACKED_PRIVATE})"), least=50),
    TextForm("key", "0tls0tqkvhsu4g", lazy_regex(rf"(0tLS0tQkVHSU4g{_PACKED_PRIVATE})"), least=50),
    TextForm("key", "tls0tlujfr0loi", lazy_regex(rf"(tLS0tLUJFR0lOI{_PACKED_PRIVATE})"), least=50),
    TextForm("key", "ibadanbgkqhkig9w0baqefaasc", lazy_regex(
        r"(MII[A-Za-z0-9+/]{3}IBADANBgkqhkiG9w0BAQEFAASC[A-Za-z0-9+/=]{20,65536})"), least=50),
    TextForm("key", "ibaakc", lazy_regex(r"(MII[A-Za-z0-9+/]{3}IBAAKC[A-Za-z0-9+/=]{40,65536})"),
             least=52),
    TextForm("key", "mhccaqeei", lazy_regex(r"(MHcCAQEEI[A-Za-z0-9+/]{40,200}={0,2})"), least=49),
    TextForm("key", "mc4caqawbqydk2vwbcie", lazy_regex(r"(MC4CAQAwBQYDK2VwBCIE[A-Za-z0-9+/=]{40,60})"),
             least=60),
    TextForm("key", "b3blbnnzac1rzxktdje", lazy_regex(r"(b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/=]{20,65536})"),
             least=39),
    TextForm("key", "ssh private key file format", lazy_regex(
        r"(SSH PRIVATE KEY FILE FORMAT \d\.\d(?:\s|\\{1,4}[nr]){0,8}[A-Za-z0-9+/=\s]{0,65536})")),
    TextForm("key", '"kty"', lazy_regex(r"\"d\"\s{0,8}:\s{0,8}\"([\w-]{20,2048})\"")),
    TextForm("hash", "$", lazy_regex(
        r"(?<!\w)(\$(?:apr1|1|5|6|y|7|gy)\$[^\s:\"'$]{1,64}\$[./A-Za-z0-9$]{20,200})"), least=24),
    TextForm("hash", "$2", lazy_regex(r"(\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53})"), least=60),
    TextForm("token", "kind: secret", lazy_regex(
        r"(?m)^kind: Secret[ \t]{0,40}$[\s\S]{0,400}?^(?:data|stringData):[ \t]{0,40}\n"
        r"[ \t]{1,40}[\w.-]{1,80}:[ \t]{0,40}([^\s{$<][^\n]{2,4096})"
    )),
    TextForm("token", "pat", lazy_regex(r"\b(pat[A-Za-z0-9]{14}\.[0-9a-f]{64})\b"), least=82),
    TextForm("token", "accountkey=", lazy_regex(r"(?i)\bAccountKey=([A-Za-z0-9+/]{40,100}={0,2})")),
    TextForm("token", ".", lazy_regex(r"([0-9a-f]{32}\.[A-Za-z0-9]{16})(?![\w.])"), least=49),
    TextForm("bearer", "bearer ", lazy_regex(r"(?i)\bbearer[ \t]{1,4}([A-Za-z0-9._~+/=-]{16,4096})")),
    TextForm("basic", "basic ", lazy_regex(r"\bBasic[ \t]{1,4}([A-Za-z0-9+/]{12,1024}={0,2})(?![\w+/-])")),
    TextForm("command", "sshpass", lazy_regex(
        r"\bsshpass(?:[ \t]{1,4}(?:-v[ \t]{1,4})?-p[ \t]{0,4}|[\"'], ?[\"']-p(?:[\"'], ?[\"'])?)"
        r"[\"']?([^\s$\"'`][^\s\"']{0,200})")),
    TextForm("command", "curl ", lazy_regex(
        r"\bcurl\b[^\n]{0,400}?[ \t](?:-[A-Za-z]{0,6}[uU][ \t=]{0,4}|--user[ \t=]{1,4})"
        r"[\"']?[^\s:\"'$]{1,100}:([^\s\"'$][^\s\"']{0,200})")),
    TextForm("command", "--proxy-user", lazy_regex(
        r"--proxy-user[ \t=]{1,4}[\"']?[^\s:\"'$]{1,100}:([^\s\"'$][^\s\"']{0,200})")),
    TextForm("command", "login ", lazy_regex(
        r"\b(?:docker|podman|nerdctl|helm|oras|crane|skopeo|az|oc)[ \t][^\n]{0,40}?\blogin\b"
        r"[^\n]{0,200}?[ \t]-p[ \t=]{0,4}([^\s$<-]\S{0,200})")),
    TextForm("command", "wandb login ", lazy_regex(
        r"\bwandb login[ \t]{1,4}(?:--\S{1,60}[ \t]{1,4}){0,4}([0-9a-f]{40})\b")),
    TextForm("command", "mysql", lazy_regex(
        r"\bmysql\w{0,8}(?:[ \t][^\n]{0,400}?)?[ \t]-p[\"']?([^\s$<\"'-][^\s\"']{3,100})")),
    TextForm("command", "redis-cli", lazy_regex(rf"\bredis-cli\b{_LINE}-a[ \t]{{1,4}}{_WORD}")),
    TextForm("command", "ldap", lazy_regex(rf"\bldap[a-z]{{3,10}}\b{_LINE}-w[ \t]{{0,4}}{_WORD}")),
    TextForm("command", "ipmitool", lazy_regex(rf"\bipmitool\b{_LINE}-P[ \t]{{0,4}}{_WORD}")),
    TextForm("command", "mongo", lazy_regex(
        rf"\bmongo(?:sh|dump|restore|import|export|files|stat|top)?\b{_LINE}-p[ \t]{{0,4}}{_WORD}")),
    TextForm("command", "zip -", lazy_regex(rf"zip[ \t]{_DASH}-P[ \t]{{0,4}}{_WORD}")),
    TextForm("command", "7z", lazy_regex(rf"\b7z[ar]?\b{_LINE}-p{_WORD}")),
    TextForm("command", "openssl", lazy_regex(rf"\bopenssl[ \t]{{1,4}}enc\b{_LINE}-k[ \t]{{1,4}}{_WORD}")),
    TextForm("command", "htpasswd", lazy_regex(
        rf"\bhtpasswd[ \t]{{1,4}}-[a-z]{{0,4}}b[a-z]{{0,4}}"
        rf"(?:[ \t]{{1,4}}[^\s|;]{{1,200}}){{1,2}}[ \t]{{1,4}}{_WORD}")),
    TextForm("command", "requirepass", lazy_regex(rf"(?m)^[ \t]{{0,8}}requirepass[ \t]{{1,4}}{_WORD}")),
    TextForm("command", "masterauth", lazy_regex(rf"(?m)^[ \t]{{0,8}}masterauth[ \t]{{1,4}}{_WORD}")),
    TextForm("command", "identified", lazy_regex(
        r"(?i)\buser[ \t][^\n;]{0,120}?\bidentified[ \t]{1,4}"
        r"(?:with[ \t]{1,4}\w{1,40}[ \t]{1,4})?by[ \t]{1,4}(?:password[ \t]{1,4})?"
        r"[\"']([^\"'\n]{4,80})[\"']")),
    TextForm("command", "password", lazy_regex(
        r"(?i)\b(?:user|role|with|login|encrypted)[ \t][^\n;]{0,80}?\bpassword[ \t]{1,4}'([^'\n]{4,80})'")),
    TextForm("command", "pass:", lazy_regex(
        rf"[ \t]-{{1,2}}pass(?:in|out|word|phrase)?[ \t=]{{1,4}}[\"']?pass:{_WORD}")),
    *(
        TextForm("command", word, lazy_regex(
            rf"\b{word}[a-z]{{0,6}}\b{_LINE}(?:-U[ \t]{{0,4}}|--user[ \t=]{{1,4}})[\"']?[^\s%\"'$]{{1,100}}%{_WORD}"))
        for word in ("smb", "rpcclient")
    ),
    TextForm("command", "echo", lazy_regex(rf"\becho{_PIPED}")),
    TextForm("command", "printf", lazy_regex(rf"\bprintf{_PIPED}")),
    TextForm("command", "<<<", lazy_regex(
        rf"\bsudo[ \t](?:[^\n|;]{{0,60}}?[ \t])?-[A-RT-Za-z]{{0,4}}S\b[^\n|;]{{0,200}}?<<<[ \t]{{0,4}}{_WORD}")),
    TextForm("command", "send", lazy_regex(
        r"(?:assword|assphrase|asscode|密码|口令)[^\n\"']{0,30}[\"'](?:[^\n]{0,80}?|[^\n]{0,80}\n[^\n]{0,40}?)"
        r"\bsend(?:line)?[ \t(]{1,4}"
        r"(?:-{1,2}\w{0,8}[ \t]{1,4})?[\"']([^\s\"'$\[\]{}\\][^\"'$\[\]\\\n]{2,100})(?:\\[rn])?[\"']")),
    TextForm("call", ".connect(", lazy_regex(
        rf"\b(?:pymysql|MySQLdb|mysql\.connector|pymssql|mariadb)\.connect\({_FIRST}{_FIRST}{_LAST}")),
    TextForm("call", ".connect(", lazy_regex(rf"\.connect\({_FIRST}\s{{0,40}}\d{{1,5}},{_FIRST}{_LAST}")),
    TextForm("call", ".login(", lazy_regex(rf"\.login\(\s{{0,40}}[\"'][^\"'\n]{{1,80}}[\"'],{_LAST}")),
    TextForm("call", "auth", lazy_regex(
        rf"\b(?:auth[ \t]{{0,4}}=[ \t]{{0,4}}|(?:HTTP)?(?:Basic|Digest)Auth)\(\s{{0,40}}"
        rf"[\"'][^\"'\n]{{1,80}}[\"'],{_LAST}")),
    TextForm("cookie", '"domain"', lazy_regex(
        r"\"domain\"[^{}]{0,600}?\"value\"\s{0,8}:\s{0,8}\"([^\"\s]{16,4096})\"")),
    TextForm("cookie", "\t/", lazy_regex(
        r"(?m)^(?:#HttpOnly_)?[^\s#]\S{0,200}\t(?:TRUE|FALSE)\t/[^\t\n]{0,200}\t(?:TRUE|FALSE)\t\d{1,20}\t[^\t\n]{0,200}"
        r"\t([^\t\r\n]{8,4096})")),
    TextForm("command", "machine ", lazy_regex(
        r"\bmachine[ \t]{1,4}\S{1,200}\s{1,8}login\s{1,8}\S{1,200}\s{1,8}password\s{1,8}([^\s$<]\S{0,200})")),
    TextForm("signature", "sig", lazy_regex(
        r"(?i)[?&;](?:sig|signature|x-amz-signature|x-goog-signature|x-oss-signature|q-signature)=([\w%+/=-]{16,1024})")),
    TextForm("signature", "security-token=", lazy_regex(r"(?i)[?&;]x-[a-z]{2,8}-security-token=([\w%+/=-]{16,4096})")),
    TextForm("random", "login(", lazy_regex(r"\blogin\([^)\n]{0,80}?[\"']([0-9a-f]{40})[\"']")),
    TextForm("random", '"username"', lazy_regex(r"\"username\"[^{}]{0,200}\"key\"\s{0,8}:\s{0,8}\"([0-9a-f]{32})\"")),
)  # fmt: skip
