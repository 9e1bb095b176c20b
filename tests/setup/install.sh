# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC1091,SC2015,SC2034,SC2154
# What ./dev installs, and how: Debian packages, Python packages, the source of fio.

# ---- Debian packages ----------------------------------------------------------------------------

base_packages() {
    cat <<'END'
ca-certificates   certificates, for pip
gcc               the compiler of the engine
libc6-dev         C library headers
libibverbs-dev    verbs headers (the library is loaded at run time, where there is one)
librdmacm-dev     connection manager headers
liburing-dev      io_uring, for files and block devices
pkgconf           finds the headers of the above
cmake             builds the engine
ninja-build       builds it in parallel
make              configures fio's headers
dpkg-dev          unpacks fio's source package
patch             unpacks fio's source package
xz-utils          unpacks fio's source package
fio               the load generator that the demo, the benchmarks and the tests drive
python3           the language of the control plane
python3-dev       headers for the binding
python3-venv      the virtual environment
python3-pyverbs   RDMA devices: the inventory, and a second opinion in tests
python3-pyudev    devices that come and go
END
}

fuzz_packages() {
    cat <<'END'
clang             libFuzzer's compiler
libclang-rt-dev   libFuzzer and its sanitizers
END
}

aarch64_packages() {
    cat <<'END'
gcc-aarch64-linux-gnu compiles the engine for a processor that is not x86
libc6-dev-arm64-cross C library headers for it
END
}

verbs_packages() {
    cat <<'END'
rdmacm-utils      rping and others, for which the embedded devices stand in
ibverbs-utils     ibv_devinfo and others
perftest          ib_write_bw and others
END
}

manual_packages() {
    cat <<'END'
groff-base        formats the manual pages
mandoc            looks for mistakes in them
zsh               completes commands, as bash does
fish              completes commands, as bash does
END
}

lab_packages() {
    cat <<'END'
qemu-system-x86   the virtual machine, in emulation
busybox-static    its first process
kmod              finds its modules
iproute2          network namespaces and RDMA links
nvme-cli          drives the kernel's host
ndctl             makes its NVDIMM a DAX device
e2fsprogs         a file system with DAX
xfsprogs          a file system under resets
gawk              blktests is written in it, where there is a copy
rdma-core         RDMA devices in it
ibverbs-providers libibverbs' drivers: rxe and siw
librdmacm1        the connection manager's library
binutils          strips the module
make              builds siw, which Debian leaves out
END
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -- "$@"; fi
}

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 \
        -o DPkg::Lock::Timeout=300 "$@"
}

# Prometheus, for the tests of its rules and of the dashboard: unpacked, since its package would start
# a service.
make_prometheus() {
    command -v prometheus >/dev/null && return
    [ ! -x .cache/prometheus/usr/bin/prometheus ] || return 0
    rm -rf .cache/prometheus
    mkdir -p .cache/prometheus
    step prometheus "Fetching Prometheus into .cache" fetch_prometheus ||
        say "Going on without Prometheus, whose tests will be skipped: apt-get could not fetch it (above)."
}

fetch_prometheus() {
    (cd .cache/prometheus &&
        { apt-get -q download prometheus || { apt_get update && apt-get -q download prometheus; }; } &&
        dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb)
}

# install_packages LIST: LIST prints a package and its reason a line.
install_packages() {
    missing=
    installed=" $(dpkg-query -W -f '${Package}/${db:Status-Status} ' 2>/dev/null)"
    for package in $("$1" | awk '{ print $1 }'); do
        case $installed in *" $package/installed "*) ;; *) missing="$missing $package" ;; esac
    done
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null || die "this system has no apt-get, and lacks$missing:" \
        "use Debian 12 or 13 (a container or a debootstrap chroot of it will do)."
    release=$(. /etc/os-release 2>/dev/null && printf '%s %s' "${ID-}" "${VERSION_ID-}")
    case $release in
        "debian 12" | "debian 13") ;;
        *) say "This is ${release:-an unknown system}, not Debian 12 or 13: trying all the same." ;;
    esac
    say "Debian packages to install:"
    "$1" | while read -r package reason; do
        case "$missing " in *" $package "*) printf '  %-18s %s\n' "$package" "$reason" ;; esac
    done
    if [ "$(id -u)" -ne 0 ]; then
        by_root="run 'apt-get install --no-install-recommends$missing' as root, then this again."
        command -v sudo >/dev/null || die "installing takes root, and there is no sudo: $by_root"
        sudo -v || die "installing takes root, and sudo did not let $(id -un) be it: $by_root"
    fi
    # A broken third-party source is no reason to give up: the next step finds out.
    step apt-update "Reading the package lists" apt_get update
    # shellcheck disable=SC2086
    step apt "Installing them" apt_get install --no-install-recommends $missing ||
        die "'apt-get install$missing' failed (above): see that 'apt-get update' works as root" \
            "and that the system's own packages are in order, then run this again."
}

