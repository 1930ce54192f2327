# Runs a task's check.sh in the repository that the model has left. Exit code 0: solved; 10: not solved, and the last
# line says why. evals/checker.rs calls it in the folder above `project`, with BASE_COMMIT in the environment.
CHECK=$PWD/check
ANSWER=$PWD/answer.txt
SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT

# Ends with the reason why the task is not solved.
fail() {
  printf '%s\n' "$*"
  exit 10
}

# Lists the files that differ from those that the model was given, one a line.
changed() {
  { git diff --name-only -z "$BASE_COMMIT"; git ls-files -z --others --exclude-standard; } |
    tr '\0' '\n' | LC_ALL=C sort -u
}

# Fails if a file other than these has changed. `tests/*` means all that is in tests.
only_changed() {
  changed >"$SCRATCH/changed"
  while IFS= read -r file; do
    allowed=no
    for pattern; do
      # Not quoted: it is a pattern.
      case $file in $pattern) allowed=yes ;; esac
    done
    [ $allowed = yes ] || fail "$file has changed"
  done <"$SCRATCH/changed"
}

# Fails with a reason unless the answer matches an extended regular expression, in any case.
said() {
  LC_ALL=C grep -qiE -e "$1" "$ANSWER" || fail "$2"
}

# Runs a command, shows its output only if it fails, and fails with a reason then.
must() {
  reason=$1
  shift
  "$@" >"$SCRATCH/output" 2>&1 || {
    cat "$SCRATCH/output"
    fail "$reason"
  }
}

# Fails with a reason if a command succeeds.
must_not() {
  reason=$1
  shift
  if "$@" >"$SCRATCH/output" 2>&1; then
    fail "$reason"
  fi
}

cd project
. "$CHECK/check.sh"
