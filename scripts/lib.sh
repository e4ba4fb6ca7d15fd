# Makes and finds the project's own Python environment. Sourced by scripts/index and scripts/test, which set
# `project` (absolute path) and `me` (name for messages). POSIX sh; needs git and Python, and on failure says in one
# line what to do and ends with code 2.
#
# An environment is ours if it holds .gitstrata.lock, and whole if it also holds .gitstrata, which lists what was
# installed from which files. That list is written last and removed first, so a run that was killed leaves none, and
# the next run starts anew. A kernel lock on .gitstrata.lock, which the children inherit, keeps runs apart.

: "${project:?}" "${me:?}"
newline='
'

say() { printf '%s: %s\n' "$me" "$*" >&2; }

die() {
  say "$*"
  exit 2
}

# ensure_environment LEVEL: set `python` to the interpreter of an environment that holds LEVEL (runtime, dev or all).
ensure_environment() {
  level=$1
  quiet_environment
  check_platform
  check_git
  case $level in
    runtime) locks='requirements.lock' ;;
    dev) locks='requirements.lock requirements-dev.lock' ;;
    all) locks='requirements.lock requirements-dev.lock requirements-all.lock requirements-torch.txt' ;;
  esac
  wanted=$(describe pyproject.toml $locks) || die "cannot read the lock files in $project: the checkout is not complete"
  choose_folder
  python=$venv/bin/python
  is_ready && return
  make_environment
}

# Keep the caller's Python settings out of ours. pip's own configuration stays: mirrors and certificates live there.
quiet_environment() {
  unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV __PYVENV_LAUNCHER__ PIP_USER PIP_TARGET PIP_PREFIX \
    PIP_REQUIRE_HASHES PIP_REQUIRE_VIRTUALENV PIP_NO_BINARY CDPATH
  export PYTHONNOUSERSITE=1
}

check_platform() {
  platform=$(uname -s)
  case $platform in
    Linux | Darwin) ;;
    MINGW* | MSYS* | CYGWIN* | Windows*) die 'Windows itself is not supported: run this inside WSL' ;;
    *) die "$platform is not supported: use Linux or macOS" ;;
  esac
}

check_git() {
  git --version >/dev/null 2>&1 ||
    die 'git is missing: install it (Debian, Ubuntu: apt install git; macOS: xcode-select --install)'
}

# The lines that a finished environment must hold: one for the project's place and one for each file's content.
describe() {
  printf 'project %s\n' "$project"
  for file in "$@"; do
    [ -r "$project/$file" ] || return 1
    printf '%s %s\n' "$file" "$(cksum <"$project/$file")"
  done
}

# Set `venv`: .venv in the project if that is ours and usable, or can be made so; else one below the user's cache.
choose_folder() {
  venv=$project/.venv
  is_ready && return
  is_free_for_us && return
  place=$venv
  cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
  [ -n "$cache" ] || die "cannot write to $place: set HOME or XDG_CACHE_HOME to a folder that you can write to"
  venv=$cache/gitstrata/venv-$(printf '%s' "$project" | cksum | tr ' ' '-')
  is_ready && return
  is_free_for_us ||
    die "cannot write to $place, nor to $venv: make one of them writable, or set XDG_CACHE_HOME to a folder that is"
}

# Whether `venv` is a folder that we can fill: a new one, or one that we made. A stranger's environment is left alone.
is_free_for_us() {
  # The lock file is looked for last: another run may just be making the folder, and that file is what it makes first.
  [ ! -d "$venv" ] || [ -z "$(ls -A "$venv" 2>/dev/null)" ] || [ -e "$venv/.gitstrata.lock" ] || return 1
  mkdir -p "$venv" 2>/dev/null && [ -w "$venv" ] && touch "$venv/.gitstrata.lock" 2>/dev/null
}

is_ready() {
  [ -r "$venv/.gitstrata" ] || return 1
  held=$newline$(cat "$venv/.gitstrata")$newline
  holds "$wanted" && made_with=$(minor_version "$venv/bin/python") && holds "python $made_with" || return 1
  [ -z "${PYTHON:-}" ] || [ "$(minor_version "$PYTHON")" = "$made_with" ]
}

# Whether each line of $1 is a line of `held`.
holds() {
  rest=$1$newline
  while [ -n "$rest" ]; do
    line=${rest%%"$newline"*}
    case $held in *"$newline$line$newline"*) ;; *) return 1 ;; esac
    rest=${rest#*"$newline"}
  done
}

