#!/bin/bash
# Start the program: bash test.sh [--data_path=DIR] [ARGUMENT ...]
set -eu
cd "$(dirname "$0")"
data_path=""
others=()
for word in "$@"; do
    case "$word" in
        --data_path=*) data_path="${word#*=}" ;;
        *) others+=("$word") ;;
    esac
done
{% if takes_data %}
: "${data_path:?give --data_path=DIR}"
{% end %}
arguments=({{shell_arguments}})
exec python3 {{program_shell}} ${arguments[@]+"${arguments[@]}"} ${others[@]+"${others[@]}"}
