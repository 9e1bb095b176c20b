# SPDX-License-Identifier: BSD-3-Clause
# Completion of nvmeof: written by ./dev manual with shtab; changes here will be lost.

_shtab_nvmeof_target_subsystem_subparsers=(add remove)
_shtab_nvmeof_target_namespace_subparsers=(add remove resize replace mask protect limit)
_shtab_nvmeof_target_mirror_subparsers=(show events add-leg remove-leg replace-leg resync)
_shtab_nvmeof_target_host_subparsers=(allow set-keys remove)
_shtab_nvmeof_target_port_subparsers=(add remove)
_shtab_nvmeof_target_ana_subparsers=(set)
_shtab_nvmeof_target_fault_subparsers=(add list remove)
_shtab_nvmeof_target_subparsers=(serve ls subsystem namespace mirror host port ana reload save restore clear shell stats log-level fault)
_shtab_nvmeof_config_subparsers=(check schema import export)
_shtab_nvmeof_pmem_subparsers=(bench bench-replicas demo)
_shtab_nvmeof_lab_subparsers=(run report compare check profiles schema export)
_shtab_nvmeof_fio_engine_subparsers=(build path)
_shtab_nvmeof_subparsers=(target rpc top config devices discover id-ctrl id-ns list-ns read write flush write-uncor compare-and-write write-zeroes verify dsm copy compare smart-log error-log ana-log changed-ns-list-log get-log get-feature set-feature show-regs resv-register resv-acquire resv-release resv-report bench pmem lab fio-engine verbs capture explain replay connect connect-all disconnect disconnect-all reset list list-subsys gen-dhchap-key check-dhchap-key show-hostnqn gen-hostnqn doctor completion)

_shtab_nvmeof_target_serve_option_strings=(-h --help -v --verbose -o --output-format --ram --file --pmem --python --option -n --nqn -a --traddr -s --trsvcid --force --allow-faults --rpc-socket --log-level --log-format)
_shtab_nvmeof_target_ls_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket)
_shtab_nvmeof_target_subsystem_add_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --serial --model --max-namespaces --allow-any-host --host)
_shtab_nvmeof_target_subsystem_remove_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket)
_shtab_nvmeof_target_subsystem_option_strings=(-h --help)
_shtab_nvmeof_target_namespace_add_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket -n --namespace-id --store --path --python --option --leg --quorum --resync-rate --size --block-size --read-only --hotplug --uuid --nguid --eui64 --host)
_shtab_nvmeof_target_namespace_remove_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket)
_shtab_nvmeof_target_namespace_resize_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket)
_shtab_nvmeof_target_namespace_replace_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --store --path --python --option --leg --quorum --resync-rate --size --block-size --read-only)
_shtab_nvmeof_target_namespace_mask_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --all --none --host)
_shtab_nvmeof_target_namespace_protect_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --force)
_shtab_nvmeof_target_namespace_limit_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --read-iops --write-iops --iops --read-bandwidth --write-bandwidth --bandwidth --burst-ms --clear)
_shtab_nvmeof_target_namespace_option_strings=(-h --help)
_shtab_nvmeof_target_mirror_show_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket)
_shtab_nvmeof_target_mirror_events_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket -f --follow)
_shtab_nvmeof_target_mirror_add_leg_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --quorum)
_shtab_nvmeof_target_mirror_remove_leg_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --quorum)
_shtab_nvmeof_target_mirror_replace_leg_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket)
_shtab_nvmeof_target_mirror_resync_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket)
_shtab_nvmeof_target_mirror_option_strings=(-h --help)
_shtab_nvmeof_target_host_allow_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --any --dhchap-key --dhchap-key-credential --dhchap-ctrl-key --dhchap-ctrl-key-credential)
_shtab_nvmeof_target_host_set_keys_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --dhchap-key --dhchap-key-credential --dhchap-ctrl-key --dhchap-ctrl-key-credential --none)
_shtab_nvmeof_target_host_remove_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --any)
_shtab_nvmeof_target_host_option_strings=(-h --help)
_shtab_nvmeof_target_port_add_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket -a --traddr -s --trsvcid --device --hotplug --wire-faults)
_shtab_nvmeof_target_port_remove_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket -a --traddr -s --trsvcid)
_shtab_nvmeof_target_port_option_strings=(-h --help)
_shtab_nvmeof_target_ana_set_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket -a --traddr -s --trsvcid -g --group)
_shtab_nvmeof_target_ana_option_strings=(-h --help)
_shtab_nvmeof_target_reload_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket)
_shtab_nvmeof_target_save_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --output --force)
_shtab_nvmeof_target_restore_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket)
_shtab_nvmeof_target_clear_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket)
_shtab_nvmeof_target_shell_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket)
_shtab_nvmeof_target_stats_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket)
_shtab_nvmeof_target_log_level_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket)
_shtab_nvmeof_target_fault_add_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --subsystem --nsid --host --traddr --trsvcid --queue --admin --commands --first-block --blocks --direction --rate --after --delay --distribution --spread --bandwidth --status --dnr --crash --count --seconds --seed)
_shtab_nvmeof_target_fault_list_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket)
_shtab_nvmeof_target_fault_remove_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --all)
_shtab_nvmeof_target_fault_option_strings=(-h --help)
_shtab_nvmeof_target_option_strings=(-h --help)
_shtab_nvmeof_rpc_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --list)
_shtab_nvmeof_top_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket -d --delay -n --iterations --sort)
_shtab_nvmeof_config_check_option_strings=(-h --help -v --verbose -o --output-format)
_shtab_nvmeof_config_schema_option_strings=(-h --help -v --verbose -o --output-format)
_shtab_nvmeof_config_import_option_strings=(-h --help -v --verbose -o --output-format)
_shtab_nvmeof_config_export_option_strings=(-h --help -v --verbose -o --output-format)
_shtab_nvmeof_config_option_strings=(-h --help)
_shtab_nvmeof_devices_option_strings=(-h --help -v --verbose -o --output-format --watch)
_shtab_nvmeof_discover_option_strings=(-h --help -v --verbose -o --output-format -t --transport -a --traddr -s --trsvcid --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo -c --reconnect-delay -l --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file -n --nqn -p --persistent --depth -J --config -r --raw --mdns --wait)
_shtab_nvmeof_id_ctrl_option_strings=(-h --help -v --verbose -o --output-format -H --human-readable -b --raw-binary -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo -c --reconnect-delay -l --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file)
_shtab_nvmeof_id_ns_option_strings=(-h --help -v --verbose -o --output-format -N --namespace-id -H --human-readable -b --raw-binary -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo -c --reconnect-delay -l --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file)
_shtab_nvmeof_list_ns_option_strings=(-h --help -v --verbose -o --output-format -N --namespace-id --all -y --csi -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo -c --reconnect-delay -l --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file)
_shtab_nvmeof_read_option_strings=(-h --help -v --verbose -o --output-format -N --namespace-id -b --start-block -z --data-size -s --blocks -c --block-count -d --data -f --force-unit-access -t --transport -a --traddr --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo --reconnect-delay --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file --latency -p --prinfo -r --ref-tag --app-tag -m --app-tag-mask -g --storage-tag -y --metadata-size -l --limited-retry)
_shtab_nvmeof_write_option_strings=(-h --help -v --verbose -o --output-format -N --namespace-id -b --start-block -z --data-size -s --blocks -c --block-count -d --data -f --force-unit-access --pad --no-flush -t --transport -a --traddr --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo --reconnect-delay --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file --latency -p --prinfo -r --ref-tag --app-tag -m --app-tag-mask -g --storage-tag -y --metadata-size -l --limited-retry)
_shtab_nvmeof_flush_option_strings=(-h --help -v --verbose -o --output-format -N --namespace-id -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo -c --reconnect-delay -l --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file)
_shtab_nvmeof_write_uncor_option_strings=(-h --help -v --verbose -o --output-format -N --namespace-id -b --start-block -s --blocks -c --block-count -t --transport -a --traddr --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo --reconnect-delay --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file)
_shtab_nvmeof_compare_and_write_option_strings=(-h --help -v --verbose -o --output-format -N --namespace-id -b --start-block --expected -d --data -f --force-unit-access -s -t --transport -a --traddr --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo --reconnect-delay --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file)
_shtab_nvmeof_write_zeroes_option_strings=(-h --help -v --verbose -o --output-format -N --namespace-id -b --start-block -s --blocks -c --block-count -t --transport -a --traddr --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo --reconnect-delay --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file -d --deac -f --force-unit-access -p --prinfo -r --ref-tag --app-tag -m --app-tag-mask -g --storage-tag -y --metadata-size -l --limited-retry)
_shtab_nvmeof_verify_option_strings=(-h --help -v --verbose -o --output-format -N --namespace-id -b --start-block -s --blocks -c --block-count -t --transport -a --traddr --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo --reconnect-delay --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file -f --force-unit-access -p --prinfo -r --ref-tag --app-tag -m --app-tag-mask -g --storage-tag -y --metadata-size -l --limited-retry)
_shtab_nvmeof_dsm_option_strings=(-h --help -v --verbose -o --output-format -N --namespace-id --slbs --start-block -b --blocks -s -t --transport -a --traddr --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo --reconnect-delay --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file -d --ad -c --cdw11)
_shtab_nvmeof_copy_option_strings=(-h --help -v --verbose -o --output-format -N --namespace-id --slbs --start-block -b --blocks -s -t --transport -a --traddr --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo --reconnect-delay --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file -d --sdlba -f --force-unit-access)
_shtab_nvmeof_compare_option_strings=(-h --help -v --verbose -o --output-format -N --namespace-id -b --start-block -s -t --transport -a --traddr --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo --reconnect-delay --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file -d --data -c --block-count -z --data-size -f --force-unit-access --latency -p --prinfo -r --ref-tag --app-tag -m --app-tag-mask -g --storage-tag -y --metadata-size -l --limited-retry)
_shtab_nvmeof_smart_log_option_strings=(-h --help -v --verbose -o --output-format -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -q --hostnqn -I --hostid -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file -N --namespace-id -b --raw-binary -H --human-readable)
_shtab_nvmeof_error_log_option_strings=(-h --help -v --verbose -o --output-format -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -q --hostnqn -I --hostid -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file -e --log-entries -b --raw-binary)
_shtab_nvmeof_ana_log_option_strings=(-h --help -v --verbose -o --output-format -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -q --hostnqn -I --hostid -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file -g --groups -b --raw-binary)
_shtab_nvmeof_changed_ns_list_log_option_strings=(-h --help -v --verbose -o --output-format -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -q --hostnqn -I --hostid -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file -b --raw-binary)
_shtab_nvmeof_get_log_option_strings=(-h --help -v --verbose -o --output-format -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -q --hostnqn -I --hostid -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file -i --log-id --aen -l --log-len --lpo --lsp -N --namespace-id -r --rae -b --raw-binary)
_shtab_nvmeof_get_feature_option_strings=(-h --help -v --verbose -o --output-format -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -q --hostnqn -I --hostid -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file -f --feature-id -N --namespace-id -H --human-readable -b --raw-binary --sel)
_shtab_nvmeof_set_feature_option_strings=(-h --help --verbose -o --output-format -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -q --hostnqn -I --hostid -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file -f --feature-id -N --namespace-id -V --value -v -c --cdw12 --save -d --data -l --data-len)
_shtab_nvmeof_show_regs_option_strings=(-h --help -v --verbose -o --output-format -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -q --hostnqn -I --hostid -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file -H --human-readable)
_shtab_nvmeof_resv_register_option_strings=(-h --help -v --verbose -o --output-format -c --crkey -k --nrkey -r --rrega -p --cptpl -i --iekey -N --namespace-id -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid --nr-io-queues -Q --queue-size --keep-alive-tmo --reconnect-delay -l --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file)
_shtab_nvmeof_resv_acquire_option_strings=(-h --help -v --verbose -o --output-format -c --crkey -p --prkey --rtype --racqa -N --namespace-id -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid --nr-io-queues -Q --queue-size --keep-alive-tmo --reconnect-delay -l --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file)
_shtab_nvmeof_resv_release_option_strings=(-h --help -v --verbose -o --output-format -c --crkey --rtype --rrela -N --namespace-id -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid --nr-io-queues -Q --queue-size --keep-alive-tmo --reconnect-delay -l --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file)
_shtab_nvmeof_resv_report_option_strings=(-h --help -v --verbose -o --output-format -d --numd -e --eds -b --raw-binary -N --namespace-id -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -w --host-traddr -q --hostnqn -I --hostid --nr-io-queues -Q --queue-size --keep-alive-tmo --reconnect-delay -l --ctrl-loss-tmo --io-timeout --disable-sqflow -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file)
_shtab_nvmeof_bench_option_strings=(-h --help -v --verbose -o --output-format -N --namespace-id --rw --readwrite --bs --blocksize -z --data-size --rwmixread --iodepth -Q --queue-size --numjobs -i --nr-io-queues --size --offset --runtime --time_based --time-based --time_based=1 --ramp_time --ramp-time --loops --threads --cpu --force --percentile_list --percentile-list --interval -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys --filename -q --hostnqn)
_shtab_nvmeof_pmem_bench_option_strings=(-h --help -v --verbose -o --output-format -N --namespace-id --methods --bs -z --iodepth --runtime --rounds --rwmixread --target-pid --force --ignore-assumptions -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -q --hostnqn -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file)
_shtab_nvmeof_pmem_bench_replicas_option_strings=(-h --help -v --verbose -o --output-format --load --quorum --log-methods --bs -z --iodepth --rwmixread --runtime --target-pid --force --ignore-assumptions)
_shtab_nvmeof_pmem_demo_option_strings=(-h --help -v --verbose -o --output-format --records --runtime --rounds --bs -z --iodepth --device --dir --report)
_shtab_nvmeof_pmem_option_strings=(-h --help)
_shtab_nvmeof_lab_run_option_strings=(-h --help -v --verbose -o --output-format --profile --system -d --directory --resume --overwrite --rounds --runtime --try --no-report --quiet)
_shtab_nvmeof_lab_report_option_strings=(-h --help -v --verbose -o --output-format --to --pictures)
_shtab_nvmeof_lab_compare_option_strings=(-h --help -v --verbose -o --output-format --baseline --metric --margin --confidence)
_shtab_nvmeof_lab_check_option_strings=(-h --help -v --verbose -o --output-format --profile)
_shtab_nvmeof_lab_profiles_option_strings=(-h --help -v --verbose -o --output-format)
_shtab_nvmeof_lab_schema_option_strings=(-h --help -v --verbose -o --output-format)
_shtab_nvmeof_lab_export_option_strings=(-h --help -v --verbose -o --output-format)
_shtab_nvmeof_lab_option_strings=(-h --help)
_shtab_nvmeof_fio_engine_build_option_strings=(-h --help -v --verbose -o --output-format --fio-source --to --fio)
_shtab_nvmeof_fio_engine_path_option_strings=(-h --help -v --verbose -o --output-format --fio)
_shtab_nvmeof_fio_engine_option_strings=(-h --help)
_shtab_nvmeof_verbs_option_strings=(-h --help -v --verbose -o --output-format --device)
_shtab_nvmeof_capture_option_strings=(-h --help -v --verbose -o --output-format --rpc-socket --duration --size --last --until-error --lua)
_shtab_nvmeof_explain_option_strings=(-h --help -v --verbose -o --output-format --summary -s --trsvcid)
_shtab_nvmeof_replay_option_strings=(-h --help -v --verbose -o --output-format --as --once -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -q --hostnqn -I --hostid -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file --write --connection)
_shtab_nvmeof_connect_option_strings=(-h --help -v --verbose -o --output-format -t --transport -a --traddr -s --trsvcid -n --nqn -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo -w --host-traddr -c --reconnect-delay -l --ctrl-loss-tmo -d --disable-sqflow -W --nr-write-queues -P --nr-poll-queues -F --fast-io-fail-tmo --fast_io_fail_tmo -T --tos -D --duplicate-connect -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file)
_shtab_nvmeof_connect_all_option_strings=(-h --help -v --verbose -o --output-format -t --transport -a --traddr -s --trsvcid -q --hostnqn -I --hostid -i --nr-io-queues -Q --queue-size -k --keep-alive-tmo -w --host-traddr -c --reconnect-delay -l --ctrl-loss-tmo -d --disable-sqflow -W --nr-write-queues -P --nr-poll-queues -F --fast-io-fail-tmo --fast_io_fail_tmo -T --tos -D --duplicate-connect -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file --device)
_shtab_nvmeof_disconnect_option_strings=(-h --help -v --verbose -o --output-format -n --nqn -d --device)
_shtab_nvmeof_disconnect_all_option_strings=(-h --help -v --verbose -o --output-format -t --transport)
_shtab_nvmeof_reset_option_strings=(-h --help -v --verbose -o --output-format -t --transport -a --traddr -s --trsvcid -n --nqn --device --remote-keys -q --hostnqn -I --hostid -S --dhchap-secret -C --dhchap-ctrl-secret --dhchap-secret-file --dhchap-ctrl-secret-file)
_shtab_nvmeof_list_option_strings=(-h --help -v --verbose -o --output-format)
_shtab_nvmeof_list_subsys_option_strings=(-h --help -v --verbose -o --output-format -n --nqn)
_shtab_nvmeof_gen_dhchap_key_option_strings=(-h --help -v --verbose -o --output-format -m --hmac -l --key-length -s --secret -n --nqn)
_shtab_nvmeof_check_dhchap_key_option_strings=(-h --help -v --verbose -o --output-format -k --key -f --key-file)
_shtab_nvmeof_show_hostnqn_option_strings=(-h --help -v --verbose -o --output-format)
_shtab_nvmeof_gen_hostnqn_option_strings=(-h --help -v --verbose -o --output-format)
_shtab_nvmeof_doctor_option_strings=(-h --help -v --verbose -o --output-format -a --all)
_shtab_nvmeof_completion_option_strings=(-h --help -v --verbose -o --output-format)
_shtab_nvmeof_option_strings=(-h --help --version -v --verbose)

