# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2015,SC2154
# The commands of ./dev that try things: test, lab, fuzz.

# Tests that were run once more, a line each with what failed first; tests/support/again.py writes it too.
SECOND_ATTEMPTS=build/second-attempts.txt

forget_second_attempts() { mkdir -p build && : >"$SECOND_ATTEMPTS"; }

# One may be the machine's fault. Two are a failure: tests that do not always pass are to be mended.
tell_second_attempts() {
    [ -s "$SECOND_ATTEMPTS" ] || return 0
    say "== Second attempts were needed ($SECOND_ATTEMPTS)"
    cat "$SECOND_ATTEMPTS"
    [ "$(wc -l <"$SECOND_ATTEMPTS")" -gt 1 ] || return 0
    say "FAILED: more than one test needed a second attempt. Mend those tests, or what they found."
    return 1
}

# attempts_told COMMAND...: the status of a run of tests, with the second attempts that it made.
attempts_told() {
    forget_second_attempts
    "$@"
    told_status=$?
    tell_second_attempts || [ "$told_status" -ne 0 ] || told_status=1
    return "$told_status"
}

# In CI what failed is run once more, as with pytest.
run_ctest() {
    ctest --test-dir "build/$1" --output-on-failure --no-tests=error -j "$JOBS" && return
    [ -n "${CI-}" ] || return 1
    say "C tests: what failed is run once more, alone"
    note_ctest "$1" "build/$1/Testing/Temporary" >>"$SECOND_ATTEMPTS"
    ctest --test-dir "build/$1" --output-on-failure --rerun-failed
}

# Both trees at the same time, since each has parts that leave a processor idle. What the second one says
# is shown when the first one has ended.
ctest_both() {
    mkdir -p build/log
    run_ctest asan >build/log/ctest-asan.log 2>&1 </dev/null &
    ctest_other=$!
    run_ctest dev
    ctest_both_status=$?
    wait "$ctest_other" || ctest_both_status=1
    cat build/log/ctest-asan.log
    return "$ctest_both_status"
}

# ruff and mypy in the background: mypy is one process, and a build does not always have work for each
# processor. What they say is shown by lint_told.
lint_beside() {
    mkdir -p build/log
    (
        lint
        [ -z "$failed" ]
    ) >build/log/lint.log 2>&1 </dev/null 9>&- &
    lint_process=$!
}

lint_told() {
    wait "$lint_process"
    lint_status=$?
    cat build/log/lint.log
    return "$lint_status"
}

# The sanitized tree in the background, from the beginning: it needs no Python packages, and installing
# these keeps one processor busy at most.
asan_beside() {
    mkdir -p build/log
    build_asan >build/log/asan-beside.log 2>&1 </dev/null 9>&- &
    asan_process=$!
}

build_both() {
    build_dev
    build_status=$?
    wait "$asan_process" || build_status=1
    cat build/log/asan-beside.log
    return "$build_status"
}

# note_ctest TREE LOGS: a line for each test that failed there, with the last line that it said.
note_ctest() {
    awk -v tree="$1" '
        FNR == NR { sub(/^[0-9]+:/, ""); failed[$0] = 1; next }
        /^[0-9]+\/[0-9]+ Test: / { sub(/^[^:]*: /, ""); test = $0; last = "no output"; next }
        $0 == "<end of output>" && test in failed { print "ctest " tree " " test ": " last }
        /[^ \t-]/ { last = $0 }
    ' "$2/LastTestsFailed.log" "$2/LastTest.log"
}

