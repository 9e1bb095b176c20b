# SPDX-License-Identifier: BSD-3-Clause
"""Listening ports, and the event channels of their devices."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmf.config.base import endpoint
from nvmf.config.models import PortConfig
from nvmf.spec.ana import AnaState
from nvmf.spec.fabrics import RdmaProvider
from nvmf.target.command.engine import Address
from nvmf.target.commands.core import Core
from nvmf.target.commands.discovery import Port, plain_address
from nvmf.target.io.engine import Engine, EventChannel, Kind, Listener, Target
from nvmf.target.io.stores import ServerError

if TYPE_CHECKING:
    from nvmf.relay.relays import Relays

log = logging.getLogger("nvmf.target")

_PROVIDERS = {"iwarp": RdmaProvider.IWARP, "roce": RdmaProvider.ROCEV2}
"""RDMA provider types of the embedded devices."""

_EVENTS_AT_ONCE = 64
"""Maximum events taken from one channel before others have their turn."""


@dataclass(frozen=True, slots=True)
class Listening:
    """The address and device of an open port."""

    address: tuple[str, int]
    device: str
    """"iwarp", "roce" or "system"."""

    def __str__(self) -> str:
        return f"listening on {where(self.address)} ({self.device})"


@dataclass(eq=False, slots=True)
class OpenPort:
    """An open port: its configuration and its listener."""

    config: PortConfig
    listening: Listening
    listener: Listener
    port: Port
    """The port's entry in the discovery log."""
    relayed: bool = False
    """Whether a relay is between the hosts and the listener."""

    def takes(self, local: Address) -> bool:
        """Return whether a connection to this local address belongs to this port."""
        return self.port.takes(local)

    @property
    def ana(self) -> dict[int, AnaState]:
        """The ANA states from the configuration."""
        return {group.id: AnaState.of(group.state) for group in self.config.ana_groups}


