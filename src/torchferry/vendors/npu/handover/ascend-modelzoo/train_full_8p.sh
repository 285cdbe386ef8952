#!/bin/bash
# A full training on 8 card(s): bash test/train_full_8p.sh [--data_path=DIR]
exec bash "$(dirname "$0")/train_common.sh" 8 full "$@"
