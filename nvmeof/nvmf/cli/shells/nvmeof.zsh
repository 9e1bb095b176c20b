#compdef nvmeof
# SPDX-License-Identifier: BSD-3-Clause
# Completion of nvmeof: written by ./dev manual with shtab; what is changed here is lost.


_shtab_nvmeof_commands() {
  local _commands=(
    bench:'Measure a namespace: IOPS, bytes a second, latency.'
    check-dhchap-key:'Check a key of in-band authentication.'
    compare-and-write:'Write a block if it is as expected, as one.'
    completion:'Print the script by which a shell completes the arguments of nvmeof.'
    config:'Check a target'"'"'s configuration, or convert it.'
    connect:'Connect the kernel to a subsystem, and wait for its block devices.'
    connect-all:'Connect the kernel to all that a port offers to this host, referrals followed.'
    devices:'List RDMA devices with their ports, GIDs and capabilities.'
    disconnect:'Disconnect the kernel from a subsystem.'
    disconnect-all:'Disconnect the kernel from all that it is connected to over a fabric.'
    discover:'List the subsystems that a port offers to this host.'
    doctor:'Look at the machine for what keeps a target or a host from working, and say the remedy.'
    flush:'Make what was written to a namespace stable.'
    gen-dhchap-key:'Make a key for in-band authentication (DH-HMAC-CHAP).'
    id-ctrl:'Show what the controller says of itself (Identify Controller).'
    id-ns:'Show what the controller says of a namespace (Identify Namespace).'
    list:'List the NVMe block devices of this machine.'
    list-ns:'List the active namespaces.'
    list-subsys:'List the NVMe subsystems that the kernel is connected to, and their controllers.'
    read:'Copy blocks of a namespace to a file or to stdout.'
    resv-acquire:'Reserve a namespace, or preempt a holder.'
    resv-register:'Register this host'"'"'s reservation key.'
    resv-release:'Give a reservation up, or clear all.'
    resv-report:'List who is registered and what is reserved.'
    target:'Run a target in the foreground, or administer one that runs, while hosts are connected.'
    top:'Watch what hosts, queues and namespaces of a running target do.'
    write:'Copy a file or stdin to blocks of a namespace, and flush.'
    write-uncor:'Mark blocks as invalid, so that reading them fails.'
  )
  _describe 'nvmeof commands' _commands
}

_shtab_nvmeof_config_commands() {
  local _commands=(
    check:'Check a configuration file without serving it.'
    export:'Make nvmetcli'"'"'s file of a configuration.'
    import:'Make a configuration of nvmetcli'"'"'s file.'
    schema:'Print the JSON schema of configurations.'
  )
  _describe 'nvmeof config commands' _commands
}

_shtab_nvmeof_target_commands() {
  local _commands=(
    ana:'Steer hosts to one port or another (ANA).'
    host:'Say who may connect to a subsystem.'
    ls:'Show ports, subsystems, namespaces, hosts and who is connected.'
    namespace:'Add, remove, resize, replace, mask, protect and limit namespaces.'
    port:'Open and close ports.'
    reload:'Let a target read its configuration file again.'
    save:'Write the configuration in force back to its file.'
    serve:'Serve what a configuration describes, until SIGINT or SIGTERM.'
    stats:'Show counters of reactors and namespaces.'
    subsystem:'Add and remove subsystems.'
  )
  _describe 'nvmeof target commands' _commands
}

_shtab_nvmeof_target_ana_commands() {
  local _commands=(
    set:'Set what a port does for a group of namespaces.'
  )
  _describe 'nvmeof target ana commands' _commands
}

_shtab_nvmeof_target_host_commands() {
  local _commands=(
    allow:'Let a host connect.'
    remove:'Let a host connect no more, and disconnect it.'
    set-keys:'Give a host other keys.'
  )
  _describe 'nvmeof target host commands' _commands
}

