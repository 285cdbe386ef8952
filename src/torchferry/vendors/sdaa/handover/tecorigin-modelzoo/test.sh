#!/bin/bash
# 在 run_scripts 目录下执行本文件即可启动训练，日志输出到终端
set -eu
cd "$(dirname "$0")"
{% if takes_data %}
: "${DATASET_PATH:?请先将 DATASET_PATH 设为数据集路径}"
{% end %}
{{run_test}}
