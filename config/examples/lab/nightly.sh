#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A nightly gate for CI: measures regression.toml, makes a report, and compares with the baseline.
#   nightly.sh FOLDER [ARGUMENT OF nvmeof lab run...]
# The first run in a folder becomes its baseline (the link FOLDER/baseline); move the link to accept a
# change. The exit status is 3 if a row is worse by more than 10 %, 1 if something failed, else 0.
set -eu
here=$(dirname "$0")
folder=${1:?usage: nightly.sh FOLDER}
shift
nvmeof=${NVMEOF:-nvmeof}
name=$(date +%Y%m%d-%H%M%S)-$$
mkdir -p "$folder"
$nvmeof lab run "$here/regression.toml" -d "$folder/$name" --quiet --no-report "$@"
$nvmeof lab report "$folder/$name"
if [ -e "$folder/baseline" ]; then
    $nvmeof lab compare --baseline "$folder/baseline" "$folder/$name" --metric iops --margin 10
else
    ln -s "$name" "$folder/baseline"
fi
