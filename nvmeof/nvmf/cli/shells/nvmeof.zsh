#compdef nvmeof
# SPDX-License-Identifier: BSD-3-Clause
# Completion of nvmeof: written by ./dev manual with shtab; changes here will be lost.


_shtab_nvmeof_commands() {
  local _commands=(
    ana-log:'Show the ANA groups, their states and namespaces.'
    bench:'Measure a namespace: IOPS, throughput, latency.'
    capture:'Record the packets of a command or of a running target.'
    changed-ns-list-log:'Show the namespaces that changed since the controller was connected.'
    check-dhchap-key:'Check a key for in-band authentication.'
    compare:'Compare blocks with a file, without reading them.'
    compare-and-write:'Write a block if it has the expected content, atomically.'
    completion:'Print the shell completion script for nvmeof.'
    config:'Check a target'"'"'s configuration, or convert it.'
    connect:'Connect the kernel to a subsystem, and wait for its block devices.'
    connect-all:'Connect the kernel to all subsystems that a port offers, following referrals.'
    copy:'Have the target copy blocks, without transferring them.'
    devices:'List RDMA devices with their ports, GIDs and capabilities.'
    disconnect:'Disconnect the kernel from a subsystem.'
    disconnect-all:'Disconnect the kernel from all fabrics subsystems.'
    discover:'List the subsystems that a port offers to this host.'
    doctor:'Check this machine for problems of a target or a host, with remedies.'
    dsm:'Deallocate blocks: their data is no longer needed (TRIM).'
    error-log:'Show the error information log, newest first.'
    explain:'Show the NVMe-oF connections of a capture file, and what is wrong.'
    fio-engine:'Build the fio engine for the installed fio, or print its path.'
    flush:'Commit written data of a namespace to non-volatile media.'
    gen-dhchap-key:'Generate a key for in-band authentication (DH-HMAC-CHAP).'
    gen-hostnqn:'Generate an NQN for a host, from a random UUID.'
    get-feature:'Show the value of a feature.'
    get-log:'Print a log page.'
    id-ctrl:'Show Identify Controller data.'
    id-ns:'Show Identify Namespace data of a namespace.'
    lab:'Measure systems with fio as a description (lab.toml) or a profile says, and report and compare the results.'
    list:'List the NVMe block devices of this machine.'
    list-ns:'List the active namespaces.'
    list-subsys:'List the NVMe subsystems that the kernel is connected to, and their controllers.'
    pmem:'Persistent memory of a target, used as memory: by RDMA instead of NVMe commands. The target exports a namespace as memory to the hosts in its keys memory and memory_read_only.'
    read:'Copy blocks of a namespace to a file or to stdout.'
    replay:'Play the host or the target of a capture file against a live peer.'
    reset:'Reset a controller, of the kernel or over a connection of its own.'
    resv-acquire:'Reserve a namespace, or preempt a holder.'
    resv-register:'Register this host'"'"'s reservation key.'
    resv-release:'Release a reservation, or clear all.'
    resv-report:'Show the reservation and the registered hosts.'
    rpc:'Call an RPC method of a running target.'
    set-feature:'Set a feature for this connection.'
    show-hostnqn:'Show the NQN by which this host is known to targets.'
    show-regs:'Show the properties of the controller.'
    smart-log:'Show SMART / health information.'
    target:'Run a target in the foreground, or administer a running one while hosts are connected.'
    top:'Watch the hosts, queues and namespaces of a running target.'
    verbs:'Run a program of libibverbs and librdmacm on an embedded device.'
    verify:'Have the target read blocks, without sending them.'
    write:'Copy a file or stdin to blocks of a namespace, and flush.'
    write-uncor:'Mark blocks as invalid, so that reading them fails.'
    write-zeroes:'Set blocks to zeroes, without sending them.'
  )
  _describe 'nvmeof commands' _commands
}

_shtab_nvmeof_config_commands() {
  local _commands=(
    check:'Check a configuration file without serving it.'
    export:'Convert a configuration to nvmetcli'"'"'s file.'
    import:'Convert nvmetcli'"'"'s file to a configuration.'
    schema:'Print the JSON schema of configurations.'
  )
  _describe 'nvmeof config commands' _commands
}

_shtab_nvmeof_fio_engine_commands() {
  local _commands=(
    build:'Compile the fio engine.'
    path:'Print the path of the engine that was built for the installed fio.'
  )
  _describe 'nvmeof fio-engine commands' _commands
}

_shtab_nvmeof_lab_commands() {
  local _commands=(
    check:'Check a description, and list its measurements.'
    compare:'Compare runs, or the systems of a run: ratios with intervals, and a verdict for each row.'
    export:'Print the results of a run as CSV.'
    profiles:'List the ready profiles.'
    report:'Make a report of a run: HTML with pictures, Markdown, SVG and PNG.'
    run:'Measure, and keep the results in a directory.'
    schema:'Print the JSON schema of descriptions.'
  )
  _describe 'nvmeof lab commands' _commands
}

_shtab_nvmeof_pmem_commands() {
  local _commands=(
    bench:'Measure the methods of making a remote write persistent.'
    bench-replicas:'Measure a mirror, a log and a resynchronisation on several namespaces.'
    demo:'Demonstrate a replicated log that survives crashes, and measure the methods.'
  )
  _describe 'nvmeof pmem commands' _commands
}

_shtab_nvmeof_target_commands() {
  local _commands=(
    ana:'Steer hosts to one port or another (ANA).'
    clear:'Remove all ports, subsystems and bdevs of a target.'
    fault:'Inject faults on purpose, for tests (only with allow_faults in the configuration).'
    host:'Manage the hosts that may connect to a subsystem.'
    log-level:'Show or set the minimum level of the log, until the target ends.'
    ls:'Show ports, subsystems, namespaces, hosts and connections.'
    mirror:'Show the legs of mirrors, and add, remove, replace and resynchronise them.'
    namespace:'Add, remove, resize, replace, mask, protect and limit namespaces.'
    port:'Open and close ports.'
    reload:'Make a target read its configuration file again.'
    restore:'Replace the configuration of a target by that in a file.'
    save:'Write the current configuration back to its file.'
    serve:'Serve a configuration, or memory or files, until SIGINT or SIGTERM.'
    shell:'Administer a running target as with nvmetcli, in a shell with completion.'
    stats:'Show counters of reactors and namespaces.'
    subsystem:'Add and remove subsystems.'
  )
  _describe 'nvmeof target commands' _commands
}

_shtab_nvmeof_target_ana_commands() {
  local _commands=(
    set:'Set the state of a group of namespaces on a port.'
  )
  _describe 'nvmeof target ana commands' _commands
}

_shtab_nvmeof_target_fault_commands() {
  local _commands=(
    add:'Start a fault.'
    list:'Show active faults, and the last ones that have ended.'
    remove:'End faults.'
  )
  _describe 'nvmeof target fault commands' _commands
}

_shtab_nvmeof_target_host_commands() {
  local _commands=(
    allow:'Allow a host to connect.'
    remove:'Remove a host from the allowed hosts, and disconnect it.'
    set-keys:'Set the keys of a host.'
  )
  _describe 'nvmeof target host commands' _commands
}

_shtab_nvmeof_target_mirror_commands() {
  local _commands=(
    add-leg:'Add a leg to a mirror whose legs are all in sync.'
    events:'Show the newest changes of the states of mirrors and of their legs.'
    remove-leg:'Remove a leg of a mirror whose other legs are all in sync.'
    replace-leg:'Replace a leg of a mirror, lost or not.'
    resync:'Try the lost legs of a mirror again now.'
    show:'Show the state of each leg of each mirror.'
  )
  _describe 'nvmeof target mirror commands' _commands
}

_shtab_nvmeof_target_namespace_commands() {
  local _commands=(
    add:'Add a namespace: connected hosts see it at once.'
    limit:'Limit the use of a namespace by all hosts together, or show the limits.'
    mask:'Set the hosts that see a namespace.'
    protect:'Write protect a namespace, or remove the protection.'
    remove:'Remove a namespace.'
    replace:'Replace the store of a namespace.'
    resize:'Resize a namespace, and notify hosts.'
  )
  _describe 'nvmeof target namespace commands' _commands
}

_shtab_nvmeof_target_port_commands() {
  local _commands=(
    add:'Listen on an additional address.'
    remove:'Stop listening on an address, and disconnect its hosts.'
  )
  _describe 'nvmeof target port commands' _commands
}

_shtab_nvmeof_target_subsystem_commands() {
  local _commands=(
    add:'Add a subsystem without namespaces.'
    remove:'Remove a subsystem, and disconnect its hosts.'
  )
  _describe 'nvmeof target subsystem commands' _commands
}

_shtab_nvmeof_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--version[show the version]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_defaults_added=0

_shtab_nvmeof_ana_log_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json binary)"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  {-g,--groups}"[only the groups, without their namespaces]"
  {-b,--raw-binary}"[write the bytes to stdout]"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_ana_log_defaults_added=0

