# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2015,SC2154
# ./dev coverage: the tests with every line counted, of Python and of C, and what no test runs.

build_gcov() {
    cmake_build gcov "the engine with gcc's counters" -DNVMF_DEV=ON -DNVMF_COVERAGE=ON
}

# Each process counts for itself, the ones that tests start too (patch = subprocess).
coverage_settings() {
    cat <<END
[run]
data_file = $ROOT/build/coverage/python
parallel = true
patch = subprocess, _exit
sigterm = true
disable_warnings = no-data-collected, module-not-measured
source =
    $ROOT/nvmeof/nvmf
    $ROOT/target/nvmf
    $ROOT/initiator/nvmf
    $ROOT/config/nvmf

[report]
exclude_also =
    if TYPE_CHECKING:
    @overload
    \.\.\.$
END
}

cmd_coverage() {
    [ $# -gt 0 ] || set -- --ignore=tests/lab -n "$JOBS"
    ready
    lock
    build_gcov || build_failed
    unlock
    export_environment
    rm -rf build/coverage
    mkdir -p build/coverage
    find build/gcov -name '*.gcda' -delete
    coverage_settings >build/coverage/settings
    stage "C tests" ctest --test-dir build/gcov --output-on-failure --no-tests=error -j "$JOBS"
    overlay gcov
    stage "pytest" env PYTHONPATH="$ROOT/build/gcov/overlay" NVMF_BUILD_DIR="$ROOT/build/gcov" \
        "$BIN/coverage" run --rcfile=build/coverage/settings -m pytest "$@"
    say "== Lines that nothing runs"
    "$BIN/coverage" combine --quiet --rcfile=build/coverage/settings &&
        "$BIN/coverage" json --quiet --rcfile=build/coverage/settings \
            -o build/coverage/python.json &&
        "$BIN/python" tests/support/uncovered.py || die "the counts could not be read (above)."
    [ -z "$failed" ] || die "failed: $failed. The counts are of what ran."
}
