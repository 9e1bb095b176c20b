# SPDX-License-Identifier: BSD-3-Clause
"""Makes a sentence from an errno and the lines of the kernel's log.

The driver answers a failed write with an errno alone; which command failed with which status, and
how the CM was refused, it only logs (Linux drivers/nvme/host/fabrics.c and rdma.c).  The lines are
tried in the order of _RULES, which is from the most telling to the least.
"""

from __future__ import annotations

import errno as errnos
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nvmf.initiator.base.errors import status_hint
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.kernel.errors import KernelError, errno_name
from nvmf.initiator.kernel.options import FabricsOptions
from nvmf.initiator.kernel.route import Route, find_route
from nvmf.initiator.kernel.system import System
from nvmf.initiator.kernel.tcp_probe import Answer, ask_tcp
from nvmf.spec.cm import CmStatus, cm_status_name
from nvmf.spec.status import CODE_MASK, Status, status_name

_Found = re.Match[str]


@dataclass(frozen=True, slots=True)
class _Case:
    """A failed connect."""

    errno: int
    options: FabricsOptions
    system: System
    lines: list[str]
    """Lines of the kernel's log from that time."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The result, and what to do about it."""

    came: str
    advice: str = ""
    status: int | None = None
    cm_status: int | None = None


def explain(errno: int, log: Iterable[str], options: FabricsOptions, system: System) -> KernelError:
    """Return the error for a failed write to /dev/nvme-fabrics."""
    lines = [_without_secrets(line, options) for line in log]
    case = _Case(errno, options, system, lines)
    verdict = _by_log(case) or _by_errno(case)
    place = TransportId(options.traddr, options.trsvcid, options.nqn)
    sentence = f"the kernel cannot connect to {options.nqn} at {place.endpoint}: {verdict.came}"
    if verdict.advice:
        sentence += f"; {verdict.advice}"
    return KernelError(
        sentence, errno=errno, status=verdict.status, cm_status=verdict.cm_status, log=lines
    )


def explain_device(errno: int, system: System) -> KernelError:
    """Return the error for a failure to open /dev/nvme-fabrics."""
    said = f"cannot open {system.fabrics}: {os.strerror(errno)}"
    match errno:
        case errnos.EACCES | errnos.EPERM:
            said += "; connecting through the kernel requires root: try sudo"
        case errnos.ENOENT:
            said += "; nvme-fabrics was loaded, but made no device here: is this a container?"
        case errnos.ENXIO | errnos.ENODEV:
            said += "; its driver is gone: modprobe nvme-fabrics"
    return KernelError(said, errno=errno)


# ---- by what the kernel's log says -----------------------------------------------------------


def _by_log(case: _Case) -> _Verdict | None:
    for pattern, verdict in _RULES:
        for line in case.lines:
            found = pattern.search(line)
            if found:
                return verdict(found, case)
    return None


def _of_status(status: int, about: str = "") -> _Verdict:
    """Handle a Connect command that was answered with a status."""
    code = status & CODE_MASK
    came = f"the target answered Connect with {status_name(code)} ({code:#05x}){about}"
    return _Verdict(came, _CONNECT_HINTS.get(code) or status_hint(code), status=code)


_CONNECT_HINTS: dict[int, str] = {
    Status.CONNECT_INVALID_HOST: "have this host NQN allowed on the target, or give the one that "
    "is with -q",
    Status.CONTROLLER_BUSY: "it has no controller left for this host: disconnect another, or try "
    "again later",
    Status.AUTHENTICATION_REQUIRED: "give its secret with -S",
}