_shtab_nvmeof_bench_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {--rw,--readwrite}"[one of read, write, randread, randwrite, rw, readwrite, randrw (default\: randread)]:LOAD:(read write randread randwrite rw readwrite randrw)"
  {--bs,--blocksize,-z,--data-size}"[size of one command (default\: 4096)]:BYTES:"
  "--rwmixread[percentage of reads of rw and randrw, 0 to 100 (default\: 50)]:N:"
  {--iodepth,-Q,--queue-size}"[outstanding commands per queue (default\: 32)]:N:"
  {--numjobs,-i,--nr-io-queues}"[I\/O queues (default\: 1)]:N:"
  "--size[use this much of the namespace, in bytes or percent\; without --time_based, the load ends when each queue has transferred it (default\: to the end of the namespace)]:SIZE:"
  "--offset[begin at this offset, in bytes or percent (default\: 0)]:SIZE:"
  "--runtime[duration, such as 10, 10s, 500ms or 2m (default\: 5s\; with --size, no limit)]:TIME:"
  {--time_based,--time-based,--time_based=1}"[run for all of --runtime, and repeat the transfer of --size]"
  {--ramp_time,--ramp-time}"[time before I\/O is counted (default\: 0)]:TIME:"
  "--loops[repeats (default\: 1)]:N:"
  "--threads[polling threads (default\: one per queue, at most the number of CPUs minus one)]:N:"
  "--cpu[pin the first thread to this CPU, the others to the following CPUs]:N:"
  "--force[write even if the namespace holds data]"
  {--percentile_list,--percentile-list}"[percentiles of the latency, up to 20 (default\: 50\:90\:99\:99.9\:99.99)]:P:P:...:"
  "--interval[also show the rates of each interval, at least 100ms]:TIME:"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  "--filename[the URL, as in a job of fio\: \"\:\" may be \"\\\:\"]:URL:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_bench_defaults_added=0

_shtab_nvmeof_capture_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--duration[stop after this time]:SECONDS:"
  "--size[stop at this size of the file\; with --last, limit of the packets kept in memory (default\: none\; 256 MiB)]:BYTES:"
  "--last[keep the packets of the last SECONDS in memory, and write them at the end]:SECONDS:"
  "--until-error[stop at a failed command, a Terminate, or a violation of a specification]"
  "--lua[print the path of a script with which Wireshark and tshark show NVMe-oF over iWARP (tshark -X lua_script\:PATH)]"
  ":the file\; - is stdout:_files"
  "(-)*::a command with its arguments\; options of nvmeof capture come before FILE:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_capture_defaults_added=0

_shtab_nvmeof_changed_ns_list_log_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json binary)"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  {-b,--raw-binary}"[write the bytes to stdout]"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_changed_ns_list_log_defaults_added=0

_shtab_nvmeof_check_dhchap_key_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-k,--key}"[DHHC-1\:HH\:BASE64\:]:KEY:"
  {-f,--key-file}"[file with the key]:FILE:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_check_dhchap_key_defaults_added=0

_shtab_nvmeof_compare_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-b,--start-block}"[first logical block (default\: 0)]:LBA:"
  "-s[with a URL the first logical block, as in nvme-cli\; with -a the port of the target]:N:"
  {-t,--transport}"[only rdma is supported]:transport:"
  {-a,--traddr}"[address or name of the target]:HOST:"
  "--trsvcid[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  "--reconnect-delay[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  "--ctrl-loss-tmo[seconds after which a lost controller is given up, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  {-d,--data}"[the expected content]:FILE:_files"
  {-c,--block-count}"[number of logical blocks, 0\'s based as in nvme-cli (default\: all of the file)]:N:"
  {-z,--data-size}"[number of bytes of the file to compare (default\: all)]:BYTES:"
  {-f,--force-unit-access}"[set Force Unit Access (FUA) in the command\: blocks are made stable first]"
  "--latency[also print the time that it took\; with a URL also -t, as in nvme-cli]"
  {-p,--prinfo}"[must be 0]:N:"
  {-r,--ref-tag}"[must be 0]:N:"
  "--app-tag[must be 0]:N:"
  {-m,--app-tag-mask}"[must be 0]:N:"
  {-g,--storage-tag}"[must be 0]:N:"
  {-y,--metadata-size}"[must be 0]:N:"
  {-l,--limited-retry}"[no effect]"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_compare_defaults_added=0

_shtab_nvmeof_compare_and_write_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-b,--start-block}"[first logical block (default\: 0)]:LBA:"
  "--expected[the expected content of the block]:FILE:_files"
  {-d,--data}"[the new content]:FILE:_files"
  {-f,--force-unit-access}"[set Force Unit Access (FUA) in the Write]"
  "-s[with a URL the first logical block, as in nvme-cli\; with -a the port of the target]:N:"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  "--trsvcid[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  "--reconnect-delay[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  "--ctrl-loss-tmo[seconds after which a lost controller is given up, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_compare_and_write_defaults_added=0

_shtab_nvmeof_completion_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  ":the shell to generate the script for:(bash zsh fish)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_completion_defaults_added=0

_shtab_nvmeof_config_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_config_defaults_added=0

_shtab_nvmeof_config_check_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  ":a TOML file:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_config_check_defaults_added=0

_shtab_nvmeof_config_export_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  ":a TOML file:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_config_export_defaults_added=0

_shtab_nvmeof_config_import_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  ":JSON file of nvmetcli save, or - for stdin:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_config_import_defaults_added=0

_shtab_nvmeof_config_schema_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_config_schema_defaults_added=0

_shtab_nvmeof_connect_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: one per CPU)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-c,--reconnect-delay}"[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[seconds after which a lost controller is given up, -1 for never (default\: 600)]:SECONDS:"
  {-d,--disable-sqflow}"[disable SQ flow control]"
  {-W,--nr-write-queues}"[additional queues for writes only (default\: none)]:N:"
  {-P,--nr-poll-queues}"[polled queues (default\: none)]:N:"
  {-F,--fast-io-fail-tmo,--fast_io_fail_tmo}"[seconds after which I\/O of a lost controller fails, -1 for never (default\: -1)]:SECONDS:"
  {-T,--tos}"[type of service of the connections, 0 to 255]:TOS:"
  {-D,--duplicate-connect}"[connect even if this host is already connected]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_connect_defaults_added=0

_shtab_nvmeof_connect_all_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: one per CPU)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-c,--reconnect-delay}"[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[seconds after which a lost controller is given up, -1 for never (default\: 600)]:SECONDS:"
  {-d,--disable-sqflow}"[disable SQ flow control]"
  {-W,--nr-write-queues}"[additional queues for writes only (default\: none)]:N:"
  {-P,--nr-poll-queues}"[polled queues (default\: none)]:N:"
  {-F,--fast-io-fail-tmo,--fast_io_fail_tmo}"[seconds after which I\/O of a lost controller fails, -1 for never (default\: -1)]:SECONDS:"
  {-T,--tos}"[type of service of the connections, 0 to 255]:TOS:"
  {-D,--duplicate-connect}"[connect even if this host is already connected]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  "--device[reader of the discovery log\: the kernel, or the client with one of its devices (default\: kernel)]:device:(kernel iwarp roce system auto)"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_connect_all_defaults_added=0

_shtab_nvmeof_copy_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {--slbs,--start-block}"[first logical blocks of the ranges (default\: 0)]:LBA,...:"
  {-b,--blocks}"[numbers of logical blocks of the ranges, 0\'s based as in nvme-cli (default\: 0)]:N,...:"
  "-s[with a URL the first logical block, as in nvme-cli\; with -a the port of the target]:N:"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  "--trsvcid[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  "--reconnect-delay[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  "--ctrl-loss-tmo[seconds after which a lost controller is given up, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  {-d,--sdlba}"[first logical block of the destination]:LBA:"
  {-f,--force-unit-access}"[set Force Unit Access (FUA) in the command]"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_copy_defaults_added=0

_shtab_nvmeof_devices_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--watch[keep running, and print device changes (with -o json, one object per line)]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_devices_defaults_added=0

_shtab_nvmeof_disconnect_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-n,--nqn}"[all controllers of this subsystem]:NQN:_nvmeof_kernel_nqns"
  {-d,--device}"[controllers by device name\: nvme0, or a list]:DEVICE:_nvmeof_controllers"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_disconnect_defaults_added=0

_shtab_nvmeof_disconnect_all_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-t,--transport}"[only controllers with this transport, such as rdma]:TRANSPORT:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_disconnect_all_defaults_added=0

_shtab_nvmeof_discover_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: 2)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 0)]:SECONDS:"
  {-c,--reconnect-delay}"[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[seconds after which a lost controller is given up, -1 for never (default\: 600)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  {-n,--nqn}"[NQN of the discovery subsystem (default\: the well-known one)]:NQN:"
  {-p,--persistent}"[stay connected, and print changes as they occur, until SIGINT or SIGTERM (keep-alive timeout\: 30)]"
  "--depth[maximum depth of referrals to follow (default\: 8\; 0\: none)]:N:"
  {-J,--config}"[read FILE instead of the host files]:FILE:_files"
  {-r,--raw}"[also write the binary log to FILE]:FILE:_files"
  "--mdns[list the discovery services announced by mDNS]"
  "--wait[listening time of --mdns (default\: 3)]:SECONDS:"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_discover_defaults_added=0

_shtab_nvmeof_doctor_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-a,--all}"[show passed checks, too]"
  ":a target\'s TOML file:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_doctor_defaults_added=0

