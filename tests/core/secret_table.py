"""Labels for the detector of secrets: names of files and texts that must be found, and ordinary ones that must not.

Values are generated, so that no text of this file looks like a token: `{a36}` becomes 36 letters and digits, `{A16}`
capitals and digits, `{h40}` hexadecimal digits, `{b40}` base64, `{w43}` URL-safe base64, `{d9}` digits, `{l20}` small
letters and digits, `{U}` a UUID, `{p}` a password.
"""

from __future__ import annotations

import random
import re
import string

_ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "A": string.ascii_uppercase + "234567",
    "h": "0123456789abcdef",
    "b": string.ascii_letters + string.digits + "+/",
    "w": string.ascii_letters + string.digits + "_-",
    "d": string.digits,
    "l": string.ascii_lowercase + string.digits,
}
_PLACE = re.compile(r"\{([aAhbwdl])(\d+)\}|\{U\}|\{p\}")


def listed(text: str) -> list[str]:
    """Return the words of a text."""
    return list(filter(None, re.split(r"\s+", text)))


def filled(template: str, seed: int = 39) -> tuple[str, list[str]]:
    """Return a text with generated values in its places, and the values."""
    chosen = random.Random(f"{seed} {template}")
    values: list[str] = []

    def value(match: re.Match[str]) -> str:
        if match.group() == "{U}":
            made = "-".join("".join(chosen.choices("0123456789abcdef", k=size)) for size in (8, 4, 4, 4, 12))
        elif match.group() == "{p}":
            made = "".join(chosen.choices(string.ascii_letters, k=6)) + str(chosen.randrange(10, 99)) + "vQ"
        else:
            letters = _ALPHABETS[match[1]]
            size = int(match[2])
            made = "".join(chosen.choices(letters, k=size))
            if match[1] in "abwl" and size > 3:  # what is generated has letters and digits, as nearly all do
                made = "k7" + made[2:-2] + "3x"
        values.append(made)
        return made

    return _PLACE.sub(value, template), values


SECRET_NAMES = listed("""
.env .env.local .env.production conf/.env app/prod.env .envrc .netrc _netrc .pgpass pgpass.conf .my.cnf .mylogin.cnf
id_rsa id_dsa id_ecdsa id_ed25519 keys/id_ed25519_sk id_rsa.bak .ssh/config .ssh/authorized_keys .ssh/known_hosts
server.pem certs/tls.key host.p12 me.pfx store.jks a.keystore vault.kdbx vault.kdb login.keychain-db private.ppk
release.p8 key.asc.gpg secring.gpg .gnupg/pubring.kbx .aws/credentials .aws/config .azure/accessTokens.json
.kube/config kubeconfig prod.kubeconfig .docker/config.json .dockercfg .dockerconfigjson .config/gcloud/credentials.db
application_default_credentials.json service-account.json my_service_account.json gcp-service-account-key.json
conf/secrets.yaml secrets.yml secrets.json secrets.toml .streamlit/secrets.toml secret.yaml
credentials credentials.json credentials.csv aws_credentials client_secret.json client_secret_42.json credentials.yaml
.htpasswd htpasswd .git-credentials .gitcookies .bash_history .zsh_history .python_history .psql_history .mysql_history
.node_repl_history .sqlite_history .history terraform.tfstate terraform.tfstate.backup prod.tfvars
prod.auto.tfvars.json vault.yml vault_pass.txt .vault_pass .vault-token .kaggle/kaggle.json kaggle.json
.cache/huggingface/token .huggingface/token .cache/huggingface/stored_tokens
.config/rclone/rclone.conf rclone.conf .s3cfg .boto .ossutilconfig .obsutilconfig .cos.conf .aliyun/config.json
.tccli/default.credential .hcloud/cli.toml .passwd-s3fs .smbcredentials .pypirc .composer/auth.json
.gem/credentials .cargo/credentials.toml .config/gh/hosts.yml .config/hub .jupyter/jupyter_server_config.json
.ipython/profile_default/history.sqlite .modelscope/credentials/git_token known_tokens.csv passwords.txt password.txt
api_key.txt openai_api_key.txt token.txt hf_token.txt hf_token .hf_token ENV/.ENV Id_Rsa SERVER.PEM
krb5.keytab app/host.keytab krb5cc_1000 me.pkcs12 store.jceks user_passwords.txt env.production prod.env .env.yaml
ansible/group_vars/all/vault.yml .databrickscfg .snowsql/config .rediscli_history .pgpass.bak
""")
"""Paths whose name alone says that secrets are in the file."""

ORDINARY_NAMES = listed("""
train.py README.md requirements.txt .env.example .env.sample .env.template env.py environment.yml docs/env.md
.gitignore .gitattributes .dockerignore tokenizer.json tokenizer_config.json tokenizer.model special_tokens_map.json
added_tokens.json vocab.json tokens.py token_embedding.py tokenization.py key_frames.py keys.py keypoints.json
monkey.py turkey.csv src/secret_sharing.py secrets_test_data.md docs/secrets.md docs/credentials.md auth.py
authentication.py password_strength.py configs/ssh_config.md config.json docker/config.json conf/config.yaml
credential_helper.py package-lock.json poetry.lock yarn.lock uv.lock Cargo.lock model.safetensors.index.json
LICENSE Makefile Dockerfile history.py history.json training_history.csv known_classes.txt id_mapping.json id_list.txt
ssl.py cert.pem.md pemutils.py vault.py vaults/readme.md kube.yaml k8s/deployment.yaml main.tf variables.tf
service.json account.json public.asc pubring.md aws/launch.sh wandb/run.py wandb_utils.py huggingface/model.py
setup.cfg tox.ini .npmrc .yarnrc.yml secrets.py local_secrets.py wp-config.php hub.py rclone.md pypirc.md npm.md
conda_env.yml env.yaml env.yml configs/gym_env.yaml env.json env.toml env.txt env.sh set_env.sh passwords.csv
common_passwords.tsv keytab.py krb5.conf environment/env.cfg
    keyboard.py attention_key.py session.py passenger.csv
""")
"""Paths of ordinary repositories."""