_shtab_nvmeof_target_serve_pos_0_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_serve___file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_serve___pmem_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_serve__n_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_serve___nqn_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_serve___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_ls___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_subsystem_add___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_subsystem_remove_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_subsystem_remove___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_namespace_add_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_namespace_add___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_namespace_add___path_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_namespace_remove_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_namespace_remove___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_namespace_resize_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_namespace_resize___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_namespace_replace_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_namespace_replace___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_namespace_replace___path_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_namespace_mask_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_namespace_mask___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_namespace_protect_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_namespace_protect___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_namespace_limit_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_namespace_limit___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_mirror_show___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_mirror_events___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_mirror_add_leg_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_mirror_add_leg___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_mirror_remove_leg_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_mirror_remove_leg___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_mirror_replace_leg_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_mirror_replace_leg___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_mirror_resync_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_mirror_resync___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_host_allow_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_host_allow___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_host_allow___dhchap_key_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_host_allow___dhchap_ctrl_key_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_host_set_keys_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_host_set_keys___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_host_set_keys___dhchap_key_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_host_set_keys___dhchap_ctrl_key_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_host_remove_pos_0_COMPGEN=_nvmeof_target_nqns
_shtab_nvmeof_target_host_remove___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_port_add___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_port_remove___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_ana_set___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_reload___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_save_pos_0_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_save___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_save___output_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_restore_pos_0_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_restore___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_clear___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_shell___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_stats___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_log_level___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_fault_add___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_fault_list___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_target_fault_remove___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_rpc___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_top___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_config_check_pos_0_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_config_import_pos_0_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_config_export_pos_0_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_discover___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_discover___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_discover__J_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_discover___config_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_discover__r_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_discover___raw_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_id_ctrl___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_id_ctrl___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_id_ns___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_id_ns___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_list_ns___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_list_ns___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_read__d_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_read___data_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_read___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_read___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_write__d_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_write___data_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_write___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_write___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_flush___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_flush___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_write_uncor___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_write_uncor___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_compare_and_write___expected_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_compare_and_write__d_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_compare_and_write___data_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_compare_and_write___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_compare_and_write___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_write_zeroes___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_write_zeroes___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_verify___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_verify___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_dsm___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_dsm___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_copy___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_copy___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_compare___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_compare___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_compare__d_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_compare___data_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_smart_log___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_smart_log___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_error_log___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_error_log___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_ana_log___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_ana_log___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_changed_ns_list_log___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_changed_ns_list_log___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_get_log___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_get_log___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_get_feature___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_get_feature___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_set_feature___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_set_feature___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_set_feature__d_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_set_feature___data_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_show_regs___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_show_regs___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_resv_register___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_resv_register___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_resv_acquire___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_resv_acquire___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_resv_release___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_resv_release___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_resv_report___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_resv_report___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_pmem_bench___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_pmem_bench___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_pmem_demo___report_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_lab_run_pos_0_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_lab_check_pos_0_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_fio_engine_build___to_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_capture_pos_0_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_capture___rpc_socket_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_explain_pos_0_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_replay_pos_0_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_replay___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_replay___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_connect___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_connect___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_connect_all___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_connect_all___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_disconnect__n_COMPGEN=_nvmeof_kernel_nqns
_shtab_nvmeof_disconnect___nqn_COMPGEN=_nvmeof_kernel_nqns
_shtab_nvmeof_disconnect__d_COMPGEN=_nvmeof_controllers
_shtab_nvmeof_disconnect___device_COMPGEN=_nvmeof_controllers
_shtab_nvmeof_reset___dhchap_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_reset___dhchap_ctrl_secret_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_list_subsys__n_COMPGEN=_nvmeof_kernel_nqns
_shtab_nvmeof_list_subsys___nqn_COMPGEN=_nvmeof_kernel_nqns
_shtab_nvmeof_check_dhchap_key__f_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_check_dhchap_key___key_file_COMPGEN=_nvmeof_shtab_compgen_files
_shtab_nvmeof_doctor_pos_0_COMPGEN=_nvmeof_shtab_compgen_files

