# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC1091,SC2015,SC2154
# ./dev deb: the Debian package, for the release of Debian that it is built on.

deb_packages() {
    cat <<'END'
build-essential   a package's build needs it, as Debian's policy says
debhelper         builds Debian packages
END
}

# The wheels of what nvmeof needs, in the versions of .venv, and of what builds it.
deb_wheels() {
    rm -rf .cache/stamp-deb .cache/deb
    mkdir -p .cache/deb || return
    for deb_kind in run build; do
        "$BIN/python" systemd/debian/vendored.py requirements $deb_kind \
            >".cache/deb/$deb_kind.txt" || return
    done
    pip wheel --no-deps -w .cache/deb -r .cache/deb/run.txt -r .cache/deb/build.txt
}

# What the package is built from, in the layout that dpkg-buildpackage expects.
deb_tree() {
    rm -rf build/deb
    mkdir -p build/deb/nvmeof || return
    tar -c --exclude=__pycache__ --exclude='*.so' --exclude=systemd/debian \
        pyproject.toml CMakeLists.txt README.md CHANGELOG.md LICENSE \
        nvmeof target initiator config systemd | tar -x -C build/deb/nvmeof &&
        tar -c -C systemd --exclude=debian/wheels --exclude=debian/build --exclude=debian/nvmeof \
            --exclude=debian/.debhelper debian | tar -x -C build/deb/nvmeof &&
        cp -r .cache/deb build/deb/nvmeof/debian/wheels &&
        # A package for each release of Debian: its Python and its fio are part of the version.
        sed -i "1s/)/+deb$(. /etc/os-release && printf %s "${VERSION_ID-0}"))/" \
            build/deb/nvmeof/debian/changelog
}

deb_build() {
    (cd build/deb/nvmeof &&
        FIO_SOURCE_DIR=$FIO_SOURCE DEB_BUILD_OPTIONS=${DEB_BUILD_OPTIONS-"parallel=$JOBS"} \
            dpkg-buildpackage -b -us -uc)
}

cmd_deb() {
    lock
    do_setup
    install_packages deb_packages
    deb_key="$("$PYTHON" -VV) $(project build-system project) $(cat .cache/stamp-venv)"
    if ! stamped deb "$deb_key"; then
        step deb-wheels "Fetching the wheels that the package contains" deb_wheels ||
            die "pip could not fetch them (above): see that it reaches a package index, and run" \
                "this again."
        stamp deb "$deb_key"
    fi
    step deb-tree "Copying the tree to build/deb" deb_tree &&
        step deb "Building the package" deb_build ||
        die "the package could not be built (above, and in build/log): mend that and run this" \
            "again."
    unlock
    ls -l build/deb/*.deb
}
