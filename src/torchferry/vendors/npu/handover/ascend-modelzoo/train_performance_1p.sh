#!/bin/bash
# A short training for its speed on 1 card(s): bash test/train_performance_1p.sh [--data_path=DIR]
exec bash "$(dirname "$0")/train_common.sh" 1 performance "$@"
