# SPDX-License-Identifier: BSD-3-Clause
"""Replication of blocks and of logs over namespaces and files, and the proof that it works.

- Mirror: a block device on several replicas
- Log: an append-only log on several replicas
- NamespaceReplica, FileReplica, MappedReplica: what both write to; Replica, QuickReplica,
  CarefulReplica: the interfaces of such
- ReplicationError, with the subclasses QuorumLost, Deposed, Damaged, LogFull, ReplicaError

store has MirrorStore, a mirror as the storage of a namespace.

The cores (logcore, recovery, mirrorcore, mirrortasks) do no I/O: shell runs them.  The formats on
the replicas are in logformat and mirrorformat.  history decides whether a history of reads and
writes is linearizable.  nvmeof/docs/replication.md has the rules, the formats and the damages.
"""

from nvmf.replication.appending import AppendReplica
from nvmf.replication.filereplica import FileReplica
from nvmf.replication.log import Log
from nvmf.replication.logcore import LogFull, LogState
from nvmf.replication.machine import (
    Damaged,
    Deposed,
    Fenced,
    LegState,
    QuorumLost,
    ReplicaError,
    ReplicationError,
)
from nvmf.replication.mapped import MappedReplica
from nvmf.replication.mirror import Mirror, ReplicaStatus
from nvmf.replication.mirrorbase import MirrorState
from nvmf.replication.replica import (
    CarefulReplica,
    NamespaceReplica,
    QuickReplica,
    Replica,
)

__all__ = [
    "AppendReplica",
    "CarefulReplica",
    "Damaged",
    "Deposed",
    "Fenced",
    "FileReplica",
    "LegState",
    "Log",
    "LogFull",
    "LogState",
    "MappedReplica",
    "Mirror",
    "MirrorState",
    "NamespaceReplica",
    "QuickReplica",
    "QuorumLost",
    "Replica",
    "ReplicaError",
    "ReplicaStatus",
    "ReplicationError",
]