_shtab_nvmeof_target_namespace_commands() {
  local _commands=(
    add:'Add a namespace: connected hosts see it at once.'
    limit:'Limit how much of a namespace all hosts together may use, or show the limits.'
    mask:'Say which hosts see a namespace.'
    protect:'Let nobody write to a namespace, or end that.'
    remove:'Remove a namespace.'
    replace:'Put another store behind a namespace.'
    resize:'Tell hosts of another size.'
  )
  _describe 'nvmeof target namespace commands' _commands
}

_shtab_nvmeof_target_port_commands() {
  local _commands=(
    add:'Listen on an address too.'
    remove:'Listen there no more, and disconnect who came by it.'
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
  "--version[say which version this is]"
  "*"{-v,--verbose}"[say more\; twice\: all]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_defaults_added=0

_shtab_nvmeof_bench_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)]:NSID:"
  "--rw[the load (default\: randread)]:rw:(read write randread randwrite)"
  {-z,--data-size}"[of one command (default\: 4096)]:BYTES:"
  "--read-percent[mix\: this share of reads, 0 to 100 (default\: what --rw says)]:N:"
  "--runtime[how long (default\: 5)]:SECONDS:"
  "--threads[that poll the queues (default\: one for each, but one less than there are CPUs)]:N:"
  "--cpu[pin the first thread to this CPU, the others to those after it]:N:"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[the embedded device (iwarp), one of libibverbs (system), or a system device where it reaches the address (default\: auto)]:device:(auto iwarp system)"
  "--remote-keys[what the target may reach\: the bytes of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-i,--nr-io-queues}"[I\/O queues (default\: 1)]:N:"
  {-Q,--queue-size}"[commands outstanding on each (default\: 32)]:N:"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags (options\: below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_bench_defaults_added=0

_shtab_nvmeof_check_dhchap_key_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-k,--key}"[DHHC-1\:HH\:BASE64\:]:KEY:"
  {-f,--key-file}"[the same, in a file]:FILE:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_check_dhchap_key_defaults_added=0

_shtab_nvmeof_compare_and_write_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)]:NSID:"
  {-b,--start-block}"[first logical block (default\: 0)]:LBA:"
  "--expected[what the block has to be]:FILE:_files"
  {-d,--data}"[what to write]:FILE:_files"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[the embedded device (iwarp), one of libibverbs (system), or a system device where it reaches the address (default\: auto)]:device:(auto iwarp system)"
  "--remote-keys[what the target may reach\: the bytes of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:HOST:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues to ask for (default\: 1)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[of an I\/O command (default\: 30)]:SECONDS:"
  "--disable-sqflow[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags (options\: below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_compare_and_write_defaults_added=0

_shtab_nvmeof_completion_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  ":the shell that reads the script:(bash zsh fish)"
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
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  ":a TOML file:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_config_check_defaults_added=0

_shtab_nvmeof_config_export_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  ":a TOML file:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_config_export_defaults_added=0

_shtab_nvmeof_config_import_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  ":JSON of nvmetcli save, or - for stdin:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_config_import_defaults_added=0

_shtab_nvmeof_config_schema_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_config_schema_defaults_added=0

_shtab_nvmeof_connect_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues (default\: one a CPU)]:N:"
  {-W,--nr-write-queues}"[queues for writes alone, beside those (default\: none)]:N:"
  {-P,--nr-poll-queues}"[queues that are polled (default\: none)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 600)]:SECONDS:"
  {-F,--fast-io-fail-tmo,--fast_io_fail_tmo}"[fail I\/O of a lost controller after this time, -1 for never (default\: -1)]:SECONDS:"
  {-T,--tos}"[type of service of the connections, 0 to 255]:TOS:"
  {-D,--duplicate-connect}"[connect although this host is connected there already]"
  {-d,--disable-sqflow}"[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_connect_defaults_added=0