_shtab_nvmeof_dsm_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {--slbs,--start-block}"[first logical blocks of the ranges (default\: 0)]:LBA,...:"
  {-b,--blocks}"[numbers of logical blocks of the ranges, not 0\'s based (default\: 1)]:N,...:"
  "-s[with a URL the first logical block, as in nvme-cli\; with -a the port of the target]:N:"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  "--trsvcid[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  "--reconnect-delay[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  "--ctrl-loss-tmo[seconds after which a lost controller is given up, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  {-d,--ad}"[deallocate\; nothing else is done]"
  {-c,--cdw11}"[dword 11 of the command, as in nvme-cli\: 4, which is --ad]:N:"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_dsm_defaults_added=0

_shtab_nvmeof_error_log_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json binary)"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  {-e,--log-entries}"[maximum number of entries (default\: 64)]:N:"
  {-b,--raw-binary}"[write the bytes to stdout]"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_error_log_defaults_added=0

_shtab_nvmeof_explain_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--summary[show totals instead of each command]"
  {-s,--trsvcid}"[TCP port of iWARP connections whose beginning is not in the file (default\: 4420)]:PORT:"
  ":the capture file\; - is stdin:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_explain_defaults_added=0

_shtab_nvmeof_fio_engine_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_fio_engine_defaults_added=0

_shtab_nvmeof_fio_engine_build_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--fio-source[source of fio, of the version that will load the engine]:DIR:"
  "--to[the engine\'s file (default\: see fio-engine path)]:FILE:_files"
  "--fio[fio (default\: \$NVMF_FIO, or the one in PATH)]:PROGRAM:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_fio_engine_build_defaults_added=0

_shtab_nvmeof_fio_engine_path_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--fio[fio (default\: \$NVMF_FIO, or the one in PATH)]:PROGRAM:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_fio_engine_path_defaults_added=0

_shtab_nvmeof_flush_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: 2)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[seconds after which a lost controller is given up, -1 for never (default\: 600)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_flush_defaults_added=0

_shtab_nvmeof_gen_dhchap_key_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-m,--hmac}"[hash that transforms the key before it is used\: 0 none, 1 SHA-256, 2 SHA-384, 3 SHA-512 (default\: 0)]:HASH:(0 1 2 3)"
  {-l,--key-length}"[length of the secret\: 32, 48 or 64 (default\: length of the hash, or 32)]:BYTES:(32 48 64)"
  {-s,--secret}"[use this secret instead of a random one]:HEX:"
  {-n,--nqn}"[NQN for the transformation of --secret by a hash (default\: this host\'s)]:NQN:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_gen_dhchap_key_defaults_added=0

_shtab_nvmeof_gen_hostnqn_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_gen_hostnqn_defaults_added=0

_shtab_nvmeof_get_feature_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json binary)"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  {-f,--feature-id}"[feature]:FID:"
  {-N,--namespace-id}"[namespace, for features of namespaces (default\: 0)]:NSID:"
  {-H,--human-readable}"[show the bit fields of values, by name]"
  {-b,--raw-binary}"[write the bytes to stdout]"
  "--sel[0 current, 1 default, 2 saved, 3 supported capabilities (default\: 0)\; with a URL also -s, as in nvme-cli]:N:(0 1 2 3)"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_get_feature_defaults_added=0

_shtab_nvmeof_get_log_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)\; with a number --lpo, as in nvme-cli]:{normal,json,binary}:"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  {-i,--log-id}"[log page]:LID:"
  "--aen[dword 0 of an asynchronous event, which names the log page\; with a URL also -a, as in nvme-cli]:N:"
  {-l,--log-len}"[length]:BYTES:"
  "--lpo[offset (default\: 0)]:BYTES:"
  "--lsp[log specific field (default\: 0)\; with a URL also -s, as in nvme-cli]:N:"
  {-N,--namespace-id}"[namespace (default\: all, 0xffffffff)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-r,--rae}"[retain the asynchronous event of the log page]"
  {-b,--raw-binary}"[write the bytes to stdout]"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_get_log_defaults_added=0

_shtab_nvmeof_id_ctrl_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json binary)"
  {-H,--human-readable}"[show the bit fields of values, by name]"
  {-b,--raw-binary}"[write the bytes to stdout]"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[seconds after which a lost controller is given up, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_id_ctrl_defaults_added=0

_shtab_nvmeof_id_ns_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json binary)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-H,--human-readable}"[show the bit fields of values, by name]"
  {-b,--raw-binary}"[write the bytes to stdout]"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[seconds after which a lost controller is given up, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_id_ns_defaults_added=0

_shtab_nvmeof_lab_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_lab_defaults_added=0

_shtab_nvmeof_lab_check_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--profile[the profile, for a description without workloads]:NAME:"
  ":a description (TOML):_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_lab_check_defaults_added=0

_shtab_nvmeof_lab_compare_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--baseline[the run to compare with]:DIR:"
  "*--metric[figure to compare\; may be repeated (default\: iops and p99_ns)]:metric:(iops mean_ns p50_ns p99_ns)"
  "--margin[smallest difference that counts (default\: 3)]:PERCENT:"
  "--confidence[confidence of the intervals (default\: 95)]:PERCENT:"
  "(*):results directory:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_lab_compare_defaults_added=0

_shtab_nvmeof_lab_export_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  ":format:(csv)"
  ":results directory:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_lab_export_defaults_added=0

_shtab_nvmeof_lab_profiles_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_lab_profiles_defaults_added=0

_shtab_nvmeof_lab_report_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--to[where to write (default\: DIR)]:DIR:"
  "--pictures[also write SVG and PNG files]"
  ":results directory:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_lab_report_defaults_added=0

_shtab_nvmeof_lab_run_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--profile[ready workloads and method\; see lab profiles]:NAME:"
  "*--system[a system, with --profile and without FILE\; may be repeated]:NAME=WHAT:"
  {-d,--directory}"[results directory, which must not exist (default\: lab-DATE-TIME)]:DIR:"
  "--resume[continue an interrupted run]:DIR:"
  "*--overwrite[path or NQN of a system whose data may be destroyed\; may be repeated]:WHAT:"
  "--rounds[instead of the description\'s]:N:"
  "--runtime[instead of the description\'s]:SECONDS:"
  "--try[measure everything once, for 0.3 seconds and with at most 16 MiB, to see that a description works\: the figures are meaningless]"
  "--no-report[make no report at the end, as with --try]"
  "--quiet[show no progress]"
  ":a description (TOML):_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_lab_run_defaults_added=0

_shtab_nvmeof_lab_schema_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_lab_schema_defaults_added=0

_shtab_nvmeof_list_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_list_defaults_added=0

_shtab_nvmeof_list_ns_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[begin with this namespace (default\: the first)\; with a URL also -n, as in nvme-cli]:NSID:"
  "--all[list the allocated namespaces, attached to the controller or not\; with a URL also -a, as in nvme-cli]"
  {-y,--csi}"[only namespaces of this command set\: 0 NVM, 1 key value, 2 zoned]:N:"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[seconds after which a lost controller is given up, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_list_ns_defaults_added=0

_shtab_nvmeof_list_subsys_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-n,--nqn}"[only this subsystem]:NQN:_nvmeof_kernel_nqns"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_list_subsys_defaults_added=0

_shtab_nvmeof_pmem_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_pmem_defaults_added=0

_shtab_nvmeof_pmem_bench_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  "--methods[methods (default\: nvme-fua,nvme-write-flush,write-read,write-flush,write-flush-tail,write-send)]:M,M,...:"
  {--bs,-z}"[sizes of one operation, 1 to 1MiB (default\: 4k)]:BYTES,...:"
  "--iodepth[operations outstanding, 1 to 128 (default\: 1)]:N,N,...:"
  "--runtime[duration of each measurement, such as 10, 10s, 500ms or 2m (default\: 2s)]:TIME:"
  "--rounds[measure the floor and the methods N times, in turn\; the round with the median latency counts (default\: 1)]:N:"
  "--rwmixread[share of reads, 0 to 100\; the others write with the method (default\: 0)]:PERCENT:"
  "*--target-pid[process of a target on this machine, whose processor time is measured as well\; may be repeated]:PID:"
  "--force[overwrite the namespace]"
  "--ignore-assumptions[also measure methods whose assumptions the target does not confirm]"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_pmem_bench_defaults_added=0

_shtab_nvmeof_pmem_bench_replicas_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--load[what to measure (default\: mirror,log,resync)]:WHAT,...:"
  "--quorum[replicas that have a write before it is acknowledged (default\: the majority)]:N:"
  "--log-methods[how the log\'s writes become persistent\: nvme-fua, write-read, write-flush, write-flush-tail, write-send\; all but the first need namespaces that are exported to this host as memory (default\: nvme-fua)]:M,M,...:"
  {--bs,-z}"[sizes of one operation, 1 to 1MiB (default\: 4k)]:BYTES,...:"
  "--iodepth[operations outstanding, 1 to 128 (default\: 1)]:N,N,...:"
  "--rwmixread[share of reads of the mirror\'s load (default\: 0)]:PERCENT:"
  "--runtime[duration of each measurement, such as 10, 10s, 500ms or 2m (default\: 2s)]:TIME:"
  "*--target-pid[process of a target on this machine, whose processor time is measured as well\; may be repeated]:PID:"
  "--force[overwrite the namespaces]"
  "--ignore-assumptions[also measure methods of which a target does not confirm what they assume]"
  "(*):a replica\: nvme\+rdma\:\/\/HOST\:PORT\/NQN:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_pmem_bench_replicas_defaults_added=0

_shtab_nvmeof_pmem_demo_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--records[approximate number of records to append, 30 to 20000 (default\: 3000)]:N:"
  "--runtime[duration of each measurement, such as 10, 10s, 500ms or 2m (default\: 1s)]:TIME:"
  "--rounds[measure the floor and the methods N times, in turn\; the round with the median latency counts (default\: 1)]:N:"
  {--bs,-z}"[sizes of one operation, 1 to 1MiB (default\: 4k)]:BYTES,...:"
  "--iodepth[operations outstanding, 1 to 128 (default\: 1)]:N,N,...:"
  "--device[the embedded device\; write-flush and write-flush-tail need roce (default\: iwarp)]:device:(iwarp roce)"
  "--dir[where the targets\' files are made\: on tmpfs, or on DAX (default\: \/dev\/shm)]:FOLDER:"
  "--report[also write the measurements to a page in Markdown]:FILE:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_pmem_demo_defaults_added=0

_shtab_nvmeof_read_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-b,--start-block}"[first logical block (default\: 0)]:LBA:"
  {-z,--data-size}"[size, such as 4096 or 1MiB (default\: to the end of the namespace)]:BYTES:"
  "-s[with a URL the first logical block, as in nvme-cli\; with -a the port of the target]:N:"
  "--blocks[number of logical blocks (default\: to the end of the namespace)]:N:"
  {-c,--block-count}"[the same, 0\'s based as in nvme-cli\: -c 0 is one block]:N:"
  {-d,--data}"[destination (default\: -, stdout)]:FILE:_files"
  {-f,--force-unit-access}"[set Force Unit Access (FUA) in each read]"
  {-t,--transport}"[only rdma is supported]:transport:"
  {-a,--traddr}"[address or name of the target]:HOST:"
  "--trsvcid[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: 2)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  "--reconnect-delay[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  "--ctrl-loss-tmo[seconds after which a lost controller is given up, -1 for never (default\: 600)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  "--latency[also print the time that it took\; with a URL also -t, as in nvme-cli]"
  {-p,--prinfo}"[must be 0]:N:"
  {-r,--ref-tag}"[must be 0]:N:"
  "--app-tag[must be 0]:N:"
  {-m,--app-tag-mask}"[must be 0]:N:"
  {-g,--storage-tag}"[must be 0]:N:"
  {-y,--metadata-size}"[must be 0]:N:"
  {-l,--limited-retry}"[no effect]"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_read_defaults_added=0

_shtab_nvmeof_replay_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--as[the side to play (default\: host)]:side:(host target)"
  "--once[with --as target\: end when the hosts have disconnected]"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  "--write[also play commands that change data\: the target\'s namespaces are overwritten]"
  "--connection[only connection N of nvmeof explain (default\: all)]:N:"
  ":the capture file:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_replay_defaults_added=0

_shtab_nvmeof_reset_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below)\; or a controller of the kernel, \/dev\/nvme0 or nvme0:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_reset_defaults_added=0