_shtab_nvmeof_target_serve__o_choices=(normal json)
_shtab_nvmeof_target_serve___output_format_choices=(normal json)
_shtab_nvmeof_target_serve___log_level_choices=(debug info warning error)
_shtab_nvmeof_target_serve___log_format_choices=(text json journal)
_shtab_nvmeof_target_ls__o_choices=(normal json)
_shtab_nvmeof_target_ls___output_format_choices=(normal json)
_shtab_nvmeof_target_subsystem_add__o_choices=(normal json)
_shtab_nvmeof_target_subsystem_add___output_format_choices=(normal json)
_shtab_nvmeof_target_subsystem_remove__o_choices=(normal json)
_shtab_nvmeof_target_subsystem_remove___output_format_choices=(normal json)
_shtab_nvmeof_target_subsystem_pos_0_choices=(add remove)
_shtab_nvmeof_target_namespace_add__o_choices=(normal json)
_shtab_nvmeof_target_namespace_add___output_format_choices=(normal json)
_shtab_nvmeof_target_namespace_add___store_choices=(ram file pmem null python mirror)
_shtab_nvmeof_target_namespace_remove__o_choices=(normal json)
_shtab_nvmeof_target_namespace_remove___output_format_choices=(normal json)
_shtab_nvmeof_target_namespace_resize__o_choices=(normal json)
_shtab_nvmeof_target_namespace_resize___output_format_choices=(normal json)
_shtab_nvmeof_target_namespace_replace__o_choices=(normal json)
_shtab_nvmeof_target_namespace_replace___output_format_choices=(normal json)
_shtab_nvmeof_target_namespace_replace___store_choices=(ram file pmem null python mirror)
_shtab_nvmeof_target_namespace_mask__o_choices=(normal json)
_shtab_nvmeof_target_namespace_mask___output_format_choices=(normal json)
_shtab_nvmeof_target_namespace_protect_pos_2_choices=(none protected until-power-cycle permanent)
_shtab_nvmeof_target_namespace_protect__o_choices=(normal json)
_shtab_nvmeof_target_namespace_protect___output_format_choices=(normal json)
_shtab_nvmeof_target_namespace_limit__o_choices=(normal json)
_shtab_nvmeof_target_namespace_limit___output_format_choices=(normal json)
_shtab_nvmeof_target_namespace_pos_0_choices=(add remove resize replace mask protect limit)
_shtab_nvmeof_target_mirror_show__o_choices=(normal json)
_shtab_nvmeof_target_mirror_show___output_format_choices=(normal json)
_shtab_nvmeof_target_mirror_events__o_choices=(normal json)
_shtab_nvmeof_target_mirror_events___output_format_choices=(normal json)
_shtab_nvmeof_target_mirror_add_leg__o_choices=(normal json)
_shtab_nvmeof_target_mirror_add_leg___output_format_choices=(normal json)
_shtab_nvmeof_target_mirror_remove_leg__o_choices=(normal json)
_shtab_nvmeof_target_mirror_remove_leg___output_format_choices=(normal json)
_shtab_nvmeof_target_mirror_replace_leg__o_choices=(normal json)
_shtab_nvmeof_target_mirror_replace_leg___output_format_choices=(normal json)
_shtab_nvmeof_target_mirror_resync__o_choices=(normal json)
_shtab_nvmeof_target_mirror_resync___output_format_choices=(normal json)
_shtab_nvmeof_target_mirror_pos_0_choices=(show events add-leg remove-leg replace-leg resync)
_shtab_nvmeof_target_host_allow__o_choices=(normal json)
_shtab_nvmeof_target_host_allow___output_format_choices=(normal json)
_shtab_nvmeof_target_host_set_keys__o_choices=(normal json)
_shtab_nvmeof_target_host_set_keys___output_format_choices=(normal json)
_shtab_nvmeof_target_host_remove__o_choices=(normal json)
_shtab_nvmeof_target_host_remove___output_format_choices=(normal json)
_shtab_nvmeof_target_host_pos_0_choices=(allow set-keys remove)
_shtab_nvmeof_target_port_add__o_choices=(normal json)
_shtab_nvmeof_target_port_add___output_format_choices=(normal json)
_shtab_nvmeof_target_port_add___device_choices=(auto iwarp roce system)
_shtab_nvmeof_target_port_remove__o_choices=(normal json)
_shtab_nvmeof_target_port_remove___output_format_choices=(normal json)
_shtab_nvmeof_target_port_pos_0_choices=(add remove)
_shtab_nvmeof_target_ana_set_pos_0_choices=(optimized non-optimized inaccessible persistent-loss change)
_shtab_nvmeof_target_ana_set__o_choices=(normal json)
_shtab_nvmeof_target_ana_set___output_format_choices=(normal json)
_shtab_nvmeof_target_ana_pos_0_choices=(set)
_shtab_nvmeof_target_reload__o_choices=(normal json)
_shtab_nvmeof_target_reload___output_format_choices=(normal json)
_shtab_nvmeof_target_save__o_choices=(normal json)
_shtab_nvmeof_target_save___output_format_choices=(normal json)
_shtab_nvmeof_target_restore__o_choices=(normal json)
_shtab_nvmeof_target_restore___output_format_choices=(normal json)
_shtab_nvmeof_target_clear__o_choices=(normal json)
_shtab_nvmeof_target_clear___output_format_choices=(normal json)
_shtab_nvmeof_target_shell__o_choices=(normal json)
_shtab_nvmeof_target_shell___output_format_choices=(normal json)
_shtab_nvmeof_target_stats__o_choices=(normal json)
_shtab_nvmeof_target_stats___output_format_choices=(normal json)
_shtab_nvmeof_target_log_level_pos_0_choices=(debug info warning error)
_shtab_nvmeof_target_log_level__o_choices=(normal json)
_shtab_nvmeof_target_log_level___output_format_choices=(normal json)
_shtab_nvmeof_target_fault_add_pos_0_choices=(delay error full torn hang drop cut lost wire-delay wire-drop wire-duplicate wire-reorder wire-corrupt wire-cut wire-half-open wire-stall)
_shtab_nvmeof_target_fault_add__o_choices=(normal json)
_shtab_nvmeof_target_fault_add___output_format_choices=(normal json)
_shtab_nvmeof_target_fault_add___direction_choices=(both to-target to-host)
_shtab_nvmeof_target_fault_add___distribution_choices=(fixed uniform normal exponential)
_shtab_nvmeof_target_fault_list__o_choices=(normal json)
_shtab_nvmeof_target_fault_list___output_format_choices=(normal json)
_shtab_nvmeof_target_fault_remove__o_choices=(normal json)
_shtab_nvmeof_target_fault_remove___output_format_choices=(normal json)
_shtab_nvmeof_target_fault_pos_0_choices=(add list remove)
_shtab_nvmeof_target_pos_0_choices=(serve ls subsystem namespace mirror host port ana reload save restore clear shell stats log-level fault)
_shtab_nvmeof_rpc__o_choices=(normal json)
_shtab_nvmeof_rpc___output_format_choices=(normal json)
_shtab_nvmeof_top__o_choices=(normal json)
_shtab_nvmeof_top___output_format_choices=(normal json)
_shtab_nvmeof_top___sort_choices=(iops bytes outstanding errors)
_shtab_nvmeof_config_check__o_choices=(normal json)
_shtab_nvmeof_config_check___output_format_choices=(normal json)
_shtab_nvmeof_config_schema__o_choices=(normal json)
_shtab_nvmeof_config_schema___output_format_choices=(normal json)
_shtab_nvmeof_config_import__o_choices=(normal json)
_shtab_nvmeof_config_import___output_format_choices=(normal json)
_shtab_nvmeof_config_export__o_choices=(normal json)
_shtab_nvmeof_config_export___output_format_choices=(normal json)
_shtab_nvmeof_config_pos_0_choices=(check schema import export)
_shtab_nvmeof_devices__o_choices=(normal json)
_shtab_nvmeof_devices___output_format_choices=(normal json)
_shtab_nvmeof_discover__o_choices=(normal json)
_shtab_nvmeof_discover___output_format_choices=(normal json)
_shtab_nvmeof_discover__t_choices=(rdma)
_shtab_nvmeof_discover___transport_choices=(rdma)
_shtab_nvmeof_discover___device_choices=(auto iwarp roce system)
_shtab_nvmeof_discover___remote_keys_choices=(command buffer)
_shtab_nvmeof_id_ctrl__o_choices=(normal json binary)
_shtab_nvmeof_id_ctrl___output_format_choices=(normal json binary)
_shtab_nvmeof_id_ctrl__t_choices=(rdma)
_shtab_nvmeof_id_ctrl___transport_choices=(rdma)
_shtab_nvmeof_id_ctrl___device_choices=(auto iwarp roce system)
_shtab_nvmeof_id_ctrl___remote_keys_choices=(command buffer)
_shtab_nvmeof_id_ns__o_choices=(normal json binary)
_shtab_nvmeof_id_ns___output_format_choices=(normal json binary)
_shtab_nvmeof_id_ns__t_choices=(rdma)
_shtab_nvmeof_id_ns___transport_choices=(rdma)
_shtab_nvmeof_id_ns___device_choices=(auto iwarp roce system)
_shtab_nvmeof_id_ns___remote_keys_choices=(command buffer)
_shtab_nvmeof_list_ns__o_choices=(normal json)
_shtab_nvmeof_list_ns___output_format_choices=(normal json)
_shtab_nvmeof_list_ns__t_choices=(rdma)
_shtab_nvmeof_list_ns___transport_choices=(rdma)
_shtab_nvmeof_list_ns___device_choices=(auto iwarp roce system)
_shtab_nvmeof_list_ns___remote_keys_choices=(command buffer)
_shtab_nvmeof_read__o_choices=(normal json)
_shtab_nvmeof_read___output_format_choices=(normal json)
_shtab_nvmeof_read___device_choices=(auto iwarp roce system)
_shtab_nvmeof_read___remote_keys_choices=(command buffer)
_shtab_nvmeof_write__o_choices=(normal json)
_shtab_nvmeof_write___output_format_choices=(normal json)
_shtab_nvmeof_write___device_choices=(auto iwarp roce system)
_shtab_nvmeof_write___remote_keys_choices=(command buffer)
_shtab_nvmeof_flush__o_choices=(normal json)
_shtab_nvmeof_flush___output_format_choices=(normal json)
_shtab_nvmeof_flush__t_choices=(rdma)
_shtab_nvmeof_flush___transport_choices=(rdma)
_shtab_nvmeof_flush___device_choices=(auto iwarp roce system)
_shtab_nvmeof_flush___remote_keys_choices=(command buffer)
_shtab_nvmeof_write_uncor__o_choices=(normal json)
_shtab_nvmeof_write_uncor___output_format_choices=(normal json)
_shtab_nvmeof_write_uncor__t_choices=(rdma)
_shtab_nvmeof_write_uncor___transport_choices=(rdma)
_shtab_nvmeof_write_uncor___device_choices=(auto iwarp roce system)
_shtab_nvmeof_write_uncor___remote_keys_choices=(command buffer)
_shtab_nvmeof_compare_and_write__o_choices=(normal json)
_shtab_nvmeof_compare_and_write___output_format_choices=(normal json)
_shtab_nvmeof_compare_and_write__t_choices=(rdma)
_shtab_nvmeof_compare_and_write___transport_choices=(rdma)
_shtab_nvmeof_compare_and_write___device_choices=(auto iwarp roce system)
_shtab_nvmeof_compare_and_write___remote_keys_choices=(command buffer)
_shtab_nvmeof_write_zeroes__o_choices=(normal json)
_shtab_nvmeof_write_zeroes___output_format_choices=(normal json)
_shtab_nvmeof_write_zeroes__t_choices=(rdma)
_shtab_nvmeof_write_zeroes___transport_choices=(rdma)
_shtab_nvmeof_write_zeroes___device_choices=(auto iwarp roce system)
_shtab_nvmeof_write_zeroes___remote_keys_choices=(command buffer)
_shtab_nvmeof_verify__o_choices=(normal json)
_shtab_nvmeof_verify___output_format_choices=(normal json)
_shtab_nvmeof_verify__t_choices=(rdma)
_shtab_nvmeof_verify___transport_choices=(rdma)
_shtab_nvmeof_verify___device_choices=(auto iwarp roce system)
_shtab_nvmeof_verify___remote_keys_choices=(command buffer)
_shtab_nvmeof_dsm__o_choices=(normal json)
_shtab_nvmeof_dsm___output_format_choices=(normal json)
_shtab_nvmeof_dsm__t_choices=(rdma)
_shtab_nvmeof_dsm___transport_choices=(rdma)
_shtab_nvmeof_dsm___device_choices=(auto iwarp roce system)
_shtab_nvmeof_dsm___remote_keys_choices=(command buffer)
_shtab_nvmeof_copy__o_choices=(normal json)
_shtab_nvmeof_copy___output_format_choices=(normal json)
_shtab_nvmeof_copy__t_choices=(rdma)
_shtab_nvmeof_copy___transport_choices=(rdma)
_shtab_nvmeof_copy___device_choices=(auto iwarp roce system)
_shtab_nvmeof_copy___remote_keys_choices=(command buffer)
_shtab_nvmeof_compare__o_choices=(normal json)
_shtab_nvmeof_compare___output_format_choices=(normal json)
_shtab_nvmeof_compare___device_choices=(auto iwarp roce system)
_shtab_nvmeof_compare___remote_keys_choices=(command buffer)
_shtab_nvmeof_smart_log__o_choices=(normal json binary)
_shtab_nvmeof_smart_log___output_format_choices=(normal json binary)
_shtab_nvmeof_smart_log__t_choices=(rdma)
_shtab_nvmeof_smart_log___transport_choices=(rdma)
_shtab_nvmeof_smart_log___device_choices=(auto iwarp roce system)
_shtab_nvmeof_smart_log___remote_keys_choices=(command buffer)
_shtab_nvmeof_error_log__o_choices=(normal json binary)
_shtab_nvmeof_error_log___output_format_choices=(normal json binary)
_shtab_nvmeof_error_log__t_choices=(rdma)
_shtab_nvmeof_error_log___transport_choices=(rdma)
_shtab_nvmeof_error_log___device_choices=(auto iwarp roce system)
_shtab_nvmeof_error_log___remote_keys_choices=(command buffer)
_shtab_nvmeof_ana_log__o_choices=(normal json binary)
_shtab_nvmeof_ana_log___output_format_choices=(normal json binary)
_shtab_nvmeof_ana_log__t_choices=(rdma)
_shtab_nvmeof_ana_log___transport_choices=(rdma)
_shtab_nvmeof_ana_log___device_choices=(auto iwarp roce system)
_shtab_nvmeof_ana_log___remote_keys_choices=(command buffer)
_shtab_nvmeof_changed_ns_list_log__o_choices=(normal json binary)
_shtab_nvmeof_changed_ns_list_log___output_format_choices=(normal json binary)
_shtab_nvmeof_changed_ns_list_log__t_choices=(rdma)
_shtab_nvmeof_changed_ns_list_log___transport_choices=(rdma)
_shtab_nvmeof_changed_ns_list_log___device_choices=(auto iwarp roce system)
_shtab_nvmeof_changed_ns_list_log___remote_keys_choices=(command buffer)
_shtab_nvmeof_get_log__t_choices=(rdma)
_shtab_nvmeof_get_log___transport_choices=(rdma)
_shtab_nvmeof_get_log___device_choices=(auto iwarp roce system)
_shtab_nvmeof_get_log___remote_keys_choices=(command buffer)
_shtab_nvmeof_get_feature__o_choices=(normal json binary)
_shtab_nvmeof_get_feature___output_format_choices=(normal json binary)
_shtab_nvmeof_get_feature__t_choices=(rdma)
_shtab_nvmeof_get_feature___transport_choices=(rdma)
_shtab_nvmeof_get_feature___device_choices=(auto iwarp roce system)
_shtab_nvmeof_get_feature___remote_keys_choices=(command buffer)
_shtab_nvmeof_get_feature___sel_choices=(0 1 2 3)
_shtab_nvmeof_set_feature__o_choices=(normal json)
_shtab_nvmeof_set_feature___output_format_choices=(normal json)
_shtab_nvmeof_set_feature__t_choices=(rdma)
_shtab_nvmeof_set_feature___transport_choices=(rdma)
_shtab_nvmeof_set_feature___device_choices=(auto iwarp roce system)
_shtab_nvmeof_set_feature___remote_keys_choices=(command buffer)
_shtab_nvmeof_show_regs__o_choices=(normal json)
_shtab_nvmeof_show_regs___output_format_choices=(normal json)
_shtab_nvmeof_show_regs__t_choices=(rdma)
_shtab_nvmeof_show_regs___transport_choices=(rdma)
_shtab_nvmeof_show_regs___device_choices=(auto iwarp roce system)
_shtab_nvmeof_show_regs___remote_keys_choices=(command buffer)
_shtab_nvmeof_resv_register__o_choices=(normal json)
_shtab_nvmeof_resv_register___output_format_choices=(normal json)
_shtab_nvmeof_resv_register__r_choices=(0 1 2)
_shtab_nvmeof_resv_register___rrega_choices=(0 1 2)
_shtab_nvmeof_resv_register__p_choices=(0 1 2 3)
_shtab_nvmeof_resv_register___cptpl_choices=(0 1 2 3)
_shtab_nvmeof_resv_register__t_choices=(rdma)
_shtab_nvmeof_resv_register___transport_choices=(rdma)
_shtab_nvmeof_resv_register___device_choices=(auto iwarp roce system)
_shtab_nvmeof_resv_register___remote_keys_choices=(command buffer)
_shtab_nvmeof_resv_acquire__o_choices=(normal json)
_shtab_nvmeof_resv_acquire___output_format_choices=(normal json)
_shtab_nvmeof_resv_acquire___racqa_choices=(0 1 2)
_shtab_nvmeof_resv_acquire___device_choices=(auto iwarp roce system)
_shtab_nvmeof_resv_acquire___remote_keys_choices=(command buffer)
_shtab_nvmeof_resv_release__o_choices=(normal json)
_shtab_nvmeof_resv_release___output_format_choices=(normal json)
_shtab_nvmeof_resv_release___rrela_choices=(0 1)
_shtab_nvmeof_resv_release___device_choices=(auto iwarp roce system)
_shtab_nvmeof_resv_release___remote_keys_choices=(command buffer)
_shtab_nvmeof_resv_report__o_choices=(normal json binary)
_shtab_nvmeof_resv_report___output_format_choices=(normal json binary)
_shtab_nvmeof_resv_report__t_choices=(rdma)
_shtab_nvmeof_resv_report___transport_choices=(rdma)
_shtab_nvmeof_resv_report___device_choices=(auto iwarp roce system)
_shtab_nvmeof_resv_report___remote_keys_choices=(command buffer)
_shtab_nvmeof_bench__o_choices=(normal json)
_shtab_nvmeof_bench___output_format_choices=(normal json)
_shtab_nvmeof_bench___rw_choices=(read write randread randwrite rw readwrite randrw)
_shtab_nvmeof_bench___readwrite_choices=(read write randread randwrite rw readwrite randrw)
_shtab_nvmeof_bench__t_choices=(rdma)
_shtab_nvmeof_bench___transport_choices=(rdma)
_shtab_nvmeof_bench___device_choices=(auto iwarp roce system)
_shtab_nvmeof_bench___remote_keys_choices=(command buffer)
_shtab_nvmeof_pmem_bench__o_choices=(normal json)
_shtab_nvmeof_pmem_bench___output_format_choices=(normal json)
_shtab_nvmeof_pmem_bench__t_choices=(rdma)
_shtab_nvmeof_pmem_bench___transport_choices=(rdma)
_shtab_nvmeof_pmem_bench___device_choices=(auto iwarp roce system)
_shtab_nvmeof_pmem_bench___remote_keys_choices=(command buffer)
_shtab_nvmeof_pmem_bench_replicas__o_choices=(normal json)
_shtab_nvmeof_pmem_bench_replicas___output_format_choices=(normal json)
_shtab_nvmeof_pmem_demo__o_choices=(normal json)
_shtab_nvmeof_pmem_demo___output_format_choices=(normal json)
_shtab_nvmeof_pmem_demo___device_choices=(iwarp roce)
_shtab_nvmeof_pmem_pos_0_choices=(bench bench-replicas demo)
_shtab_nvmeof_lab_run__o_choices=(normal json)
_shtab_nvmeof_lab_run___output_format_choices=(normal json)
_shtab_nvmeof_lab_report__o_choices=(normal json)
_shtab_nvmeof_lab_report___output_format_choices=(normal json)
_shtab_nvmeof_lab_compare__o_choices=(normal json)
_shtab_nvmeof_lab_compare___output_format_choices=(normal json)
_shtab_nvmeof_lab_compare___metric_choices=(iops mean_ns p50_ns p99_ns)
_shtab_nvmeof_lab_check__o_choices=(normal json)
_shtab_nvmeof_lab_check___output_format_choices=(normal json)
_shtab_nvmeof_lab_profiles__o_choices=(normal json)
_shtab_nvmeof_lab_profiles___output_format_choices=(normal json)
_shtab_nvmeof_lab_schema__o_choices=(normal json)
_shtab_nvmeof_lab_schema___output_format_choices=(normal json)
_shtab_nvmeof_lab_export_pos_0_choices=(csv)
_shtab_nvmeof_lab_export__o_choices=(normal json)
_shtab_nvmeof_lab_export___output_format_choices=(normal json)
_shtab_nvmeof_lab_pos_0_choices=(run report compare check profiles schema export)
_shtab_nvmeof_fio_engine_build__o_choices=(normal json)
_shtab_nvmeof_fio_engine_build___output_format_choices=(normal json)
_shtab_nvmeof_fio_engine_path__o_choices=(normal json)
_shtab_nvmeof_fio_engine_path___output_format_choices=(normal json)
_shtab_nvmeof_fio_engine_pos_0_choices=(build path)
_shtab_nvmeof_verbs__o_choices=(normal json)
_shtab_nvmeof_verbs___output_format_choices=(normal json)
_shtab_nvmeof_verbs___device_choices=(iwarp roce)
_shtab_nvmeof_capture__o_choices=(normal json)
_shtab_nvmeof_capture___output_format_choices=(normal json)
_shtab_nvmeof_explain__o_choices=(normal json)
_shtab_nvmeof_explain___output_format_choices=(normal json)
_shtab_nvmeof_replay__o_choices=(normal json)
_shtab_nvmeof_replay___output_format_choices=(normal json)
_shtab_nvmeof_replay___as_choices=(host target)
_shtab_nvmeof_replay__t_choices=(rdma)
_shtab_nvmeof_replay___transport_choices=(rdma)
_shtab_nvmeof_replay___device_choices=(auto iwarp roce system)
_shtab_nvmeof_replay___remote_keys_choices=(command buffer)
_shtab_nvmeof_connect__o_choices=(normal json)
_shtab_nvmeof_connect___output_format_choices=(normal json)
_shtab_nvmeof_connect__t_choices=(rdma)
_shtab_nvmeof_connect___transport_choices=(rdma)
_shtab_nvmeof_connect_all__o_choices=(normal json)
_shtab_nvmeof_connect_all___output_format_choices=(normal json)
_shtab_nvmeof_connect_all__t_choices=(rdma)
_shtab_nvmeof_connect_all___transport_choices=(rdma)
_shtab_nvmeof_connect_all___device_choices=(kernel iwarp roce system auto)
_shtab_nvmeof_disconnect__o_choices=(normal json)
_shtab_nvmeof_disconnect___output_format_choices=(normal json)
_shtab_nvmeof_disconnect_all__o_choices=(normal json)
_shtab_nvmeof_disconnect_all___output_format_choices=(normal json)
_shtab_nvmeof_reset__o_choices=(normal json)
_shtab_nvmeof_reset___output_format_choices=(normal json)
_shtab_nvmeof_reset__t_choices=(rdma)
_shtab_nvmeof_reset___transport_choices=(rdma)
_shtab_nvmeof_reset___device_choices=(auto iwarp roce system)
_shtab_nvmeof_reset___remote_keys_choices=(command buffer)
_shtab_nvmeof_list__o_choices=(normal json)
_shtab_nvmeof_list___output_format_choices=(normal json)
_shtab_nvmeof_list_subsys__o_choices=(normal json)
_shtab_nvmeof_list_subsys___output_format_choices=(normal json)
_shtab_nvmeof_gen_dhchap_key__o_choices=(normal json)
_shtab_nvmeof_gen_dhchap_key___output_format_choices=(normal json)
_shtab_nvmeof_gen_dhchap_key__m_choices=(0 1 2 3)
_shtab_nvmeof_gen_dhchap_key___hmac_choices=(0 1 2 3)
_shtab_nvmeof_gen_dhchap_key__l_choices=(32 48 64)
_shtab_nvmeof_gen_dhchap_key___key_length_choices=(32 48 64)
_shtab_nvmeof_check_dhchap_key__o_choices=(normal json)
_shtab_nvmeof_check_dhchap_key___output_format_choices=(normal json)
_shtab_nvmeof_show_hostnqn__o_choices=(normal json)
_shtab_nvmeof_show_hostnqn___output_format_choices=(normal json)
_shtab_nvmeof_gen_hostnqn__o_choices=(normal json)
_shtab_nvmeof_gen_hostnqn___output_format_choices=(normal json)
_shtab_nvmeof_doctor__o_choices=(normal json)
_shtab_nvmeof_doctor___output_format_choices=(normal json)
_shtab_nvmeof_completion_pos_0_choices=(bash zsh fish)
_shtab_nvmeof_completion__o_choices=(normal json)
_shtab_nvmeof_completion___output_format_choices=(normal json)
_shtab_nvmeof_pos_0_choices=(target rpc top config devices discover id-ctrl id-ns list-ns read write flush write-uncor compare-and-write write-zeroes verify dsm copy compare smart-log error-log ana-log changed-ns-list-log get-log get-feature set-feature show-regs resv-register resv-acquire resv-release resv-report bench pmem lab fio-engine verbs capture explain replay connect connect-all disconnect disconnect-all reset list list-subsys gen-dhchap-key check-dhchap-key show-hostnqn gen-hostnqn doctor completion)

