# send.sh FILE PART COMMAND...: appends to PART on a host what it lacks of FILE, so that a copy that was cut off goes on.
# COMMAND takes a line for the host's shell as its last word: `ssh HOST`, or `sh -c` for this machine.
set -u -o pipefail
file=$1 part=$2
shift 2
size=$(stat -c %s "$file") || exit 1
begin=$("$@" "stat -c %s '$part' 2>/dev/null || echo 0" </dev/null) || exit 1
if test "$begin" -gt "$size"; then
  "$@" "rm -f '$part'" </dev/null || exit 1
  begin=0
fi
if test "$begin" -lt "$size"; then
  tail -c "+$((begin + 1))" "$file" | "$@" "cat >> '$part'" || exit 1
fi
echo "sent $((size - begin)) of $size bytes, from byte $begin"