class Ports:
    """The ports of a target.  handle is called for each event of the event channels."""

    def __init__(
        self,
        engine: Engine,
        target: Target,
        core: Core,
        handle: Callable[[object], None],
        announce: Callable[[Listening], None] | None,
    ) -> None:
        self.open_ports: list[OpenPort] = []
        self._engine = engine
        self._target = target
        self._core = core
        self._handle = handle
        self._announce = announce
        self._channels: dict[str, EventChannel] = {}
        self._taken: set[int] = set()
        """Port identifiers in use."""
        self.relays: Relays | None = None
        """Relays before ports with wire_faults; None if there has been no such port."""
        self._ended = False

    def listen(self, config: PortConfig, portid: int | None = None) -> OpenPort:
        """Listen without telling hosts yet; raise ServerError on failure.

        portid: the identifier that the port had before; None: a free one.
        """
        if self._ended:
            raise ServerError("the target is stopping")
        device, listener = self._listen(_inside(config) if config.wire_faults else config)
        try:
            self._target.open_devices(listener)
        except OSError as error:  # will be retried when a host connects
            log.warning("%s", error)
        address = str(listener.address[0]), int(listener.address[1])
        if config.wire_faults:
            address = self._relay(config, listener, address)
        listening = Listening(address, device)
        provider = _PROVIDERS.get(device, RdmaProvider.NONE)
        traddr, trsvcid = plain_address(listening.address[0]), listening.address[1]
        if portid is None:
            # A host of a port that was removed may still be connected.
            used = self._taken.union(one.portid for one in self._core.controllers())
            portid = next(number for number in range(1, 0xFFFF) if number not in used)
        self._taken.add(portid)
        port = Port(portid, traddr, trsvcid, provider)
        return OpenPort(config, listening, listener, port, config.wire_faults)

    def _relay(self, config: PortConfig, listener: Listener, inside: Address) -> Address:
        """Open a relay before a listener; return its address."""
        from nvmf.relay.errors import RelayError
        from nvmf.relay.relays import Relays

        self.relays = self.relays or Relays()
        try:
            near = config.traddr, config.trsvcid
            return self.relays.open(config.device, inside, near)
        except (OSError, RelayError) as error:
            listener.close()
            # asyncio puts its own words into strerror
            why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
            where = endpoint(config.traddr, config.trsvcid)
            raise ServerError(f"cannot listen on {where} with a relay: {why}") from None

    def outside(self, peer: Address, local: Address) -> tuple[Address, Address]:
        """Return the addresses of a connection as its host knows them: peer and local."""
        return (peer, local) if self.relays is None else self.relays.outside(peer, local)

    def show(self, opened: OpenPort) -> None:
        """Announce an open port to hosts."""
        self.open_ports.append(opened)
        self._core.ana.put(opened.port.portid, opened.ana)
        self._core.add_port(opened.port)
        if self._announce is not None:
            self._announce(opened.listening)
        else:
            log.info("%s", opened.listening)

    def find(self, config: PortConfig) -> OpenPort:
        """Return the open port with this configuration; raise KeyError if there is none."""
        for opened in self.open_ports:
            if opened.config == config:
                return opened
        raise KeyError(config)

    def change(self, config: PortConfig, new: PortConfig) -> None:
        """Change the ANA states of an open port."""
        opened = self.find(config)
        opened.config = new
        self._core.ana.put(opened.port.portid, opened.ana, self._core.controllers())

    def close(self, opened: OpenPort) -> None:
        """Stop listening on a port; its connections stay."""
        opened.listener.close()
        if opened.relayed and self.relays is not None:
            self.relays.shut(opened.listening.address)
        self._taken.discard(opened.port.portid)
        if opened in self.open_ports:
            self.open_ports.remove(opened)
            self._core.remove_port(opened.port)
            self._core.ana.forget(opened.port.portid)
            log.info("no longer %s", opened.listening)

    def stop_listening(self) -> None:
        """Stop listening because the target stops; hosts are not notified."""
        for opened in self.open_ports:
            opened.listener.close()

    def stop_events(self) -> None:
        """Stop handling events, and open no further port: a change may still be in progress."""
        self._ended = True
        loop = asyncio.get_running_loop()
        for channel in self._channels.values():
            loop.remove_reader(channel.fileno())

    def close_channels(self) -> None:
        """Close the event channels, after all their connections have ended."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        if self.relays is not None:
            self.relays.close()

    def _listen(self, config: PortConfig) -> tuple[str, Listener]:
        """Return the device and the listener of a port; raise ServerError on failure."""
        tried = f"cannot listen on {endpoint(config.traddr, config.trsvcid)}"
        refused: list[str] = []
        for device in ("system", "iwarp") if config.device == "auto" else (config.device,):
            why = self._engine.verbs_available(device)
            names = [d["name"] for d in self._engine.list_devices(device)] if why is None else []
            if why is None and device == "system" and not names:
                why = "there is no RDMA device"
                if config.device == "system":
                    why += '; for the embedded one, set device = "iwarp"'
            if why is None:
                try:
                    listener = self._channel(device).listen(config.traddr, config.trsvcid)
                except OSError as error:
                    refused.append(error.strerror or f"{tried}: {error}")
                    continue
                if listener.device is not None and listener.device not in names:
                    listener.close()  # the connection manager still holds the device
                    why = f"its device {listener.device} is being removed"
                else:
                    if refused:
                        log.info("%s; using the %s device instead", "; ".join(refused), device)
                    return device, listener
            refused.append(f"{tried} with the {device} device: {why}")
        # With device = "auto", report the error of the embedded device: having no other is normal.
        raise ServerError(refused[-1])

    def _channel(self, device: Kind) -> EventChannel:
        if device not in self._channels:
            channel = self._engine.EventChannel(device)
            self._channels[device] = channel
            asyncio.get_running_loop().add_reader(channel.fileno(), self._events, channel)
        return self._channels[device]

    def _events(self, channel: EventChannel) -> None:
        for _ in range(_EVENTS_AT_ONCE):
            try:
                event = channel.get_event()
                if event is None:
                    return
                self._handle(event)
            except Exception:
                log.exception("cannot handle a connection event")


def _inside(config: PortConfig) -> PortConfig:
    """Return the configuration of the port behind a relay: on the loopback network."""
    from nvmf.relay.errors import RelayError
    from nvmf.relay.udp import free_address

    if config.device == "iwarp":
        return config.model_copy(update={"traddr": "127.0.0.1", "trsvcid": 0})
    try:
        return config.model_copy(update={"traddr": free_address()})
    except RelayError as error:
        raise ServerError(str(error)) from None


def where(address: tuple[str, int]) -> str:
    """Return HOST:PORT, as in URLs."""
    return endpoint(*address)