_shtab_nvmeof_connect_all_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-w,--host-traddr}"[source address]:ADDRESS:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues (default\: one a CPU)]:N:"
  {-W,--nr-write-queues}"[queues for writes alone, beside those (default\: none)]:N:"
  {-P,--nr-poll-queues}"[queues that are polled (default\: none)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 600)]:SECONDS:"
  {-F,--fast-io-fail-tmo,--fast_io_fail_tmo}"[fail I\/O of a lost controller after this time, -1 for never (default\: -1)]:SECONDS:"
  {-T,--tos}"[type of service of the connections, 0 to 255]:TOS:"
  {-D,--duplicate-connect}"[connect although this host is connected there already]"
  {-d,--disable-sqflow}"[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  "--device[who reads the discovery log\: the kernel, or the client on one of its devices (default\: kernel)]:device:(kernel iwarp system auto)"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_connect_all_defaults_added=0

_shtab_nvmeof_devices_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--watch[stay, and print the devices that come and go (one JSON object a line with -o json)]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_devices_defaults_added=0

_shtab_nvmeof_disconnect_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-n,--nqn}"[all controllers of this subsystem]:NQN:_nvmeof_kernel_nqns"
  {-d,--device}"[controllers by their device\: nvme0, or several]:DEVICE:_nvmeof_controllers"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_disconnect_defaults_added=0

_shtab_nvmeof_disconnect_all_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-t,--transport}"[only those over this transport, as rdma]:TRANSPORT:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_disconnect_all_defaults_added=0

_shtab_nvmeof_discover_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  "--device[the embedded device (iwarp), one of libibverbs (system), or a system device where it reaches the address (default\: auto)]:device:(auto iwarp system)"
  "--remote-keys[what the target may reach\: the bytes of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:HOST:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues to ask for (default\: 2)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout, 0 for none (default\: 0)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 600)]:SECONDS:"
  "--io-timeout[of an I\/O command (default\: 30)]:SECONDS:"
  "--disable-sqflow[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  {-n,--nqn}"[NQN of the discovery subsystem (default\: the well-known one)]:NQN:"
  {-p,--persistent}"[stay connected, and print what changes as it does, until SIGINT or SIGTERM (keep-alive timeout\: 30)]"
  "--depth[referrals to follow, one behind the other (default\: 8\; 0\: none)]:N:"
  {-J,--config}"[read FILE in the place of the host files]:FILE:_files"
  {-r,--raw}"[write the log\'s bytes to FILE, too]:FILE:_files"
  "--mdns[list the discovery services that announce themselves]"
  "--wait[how long --mdns listens (default\: 3)]:SECONDS:"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags (options\: below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_discover_defaults_added=0

_shtab_nvmeof_doctor_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-a,--all}"[what is well, too]"
  ":a target\'s TOML file:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_doctor_defaults_added=0

_shtab_nvmeof_flush_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)]:NSID:"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[the embedded device (iwarp), one of libibverbs (system), or a system device where it reaches the address (default\: auto)]:device:(auto iwarp system)"
  "--remote-keys[what the target may reach\: the bytes of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:HOST:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues to ask for (default\: 2)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 600)]:SECONDS:"
  "--io-timeout[of an I\/O command (default\: 30)]:SECONDS:"
  "--disable-sqflow[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags (options\: below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_flush_defaults_added=0

_shtab_nvmeof_gen_dhchap_key_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-m,--hmac}"[hash that transforms the key before it is used\: 0 none, 1 SHA-256, 2 SHA-384, 3 SHA-512 (default\: 0)]:HASH:(0 1 2 3)"
  {-l,--key-length}"[of the secret\: 32, 48 or 64 (default\: that of the hash, or 32)]:BYTES:(32 48 64)"
  {-s,--secret}"[make the key of this secret, and not of random numbers]:HEX:"
  {-n,--nqn}"[NQN that a --secret is transformed for where there is a hash (default\: this host\'s)]:NQN:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_gen_dhchap_key_defaults_added=0

