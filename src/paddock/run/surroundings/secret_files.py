"""Which files of a project are secrets, told by their names or their content, and the search for
them.

The search is bounded, and what it could not finish is refused: a secret that was not looked for
would be a secret that the agent reads.
"""

from __future__ import annotations

import os
import re
from itertools import islice

from paddock.model.errors import InvalidInput
from paddock.run.surroundings.host import read_text
from paddock.run.surroundings.key_material import is_key_in, may_hold_key

MAX_ENTRIES = 300_000
MAX_DEPTH = 100
_MAX_LOOKED_AT_BYTES = 1 << 20
_MAX_MODULES = 1000
# Packages and objects, not the project's own files: certificates and examples of others.
_NOT_SEARCHED = frozenset({"node_modules", "site-packages", "__pycache__"})
_GIT = ".git"
_NAMES = frozenset({
    ".env", ".envrc", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".mylogin.cnf",
    ".boto", ".git-credentials", ".vault-token", ".vault_pass", ".vault-pass", ".vault_password",
    "vault_pass.txt", "vault-password.txt", ".dockercfg", ".htpasswd", ".s3cfg", ".passwd-s3fs",
    ".databrickscfg", ".terraformrc", "terraform.rc", ".terraform.d", "credentials.tfrc.json",
    "rclone.conf", ".aws", ".ssh", ".gnupg", ".kube", ".azure", ".gcloud", ".oci", ".aliyun",
    ".bluemix", ".fly", ".heroku", ".snowflake", ".snowsql", ".gem", ".composer", ".kaggle",
    ".huggingface", ".paddock", ".password-store", ".smbcredentials", ".msmtprc", ".fetchmailrc",
    ".erlang.cookie", ".rhosts", ".sentryclirc", ".pnpmrc", "kaggle.json",
    "credentials.json", "credentials.toml", "credentials.yaml", "credentials.yml", "token.json",
    "secrets.json", "secrets.yaml", "secrets.yml", "secrets.toml", "kubeconfig",
    "terraform.tfstate", "application_default_credentials.json", ".rclone.conf", ".vault_token",
    "vault-token", ".dev.vars", ".secrets", ".secret", ".token", ".hf_token", "oauth_creds.json",
    ".credentials.json", "pgpass.conf", ".argocd", ".ngrok2", ".hex", "credentials.csv",
    "credentials.ini", "accesskeys.csv", "rootkey.csv", "secrets.ini", "credentials.tfrc",
    "kubeconfig.yaml", "kubeconfig.yml", ".vault_pass.txt", ".ansible_vault_pass",
})  # fmt: skip
_BEGINNINGS = (".env.", ".env-", ".env_", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")
_ENDINGS = (".env", ".key", ".p12", ".pfx", ".pkcs12", ".p8", ".pk8", ".jks", ".bks", ".keystore",
            ".kdbx", ".kdb", ".ppk", ".keytab", ".tfvars", ".tfvars.json", ".tfstate",
            ".kubeconfig")  # fmt: skip
_OF_ACCOUNTS = ("service-account", "service_account", "serviceaccount", "client_secret")  # JSON
_EXAMPLES = (".example", ".sample", ".template", ".dist", ".defaults", ".pub", "-example",
             "_example", "-sample", "_sample", "-template", "_template")  # fmt: skip
# What editors and programs append to the name of an earlier version.
_EARLIER = re.compile(r"(?:\.\d+)?(?:\.(?:bak|backup|old|orig|save|swp|tmp)|~)\Z")
# Public or needed, unless this is in them.
_PASSWORD = re.compile(rb"password|passwd|secret|token|_auth|://[^/\s:@]+:[^/\s@]+@", re.I)
_KEY_OR_PASSWORD = re.compile(rb"key|password|secret|token|://[^/\s]+@", re.I)
_IF_HOLDING = {
    ".pem": re.compile(rb"PRIVATE KEY"),
    ".yarnrc.yml": re.compile(rb"npmAuth"),
    ".yarnrc": _PASSWORD,
    "credentials": _KEY_OR_PASSWORD,  # Git, AWS, sbt
    "auth.json": re.compile(rb"basic|oauth|bearer|token|password|\"auth\"", re.I),  # Composer
    "pip.conf": _PASSWORD,
    "pip.ini": _PASSWORD,
    "gradle.properties": _PASSWORD,
    "settings.xml": re.compile(rb"<(?:password|privateKey|passphrase)>", re.I),  # Maven
    "nuget.config": re.compile(rb"Password", re.I),
    ".condarc": _PASSWORD,
    ".hgrc": re.compile(rb"^[ \t]*\[auth\]|password", re.I | re.M),
    ".curlrc": re.compile(rb"^[ \t]*-?-?u(?:ser)?\b|authorization", re.I | re.M),
    ".wgetrc": _PASSWORD,
    ".bowerrc": _PASSWORD,
    ".bundle/config": re.compile(rb"^BUNDLE_\w*__\w+:|:[^/\s@]+@", re.M),
    "pg_service.conf": _PASSWORD,
    "clouds.yaml": _PASSWORD,  # OpenStack
    "secure.yaml": _PASSWORD,
    "bunfig.toml": _PASSWORD,
    "uv.toml": _PASSWORD,
    ".config/wandb/settings": _KEY_OR_PASSWORD,
    "local.settings.json": _KEY_OR_PASSWORD,  # Azure Functions
}
_IN_A_PLACE = (
    ".docker/config.json", ".config/gcloud", ".config/gh", ".config/hub", ".config/rclone",
    ".config/op", ".config/doctl", ".config/composer", ".config/pip", ".config/configstore",
    ".config/git/credentials", ".config/github-copilot", ".config/stripe", ".config/netlify",
    ".config/ngrok", ".config/glab-cli", ".config/pypoetry/auth.toml", ".config/vault",
    ".cargo/credentials", ".cargo/credentials.toml", ".m2/settings-security.xml",
    ".subversion/auth", ".cache/huggingface/token", ".jupyter/jupyter_server_config.json",
    ".config/helm/registry", ".config/argocd", ".config/hcloud", ".config/scw", ".mc/config.json",
    ".ansible/vault_pass", ".poetry/auth.toml", ".cache/huggingface/stored_tokens",
    ".supabase/access-token", ".wrangler/config/default.toml", ".stripe/config.toml",
)  # fmt: skip
# A file whose name neither begins nor ends so is told by its content only, as most files are.
_TELLING = (
    *_ENDINGS,
    ".json",
    *(place.rpartition("/")[2] for place in (*_IN_A_PLACE, *_IF_HOLDING)),
)
_VENV_NAMES = (".env",)  # some call a virtual environment so
_CREDENTIALS = re.compile(
    r"://[^/\s@]*:[^/\s@]+@|://[^/\s:@]{20,}@|extraheader|(?:password|token)\s*=|\[credential", re.I
)


def is_secret_name(name: str) -> bool:
    """Return whether a file or directory of this name must be hidden from an agent, whatever it
    contains."""
    name = _present(name)
    if name.endswith(_EXAMPLES):
        return False
    if name in _NAMES or name.startswith(_BEGINNINGS) or name.endswith(_ENDINGS):
        return True
    return name.endswith(".json") and any(word in name for word in _OF_ACCOUNTS)


def may_tell(name: str) -> bool:
    """Return whether the name of a file is a reason to examine it more closely."""
    name = _present(name)
    return name in _NAMES or name.endswith(_TELLING) or name.startswith(_BEGINNINGS)


def _present(name: str) -> str:
    """Return the name in lower case and without a suffix that marks a backup."""
    return _EARLIER.sub("", name.lower())


def secret_files(root: str, *, is_only_top: bool = False) -> tuple[str, ...]:
    """Return the paths in a directory that an agent must not see, relative to it. Raises
    InvalidInput when there is more than can be searched."""
    hidden: list[str] = []
    left, waiting = MAX_ENTRIES, [("", 0)]
    while waiting:
        below, level = waiting.pop()
        for entry in _entries(os.path.join(root, below)):
            left -= 1
            if left < 0 or level >= MAX_DEPTH:
                raise _too_much(root, os.path.join(below, entry.name))
            path = f"{below}/{entry.name}" if below else entry.name
            if entry.is_file(follow_symlinks=False) and not may_tell(entry.name):
                if may_hold_key(entry) and is_key_in(entry.path):
                    hidden.append(path)
            elif _is_hidden(entry, path):
                hidden.append(path)
            elif entry.name == _GIT:
                hidden += _git_files(root, path)
            elif not is_only_top and _is_searched(entry):
                waiting.append((path, level + 1))
    return tuple(sorted(hidden))


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(islice(entries, MAX_ENTRIES + 1))
    except PermissionError:
        return []  # the agent stands for us: it cannot read it either
    except (FileNotFoundError, NotADirectoryError):
        return []  # gone meanwhile


def _is_hidden(entry: os.DirEntry[str], path: str) -> bool:
    if is_secret_name(entry.name):
        return not (entry.name in _VENV_NAMES and _is_venv(entry))
    lower = f"/{_present(path)}"
    if lower.endswith(tuple(f"/{path_end}" for path_end in _IN_A_PLACE)):
        return True
    if entry.is_dir(follow_symlinks=False) or entry.is_symlink():
        return False  # what a link leads to is decided on where it is
    if not entry.is_file(follow_symlinks=False):
        return True  # a socket, a pipe or a device: a way to another process
    if any(lower.endswith(end) and _holds(entry.path, what) for end, what in _IF_HOLDING.items()):
        return True
    return may_hold_key(entry) and is_key_in(entry.path)


def _holds(path: str, what: re.Pattern[bytes]) -> bool:
    """Return whether a file holds credentials. A file that cannot be searched counts as if it
    did."""
    try:
        # It may have become a pipe or a link meanwhile.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            content = file.read(_MAX_LOOKED_AT_BYTES + 1)
    except OSError:
        return True
    return len(content) > _MAX_LOOKED_AT_BYTES or what.search(content) is not None


def _is_searched(entry: os.DirEntry[str]) -> bool:
    if not entry.is_dir(follow_symlinks=False) or entry.name in _NOT_SEARCHED:
        return False
    return not _is_venv(entry)


def _is_venv(entry: os.DirEntry[str]) -> bool:
    return os.path.isfile(os.path.join(entry.path, "pyvenv.cfg"))


def _git_files(root: str, git: str) -> list[str]:
    """Return the files of a repository's settings that hold credentials; its objects are not
    searched."""
    directories = [git, *(f"{git}/modules/{name}" for name in _modules(os.path.join(root, git)))]
    files = [
        f"{directory}/{name}" for directory in directories for name in ("config", "config.worktree")
    ]
    return [file for file in files if _holds_credentials(os.path.join(root, file))]


def _modules(git: str) -> list[str]:
    with_config: list[str] = []
    top = os.path.join(git, "modules")
    for number, (directory, names, files) in enumerate(os.walk(top)):
        if number > _MAX_MODULES:
            raise _too_much(git, directory)
        if "config" in files:
            with_config.append(os.path.relpath(directory, top))
            names[:] = [name for name in names if name == "modules"]
    return with_config


def _holds_credentials(path: str) -> bool:
    if not os.path.lexists(path):
        return False
    text = read_text(path)
    return text is None or _CREDENTIALS.search(text) is not None


def _too_much(root: str, path: str) -> InvalidInput:
    return InvalidInput(
        f"{root} has more than can be searched for secrets ({MAX_ENTRIES} entries, "
        f"{MAX_DEPTH} levels; got to {path[:200]})",
        hint="run from the directory of the agent itself, not from one that holds everything",
    )
