#!/bin/bash
# A stand-in for torch_musa's build.sh. What an earlier build left behind makes it fail, until --clean removes it.
for word in "$@"; do
  case $word in --torch | --musa | --fp64 | --debug | --asan | --only-patch | -m) ;; --clean) rm -rf build; echo "cleaned"; exit 0 ;; *) echo "unknown option $word" >&2; exit 2 ;; esac
done
test -f "$PYTORCH_REPO_PATH/setup.py" && test -n "$MUSA_HOME" || { echo "PYTORCH_REPO_PATH and MUSA_HOME are needed" >&2; exit 1; }
test ! -e build || { echo "ninja: build stopped: subcommand failed." >&2; exit 1; }
mkdir build && touch build/built
echo "built with: $*"
