#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# SPDK's nvmf_tgt with one namespace in memory, for a comparison (beside-spdk.toml).
#   spdk.sh start ADDRESS PORT NQN MIB
#   spdk.sh stop
# SPDK (a folder, default /opt/spdk) has build/bin/nvmf_tgt and scripts/rpc.py; CORES (default 0x2) are the
# processors of its reactors, as a mask.
# It needs root, huge pages (SPDK's scripts/setup.sh reserves them), and an RDMA device with the address.
set -eu
spdk=${SPDK:-/opt/spdk}
run=${RUN:-/run}
socket=$run/nvmeof-lab-spdk.sock
pid_file=$run/nvmeof-lab-spdk.pid

rpc() {
    "$spdk/scripts/rpc.py" -s "$socket" -t 60 "$@"
}

alive() {
    [ -e "/proc/$1/exe" ]  # not so of a process that has ended and has no parent to take notice
}

stop() {
    [ -e "$pid_file" ] || return 0
    pid=$(cat "$pid_file")
    kill "$pid" 2>/dev/null || true
    tries=0
    while alive "$pid"; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { echo "spdk.sh: process $pid does not end" >&2; exit 1; }
        sleep 0.1
    done
    rm -f "$pid_file" "$socket"
}

start() {
    address=$1 service=$2 nqn=$3 mib=$4
    stop
    "$spdk/build/bin/nvmf_tgt" -r "$socket" -m "${CORES:-0x2}" >"$run/nvmeof-lab-spdk.log" 2>&1 &
    echo $! > "$pid_file"
    tries=0
    until [ -S "$socket" ]; do
        tries=$((tries + 1))
        if [ $tries -ge 300 ] || ! alive "$(cat "$pid_file")"; then
            tail -n 5 "$run/nvmeof-lab-spdk.log" >&2
            stop
            exit 1
        fi
        sleep 0.1
    done
    rpc nvmf_create_transport -t RDMA
    rpc bdev_malloc_create -b Lab0 "$mib" 4096
    rpc nvmf_create_subsystem "$nqn" -a -s LAB
    rpc nvmf_subsystem_add_ns "$nqn" Lab0
    case $address in *:*) family=ipv6 ;; *) family=ipv4 ;; esac
    rpc nvmf_subsystem_add_listener "$nqn" -t rdma -f $family -a "$address" -s "$service"
}

case ${1:-} in
start) shift; start "$@" ;;
stop) stop ;;
*) echo "usage: spdk.sh start ADDRESS PORT NQN MIB | spdk.sh stop" >&2; exit 2 ;;
esac
