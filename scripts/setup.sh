# shellcheck shell=bash
# Sourced by the other scripts: makes the machine ready and ROOT/.venv current, at once when it is so
# already. Gives them ROOT, VENV and the functions below. Runs nothing of Paddock; prints to stderr.
# PADDOCK_PYTHON names another interpreter to work with, which gets an environment of its own.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
VENV=$ROOT/.venv
SUPPORTED_PYTHONS=(3.13 3.12 3.11) # Newest first; the classifiers of pyproject.toml.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # An ordinary user's PATH lacks ldconfig and mkfs.btrfs.
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
# Some environments forbid it. Tests start hundreds of programs, each of which would compile all again.
unset PYTHONDONTWRITEBYTECODE

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

setup() {
    setup_system
    if [[ -n ${PADDOCK_PYTHON:-} ]]; then
        is_new_enough "$PADDOCK_PYTHON" || die "PADDOCK_PYTHON=$PADDOCK_PYTHON is not a Python >= 3.11"
        [[ $(base_of "$VENV/bin/python") == "$(base_of "$PADDOCK_PYTHON")" ]] ||
            VENV=$ROOT/.venv-$(version_of "$PADDOCK_PYTHON")
    fi
    setup_venv "$VENV" find_python
}

# Runs a function while no other script sets up this project.
locked() {
    local lock
    exec {lock}<"$ROOT" # The directory is its own lock file: nothing to create, nothing to leave.
    flock --nonblock "$lock" || {
        say "waiting for another set-up of $ROOT"
        flock "$lock"
    }
    "$@"
    exec {lock}<&- # Programs started later must not hold it.
}

# --- what the system gives -------------------------------------------------------------------