# overlay TREE: a copy of nvmf.engine with that tree's binding, to be ahead of the source tree's.
overlay() {
    overlay=build/$1/overlay/nvmf
    rm -rf "build/$1/overlay"
    mkdir -p "$overlay/engine"
    cp -s "$ROOT"/nvmeof/nvmf/engine/*.py "$overlay/engine" &&
        cp -s "$ROOT/build/$1"/_engine.*.so "$overlay/engine" ||
        die "build/$1 has no binding to test: remove build/$1 and run this again."
}

# pytest with the engine under the sanitizers.
run_asan() {
    lock
    build_asan_python || build_failed
    unlock
    overlay asan-python
    # Python itself frees little at its end, so leaks are looked for in the C tests.
    pytest_told env PYTHONPATH="$ROOT/build/asan-python/overlay" PYTHONMALLOC=malloc \
        LD_PRELOAD="$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so)" \
        ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 UBSAN_OPTIONS=print_stacktrace=1 \
        "$BIN/python" -m pytest "$@"
}

# Outside CI nothing but the lab makes second attempts.
pytest_told() {
    [ -n "${CI-}" ] || exec "$@"
    attempts_told "$@"
    exit
}

# The engine's C as the compiler of another processor sees it: nothing of x86 is there unguarded.
check_aarch64() {
    c=nvmeof/nvmf/engine/c
    find $c -name '*.c' -print0 | xargs -0 -n 8 -P "$JOBS" aarch64-linux-gnu-gcc -fsyntax-only \
        -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Werror -I$c -I$c/verbs -I$c/iwarp
}

cmd_test() {
    export_environment
    if [ "${1-}" = --all ]; then
        shift
        [ $# -eq 0 ] || die "--all takes no tests: it runs all there are."
    elif [ $# -eq 0 ] && [ -z "${CI-}" ]; then
        lab=quick
    fi
    if [ $# -gt 0 ]; then
        for argument in "$@"; do
            case $argument in tests/lab | tests/lab/*)
                cmd_lab "$@"
                exit
                ;;
            esac
        done
        ready
        if [ "$1" = --asan ]; then
            shift
            run_asan "$@"
        fi
        pytest_told "$BIN/python" -m pytest "$@"
    fi
    forget_second_attempts
    [ -z "${CI-}" ] || lab_ends=$(($(date +%s) + ${NVMF_CI_MINUTES:-80} * 60))
    lock
    install_packages base_packages
    asan_beside
    do_setup
    lint_beside
    install_packages aarch64_packages
    install_packages manual_packages
    install_packages verbs_packages
    make_prometheus
    kernels="6.12 6.1"
    # Fetching and building the newest one takes minutes, which a first run has better uses for.
    if [ "$lab" = quick ]; then suites=; else kernels="$kernels newest"; fi
    prepare_lab_ahead
    stage "build, and build under ASan and UBSan" build_both
    unlock
    lint_told || failed="$failed${failed:+, }lint"
    case $failed in *build*) die "failed: $failed. The rest waits for the build." ;; esac
    stage "engine for aarch64" check_aarch64
    stage "C tests, and C tests under ASan and UBSan" ctest_both
    [ "$lab" = quick ] || stage "fuzzers with their corpora" fuzz_once
    say "== lab"
    prepare_lab
    [ -z "$failed" ] || say "FAILED before pytest: $failed"
    say "== pytest"
    say "tests/lab boots kernels $kernels in emulation, and is most of what follows: it says which" \
        "cell of the matrix it is at. Two processes have a kernel's guest each; the other tests run" \
        "beside them."
    [ "$lab" = all ] || say "Left out: all tests of the lab but connect, verified I/O and disconnect" \
        "of each cell ('deselected' at the end). './dev test --all' runs them too, as CI does."
    if [ "$(id -u)" -eq 0 ]; then
        # shellcheck disable=SC2086
        lab_python -m pytest $SHARED_WITH_OTHERS
        status=$?
    else
        say "Only the lab needs root: everything else first, then the lab by sudo."
        # shellcheck disable=SC2086
        "$BIN/python" -m pytest $SHARED_WITH_OTHERS --ignore=tests/lab || failed="$failed${failed:+, }pytest"
        # shellcheck disable=SC2086
        lab_python -m pytest -p no:cacheprovider $SHARED tests/lab
        status=$?
        [ -z "$failed" ] || say "FAILED before the lab: $failed"
    fi
    tell_second_attempts || failed="$failed${failed:+, }second attempts"
    [ -z "$failed" ] || [ "$status" -ne 0 ] || status=1
    exit "$status"
}

# Fetch and unpack the kernels and the tests of others, unless they are there. Holds a lock of its own: it
# may run beside a build.
kernels_ready() {
    mkdir -p .cache
    # shellcheck disable=SC2086
    flock .cache/kernels.lock \
        env PYTHONPATH=tests PYTHONDONTWRITEBYTECODE=1 "$PYTHON" -m lab.prepare $kernels $suites
}

# Most of preparing kernels is waiting for the network: begin it in the background. What fails there is
# tried again, and told, by prepare_lab.
prepare_lab_ahead() {
    (install_packages lab_packages) || return 0
    mkdir -p build/log
    kernels_ready >build/log/lab-ahead.log 2>&1 </dev/null 9>&- &
    kernels_ahead=$!
}

# The kernels are prepared once. Where that cannot be, the lab's tests say so: they are skipped, and
# with CI set they fail, except on the newest kernel.
prepare_lab() {
    if [ -n "${kernels_ahead-}" ]; then
        step lab-wait "Kernels $kernels for the lab" \
            tail --pid="$kernels_ahead" -n +1 -f build/log/lab-ahead.log
        kernels_ahead=
    fi
    lock
    (install_packages lab_packages) &&
        step lab-kernel "Kernels $kernels for the lab" kernels_ready
    lab_status=$?
    unlock
    [ $lab_status -eq 0 ] || say "THE LAB CANNOT RUN (above, and in build/log): see that apt reaches" \
        "a Debian mirror and run this again; what was fetched is in .cache/lab."
    return $lab_status
}

# lab_python ARGS...: python with the lab switched on. Root is for the network namespace, its tap
# and the guest, which starts Python often: what it would compile each time is compiled now.
lab_python() {
    mkdir -p build/lab
    "$BIN/python" -m compileall -q nvmeof target initiator config tests/lab tests/support tests/wire
    as_root env PATH="$PATH" VIRTUAL_ENV="$VENV" NVMF_FIO="$NVMF_FIO" \
        NVMF_FIO_ENGINE="$NVMF_FIO_ENGINE" NVMF_BUILD_DIR="$NVMF_BUILD_DIR" CI="${CI-}" \
        NVMF_LAB="$lab" NVMF_LAB_KERNELS="$kernels" NVMF_BLKTESTS="${NVMF_BLKTESTS-}" \
        NVMF_POWER_KILLS="${NVMF_POWER_KILLS-}" NVMF_POWER_SEED="${NVMF_POWER_SEED-}" \
        NVMF_LAB_ENDS="${lab_ends-}" PYTHONDONTWRITEBYTECODE=1 "$BIN/python" "$@"
}

# Which of the lab's tests run: all, or quick.
lab=all

# Tests of others that the whole lab runs, fetched as kernels are.
suites=nvme-cli

# Two processes, of which each has the guest of one kernel: a guest waits as often as it works.
SHARED="-n 2"
# With tests that need no guest there are more processes, since those wait most of the time
# (support/sharing.py).
SHARED_WITH_OTHERS="-n 4"

cmd_lab() {
    kernels=6.12
    if [ "${1-}" = --kernel ]; then
        [ $# -gt 1 ] || die "--kernel takes 6.12, 6.1, newest or all."
        kernels=$2
        shift 2
    fi
    [ "$kernels" != all ] || kernels="6.12 6.1 newest"
    program="-m pytest -p no:cacheprovider"
    case $kernels in *\ *) program="$program $SHARED" ;; esac
    where=tests/lab
    for argument in "$@"; do
        case $argument in tests/*) where= ;; esac
    done
    ready
    export_environment
    case ${1-} in
        --readme) exec "$BIN/python" tests/lab/peers.py ;;
        --bench)
            shift
            program=tests/lab/bench.py where=
            ;;
    esac
    prepare_lab || exit 1
    # shellcheck disable=SC2086
    attempts_told lab_python $program $where "$@"
}

build_fuzzers() {
    install_packages fuzz_packages
    cmake_build fuzz "the fuzzers" -DCMAKE_C_COMPILER=clang -DNVMF_FUZZ=ON -DNVMF_PYTHON=OFF
}

# The fuzzers with each input of their corpora, so that they are there when they are needed.
fuzz_once() {
    build_fuzzers || return 1
    for fuzzer in build/fuzz/fuzz/*; do
        [ -x "$fuzzer" ] || continue
        UBSAN_OPTIONS=print_stacktrace=1 "$fuzzer" -runs=0 "tests/fuzz/corpus/$(basename "$fuzzer")" ||
            return 1
    done
}

cmd_fuzz() {
    seconds=${1-60}
    case $seconds in
        '' | *[!0-9]* | 0*) die "fuzz takes a number of seconds for each fuzzer, not '$seconds'." ;;
    esac
    lock
    install_packages base_packages
    make_venv
    build_fuzzers || build_failed
    unlock
    fuzzers=0
    for fuzzer in build/fuzz/fuzz/*; do
        [ -x "$fuzzer" ] || continue
        fuzzers=$((fuzzers + 1))
        name=$(basename "$fuzzer")
        mkdir -p "tests/fuzz/corpus/$name" ".cache/fuzz/$name" build/fuzz/found
        stage "fuzz $name for $seconds s" env UBSAN_OPTIONS=print_stacktrace=1 \
            "$fuzzer" -max_total_time="$seconds" -timeout=10 -print_final_stats=1 -verbosity=1 \
            -artifact_prefix="build/fuzz/found/$name-" ".cache/fuzz/$name" "tests/fuzz/corpus/$name"
    done
    [ "$fuzzers" -gt 0 ] || die "there is no fuzzer: tests/fuzz has no C file."
    [ -z "$failed" ] || die "found something: $failed. The inputs are in build/fuzz/found, and" \
        "'build/fuzz/fuzz/NAME FILE' shows each again; mended, it goes to tests/fuzz/corpus/NAME."
    say "$fuzzers fuzzers found nothing in $seconds s each."
}