_shtab_nvmeof_id_ctrl_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[the embedded device (iwarp), one of libibverbs (system), or a system device where it reaches the address (default\: auto)]:device:(auto iwarp system)"
  "--remote-keys[what the target may reach\: the bytes of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:HOST:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues to ask for (default\: 1)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[of an I\/O command (default\: 30)]:SECONDS:"
  "--disable-sqflow[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags (options\: below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_id_ctrl_defaults_added=0

_shtab_nvmeof_id_ns_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)]:NSID:"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[the embedded device (iwarp), one of libibverbs (system), or a system device where it reaches the address (default\: auto)]:device:(auto iwarp system)"
  "--remote-keys[what the target may reach\: the bytes of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:HOST:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues to ask for (default\: 1)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[of an I\/O command (default\: 30)]:SECONDS:"
  "--disable-sqflow[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags (options\: below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_id_ns_defaults_added=0

_shtab_nvmeof_list_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_list_defaults_added=0

_shtab_nvmeof_list_ns_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[the embedded device (iwarp), one of libibverbs (system), or a system device where it reaches the address (default\: auto)]:device:(auto iwarp system)"
  "--remote-keys[what the target may reach\: the bytes of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:HOST:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues to ask for (default\: 1)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[of an I\/O command (default\: 30)]:SECONDS:"
  "--disable-sqflow[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags (options\: below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_list_ns_defaults_added=0

_shtab_nvmeof_list_subsys_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-n,--nqn}"[only this subsystem]:NQN:_nvmeof_kernel_nqns"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_list_subsys_defaults_added=0

_shtab_nvmeof_read_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)]:NSID:"
  {-b,--start-block}"[first logical block (default\: 0)]:LBA:"
  {-z,--data-size}"[how much, such as 4096 or 1MiB (default\: to the end of the namespace)]:BYTES:"
  "--block-count[how much, in logical blocks (not less one)]:N:"
  "*"{-v,--verbose}"[show progress]"
  {-d,--data}"[where to (default\: -, stdout)]:FILE:_files"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[the embedded device (iwarp), one of libibverbs (system), or a system device where it reaches the address (default\: auto)]:device:(auto iwarp system)"
  "--remote-keys[what the target may reach\: the bytes of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:HOST:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues to ask for (default\: 2)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 600)]:SECONDS:"
  "--io-timeout[of an I\/O command (default\: 30)]:SECONDS:"
  "--disable-sqflow[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags (options\: below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_read_defaults_added=0

_shtab_nvmeof_resv_acquire_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--crkey[the key that this host is registered with (64 bits, not 0)]:KEY:"
  "--prkey[the key whose registrants are preempted (64 bits, not 0)]:KEY:"
  "--rtype[1 write exclusive, 2 exclusive access, 3 write exclusive registrants only, 4 exclusive access registrants only, 5 write exclusive all registrants, 6 exclusive access all registrants]:TYPE:"
  "--racqa[0 acquire (default), 1 preempt, 2 preempt and abort]:N:(0 1 2)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)]:NSID:"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[the embedded device (iwarp), one of libibverbs (system), or a system device where it reaches the address (default\: auto)]:device:(auto iwarp system)"
  "--remote-keys[what the target may reach\: the bytes of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:HOST:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues to ask for (default\: 1)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[of an I\/O command (default\: 30)]:SECONDS:"
  "--disable-sqflow[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags (options\: below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_resv_acquire_defaults_added=0

