# The frame of a step. Before it stand STEP, TIMEOUT, OK_RC, RETRIES, STATE, LOGS, and the texts SETTINGS, CHECK, RUN, UNDO, BUSY.
# bash -s check: ends with 0 when there is nothing to do. bash -s run: brings it about. bash -s again: does so although it is complete. bash -s undo: takes it back.
# Its last line says how a run ended: "TORCHFERRY unchanged", "TORCHFERRY changed" or "TORCHFERRY failed: REASON".
script() { # TEXT SECONDS: in a shell of its own, without input, so that a question on the terminal ends instead of waiting
  timeout -k 30 "$2" bash -c "$SETTINGS
$1" "$STEP" </dev/null 9>&-
}
complete() { # a step that began and did not end is not complete, whatever its check says
  test ! -e "$STATE/begun.$STEP" && script "$CHECK" 180 > "$work/check" 2>&1
}
end_of() { # FILE: its last lines. One can be as long as a progress bar, and lack its end, which what we say next must not share
  tail -c 20000 "$1" 2>/dev/null | tail -n 25 | sed '$a\'
}
failed() {
  # what was cut off by a full disk often says something else, or nothing; its log may have been cut off too
  for folder in "$STATE" "$LOGS" /tmp /usr/local; do
    free=$(df -Pk "$folder" 2>/dev/null | awk 'NR == 2 {print $4}')
    test ! -w "$folder" || test "${free:-2048}" -ge 1024 || echo "No space left on device: $folder has $free kB free"
  done
  printf '%s\n' "TORCHFERRY failed: $1"
  exit 1
}

umask 022
work=$(mktemp -d) || failed "no folder for what is in work"
trap 'rm -rf "$work"' EXIT
case ${1:-} in
check)
  complete && exit 0
  test -e "$STATE/begun.$STEP" && echo "the step began and did not end"
  end_of "$work/check"
  exit 1
  ;;
run | again | undo)
  mkdir -p "$STATE" "$LOGS" || failed "no folder for its state"
  exec 9> "$STATE/lock"
  # whoever ran this before may have lost the connection: its work goes on, and is waited for
  flock -w "$TIMEOUT" 9 || { echo "TORCHFERRY locked"; failed "another installation holds the lock"; }
  ;;
*) exit 2 ;;
esac
log=$LOGS/$STEP.log

if test "$1" = undo; then
  grep -qx "$STEP" "$STATE/changed" 2>/dev/null || { echo "TORCHFERRY unchanged"; exit 0; }
  if test -n "$BUSY" && script "$BUSY" 60 >/dev/null 2>&1; then failed "a process uses a card"; fi
  script "$UNDO" "$TIMEOUT" >> "$log" 2>&1 || { end_of "$log"; failed "it could not be taken back"; }
  grep -vx "$STEP" "$STATE/changed" > "$work/changed"
  # what is left to be taken back must outlive a full disk
  { cp "$work/changed" "$STATE/changed.new" && mv "$STATE/changed.new" "$STATE/changed"; } || failed "its state cannot be written"
  rm -f "$STATE/begun.$STEP"
  echo "TORCHFERRY changed"
  exit 0
fi

if test "$1" = run && complete; then
  echo "TORCHFERRY unchanged"
  exit 0
fi
if test -z "$RUN"; then
  end_of "$work/check"
  failed "the check is not met"
fi
if test -n "$BUSY" && script "$BUSY" 60 >/dev/null 2>&1; then failed "a process uses a card"; fi
# what is not written down before it is done could never be taken back
grep -qx "$STEP" "$STATE/changed" 2>/dev/null || echo "$STEP" >> "$STATE/changed" || failed "its state cannot be written"
: > "$STATE/begun.$STEP" || failed "its state cannot be written"
sync "$STATE/changed" "$STATE/begun.$STEP" 2>/dev/null
test -e "$log" && mv -f "$log" "$log.1"
script "$RUN" "$TIMEOUT" > "$log" 2>&1
ended=$?
end_of "$log"
case " $OK_RC " in
*" $ended "*) ;;
*)
  test "$ended" = 124 && failed "time limit of $TIMEOUT seconds"
  failed "ended with $ended"
  ;;
esac
# some installers return while parts of them still work
rm -f "$STATE/begun.$STEP"
left=$RETRIES
until complete; do
  if test "$left" -le 0; then
    : > "$STATE/begun.$STEP"
    end_of "$work/check"
    failed "ended with $ended, but the check is still not met"
  fi
  left=$((left - 1))
  sleep 6
done
test "$1" != again || { echo "TORCHFERRY unchanged"; exit 0; }
echo "TORCHFERRY changed"
