# SPDX-License-Identifier: BSD-3-Clause
"""Recording: processes send the packets of their RDMA devices as pcapng, through Unix sockets.

Each process sends a section with one interface.  The sections become one, with an interface for
each process, whose blocks are in the order of arrival.
"""

from __future__ import annotations

import collections
import contextlib
import os
import secrets
import select
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from nvmf.capture.container import Packet, is_synthesised
from nvmf.capture.errors import CaptureError, UnwrittenError
from nvmf.capture.explain import Explainer
from nvmf.capture.label import Ends, Labels, commented
from nvmf.capture.output import Output

_SECTION, _INTERFACE, _STATISTICS, _ENHANCED = 0x0A0D0D0A, 1, 5, 6
_BLOCK_MOST = 1 << 17
_LINK_RAW = 101
KEPT_MOST = 256 << 20
"""Default maximum bytes of packets that are kept in memory, for the last seconds."""
_DIALOGUES_MOST = 1000
"""Maximum number of connections that the trigger watches, before it forgets ended ones."""
VARIABLE = "NVMEOF_CAPTURE"
"""The environment variable by which a process learns the name of the socket."""


@dataclass(slots=True)
class _Stream:
    """The connection of a process."""

    socket: socket.socket
    number: int = -1
    """Number of its interface; -1 until it is known."""
    data: bytearray = field(default_factory=bytearray)
    dropped: int = 0


@dataclass(slots=True)
class Recorded:
    """The amount that was recorded so far."""

    packets: int = 0
    bytes: int = 0
    """Bytes of the file, or of the packets in memory."""
    processes: int = 0
    dropped: int = 0
    """Packets that the processes could not keep."""
    without_data: int = 0
    """Packets of which they kept the headers only."""
    stopped: str = ""
    """Why the recording has stopped by itself."""