_shtab_nvmeof_resv_acquire_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-c,--crkey}"[the current key of this host (64 bits, not 0)]:KEY:"
  {-p,--prkey}"[the key of the registrants to preempt (64 bits, not 0)]:KEY:"
  "--rtype[1 write exclusive, 2 exclusive access, 3 write exclusive registrants only, 4 exclusive access registrants only, 5 write exclusive all registrants, 6 exclusive access all registrants]:TYPE:"
  "--racqa[0 acquire (default), 1 preempt, 2 preempt and abort]:N:(0 1 2)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-t,--transport}"[only rdma is supported]:transport:"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  "--nr-io-queues[number of I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  "--keep-alive-tmo[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  "--reconnect-delay[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[seconds after which a lost controller is given up, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_resv_acquire_defaults_added=0

_shtab_nvmeof_resv_register_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-c,--crkey}"[the current key of this host (64 bits, not 0)]:KEY:"
  {-k,--nrkey}"[the new key (64 bits, not 0)]:KEY:"
  {-r,--rrega}"[0 register (default), 1 unregister, 2 replace]:N:(0 1 2)"
  {-p,--cptpl}"[2\: does not persist across a restart of the target, 3\: persists]:N:(0 1 2 3)"
  {-i,--iekey}"[ignore the current key of this host]"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  "--nr-io-queues[number of I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  "--keep-alive-tmo[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  "--reconnect-delay[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[seconds after which a lost controller is given up, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_resv_register_defaults_added=0

_shtab_nvmeof_resv_release_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-c,--crkey}"[the current key of this host (64 bits, not 0)]:KEY:"
  "--rtype[1 write exclusive, 2 exclusive access, 3 write exclusive registrants only, 4 exclusive access registrants only, 5 write exclusive all registrants, 6 exclusive access all registrants]:TYPE:"
  "--rrela[0 release (default), 1 clear]:N:(0 1)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-t,--transport}"[only rdma is supported]:transport:"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  "--nr-io-queues[number of I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  "--keep-alive-tmo[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  "--reconnect-delay[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[seconds after which a lost controller is given up, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_resv_release_defaults_added=0

_shtab_nvmeof_resv_report_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json binary)"
  {-d,--numd}"[dwords to transfer, 16 for the reservation and 16 for each host (default\: as many as there are)]:N:"
  {-e,--eds}"[accepted as by nvme-cli\; the extended data structure is always requested, because host identifiers over fabrics have 128 bits]"
  {-b,--raw-binary}"[write the bytes to stdout]"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  "--nr-io-queues[number of I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  "--keep-alive-tmo[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  "--reconnect-delay[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[seconds after which a lost controller is given up, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_resv_report_defaults_added=0

_shtab_nvmeof_rpc_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--list[list all methods\; needs no running target]"
  ":name of a method:"
  ":parameters (default\: none):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_rpc_defaults_added=0

_shtab_nvmeof_set_feature_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*--verbose[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  {-f,--feature-id}"[feature]:FID:"
  {-N,--namespace-id}"[namespace, for features of namespaces (default\: 0)]:NSID:"
  {-V,--value}"[dword 11]:N:"
  "-v[the same, as in nvme-cli\; without a number, --verbose]:N:"
  {-c,--cdw12}"[dword 12 (default\: 0)]:N:"
  "--save[keep the value across resets, if the controller can\; with a URL also -s, as in nvme-cli]"
  {-d,--data}"[data structure of the feature, such as that of the timestamp (0x0e)\; - is stdin]:FILE:_files"
  {-l,--data-len}"[bytes to send of it (default\: all)]:BYTES:"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_set_feature_defaults_added=0

_shtab_nvmeof_show_hostnqn_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_show_hostnqn_defaults_added=0

_shtab_nvmeof_show_regs_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  {-H,--human-readable}"[accepted as by nvme-cli\; the output always has this form]"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_show_regs_defaults_added=0

_shtab_nvmeof_smart_log_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json binary)"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  {-N,--namespace-id}"[namespace (default\: all, 0xffffffff)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-b,--raw-binary}"[write the bytes to stdout]"
  {-H,--human-readable}"[accepted as by nvme-cli\; the output always has this form]"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_smart_log_defaults_added=0

_shtab_nvmeof_target_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_defaults_added=0

_shtab_nvmeof_target_ana_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_ana_defaults_added=0

_shtab_nvmeof_target_ana_set_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  {-a,--traddr}"[a numeric IPv4 or IPv6 address]:ADDRESS:"
  {-s,--trsvcid}"[port (default\: 4420)]:PORT:"
  {-g,--group}"[ana_group of the namespaces (default\: 1, the default of all namespaces)]:GROUP:"
  ":ANA state of the group on this port:(optimized non-optimized inaccessible persistent-loss change)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_ana_set_defaults_added=0

_shtab_nvmeof_target_clear_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_clear_defaults_added=0

_shtab_nvmeof_target_fault_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_fault_defaults_added=0

_shtab_nvmeof_target_fault_add_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--subsystem[NQN of the subsystem]:NQN:"
  "--nsid[the namespace]:NSID:"
  "--host[NQN of the host]:NQN:"
  "--traddr[the target\'s address\: a path]:ADDR:"
  "--trsvcid[the port number]:PORT:"
  "--queue[the queue\; 0\: the admin queue]:N:"
  "--admin[also commands of the admin queue]"
  "--commands[of read, write, flush, compare, verify, write-zeroes, dsm and copy, with commas]:LIST:"
  "--first-block[first block of a range\; flush, dsm and copy are in none]:LBA:"
  "--blocks[blocks of the range (default\: 1)]:N:"
  "--direction[wire\: direction of the frames (default\: both)]:direction:(both to-target to-host)"
  "--rate[probability, up to 1 (default\: 1)]:P:"
  "--after[matching commands that pass first]:N:"
  "--delay[the delay, or its mean, such as 500us, 2ms or 1s]:TIME:"
  "--distribution[distribution of the delay (default\: fixed)]:distribution:(fixed uniform normal exponential)"
  "--spread[uniform\: half the width\; normal\: the standard deviation]:TIME:"
  "--bandwidth[delay\: bytes per second of all matching commands, such as 100MiB]:SIZE:"
  "--status[error and torn\: an NVMe status (default\: Internal Error\; torn\: Write Fault)]:STATUS:"
  "--dnr[error, full and torn\: set Do Not Retry]"
  "--crash[torn\: end the connection instead of sending a response]"
  "--count[end after N affected commands]:N:"
  "--seconds[end after S seconds]:S:"
  "--seed[seed (default\: 0)]:N:"
  ":see above:(delay error full torn hang drop cut lost wire-delay wire-drop wire-duplicate wire-reorder wire-corrupt wire-cut wire-half-open wire-stall)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_fault_add_defaults_added=0

_shtab_nvmeof_target_fault_list_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_fault_list_defaults_added=0

_shtab_nvmeof_target_fault_remove_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--all[all active faults]"
  ":the fault:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_fault_remove_defaults_added=0

_shtab_nvmeof_target_host_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_host_defaults_added=0

_shtab_nvmeof_target_host_allow_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--any[every host\; the list of hosts is emptied]"
  "--dhchap-key[file with the host\'s key\: the host must authenticate]:FILE:_files"
  "--dhchap-key-credential[systemd credential with the key]:NAME:"
  "--dhchap-ctrl-key[file with the subsystem\'s key\: the host can request mutual authentication]:FILE:_files"
  "--dhchap-ctrl-key-credential[systemd credential with the key]:NAME:"
  ":the subsystem:_nvmeof_target_nqns"
  ":the host:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_host_allow_defaults_added=0

_shtab_nvmeof_target_host_remove_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--any[all hosts, if every host is allowed\: none may connect then]"
  ":the subsystem:_nvmeof_target_nqns"
  ":the host:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_host_remove_defaults_added=0

_shtab_nvmeof_target_host_set_keys_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--dhchap-key[file with the host\'s key\: the host must authenticate]:FILE:_files"
  "--dhchap-key-credential[systemd credential with the key]:NAME:"
  "--dhchap-ctrl-key[file with the subsystem\'s key\: the host can request mutual authentication]:FILE:_files"
  "--dhchap-ctrl-key-credential[systemd credential with the key]:NAME:"
  "--none[no keys\: the host may connect without authentication]"
  ":the subsystem:_nvmeof_target_nqns"
  ":the host:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_host_set_keys_defaults_added=0

_shtab_nvmeof_target_log_level_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  ":debug, info, warning or error (default\: only show the level):(debug info warning error)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_log_level_defaults_added=0

_shtab_nvmeof_target_ls_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_ls_defaults_added=0

_shtab_nvmeof_target_mirror_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_mirror_defaults_added=0

_shtab_nvmeof_target_mirror_add_leg_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--quorum[the new quorum (default\: as before, or more than half)]:N:"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
  ":file, block device or device DAX, pmem\:PATH for a file on DAX, ram\:SIZE, or URL of a subsystem of a different target, nvme\+rdma\:\/\/HOST\:PORT\/NQN, with \#NSID at its end if that is not 1:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_mirror_add_leg_defaults_added=0

_shtab_nvmeof_target_mirror_events_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  {-f,--follow}"[continue with new ones until interrupted]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_mirror_events_defaults_added=0

_shtab_nvmeof_target_mirror_remove_leg_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--quorum[the new quorum (default\: as before, or more than half)]:N:"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
  ":name of the leg, as target mirror show prints it, or its path or URL:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_mirror_remove_leg_defaults_added=0

_shtab_nvmeof_target_mirror_replace_leg_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
  ":name of the leg, as target mirror show prints it, or its path or URL:"
  ":the new leg\: file, block device or device DAX, pmem\:PATH for a file on DAX, ram\:SIZE, or URL of a subsystem of a different target, nvme\+rdma\:\/\/HOST\:PORT\/NQN, with \#NSID at its end if that is not 1:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_mirror_replace_leg_defaults_added=0

_shtab_nvmeof_target_mirror_resync_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_mirror_resync_defaults_added=0

_shtab_nvmeof_target_mirror_show_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_mirror_show_defaults_added=0

_shtab_nvmeof_target_namespace_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_defaults_added=0

_shtab_nvmeof_target_namespace_add_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  {-n,--namespace-id}"[namespace identifier (default\: the lowest free one)]:NSID:"
  "--store[RAM of the target, a file or block device, persistent memory, no storage, a store written in Python, or several copies of the data]:store:(ram file pmem null python mirror)"
  "--path[file or block device, for file and pmem]:FILE:_files"
  "--python[registered name of a store written in Python, for python]:NAME:"
  "*--option[keyword argument of the store\'s constructor\; a number, true or false is passed as such, \'\"1\"\' as a string\; may be repeated]:KEY=VALUE:"
  "*--leg[copy of the data, for mirror, twice or more\: file, block device or device DAX, pmem\:PATH for a file on DAX, ram\:SIZE, or URL of a subsystem of a different target, nvme\+rdma\:\/\/HOST\:PORT\/NQN, with \#NSID at its end if that is not 1]:LEG:"
  "--quorum[legs that must have a write, for mirror (default\: more than half)]:N:"
  "--resync-rate[bytes per second to copy at most while hosts use the mirror (default\: 32MiB)]:SIZE:"
  "--size[bytes, or 10GiB, for ram and null]:SIZE:"
  "--block-size[size of a logical block\: 512 or 4096]:BYTES:"
  "--read-only[hosts cannot write]"
  "--hotplug[follow the file or device at the path\: serve it only while it exists]"
  "--uuid[identifiers\; generated by default]:UUID:"
  "--nguid[32 hexadecimal digits]:HEX:"
  "--eui64[16 hexadecimal digits]:HEX:"
  "*--host[make it visible to this host only\; may be repeated]:NQN:"
  ":the subsystem:_nvmeof_target_nqns"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_add_defaults_added=0

_shtab_nvmeof_target_namespace_limit_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--read-iops[reads (Read, Compare, Verify) per second]:N:"
  "--write-iops[writes (Write, Write Zeroes, Copy) per second]:N:"
  "--iops[reads and writes per second]:N:"
  "--read-bandwidth[bytes read per second, such as 100MiB]:SIZE:"
  "--write-bandwidth[bytes written per second]:SIZE:"
  "--bandwidth[bytes read and written per second]:SIZE:"
  "--burst-ms[burst allowed after idle time, as milliseconds of each limit (default\: 100)]:MS:"
  "--clear[remove all limits]"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_limit_defaults_added=0

_shtab_nvmeof_target_namespace_mask_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--all[every host that may connect]"
  "--none[no host]"
  "*--host[only this host\; may be repeated]:NQN:"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_mask_defaults_added=0

_shtab_nvmeof_target_namespace_protect_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--force[do not ask for confirmation of permanent]"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
  ":none, protected, until-power-cycle, permanent (default\: protected):(none protected until-power-cycle permanent)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_protect_defaults_added=0

_shtab_nvmeof_target_namespace_remove_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_remove_defaults_added=0

_shtab_nvmeof_target_namespace_replace_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--store[RAM of the target, a file or block device, persistent memory, no storage, a store written in Python, or several copies of the data]:store:(ram file pmem null python mirror)"
  "--path[file or block device, for file and pmem]:FILE:_files"
  "--python[registered name of a store written in Python, for python]:NAME:"
  "*--option[keyword argument of the store\'s constructor\; a number, true or false is passed as such, \'\"1\"\' as a string\; may be repeated]:KEY=VALUE:"
  "*--leg[copy of the data, for mirror, twice or more\: file, block device or device DAX, pmem\:PATH for a file on DAX, ram\:SIZE, or URL of a subsystem of a different target, nvme\+rdma\:\/\/HOST\:PORT\/NQN, with \#NSID at its end if that is not 1]:LEG:"
  "--quorum[legs that must have a write, for mirror (default\: more than half)]:N:"
  "--resync-rate[bytes per second to copy at most while hosts use the mirror (default\: 32MiB)]:SIZE:"
  "--size[bytes, or 10GiB, for ram and null]:SIZE:"
  "--block-size[size of a logical block\: 512 or 4096]:BYTES:"
  "--read-only[hosts cannot write]"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_replace_defaults_added=0

_shtab_nvmeof_target_namespace_resize_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
  ":bytes, or 10GiB (default\: the current size of the file):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_resize_defaults_added=0

_shtab_nvmeof_target_port_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_port_defaults_added=0

_shtab_nvmeof_target_port_add_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  {-a,--traddr}"[a numeric IPv4 or IPv6 address]:ADDRESS:"
  {-s,--trsvcid}"[port (default\: 4420)]:PORT:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one has the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--hotplug[follow the device\: listen only while it exists\; requires a --device other than auto]"
  "--wire-faults[for tests\: with a relay, so that faults on the wire are possible (target fault add wire-drop)\; much slower, requires --device iwarp or roce]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_port_add_defaults_added=0

_shtab_nvmeof_target_port_remove_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  {-a,--traddr}"[a numeric IPv4 or IPv6 address]:ADDRESS:"
  {-s,--trsvcid}"[port (default\: 4420)]:PORT:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_port_remove_defaults_added=0

_shtab_nvmeof_target_reload_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_reload_defaults_added=0

_shtab_nvmeof_target_restore_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  ":the file, or - for stdin (default\: \/etc\/nvmet\/config.json, if it exists):_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_restore_defaults_added=0

_shtab_nvmeof_target_save_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--output[the same as FILE]:FILE:_files"
  "--force[write even if the file was changed after the target read it]"
  ":write to a different file\; - is stdout:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_save_defaults_added=0

_shtab_nvmeof_target_serve_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "*--ram[memory, such as 1GiB]:SIZE:"
  "*--file[file or block device]:PATH:_files"
  "*--pmem[persistent memory]:PATH:_files"
  "--python[store written in Python]:MODULE:CLASS:"
  "--option[for the --python before it\: keyword argument of the store\'s constructor\; a number, true or false is passed as such, \'\"1\"\' as a string\; may be repeated]:KEY=VALUE:"
  {-n,--nqn}"[NQN (default\: nqn.2026-01.example\:disk)]:NQN:_nvmeof_target_nqns"
  {-a,--traddr}"[address to listen on (default\: 127.0.0.1)]:ADDRESS:"
  {-s,--trsvcid}"[port (default\: 4420)]:PORT:"
  "--force[serve --ram even if it is more than this machine\'s memory]"
  "--allow-faults[allow faults on purpose (target fault), as allow_faults in \[target\]]"
  "--rpc-socket[administration socket (default\: socket in \[rpc\], or target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--log-level[minimum level of log messages (default\: info)]:log_level:(debug info warning error)"
  "--log-format[log format\: one message per line, or one JSON object per line (timestamp, level, peer, hostnqn, subnqn, cntlid, qid, status), or the same fields in systemd\'s journal (default\: text, or journal if stderr is connected to it)]:log_format:(text json journal)"
  ":a TOML file, or - for stdin\; see config check (default\: the options below):_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_serve_defaults_added=0

_shtab_nvmeof_target_shell_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "(*)::a command to run, with its path and arguments (default\: read commands):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_shell_defaults_added=0

_shtab_nvmeof_target_stats_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_stats_defaults_added=0

_shtab_nvmeof_target_subsystem_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_subsystem_defaults_added=0

_shtab_nvmeof_target_subsystem_add_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--serial[serial number (default\: derived from the NQN)]:TEXT:"
  "--model[model number]:TEXT:"
  "--max-namespaces[the highest NSID (32)]:N:"
  "--allow-any-host[every host may connect]"
  "*--host[a host that may connect\; may be repeated]:NQN:"
  ":NQN of the subsystem:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_subsystem_add_defaults_added=0

_shtab_nvmeof_target_subsystem_remove_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  ":NQN of the subsystem:_nvmeof_target_nqns"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_subsystem_remove_defaults_added=0

_shtab_nvmeof_top_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[administration socket of the target (default\: target.sock in \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  {-d,--delay}"[interval between two readings (default\: 2)]:SECONDS:"
  {-n,--iterations}"[stop after N readings (default\: never)]:COUNT:"
  "--sort[sort key (default\: iops)]:sort:(iops bytes outstanding errors)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_top_defaults_added=0

_shtab_nvmeof_verbs_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  "--device[the embedded device (default\: iwarp)]:device:(iwarp roce)"
  "(-)*::a program with its arguments\; options of nvmeof verbs come before it:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_verbs_defaults_added=0

_shtab_nvmeof_verify_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-b,--start-block}"[first logical block (default\: 0)]:LBA:"
  "-s[with a URL the first logical block, as in nvme-cli\; with -a the port of the target]:N:"
  "--blocks[number of logical blocks (default\: 1)]:N:"
  {-c,--block-count}"[the same, 0\'s based as in nvme-cli\: -c 0 is one block]:N:"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  "--trsvcid[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  "--reconnect-delay[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  "--ctrl-loss-tmo[seconds after which a lost controller is given up, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  {-f,--force-unit-access}"[set Force Unit Access (FUA) in the command\: blocks are made stable first]"
  {-p,--prinfo}"[must be 0]:N:"
  {-r,--ref-tag}"[must be 0]:N:"
  "--app-tag[must be 0]:N:"
  {-m,--app-tag-mask}"[must be 0]:N:"
  {-g,--storage-tag}"[must be 0]:N:"
  {-y,--metadata-size}"[must be 0]:N:"
  {-l,--limited-retry}"[no effect]"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_verify_defaults_added=0

_shtab_nvmeof_write_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-b,--start-block}"[first logical block (default\: 0)]:LBA:"
  {-z,--data-size}"[size, such as 4096 or 1MiB (default\: all of the input)]:BYTES:"
  "-s[with a URL the first logical block, as in nvme-cli\; with -a the port of the target]:N:"
  "--blocks[number of logical blocks (default\: all of the input)]:N:"
  {-c,--block-count}"[the same, 0\'s based as in nvme-cli\: -c 0 is one block]:N:"
  {-d,--data}"[source (default\: -, stdin)]:FILE:_files"
  {-f,--force-unit-access}"[set Force Unit Access (FUA) in each write]"
  "--pad[pad an incomplete last block with zeroes]"
  "--no-flush[do not flush at the end]"
  {-t,--transport}"[only rdma is supported]:transport:"
  {-a,--traddr}"[address or name of the target]:HOST:"
  "--trsvcid[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: 2)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  "--reconnect-delay[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  "--ctrl-loss-tmo[seconds after which a lost controller is given up, -1 for never (default\: 600)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  "--latency[also print the time that it took\; with a URL also -t, as in nvme-cli]"
  {-p,--prinfo}"[must be 0]:N:"
  {-r,--ref-tag}"[must be 0]:N:"
  "--app-tag[must be 0]:N:"
  {-m,--app-tag-mask}"[must be 0]:N:"
  {-g,--storage-tag}"[must be 0]:N:"
  {-y,--metadata-size}"[must be 0]:N:"
  {-l,--limited-retry}"[no effect]"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_write_defaults_added=0

_shtab_nvmeof_write_uncor_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-b,--start-block}"[first logical block (default\: 0)]:LBA:"
  "-s[with a URL the first logical block, as in nvme-cli\; with -a the port of the target]:N:"
  "--blocks[number of logical blocks (default\: 1)]:N:"
  {-c,--block-count}"[the same, 0\'s based as in nvme-cli\: -c 0 is one block]:N:"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  "--trsvcid[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  "--reconnect-delay[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  "--ctrl-loss-tmo[seconds after which a lost controller is given up, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_write_uncor_defaults_added=0

_shtab_nvmeof_write_zeroes_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "*"{-v,--verbose}"[show more, such as connections, retries and failed commands (-vv\: everything)]"
  {-o,--output-format}"[output format (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)\; with a URL also -n, as in nvme-cli]:NSID:"
  {-b,--start-block}"[first logical block (default\: 0)]:LBA:"
  "-s[with a URL the first logical block, as in nvme-cli\; with -a the port of the target]:N:"
  "--blocks[number of logical blocks (default\: 1)]:N:"
  {-c,--block-count}"[the same, 0\'s based as in nvme-cli\: -c 0 is one block]:N:"
  {-t,--transport}"[only rdma is supported]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  "--trsvcid[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[an embedded device (iwarp, roce), a libibverbs device (system), or a system device if one reaches the address, else iwarp (default\: auto)]:device:(auto iwarp roce system)"
  "--remote-keys[memory that the target can access\: the data of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host, a UUID (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[number of I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[entries per I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout in seconds, 0 for none (default\: 5)]:SECONDS:"
  "--reconnect-delay[seconds between attempts to reconnect (default\: 10)]:SECONDS:"
  "--ctrl-loss-tmo[seconds after which a lost controller is given up, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[timeout of an I\/O command in seconds (default\: 30)]:SECONDS:"
  "--disable-sqflow[disable SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, in the format of gen-dhchap-key]:KEY:"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key, to authenticate the controller too, in the format of gen-dhchap-key]:KEY:"
  "--dhchap-secret-file[file with this host\'s key]:FILE:_files"
  "--dhchap-ctrl-secret-file[file with the controller\'s key]:FILE:_files"
  {-d,--deac}"[allow the target to deallocate the blocks]"
  {-f,--force-unit-access}"[set Force Unit Access (FUA) in the command]"
  {-p,--prinfo}"[must be 0]:N:"
  {-r,--ref-tag}"[must be 0]:N:"
  "--app-tag[must be 0]:N:"
  {-m,--app-tag-mask}"[must be 0]:N:"
  {-g,--storage-tag}"[must be 0]:N:"
  {-y,--metadata-size}"[must be 0]:N:"
  {-l,--limited-retry}"[no effect]"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, instead of the flags (options\: see below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_write_zeroes_defaults_added=0


_shtab_nvmeof() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->nvmeof'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_nvmeof_defaults_added )); then
    if (( ${_shtab_nvmeof_options[(I)${(q)one_or_more}*]} +          ${_shtab_nvmeof_options[(I)${(q)remainder}*]} +          ${_shtab_nvmeof_options[(I)${(q)default}]} == 0 )); then
      _shtab_nvmeof_options+=(': :_shtab_nvmeof_commands' '*::: :->nvmeof')
    fi
    _shtab_nvmeof_defaults_added=1
  fi
  _arguments -C -s $_shtab_nvmeof_options

  case $state in
    nvmeof)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_nvmeof-$line[1]:"
      case $line[1] in
        ana-log) _arguments -C -s $_shtab_nvmeof_ana_log_options ;;
        bench) _arguments -C -s $_shtab_nvmeof_bench_options ;;
        capture) _arguments -C -s $_shtab_nvmeof_capture_options ;;
        changed-ns-list-log) _arguments -C -s $_shtab_nvmeof_changed_ns_list_log_options ;;
        check-dhchap-key) _arguments -C -s $_shtab_nvmeof_check_dhchap_key_options ;;
        compare) _arguments -C -s $_shtab_nvmeof_compare_options ;;
        compare-and-write) _arguments -C -s $_shtab_nvmeof_compare_and_write_options ;;
        completion) _arguments -C -s $_shtab_nvmeof_completion_options ;;
        config) _shtab_nvmeof_config ;;
        connect) _arguments -C -s $_shtab_nvmeof_connect_options ;;
        connect-all) _arguments -C -s $_shtab_nvmeof_connect_all_options ;;
        copy) _arguments -C -s $_shtab_nvmeof_copy_options ;;
        devices) _arguments -C -s $_shtab_nvmeof_devices_options ;;
        disconnect) _arguments -C -s $_shtab_nvmeof_disconnect_options ;;
        disconnect-all) _arguments -C -s $_shtab_nvmeof_disconnect_all_options ;;
        discover) _arguments -C -s $_shtab_nvmeof_discover_options ;;
        doctor) _arguments -C -s $_shtab_nvmeof_doctor_options ;;
        dsm) _arguments -C -s $_shtab_nvmeof_dsm_options ;;
        error-log) _arguments -C -s $_shtab_nvmeof_error_log_options ;;
        explain) _arguments -C -s $_shtab_nvmeof_explain_options ;;
        fio-engine) _shtab_nvmeof_fio_engine ;;
        flush) _arguments -C -s $_shtab_nvmeof_flush_options ;;
        gen-dhchap-key) _arguments -C -s $_shtab_nvmeof_gen_dhchap_key_options ;;
        gen-hostnqn) _arguments -C -s $_shtab_nvmeof_gen_hostnqn_options ;;
        get-feature) _arguments -C -s $_shtab_nvmeof_get_feature_options ;;
        get-log) _arguments -C -s $_shtab_nvmeof_get_log_options ;;
        id-ctrl) _arguments -C -s $_shtab_nvmeof_id_ctrl_options ;;
        id-ns) _arguments -C -s $_shtab_nvmeof_id_ns_options ;;
        lab) _shtab_nvmeof_lab ;;
        list) _arguments -C -s $_shtab_nvmeof_list_options ;;
        list-ns) _arguments -C -s $_shtab_nvmeof_list_ns_options ;;
        list-subsys) _arguments -C -s $_shtab_nvmeof_list_subsys_options ;;
        pmem) _shtab_nvmeof_pmem ;;
        read) _arguments -C -s $_shtab_nvmeof_read_options ;;
        replay) _arguments -C -s $_shtab_nvmeof_replay_options ;;
        reset) _arguments -C -s $_shtab_nvmeof_reset_options ;;
        resv-acquire) _arguments -C -s $_shtab_nvmeof_resv_acquire_options ;;
        resv-register) _arguments -C -s $_shtab_nvmeof_resv_register_options ;;
        resv-release) _arguments -C -s $_shtab_nvmeof_resv_release_options ;;
        resv-report) _arguments -C -s $_shtab_nvmeof_resv_report_options ;;
        rpc) _arguments -C -s $_shtab_nvmeof_rpc_options ;;
        set-feature) _arguments -C -s $_shtab_nvmeof_set_feature_options ;;
        show-hostnqn) _arguments -C -s $_shtab_nvmeof_show_hostnqn_options ;;
        show-regs) _arguments -C -s $_shtab_nvmeof_show_regs_options ;;
        smart-log) _arguments -C -s $_shtab_nvmeof_smart_log_options ;;
        target) _shtab_nvmeof_target ;;
        top) _arguments -C -s $_shtab_nvmeof_top_options ;;
        verbs) _arguments -C -s $_shtab_nvmeof_verbs_options ;;
        verify) _arguments -C -s $_shtab_nvmeof_verify_options ;;
        write) _arguments -C -s $_shtab_nvmeof_write_options ;;
        write-uncor) _arguments -C -s $_shtab_nvmeof_write_uncor_options ;;
        write-zeroes) _arguments -C -s $_shtab_nvmeof_write_zeroes_options ;;
      esac
  esac
}