_shtab_nvmeof_target_serve__h_nargs=0
_shtab_nvmeof_target_serve___help_nargs=0
_shtab_nvmeof_target_serve__v_nargs=0
_shtab_nvmeof_target_serve___verbose_nargs=0
_shtab_nvmeof_target_serve___force_nargs=0
_shtab_nvmeof_target_serve___allow_faults_nargs=0
_shtab_nvmeof_target_ls__h_nargs=0
_shtab_nvmeof_target_ls___help_nargs=0
_shtab_nvmeof_target_ls__v_nargs=0
_shtab_nvmeof_target_ls___verbose_nargs=0
_shtab_nvmeof_target_subsystem_add__h_nargs=0
_shtab_nvmeof_target_subsystem_add___help_nargs=0
_shtab_nvmeof_target_subsystem_add__v_nargs=0
_shtab_nvmeof_target_subsystem_add___verbose_nargs=0
_shtab_nvmeof_target_subsystem_add___allow_any_host_nargs=0
_shtab_nvmeof_target_subsystem_remove__h_nargs=0
_shtab_nvmeof_target_subsystem_remove___help_nargs=0
_shtab_nvmeof_target_subsystem_remove__v_nargs=0
_shtab_nvmeof_target_subsystem_remove___verbose_nargs=0
_shtab_nvmeof_target_subsystem_pos_0_nargs=A...
_shtab_nvmeof_target_subsystem__h_nargs=0
_shtab_nvmeof_target_subsystem___help_nargs=0
_shtab_nvmeof_target_namespace_add__h_nargs=0
_shtab_nvmeof_target_namespace_add___help_nargs=0
_shtab_nvmeof_target_namespace_add__v_nargs=0
_shtab_nvmeof_target_namespace_add___verbose_nargs=0
_shtab_nvmeof_target_namespace_add___read_only_nargs=0
_shtab_nvmeof_target_namespace_add___hotplug_nargs=0
_shtab_nvmeof_target_namespace_remove__h_nargs=0
_shtab_nvmeof_target_namespace_remove___help_nargs=0
_shtab_nvmeof_target_namespace_remove__v_nargs=0
_shtab_nvmeof_target_namespace_remove___verbose_nargs=0
_shtab_nvmeof_target_namespace_resize__h_nargs=0
_shtab_nvmeof_target_namespace_resize___help_nargs=0
_shtab_nvmeof_target_namespace_resize__v_nargs=0
_shtab_nvmeof_target_namespace_resize___verbose_nargs=0
_shtab_nvmeof_target_namespace_replace__h_nargs=0
_shtab_nvmeof_target_namespace_replace___help_nargs=0
_shtab_nvmeof_target_namespace_replace__v_nargs=0
_shtab_nvmeof_target_namespace_replace___verbose_nargs=0
_shtab_nvmeof_target_namespace_replace___read_only_nargs=0
_shtab_nvmeof_target_namespace_mask__h_nargs=0
_shtab_nvmeof_target_namespace_mask___help_nargs=0
_shtab_nvmeof_target_namespace_mask__v_nargs=0
_shtab_nvmeof_target_namespace_mask___verbose_nargs=0
_shtab_nvmeof_target_namespace_mask___all_nargs=0
_shtab_nvmeof_target_namespace_mask___none_nargs=0
_shtab_nvmeof_target_namespace_protect__h_nargs=0
_shtab_nvmeof_target_namespace_protect___help_nargs=0
_shtab_nvmeof_target_namespace_protect__v_nargs=0
_shtab_nvmeof_target_namespace_protect___verbose_nargs=0
_shtab_nvmeof_target_namespace_protect___force_nargs=0
_shtab_nvmeof_target_namespace_limit__h_nargs=0
_shtab_nvmeof_target_namespace_limit___help_nargs=0
_shtab_nvmeof_target_namespace_limit__v_nargs=0
_shtab_nvmeof_target_namespace_limit___verbose_nargs=0
_shtab_nvmeof_target_namespace_limit___clear_nargs=0
_shtab_nvmeof_target_namespace_pos_0_nargs=A...
_shtab_nvmeof_target_namespace__h_nargs=0
_shtab_nvmeof_target_namespace___help_nargs=0
_shtab_nvmeof_target_mirror_show__h_nargs=0
_shtab_nvmeof_target_mirror_show___help_nargs=0
_shtab_nvmeof_target_mirror_show__v_nargs=0
_shtab_nvmeof_target_mirror_show___verbose_nargs=0
_shtab_nvmeof_target_mirror_events__h_nargs=0
_shtab_nvmeof_target_mirror_events___help_nargs=0
_shtab_nvmeof_target_mirror_events__v_nargs=0
_shtab_nvmeof_target_mirror_events___verbose_nargs=0
_shtab_nvmeof_target_mirror_events__f_nargs=0
_shtab_nvmeof_target_mirror_events___follow_nargs=0
_shtab_nvmeof_target_mirror_add_leg__h_nargs=0
_shtab_nvmeof_target_mirror_add_leg___help_nargs=0
_shtab_nvmeof_target_mirror_add_leg__v_nargs=0
_shtab_nvmeof_target_mirror_add_leg___verbose_nargs=0
_shtab_nvmeof_target_mirror_remove_leg__h_nargs=0
_shtab_nvmeof_target_mirror_remove_leg___help_nargs=0
_shtab_nvmeof_target_mirror_remove_leg__v_nargs=0
_shtab_nvmeof_target_mirror_remove_leg___verbose_nargs=0
_shtab_nvmeof_target_mirror_replace_leg__h_nargs=0
_shtab_nvmeof_target_mirror_replace_leg___help_nargs=0
_shtab_nvmeof_target_mirror_replace_leg__v_nargs=0
_shtab_nvmeof_target_mirror_replace_leg___verbose_nargs=0
_shtab_nvmeof_target_mirror_resync__h_nargs=0
_shtab_nvmeof_target_mirror_resync___help_nargs=0
_shtab_nvmeof_target_mirror_resync__v_nargs=0
_shtab_nvmeof_target_mirror_resync___verbose_nargs=0
_shtab_nvmeof_target_mirror_pos_0_nargs=A...
_shtab_nvmeof_target_mirror__h_nargs=0
_shtab_nvmeof_target_mirror___help_nargs=0
_shtab_nvmeof_target_host_allow__h_nargs=0
_shtab_nvmeof_target_host_allow___help_nargs=0
_shtab_nvmeof_target_host_allow__v_nargs=0
_shtab_nvmeof_target_host_allow___verbose_nargs=0
_shtab_nvmeof_target_host_allow___any_nargs=0
_shtab_nvmeof_target_host_set_keys__h_nargs=0
_shtab_nvmeof_target_host_set_keys___help_nargs=0
_shtab_nvmeof_target_host_set_keys__v_nargs=0
_shtab_nvmeof_target_host_set_keys___verbose_nargs=0
_shtab_nvmeof_target_host_set_keys___none_nargs=0
_shtab_nvmeof_target_host_remove__h_nargs=0
_shtab_nvmeof_target_host_remove___help_nargs=0
_shtab_nvmeof_target_host_remove__v_nargs=0
_shtab_nvmeof_target_host_remove___verbose_nargs=0
_shtab_nvmeof_target_host_remove___any_nargs=0
_shtab_nvmeof_target_host_pos_0_nargs=A...
_shtab_nvmeof_target_host__h_nargs=0
_shtab_nvmeof_target_host___help_nargs=0
_shtab_nvmeof_target_port_add__h_nargs=0
_shtab_nvmeof_target_port_add___help_nargs=0
_shtab_nvmeof_target_port_add__v_nargs=0
_shtab_nvmeof_target_port_add___verbose_nargs=0
_shtab_nvmeof_target_port_add___hotplug_nargs=0
_shtab_nvmeof_target_port_add___wire_faults_nargs=0
_shtab_nvmeof_target_port_remove__h_nargs=0
_shtab_nvmeof_target_port_remove___help_nargs=0
_shtab_nvmeof_target_port_remove__v_nargs=0
_shtab_nvmeof_target_port_remove___verbose_nargs=0
_shtab_nvmeof_target_port_pos_0_nargs=A...
_shtab_nvmeof_target_port__h_nargs=0
_shtab_nvmeof_target_port___help_nargs=0
_shtab_nvmeof_target_ana_set__h_nargs=0
_shtab_nvmeof_target_ana_set___help_nargs=0
_shtab_nvmeof_target_ana_set__v_nargs=0
_shtab_nvmeof_target_ana_set___verbose_nargs=0
_shtab_nvmeof_target_ana_pos_0_nargs=A...
_shtab_nvmeof_target_ana__h_nargs=0
_shtab_nvmeof_target_ana___help_nargs=0
_shtab_nvmeof_target_reload__h_nargs=0
_shtab_nvmeof_target_reload___help_nargs=0
_shtab_nvmeof_target_reload__v_nargs=0
_shtab_nvmeof_target_reload___verbose_nargs=0
_shtab_nvmeof_target_save__h_nargs=0
_shtab_nvmeof_target_save___help_nargs=0
_shtab_nvmeof_target_save__v_nargs=0
_shtab_nvmeof_target_save___verbose_nargs=0
_shtab_nvmeof_target_save___force_nargs=0
_shtab_nvmeof_target_restore__h_nargs=0
_shtab_nvmeof_target_restore___help_nargs=0
_shtab_nvmeof_target_restore__v_nargs=0
_shtab_nvmeof_target_restore___verbose_nargs=0
_shtab_nvmeof_target_clear__h_nargs=0
_shtab_nvmeof_target_clear___help_nargs=0
_shtab_nvmeof_target_clear__v_nargs=0
_shtab_nvmeof_target_clear___verbose_nargs=0
_shtab_nvmeof_target_shell_pos_0_nargs='*'
_shtab_nvmeof_target_shell__h_nargs=0
_shtab_nvmeof_target_shell___help_nargs=0
_shtab_nvmeof_target_shell__v_nargs=0
_shtab_nvmeof_target_shell___verbose_nargs=0
_shtab_nvmeof_target_stats__h_nargs=0
_shtab_nvmeof_target_stats___help_nargs=0
_shtab_nvmeof_target_stats__v_nargs=0
_shtab_nvmeof_target_stats___verbose_nargs=0
_shtab_nvmeof_target_log_level__h_nargs=0
_shtab_nvmeof_target_log_level___help_nargs=0
_shtab_nvmeof_target_log_level__v_nargs=0
_shtab_nvmeof_target_log_level___verbose_nargs=0
_shtab_nvmeof_target_fault_add__h_nargs=0
_shtab_nvmeof_target_fault_add___help_nargs=0
_shtab_nvmeof_target_fault_add__v_nargs=0
_shtab_nvmeof_target_fault_add___verbose_nargs=0
_shtab_nvmeof_target_fault_add___admin_nargs=0
_shtab_nvmeof_target_fault_add___dnr_nargs=0
_shtab_nvmeof_target_fault_add___crash_nargs=0
_shtab_nvmeof_target_fault_list__h_nargs=0
_shtab_nvmeof_target_fault_list___help_nargs=0
_shtab_nvmeof_target_fault_list__v_nargs=0
_shtab_nvmeof_target_fault_list___verbose_nargs=0
_shtab_nvmeof_target_fault_remove__h_nargs=0
_shtab_nvmeof_target_fault_remove___help_nargs=0
_shtab_nvmeof_target_fault_remove__v_nargs=0
_shtab_nvmeof_target_fault_remove___verbose_nargs=0
_shtab_nvmeof_target_fault_remove___all_nargs=0
_shtab_nvmeof_target_fault_pos_0_nargs=A...
_shtab_nvmeof_target_fault__h_nargs=0
_shtab_nvmeof_target_fault___help_nargs=0
_shtab_nvmeof_target_pos_0_nargs=A...
_shtab_nvmeof_target__h_nargs=0
_shtab_nvmeof_target___help_nargs=0
_shtab_nvmeof_rpc__h_nargs=0
_shtab_nvmeof_rpc___help_nargs=0
_shtab_nvmeof_rpc__v_nargs=0
_shtab_nvmeof_rpc___verbose_nargs=0
_shtab_nvmeof_rpc___list_nargs=0
_shtab_nvmeof_top__h_nargs=0
_shtab_nvmeof_top___help_nargs=0
_shtab_nvmeof_top__v_nargs=0
_shtab_nvmeof_top___verbose_nargs=0
_shtab_nvmeof_config_check__h_nargs=0
_shtab_nvmeof_config_check___help_nargs=0
_shtab_nvmeof_config_check__v_nargs=0
_shtab_nvmeof_config_check___verbose_nargs=0
_shtab_nvmeof_config_schema__h_nargs=0
_shtab_nvmeof_config_schema___help_nargs=0
_shtab_nvmeof_config_schema__v_nargs=0
_shtab_nvmeof_config_schema___verbose_nargs=0
_shtab_nvmeof_config_import__h_nargs=0
_shtab_nvmeof_config_import___help_nargs=0
_shtab_nvmeof_config_import__v_nargs=0
_shtab_nvmeof_config_import___verbose_nargs=0
_shtab_nvmeof_config_export__h_nargs=0
_shtab_nvmeof_config_export___help_nargs=0
_shtab_nvmeof_config_export__v_nargs=0
_shtab_nvmeof_config_export___verbose_nargs=0
_shtab_nvmeof_config_pos_0_nargs=A...
_shtab_nvmeof_config__h_nargs=0
_shtab_nvmeof_config___help_nargs=0
_shtab_nvmeof_devices__h_nargs=0
_shtab_nvmeof_devices___help_nargs=0
_shtab_nvmeof_devices__v_nargs=0
_shtab_nvmeof_devices___verbose_nargs=0
_shtab_nvmeof_devices___watch_nargs=0
_shtab_nvmeof_discover__h_nargs=0
_shtab_nvmeof_discover___help_nargs=0
_shtab_nvmeof_discover__v_nargs=0
_shtab_nvmeof_discover___verbose_nargs=0
_shtab_nvmeof_discover___disable_sqflow_nargs=0
_shtab_nvmeof_discover__p_nargs=0
_shtab_nvmeof_discover___persistent_nargs=0
_shtab_nvmeof_discover___mdns_nargs=0
_shtab_nvmeof_id_ctrl__h_nargs=0
_shtab_nvmeof_id_ctrl___help_nargs=0
_shtab_nvmeof_id_ctrl__v_nargs=0
_shtab_nvmeof_id_ctrl___verbose_nargs=0
_shtab_nvmeof_id_ctrl__H_nargs=0
_shtab_nvmeof_id_ctrl___human_readable_nargs=0
_shtab_nvmeof_id_ctrl__b_nargs=0
_shtab_nvmeof_id_ctrl___raw_binary_nargs=0
_shtab_nvmeof_id_ctrl___disable_sqflow_nargs=0
_shtab_nvmeof_id_ns__h_nargs=0
_shtab_nvmeof_id_ns___help_nargs=0
_shtab_nvmeof_id_ns__v_nargs=0
_shtab_nvmeof_id_ns___verbose_nargs=0
_shtab_nvmeof_id_ns__H_nargs=0
_shtab_nvmeof_id_ns___human_readable_nargs=0
_shtab_nvmeof_id_ns__b_nargs=0
_shtab_nvmeof_id_ns___raw_binary_nargs=0
_shtab_nvmeof_id_ns___disable_sqflow_nargs=0
_shtab_nvmeof_list_ns__h_nargs=0
_shtab_nvmeof_list_ns___help_nargs=0
_shtab_nvmeof_list_ns__v_nargs=0
_shtab_nvmeof_list_ns___verbose_nargs=0
_shtab_nvmeof_list_ns___all_nargs=0
_shtab_nvmeof_list_ns__a_nargs='?'
_shtab_nvmeof_list_ns___traddr_nargs='?'
_shtab_nvmeof_list_ns___disable_sqflow_nargs=0
_shtab_nvmeof_read__h_nargs=0
_shtab_nvmeof_read___help_nargs=0
_shtab_nvmeof_read__v_nargs=0
_shtab_nvmeof_read___verbose_nargs=0
_shtab_nvmeof_read__f_nargs=0
_shtab_nvmeof_read___force_unit_access_nargs=0
_shtab_nvmeof_read__t_nargs='?'
_shtab_nvmeof_read___transport_nargs='?'
_shtab_nvmeof_read___disable_sqflow_nargs=0
_shtab_nvmeof_read___latency_nargs=0
_shtab_nvmeof_read__l_nargs=0
_shtab_nvmeof_read___limited_retry_nargs=0
_shtab_nvmeof_write__h_nargs=0
_shtab_nvmeof_write___help_nargs=0
_shtab_nvmeof_write__v_nargs=0
_shtab_nvmeof_write___verbose_nargs=0
_shtab_nvmeof_write__f_nargs=0
_shtab_nvmeof_write___force_unit_access_nargs=0
_shtab_nvmeof_write___pad_nargs=0
_shtab_nvmeof_write___no_flush_nargs=0
_shtab_nvmeof_write__t_nargs='?'
_shtab_nvmeof_write___transport_nargs='?'
_shtab_nvmeof_write___disable_sqflow_nargs=0
_shtab_nvmeof_write___latency_nargs=0
_shtab_nvmeof_write__l_nargs=0
_shtab_nvmeof_write___limited_retry_nargs=0
_shtab_nvmeof_flush__h_nargs=0
_shtab_nvmeof_flush___help_nargs=0
_shtab_nvmeof_flush__v_nargs=0
_shtab_nvmeof_flush___verbose_nargs=0
_shtab_nvmeof_flush___disable_sqflow_nargs=0
_shtab_nvmeof_write_uncor__h_nargs=0
_shtab_nvmeof_write_uncor___help_nargs=0
_shtab_nvmeof_write_uncor__v_nargs=0
_shtab_nvmeof_write_uncor___verbose_nargs=0
_shtab_nvmeof_write_uncor___disable_sqflow_nargs=0
_shtab_nvmeof_compare_and_write__h_nargs=0
_shtab_nvmeof_compare_and_write___help_nargs=0
_shtab_nvmeof_compare_and_write__v_nargs=0
_shtab_nvmeof_compare_and_write___verbose_nargs=0
_shtab_nvmeof_compare_and_write__f_nargs=0
_shtab_nvmeof_compare_and_write___force_unit_access_nargs=0
_shtab_nvmeof_compare_and_write___disable_sqflow_nargs=0
_shtab_nvmeof_write_zeroes__h_nargs=0
_shtab_nvmeof_write_zeroes___help_nargs=0
_shtab_nvmeof_write_zeroes__v_nargs=0
_shtab_nvmeof_write_zeroes___verbose_nargs=0
_shtab_nvmeof_write_zeroes___disable_sqflow_nargs=0
_shtab_nvmeof_write_zeroes__d_nargs=0
_shtab_nvmeof_write_zeroes___deac_nargs=0
_shtab_nvmeof_write_zeroes__f_nargs=0
_shtab_nvmeof_write_zeroes___force_unit_access_nargs=0
_shtab_nvmeof_write_zeroes__l_nargs=0
_shtab_nvmeof_write_zeroes___limited_retry_nargs=0
_shtab_nvmeof_verify__h_nargs=0
_shtab_nvmeof_verify___help_nargs=0
_shtab_nvmeof_verify__v_nargs=0
_shtab_nvmeof_verify___verbose_nargs=0
_shtab_nvmeof_verify___disable_sqflow_nargs=0
_shtab_nvmeof_verify__f_nargs=0
_shtab_nvmeof_verify___force_unit_access_nargs=0
_shtab_nvmeof_verify__l_nargs=0
_shtab_nvmeof_verify___limited_retry_nargs=0
_shtab_nvmeof_dsm__h_nargs=0
_shtab_nvmeof_dsm___help_nargs=0
_shtab_nvmeof_dsm__v_nargs=0
_shtab_nvmeof_dsm___verbose_nargs=0
_shtab_nvmeof_dsm___disable_sqflow_nargs=0
_shtab_nvmeof_dsm__d_nargs=0
_shtab_nvmeof_dsm___ad_nargs=0
_shtab_nvmeof_copy__h_nargs=0
_shtab_nvmeof_copy___help_nargs=0
_shtab_nvmeof_copy__v_nargs=0
_shtab_nvmeof_copy___verbose_nargs=0
_shtab_nvmeof_copy___disable_sqflow_nargs=0
_shtab_nvmeof_copy__f_nargs=0
_shtab_nvmeof_copy___force_unit_access_nargs=0
_shtab_nvmeof_compare__h_nargs=0
_shtab_nvmeof_compare___help_nargs=0
_shtab_nvmeof_compare__v_nargs=0
_shtab_nvmeof_compare___verbose_nargs=0
_shtab_nvmeof_compare__t_nargs='?'
_shtab_nvmeof_compare___transport_nargs='?'
_shtab_nvmeof_compare___disable_sqflow_nargs=0
_shtab_nvmeof_compare__f_nargs=0
_shtab_nvmeof_compare___force_unit_access_nargs=0
_shtab_nvmeof_compare___latency_nargs=0
_shtab_nvmeof_compare__l_nargs=0
_shtab_nvmeof_compare___limited_retry_nargs=0
_shtab_nvmeof_smart_log__h_nargs=0
_shtab_nvmeof_smart_log___help_nargs=0
_shtab_nvmeof_smart_log__v_nargs=0
_shtab_nvmeof_smart_log___verbose_nargs=0
_shtab_nvmeof_smart_log__b_nargs=0
_shtab_nvmeof_smart_log___raw_binary_nargs=0
_shtab_nvmeof_smart_log__H_nargs=0
_shtab_nvmeof_smart_log___human_readable_nargs=0
_shtab_nvmeof_error_log__h_nargs=0
_shtab_nvmeof_error_log___help_nargs=0
_shtab_nvmeof_error_log__v_nargs=0
_shtab_nvmeof_error_log___verbose_nargs=0
_shtab_nvmeof_error_log__b_nargs=0
_shtab_nvmeof_error_log___raw_binary_nargs=0
_shtab_nvmeof_ana_log__h_nargs=0
_shtab_nvmeof_ana_log___help_nargs=0
_shtab_nvmeof_ana_log__v_nargs=0
_shtab_nvmeof_ana_log___verbose_nargs=0
_shtab_nvmeof_ana_log__g_nargs=0
_shtab_nvmeof_ana_log___groups_nargs=0
_shtab_nvmeof_ana_log__b_nargs=0
_shtab_nvmeof_ana_log___raw_binary_nargs=0
_shtab_nvmeof_changed_ns_list_log__h_nargs=0
_shtab_nvmeof_changed_ns_list_log___help_nargs=0
_shtab_nvmeof_changed_ns_list_log__v_nargs=0
_shtab_nvmeof_changed_ns_list_log___verbose_nargs=0
_shtab_nvmeof_changed_ns_list_log__b_nargs=0
_shtab_nvmeof_changed_ns_list_log___raw_binary_nargs=0
_shtab_nvmeof_get_log__h_nargs=0
_shtab_nvmeof_get_log___help_nargs=0
_shtab_nvmeof_get_log__v_nargs=0
_shtab_nvmeof_get_log___verbose_nargs=0
_shtab_nvmeof_get_log__r_nargs=0
_shtab_nvmeof_get_log___rae_nargs=0
_shtab_nvmeof_get_log__b_nargs=0
_shtab_nvmeof_get_log___raw_binary_nargs=0
_shtab_nvmeof_get_feature__h_nargs=0
_shtab_nvmeof_get_feature___help_nargs=0
_shtab_nvmeof_get_feature__v_nargs=0
_shtab_nvmeof_get_feature___verbose_nargs=0
_shtab_nvmeof_get_feature__H_nargs=0
_shtab_nvmeof_get_feature___human_readable_nargs=0
_shtab_nvmeof_get_feature__b_nargs=0
_shtab_nvmeof_get_feature___raw_binary_nargs=0
_shtab_nvmeof_set_feature__h_nargs=0
_shtab_nvmeof_set_feature___help_nargs=0
_shtab_nvmeof_set_feature___verbose_nargs=0
_shtab_nvmeof_set_feature__s_nargs='?'
_shtab_nvmeof_set_feature___trsvcid_nargs='?'
_shtab_nvmeof_set_feature__v_nargs='?'
_shtab_nvmeof_set_feature___save_nargs=0
_shtab_nvmeof_show_regs__h_nargs=0
_shtab_nvmeof_show_regs___help_nargs=0
_shtab_nvmeof_show_regs__v_nargs=0
_shtab_nvmeof_show_regs___verbose_nargs=0
_shtab_nvmeof_show_regs__H_nargs=0
_shtab_nvmeof_show_regs___human_readable_nargs=0
_shtab_nvmeof_resv_register__h_nargs=0
_shtab_nvmeof_resv_register___help_nargs=0
_shtab_nvmeof_resv_register__v_nargs=0
_shtab_nvmeof_resv_register___verbose_nargs=0
_shtab_nvmeof_resv_register__i_nargs=0
_shtab_nvmeof_resv_register___iekey_nargs=0
_shtab_nvmeof_resv_register___disable_sqflow_nargs=0
_shtab_nvmeof_resv_acquire__h_nargs=0
_shtab_nvmeof_resv_acquire___help_nargs=0
_shtab_nvmeof_resv_acquire__v_nargs=0
_shtab_nvmeof_resv_acquire___verbose_nargs=0
_shtab_nvmeof_resv_acquire___disable_sqflow_nargs=0
_shtab_nvmeof_resv_release__h_nargs=0
_shtab_nvmeof_resv_release___help_nargs=0
_shtab_nvmeof_resv_release__v_nargs=0
_shtab_nvmeof_resv_release___verbose_nargs=0
_shtab_nvmeof_resv_release___disable_sqflow_nargs=0
_shtab_nvmeof_resv_report__h_nargs=0
_shtab_nvmeof_resv_report___help_nargs=0
_shtab_nvmeof_resv_report__v_nargs=0
_shtab_nvmeof_resv_report___verbose_nargs=0
_shtab_nvmeof_resv_report__e_nargs=0
_shtab_nvmeof_resv_report___eds_nargs=0
_shtab_nvmeof_resv_report__b_nargs=0
_shtab_nvmeof_resv_report___raw_binary_nargs=0
_shtab_nvmeof_resv_report___disable_sqflow_nargs=0
_shtab_nvmeof_bench__h_nargs=0
_shtab_nvmeof_bench___help_nargs=0
_shtab_nvmeof_bench__v_nargs=0
_shtab_nvmeof_bench___verbose_nargs=0
_shtab_nvmeof_bench___time_based_nargs=0
_shtab_nvmeof_bench___time_based_nargs=0
_shtab_nvmeof_bench___time_based_1_nargs=0
_shtab_nvmeof_bench___force_nargs=0
_shtab_nvmeof_pmem_bench__h_nargs=0
_shtab_nvmeof_pmem_bench___help_nargs=0
_shtab_nvmeof_pmem_bench__v_nargs=0
_shtab_nvmeof_pmem_bench___verbose_nargs=0
_shtab_nvmeof_pmem_bench___force_nargs=0
_shtab_nvmeof_pmem_bench___ignore_assumptions_nargs=0
_shtab_nvmeof_pmem_bench_replicas_pos_0_nargs=+
_shtab_nvmeof_pmem_bench_replicas__h_nargs=0
_shtab_nvmeof_pmem_bench_replicas___help_nargs=0
_shtab_nvmeof_pmem_bench_replicas__v_nargs=0
_shtab_nvmeof_pmem_bench_replicas___verbose_nargs=0
_shtab_nvmeof_pmem_bench_replicas___force_nargs=0
_shtab_nvmeof_pmem_bench_replicas___ignore_assumptions_nargs=0
_shtab_nvmeof_pmem_demo__h_nargs=0
_shtab_nvmeof_pmem_demo___help_nargs=0
_shtab_nvmeof_pmem_demo__v_nargs=0
_shtab_nvmeof_pmem_demo___verbose_nargs=0
_shtab_nvmeof_pmem_pos_0_nargs=A...
_shtab_nvmeof_pmem__h_nargs=0
_shtab_nvmeof_pmem___help_nargs=0
_shtab_nvmeof_lab_run__h_nargs=0
_shtab_nvmeof_lab_run___help_nargs=0
_shtab_nvmeof_lab_run__v_nargs=0
_shtab_nvmeof_lab_run___verbose_nargs=0
_shtab_nvmeof_lab_run___try_nargs=0
_shtab_nvmeof_lab_run___no_report_nargs=0
_shtab_nvmeof_lab_run___quiet_nargs=0
_shtab_nvmeof_lab_report__h_nargs=0
_shtab_nvmeof_lab_report___help_nargs=0
_shtab_nvmeof_lab_report__v_nargs=0
_shtab_nvmeof_lab_report___verbose_nargs=0
_shtab_nvmeof_lab_report___pictures_nargs=0
_shtab_nvmeof_lab_compare_pos_0_nargs=+
_shtab_nvmeof_lab_compare__h_nargs=0
_shtab_nvmeof_lab_compare___help_nargs=0
_shtab_nvmeof_lab_compare__v_nargs=0
_shtab_nvmeof_lab_compare___verbose_nargs=0
_shtab_nvmeof_lab_check__h_nargs=0
_shtab_nvmeof_lab_check___help_nargs=0
_shtab_nvmeof_lab_check__v_nargs=0
_shtab_nvmeof_lab_check___verbose_nargs=0
_shtab_nvmeof_lab_profiles__h_nargs=0
_shtab_nvmeof_lab_profiles___help_nargs=0
_shtab_nvmeof_lab_profiles__v_nargs=0
_shtab_nvmeof_lab_profiles___verbose_nargs=0
_shtab_nvmeof_lab_schema__h_nargs=0
_shtab_nvmeof_lab_schema___help_nargs=0
_shtab_nvmeof_lab_schema__v_nargs=0
_shtab_nvmeof_lab_schema___verbose_nargs=0
_shtab_nvmeof_lab_export__h_nargs=0
_shtab_nvmeof_lab_export___help_nargs=0
_shtab_nvmeof_lab_export__v_nargs=0
_shtab_nvmeof_lab_export___verbose_nargs=0
_shtab_nvmeof_lab_pos_0_nargs=A...
_shtab_nvmeof_lab__h_nargs=0
_shtab_nvmeof_lab___help_nargs=0
_shtab_nvmeof_fio_engine_build__h_nargs=0
_shtab_nvmeof_fio_engine_build___help_nargs=0
_shtab_nvmeof_fio_engine_build__v_nargs=0
_shtab_nvmeof_fio_engine_build___verbose_nargs=0
_shtab_nvmeof_fio_engine_path__h_nargs=0
_shtab_nvmeof_fio_engine_path___help_nargs=0
_shtab_nvmeof_fio_engine_path__v_nargs=0
_shtab_nvmeof_fio_engine_path___verbose_nargs=0
_shtab_nvmeof_fio_engine_pos_0_nargs=A...
_shtab_nvmeof_fio_engine__h_nargs=0
_shtab_nvmeof_fio_engine___help_nargs=0
_shtab_nvmeof_verbs_pos_0_nargs=...
_shtab_nvmeof_verbs__h_nargs=0
_shtab_nvmeof_verbs___help_nargs=0
_shtab_nvmeof_verbs__v_nargs=0
_shtab_nvmeof_verbs___verbose_nargs=0
_shtab_nvmeof_capture_pos_1_nargs=...
_shtab_nvmeof_capture__h_nargs=0
_shtab_nvmeof_capture___help_nargs=0
_shtab_nvmeof_capture__v_nargs=0
_shtab_nvmeof_capture___verbose_nargs=0
_shtab_nvmeof_capture___until_error_nargs=0
_shtab_nvmeof_capture___lua_nargs=0
_shtab_nvmeof_explain__h_nargs=0
_shtab_nvmeof_explain___help_nargs=0
_shtab_nvmeof_explain__v_nargs=0
_shtab_nvmeof_explain___verbose_nargs=0
_shtab_nvmeof_explain___summary_nargs=0
_shtab_nvmeof_replay__h_nargs=0
_shtab_nvmeof_replay___help_nargs=0
_shtab_nvmeof_replay__v_nargs=0
_shtab_nvmeof_replay___verbose_nargs=0
_shtab_nvmeof_replay___once_nargs=0
_shtab_nvmeof_replay___write_nargs=0
_shtab_nvmeof_connect__h_nargs=0
_shtab_nvmeof_connect___help_nargs=0
_shtab_nvmeof_connect__v_nargs=0
_shtab_nvmeof_connect___verbose_nargs=0
_shtab_nvmeof_connect__d_nargs=0
_shtab_nvmeof_connect___disable_sqflow_nargs=0
_shtab_nvmeof_connect__D_nargs=0
_shtab_nvmeof_connect___duplicate_connect_nargs=0
_shtab_nvmeof_connect_all__h_nargs=0
_shtab_nvmeof_connect_all___help_nargs=0
_shtab_nvmeof_connect_all__v_nargs=0
_shtab_nvmeof_connect_all___verbose_nargs=0
_shtab_nvmeof_connect_all__d_nargs=0
_shtab_nvmeof_connect_all___disable_sqflow_nargs=0
_shtab_nvmeof_connect_all__D_nargs=0
_shtab_nvmeof_connect_all___duplicate_connect_nargs=0
_shtab_nvmeof_disconnect__h_nargs=0
_shtab_nvmeof_disconnect___help_nargs=0
_shtab_nvmeof_disconnect__v_nargs=0
_shtab_nvmeof_disconnect___verbose_nargs=0
_shtab_nvmeof_disconnect_all__h_nargs=0
_shtab_nvmeof_disconnect_all___help_nargs=0
_shtab_nvmeof_disconnect_all__v_nargs=0
_shtab_nvmeof_disconnect_all___verbose_nargs=0
_shtab_nvmeof_reset__h_nargs=0
_shtab_nvmeof_reset___help_nargs=0
_shtab_nvmeof_reset__v_nargs=0
_shtab_nvmeof_reset___verbose_nargs=0
_shtab_nvmeof_list__h_nargs=0
_shtab_nvmeof_list___help_nargs=0
_shtab_nvmeof_list__v_nargs=0
_shtab_nvmeof_list___verbose_nargs=0
_shtab_nvmeof_list_subsys__h_nargs=0
_shtab_nvmeof_list_subsys___help_nargs=0
_shtab_nvmeof_list_subsys__v_nargs=0
_shtab_nvmeof_list_subsys___verbose_nargs=0
_shtab_nvmeof_gen_dhchap_key__h_nargs=0
_shtab_nvmeof_gen_dhchap_key___help_nargs=0
_shtab_nvmeof_gen_dhchap_key__v_nargs=0
_shtab_nvmeof_gen_dhchap_key___verbose_nargs=0
_shtab_nvmeof_check_dhchap_key__h_nargs=0
_shtab_nvmeof_check_dhchap_key___help_nargs=0
_shtab_nvmeof_check_dhchap_key__v_nargs=0
_shtab_nvmeof_check_dhchap_key___verbose_nargs=0
_shtab_nvmeof_show_hostnqn__h_nargs=0
_shtab_nvmeof_show_hostnqn___help_nargs=0
_shtab_nvmeof_show_hostnqn__v_nargs=0
_shtab_nvmeof_show_hostnqn___verbose_nargs=0
_shtab_nvmeof_gen_hostnqn__h_nargs=0
_shtab_nvmeof_gen_hostnqn___help_nargs=0
_shtab_nvmeof_gen_hostnqn__v_nargs=0
_shtab_nvmeof_gen_hostnqn___verbose_nargs=0
_shtab_nvmeof_doctor__h_nargs=0
_shtab_nvmeof_doctor___help_nargs=0
_shtab_nvmeof_doctor__v_nargs=0
_shtab_nvmeof_doctor___verbose_nargs=0
_shtab_nvmeof_doctor__a_nargs=0
_shtab_nvmeof_doctor___all_nargs=0
_shtab_nvmeof_completion__h_nargs=0
_shtab_nvmeof_completion___help_nargs=0
_shtab_nvmeof_completion__v_nargs=0
_shtab_nvmeof_completion___verbose_nargs=0
_shtab_nvmeof_pos_0_nargs=A...
_shtab_nvmeof__h_nargs=0
_shtab_nvmeof___help_nargs=0
_shtab_nvmeof___version_nargs=0
_shtab_nvmeof__v_nargs=0
_shtab_nvmeof___verbose_nargs=0


