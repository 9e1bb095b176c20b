#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Linux's own NVMe-oF target with one namespace in memory, for a comparison (beside-nvmet.toml).
#   nvmet.sh start ADDRESS PORT NQN MIB
#   nvmet.sh stop
set -eu
config=/sys/kernel/config
nvmet=$config/nvmet
disk=$config/nullb/nvmeof_lab
port=$nvmet/ports/4242

stop() {
    [ ! -d "$nvmet" ] || for link in "$port"/subsystems/*; do
        [ -L "$link" ] || continue
        subsystem=$nvmet/subsystems/${link##*/}
        rm "$link"
        echo 0 > "$subsystem/namespaces/1/enable"
        rmdir "$subsystem/namespaces/1" "$subsystem"
    done
    [ ! -d "$port" ] || rmdir "$port"
    [ ! -d "$disk" ] || rmdir "$disk"
}

start() {
    address=$1 service=$2 nqn=$3 mib=$4
    modprobe -a configfs nvmet-rdma
    modprobe null_blk nr_devices=0
    mountpoint -q $config || mount -t configfs none $config
    stop
    mkdir "$disk"
    echo "$mib" > "$disk/size"
    echo 4096 > "$disk/blocksize"
    echo 1 > "$disk/memory_backed"
    echo 1 > "$disk/power"
    subsystem=$nvmet/subsystems/$nqn
    mkdir "$subsystem"
    echo 1 > "$subsystem/attr_allow_any_host"
    mkdir "$subsystem/namespaces/1"
    device=/dev/nvmeof_lab
    [ -b $device ] || device=/dev/nullb$(cat "$disk/index")  # before Linux 6.10
    echo "$device" > "$subsystem/namespaces/1/device_path"
    echo 1 > "$subsystem/namespaces/1/enable"
    mkdir "$port"
    echo rdma > "$port/addr_trtype"
    case $address in *:*) echo ipv6 ;; *) echo ipv4 ;; esac > "$port/addr_adrfam"
    echo "$address" > "$port/addr_traddr"
    echo "$service" > "$port/addr_trsvcid"
    ln -s "$subsystem" "$port/subsystems/$nqn"
}

case ${1:-} in
start) shift; start "$@" ;;
stop) stop ;;
*) echo "usage: nvmet.sh start ADDRESS PORT NQN MIB | nvmet.sh stop" >&2; exit 2 ;;
esac
