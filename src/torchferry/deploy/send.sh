# send.sh [--password] FILE PART COMMAND...: appends to PART on a host what it lacks of FILE, so that a copy that was cut off goes on.
# COMMAND takes a line for the host's shell as its last word: `ssh HOST`, or `sh -c` for this machine. What follows the word
# `@` in it is a text of several words, with quotes where one of them has blanks; nothing else in it is expanded.
# Whoever sent before may have been killed: what is still on its way is waited for, and two never append at once.
# With --password, one is read from standard input, and each command gets it on descriptor 3.
set -u -o pipefail
password=
if test "$1" = --password; then
  IFS= read -r password
  shift
fi
file=$1 part=$2
shift 2
command=()
while test $# -gt 0; do
  if test "$1" = @; then
    shift
    mapfile -t several < <(printf '%s' "$1" | xargs -r printf '%s\n')
    command+=("${several[@]}")
  else
    command+=("$1")
  fi
  shift
done
on_host() {
  "${command[@]}" "$1" 3< <(printf '%s\n' "$password")
}
size=$(stat -c %s "$file") || exit 1
# as long as another copy gets on, it is waited for; when it has ended the file may already stand in its place
look="test ! -e '$part' || {
  before=-1
  until flock -w 60 '$part' true; do
    now=\$(stat -c %s '$part') || break
    test \"\$now\" -gt \"\$before\" || { echo 'another copy of this file is on its way, and does not get on' >&2; exit 1; }
    before=\$now
  done
  stat -c %s '$part' 2>/dev/null || echo gone
}"
while true; do
  begin=$(on_host "$look" </dev/null) || exit 1
  if test "$begin" = gone; then
    echo "another run has sent it"
    exit 0
  fi
  begin=${begin:-0}
  if test "$begin" -gt "$size"; then
    on_host "rm -f '$part'" </dev/null || exit 1
    begin=0
  fi
  test "$begin" -lt "$size" || break
  # two may have looked before either began: who comes second looks again, and waits
  only="{ flock -n 9 && test \"\$(stat -c %s '$part')\" = $begin; } || exit 75"
  tail -c "+$((begin + 1))" "$file" | on_host "exec 9>> '$part'; $only; cat >&9"
  ended=("${PIPESTATUS[@]}")
  test "${ended[1]}" != 75 || continue
  test "${ended[*]}" = "0 0" || exit 1
  break
done
echo "sent $((size - begin)) of $size bytes, from byte $begin"