_shtab_nvmeof_config() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->config'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_nvmeof_config_defaults_added )); then
    if (( ${_shtab_nvmeof_config_options[(I)${(q)one_or_more}*]} +          ${_shtab_nvmeof_config_options[(I)${(q)remainder}*]} +          ${_shtab_nvmeof_config_options[(I)${(q)default}]} == 0 )); then
      _shtab_nvmeof_config_options+=(': :_shtab_nvmeof_config_commands' '*::: :->config')
    fi
    _shtab_nvmeof_config_defaults_added=1
  fi
  _arguments -C -s $_shtab_nvmeof_config_options

  case $state in
    config)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_nvmeof_config-$line[1]:"
      case $line[1] in
        check) _arguments -C -s $_shtab_nvmeof_config_check_options ;;
        export) _arguments -C -s $_shtab_nvmeof_config_export_options ;;
        import) _arguments -C -s $_shtab_nvmeof_config_import_options ;;
        schema) _arguments -C -s $_shtab_nvmeof_config_schema_options ;;
      esac
  esac
}

_shtab_nvmeof_fio_engine() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->fio-engine'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_nvmeof_fio_engine_defaults_added )); then
    if (( ${_shtab_nvmeof_fio_engine_options[(I)${(q)one_or_more}*]} +          ${_shtab_nvmeof_fio_engine_options[(I)${(q)remainder}*]} +          ${_shtab_nvmeof_fio_engine_options[(I)${(q)default}]} == 0 )); then
      _shtab_nvmeof_fio_engine_options+=(': :_shtab_nvmeof_fio_engine_commands' '*::: :->fio-engine')
    fi
    _shtab_nvmeof_fio_engine_defaults_added=1
  fi
  _arguments -C -s $_shtab_nvmeof_fio_engine_options

  case $state in
    fio-engine)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_nvmeof_fio_engine-$line[1]:"
      case $line[1] in
        build) _arguments -C -s $_shtab_nvmeof_fio_engine_build_options ;;
        path) _arguments -C -s $_shtab_nvmeof_fio_engine_path_options ;;
      esac
  esac
}

