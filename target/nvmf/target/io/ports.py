# SPDX-License-Identifier: BSD-3-Clause
"""Where the target listens: ports that are opened and closed, and the events of their devices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nvmf.config.base import endpoint
from nvmf.config.models import PortConfig
from nvmf.spec.ana import AnaState
from nvmf.spec.fabrics import RdmaProvider
from nvmf.target.command.engine import Address
from nvmf.target.commands.core import Core
from nvmf.target.commands.discovery import Port, plain_address
from nvmf.target.io.stores import ServerError

log = logging.getLogger("nvmf.target")

_EVENTS_AT_ONCE = 64
"""Events of one channel that are taken before others have their turn."""


@dataclass(frozen=True, slots=True)
class Listening:
    """A port that is open."""

    address: tuple[str, int]
    device: str
    """"iwarp" or "system"."""

    def __str__(self) -> str:
        return f"listening on {where(self.address)} ({self.device})"


@dataclass(eq=False, slots=True)
class OpenPort:
    """A port of the configuration with what was opened for it."""

    config: PortConfig
    listening: Listening
    listener: Any
    port: Port
    """As the discovery log tells of it."""

    def takes(self, local: Address) -> bool:
        """Whether a connection to this local address came by this port."""
        return self.port.takes(local)

    @property
    def ana(self) -> dict[int, AnaState]:
        """What the configuration says of groups."""
        return {group.id: AnaState.of(group.state) for group in self.config.ana_groups}


class Ports:
    """The ports of a target.  handle is called for each event of the devices' channels."""

    def __init__(
        self,
        engine: Any,
        target: Any,
        core: Core,
        handle: Callable[[Any], None],
        announce: Callable[[Listening], None] | None,
    ) -> None:
        self.open_ports: list[OpenPort] = []
        self._engine = engine
        self._target = target
        self._core = core
        self._handle = handle
        self._announce = announce
        self._channels: dict[str, Any] = {}
        self._taken: set[int] = set()
        """Port identifiers."""

    def listen(self, config: PortConfig) -> OpenPort:
        """Listen, and tell nobody yet; ServerError where that cannot be."""
        device, listener = self._listen(config)
        try:
            self._target.open_devices(listener)
        except OSError as error:  # tried again when a host connects
            log.warning("%s", error)
        listening = Listening((str(listener.address[0]), int(listener.address[1])), device)
        provider = RdmaProvider.IWARP if device == "iwarp" else RdmaProvider.NONE
        traddr, trsvcid = plain_address(listening.address[0]), listening.address[1]
        portid = next(number for number in range(1, 0xFFFF) if number not in self._taken)
        self._taken.add(portid)
        return OpenPort(config, listening, listener, Port(portid, traddr, trsvcid, provider))

    def show(self, opened: OpenPort) -> None:
        """Tell hosts of it."""
        self.open_ports.append(opened)
        self._core.ana.put(opened.port.portid, opened.ana)
        self._core.add_port(opened.port)
        if self._announce is not None:
            self._announce(opened.listening)
        else:
            log.info("%s", opened.listening)

    def find(self, config: PortConfig) -> OpenPort:
        """What was opened for a port of the configuration; KeyError where nothing was."""
        for opened in self.open_ports:
            if opened.config == config:
                return opened
        raise KeyError(config)

    def change(self, config: PortConfig, new: PortConfig) -> None:
        """A port stays open, with other ANA states."""
        opened = self.find(config)
        opened.config = new
        self._core.ana.put(opened.port.portid, opened.ana, self._core.controllers())

    def close(self, opened: OpenPort) -> None:
        """Listen there no more; connections that came by it stay."""
        opened.listener.close()
        self._taken.discard(opened.port.portid)
        if opened in self.open_ports:
            self.open_ports.remove(opened)
            self._core.remove_port(opened.port)
            self._core.ana.forget(opened.port.portid)
            log.info("no longer %s", opened.listening)

    def stop_listening(self) -> None:
        """No new connections; hosts are not told, for the target ends."""
        for opened in self.open_ports:
            opened.listener.close()

    def stop_events(self) -> None:
        """No more events are handled."""
        loop = asyncio.get_running_loop()
        for channel in self._channels.values():
            loop.remove_reader(channel.fileno())

    def close_channels(self) -> None:
        """The end, when every connection of theirs is gone."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def _listen(self, config: PortConfig) -> tuple[str, Any]:
        """The device and the listener of a port; ServerError where there is none."""
        tried = f"cannot listen on {endpoint(config.traddr, config.trsvcid)}"
        refused: list[str] = []
        for device in ("system", "iwarp") if config.device == "auto" else (config.device,):
            why = self._engine.verbs_available(device)
            names = [d["name"] for d in self._engine.list_devices(device)] if why is None else []
            if why is None and device == "system" and not names:
                why = 'there is no RDMA device; the embedded one is device = "iwarp"'
            if why is None:
                try:
                    listener = self._channel(device).listen(config.traddr, config.trsvcid)
                except OSError as error:
                    refused.append(error.strerror or f"{tried}: {error}")
                    continue
                if listener.device is not None and listener.device not in names:
                    listener.close()  # the connection manager is the last to let go of it
                    why = f"its device {listener.device} is being removed"
                else:
                    if refused:
                        log.info("%s; the %s device has it", "; ".join(refused), device)
                    return device, listener
            refused.append(f"{tried} with the {device} device: {why}")
        # With device = "auto" the last is the embedded one: that there are no others is no fault.
        raise ServerError(refused[-1])

    def _channel(self, device: str) -> Any:
        if device not in self._channels:
            channel = self._engine.EventChannel(device)
            self._channels[device] = channel
            asyncio.get_running_loop().add_reader(channel.fileno(), self._events, channel)
        return self._channels[device]

    def _events(self, channel: Any) -> None:
        for _ in range(_EVENTS_AT_ONCE):
            try:
                event = channel.get_event()
                if event is None:
                    return
                self._handle(event)
            except Exception:
                log.exception("an event of a connection could not be handled")


def where(address: tuple[str, int]) -> str:
    """HOST:PORT, as URLs have it."""
    return endpoint(*address)