setup_system() {
    local missing
    mapfile -t missing < <(missing_packages)
    ((${#missing[@]})) || return 0
    apt_install "${missing[@]}" && return 0
    say "some limits cannot be enforced here until this is done: $(apt_command "${missing[@]}")"
}

# Looked for by file, not by package: true on every distribution.
missing_packages() {
    [[ -x /usr/bin/python3 ]] || echo python3 # The interpreter inside the sandboxes.
    { ldconfig -p 2>/dev/null || true; } | grep -F libseccomp.so.2 >/dev/null || echo libseccomp2
    command -v mkfs.btrfs >/dev/null || echo btrfs-progs
}

apt_install() {
    [[ $EUID == 0 ]] && command -v apt-get >/dev/null || return 1
    say "installing with apt-get: $*"
    apt_get install -y --no-install-recommends "$@" >/dev/null 2>&1 && return 0
    # Package lists are absent or old on most fresh images; only then are they fetched.
    logged apt_get update || return 1
    logged apt_get install -y --no-install-recommends "$@"
}

apt_get() {
    DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
        apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

apt_command() {
    [[ $EUID == 0 ]] || printf 'sudo '
    echo "apt-get install $*"
}

# --- which Python ----------------------------------------------------------------------------

find_python() {
    [[ -z ${PADDOCK_PYTHON:-} ]] || { command -v "$PADDOCK_PYTHON" && return 0; }
    first_python && return 0
    apt_install python3 python3-venv && first_python && return 0
    # Ubuntu 22.04: python3 is 3.10, and 3.11 is a package beside it.
    apt_install python3.11 python3.11-venv && first_python && return 0
    die "no Python >= 3.11 found. Install one: $(apt_command python3 python3-venv)" \
        "(on Ubuntu 22.04: python3.11 python3.11-venv)"
}

# The system's comes first: it is the one that users of a fresh machine have, and sandboxes too.
first_python() {
    local name
    for name in /usr/bin/python3 python3 "${SUPPORTED_PYTHONS[@]/#/python}"; do
        is_new_enough "$name" && command -v "$name" && return 0
    done
    return 1
}

# The newest supported Python on this machine, wherever version managers put theirs.
newest_python() {
    local version python
    for version in "${SUPPORTED_PYTHONS[@]}"; do
        for python in "python$version" {/usr,/usr/local}/bin/"python$version" \
            "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python \
            "${XDG_DATA_HOME:-$HOME/.local/share}"/uv/python/cpython-"$version".*/bin/python \
            /opt/*/bin/"python$version"; do
            is_new_enough "$python" && command -v "$python" && return 0
        done
    done
    return 1
}

version_of() { "$1" -c 'import platform; print(platform.python_version())'; }

# The interpreter that an environment was made from.
base_of() {
    "$1" -c 'import os, sys; print(os.path.realpath(sys._base_executable))' 2>/dev/null
}

# PATH without the directories that have a Python, other than the system's.
path_without_other_pythons() {
    local directory kept=()
    while read -r directory; do
        [[ $directory =~ ^(/usr)?/bin/?$ ]] || ! compgen -G "$directory/python*" >/dev/null || continue
        kept+=("$directory")
    done <<<"${PATH//:/$'\n'}"
    (IFS=: && echo "${kept[*]}")
}

# Runs it: the shims of version managers exist even where the version does not.
is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# --- the virtual environment -----------------------------------------------------------------

# setup_venv DIR FINDER: FINDER prints the Python that DIR is made from, if it must be made.
setup_venv() {
    local dir=$1 finder=$2 python stamp
    stamp=$(sha256sum <"$ROOT/pyproject.toml" && echo "$ROOT")
    if is_usable "$dir"; then
        [[ $(cat "$dir/.paddock-setup" 2>/dev/null) != "$stamp" ]] || return 0
    else
        python=$("$finder") || exit 1
        make_venv "$python" "$dir"
    fi
    [[ -w $dir ]] || die "$dir is out of date and not yours to write: remove it, or run this as its owner"
    say "installing Python packages into $dir (about a minute the first time)"
    (
        umask 022 # Sandboxes of root run under other uids, which must be able to execute bwrap.
        cd "$ROOT" && logged "$dir/bin/python" -m pip install --quiet --no-input -e '.[code,world,dev]'
    ) || die "pip could not install the packages of pyproject.toml; see the lines above"
    echo "$stamp" >"$dir/.paddock-setup"
}

is_usable() {
    is_new_enough "$1/bin/python" && "$1/bin/python" -c 'import pip' >/dev/null 2>&1
}

make_venv() {
    local python=$1 dir=$2 package
    [[ -w $ROOT ]] || die "cannot write to $ROOT: copy the project to a directory of your own"
    [[ ! -e $dir || -w $dir ]] || die "$dir does not work for you and is not yours: have it removed"
    rm -rf "$dir"
    package=python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv
    say "making $dir with $python"
    (umask 022 && fill_venv "$python" "$dir" "$package") && is_usable "$dir" && return 0
    rm -rf "$dir"
    die "$python cannot make a virtual environment. Do this, then try again: $(apt_command "$package")"
}

# Debian ships Python without ensurepip, which `python -m venv` needs; there are three ways around.
fill_venv() {
    local python=$1 dir=$2 package=$3
    has_ensurepip "$python" || { apt_install "$package" && has_ensurepip "$python"; } || {
        "$python" -m virtualenv --quiet "$dir" 2>/dev/null && return 0
        command -v virtualenv >/dev/null && virtualenv --quiet -p "$python" "$dir" && return 0
        "$python" -m pip --version >/dev/null 2>&1 || return 1
        "$python" -m venv --without-pip "$dir" &&
            logged "$python" -m pip --python "$dir/bin/python" install --quiet pip
        return
    }
    logged "$python" -m venv "$dir"
}

has_ensurepip() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# Runs a command in silence; what it said is shown only if it fails.
logged() {
    local output
    output=$("$@" 2>&1) && return 0
    printf '%s\n' "$output" | tail -n 25 >&2
    return 1
}

locked setup
