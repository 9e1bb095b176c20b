# SPDX-License-Identifier: BSD-3-Clause
"""Arguments of commands that connect the kernel: those of nvme-cli, for RDMA."""

from __future__ import annotations

import argparse
from dataclasses import replace

from nvmf.cli.base import UsageError
from nvmf.cli.common import add_secret_arguments
from nvmf.cli.connectflags import IDENTITY, KERNEL, SECRETS, add_kernel_flags
from nvmf.initiator import ConnectOptions, TransportId
from nvmf.initiator.base.identity import host_identity
from nvmf.initiator.base.option import Values
from nvmf.initiator.base.options import OPTIONS
from nvmf.initiator.hostfiles import Endpoint, HostFileError
from nvmf.initiator.kernel.host import resolve
from nvmf.initiator.kernel.options import FabricsOptions, kernel_words

NO_BACKEND = (
    "The kernel makes the connection: a connection of the client in userspace ends with its\n"
    "command (read, write, bench etc.) or its program (Python's connect, connect_all)."
)
"""The reason, for --help, why there is no choice of backend."""
_NAMES = tuple(OPTIONS[name].argument for name in (*IDENTITY, *KERNEL, *SECRETS))
"""The values of the flags in an argparse namespace."""


def add_connect_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the connection options; the kernel's defaults apply to the others."""
    group = parser.add_argument_group("host and connection options")
    add_kernel_flags(group, (*IDENTITY, *KERNEL))
    add_secret_arguments(parser)


def fabrics_options(args: argparse.Namespace, place: TransportId) -> FabricsOptions:
    """Return the kernel's options for these arguments; raise UsageError for an invalid one.

    Flags take precedence over the options of the URL.
    """
    if place.options.get("backend", "kernel") != "kernel":
        raise UsageError(
            f"backend={place.options['backend']} in the URL: this command always uses the kernel; "
            "remove it"
        )
    given = _given(args)
    try:
        ConnectOptions().with_options({**place.options, "backend": "kernel"})
        return _options(place, kernel_words({**place.options, **given}))
    except ValueError as error:
        said = str(error)
        name = said.split(" ", 1)[0].rstrip(":")
        if name in given:
            said = f"--{name.replace('_', '-')}{said.removeprefix(name)}"
        raise UsageError(said) from None


def endpoint_options(args: argparse.Namespace, endpoint: Endpoint) -> FabricsOptions:
    """Return the kernel's options for a controller in a host file, or in its discovery log.

    Flags take precedence over the file.  HostFileError for an invalid value.
    """
    place = endpoint.place()
    found = endpoint.found_subsystem if endpoint.discovery else endpoint.parameters
    texts = {name: getattr(endpoint, name) for name in ("hostnqn", "hostid", "host_traddr")}
    words = {name.replace("-", "_"): value for name, value in found.items()}
    try:
        known = {name: value for name, value in words.items() if name in _NAMES}
        return _options(place, kernel_words({**known, **texts, **_given(args)}))
    except ValueError as error:
        raise HostFileError(f"{endpoint.source}: {error}") from None


def _given(args: argparse.Namespace) -> Values:
    flags = {name: getattr(args, name) for name in _NAMES}
    return {name: value for name, value in flags.items() if value is not None}


def _options(place: TransportId, values: Values) -> FabricsOptions:
    identity = host_identity(values.get("hostnqn"), values.get("hostid"))
    values = {**values, "hostnqn": identity.nqn, "hostid": str(identity.id)}
    # Checked before resolving a name.
    checked = FabricsOptions(traddr="::", trsvcid=place.trsvcid, nqn=place.subnqn, **values)
    return replace(checked, traddr=resolve(place.traddr, place.trsvcid))