_shtab_nvmeof_lab() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->lab'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_nvmeof_lab_defaults_added )); then
    if (( ${_shtab_nvmeof_lab_options[(I)${(q)one_or_more}*]} +          ${_shtab_nvmeof_lab_options[(I)${(q)remainder}*]} +          ${_shtab_nvmeof_lab_options[(I)${(q)default}]} == 0 )); then
      _shtab_nvmeof_lab_options+=(': :_shtab_nvmeof_lab_commands' '*::: :->lab')
    fi
    _shtab_nvmeof_lab_defaults_added=1
  fi
  _arguments -C -s $_shtab_nvmeof_lab_options

  case $state in
    lab)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_nvmeof_lab-$line[1]:"
      case $line[1] in
        check) _arguments -C -s $_shtab_nvmeof_lab_check_options ;;
        compare) _arguments -C -s $_shtab_nvmeof_lab_compare_options ;;
        export) _arguments -C -s $_shtab_nvmeof_lab_export_options ;;
        profiles) _arguments -C -s $_shtab_nvmeof_lab_profiles_options ;;
        report) _arguments -C -s $_shtab_nvmeof_lab_report_options ;;
        run) _arguments -C -s $_shtab_nvmeof_lab_run_options ;;
        schema) _arguments -C -s $_shtab_nvmeof_lab_schema_options ;;
      esac
  esac
}