# ---- Python packages ----------------------------------------------------------------------------

pip() { "$BIN/python" -m pip --disable-pip-version-check --no-input "$@"; }

# project KEY...: those tables of pyproject.toml, on one line; project requires: what builds us.
project() {
    "$PYTHON" -c 'import json, sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
if sys.argv[1] == "requires":
    print(*project["build-system"]["requires"], sep="\n")
else:
    print(json.dumps([project[key] for key in sys.argv[1:]]))' "$@" ||
        die "pyproject.toml could not be read (above): mend it and run this again."
}

make_venv() {
    venv_key="$ROOT $("$PYTHON" -VV) $(project build-system project)" || exit
    if stamped venv "$venv_key" && [ -x "$BIN/nvmeof" ]; then return; fi
    rm -f .cache/stamp-venv
    say "Python packages, into .venv (from pyproject.toml):"
    rm -rf .venv
    step venv "Making the virtual environment" "$PYTHON" -m venv --system-site-packages .venv ||
        die "'$PYTHON -m venv' failed (above): reinstall python3-venv and run this again."
    # --ignore-installed: the distribution's own copies, of whatever version, do not count.
    # shellcheck disable=SC2046
    step pip-build "Installing the build tools" pip install --ignore-installed \
        $(project requires) &&
        step pip "Installing the rest" pip install --ignore-installed --no-build-isolation \
            --config-settings=wheel.cmake=false --config-settings=editable.mode=inplace \
            -e '.[dev,lab]' ||
        die "pip could not install (above): if it reached no package index, set PIP_INDEX_URL," \
            "PIP_PROXY or PIP_CERT as your network needs them, and run this again."
    stamp venv "$venv_key"
}

# ---- the source of fio --------------------------------------------------------------------------

# An apt of our own that knows where sources are, whatever the system's lists say about them:
# classic lists and deb822 ones, each deb turned into a deb-src.
source_apt() {
    apt_dir=$ROOT/.cache/apt
    apt-get -q -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$apt_dir/parts" \
        -o "Dir::State::Lists=$apt_dir/lists" -o "Dir::Cache=$apt_dir/cache" \
        -o APT::Sandbox::User= -o APT::Get::List-Cleanup=true -o Acquire::Retries=3 "$@"
}

fetch_fio() {
    rm -rf .cache/apt
    mkdir -p .cache/apt/parts .cache/apt/lists/partial .cache/apt/cache/archives/partial
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -r "$list" ] && sed -n 's/^[[:space:]]*deb[[:space:]]/deb-src /p' "$list"
    done >.cache/apt/parts/classic.list
    for list in /etc/apt/sources.list.d/*.sources; do
        [ -r "$list" ] && sed 's/^[Tt]ypes:.*/Types: deb-src/' "$list" \
            >".cache/apt/parts/$(basename "$list")"
    done
    step fio-update "Reading the source package lists" source_apt update
    rm -rf .cache/fio
    mkdir -p .cache/fio
    step fio-source "Fetching the source package" fetch_fio_files "$1"
}

fetch_fio_files() { (cd .cache/fio && source_apt source --download-only --only-source "fio=$1"); }

configure_fio() { (cd "$1" && ./configure --disable-native); }

# The fio engine is compiled against the headers of exactly the fio that will load it.
make_fio_source() {
    # shellcheck disable=SC2016
    fio_version=$(dpkg-query -W -f '${source:Version}' fio)
    FIO_SOURCE=$ROOT/.cache/fio/fio-$fio_version
    fio_key="$ROOT $fio_version $(gcc -dumpfullversion)"
    if stamped fio "$fio_key" && [ -f "$FIO_SOURCE/config-host.h" ]; then return; fi
    rm -f .cache/stamp-fio
    # A mirror without sources is not asked again within the hour.
    if [ -n "${CI-}" ] || [ -z "$(find .cache/no-fio -mmin -60 2>/dev/null)" ]; then
        say "Source of fio $fio_version, for its engine's headers:"
        if fetch_fio "$fio_version"; then
            step fio-unpack "Unpacking it" dpkg-source -x .cache/fio/fio_*.dsc "$FIO_SOURCE" &&
                step fio-configure "Configuring it" configure_fio "$FIO_SOURCE" ||
                die "the source of fio $fio_version could not be prepared (above): remove" \
                    ".cache/fio and run this again."
            rm -f .cache/no-fio
            stamp fio "$fio_key"
            return
        fi
        touch .cache/no-fio
    fi
    FIO_SOURCE=
    fio_excuse="apt-get could not fetch the source of fio $fio_version (build/log/fio-source.log):
if the mirror has moved on to another version, install that one ('apt-get update', 'apt-get install
fio'); if it carries no sources, name one that does in /etc/apt; then remove .cache/no-fio and run
this again."
    [ -z "${CI-}" ] || die "$fio_excuse"
    say "Going on without the fio engine: $fio_excuse"
}