# Custom Preamble
# Candidates: subsystems and controllers of the kernel, subsystems of a running target.
_nvmeof_words() { compgen -W "$2" -- "$1"; }
_nvmeof_kernel_nqns() {
  _nvmeof_words "$1" "$(cat /sys/class/nvme-subsystem/*/subsysnqn 2>/dev/null)"
}
_nvmeof_controllers() { _nvmeof_words "$1" "$(ls /sys/class/nvme 2>/dev/null)"; }
_nvmeof_target_nqns() {
  _nvmeof_words "$1" "$(nvmeof target ls 2>/dev/null | sed -n 's/^subsystem \([^ ]*\).*/\1/p')"
}
# End Custom Preamble

# $1=COMP_WORDS[1]
_nvmeof_shtab_compgen_files() {
  compgen -f -- $1  # files
}

# $1=COMP_WORDS[1]
_nvmeof_shtab_compgen_dirs() {
  compgen -d -- $1  # recurse into subdirs
}

# $1=COMP_WORDS[1]
_nvmeof_shtab_replace_nonword() {
  echo "${1//[^[:word:]]/_}"
}

# set default values (called for the initial parser & any subparsers)
_nvmeof_set_parser_defaults() {
  local subparsers_var="${prefix}_subparsers[@]"
  sub_parsers=${!subparsers_var-}

  local current_option_strings_var="${prefix}_option_strings[@]"
  current_option_strings=${!current_option_strings_var}

  completed_positional_actions=0

  _nvmeof_set_new_action "pos_$completed_positional_actions" true
}

