#!/bin/bash
# The test of the pull request: a few steps on one card, within 10 minutes, with a loss that is a number.
here=$(cd "$(dirname "$0")" && pwd)
log="$here/output/testcase_1p.log"
if timeout 600 bash "$here/train_common.sh" 1 testcase "$@" && grep -qiE 'loss[^0-9]*[0-9]' "$log" && ! grep -qiE 'loss[^0-9a-z]*(nan|inf)' "$log"; then
    echo "Run testcase success!"
else
    echo "Run testcase failed!"
    exit 1
fi
