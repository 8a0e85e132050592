"""Names every module without unit tests: `python scripts/check_unit_tests.py`.

Rule: `zkbroker/a/b.py` is tested in `tests/unit/a/test_b.py`, or, for a module in a folder of its
    room, in the room's own folder; `spark_loader/a/b.py` in `tests/unit/spark_loader/a/test_b.py`.
    The exceptions are listed below, each with its reason; an exception that is no longer needed, or
    names a missing file, is an error too.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("zkbroker", "spark_loader")
UNTESTED_NAMES = ("__init__.py", "__main__.py")

NOTHING_TO_DECIDE = {
    "spark_loader/cli/output.py": "prints one table",
    "spark_loader/errors.py": "names of errors",
    "spark_loader/plurals.py": "one line",
    "zkbroker/broker/handler_table.py": "a table",
    "zkbroker/client/source.py": "a protocol",
    "zkbroker/client/view.py": "data",
    "zkbroker/cluster/broker.py": "data",
    "zkbroker/config/fetching.py": "data",
    "zkbroker/config/ignored_broker_keys.py": "a table",
    "zkbroker/config/levels.py": "a table",
    "zkbroker/config/sasl_options.py": "a table",
    "zkbroker/config/shared_options.py": "a table",
    "zkbroker/consumer/fetching/messages.py": "data and names of errors",
    "zkbroker/consumer/group/listener.py": "a base class without behaviour",
    "zkbroker/coordinator/groups/member.py": "data",
    "zkbroker/coordinator/transactions/partition.py": "data",
    "zkbroker/producer/generation.py": "a protocol",
    "zkbroker/fileslice.py": "data",
    "zkbroker/log/results.py": "data",
    "zkbroker/network/client/versions.py": "a table",
    "zkbroker/network/server/metrics.py": "data",
    "zkbroker/network/server/limits.py": "data",
    "zkbroker/producer/errors.py": "names of errors",
    "zkbroker/producer/handlers.py": "base classes without behaviour",
    "zkbroker/protocol/api.py": "a table",
    "zkbroker/protocol/errors.py": "names of errors",
    "zkbroker/protocol/pieces.py": "a name of a type",
    "zkbroker/protocol/plain/requests.py": "names of types",
    "zkbroker/rebalance/member.py": "protocols",
    "zkbroker/records/checksum.py": "chooses a library",
    "zkbroker/records/layout.py": "tables",
    "zkbroker/records/record.py": "data",
    "zkbroker/replica/fetching.py": "data and protocols",
    "zkbroker/replica/reads.py": "data",
    "zkbroker/security/principal.py": "data",
    "zkbroker/zookeeper/errors.py": "names of errors",
}

TOGETHER = {
    # Modules that only make sense together, with the unit tests of the whole.
    "spark_loader/reading/connect.py": "spark_loader/reading/test_options.py",
    "zkbroker/broker/exposition.py": "broker/test_admin_page.py",
    "zkbroker/config/tls.py": "config/test_security.py",
    "zkbroker/controller/answers.py": "controller/test_term.py",
    "zkbroker/controller/broker_changes.py": "controller/test_term.py",
    "zkbroker/controller/calls.py": "controller/test_controller.py",
    "zkbroker/controller/leader_moves.py": "controller/test_term.py",
    "zkbroker/controller/metrics.py": "controller/test_controller.py",
    "zkbroker/log/legacy07/folders.py": "log/legacy07/test_directory.py",
    "zkbroker/log/legacy07/segment.py": "log/legacy07/test_log.py",
    "zkbroker/mirror/batches.py": "mirror/test_worker.py",
    "zkbroker/mirror/options.py": "mirror/test_config.py",
    "zkbroker/mirror/source_config.py": "mirror/test_config.py",
    "zkbroker/log/directories.py": "log/test_manager.py",
    "zkbroker/log/loader.py": "log/test_manager.py",
    "zkbroker/log/log_set.py": "log/test_manager.py",
    "zkbroker/log/parts.py": "log/test_log.py",
    "zkbroker/log/reader.py": "log/test_log.py",
    "zkbroker/log/replacing.py": "log/test_replace.py",
    "zkbroker/log/topic_settings.py": "log/test_manager.py",
    "zkbroker/log/trimming.py": "log/test_log.py",
    "zkbroker/log/upkeep.py": "log/test_manager.py",
    "zkbroker/log/validation.py": "log/test_log.py",
    "zkbroker/log/writer.py": "log/test_log.py",
    "zkbroker/replica/followed_partitions.py": "replica/test_fetcher.py",
    "zkbroker/replica/leader_requests.py": "replica/test_fetcher.py",
    "zkbroker/replica/log_opening.py": "replica/test_manager.py",
    "zkbroker/replica/role.py": "replica/test_partition.py",
    "zkbroker/replica/role_changes.py": "replica/test_manager.py",
    "zkbroker/replica/log_reconciler.py": "replica/test_fetcher.py",
    "zkbroker/registry/decisions.py": "registry/test_partition_states.py",
    "zkbroker/registry/leader_registrations.py": "registry/test_partition_states.py",
    "zkbroker/registry/state_form.py": "registry/test_partition_states.py",
    "spark_loader/cli/change.py": "spark_loader/cli/test_cli.py",
    "spark_loader/cli/inspect.py": "spark_loader/cli/test_cli.py",
    "spark_loader/lake/audit.py": "spark_loader/lake/test_operate.py",
    "spark_loader/lake/table_files.py": "spark_loader/lake/test_table.py",
    "spark_loader/cli/lake.py": "spark_loader/lake/test_optimize.py",
    "spark_loader/cli/output_directory.py": "spark_loader/cli/test_cli.py",
    "spark_loader/lake/contents.py": "spark_loader/lake/test_adopt.py",
    "spark_loader/lake/recover.py": "spark_loader/load/test_crashes.py",
    "spark_loader/load/run.py": "spark_loader/load/test_job.py",
    "spark_loader/reading/columns.py": "spark_loader/reading/test_reader.py",
    "spark_loader/source/stream.py": "spark_loader/source/test_datasource.py",
    "spark_loader/source/tasks.py": "spark_loader/source/test_datasource.py",
    "zkbroker/admin/log_findings.py": "admin/test_log_check.py",
    "zkbroker/admin/log_clean.py": "cli/test_log.py",
    "zkbroker/admin/reset_offsets.py": "cli/test_offset_reset.py",
    "zkbroker/cli/api_versions.py": "admin/test_broker_queries.py",
    "zkbroker/cli/offset_places.py": "cli/test_offsets.py",
    "zkbroker/cli/log_dirs.py": "admin/test_broker_queries.py",
    "zkbroker/cli/suggestions.py": "cli/test_main.py",
    "zkbroker/cli/compat/broker_tools.py": "cli/compat/test_kafka_tools.py",
    "zkbroker/cli/compat/cluster_tools.py": "cli/compat/test_kafka_tools.py",
    "zkbroker/cli/compat/tool_options.py": "cli/compat/test_kafka_tools.py",
    "zkbroker/cli/compat/message_tools.py": "cli/compat/test_kafka_tools.py",
    "zkbroker/cli/compat/mirror_tools.py": "cli/compat/test_kafka_tools.py",
    "zkbroker/cli/compat/offset_tools.py": "cli/compat/test_kafka_tools.py",
    "zkbroker/console/api.py": "console/test_application.py",
    "zkbroker/console/events.py": "console/test_application.py",
    "zkbroker/console/cluster_state.py": "console/test_views.py",
    "zkbroker/console/publication.py": "console/test_views.py",
    "zkbroker/console/requests.py": "console/test_application.py",
    "zkbroker/network/server/pages.py": "broker/test_admin_page.py",
    "zkbroker/consumer/fetching/fetcher.py": "consumer/fetching/test_fetchers.py",
    "zkbroker/consumer/group/sticky.py": "consumer/group/test_assignors.py",
    "zkbroker/controller/partitions.py": "controller/test_term.py",
    "zkbroker/coordinator/groups/partitions.py": "coordinator/groups/test_coordinator.py",
    "zkbroker/coordinator/transactions/transitions.py": (
        "coordinator/transactions/test_coordinator.py"
    ),
    "zkbroker/coordinator/transactions/markers.py": "coordinator/transactions/test_coordinator.py",
    "zkbroker/coordinator/transactions/store.py": "coordinator/transactions/test_coordinator.py",
    "zkbroker/log/cleaner/cleaning.py": "log/cleaner/test_cleaner.py",
    "zkbroker/log/cleaner/copying.py": "log/cleaner/test_cleaner.py",
    "zkbroker/log/cleaner/grouping.py": "log/cleaner/test_cleaner.py",
    "zkbroker/log/cleaner/mapping.py": "log/cleaner/test_cleaner.py",
    "zkbroker/log/cleaner/offset_map.py": "log/cleaner/test_cleaner.py",
    "zkbroker/log/cleaner/selection.py": "log/cleaner/test_cleaner.py",
    "zkbroker/log/cleaner/throttle.py": "log/cleaner/test_cleaner.py",
    "zkbroker/log/cleaner/unpacking.py": "log/cleaner/test_cleaner.py",
    "zkbroker/consumer/fetching/fetch_loop.py": "consumer/fetching/test_fetchers.py",
    "zkbroker/security/sasl/mechanism.py": "security/sasl/test_scram_server.py",
    "zkbroker/log/lock.py": "log/test_manager.py",
    "zkbroker/log/names.py": "log/test_manager.py",
    "zkbroker/log/producers/loading.py": "log/test_producer_state.py",
    "zkbroker/log/producers/stability.py": "log/test_transactions.py",
    "zkbroker/log/producers/state.py": "log/test_producer_state.py",
    "zkbroker/log/producers/tracking.py": "log/test_transactions.py",
    "zkbroker/log/recovery/loading.py": "log/test_recovery.py",
    "zkbroker/log/recovery/scan.py": "log/test_recovery.py",
    "zkbroker/log/segment_list.py": "log/test_segments.py",
    "zkbroker/log/segments/entries.py": "log/test_segments.py",
    "zkbroker/log/segments/files.py": "log/test_segments.py",
    "zkbroker/log/segments/indexing.py": "log/test_segments.py",
    "zkbroker/log/segments/open_files.py": "log/test_segments.py",
    "zkbroker/log/segments/replacement.py": "log/test_replace.py",
    "zkbroker/log/segments/segment.py": "log/test_segments.py",
    "zkbroker/log/segments/time_search.py": "log/test_timesearch.py",
    "zkbroker/log/segments/transaction_index.py": "log/test_transactions.py",
    "zkbroker/network/server/binding.py": "network/server/test_server.py",
    "zkbroker/network/server/session.py": "network/server/test_server.py",
    "zkbroker/network/client/tls.py": "network/client/test_opening.py",
    "zkbroker/protocol/codegen.py": "protocol/test_codec.py",
    "zkbroker/protocol/schema.py": "protocol/test_codec.py",
    "zkbroker/producer/portable.py": "producer/test_intake.py",
    "zkbroker/records/batch.py": "records/test_roundtrip.py",
    "zkbroker/records/builder.py": "records/test_roundtrip.py",
    "zkbroker/records/decode.py": "records/test_roundtrip.py",
    "zkbroker/records/heads.py": "records/test_roundtrip.py",
    "zkbroker/records/messages.py": "records/test_roundtrip.py",
    "zkbroker/records/output.py": "records/test_append.py",
    "zkbroker/records/payload.py": "records/test_append.py",
    "zkbroker/runtime/base.py": "runtime/test_runtime.py",
    "zkbroker/runtime/greenlets.py": "runtime/test_runtime.py",
    "zkbroker/runtime/threads.py": "runtime/test_runtime.py",
}
TOGETHER_FOLDERS = {
    "zkbroker/config/broker_options": "config/test_broker.py",
    "zkbroker/protocol/messages": "protocol/test_messages.py",
    "zkbroker/records/portable": "records/test_twins.py",
}

REAL_THING = {
    # Modules that only a real ZooKeeper, real brokers or real processes can test.
    "zkbroker/admin/adopt.py": "integration/test_adopt.py",
    "zkbroker/admin/legacy07.py": "golden/test_legacy07_dump.py",
    "zkbroker/broker/admin_port.py": "integration/test_metrics.py",
    "zkbroker/broker/found_logs.py": "faults/test_replica_logs.py",
    "zkbroker/broker/legacy07/forwarding.py": "integration/test_legacy07_views.py",
    "zkbroker/broker/legacy07/listener.py": "integration/test_legacy07_broker.py",
    "zkbroker/legacy07/channel.py": "integration/test_legacy07_producer.py",
    "zkbroker/legacy07/fetcher.py": "integration/test_legacy07_consumer.py",
    "zkbroker/legacy07/reading.py": "integration/test_legacy07_cli.py",
    "zkbroker/legacy07/console_readers.py": "integration/test_console_07.py",
    "zkbroker/console/other_generation.py": "integration/test_console_07.py",
    "zkbroker/legacy07/group_member.py": "integration/test_legacy07_consumer.py",
    "zkbroker/mirror/generations.py": "integration/test_mirror_to_07.py",
    "spark_loader/legacy07/cluster.py": "integration/test_spark_load_07.py",
    "spark_loader/reading/access.py": "integration/test_spark_load_07.py",
    "zkbroker/protocol/legacy07/answers.py": "golden/test_legacy07_wire.py",
    "zkbroker/protocol/legacy07/requests.py": "golden/test_legacy07_wire.py",
    "zkbroker/registry/group_offsets.py": "integration/test_registry_groups.py",
    "zkbroker/admin/dump_log.py": "golden/test_dump_log.py",
    "zkbroker/admin/cluster_settings.py": "integration/test_min_isr.py",
    "zkbroker/admin/topic_ways.py": "integration/test_topics_by_brokers.py",
    "zkbroker/admin/transactions.py": "interop/test_adopted_transactions.py",
    "zkbroker/broker/coordination.py": "integration/test_group_apis.py",
    "zkbroker/broker/handlers/configs.py": "integration/test_broker_topics.py",
    "zkbroker/broker/handlers/groups.py": "integration/test_group_apis.py",
    "zkbroker/broker/handlers/list_offsets.py": "integration/test_broker_serving.py",
    "zkbroker/broker/handlers/log_dirs.py": "faults/test_hostile_requests.py",
    "zkbroker/broker/composition.py": "integration/test_broker_serving.py",
    "zkbroker/broker/foundation.py": "integration/test_broker_serving.py",
    "zkbroker/broker/process.py": "integration/test_broker_serving.py",
    "zkbroker/cli/adopt.py": "integration/test_adopt.py",
    "zkbroker/cli/broker.py": "integration/test_broker_serving.py",
    "zkbroker/cli/clients.py": "integration/test_watching_tools.py",
    "zkbroker/admin/described_configs.py": "integration/test_configs_tool.py",
    "zkbroker/cli/configs.py": "integration/test_configs_tool.py",
    "zkbroker/cli/described_configs.py": "integration/test_configs_tool.py",
    "zkbroker/cli/doctor.py": "integration/test_mistakes.py",
    "zkbroker/cli/drain.py": "integration/test_reassign_tool.py",
    "zkbroker/cli/elect.py": "integration/test_reassign_tool.py",
    "zkbroker/cli/groups.py": "integration/test_group_tools.py",
    "zkbroker/cli/health.py": "integration/test_health.py",
    "zkbroker/cli/load.py": "integration/test_spark_load.py",
    "zkbroker/cli/metadata.py": "integration/test_produce_consume.py",
    "zkbroker/cli/reading.py": "integration/test_produce_consume.py",
    "zkbroker/cli/replay.py": "golden/test_replay.py",
    "zkbroker/cli/topics.py": "integration/test_topics_tool.py",
    "zkbroker/cli/up.py": "integration/test_up.py",
    "zkbroker/cli/zookeeper.py": "integration/test_up.py",
    "zkbroker/cluster/process.py": "integration/test_broker_cluster.py",
    "zkbroker/broker/connections.py": "integration/test_producer_transactions.py",
    "zkbroker/console/access.py": "integration/test_console.py",
    "zkbroker/console/collector.py": "integration/test_console.py",
    "zkbroker/console/composition.py": "integration/test_console.py",
    "zkbroker/console/directories.py": "integration/test_console.py",
    "zkbroker/console/offsets.py": "integration/test_console.py",
    "zkbroker/console/pages.py": "integration/test_console.py",
    "zkbroker/console/server.py": "integration/test_console.py",
    "zkbroker/console/topology.py": "integration/test_console.py",
    "zkbroker/cli/console.py": "integration/test_console.py",
    "zkbroker/console/clients.py": "integration/test_console_messages.py",
    "zkbroker/console/reading_api.py": "integration/test_console_messages.py",
    "zkbroker/console/actions.py": "integration/test_console_actions.py",
    "zkbroker/console/actions_api.py": "integration/test_console_actions.py",
    "zkbroker/console/offset_actions.py": "integration/test_console_actions.py",
    "zkbroker/broker/mounting.py": "integration/test_console_mounted.py",
    "zkbroker/console/mounted.py": "integration/test_console_mounted.py",
    "spark_loader/lake/console_summary.py": "integration/test_console_loads.py",
    "zkbroker/console/loads.py": "integration/test_console_loads.py",
    "zkbroker/console/mirrors.py": "integration/test_console_loads.py",
    "zkbroker/broker/summary.py": "integration/test_console_messages.py",
    "zkbroker/consumer/group/consumer.py": "integration/test_group_consumer.py",
    "zkbroker/protocol/transaction_topic.py": "golden/test_transaction_state.py",
    "zkbroker/registry/partitions.py": "integration/test_registry_topics.py",
    "zkbroker/testing/in_process.py": "integration/test_testing.py",
    "zkbroker/testing/local.py": "integration/test_testing.py",
    "zkbroker/testing/plugin.py": "integration/test_testing.py",
}


def main() -> int:
    """Print problems; return 1 if there are any."""
    problems = find_problems(ROOT)
    for problem in problems:
        print(problem)
    return bool(problems)


def find_problems(root: Path) -> list[str]:
    """Return modules without tests, and invalid exceptions."""
    tests = root / "tests"
    elsewhere = {
        **{module: f"unit/{name}" for module, name in TOGETHER.items()},
        **REAL_THING,
    }
    problems = []
    modules = [path.relative_to(root) for package in PACKAGES for path in _modules(root / package)]
    for module in modules:
        name = module.as_posix()
        tested = any(path.is_file() for path in own_tests(root, module))
        if name in NOTHING_TO_DECIDE or name in elsewhere:
            if tested:
                problems.append(f"{name} has tests: take it off the list of exceptions")
            continue
        if not tested and module.parent.as_posix() not in TOGETHER_FOLDERS:
            wanted = own_tests(root, module)[0].relative_to(root)
            problems.append(f"{name} has no tests: write {wanted}")
    problems += [
        f"{name} is an exception and does not exist"
        for name in [*NOTHING_TO_DECIDE, *elsewhere]
        if not (root / name).is_file()
    ]
    folders = {module: f"unit/{name}" for module, name in TOGETHER_FOLDERS.items()}
    for name, test in {**elsewhere, **folders}.items():
        if not (tests / test).is_file():
            problems.append(f"{name} is said to be tested by tests/{test}, which does not exist")
    return problems


def own_tests(root: Path, module: Path) -> list[Path]:
    """Return possible places of a module's tests, the best place first."""
    inside = module if module.parts[0] == "spark_loader" else Path(*module.parts[1:])
    unit = root / "tests" / "unit"
    name = f"test_{module.stem}.py"
    return [unit / inside.parent / name, unit / inside.parts[0] / name]


def _modules(package: Path) -> list[Path]:
    found = sorted(package.rglob("*.py"))
    return [path for path in found if path.name not in UNTESTED_NAMES]


if __name__ == "__main__":
    sys.exit(main())