_shtab_nvmeof_resv_register_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--crkey[the key that this host is registered with (64 bits, not 0)]:KEY:"
  "--nrkey[the new key (64 bits, not 0)]:KEY:"
  "--rrega[0 register (default), 1 unregister, 2 replace]:N:(0 1 2)"
  "--cptpl[2\: lost with a restart of the target, 3\: outlives it]:N:(0 1 2 3)"
  "--iekey[whatever key this host is registered with]"
  {-N,--namespace-id}"[namespace identifier (default\: 1)]:NSID:"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[the embedded device (iwarp), one of libibverbs (system), or a system device where it reaches the address (default\: auto)]:device:(auto iwarp system)"
  "--remote-keys[what the target may reach\: the bytes of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:HOST:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues to ask for (default\: 1)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[of an I\/O command (default\: 30)]:SECONDS:"
  "--disable-sqflow[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags (options\: below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_resv_register_defaults_added=0

_shtab_nvmeof_resv_release_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--crkey[the key that this host is registered with (64 bits, not 0)]:KEY:"
  "--rtype[1 write exclusive, 2 exclusive access, 3 write exclusive registrants only, 4 exclusive access registrants only, 5 write exclusive all registrants, 6 exclusive access all registrants]:TYPE:"
  "--rrela[0 release (default), 1 clear]:N:(0 1)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)]:NSID:"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[the embedded device (iwarp), one of libibverbs (system), or a system device where it reaches the address (default\: auto)]:device:(auto iwarp system)"
  "--remote-keys[what the target may reach\: the bytes of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:HOST:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues to ask for (default\: 1)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[of an I\/O command (default\: 30)]:SECONDS:"
  "--disable-sqflow[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags (options\: below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_resv_release_defaults_added=0

_shtab_nvmeof_resv_report_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)]:NSID:"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[the embedded device (iwarp), one of libibverbs (system), or a system device where it reaches the address (default\: auto)]:device:(auto iwarp system)"
  "--remote-keys[what the target may reach\: the bytes of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:HOST:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues to ask for (default\: 1)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[of an I\/O command (default\: 30)]:SECONDS:"
  "--disable-sqflow[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags (options\: below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_resv_report_defaults_added=0

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
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  {-a,--traddr}"[a numeric IPv4 or IPv6 address]:ADDRESS:"
  {-s,--trsvcid}"[port (default\: 4420)]:PORT:"
  {-g,--group}"[the namespaces\' ana_group (default\: 1, where all are unless they say otherwise)]:GROUP:"
  ":what hosts are told of the group at this port:(optimized non-optimized inaccessible persistent-loss change)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_ana_set_defaults_added=0

_shtab_nvmeof_target_host_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_host_defaults_added=0

_shtab_nvmeof_target_host_allow_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--any[every host]"
  "--dhchap-key[file with the host\'s key\: it has to authenticate]:FILE:_files"
  "--dhchap-key-credential[the same, as a credential]:NAME:"
  "--dhchap-ctrl-key[file with the subsystem\'s key\: the host may ask it to authenticate too]:FILE:_files"
  "--dhchap-ctrl-key-credential[the same, as a credential]:NAME:"
  ":the subsystem:_nvmeof_target_nqns"
  ":the host:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_host_allow_defaults_added=0

_shtab_nvmeof_target_host_remove_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--any[every host that is not named from then on]"
  ":the subsystem:_nvmeof_target_nqns"
  ":the host:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_host_remove_defaults_added=0

