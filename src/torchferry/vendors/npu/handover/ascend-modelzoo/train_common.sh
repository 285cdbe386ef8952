#!/bin/bash
# Start the training: bash test/train_common.sh CARDS full|performance|testcase [--data_path=DIR] [ARGUMENT ...]
# Arguments that are not known here are passed on to {{program}} as they are.
set -u -o pipefail
cards=$1
mode=$2
shift 2
cd "$(dirname "$0")/.." || exit 1

data_path=""
others=()
for word in "$@"; do
    case "$word" in
        --data_path=*) data_path="${word#*=}" ;;
        *) others+=("$word") ;;
    esac
done
{% if takes_data %}
if [ -z "$data_path" ]; then
    echo '[Error] para "data_path" must be config'
    exit 1
fi
{% end %}

arguments=({{shell_arguments}})
if [ "$mode" != full ]; then
    arguments+=({{shell_short}})
fi
command=(python3 {{program_shell}})
if [ "$cards" -gt 1 ]; then
    command=(python3 -m torch.distributed.run --nproc_per_node="$cards" {{program_shell}})
fi

mkdir -p test/output
log="test/output/${mode}_${cards}p.log"
start=$(date +%s)
"${command[@]}" ${arguments[@]+"${arguments[@]}"} ${others[@]+"${others[@]}"} 2>&1 | tee "$log"
status=$?
echo "E2E training duration sec: $(($(date +%s) - start))"
exit $status