def _parameter(found: _Found, case: _Case) -> _Verdict:
    """Handle Connect Invalid Parameters, whose response identifies the parameter."""
    which = found["which"]
    if which.startswith("subsysnqn"):
        advice = (
            "it has no subsystem of that NQN for this host: nvmeof discover -a "
            f"{case.options.traddr} -s {case.options.trsvcid} lists those it has"
        )
        return _Verdict(_INVALID.format("SUBNQN"), advice, Status.CONNECT_INVALID_PARAMETERS)
    if which.startswith("hostnqn"):
        advice = "give another host NQN with -q, or put it right in /etc/nvme/hostnqn"
        return _Verdict(_INVALID.format("HOSTNQN"), advice, Status.CONNECT_INVALID_PARAMETERS)
    if which.startswith("qid"):
        advice = "ask for fewer queues with -i, -W and -P"
        return _Verdict(_INVALID.format(which), advice, Status.CONNECT_INVALID_PARAMETERS)
    return _Verdict(_INVALID.format(which), "", Status.CONNECT_INVALID_PARAMETERS)


_INVALID = "the target answered Connect with Connect Invalid Parameters (0x182), about {}"


def _not_allowed(found: _Found, case: _Case) -> _Verdict:
    return _of_status(Status.CONNECT_INVALID_HOST, f": it does not admit the host {found['host']}")


def _cm_nvme(found: _Found, case: _Case) -> _Verdict:
    """Handle a CM reject with a reason of NVMe-oF (RDMA Transport 1.0, 3.1)."""
    sts = int(found["sts"])
    came = f"the target refused the RDMA connection of a queue: {cm_status_name(sts)} ({sts:#x})"
    return _Verdict(came, _CM_HINTS.get(sts, ""), cm_status=sts)


_CM_HINTS: dict[int, str] = {
    CmStatus.INVALID_QID: "ask for fewer queues with -i, -W and -P",
    CmStatus.INVALID_HSQSIZE: "ask for smaller queues with -Q",
    CmStatus.INVALID_HRQSIZE: "ask for smaller queues with -Q",
    CmStatus.NO_RESOURCES: "it has no room for more queues: ask for fewer with -i or smaller ones "
    "with -Q, or disconnect another host",
}


def _cm_plain(found: _Found, case: _Case) -> _Verdict:
    """Handle a CM reject without a reason of NVMe-oF: no NVMe-oF target listens on the port.

    Or, on iWARP, there is one: siw drops the private data of rejects.
    """
    came = f"refused ({found['words']}, {int(found['status'])})"
    return _one_queue(came, case) or _nobody(f"the RDMA connection was {came}", case)


def _one_queue(came: str, case: _Case) -> _Verdict | None:
    """Handle a failure after the admin queue was connected: the target is running."""
    wanted = next(filter(None, map(_IO_QUEUES.search, case.lines)), None)
    if wanted is None:
        return None
    count = int(wanted["count"])
    which = "the I/O queue" if count == 1 else f"one of {count} I/O queues"
    return _Verdict(
        f"the admin queue was connected, and then {which} was {came}",
        "the target may have no room for so many, its log has the reason: ask for fewer with -i "
        "or smaller ones with -Q, or disconnect another host",
    )


_IO_QUEUES = re.compile(r"creating (?P<count>\d+) I/O queues")


def _authentication(found: _Found, case: _Case) -> _Verdict:
    came = f"authentication failed ({found['what']})"
    if case.options.dhchap_secret is None:
        return _Verdict(came, "the target asks for it: give its secret with -S")
    return _Verdict(came, "see that the secrets (-S, -C) and the host NQN are those of the target")


def _establishment(found: _Found, case: _Case) -> _Verdict:
    number = abs(int(found["error"]))
    came = f"not connected ({errno_name(number)})"
    return _one_queue(came, case) or _unreachable(number, case)


def _option(found: _Found, case: _Case) -> _Verdict:
    word = found["word"].partition("=")[0]
    return _Verdict(f"its RDMA driver does not take the option {word}", "connect without it")


def _quoted(advice: str) -> Callable[[_Found, _Case], _Verdict]:
    """Return the kernel's own text, with advice."""

    def verdict(found: _Found, case: _Case) -> _Verdict:
        return _Verdict(f"it says {found['words'].strip()!r}", advice)

    return verdict