_shtab_nvmeof_target_host_set_keys_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--dhchap-key[file with the host\'s key\: it has to authenticate]:FILE:_files"
  "--dhchap-key-credential[the same, as a credential]:NAME:"
  "--dhchap-ctrl-key[file with the subsystem\'s key\: the host may ask it to authenticate too]:FILE:_files"
  "--dhchap-ctrl-key-credential[the same, as a credential]:NAME:"
  "--none[no key\: the host may connect without authentication]"
  ":the subsystem:_nvmeof_target_nqns"
  ":the host:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_host_set_keys_defaults_added=0

_shtab_nvmeof_target_ls_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_ls_defaults_added=0

_shtab_nvmeof_target_namespace_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_defaults_added=0

_shtab_nvmeof_target_namespace_add_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  {-n,--namespace-id}"[its number (default\: the lowest free one)]:NSID:"
  "--store[memory of the target, a file or block device, persistent memory, or nothing]:store:(ram file pmem null)"
  "--path[the file or block device of file and pmem]:FILE:_files"
  "--size[bytes, or 10GiB\: of ram and null]:SIZE:"
  "--block-size[of a logical block\: 512 or 4096]:BYTES:"
  "--read-only[hosts cannot write]"
  "--hotplug[it comes and goes with what is at its path, and is waited for where nothing is there]"
  "--uuid[identifiers\; made where left out]:UUID:"
  "--nguid[32 hexadecimal digits]:HEX:"
  "--eui64[16 hexadecimal digits]:HEX:"
  "*--host[only this host sees it\; may be repeated]:NQN:"
  ":the subsystem:_nvmeof_target_nqns"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_add_defaults_added=0

_shtab_nvmeof_target_namespace_limit_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--read-iops[reads (Read, Compare, Verify) a second]:N:"
  "--write-iops[writes (Write, Write Zeroes) a second]:N:"
  "--iops[both a second]:N:"
  "--read-bandwidth[bytes of reads a second, such as 100MiB]:SIZE:"
  "--write-bandwidth[bytes of writes a second]:SIZE:"
  "--bandwidth[bytes of both a second]:SIZE:"
  "--burst-ms[so much of each limit, in milliseconds, may be used at once after a rest (100)]:MS:"
  "--clear[take all limits away]"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_limit_defaults_added=0

_shtab_nvmeof_target_namespace_mask_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--all[every host that may connect]"
  "--none[no host]"
  "*--host[this host and no other\; may be repeated]:NQN:"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_mask_defaults_added=0

_shtab_nvmeof_target_namespace_protect_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
  ":none, protected, until-power-cycle, permanent (default\: protected):(none protected until-power-cycle permanent)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_protect_defaults_added=0

_shtab_nvmeof_target_namespace_remove_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_remove_defaults_added=0

_shtab_nvmeof_target_namespace_replace_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--store[memory of the target, a file or block device, persistent memory, or nothing]:store:(ram file pmem null)"
  "--path[the file or block device of file and pmem]:FILE:_files"
  "--size[bytes, or 10GiB\: of ram and null]:SIZE:"
  "--block-size[of a logical block\: 512 or 4096]:BYTES:"
  "--read-only[hosts cannot write]"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_namespace_replace_defaults_added=0

_shtab_nvmeof_target_namespace_resize_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  ":the subsystem:_nvmeof_target_nqns"
  ":the namespace:"
  ":bytes, or 10GiB (default\: all that the file has now):"
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
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  {-a,--traddr}"[a numeric IPv4 or IPv6 address]:ADDRESS:"
  {-s,--trsvcid}"[port (default\: 4420)]:PORT:"
  "--device[the embedded device (iwarp), the system\'s, or whichever has the address (auto)]:device:(auto iwarp system)"
  "--hotplug[it comes and goes with its device, and is waited for where that is not there\; with --device iwarp or system]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_port_add_defaults_added=0

_shtab_nvmeof_target_port_remove_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  {-a,--traddr}"[a numeric IPv4 or IPv6 address]:ADDRESS:"
  {-s,--trsvcid}"[port (default\: 4420)]:PORT:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_port_remove_defaults_added=0

_shtab_nvmeof_target_reload_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_reload_defaults_added=0

_shtab_nvmeof_target_save_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--output[another file]:FILE:_files"
  "--force[though the file was changed after the target read it]"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_save_defaults_added=0

_shtab_nvmeof_target_serve_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where it is administered (default\: socket in \[rpc\], or target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--log-level[how much goes to stderr (default\: info)]:log_level:(debug info warning error)"
  "--log-format[a sentence a line, or an object with the fields of the line (timestamp, level, peer, hostnqn, subnqn, cntlid, qid, status), or the same as fields of systemd\'s journal (default\: text, or journal where stderr is connected to it)]:log_format:(text json journal)"
  ":a TOML file\; see config check:_files"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_serve_defaults_added=0

_shtab_nvmeof_target_stats_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
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
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  "--serial[serial number (default\: made of the NQN)]:TEXT:"
  "--model[model number]:TEXT:"
  "--max-namespaces[the highest NSID (32)]:N:"
  "--allow-any-host[every host may connect]"
  "*--host[a host that may connect\; may be repeated]:NQN:"
  ":its name:"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_subsystem_add_defaults_added=0

_shtab_nvmeof_target_subsystem_remove_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  ":its name:_nvmeof_target_nqns"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_target_subsystem_remove_defaults_added=0

_shtab_nvmeof_top_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  "--rpc-socket[where the target is administered (default\: target.sock of \$RUNTIME_DIRECTORY, \/run\/nvmeof or \$XDG_RUNTIME_DIR\/nvmeof)]:PATH:_files"
  {-d,--delay}"[between two readings (default\: 2)]:SECONDS:"
  {-n,--iterations}"[end after so many (default\: go on)]:COUNT:"
  "--sort[what comes first (default\: iops)]:sort:(iops bytes outstanding errors)"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_top_defaults_added=0

_shtab_nvmeof_write_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)]:NSID:"
  {-b,--start-block}"[first logical block (default\: 0)]:LBA:"
  {-z,--data-size}"[how much, such as 4096 or 1MiB (default\: all of the input)]:BYTES:"
  "--block-count[how much, in logical blocks (not less one)]:N:"
  "*"{-v,--verbose}"[show progress]"
  {-d,--data}"[where from (default\: -, stdin)]:FILE:_files"
  {-f,--force-unit-access}"[each block stable by itself (FUA)]"
  "--pad[fill the last block up with zeroes where it is short]"
  "--no-flush[do not flush at the end]"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[the embedded device (iwarp), one of libibverbs (system), or a system device where it reaches the address (default\: auto)]:device:(auto iwarp system)"
  "--remote-keys[what the target may reach\: the bytes of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:HOST:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues to ask for (default\: 2)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 600)]:SECONDS:"
  "--io-timeout[of an I\/O command (default\: 30)]:SECONDS:"
  "--disable-sqflow[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags (options\: below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_write_defaults_added=0

