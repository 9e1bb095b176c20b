#!/bin/sh
# Proves that ./dev needs nothing but a Debian base system: makes the smallest one there is, puts
# the files of this checkout into it, and runs a command there with an empty environment.
#
#   tests/setup/debootstrap.sh [--user] [SUITE [COMMAND...]]
#
# SUITE is bookworm (the default) or trixie, COMMAND is ./dev test. --user runs it as an ordinary
# user with sudo. Needs root and the package debootstrap. What it makes stays in /var/tmp/nvmeof-setup
# (NVMEOF_SETUP_DIR names another place) so that a second run need not download the base system.
set -eu

die() {
    printf 'debootstrap.sh: %s\n' "$*" >&2
    exit 1
}

user=root
if [ "${1-}" = --user ]; then
    user=developer
    shift
fi
suite=${1-bookworm}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- ./dev test

[ "$(id -u)" -eq 0 ] || die "making a system takes root: run this with sudo."
command -v debootstrap >/dev/null || die "there is no debootstrap: apt-get install debootstrap."
cd -P -- "$(dirname -- "$0")/../.."
checkout=$(pwd -P)
work=${NVMEOF_SETUP_DIR:-/var/tmp/nvmeof-setup}
base=$work/$suite-base
system=$work/$suite
mkdir -p "$work"

if [ ! -e "$base.done" ]; then
    echo "Making a minimal $suite in $base ..."
    rm -rf "$base"
    debootstrap --variant=minbase "$suite" "$base" >"$work/$suite.log" 2>&1 ||
        die "debootstrap could not make a $suite; its output is in $work/$suite.log."
    touch "$base.done"
fi

rm -rf --one-file-system "$system"
cp -a "$base" "$system"
cp /etc/resolv.conf "$system/etc/resolv.conf"
# A network whose proxy signs for others says so here, if anywhere.
if [ -d /usr/local/share/ca-certificates ]; then
    mkdir -p "$system/usr/local/share"
    cp -a /usr/local/share/ca-certificates "$system/usr/local/share/"
fi
mkdir "$system/src"
git -c safe.directory="$checkout" ls-files -z --cached --others --exclude-standard |
    tar -c --null --ignore-failed-read -T - | tar -x --no-same-owner -C "$system/src"

# Its own mounts and processes: both are gone when it ends, however it ends.
# shellcheck disable=SC2016
exec unshare --mount --pid --fork --kill-child sh -euc '
    system=$1 user=$2
    shift 2
    mount --bind "$system" "$system" # else unshare(1) finds no mount to begin with
    mount -t proc proc "$system/proc"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$system/dev/pts"
    ln -sf pts/ptmx "$system/dev/ptmx"
    mount -t sysfs -o ro sysfs "$system/sys"
    mount -t tmpfs -o mode=1777 tmpfs "$system/dev/shm"
    in_system() {
        env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb chroot "$system" "$@"
    }
    if [ "$user" != root ]; then
        in_system sh -euc "
            apt-get -q update
            DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends sudo
            useradd -m $user
            echo \"$user ALL=(ALL) NOPASSWD: ALL\" >/etc/sudoers.d/$user
            chown -R $user: /src" >/dev/null
    fi
    cd /
    # shellcheck disable=SC2086
    in_system su "$user" -s /bin/sh -c "cd /src && exec \"\$@\"" -- sh "$@"
' sh "$system" "$user" "$@"