TOKEN_NAMES = [
    "out/hf_{a34}/log.txt",
    "hf_{a34}",
    "runs/token=ghp_{a36}.txt",
    "runs/run-glpat-{w20}/a.json",
    "cache/AKIA{A16}.pem",
    "sk-proj-{w74}/x.py",
    "logs_hf_{a34}.txt",
]
"""Paths in which a token stands."""

PLAIN_PATHS = [
    "my_hf_internlmxcomposervlmodelweights/config.json",
    "out/hf_model_checkpoints_of_the_first_run/log.txt",
    "models--meta-llama--Llama-2-7b-chat-hf/config.json",
    "wandb/run-20240101_120000-{l8}/logs/debug.log",
    "objects/{h2}/{h38}",
    "cache/{h64}.json",
    "images/{U}.png",
    "task-specific-adapter-12345678901234567890/a.py",
    "token=abc/password=x/a.txt",
]
"""Paths in which none does."""

SECRET_TEXTS = [
    # --- key material ---
    ("k.txt", "-----BEGIN OPENSSH PRIVATE KEY-----\n{b70}\n{b70}\n-----END OPENSSH PRIVATE KEY-----\n"),
    ("k.txt", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{h32}\n\n{b64}\n"),
    ("k.txt", "-----BEGIN PRIVATE KEY-----\r\n{b64}\r\n"),
    ("k.txt", "-----BEGIN EC PRIVATE KEY-----\n{b64}\n"),
    ("k.txt", "-----BEGIN DSA PRIVATE KEY-----\n{b64}\n"),
    ("k.txt", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n{b64}\n"),
    ("k.txt", "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{b64}\n"),
    ("k.txt", "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{b64}\n"),
    ("k.txt", "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n"),
    ("k.txt", "-----BEGIN OpenVPN Static key V1-----\n{h32}\n"),
    ("sa.json", '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\n{b64}\\n"}'),
    ("a.py", 'KEY = """-----BEGIN RSA PRIVATE KEY-----\n{b64}\n-----END RSA PRIVATE KEY-----"""\n'),
    ("k.txt", "AGE-SECRET-KEY-1{A58}\n"),
    ("all.yml", "$ANSIBLE_VAULT;1.1;AES256\n{h80}\n"),
    ("wg.conf", "[Interface]\nPrivateKey = {b43}=\n"),
    ("jwk.json", '{"kty": "RSA", "n": "{w43}", "d": "{w86}"}'),
    # --- tokens of providers ---
    ("a.py", 'x = "hf_{a34}"\n'),
    ("a.py", 'x = "api_org_{a34}"\n'),
    ("a.py", 'x = "ghp_{a36}"\n'),
    ("a.py", 'x = "gho_{a36}"\n'),
    ("a.py", 'x = "ghu_{a36}"\n'),
    ("a.py", 'x = "ghs_{a36}"\n'),
    ("a.py", 'x = "ghr_{a36}"\n'),
    ("a.py", 'x = "github_pat_{a22}_{a59}"\n'),
    ("a.py", 'x = "glpat-{w20}"\n'),
    ("a.py", 'x = "glrt-{w20}"\n'),
    ("a.py", 'x = "gldt-{w20}"\n'),
    ("a.py", 'x = "AKIA{A16}"\n'),
    ("a.py", 'x = "ASIA{A16}"\n'),
    ("a.py", 'x = "AIza{w35}"\n'),
    ("a.py", 'x = "ya29.{w60}"\n'),
    ("a.py", 'x = "GOCSPX-{w28}"\n'),
    ("a.py", 'x = "sk-{a20}T3BlbkFJ{a20}"\n'),
    ("a.py", 'x = "sk-{h32}"\n'),
    ("a.py", 'x = "sk-{a48}"\n'),
    ("a.py", 'x = "sk-proj-{w74}"\n'),
    ("a.py", 'x = "sk-ant-api03-{w93}AA"\n'),
    ("a.py", 'x = "sk-or-v1-{h64}"\n'),
    ("a.py", 'x = "xoxb-{d11}-{d12}-{a24}"\n'),
    ("a.py", 'x = "xoxp-{d11}-{d11}-{d12}-{h32}"\n'),
    ("a.py", 'x = "xapp-1-A{A10}-{d13}-{h64}"\n'),
    ("a.py", 'u = "https://hooks.slack.com/services/T{A8}/B{A10}/{a24}"\n'),
    ("a.py", 'u = "https://discord.com/api/webhooks/{d18}/{w68}"\n'),
    ("a.py", 'u = "https://api.telegram.org/bot{d10}:AA{w33}/sendMessage"\n'),
    ("a.py", 'x = "{d10}:AA{w33}"\n'),
    ("a.py", 'x = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ{w40}.{w43}"\n'),
    ("a.py", 'x = "npm_{a36}"\n'),
    ("a.py", 'x = "pypi-AgEIcHlwaS5vcmc{w100}"\n'),
    ("a.py", 'x = "rubygems_{h48}"\n'),
    ("a.py", 'x = "dckr_pat_{w27}"\n'),
    ("a.py", 'x = "dckr_oat_{w32}"\n'),
    ("a.py", 'x = "SG.{w22}.{w43}"\n'),
    ("a.py", 'x = "xkeysib-{h64}-{a16}"\n'),
    ("a.py", 'x = "key-{h32}"\n'),
    ("a.py", 'x = "sk_live_{a24}"\n'),
    ("a.py", 'x = "rk_live_{a24}"\n'),
    ("a.py", 'x = "whsec_{a32}"\n'),
    ("a.py", 'x = "shpat_{h32}"\n'),
    ("a.py", 'x = "dop_v1_{h64}"\n'),
    ("a.py", 'x = "dapi{h32}"\n'),
    ("a.py", 'x = "lin_api_{a40}"\n'),
    ("a.py", 'x = "ntn_{a46}"\n'),
    ("a.py", 'x = "hvs.{w90}"\n'),
    ("a.py", 'x = "{a14}.atlasv1.{w64}"\n'),
    ("a.py", 'x = "glsa_{a32}_{h8}"\n'),
    ("a.py", 'x = "glc_{a40}"\n'),
    ("a.py", 'x = "sntrys_{a60}"\n'),
    ("a.py", 'x = "dp.pt.{a43}"\n'),
    ("a.py", 'x = "pul-{h40}"\n'),
    ("a.py", 'x = "r8_{a37}"\n'),
    ("a.py", 'x = "gsk_{a52}"\n'),
    ("a.py", 'x = "pplx-{a48}"\n'),
    ("a.py", 'x = "xai-{a80}"\n'),
    ("a.py", 'x = "nvapi-{w64}"\n'),
    ("a.py", 'x = "wandb_v1_{w77}"\n'),
    ("a.py", 'x = "KGAT_{h32}"\n'),
    ("a.py", 'x = "ops_eyJ{b260}"\n'),
    ("a.py", 'x = "AKCp{a69}"\n'),
    ("a.py", 'x = "ABSK{b120}=="\n'),
    ("a.py", 'x = "abc8Q~{w34}"\n'),
    ("a.py", 'x = "EAAC{a120}"\n'),
    ("a.py", 'x = "fo1_{w43}"\n'),
    ("a.py", 'x = "sha256~{w43}"\n'),
    ("a.py", 'x = "pnu_{a36}"\n'),
    ("a.py", 'x = "sgp_{h40}"\n'),
    ("a.py", 'x = "SK{h32}"\n'),
    ("a.py", 'x = "pat{a14}.{h64}"\n'),
    ("a.py", 'u = "https://x.webhook.office.com/webhookb2/{U}@{U}/IncomingWebhook/{h32}/{U}"\n'),
    ("a.py", 'x = "tgp_v1_{w43}"\n'),
    ("a.py", 'x = "tskey-auth-{a16}-{a32}"\n'),
    ("a.py", 'x = "ATATT3xFfGF0{w180}"\n'),
    ("a.py", 'x = "ATBB{a32}"\n'),
    ("a.py", 'x = "figd_{w40}"\n'),
    ("a.py", 'x = "sl.{w135}"\n'),
    ("a.py", 'x = "LTAI5t{a18}"\n'),
    ("a.py", 'x = "LTAI{a12}"\n'),
    ("a.py", 'x = "AKID{a32}"\n'),
    ("a.py", 'x = "AKLT{a42}"\n'),
    ("a.py", 'x = "ALTAK-{a21}"\n'),
    ("a.py", 'x = "ALTAK{a21}"\n'),
    ("a.py", 'x = "JDC_{A28}"\n'),
    ("a.py", 'x = "ms-{U}"\n'),
    ("a.py", 'x = "{h32}.{a16}"  # Zhipu\n'),
    ("a.py", 'u = "https://oapi.dingtalk.com/robot/send?access_token={h64}"\n'),
    ("a.py", 'u = "https://open.feishu.cn/open-apis/bot/v2/hook/{U}"\n'),
    ("a.py", 'u = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={U}"\n'),
    ("a.py", 'c = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={b86}==;EndpointSuffix=core.windows.net"\n'),
    ("a.py", 'u = "https://a.blob.core.windows.net/c/f?sv=2022-11-02&sig={a40}%3D"\n'),
    ("a.py", 'u = "https://b.s3.amazonaws.com/f?X-Amz-Credential=c&X-Amz-Signature={h64}"\n'),
    ("a.py", 'u = "https://b.oss-cn-hangzhou.aliyuncs.com/f?Expires=1&OSSAccessKeyId=i&Signature={a28}%3D"\n'),
    ("shadow.txt", "root:$6${a8}${a86}:19000:0:99999:7:::\n"),
    ("users.txt", "mia:$apr1${a8}${a22}\n"),
    ("users.txt", "mia:$2y$10${a53}\n"),
    # --- by assignment ---
    ("a.py", 'password = "{p}"\n'),
    ("a.py", "DB_PASSWORD = '{p}'\n"),
    ("a.py", 'passwd="hunter2"\n'),
    ("a.py", 'config = {"password": "{p}"}\n'),
    ("a.py", "conn = connect(host='h', user='u', passwd='{p}')\n"),
    ("a.py", 'os.environ["HF_TOKEN"] = "{a34}"\n'),
    ("a.py", 'os.environ.setdefault("WANDB_API_KEY", "{h40}")\n'),
    ("a.py", 'os.getenv("API_TOKEN", "{a24}")\n'),
    ("a.py", 'wandb.login(key="{h40}")\n'),
    ("a.py", 'login("{a34}")  # HF_TOKEN\nlogin(token="{a34}")\n'),
    ("a.py", 'p.add_argument("--api-key", type=str, default="{a32}")\n'),
    ("a.py", 'API_KEY: str = "{a32}"\n'),
    ("a.py", 'secretKey = "{b40}"\n'),
    ("a.py", 'aws_secret_access_key = "{b40}"\n'),
    ("a.py", 'SECRET_KEY = "{w50}"\n'),
    ("a.py", 'headers = {"Authorization": "Bearer {w40}"}\n'),
    ("a.py", 'headers = {"X-Api-Key": "{a32}"}\n'),
    ("a.py", 'headers["Authorization"] = "Basic {b32}=="\n'),
    ("a.py", 'x = "Bearer {w40}"\n'),
    ("a.py", 'url = "postgresql://mia:{p}@db.example.com:5432/x"\n'),
    ("a.py", 'url = "https://mia:{p}@git.example.com/x.git"\n'),
    ("a.py", 'url = "https://oauth2:{a20}@gitlab.example.com/x.git"\n'),
    ("a.py", 'url = "redis://:{p}@cache:6379/0"\n'),
    ("a.py", 'url = "mongodb+srv://u:{p}@c.mongodb.net"\n'),
    ("a.py", 'url = "https://api.example.com/v1?access_token={a32}&x=1"\n'),
    ("a.py", 'url = "https://api.example.com/v1?api_key={a32}"\n'),
    ("a.py", 'HUAWEI_SK = "{a40}"\n'),
    ("a.py", 'ak, sk = "{A20}", "{a40}"\n'),
    ("a.py", 'ak="{A20}"\nsk="{a40}"\n'),
    ("a.py", 'SecretId = "AKID{a32}"\nSecretKey = "{a32}"\n'),
    ("a.py", 'access_key_secret = "{a30}"\n'),
    ("a.py", 'ObsClient(access_key_id="{A20}", secret_access_key="{a40}", server="s")\n'),
    ("a.py", "密码 = '{p}'\n"),
    ("a.py", 'WIFI_PSK = "{p}"\n'),
    ("a.sh", "export HF_TOKEN={a34}\n"),
    ("a.sh", "export WANDB_API_KEY={h40}\n"),
    ("a.sh", "wandb login {h40}\n"),
    ("a.sh", "huggingface-cli login --token {a34}\n"),
    ("a.sh", "mysql -u root --password={p} db\n"),
    ("a.sh", "curl -u mia:{p} https://h/x\n"),
    ("a.sh", "curl -H 'Authorization: Bearer {w40}' https://h\n"),
    ("a.sh", 'curl -H "PRIVATE-TOKEN: {a20}" https://h\n'),
    ("a.sh", "sshpass -p {p} ssh h\n"),
    ("a.sh", "docker login -u mia -p {p} registry\n"),
    ("a.sh", "docker run -e MYSQL_ROOT_PASSWORD={p} mysql\n"),
    ("a.sh", "python train.py --wandb-key {h40}\n"),
    ("a.sh", 'PGPASSWORD="{p}" psql\n'),
    ("c.yaml", "password: {p}\n"),
    ("c.yaml", "db:\n  user: u\n  passwd: '{p}'\n"),
    ("c.yaml", "wandb:\n  api_key: {h40}\n"),
    ("c.yaml", "token: >-\n  {a40}\n"),
    ("c.yaml", "env:\n  - name: DB_PASSWORD\n    value: {p}\n"),
    ("c.yaml", "kind: Secret\ndata:\n  x: {b40}==\n"),
    ("c.json", '{"api_key": "{a32}"}'),
    ("c.json", '{"accessKeyId": "{A20}", "accessKeySecret": "{a30}"}'),
    ("c.json", '{"auths": {"r.example.com": {"auth": "{b40}=="}}}'),
    ("c.json", '{"username": "mia", "key": "{h32}"}'),
    ("c.toml", 'api_token = "{a32}"\n'),
    ("c.ini", "[db]\npassword = {p}\n"),
    ("c.ini", "client_secret={a32}\n"),
    ("c.cfg", "//registry.npmjs.org/:_authToken={U}\n"),
    (".npmrc", "//registry.npmjs.org/:_authToken={a36}\n"),
    (".yarnrc.yml", "npmAuthToken: {a36}\n"),
    ("wp-config.php", "define('DB_PASSWORD', '{p}');\n"),
    ("secrets.py", "secrets = {'ssid': 'home', 'password': '{p}'}\n"),
    ("c.conf", "wpa-psk {p}\npsk={p}\n"),
    ("c.properties", "spring.datasource.password={p}\n"),
    ("c.xml", "<password>{p}</password>\n"),
    ("c.xml", '<add key="ApiKey" value="{a32}" />\n'),
    ("n.ipynb", '{"cells": [{"source": ["os.environ[\\"HF_TOKEN\\"] = \\"{a34}\\"\\n"]}]}'),
    ("n.ipynb", '{"cells": [{"source": ["!huggingface-cli login --token hf_{a34}\\n"]}]}'),
    ("n.ipynb", '{"cells": [{"outputs": [{"text": ["password: {p}\\n"]}]}]}'),
    ("Dockerfile", "ENV AWS_SECRET_ACCESS_KEY={b40}\n"),
    ("Dockerfile", "ENV API_KEY {a32}\nARG DB_PASSWORD={p}\n"),
    ("R.md", "password: `{p}`\n"),
    ("R.md", "Log in with password `{p}`.\n"),
    ("R.md", "machine h login mia password {p}\n"),
    ("R.md", "    export OPENAI_API_KEY=sk-{a40}\n"),
    ("a.js", 'const apiKey = "{a32}";\n'),
    ("a.js", "const o = { clientSecret: '{a32}' };\n"),
    ("a.cpp", 'const char* password = "{p}";\n'),
    ("a.cpp", 'std::string api_key("{a32}");\n'),
    ("a.go", 'apiKey := "{a32}"\n'),
    ("a.bin", "\x00\x01ghp_{a36}\x00"),
    # --- by entropy alone ---
    ("a.py", 'x = auth("{b40}")\n'),
    ("a.py", 'client = Client("{A20}", "{b40}")\n'),
    # --- keys in one line, and packed in base64 ---
    ("a.py", 'KEY = "-----BEGIN RSA PRIVATE KEY----- {b64} {b64} -----END RSA PRIVATE KEY-----"\n'),
    ("a.py", 'KEY = "-----BEGIN PRIVATE KEY-----{b64}{b64}"\n'),
    ("a.java", 'String k = "-----BEGIN PRIVATE KEY-----" +\n    "{b64}" +\n    "{b64}";\n'),
    ("a.py", 'KEY = ("-----BEGIN EC PRIVATE KEY-----\\n"\n       "{b64}\\n")\n'),
    ("c.json", '{"note": "{\\"key\\": \\"-----BEGIN PRIVATE KEY-----\\\\n{b64}\\\\n\\"}"}'),
    ("c.html", "<p>-----BEGIN PRIVATE KEY-----<br>{b64}<br></p>\n"),
    ("k.txt", "SSH PRIVATE KEY FILE FORMAT 1.1\n{b64}\n"),
    ("c.yaml", "users:\n- user:\n    client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQp{b80}\n"),
    ("c.yaml", "tls: LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUV{b80}\n"),
    ("a.sh", "echo LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUgS0VZLS0tLS0K{b80} | base64 -d\n"),
    ("c.txt", "Ci0tLS0tQkVHSU4gUFJJVkFURSBLRVktLS0tLQpN{b80}\n"),
    ("a.py", 'K = "MIIEvgIBADANBgkqhkiG9w0BAQEFAASC{b400}"\n'),
    ("c.toml", 'k = "MIIEpAIBAAKCAQEA{b400}"\n'),
    ("c.txt", "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU{b80}\n"),
    # --- tokens of more providers ---
    ("a.py", 'x = "tvly-dev-{a32}"\n'),
    ("a.py", 'x = "tvly-{a32}"\n'),
    ("a.py", 'x = "lsv2_pt_{h32}_{h10}"\n'),
    ("a.py", 'x = "lsv2_sk_{h32}_{h10}"\n'),
    ("a.py", 'x = "sbp_{h40}"\n'),
    ("a.py", 'x = "sk-lf-{U}"\n'),
    ("a.py", 'x = "csk-{l48}"\n'),
    ("a.py", 'x = "e2b_{h40}"\n'),
    # --- escaped and coloured ---
    ("c.json", '{"x": "hf\\u005f{a34}"}'),
    ("c.json", '{"pass\\u0077ord": "{p}"}'),
    ("c.json", '{"\\u5bc6\\u7801": "{p}"}'),
    ("c.json", '{"u": "https:\\/\\/mia:{p}@git.example.com\\/x.git"}'),
    ("a.js", 'const x = "hf\\x5f{a34}";\n'),
    ("run.log", "\x1b[31mhf_{a34}\x1b[0m\n"),
    ("run.log", "\x1b[1;32mINFO\x1b[0m token hf_\x1b[1;36mk7{a30}\x1b[0m\n"),
    ("run.log", "INFO\x1b[38;5;9mpassword\x1b[0m: \x1b[36m{p}\x1b[0m\n"),
    ("n.ipynb", '{"cells": [{"outputs": [{"text": ["\\u001b[31mhf_{a34}\\u001b[0m\\n"]}]}]}'),
    ("n.ipynb", '{"cells": [{"outputs": [{"text": ["\\u001b[1mpassword\\u001b[0m=\\u001b[36m{p}\\u001b[0m\\n"]}]}]}'),
    ("n.ipynb", '{"cells": [{"source": [\n  "password = (\\n",\n  "    \\"{p}\\"\\n",\n  ")"\n ]}]}'),
    ("n.ipynb", '{"cells": [{"source": ["-----BEGIN PRIVATE KEY-----\\n", "{b64}\\n"]}]}'),
    ("n.ipynb", '{"cells": [{"source": ["db:\\n", "  password:\\n", "    {p}\\n"]}]}'),
    # --- more ways to give a password ---
    ("a.sh", "export SSHPASS={p}\n"),
    ("a.sh", "SSHPASS='{p}' sshpass -e ssh h\n"),
    ("a.sh", "MYSQLPASS={p}\nDBPASS={p}\n"),
    ("a.sh", "echo {p} | sudo -S apt install x\n"),
    ("a.sh", 'echo -n "{p}" | sudo -k -S apt install x\n'),
    ("a.sh", "printf '{p}\\n' | sudo -S -p '' ls\n"),
    ("a.sh", "sudo -S ls <<< '{p}'\n"),
    ("a.sh", "echo 'root:{p}' | chpasswd\n"),
    ("a.sh", "echo {p} | docker login -u mia --password-stdin r.example.com\n"),
    ("a.sh", "echo {p} | kinit mia\n"),
    ("a.sh", "curl -uroot:{p} https://h\n"),
    ("a.sh", "redis-cli -h cache -a {p} ping\n"),
    ("a.sh", "openssl rsa -in k.enc -passin pass:{p} -out k\n"),
    ("a.sh", "ldapsearch -x -D cn=admin -w {p} -b dc=x\n"),
    ("a.sh", "smbclient //h/share -U mia%{p}\n"),
    ("a.sh", "ipmitool -I lanplus -H h -U root -P {p} power status\n"),
    ("a.sh", "sshpass -p{p} ssh h\n"),
    ("a.sh", "docker login -umia -p{p} registry\n"),
    ("a.sh", "mongosh -u root -p {p} db\n"),
    ("a.sh", "zip -r -P {p} out.zip out\n"),
    ("a.exp", 'spawn ssh h\nexpect "*assword:"\nsend "{p}\\r"\n'),
    ("a.exp", 'expect {\n  "*assword:" { send -- "{p}\\r"; exp_continue }\n}\n'),
    ("a.py", "child.expect('Password:')\nchild.sendline('{p}')\n"),
    ("c.yaml", "db:\n  password:\n    {p}\n"),
    ("c.yaml", "db:\n  password:\n    '{p}'\n  user: mia\n"),
    ("c.yaml", "ansible_become_pass: {p}\n"),
    ("hosts.ini", "h1 ansible_host=10.0.0.1 ansible_become_pass={p}\n"),
    ("a.py", 'password = (\n    "{p}"\n)\n'),
    ("a.py", 'password = \\\n    "{p}"\n'),
    ("a.py", 'conn = pymysql.connect("h", "root", "{p}", "db")\n'),
    ("a.py", 'conn = MySQLdb.connect(host, user, "{p}")\n'),
    ("a.py", 'ssh.connect(host, 22, "mia", "{p}")\n'),
    ("a.py", 'server.login("mia@example.com", "{p}")\n'),
    ("a.py", 'requests.get(url, auth=("mia", "{p}"))\n'),
    ("a.py", 'HTTPBasicAuth("mia", "{p}")\n'),
    ("cookies.txt", "# Netscape HTTP Cookie File\n.example.com\tTRUE\t/\tTRUE\t1790000000\tsid\t{a32}\n"),
    ("c.txt", "#HttpOnly_.example.com\tTRUE\t/\tFALSE\t0\tsession\t{w40}\n"),
    ("R.md", "服务器密码 {p}\n"),
    ("R.md", "登录密码是{p}。\n"),
    ("R.md", "密码为 {p},请勿外传\n"),
    ("R.md", "口令是：{p}\n"),
    ("R.md", "The password is {p}.\n"),
    # --- dummies are told by the folder of tests and by their words, and by nothing else ---
    ("tests/test_login.py", 'password = "{p}"\n'),
    ("tests/conf.yaml", "password: hunter2\n"),
    ("src/login.py", 'password = "s3cret"\n'),
    ("tests/test_login.py", 'password = "Tr0ub4dor&3"\n'),
    ("tests/test_login.py", 'password = "secretive-{l8}"\n'),
    ("tests/conf.yaml", "password: root@2019!\n"),
    # --- files whose names say nothing any more ---
    ("conda_env.yml", "name: x\nvariables:\n  HF_TOKEN: hf_{a34}\n"),
    ("env.yaml", "password: {p}\n"),
    ("env.sh", "export DB_PASSWORD={p}\n"),
    ("pub.txt", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b43}\n-----BEGIN PRIVATE KEY-----\n{b64}\n"),
]
"""Files with a secret: a name that says nothing, and the text."""

ORDINARY_TEXTS = [
    ("a.py", 'password = os.environ["DB_PASSWORD"]\n'),
    ("a.py", "password = getpass.getpass()\n"),
    ("a.py", 'password = ""\ntoken = None\napi_key = ""\n'),
    ("a.py", 'password = "xxx"\nPASSWORD = "******"\ntoken = "<your token>"\n'),
    ("a.py", 'api_key = "YOUR_API_KEY"\ntoken = "your-token-here"\nhf_token = "hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"\n'),
    ("a.py", 'api_key = f"{prefix}-{name}"\npassword = "${PASSWORD}"\nsecret = "{{ secret }}"\n'),
    ("a.py", 'def login(password: str, token: str = "", api_key: Optional[str] = None) -> None: ...\n'),
    ("a.py", 'pad_token = "<pad>"\neos_token = "</s>"\nbos_token="[BOS]"\nunk_token = "<|endoftext|>"\n'),
    ("a.py", "max_tokens = 512\nnum_tokens=4096\ntoken_ids = ids\nimage_token = '<image>'\nmask_token = '[MASK]'\n"),
    ("a.py", 'tokenizer = AutoTokenizer.from_pretrained("meta-llama/Llama-2-7b-chat-hf")\n'),
    ("a.py", 'cls_token = "cls_token"\nself.cls_token = nn.Parameter(torch.zeros(1, 1, dim))\n'),
    ("a.py", 'DEFAULT_IMAGE_TOKEN = "<image>"\nIM_START_TOKEN = "<im_start>"\nsep_token = "<|im_sep|>"\n'),
    ("a.py", 'key = "backbone.layer4.2.conv3.weight"\nsecret_name = "prod/database"\ntoken_path = "/run/token"\n'),
    ("a.py", "secret_key = settings.SECRET_KEY\nkey = hashlib.sha256(data).hexdigest()\n"),
    ("a.py", 'MD5 = "{h32}"\nsha1 = "{h40}"\nSHA256 = "{h64}"\n'),
    ("a.py", 'url = "https://download.pytorch.org/models/resnet50-{h8}.pth"\n'),
    ("a.py", 'gdown.download(id="1k7aBcD{a23}3x", output="w.pth")\n'),
    ("a.py", 'url = "https://drive.google.com/uc?id=1k7{a30}"\n'),
    ("a.py", 'commit = "{h40}"\nrevision="{h40}"\n'),
    ("a.py", 'model = "sk-resnet50"\nnet = "sk-fading-circle-12"\nname = "task-specific-adapter-12345678901234"\n'),
    ("a.py", 'alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"\n'),
    ("a.py", 'if line.startswith("-----BEGIN RSA PRIVATE KEY-----"):\n    pass\n'),
    ("a.py", 'PRIVATE = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")\n'),
    ("a.py", 'help="the password of the user"\nerror = "password: must not be empty"\n'),
    ("a.py", 'p.add_argument("--token", default=None, help="token of the hub")\n'),
    ("a.py", 'p.add_argument("--hf_token", type=str, default="")\n'),
    ("a.py", 'headers = {"Authorization": f"Bearer {token}"}\nheaders = {"Authorization": "Bearer " + token}\n'),
    ("a.py", 'url = f"https://{user}:{password}@host/x"\nurl = "https://user:password@host/x"\n'),
    ("a.py", 'url = "https://$USER:$PASS@host"\nssh = "git@github.com:pytorch/pytorch.git"\n'),
    ("a.py", "a @ b: c\nx: y@z\n"),
    ("a.py", 'tokens = "hello world this is a test".split()\n'),
    ("a.py", 'attn = self.attn(q, k, v, key_padding_mask=mask)\nkey="value"\n'),
    ("a.py", 'passes = "fuse_conv_bn"\nbypass = "yes"\ncompass = "north12345"\nauthor = "Jane Q. Public"\n'),
    ("a.py", 'password_hash = hash(password)\npasswordless = True\npasswords = load()\n'),
    ("a.sh", 'export HF_TOKEN=$1\nexport TOKEN=${TOKEN:-}\nPASSWORD=$(cat file)\nexport WANDB_API_KEY=<key>\n'),
    ("a.sh", "export HF_TOKEN=your_token\nwandb login $KEY\ndocker login -u $U -p $P\n"),
    ("a.sh", "python train.py --max-tokens 4096 --tokenizer gpt2 --token-type x\n"),
    ("a.sh", "sha256sum -c <<< '{h64}  file'\npip install x --hash=sha256:{h64}\n"),
    ("a.sh", "curl -u $USER:$PASS https://h\nkill -9 1234\n"),
    ("c.yaml", "password: ${DB_PASSWORD}\ntoken: ${{ secrets.GITHUB_TOKEN }}\nsecret: null\n"),
    ("c.yaml", "env:\n  - name: DB_PASSWORD\n    valueFrom:\n      secretKeyRef: {name: db, key: password}\n"),
    ("c.yaml", "uses: actions/checkout@{h40}\nrev: {h40}\n"),
    ("c.yaml", "pad_token: <pad>\nvision_start_token: '<|vision_start|>'\nimage_token_id: 151655\nmax_tokens: 8192\n"),
    ("c.yaml", "author: Mia\nauthors: [a, b]\nkey: layer1\nsession: 12\n"),
    ("c.json", '{"pad_token": "<pad>", "image_token": "<image>", "token_type": "bearer", "max_token_len": 2048}'),
    ("c.json", '{"integrity": "sha512-{b86}==", "resolved": "https://registry.npmjs.org/x/-/x-1.0.0.tgz"}'),
    ("c.json", '{"password": "Password", "forgot_password": "Mot de passe oublié ?", "secret": "Geheimnis"}'),
    ("c.json", '{"metadata": {"digest": "sha256:{h64}", "etag": "{h32}"}}'),
    ("c.lock", 'content-hash = "{h64}"\n{ file = "x.whl", hash = "sha256:{h64}" }\n'),
    ("go.sum", "github.com/x/y v1.0.0 h1:{b43}=\n"),
    ("n.ipynb", '{"outputs": [{"data": {"image/png": "iVBORw0KGgo{b4000}"}}], "id": "{h8}"}'),
    ("n.ipynb", '{"source": ["token = \\"<your token>\\"\\n", "from google.colab import userdata\\n"]}'),
    ("p.svg", '<image href="data:image/png;base64,{b400}"/>\n'),
    ("R.md", "Set `HF_TOKEN` to your token, then run `huggingface-cli login --token $HF_TOKEN`.\n"),
    ("R.md", "password: see the wiki\ntoken: a unit of text\nThe secret: patience.\n"),
    ("R.md", "[extraction code: k7x3](https://pan.baidu.com/s/1{w22}) password: k7x3\n"),
    ("R.md", "[BaiduDrive](https://pan.baidu.com/s/1k7{a19}3x?pwd=k7x3)\n"),
    ("R.md", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b43} mia@host\n"),
    ("R.md", "-----BEGIN CERTIFICATE-----\n{b64}\n-----END CERTIFICATE-----\n"),
    ("R.md", "-----BEGIN PUBLIC KEY-----\n{b64}\n-----END PUBLIC KEY-----\n"),
    ("R.md", "AKIAIOSFODNN7EXAMPLE and wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n"),
    ("R.md", "@misc{{name}2023, author = {A and B}, key = {cvpr2023}, url={https://arxiv.org/abs/2301.00001}}\n"),
    ("vocab.txt", "password\nsecret\ntoken\n##token\nbearer\n"),
    ("bpe.txt", "pass word\nse cret\nto ken</w>\n"),
    ("vocab.json", '{"password": 3632, "Ġpassword": 9206, "token": 30001, "secret": 21078, "api_key": 51}'),
    ("labels.csv", "id,label,password\n1,cat,none\n"),
    ("a.cpp", "auto token = lexer.next();\nTokenType::kPassword;\nstd::string secret = read();\n"),
    ("a.cpp", 'static const char* kToken = "token";\nconst uint64_t kKey = 0x{h16};\n'),
    ("a.cu", "__shared__ float keys[256]; // key = value\n"),
    ("a.js", 'const token = localStorage.getItem("token");\nconst password = document.getElementById("pw").value;\n'),
    ("a.html", '<input type="password" name="password" placeholder="Password" id="user_password">\n'),
    ("a.html", '<script src="https://cdn/x.js" integrity="sha384-{b64}" crossorigin="anonymous"></script>\n'),
    ("a.css", ".sk-cube-grid .sk-cube1 { animation-delay: 0.2s }\n"),
    ("a.tf", 'password = var.db_password\nsecret = data.vault.x\n'),
    ("requirements.txt", "tokenizers==0.15.0\nauthlib>=1.0\ntorch==2.1.0 --hash=sha256:{h64}\n"),
    ("uuid.txt", "{U}\n{U}\n"),
    ("data.csv", "1k7x3.png,{h32},0.123456789\n"),
    ("a.py", 'train_files = ["n0{d7}_{d4}.JPEG", "{h32}.jpg"]\nx = "{l20}"\n'),
    ("a.py", 'if "-----BEGIN RSA PRIVATE KEY----- header" in text:\n    pass\n'),
    ("a.py", 'START = "-----BEGIN PRIVATE KEY-----"\nEND = "-----END PRIVATE KEY-----"\n'),
    ("a.md", "A key begins with `-----BEGIN PRIVATE KEY-----` and has base64 behind it.\n"),
    ("c.yaml", "certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUM{b80}\n"),
    ("c.yaml", "key: LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KTUlJQklqQU5CZ2txaGtpRzl3{b80}\n"),
    ("a.py", 'P = "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA"\n'),
    ("a.py", 'name = "sbp_resnet50"\nmodel = "tvly-dev"\nprefix = "lsv2_pt_"\n'),
    ("c.json", '{"x": "caf\\u00e9 \\u005f \\u4e2d\\u6587", "path": "a\\/b\\/c"}'),
    ("run.log", "\x1b[31mERROR\x1b[0m token \x1b[36m512\x1b[0m of 4096, password: \x1b[2m******\x1b[0m\n"),
    ("n.ipynb", '{"outputs": [{"text": ["\\u001b[1mpassword\\u001b[0m: \\u001b[36mrequired\\u001b[0m\\n"]}]}'),
    ("n.ipynb", '{"cells": [{"source": ["password = (\\n", "    os.environ[\\"PW\\"]\\n", ")"]}]}'),
    ("a.sh", "export SSHPASS=$PW\nsshpass -e ssh h\nexport SSHPASS=${SSHPASS:?}\nbypass=yes\nCOMPASS=north-12345\n"),
    ("a.sh", 'echo "$PW" | sudo -S ls\necho done | sudo tee /etc/x.conf\necho hello | docker run -i x\n'),
    ("a.sh", "echo $PW | docker login -u mia --password-stdin\ncat pw | kinit mia\n"),
    ("a.sh", "curl -u $U:$P https://h\ncurl -uuser h\ncurl -o a:b -s https://h/x\nls -a x1y2z3 redis-cli\n"),
    ("a.sh", "openssl rsa -in k -passin env:PW\nopenssl rsa -passin file:pw.txt\npython -m x --pass pass:none\n"),
    ("a.sh", 'ldapsearch -x -W -b dc=x\nldapsearch -w "$PW"\nwc -w words12x9.txt\nsmbclient -U mia //h/s\n'),
    ("a.sh", "ipmitool -E -P $PW power\nmongosh -p\nzip -r out.zip a\ncp -P k7x3q9 b\nmysql -p db\n"),
    ("a.sh", "mkdir -p out7x3/k9\ngunzip -k a7x3.gz\n"),
    ("a.exp", 'expect "*assword:"\nsend "$password\\r"\nexpect "$ "\nsend "ls -l /data7x3\\r"\n'),
    ("a.exp", 'expect "login:"\nsend "mia77x\\r"\n'),
    ("c.yaml", "properties:\n  password:\n    type: string\n  token:\n    description: x\n"),
    ("c.yaml", "password:\n  - a\nsecret:\n\nname: k7x3Q9vvQ\n"),
    ("c.yaml", "password:\nname: k7x3Q9vvQ\n"),
    ("a.py", "def token(self):\n    return self.k7x3Q9vvQ\n"),
    ("a.py", 'password = (\n    os.environ["PW"]\n)\n'),
    ("a.py", 'conn = pymysql.connect(host, user, password, "db7x3")\nsqlite3.connect("a7x3.db")\n'),
    ("a.py", 'client.login("user", "password")\nrequests.get(url, auth=("user", "pass"))\nx.connect(a, b)\n'),
    ("a.py", 'signal.connect(obj, "clicked", "on_click_7x3")\nrequests.get(url, auth=(user, password))\n'),
    ("data.tsv", "a.com\tTRUE\tx\tTRUE\t17\tsid\tk7x3q9\n"),
    ("R.md", "密码 学 基础\n忘记密码 请联系管理员\n密码是必填项\n密码为空时报错\n密码学sha256\n密码 required\n"),
    ("R.md", "The password is required.\nThe token is base64-encoded.\nA password is at least 8 characters.\n"),
    ("tests/test_login.py", 'password = "s3cret"\nlogin(password="passw0rd")\ntoken_secret = "test-secret-123"\n'),
    ("tests/test_login.py", 'password="wrong_password"\npassword = "not-a-real-secret"\nPASSWORD = "pa$$word"\n'),
    ("pkg/test/conf.yaml", "password: testpassword1\n"),
    ("login_test.go", 'password := "dummy-secret"\n'),
    ("conda_env.yml", "name: x\ndependencies:\n  - python=3.10\n  - pytorch=2.1.0=py3.10_cuda11.8_cudnn8.7.0_0\n"),
    ("env.yaml", "env_name: ant\nnum_envs: 16\n"),
    ("configs/gym_env.yaml", "name: CartPole-v1\n"),
    ("env.json", '{"env": "gym"}\n'),
    ("env.txt", "numpy==1.26.4\n"),
    ("env.sh", "source /usr/local/Ascend/ascend-toolkit/set_env.sh\nexport X=1\n"),
    ("passwords.csv", "password,strength\nkzde5577,1\nvisi7k1yr,2\n"),
    ("passwords.csv", "user,password\nmia,\nben,none\n"),
    ("pub.key", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b43} mia@h\n"),
    ("pub.key", "-----BEGIN RSA PUBLIC KEY-----\n{b64}\n-----END RSA PUBLIC KEY-----\n"),
    ("pub.key", "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA{b200}\n"),
    ("ca.pem", "subject=CN = x\n-----BEGIN TRUSTED CERTIFICATE-----\n{b64}\n"),
    ("dh.pem", "-----BEGIN DH PARAMETERS-----\n{b64}\n-----END DH PARAMETERS-----\n"),
]  # fmt: skip
"""Files without one."""

SECRET_DATA = [
    ("pub.key", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b43}\n-----BEGIN PRIVATE KEY-----\n{b64}\n"),
    ("k.dat", "\x05\x02\x00\x00\x00\x30\x00\x01\x00\x0bEXAMPLE.COM\x00\x04host\x00\x00\x00\x01ab{a32}"),
    ("krb5.keytab", "x"),
    ("host.keytab", "x"),
    ("krb5cc_1000", "x"),
    ("me.pkcs12", "x"),
    ("k.dat", "\xfe\xed\xfe\xed\x00\x00\x00\x02\x00\x00\x00\x01{a40}"),
    ("k.dat", "\xce\xce\xce\xce\x00\x00\x00\x02\x00\x00\x00\x01{a40}"),
    ("k.dat", "\x30\x82\x09\x87\x02\x01\x03\x30\x82\x09\x4d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01\xa0{a40}"),
    ("k.dat", "\x03\xd9\xa2\x9a\x67\xfb\x4b\xb5\x01\x00{a40}"),
    ("k.der", "\x30\x82\x04\xbd\x02\x01\x00\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00\x04\x82{a40}"),
    ("k.der", "\x30\x82\x04\xa4\x02\x01\x00\x02\x82\x01\x01\x00{a40}"),
    ("k.der", "\x30\x77\x02\x01\x01\x04\x20{a32}"),
    ("a.txt", "x = 1\npassword: {p}\nend\x00"),
    ("a.py", "x = 1\x00\npassword = '{p}'\n"),
    ("run.log", "\x00" * 9000 + "password: {p}\n"),
    ("run.log", "step\n" * 3000 + "\x00\npassword: {p}\n"),
    ("a.db", "SQLite format 3\x00\x10\x00\x01\x40\x20\xff\xfe\x9c\x00\x81\x05user\x00\x1fpassword={p}\x00\x90\xd1"),
    ("a.bin", "\x00\x01\x90\x8f\x00" + "\x00".join("ghp_" + "k7Qw2ErTy9" * 4) + "\x00\x00"),
    ("users.csv", "url,username,password\nhttps://x.example.com,mia,{p}\n"),
    ("passwords.csv", "name;login;password\nx;mia;{p}\n"),
    ("k.csv", "User name,Access key ID,Secret access key\nmia,x,{b40}\n"),
    ("k.tsv", "login\tpassword\nmia\t{p}\n"),
]  # fmt: skip
"""Files with a secret that are no text, or that their name and form tell: the name, and the bytes as Latin-1."""

ORDINARY_DATA = [
    ("k.dat", "\x05\x02\x07\x09{a40}"),
    ("k.der", "\x30\x82\x03\x4d\x30\x82\x02\x35\xa0\x03\x02\x01\x02\x02\x14{a40}"),
    ("k.der", "\x30\x82\x01\x22\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00\x03\x82\x01\x0f\x00{a40}"),
    ("a.txt", "x = 1\npassword: ${P}\nend\x00"),
    ("a.db", "SQLite format 3\x00\x10\x00\xff\xfe\x9c\x00password TEXT\x00token\x00CREATE TABLE t(password)\x00"),
    ("a.so", "\x7fELF\x02\x01\x01\x00\xff\x90Enter password: \x00password=%s\x00token: %d\x00bad password: short\x00"),
    ("a.bin", "\x00\x01\x90\x8f\x00w\x00o\x00r\x00d\x00s\x00\x00"),
    ("a.csv", "id,label,password\n1,cat,none\n"),
    ("a.csv", "token,count,user\nthe,12,mia\n"),
    ("a.csv", "user,password_hash_length,text\nmia,12,k7x3Q9vvQ\n"),
    ("a.mo", "\xde\x12\x04\x95\0\0\0\0\x02\0\0\0\x1c\0\0\0\x2c\0\0\0\x05\0\0\0Password: \0contrasinal\0Password: x\0"),
    ("math.txt", "x^2 + y^2 = z^2\n"),
]  # fmt: skip
"""The same without one."""
