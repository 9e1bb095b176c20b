# SPDX-License-Identifier: BSD-3-Clause
"""The file of nvmetcli (JSON, /etc/nvmet/config.json) read into a configuration, and written.

Two things are different there.  Each port refers hosts to other discovery services by itself; here
a port tells of all.  And of a group of namespaces (ANA) that a port does not name, the kernel makes
an inaccessible one, but for the first; here it is optimized.
"""

from nvmf.config.nvmetcli.reading import load
from nvmf.config.nvmetcli.writing import dump

__all__ = ["dump", "load"]
