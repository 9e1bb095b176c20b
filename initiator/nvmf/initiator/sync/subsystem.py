# SPDX-License-Identifier: BSD-3-Clause
"""A subsystem with several paths, whose methods run on the event loop of a different thread."""

from __future__ import annotations

from collections.abc import Sequence

from nvmf.auth.key import Key
from nvmf.initiator.base.keywords import DEFAULT, given
from nvmf.initiator.base.options import Backend, DeviceKind, RemoteKeys
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.multipath import Path
from nvmf.initiator.multipath import Subsystem as AsyncSubsystem
from nvmf.initiator.sync.blocking import Loop
from nvmf.initiator.sync.controller import Controller


class Subsystem(Controller):
    """A connected subsystem: make it with connect_multipath(), and close() it.

    It has the members of a controller except on_event(), reset(), reauthenticate() and
    reconnects.
    """

    def __init__(self, loop: Loop, subsystem: AsyncSubsystem) -> None:
        super().__init__(loop, subsystem)
        self._subsystem = subsystem

    @property
    def paths(self) -> Sequence[Path]:
        """The paths, in the given order, with state, ANA states and counts.

        Only their properties may be used: their methods belong to the thread of the subsystem.
        """
        return self._loop.get(lambda: self._subsystem.paths)

    @property
    def policy(self) -> str:
        """numa, round-robin or queue-depth; it may be set at any time."""
        return self._subsystem.policy

    @policy.setter
    def policy(self, policy: str) -> None:
        def change() -> None:
            self._subsystem.policy = policy

        self._loop.get(change)

    def add_path(
        self, where: str | TransportId, /, *,
        queues: int = DEFAULT.queues, queue_depth: int = DEFAULT.queue_depth,
        kato: float = DEFAULT.kato, hostnqn: str | None = DEFAULT.hostnqn,
        hostid: str | None = DEFAULT.hostid, host_traddr: str | None = DEFAULT.host_traddr,
        reconnect_delay: float = DEFAULT.reconnect_delay,
        ctrl_loss_tmo: float = DEFAULT.ctrl_loss_tmo, io_timeout: float = DEFAULT.io_timeout,
        admin_timeout: float = DEFAULT.admin_timeout,
        connect_timeout: float = DEFAULT.connect_timeout, in_capsule: bool = DEFAULT.in_capsule,
        disable_sqflow: bool = DEFAULT.disable_sqflow,
        dhchap_secret: Key | str | None = DEFAULT.dhchap_secret,
        dhchap_ctrl_secret: Key | str | None = DEFAULT.dhchap_ctrl_secret,
        dhchap_secret_file: str | None = DEFAULT.dhchap_secret_file,
        dhchap_ctrl_secret_file: str | None = DEFAULT.dhchap_ctrl_secret_file,
        device: DeviceKind = DEFAULT.device, remote_keys: RemoteKeys = DEFAULT.remote_keys,
        backend: Backend = DEFAULT.backend, write_queues: int = DEFAULT.write_queues,
        poll_queues: int = DEFAULT.poll_queues,
        fast_io_fail_tmo: float | None = DEFAULT.fast_io_fail_tmo, tos: int | None = DEFAULT.tos,
        duplicate_connect: bool = DEFAULT.duplicate_connect,
    ) -> Path:  # fmt: skip
        """Connect through another path, and return it.

        The keywords are options of this path alone. Raises as connect_multipath() does; on failure
        nothing has changed.
        """
        return self._loop.call(self._subsystem.add_path(where, **given(locals())))

    def remove_path(self, path: Path) -> None:
        """Disconnect a path; raise ValueError if it is not one of the subsystem, or the last."""
        self._loop.call(self._subsystem.remove_path(path))