class Recorder:
    """Listens for processes, and writes what they send to a file."""

    def __init__(
        self,
        out: BinaryIO,
        *,
        most: int = 0,
        last: float = 0.0,
        until_error: bool = False,
        uid: int | None = None,
    ) -> None:
        """out: unbuffered, so that a failure is that of the last block.  most: maximum bytes, 0:
        any number; with last: of those in memory.  last: seconds to keep, 0: everything.  uid: the
        user whose processes may connect, besides root.

        Raises:
            UnwrittenError: The file cannot be written, as in step() and close().
        """
        self.name = f"@nvmeof-capture-{secrets.token_hex(16)}"
        self.recorded = Recorded()
        self._out = Output(out)
        self._most = most or (KEPT_MOST if last else 0)
        self._last = last
        self._uids = {0, os.geteuid() if uid is None else uid}
        self._streams: list[_Stream] = []
        self._headers: list[bytes] = []
        self._kept: collections.deque[tuple[int, bytes]] = collections.deque()
        self._watch = Explainer() if until_error else None
        self._labels = Labels()
        self._ends = Ends()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind("\0" + self.name[1:])
            self._listener.listen(64)
        except OSError as error:
            self._listener.close()
            raise CaptureError(f"cannot listen for processes: {error.strerror}") from None
        section = struct.pack("=IIIHHqI", _SECTION, 28, 0x1A2B3C4D, 1, 0, -1, 28)
        self.recorded.bytes += 0 if last else len(section)
        try:  # at once, so that the file is valid however the recording ends
            self._out.add(section)
            self._out.flush()
        except UnwrittenError:
            self._listener.close()
            raise

    @property
    def connected(self) -> int:
        """The number of processes that are connected now."""
        return len(self._streams)

    def step(self, timeout: float) -> bool:
        """Wait for data, at most timeout seconds, and take all that has arrived.

        Returns:
            Whether anything has.
        """
        ready, _, _ = select.select(
            [self._listener, *(one.socket for one in self._streams)], [], [], timeout
        )
        if self._listener in ready:
            self._accept()
        for stream in [one for one in self._streams if one.socket in ready]:
            self._receive(stream)
        if self._watch is not None:
            self._look(self._watch)
        if ready and not self._last:
            self._out.flush()
        return bool(ready)

    def close(self) -> Recorded:
        """Stop the processes, and write the kept packets."""
        self._listener.close()
        for stream in self._streams:
            stream.socket.close()
        self._streams.clear()
        if self._last:
            for block in self._headers:
                self._out.add(block)
            for _, block in self._kept:
                self._out.add(block, packet=True)
            self.recorded.packets = len(self._kept)
        self._out.flush()
        return self.recorded

    # ---- processes ----

    def _accept(self) -> None:
        peer, _ = self._listener.accept()
        _, uid, _ = struct.unpack(
            "=iII", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        )
        if uid not in self._uids or len(self._streams) > 900:  # select() has 1024
            peer.close()
            return
        self._streams.append(_Stream(peer))

    def _receive(self, stream: _Stream) -> None:
        with contextlib.suppress(OSError):
            if received := stream.socket.recv(1 << 20):
                stream.data += received
                if self._take(stream):
                    return
        stream.socket.close()
        self._streams.remove(stream)

    def _take(self, stream: _Stream) -> bool:
        """Take whole blocks; return whether they have the form that our processes send."""
        for block in _blocks(stream.data):
            if len(block) == 8:
                return False
            (kind,) = struct.unpack_from("=I", block)
            if kind == _INTERFACE and stream.number < 0:
                stream.number = self.recorded.processes
                self.recorded.processes += 1
                self._header(block)
            elif kind in (_ENHANCED, _STATISTICS) and stream.number >= 0 and len(block) >= 32:
                block = block[:8] + struct.pack("=I", stream.number) + block[12:]
                if kind == _STATISTICS:
                    self._drops(stream, block)
                self._packet(block, kind == _ENHANCED, stream.number)
            elif kind != _SECTION:
                return False
        return True

    def _drops(self, stream: _Stream, block: bytes) -> None:
        if len(block) >= 48:
            (now,) = struct.unpack_from("=Q", block, 36)
            self.recorded.dropped += max(0, now - stream.dropped)
            stream.dropped = now

    # ---- blocks ----

    def _header(self, block: bytes) -> None:
        if self._last:
            self._headers.append(block)
        else:
            self._write(block)

    def _packet(self, block: bytes, packet: bool, process: int) -> None:
        high, low = struct.unpack_from("=II", block, 12)
        when = high << 32 | low
        if self.recorded.stopped:
            return
        kept, length = struct.unpack_from("=II", block, 20)
        if packet:
            synthesised = is_synthesised(block[28 + (kept + 3) // 4 * 4 : -4])
            made = Packet(0, when, _LINK_RAW, block[28 : 28 + kept], length, synthesised)
            if synthesised and self._ends.is_second(made, process):
                return
            self.recorded.without_data += kept < length
            if self._watch is not None:
                self._watch.feed(made)
            if comment := self._labels.comment(made):
                block = commented(block, comment)
        if not self._last:
            if self._most and self.recorded.bytes + len(block) > self._most:
                self.recorded.stopped = "the size is reached"
                return
            self.recorded.packets += packet
            self._write(block, packet)
            return
        if not packet:
            return
        self._kept.append((when, block))
        self.recorded.bytes += len(block)
        while self._kept and (
            self.recorded.bytes > self._most or when - self._kept[0][0] > self._last * 1e9
        ):
            self.recorded.bytes -= len(self._kept.popleft()[1])

    def _write(self, block: bytes, packet: bool = False) -> None:
        self._out.add(block, packet=packet)
        self.recorded.bytes += len(block)

    # ---- the trigger ----

    def _look(self, watch: Explainer) -> None:
        """Stop at the first sentence about a connection; forget connections that have ended."""
        for one in watch.found.dialogues:
            errors = [fault for fault in one.faults if not fault.loss]
            if errors and not self.recorded.stopped:
                self.recorded.stopped = f"connection {one.number}: {errors[0].sentence}"
            one.commands.clear()
            one.faults.clear()
        if len(watch.found.dialogues) > _DIALOGUES_MOST:
            watch.forget_ended()


def _blocks(data: bytearray) -> Iterator[bytes]:
    """Yield, and remove, the whole blocks; then 8 bytes if the rest is not a block."""
    at = 0
    while len(data) - at >= 12:
        (size,) = struct.unpack_from("=I", data, at + 4)
        if size < 12 or size % 4 or size > _BLOCK_MOST:
            yield bytes(data[at : at + 8])
            break
        if len(data) - at < size:
            break
        yield bytes(data[at : at + size])
        at += size
    del data[:at]
