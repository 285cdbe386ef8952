#!/bin/bash
# A short training for its speed on 8 card(s): bash test/train_performance_8p.sh [--data_path=DIR]
exec bash "$(dirname "$0")/train_common.sh" 8 performance "$@"
