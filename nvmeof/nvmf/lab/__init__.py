# SPDX-License-Identifier: BSD-3-Clause
"""The storage lab: measures systems with fio as a description says, and reports the results.

Modules, from the bottom up; each imports only those before it:

- ``errors``: the one exception
- ``model``: the description (lab.toml): systems, workloads, method
- ``profiles``: ready workloads and methods
- ``describe``: reads a description, with errors that name line and key
- ``short``: a short form of a description, to try it
- ``plan``: the measurements of a description
- ``steady``: steady state of rounds, by SNIA's criteria
- ``histogram``: latencies as fio counts them
- ``machine``: facts of this machine, and what makes its figures doubtful
- ``store``: a results directory
- ``fio``: runs fio, and reads its JSON
- ``guard``: protects data that a run would overwrite
- ``serving``: the processes and commands of a system
- ``systems``: sets systems up, and takes them down
- ``sampling``: use of processors during a measurement
- ``live``: progress on a terminal, or as lines
- ``run``: all measurements, in turns
- ``tidy``: the results as rows
- ``compare``: ratios of two runs, with confidence intervals
- ``drawing``: a picture and its data, and the style of all
- ``heat``: heat maps of latency over time
- ``pictures``: the pictures of a report
- ``report``: a report as HTML and as Markdown

Only ``compare`` and the modules after it need the packages of the extra ``lab`` (numpy, scipy,
matplotlib).  This is the package of ``nvmeof lab``; the virtual machine of ``./dev lab`` is a
different thing.
"""