_shtab_nvmeof_write_uncor_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  {-o,--output-format}"[how the result is printed (default\: normal)]:output_format:(normal json)"
  {-N,--namespace-id}"[namespace identifier (default\: 1)]:NSID:"
  {-b,--start-block}"[first logical block (default\: 0)]:LBA:"
  "--block-count[how many logical blocks, not less one (default\: 1)]:N:"
  {-t,--transport}"[rdma is all there is]:transport:(rdma)"
  {-a,--traddr}"[address or name of the target]:HOST:"
  {-s,--trsvcid}"[port of the target (default\: 4420)]:PORT:"
  {-n,--nqn}"[NQN of the subsystem]:NQN:"
  "--device[the embedded device (iwarp), one of libibverbs (system), or a system device where it reaches the address (default\: auto)]:device:(auto iwarp system)"
  "--remote-keys[what the target may reach\: the bytes of each command until it completes, or all I\/O buffers, which is faster (default\: command)]:remote_keys:(command buffer)"
  {-w,--host-traddr}"[source address]:HOST:"
  {-q,--hostnqn}"[NQN of this host (default\: \/etc\/nvme\/hostnqn)]:NQN:"
  {-I,--hostid}"[identifier of this host (default\: \/etc\/nvme\/hostid)]:UUID:"
  {-i,--nr-io-queues}"[I\/O queues to ask for (default\: 1)]:N:"
  {-Q,--queue-size}"[entries of an I\/O queue (default\: 128)]:N:"
  {-k,--keep-alive-tmo}"[keep-alive timeout, 0 for none (default\: 5)]:SECONDS:"
  {-c,--reconnect-delay}"[between attempts to reconnect (default\: 10)]:SECONDS:"
  {-l,--ctrl-loss-tmo}"[give a lost controller up after this time, -1 for never (default\: 0)]:SECONDS:"
  "--io-timeout[of an I\/O command (default\: 30)]:SECONDS:"
  "--disable-sqflow[no SQ flow control]"
  {-S,--dhchap-secret}"[this host\'s key, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-secret-file[the same, in a file]:FILE:_files"
  {-C,--dhchap-ctrl-secret}"[the controller\'s key\: it has to authenticate too, as gen-dhchap-key prints it]:KEY:"
  "--dhchap-ctrl-secret-file[the same, in a file]:FILE:_files"
  ":nvme\+rdma\:\/\/HOST\:PORT\/NQN\?OPTION\=VALUE, in the place of the flags (options\: below):"
)

