# SPDX-License-Identifier: BSD-3-Clause
"""Captures of NVMe-oF over RDMA: reading them, explaining them, making them, playing them again.

From the bottom up: ``container`` (pcap and pcapng files), ``network`` (Ethernet, IP, TCP, UDP),
``iwarp`` and ``roce`` (their packets become events), ``dialogue`` (events become commands and
violations), ``explain`` (files become dialogues), ``words`` (dialogues become text and JSON);
``record`` and ``replay`` talk to processes.  Everything up to ``words`` is sans-IO, and treats
its input as untrusted: it is bounded, and a damaged file gives what was before the damage.
"""