minor_version() { "$1" -I -S -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

make_environment() {
  find_python
  exec 9>>"$venv/.gitstrata.lock"
  take_lock
  if is_ready; then # another run made it while this one waited
    exec 9>&-
    return
  fi
  started=$(date +%s)
  log=$venv/.gitstrata.log
  check_space
  if [ -r "$venv/.gitstrata" ] && can_extend; then
    say "adding to the environment in $venv (log: .gitstrata.log)"
    kept=$(grep '^requirements' "$venv/.gitstrata")
    rm -f "$venv/.gitstrata"
    true >"$log"
  else
    kept=
    rm -f "$venv/.gitstrata"
    find "$venv" -mindepth 1 -maxdepth 1 ! -name .gitstrata.lock -exec rm -rf {} +
    say "making the environment in $venv with Python $version; this happens once (log: .gitstrata.log)"
    true >"$log"
    step "$found" -m venv "$venv"
  fi
  install
  printf '%s\npython %s\n%s\n' "$wanted" "$version" "$kept" | sort -u >"$venv/.gitstrata.new"
  mv "$venv/.gitstrata.new" "$venv/.gitstrata"
  exec 9>&-
  say "installed in $(($(date +%s) - started)) s"
}

# The first of the usual names that is a Python we support and can make environments, as `found` and `version`.
find_python() {
  seen='' lacking='' found=''
  if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3.13 python3.12 python3.11 python3; fi
  for name; do
    version=$(minor_version "$name") || continue
    case $version in
      3.11 | 3.12 | 3.13) ;;
      *)
        seen="$seen${seen:+, }$name is $version"
        continue
        ;;
    esac
    if "$name" -I -c 'import venv, ensurepip' >/dev/null 2>&1; then
      found=$name
      return
    fi
    lacking=${lacking:-$version}
  done
  [ -z "${PYTHON:-}" ] || [ -n "$seen$lacking" ] ||
    die "PYTHON=$PYTHON does not run: set it to a Python 3.11, 3.12 or 3.13"
  [ -z "$lacking" ] || die "Python $lacking cannot make environments, it has no venv or ensurepip:" \
    "install them (Debian, Ubuntu: apt install python$lacking-venv) or set PYTHON to another Python"
  die "no Python 3.11, 3.12 or 3.13 found${seen:+ ($seen)}:" \
    'install one (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python@3.13)' \
    'or set PYTHON to its path'
}

# Python takes the lock because macOS has no flock command; it stays with descriptor 9 after that process ends.
take_lock() {
  lock='import fcntl, sys; fcntl.flock(9, fcntl.LOCK_EX | (fcntl.LOCK_NB if sys.argv[1:] else 0))'
  "$found" -I -S -c "$lock" now 2>/dev/null && return
  say "waiting for another run that makes $venv"
  "$found" -I -S -c "$lock" || die "cannot lock $venv/.gitstrata.lock: keep the project on a local disk"
}

# Each level only adds packages to the one below, so a sound environment of an equal lower level is added to.
can_extend() {
  held=$newline$(cat "$venv/.gitstrata")$newline
  holds "project $project" && [ "$(minor_version "$python")" = "$version" ] && holds "python $version" || return 1
  for file in $locks; do
    case $held in
      *"$newline$file "*) holds "$(describe "$file")" || return 1 ;;
    esac
  done
}

check_space() {
  case $level in runtime | dev) needed=1 ;; all) needed=4 ;; esac
  free=$(df -Pk "$venv" 2>/dev/null | awk 'NR == 2 { for (i = 2; i <= NF; i++) if ($i ~ /%$/) print $(i - 1) }')
  case $free in '' | *[!0-9]*) return ;; esac # an odd file system: let pip find out
  [ "$free" -ge $((needed * 1048576)) ] ||
    die "only $((free / 1024)) MB free where $venv would be: free $needed GB, or set XDG_CACHE_HOME" \
      'and make the project read-only'
}

install() {
  case $level in
    runtime) hashed=requirements.lock ;;
    dev) hashed=requirements-dev.lock ;;
    all) hashed=requirements-all.lock ;;
  esac
  pip --require-hashes --no-deps --only-binary :all: -r "$project/$hashed"
  if [ "$level" = all ]; then pip -r "$project/requirements-torch.txt"; fi
  pip --no-deps --no-build-isolation -e "$project"
}

pip() { step "$python" -m pip --disable-pip-version-check --no-input install --no-user "$@"; }

# Run a command with its output in the log, telling a person every 15 seconds where it is. Ends the run if it fails.
step() {
  "$@" >>"$log" 2>&1 </dev/null &
  work_pid=$!
  report_progress 9>&- </dev/null &
  report_pid=$!
  # Set only now: a child that inherited a trap could lose the signal that ends it.
  trap 'stop 130' INT
  trap 'stop 143' TERM HUP
  code=0
  wait "$work_pid" || code=$?
  trap - INT TERM HUP
  kill "$report_pid" 2>/dev/null
  wait "$report_pid" 2>/dev/null || true
  [ "$code" -eq 0 ] || explain_failure
}

report_progress() {
  while sleep 15 >/dev/null 2>&1 && kill -0 "$work_pid" 2>/dev/null; do
    say "still at it: $(tail -n 1 "$log" | cut -c 1-100)"
  done
}

explain_failure() {
  last=$(grep -E '^(ERROR|error|OSError|Error):' "$log" | tail -n 1)
  last=${last:-$(tail -n 1 "$log")}
  if grep -qE 'No space left on device|Disk quota exceeded' "$log"; then
    die "the disk is full: free 1 GB where $venv is (and in ${TMPDIR:-/tmp}), then run this again"
  elif grep -qE 'DO NOT MATCH THE HASHES' "$log"; then
    die 'a package differs from its hash in the lock file: the package index, or a cache before it, serves another' \
      "file than the one locked; see $log"
  elif grep -qE 'connection broken|Max retries|timed out|Name or service not known|SSLError|ProxyError' "$log"; then
    die "pip cannot reach its package index: check the network, proxy and pip configuration ($last)"
  elif grep -qE 'No matching distribution' "$log"; then
    die "pip's package index has no build of a locked package for this machine ($last)"
  elif grep -qE 'Permission denied' "$log"; then
    die "no permission to write: make $venv and ${TMPDIR:-/tmp} writable for $(id -un) ($last)"
  fi
  tail -n 8 "$log" | sed 's/^/  /' >&2
  die "the installation failed; the lines above are the end of $log"
}

stop() {
  trap '' INT TERM HUP
  kill "$report_pid" "$work_pid" 2>/dev/null
  say 'stopped; the next run makes the environment anew'
  exit "$1"
}
