"""Partitions with too few replicas in sync, where the brokers' setting counts."""

from click.testing import CliRunner

from tests.support.clusters import MakeCluster
from zkbroker.admin.cluster_settings import effective_min_isr
from zkbroker.cli.main import cli
from zkbroker.client import Cluster, StaticSource
from zkbroker.testing import LocalCluster


def under_min_isr(cluster: LocalCluster) -> str:
    arguments = ["topics", "describe", "--under-min-isr-partitions"]
    environment = {"ZKBROKER_ZOOKEEPER": cluster.zookeeper}
    return CliRunner(env=environment).invoke(cli, arguments, catch_exceptions=False).output


def test_min_isr_defaults_to_broker_setting(local_cluster: MakeCluster) -> None:
    with local_cluster(properties={"min.insync.replicas": "2"}) as cluster:
        cluster.create_topic("default")
        cluster.create_topic("own", config={"min.insync.replicas": "1"})
        shown = under_min_isr(cluster)
        assert "Topic: default\t" in shown
        assert "Topic: own\t" not in shown
        with Cluster(StaticSource(cluster.bootstrap_servers)) as brokers:
            assert effective_min_isr(brokers, ["default", "own"]) == {"default": 2, "own": 1}
            assert effective_min_isr(brokers, []) == {}
            cluster.broker(1).kill()
            assert effective_min_isr(brokers, ["default"]) == {}
        assert "1 is taken for them" in under_min_isr(cluster)
