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
  (RFC 9580), PuTTY manual appendix C, age specification; password hashes: crypt(5).
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
    ".agekey", ".gpg", ".jks", ".kdb", ".kdbx", ".key", ".keystore", ".kubeconfig", ".p12", ".p8", ".pem", ".pfx",
    ".ppk", ".tfstate", ".tfstate.backup", ".tfvars", ".tfvars.json", ".ovpn",
)  # fmt: skip
"""Endings of files with keys or with the state of machines."""

CERTIFICATE_SUFFIXES = (".pem", ".key", ".gpg")
"""Of these, those that may hold public parts alone."""

HARMLESS_SUFFIXES = (".dist", ".example", ".md", ".rst", ".sample", ".template", ".tmpl", ".tpl")
"""Endings of files that describe a secret file: only what is in them counts."""

_DATA = r"\.(?:bak|cfg|conf|csv|db|env|gpg|ini|json|properties|toml|txt|xml|ya?ml)"

SECRET_NAMES = (
    lazy_regex(r"(?:[\w.-]{0,60}[._-])?\.?env(?:\.[\w-]{1,40})?\Z"),
    lazy_regex(r"\.env[\w.-]{0,60}\Z"),
    lazy_regex(r"id_(?:rsa|dsa|ecdsa|ed25519|xmss)[\w.-]{0,40}\Z"),
    lazy_regex(r"\.?(?:[\w-]{1,60}[._-])?(?:credentials?|passwords?|passwd|api[_-]?keys?)(?:[._-][\w-]{1,40})?"
               rf"(?:{_DATA})?\Z"),
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
"""Files in which a value stands in quotes: a bare word is an expression."""

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
        reaches_back: Whether the start stands within the token: what is before it must be a word's end no more.
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
        is_bare: Whether it is looked for in binary files, too.
        least: Characters that it has at least, without a space in them; 0 where it has spaces.
    """

    kind: str
    word: str
    pattern: re.Pattern[str]
    is_bare: bool = False
    least: int = 0


KEY_HEADER = (
    r"(-{4,5} ?BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)? ?-{4,5}|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----)"
    r"(?=[ \t]{0,40}(?:[\r\n]|\\[nr]|\Z))"
)
"""The first line of a key. Code that looks for keys has the header, too, but goes on behind it in the same line."""

TEXT_FORMS = (
    TextForm("key", "private key", lazy_regex(KEY_HEADER), is_bare=True),
    TextForm("key", "putty-user-key-file-", lazy_regex(r"(PuTTY-User-Key-File-\d: [^\n]{1,100})")),
    TextForm("key", "openvpn static key", lazy_regex(r"(-----BEGIN OpenVPN Static key V1-----[0-9a-f\s]{0,2048})")),
    TextForm("key", "age-secret-key-", lazy_regex(r"(?i)\b(AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{40,120})")),
    TextForm("key", "$ansible_vault;", lazy_regex(
        r"(\$ANSIBLE_VAULT;[\d.]{1,8};AES[^\n]{0,80}(?:\r?\n[ \t]{0,40}[0-9a-f]{1,128}){0,400})")),
    TextForm("key", '"kty"', lazy_regex(r"\"d\"\s{0,8}:\s{0,8}\"([\w-]{20,2048})\"")),
    TextForm("hash", "$", lazy_regex(r"(\$(?:apr1|1|5|6|y|7|gy)\$[^\s:\"'$]{1,64}\$[./A-Za-z0-9$]{20,200})"), least=24),
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
    TextForm("command", "sshpass ", lazy_regex(r"\bsshpass[ \t]{1,4}-p[ \t]{0,4}([^\s$]\S{0,200})")),
    TextForm("command", "curl ", lazy_regex(
        r"\bcurl\b[^\n]{0,200}?[ \t](?:-u|--user)[ \t=]{1,4}[\"']?[^\s:\"'$]{1,100}:([^\s\"'$][^\s\"']{0,200})")),
    TextForm("command", "login ", lazy_regex(
        r"\b(?:docker|podman|nerdctl|helm|oras|crane|skopeo|az|oc)[ \t][^\n]{0,40}?\blogin\b"
        r"[^\n]{0,200}?[ \t]-p[ \t=]{0,4}([^\s$<-]\S{0,200})")),
    TextForm("command", "wandb login ", lazy_regex(
        r"\bwandb login[ \t]{1,4}(?:--\S{1,60}[ \t]{1,4}){0,4}([0-9a-f]{40})\b")),
    TextForm("command", "mysql", lazy_regex(r"\bmysql\w{0,8}[ \t][^\n]{0,100}?[ \t]-p([^\s$<\"'-]\S{3,100})")),
    TextForm("command", "machine ", lazy_regex(
        r"\bmachine[ \t]{1,4}\S{1,200}\s{1,8}login\s{1,8}\S{1,200}\s{1,8}password\s{1,8}([^\s$<]\S{0,200})")),
    TextForm("signature", "sig", lazy_regex(
        r"(?i)[?&;](?:sig|signature|x-amz-signature|x-goog-signature|x-oss-signature|q-signature)=([\w%+/=-]{16,1024})")),
    TextForm("signature", "security-token=", lazy_regex(r"(?i)[?&;]x-[a-z]{2,8}-security-token=([\w%+/=-]{16,4096})")),
    TextForm("random", "login(", lazy_regex(r"\blogin\([^)\n]{0,80}?[\"']([0-9a-f]{40})[\"']")),
    TextForm("random", '"username"', lazy_regex(r"\"username\"[^{}]{0,200}\"key\"\s{0,8}:\s{0,8}\"([0-9a-f]{32})\"")),
)  # fmt: skip
