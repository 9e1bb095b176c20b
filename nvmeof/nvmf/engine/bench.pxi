# SPDX-License-Identifier: BSD-3-Clause
# The load generator of the engine: host_bench of load.h.

def bench_cancel():
    """End the running bench() early; see _engine.pyi."""
    host_bench_cancel()


def bench_threads(unsigned queues):
    """Return the number of threads with which bench() polls these queues; see _engine.pyi."""
    return host_load_default_threads(queues)


def bench_live():
    """(seconds, reads, writes) of the running bench(); see _engine.pyi."""
    cdef host_load_live live
    host_bench_live(&live)
    return live.ns / 1e9, live.reads, live.writes


cdef dict _load_part(const host_load_part *part, tuple percentiles, double seconds, block_size):
    """One direction of a load's result."""
    return {
        "ios": part.ios,
        "bytes": part.ios * block_size,
        "iops": part.ios / seconds,
        "bytes_per_second": part.ios * block_size / seconds,
        "min_us": part.min_us,
        "max_us": part.max_us,
        "mean_us": part.mean_us,
        "stddev_us": part.stddev_us,
        "percentiles_us": {f"{percentiles[i]:g}": part.percentile_us[i]
                           for i in range(len(percentiles))},
    }


def bench(*, str traddr not None, trsvcid, str subnqn not None, rw, uint32_t block_size,
          uint16_t queue_depth, double seconds, unsigned queues=1, unsigned threads=0,
          uint32_t nsid=1, int read_percent=-1, int cpu=-1, kind="iwarp", str hostnqn=None,
          str hostid=None,
          bint fua=False, bint flush=False,
          double ramp=0, uint64_t offset=0, uint64_t size=0, uint64_t commands=0,
          remote_keys="command",
          percentiles=(50, 90, 99, 99.9)):
    """Run a load on the host path of the engine; see _engine.pyi."""
    cdef host_load_options options
    cdef host_load_run what
    cdef host_load_result result
    cdef host_error error
    cdef int code
    shares = {"read": 100, "write": 0, "randread": 100, "randwrite": 0, "rw": 50, "readwrite": 50,
              "randrw": 50}
    if rw not in shares:
        raise ValueError(f"a load is {', '.join(shares)}, not {rw!r}")
    if read_percent != -1 and shares[rw] != 50:
        raise ValueError(f"a percentage of reads is for rw and randrw, not for {rw}")
    if not -1 <= read_percent <= 100:
        raise ValueError(f"a percentage is 0 to 100, not {read_percent}")
    if read_percent < 0:
        read_percent = shares[rw]
    percentiles = tuple(percentiles)
    if len(percentiles) > HOST_LOAD_PERCENTILES or not all(0 < p <= 100 for p in percentiles):
        raise ValueError(f"up to {HOST_LOAD_PERCENTILES} percentiles, each more than 0 and at most 100")
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
    if hostid is not None:
        hostid_bytes = hostid.encode()
        options.hostid = PyBytes_AS_STRING(hostid_bytes)
    options.nsid = nsid
    options.queue_depth = queue_depth
    options.queues = queues
    options.threads = threads
    options.cpu = cpu
    options.table = table_of(kind)
    options.keys = remote_keys_of(remote_keys)
    what.random = rw.startswith("rand")
    what.read_percent = read_percent
    what.fua = fua
    what.flush = flush
    what.block_size = block_size
    what.seconds = seconds
    what.ramp = ramp
    what.offset = offset
    what.size = size
    what.commands = commands
    what.npercentiles = <unsigned>len(percentiles)
    for i in range(len(percentiles)):
        what.percentiles[i] = percentiles[i]
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
        "read": _load_part(&result.read, percentiles, spent, block_size),
        "write": _load_part(&result.write, percentiles, spent, block_size),
    }
