# SPDX-License-Identifier: BSD-3-Clause
# The native load: host_bench of load.h.

def bench_cancel():
    """End the running bench() early; see _engine.pyi."""
    host_bench_cancel()


def bench_threads(unsigned queues):
    """How many threads bench() polls so many queues with; see _engine.pyi."""
    return host_load_default_threads(queues)


def bench(*, str traddr not None, trsvcid, str subnqn not None, rw, uint32_t block_size,
          uint16_t queue_depth, double seconds, unsigned queues=1, unsigned threads=0,
          uint32_t nsid=1, int read_percent=-1, int cpu=-1, kind="iwarp", str hostnqn=None,
          remote_keys="command"):
    """Run a load with the native host path; see _engine.pyi."""
    cdef host_load_options options
    cdef host_load_run what
    cdef host_load_result result
    cdef host_error error
    cdef int code
    if rw not in ("read", "write", "randread", "randwrite"):
        raise ValueError(f"a load is read, write, randread or randwrite, not {rw!r}")
    if not -1 <= read_percent <= 100:
        raise ValueError(f"a percentage is 0 to 100, not {read_percent}")
    if read_percent < 0:
        read_percent = 100 if rw.endswith("read") else 0
    traddr_bytes = traddr.encode()
    trsvcid_bytes = str(trsvcid).encode()
    subnqn_bytes = subnqn.encode()
    memset(&options, 0, sizeof(options))
    memset(&what, 0, sizeof(what))
    memset(&result, 0, sizeof(result))
    memset(&error, 0, sizeof(error))
    error.cm_event = -1
    options.traddr = PyBytes_AS_STRING(traddr_bytes)
    options.trsvcid = PyBytes_AS_STRING(trsvcid_bytes)
    options.subnqn = PyBytes_AS_STRING(subnqn_bytes)
    if hostnqn is not None:
        hostnqn_bytes = hostnqn.encode()
        options.hostnqn = PyBytes_AS_STRING(hostnqn_bytes)
    options.nsid = nsid
    options.queue_depth = queue_depth
    options.queues = queues
    options.threads = threads
    options.cpu = cpu
    options.table = table_of(kind)
    options.keys = remote_keys_of(remote_keys)
    what.random = rw.startswith("rand")
    what.read_percent = read_percent
    what.block_size = block_size
    what.seconds = seconds
    with nogil:
        clear_errno()
        code = host_bench(&options, &what, &result, &error)
    if code < 0:
        if error.nvme_status:
            raise failed(code, error.text)
        raise connect_failed(code, &error)
    spent = result.seconds if result.seconds > 0 else seconds
    return {
        "ios": result.ios,
        "bytes": result.bytes,
        "seconds": result.seconds,
        "iops": result.ios / spent,
        "bytes_per_second": result.bytes / spent,
        "p50_us": result.p50_us,
        "p99_us": result.p99_us,
        "p999_us": result.p999_us,
        "mean_us": result.mean_us,
        "cpu_seconds": result.cpu_seconds,
        "queue_min_iops": result.queue_min_iops,
        "queue_max_iops": result.queue_max_iops,
    }
