# SPDX-License-Identifier: BSD-3-Clause
# Faults on purpose (c/target/inject.h).


cdef dict INJECT_KINDS = {
    "delay": TARGET_INJECT_DELAY, "hang": TARGET_INJECT_HANG, "drop": TARGET_INJECT_DROP,
    "cut": TARGET_INJECT_CUT, "torn": TARGET_INJECT_TORN,
}


cdef int inject_begin(Target target, str kind, opcodes, unsigned long number, uint16_t status,
                      uint32_t nsid, blocks, double rate, uint64_t after, uint64_t count,
                      uint64_t seed, uint64_t bandwidth, delays) except -1:
    cdef target_inject_options options
    cdef list each = list(delays)
    cdef uint8_t opcode
    cdef int i, slot
    if len(each) not in (0, TARGET_INJECT_DELAYS):
        raise ValueError(f"{TARGET_INJECT_DELAYS} delays are needed, not {len(each)}")
    memset(&options, 0, sizeof(options))
    options.kind = <target_inject_kind><int>INJECT_KINDS[kind]
    for opcode in opcodes:
        options.opcodes[opcode >> 6] |= <uint64_t>1 << (opcode & 63)
    options.status = status
    options.nsid = nsid
    if blocks is not None:
        options.slba, options.blocks = blocks
    options.threshold = <uint64_t>(rate * 4294967296.0)
    options.after = after
    options.count = count
    options.seed = seed
    options.bandwidth = bandwidth
    for i in range(len(each)):
        options.delay_us[i] = each[i]
    slot = target_inject_begin(target.get(), &options, <void *><uintptr_t>number)
    if slot < 0:
        raise EngineError(-slot, f"there can be {TARGET_INJECTIONS} faults at a time"
                          if slot == -ENOSPC else "out of memory for a fault")
    return slot


cdef tuple inject_counts(Target target, unsigned slot):
    cdef uint64_t matched = 0, hits = 0
    if slot < TARGET_INJECTIONS:
        target_inject_counts(target.get(), slot, &matched, &hits)
    return matched, hits


@cython.final
cdef class Injected:
    """A fault on purpose has concerned its last command."""

    cdef readonly unsigned long number

    def __init__(self):
        raise TypeError("an Injected comes from Target.upcalls()")

    def __repr__(self):
        return f"<Injected {self.number}>"


cdef Injected injected_from(void *cookie):
    cdef Injected event = Injected.__new__(Injected)
    event.number = <unsigned long><uintptr_t>cookie
    return event