_shtab_nvmeof_pmem() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->pmem'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_nvmeof_pmem_defaults_added )); then
    if (( ${_shtab_nvmeof_pmem_options[(I)${(q)one_or_more}*]} +          ${_shtab_nvmeof_pmem_options[(I)${(q)remainder}*]} +          ${_shtab_nvmeof_pmem_options[(I)${(q)default}]} == 0 )); then
      _shtab_nvmeof_pmem_options+=(': :_shtab_nvmeof_pmem_commands' '*::: :->pmem')
    fi
    _shtab_nvmeof_pmem_defaults_added=1
  fi
  _arguments -C -s $_shtab_nvmeof_pmem_options

  case $state in
    pmem)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_nvmeof_pmem-$line[1]:"
      case $line[1] in
        bench) _arguments -C -s $_shtab_nvmeof_pmem_bench_options ;;
        bench-replicas) _arguments -C -s $_shtab_nvmeof_pmem_bench_replicas_options ;;
        demo) _arguments -C -s $_shtab_nvmeof_pmem_demo_options ;;
      esac
  esac
}

_shtab_nvmeof_target() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->target'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_nvmeof_target_defaults_added )); then
    if (( ${_shtab_nvmeof_target_options[(I)${(q)one_or_more}*]} +          ${_shtab_nvmeof_target_options[(I)${(q)remainder}*]} +          ${_shtab_nvmeof_target_options[(I)${(q)default}]} == 0 )); then
      _shtab_nvmeof_target_options+=(': :_shtab_nvmeof_target_commands' '*::: :->target')
    fi
    _shtab_nvmeof_target_defaults_added=1
  fi
  _arguments -C -s $_shtab_nvmeof_target_options

  case $state in
    target)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_nvmeof_target-$line[1]:"
      case $line[1] in
        ana) _shtab_nvmeof_target_ana ;;
        clear) _arguments -C -s $_shtab_nvmeof_target_clear_options ;;
        fault) _shtab_nvmeof_target_fault ;;
        host) _shtab_nvmeof_target_host ;;
        log-level) _arguments -C -s $_shtab_nvmeof_target_log_level_options ;;
        ls) _arguments -C -s $_shtab_nvmeof_target_ls_options ;;
        mirror) _shtab_nvmeof_target_mirror ;;
        namespace) _shtab_nvmeof_target_namespace ;;
        port) _shtab_nvmeof_target_port ;;
        reload) _arguments -C -s $_shtab_nvmeof_target_reload_options ;;
        restore) _arguments -C -s $_shtab_nvmeof_target_restore_options ;;
        save) _arguments -C -s $_shtab_nvmeof_target_save_options ;;
        serve) _arguments -C -s $_shtab_nvmeof_target_serve_options ;;
        shell) _arguments -C -s $_shtab_nvmeof_target_shell_options ;;
        stats) _arguments -C -s $_shtab_nvmeof_target_stats_options ;;
        subsystem) _shtab_nvmeof_target_subsystem ;;
      esac
  esac
}

