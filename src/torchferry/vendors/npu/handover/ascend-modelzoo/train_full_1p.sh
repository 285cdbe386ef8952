#!/bin/bash
# A full training on 1 card(s): bash test/train_full_1p.sh [--data_path=DIR]
exec bash "$(dirname "$0")/train_common.sh" 1 full "$@"
