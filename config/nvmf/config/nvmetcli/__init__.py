# SPDX-License-Identifier: BSD-3-Clause
"""Conversion from and to the file of nvmetcli (JSON, /etc/nvmet/config.json).

There are two differences.  In nvmetcli, referrals belong to a port; here every port reports all
referrals.  The kernel treats an ANA group that a port does not list as inaccessible, except group
1; here such a group is optimized.
"""

from nvmf.config.nvmetcli.reading import load
from nvmf.config.nvmetcli.writing import dump

__all__ = ["dump", "load"]