def _simple(came: str, advice: str) -> Callable[[_Found, _Case], _Verdict]:
    return lambda found, case: _Verdict(came.format(**found.groupdict()), advice)


_AUTHENTICATION = r"qid \d+: (?P<what>authentication (?:setup )?failed(?:, error -?\d+)?)"
_RULES: tuple[tuple[re.Pattern[str], Callable[[_Found, _Case], _Verdict]], ...] = tuple(
    (re.compile(pattern), verdict)
    for pattern, verdict in (
        (r"Connect rejected: status -?\d+ \(.*?\) nvme status (?P<sts>\d+)", _cm_nvme),
        (r"Connect Invalid (?:Data|SQE) Parameter, (?P<which>.*)", _parameter),
        (r"Connect for subsystem \S+ is not allowed, hostnqn: (?P<host>\S+)", _not_allowed),
        (
            r"Connect command failed: controller is busy",
            lambda found, case: _of_status(Status.CONTROLLER_BUSY),
        ),
        (
            r"Connect command failed: authentication required",
            lambda found, case: _of_status(Status.AUTHENTICATION_REQUIRED),
        ),
        (_AUTHENTICATION, _authentication),
        (
            r"Connect incompatible format",
            lambda found, case: _of_status(Status.INCOMPATIBLE_FORMAT),
        ),
        (
            r"Connect command failed, error wo/DNR bit: (?P<status>\d+)",
            lambda found, case: _of_status(int(found["status"])),
        ),
        (r"Connect rejected: status (?P<status>-?\d+) \((?P<words>[^)]*)\)", _cm_plain),
        (
            r"found same host(?:nqn|id) (?P<words>.* but different host\S+ .*)",
            _simple(
                "another connection of this host has {words}",
                "use one host NQN and host ID together (-q, -I, /etc/nvme)",
            ),
        ),
        (r"(?:invalid|missing) parameter '(?P<word>[^']*)'", _option),
        (r"unknown parameter or missing value '(?P<word>[^']*)'", _option),
        (
            r"no handler found for transport",
            _simple("it has no NVMe transport for RDMA", "load it: modprobe nvme-rdma"),
        ),
        (
            r"malformed (?:src )?address passed: (?P<words>\S*)",
            _simple("it reads no address in {words}", "give a numeric IPv4 or IPv6 address"),
        ),
        (
            r"(?P<words>Subsystem \S+ is not a discovery controller)",
            _quoted("connect to it without asking for discovery"),
        ),
        (
            r"(?P<words>Duplicate cntlid .*|Subsystem does not support multiple controllers)",
            _quoted("the target serves another host under this NQN: see nvmeof list-subsys"),
        ),
        (
            r"(?P<words>unable to set any I/O queues)",
            _quoted("the target grants no I/O queue: it may be full, try again later"),
        ),
        (
            r"(?P<words>Mandatory keyed sgls are not supported|icdoff is not supported)",
            _quoted("the target does not conform to NVMe over RDMA"),
        ),
        (
            r"(?P<words>Memory registrations not supported)",
            _quoted("the RDMA device is of no use for NVMe: see nvmeof devices"),
        ),
        (r"nvme_fabrics: (?P<words>Invalid .*)", _quoted("")),
        (r"rdma_resolve_addr failed \((?P<error>-?\d+)\)", _establishment),
        (r"rdma connection establishment failed \((?P<error>-?\d+)\)", _establishment),
        (
            r"nvme_fabrics: (?P<words>answered .*)",
            _quoted("this kernel driver is unknown"),
        ),
    )
)


def _without_secrets(line: str, options: FabricsOptions) -> str:
    """Remove secrets, which the kernel logs if it cannot parse them."""
    for key in (options.dhchap_secret, options.dhchap_ctrl_secret):
        line = line.replace(key.text(), "...") if key else line
    return line