# guard to ensure default positional specs are added only once per session
_shtab_nvmeof_write_uncor_defaults_added=0


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
        bench) _arguments -C -s $_shtab_nvmeof_bench_options ;;
        check-dhchap-key) _arguments -C -s $_shtab_nvmeof_check_dhchap_key_options ;;
        compare-and-write) _arguments -C -s $_shtab_nvmeof_compare_and_write_options ;;
        completion) _arguments -C -s $_shtab_nvmeof_completion_options ;;
        config) _shtab_nvmeof_config ;;
        connect) _arguments -C -s $_shtab_nvmeof_connect_options ;;
        connect-all) _arguments -C -s $_shtab_nvmeof_connect_all_options ;;
        devices) _arguments -C -s $_shtab_nvmeof_devices_options ;;
        disconnect) _arguments -C -s $_shtab_nvmeof_disconnect_options ;;
        disconnect-all) _arguments -C -s $_shtab_nvmeof_disconnect_all_options ;;
        discover) _arguments -C -s $_shtab_nvmeof_discover_options ;;
        doctor) _arguments -C -s $_shtab_nvmeof_doctor_options ;;
        flush) _arguments -C -s $_shtab_nvmeof_flush_options ;;
        gen-dhchap-key) _arguments -C -s $_shtab_nvmeof_gen_dhchap_key_options ;;
        id-ctrl) _arguments -C -s $_shtab_nvmeof_id_ctrl_options ;;
        id-ns) _arguments -C -s $_shtab_nvmeof_id_ns_options ;;
        list) _arguments -C -s $_shtab_nvmeof_list_options ;;
        list-ns) _arguments -C -s $_shtab_nvmeof_list_ns_options ;;
        list-subsys) _arguments -C -s $_shtab_nvmeof_list_subsys_options ;;
        read) _arguments -C -s $_shtab_nvmeof_read_options ;;
        resv-acquire) _arguments -C -s $_shtab_nvmeof_resv_acquire_options ;;
        resv-register) _arguments -C -s $_shtab_nvmeof_resv_register_options ;;
        resv-release) _arguments -C -s $_shtab_nvmeof_resv_release_options ;;
        resv-report) _arguments -C -s $_shtab_nvmeof_resv_report_options ;;
        target) _shtab_nvmeof_target ;;
        top) _arguments -C -s $_shtab_nvmeof_top_options ;;
        write) _arguments -C -s $_shtab_nvmeof_write_options ;;
        write-uncor) _arguments -C -s $_shtab_nvmeof_write_uncor_options ;;
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
        host) _shtab_nvmeof_target_host ;;
        ls) _arguments -C -s $_shtab_nvmeof_target_ls_options ;;
        namespace) _shtab_nvmeof_target_namespace ;;
        port) _shtab_nvmeof_target_port ;;
        reload) _arguments -C -s $_shtab_nvmeof_target_reload_options ;;
        save) _arguments -C -s $_shtab_nvmeof_target_save_options ;;
        serve) _arguments -C -s $_shtab_nvmeof_target_serve_options ;;
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