_shtab_nvmeof_target_ana() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->ana'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_nvmeof_target_ana_defaults_added )); then
    if (( ${_shtab_nvmeof_target_ana_options[(I)${(q)one_or_more}*]} +          ${_shtab_nvmeof_target_ana_options[(I)${(q)remainder}*]} +          ${_shtab_nvmeof_target_ana_options[(I)${(q)default}]} == 0 )); then
      _shtab_nvmeof_target_ana_options+=(': :_shtab_nvmeof_target_ana_commands' '*::: :->ana')
    fi
    _shtab_nvmeof_target_ana_defaults_added=1
  fi
  _arguments -C -s $_shtab_nvmeof_target_ana_options

  case $state in
    ana)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_nvmeof_target_ana-$line[1]:"
      case $line[1] in
        set) _arguments -C -s $_shtab_nvmeof_target_ana_set_options ;;
      esac
  esac
}

_shtab_nvmeof_target_fault() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->fault'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_nvmeof_target_fault_defaults_added )); then
    if (( ${_shtab_nvmeof_target_fault_options[(I)${(q)one_or_more}*]} +          ${_shtab_nvmeof_target_fault_options[(I)${(q)remainder}*]} +          ${_shtab_nvmeof_target_fault_options[(I)${(q)default}]} == 0 )); then
      _shtab_nvmeof_target_fault_options+=(': :_shtab_nvmeof_target_fault_commands' '*::: :->fault')
    fi
    _shtab_nvmeof_target_fault_defaults_added=1
  fi
  _arguments -C -s $_shtab_nvmeof_target_fault_options

  case $state in
    fault)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_nvmeof_target_fault-$line[1]:"
      case $line[1] in
        add) _arguments -C -s $_shtab_nvmeof_target_fault_add_options ;;
        list) _arguments -C -s $_shtab_nvmeof_target_fault_list_options ;;
        remove) _arguments -C -s $_shtab_nvmeof_target_fault_remove_options ;;
      esac
  esac
}

_shtab_nvmeof_target_host() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->host'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_nvmeof_target_host_defaults_added )); then
    if (( ${_shtab_nvmeof_target_host_options[(I)${(q)one_or_more}*]} +          ${_shtab_nvmeof_target_host_options[(I)${(q)remainder}*]} +          ${_shtab_nvmeof_target_host_options[(I)${(q)default}]} == 0 )); then
      _shtab_nvmeof_target_host_options+=(': :_shtab_nvmeof_target_host_commands' '*::: :->host')
    fi
    _shtab_nvmeof_target_host_defaults_added=1
  fi
  _arguments -C -s $_shtab_nvmeof_target_host_options

  case $state in
    host)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_nvmeof_target_host-$line[1]:"
      case $line[1] in
        allow) _arguments -C -s $_shtab_nvmeof_target_host_allow_options ;;
        remove) _arguments -C -s $_shtab_nvmeof_target_host_remove_options ;;
        set-keys) _arguments -C -s $_shtab_nvmeof_target_host_set_keys_options ;;
      esac
  esac
}

_shtab_nvmeof_target_mirror() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->mirror'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_nvmeof_target_mirror_defaults_added )); then
    if (( ${_shtab_nvmeof_target_mirror_options[(I)${(q)one_or_more}*]} +          ${_shtab_nvmeof_target_mirror_options[(I)${(q)remainder}*]} +          ${_shtab_nvmeof_target_mirror_options[(I)${(q)default}]} == 0 )); then
      _shtab_nvmeof_target_mirror_options+=(': :_shtab_nvmeof_target_mirror_commands' '*::: :->mirror')
    fi
    _shtab_nvmeof_target_mirror_defaults_added=1
  fi
  _arguments -C -s $_shtab_nvmeof_target_mirror_options

  case $state in
    mirror)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_nvmeof_target_mirror-$line[1]:"
      case $line[1] in
        add-leg) _arguments -C -s $_shtab_nvmeof_target_mirror_add_leg_options ;;
        events) _arguments -C -s $_shtab_nvmeof_target_mirror_events_options ;;
        remove-leg) _arguments -C -s $_shtab_nvmeof_target_mirror_remove_leg_options ;;
        replace-leg) _arguments -C -s $_shtab_nvmeof_target_mirror_replace_leg_options ;;
        resync) _arguments -C -s $_shtab_nvmeof_target_mirror_resync_options ;;
        show) _arguments -C -s $_shtab_nvmeof_target_mirror_show_options ;;
      esac
  esac
}

_shtab_nvmeof_target_namespace() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->namespace'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_nvmeof_target_namespace_defaults_added )); then
    if (( ${_shtab_nvmeof_target_namespace_options[(I)${(q)one_or_more}*]} +          ${_shtab_nvmeof_target_namespace_options[(I)${(q)remainder}*]} +          ${_shtab_nvmeof_target_namespace_options[(I)${(q)default}]} == 0 )); then
      _shtab_nvmeof_target_namespace_options+=(': :_shtab_nvmeof_target_namespace_commands' '*::: :->namespace')
    fi
    _shtab_nvmeof_target_namespace_defaults_added=1
  fi
  _arguments -C -s $_shtab_nvmeof_target_namespace_options

  case $state in
    namespace)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_nvmeof_target_namespace-$line[1]:"
      case $line[1] in
        add) _arguments -C -s $_shtab_nvmeof_target_namespace_add_options ;;
        limit) _arguments -C -s $_shtab_nvmeof_target_namespace_limit_options ;;
        mask) _arguments -C -s $_shtab_nvmeof_target_namespace_mask_options ;;
        protect) _arguments -C -s $_shtab_nvmeof_target_namespace_protect_options ;;
        remove) _arguments -C -s $_shtab_nvmeof_target_namespace_remove_options ;;
        replace) _arguments -C -s $_shtab_nvmeof_target_namespace_replace_options ;;
        resize) _arguments -C -s $_shtab_nvmeof_target_namespace_resize_options ;;
      esac
  esac
}

_shtab_nvmeof_target_port() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->port'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_nvmeof_target_port_defaults_added )); then
    if (( ${_shtab_nvmeof_target_port_options[(I)${(q)one_or_more}*]} +          ${_shtab_nvmeof_target_port_options[(I)${(q)remainder}*]} +          ${_shtab_nvmeof_target_port_options[(I)${(q)default}]} == 0 )); then
      _shtab_nvmeof_target_port_options+=(': :_shtab_nvmeof_target_port_commands' '*::: :->port')
    fi
    _shtab_nvmeof_target_port_defaults_added=1
  fi
  _arguments -C -s $_shtab_nvmeof_target_port_options

  case $state in
    port)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_nvmeof_target_port-$line[1]:"
      case $line[1] in
        add) _arguments -C -s $_shtab_nvmeof_target_port_add_options ;;
        remove) _arguments -C -s $_shtab_nvmeof_target_port_remove_options ;;
      esac
  esac
}

_shtab_nvmeof_target_subsystem() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->subsystem'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_nvmeof_target_subsystem_defaults_added )); then
    if (( ${_shtab_nvmeof_target_subsystem_options[(I)${(q)one_or_more}*]} +          ${_shtab_nvmeof_target_subsystem_options[(I)${(q)remainder}*]} +          ${_shtab_nvmeof_target_subsystem_options[(I)${(q)default}]} == 0 )); then
      _shtab_nvmeof_target_subsystem_options+=(': :_shtab_nvmeof_target_subsystem_commands' '*::: :->subsystem')
    fi
    _shtab_nvmeof_target_subsystem_defaults_added=1
  fi
  _arguments -C -s $_shtab_nvmeof_target_subsystem_options

  case $state in
    subsystem)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_nvmeof_target_subsystem-$line[1]:"
      case $line[1] in
        add) _arguments -C -s $_shtab_nvmeof_target_subsystem_add_options ;;
        remove) _arguments -C -s $_shtab_nvmeof_target_subsystem_remove_options ;;
      esac
  esac
}

# Custom Preamble
# Candidates: subsystems and controllers of the kernel, subsystems of a running target.
_nvmeof_kernel_nqns() {
  compadd "$@" -- ${(f)"$(cat /sys/class/nvme-subsystem/*/subsysnqn(N) </dev/null 2>/dev/null)"}
}
_nvmeof_controllers() { compadd "$@" -- /sys/class/nvme/*(N:t) }
_nvmeof_target_nqns() {
  compadd "$@" -- ${(f)"$(nvmeof target ls 2>/dev/null | sed -n 's/^subsystem \([^ ]*\).*/\1/p')"}
}
# End Custom Preamble


typeset -A opt_args

if [[ $zsh_eval_context[-1] == eval ]]; then
  # eval/source/. command, register function for later
  compdef _shtab_nvmeof -N nvmeof
else
  # autoload from fpath, call function directly
  _shtab_nvmeof "$@"
fi