# ---- by the errno alone ----------------------------------------------------------------------


def _by_errno(case: _Case) -> _Verdict:
    number, options = case.errno, case.options
    match number:
        case errnos.EALREADY:
            return _Verdict(
                f"this host is connected to it already ({errno_name(number)})",
                "see nvmeof list-subsys; -D connects a second time",
            )
        case errnos.EACCES | errnos.EPERM:
            return _Verdict(os.strerror(number), "connecting requires root: try sudo")
        case errnos.EADDRNOTAVAIL if options.host_traddr:
            return _Verdict(
                f"{options.host_traddr} (-w) is not an address of this host", "give one that is"
            )
        case errnos.EKEYREJECTED | errnos.ENOKEY | errnos.EKEYREVOKED | errnos.EKEYEXPIRED:
            return _Verdict(
                f"authentication failed ({errno_name(number)})",
                "see that the secrets (-S, -C) and the host NQN are those of the target",
            )
        case errnos.EINVAL:
            return _Verdict(
                "it refuses an option, and its log does not say which (EINVAL)",
                f"dmesg may; what was written: {options}",
            )
        case errnos.ENOMEM:
            return _Verdict(
                "it has no memory for the queues (ENOMEM)", "ask for fewer (-i) or smaller (-Q)"
            )
        case errnos.EIO:
            return _Verdict(
                "the target answered a command with an error status, and the log of the kernel "
                "cannot be read (EIO)",
                "see dmesg",
            )
    if number in _NETWORK:
        return _unreachable(number, case)
    return _Verdict(f"{os.strerror(number)} ({errno_name(number)})", "see dmesg")


_NETWORK = {
    errnos.ECONNRESET,
    errnos.ECONNREFUSED,
    errnos.ECONNABORTED,
    errnos.ENETUNREACH,
    errnos.EHOSTUNREACH,
    errnos.ETIMEDOUT,
    errnos.ENODEV,
    errnos.EADDRNOTAVAIL,
}


# ---- other services at the address ------ -----------------------------------------------------


def _unreachable(number: int, case: _Case) -> _Verdict:
    """Handle a connection that was neither made nor refused: check the route."""
    options = case.options
    route = find_route(options.traddr, options.host_traddr, case.system)
    name = errno_name(number)
    if not route.devices:
        return _Verdict(f"this host has no RDMA device ({name})", _add_link(route))
    if route.source is None:
        return _Verdict(f"this host has no route to {options.traddr} ({name})", "see ip route")
    if route.without_device:
        return _Verdict(
            f"the route to {options.traddr} uses {route.netdev}, which is not an RDMA device "
            f"({name})",
            _add_link(route),
        )
    return _nobody(f"the RDMA connection manager found no listener there ({name})", case)


def _add_link(route: Route) -> str:
    netdev = route.netdev or "NETDEV"
    return (
        f"make one of the network device: modprobe siw && rdma link add siw0 type siw netdev "
        f"{netdev} (or rdma_rxe, rxe0, rxe, for RoCE), or use the client, which needs none"
    )


def _nobody(came: str, case: _Case) -> _Verdict:
    options = case.options
    where = f"{options.traddr} port {options.trsvcid}"
    match ask_tcp(options.traddr, options.trsvcid):
        case Answer.NVME_TCP:
            return _Verdict(
                f"{came}, but {where} answers as NVMe over TCP: that target is not on RDMA",
                "connect to it with nvme connect -t tcp, or give the port of an RDMA listener",
            )
        case Answer.REFUSED | Answer.OPEN:
            advice = (
                "see that the target runs, that it listens on this port (-s) for RDMA, and that "
                "both ends have the same kind of RDMA: iWARP does not reach RoCE"
            )
            return _Verdict(f"{came}: no NVMe-oF target listens there for RDMA", advice)
    return _Verdict(
        f"{came}, and {options.traddr} does not answer",
        "check the address, and that the target and the network are up",
    )