# $1=action identifier
# $2=positional action (bool)
# set all identifiers for an action's parameters
_nvmeof_set_new_action() {
  current_action="${prefix}_$(_nvmeof_shtab_replace_nonword $1)"

  local current_action_compgen_var=${current_action}_COMPGEN
  current_action_compgen="${!current_action_compgen_var-}"

  local current_action_choices_var="${current_action}_choices[@]"
  current_action_choices="${!current_action_choices_var-}"

  local current_action_nargs_var="${current_action}_nargs"
  if [ -n "${!current_action_nargs_var-}" ]; then
    current_action_nargs="${!current_action_nargs_var}"
  else
    current_action_nargs=1
  fi

  current_action_args_start_index=$(( $word_index + 1 - $pos_only ))

  current_action_is_positional=$2
}

# Notes:
# `COMPREPLY`: what will be rendered after completion is triggered
# `completing_word`: currently typed word to generate completions for
# `${!var}`: evaluates the content of `var` and expand its content as a variable
#     hello="world"
#     x="hello"
#     ${!x} -> ${hello} -> "world"
_shtab_nvmeof() {
  local completing_word="${COMP_WORDS[COMP_CWORD]}"
  local previous_word="${COMP_WORDS[COMP_CWORD-1]}"
  local completed_positional_actions
  local current_action
  local current_action_args_start_index
  local current_action_choices
  local current_action_compgen
  local current_action_is_positional
  local current_action_nargs
  local current_option_strings
  local sub_parsers
  COMPREPLY=()

  local prefix=_shtab_nvmeof
  local word_index=0
  local pos_only=0 # "--" delimiter not encountered yet
  _nvmeof_set_parser_defaults
  word_index=1

  # determine what arguments are appropriate for the current state
  # of the arg parser
  while [ $word_index -ne $COMP_CWORD ]; do
    local this_word="${COMP_WORDS[$word_index]}"

    if [[ $pos_only = 1 || " $this_word " != " -- " ]]; then
      if [[ -n $sub_parsers && " ${sub_parsers[@]} " == *" $this_word "* ]]; then
        # valid subcommand: add it to the prefix & reset the current action
        prefix="${prefix}_$(_nvmeof_shtab_replace_nonword $this_word)"
        _nvmeof_set_parser_defaults
      fi

      if [[ " ${current_option_strings[@]} " == *" $this_word "* ]]; then
        # a new action should be acquired (due to recognised option string or
        # no more input expected from current action);
        # the next positional action can fill in here
        _nvmeof_set_new_action $this_word false
      fi

      if [[ "$current_action_nargs" != "*" ]] && \
         [[ "$current_action_nargs" != "+" ]] && \
         [[ "$current_action_nargs" != "?" ]] && \
         [[ "$current_action_nargs" != *"..." ]] && \
         (( $word_index + 1 - $current_action_args_start_index - $pos_only >= \
            $current_action_nargs )); then
        $current_action_is_positional && let "completed_positional_actions += 1"
        _nvmeof_set_new_action "pos_$completed_positional_actions" true
      fi
    else
      pos_only=1 # "--" delimiter encountered
    fi

    let "word_index+=1"
  done

  # Generate the completions

  COMPREPLY=()
  if [[ $pos_only = 0 && "$completing_word" == -* &&
        ( -z "$current_action_compgen" || "$current_action_is_positional" = true ) ]]; then
    # optional argument started: use option strings
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
      compgen -W "${current_option_strings[*]}" -- "$completing_word")
  elif [[ "$previous_word" =~ ^[0-9\&]*[\<\>]\>?$ ]]; then
    # handle redirection operators
    compopt -o filenames 2>/dev/null || : # bash>=4
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$completing_word")
  else
    # use choices & compgen
    local action_compgen_word="$completing_word"
    # handle tab-completing in the middle of a line (#248 <- #116)
    [[ -n "$current_action_compgen" && "$completing_word" == -* ]] && action_compgen_word=""
    [ -n "$current_action_compgen" ] && {
      [[ "$current_action_compgen" =~ _(file|dir|glob|FILE|DIR|GLOB)|File|Dir|Glob ]] &&
        compopt -o filenames 2>/dev/null || : # bash>=4
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
        "$current_action_compgen" "$action_compgen_word")
    }
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
      compgen -W "${current_action_choices[*]}" -- "$completing_word")
  fi

  if [[ ${#COMPREPLY[@]} = 0 ]]; then
    # native fallback matches are not necessarily filenames (e.g. variables)
    compopt +o filenames 2>/dev/null || : # bash>=4
  fi

  return 0
}

# bash divides words at : and =, which NQNs and URLs are full of; the parser does not.
_nvmeof() {
  local line=$COMP_LINE word adjacent current i index=0
  local -a words=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]} adjacent=
    ((i == 0)) || [[ -z $word || $line == [[:space:]]* ]] || adjacent=yes
    [[ -z $word ]] || line=${line#*"$word"}
    if [[ $adjacent && $word == = && ${words[index]} == --* && ${words[index]} != *[:=]* ]]; then
      words+=("") # --option=value is --option value
    elif [[ $adjacent ]]; then
      words[index]+=$word
    else
      words+=("$word")
    fi
    index=$((${#words[@]} - 1))
  done
  current=${words[index]}
  local -a COMP_WORDS=("${words[@]}")
  local COMP_CWORD=$index
  _shtab_nvmeof
  # What stands before the last colon is there already, for bash.
  if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${current%:*}:"}")
  fi
}

complete -o bashdefault -F _nvmeof nvmeof
