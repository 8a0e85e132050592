"""`zkbroker configs` and `kafka-configs`: output and znodes as of the genuine tools."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from zkbroker.cli.main import cli
from zkbroker.errors import ClientError, ConfigError, ProtocolError
from zkbroker.registry import paths
from zkbroker.registry.broker_registration import register_broker
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.topics import create_topic
from zkbroker.registry.user_configs import ConfigEntity, change_entity_config, entity_config
from zkbroker.security.sasl.scram import HASHES, parse_credential

GENUINE = Path(__file__).parents[1] / "golden" / "data" / "security" / "znodes-security-2.3.0.txt"
SECTIONS = ("quota: ", "topic config: ", "broker config through ZooKeeper for")
LEFT_OUT = ("bad value", "does not exist")
"""Java's stack traces; ours are one line."""


@pytest.fixture
def run(zk, chroot):
    register_broker(zk, BrokerInfo(1, "127.0.0.1", 9092))

    def run(*arguments):
        return CliRunner().invoke(
            cli, arguments, env={"ZKBROKER_ZOOKEEPER": chroot}, catch_exceptions=False
        )

    return run


def _sections():
    """Yield name, arguments, output and written znodes of each command of the genuine tool."""
    for section in GENUINE.read_text().split("\n## ")[1:]:
        name, _, rest = section.partition("\n")
        if not name.startswith(SECTIONS) or name.endswith(LEFT_OUT):
            continue
        command, *lines = rest.splitlines()
        arguments = []
        for part in command.partition(" ")[2].partition(" ")[2].split(" --"):
            option, blank, value = part.partition(" ")
            arguments.append("--" + option.removeprefix("--"))
            arguments += [value] if blank else []
        output = [line[4:] for line in lines if line.startswith("  | ")]
        written = [
            match.groups()
            for line in lines
            if (
                match := re.match(
                    r"  zk: (?:create|set) (/config/\S+)(?: \(v\d+\))?(?:  ->  (.*))?", line
                )
            )
        ]
        yield name, arguments, output, written


def _settings(line):
    """Split a line of a description into its words and its settings, whose order is no one's."""
    entity, _, settings = line.partition(" are ")
    return entity, sorted(re.findall(r"([^,=]+)=([^=]*)(?=,[^,=]+=|$)", settings))


def test_configs_tool_matches_genuine_output_and_znodes(run, zk, chroot):
    create_topic(zk, "t-cfg", {0: [1]})
    change_entity_config(zk, ConfigEntity(user="alice"), {"SCRAM-SHA-256": "salt=secret"})
    shown = 0
    for name, arguments, output, written in _sections():
        notes = set(zk.children(paths.CONFIG_CHANGES))
        given = [chroot if each.startswith("ZK:") else each for each in arguments]
        if "Invalid config(s)" in "".join(output):
            with pytest.raises(ConfigError, match="consumer_byte_rate is not set"):
                run("kafka-configs", *given)
            continue
        ran = run("kafka-configs", *given)
        assert ran.exit_code == 0, (name, ran.output)
        lines = ran.output.splitlines()
        assert "secret" not in ran.output
        if "--describe" in arguments:
            credentials = [line for line in output if "SCRAM" in line]
            plain = [_settings(line) for line in output if line not in credentials]
            assert sorted(_settings(line) for line in lines if "SCRAM" not in line) == sorted(plain)
        else:
            assert lines == output, name
        for path, data in written:
            if path.startswith(paths.CONFIG_CHANGE_PREFIX):
                (note,) = set(zk.children(paths.CONFIG_CHANGES)) - notes
                assert zk.get(f"{paths.CONFIG_CHANGES}/{note}")[0] == data.encode()
            else:
                held = zk.get(path)[0]
                if not data:
                    assert held == b""
                    continue
                config = json.loads(held)["config"]
                config.pop("SCRAM-SHA-256", None)
                genuine = json.loads(data)["config"]
                genuine.pop("SCRAM-SHA-256", None)
                assert config == genuine, name
        shown += 1
    assert shown >= 19


def test_scram_credentials_match_genuine_tool_and_stay_hidden(run, zk, chroot):
    where = ("kafka-configs", "--zookeeper", chroot, "--entity-type", "users", "--entity-name")
    added = "SCRAM-SHA-256=[iterations=8192,password=p,w=x d],SCRAM-SHA-512=[password=secret]"
    odd = "CN=x y,O=é*%/z@h"
    ran = run(*where, odd, "--alter", "--add-config", added)
    assert ran.output == f"Completed Updating config for entity: user-principal '{odd}'.\n"
    held = entity_config(zk, ConfigEntity(user=odd))
    one = parse_credential(held["SCRAM-SHA-256"], HASHES["SCRAM-SHA-256"])
    two = parse_credential(held["SCRAM-SHA-512"], HASHES["SCRAM-SHA-512"])
    assert (one.iterations, two.iterations) == (8192, 4096)
    assert zk.exists("/config/users/CN%3Dx%20y%2CO%3D%C3%A9%2A%25%2Fz%40h")
    hidden = (
        f"Configs for user-principal '{odd}' are SCRAM-SHA-256=[hidden],SCRAM-SHA-512=[hidden]\n"
    )
    assert run(*where, odd, "--describe").output == hidden
    assert "salt=" not in run("configs", "describe", "--users", "--json").output
    for refused in ("SCRAM-SHA-256=[iterations=1000,password=x]", "SCRAM-SHA-256=secret"):
        with pytest.raises(ConfigError) as raised:
            run(*where, "low", "--alter", "--add-config", refused)
        assert "secret" not in str(raised.value)


def test_quotas_are_set_described_and_removed(run, zk):
    alice = ("configs", "alter", "--user", "alice")
    rates = ("--config", "producer_byte_rate=1048576", "--config", "request_percentage=12.5")
    changed = run(*alice, *rates)
    assert changed.output == "Changed the settings of user-principal 'alice'.\n"
    run(*alice, "--client-default", "--config", "consumer_byte_rate=9")
    assert json.loads(run("configs", "describe", "--users", "--clients", "--json").output) == [
        {
            "entity": "user-principal 'alice', default client-id",
            "setting": "consumer_byte_rate",
            "value": "9",
            "source": "/config/users/alice/clients/<default>",
        }
    ]
    run(*alice, "--delete-config", "request_percentage")
    described = run("configs", "describe", "--users").output.splitlines()
    assert len(described) == 2
    assert "producer_byte_rate" in described[1]
    assert "1048576" in described[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--user", "a", "--config", "producer_rate=1"],
         "producer_rate is not a setting of user-principal 'a'"),
        (["--user", "a", "--config", "producer_byte_rate=0"], "give bytes a second, above 0"),
        (["--user", "a", "--config", "producer_byte_rate=1.5"], "give bytes a second, above 0"),
        (["--user", "a", "--config", "request_percentage=nan"], "percent of one thread's time"),
        (["--client", "c", "--config", "SCRAM-SHA-256=x"], "not a setting of client-id 'c'"),
        (["--user", "a", "--delete-config", "request_percentage"], "set are: none"),
        (["--broker", "one", "--config", "log.cleaner.threads=2"], "give its id, as in 1"),
        (["--topic", "none", "--config", "retention.ms=2"], "none"),
    ],
)  # fmt: skip
def test_invalid_settings_are_refused(run, zk, arguments, message):
    with pytest.raises((ConfigError, ProtocolError), match=re.escape(message)):
        run("configs", "alter", *arguments)
    assert entity_config(zk, ConfigEntity(user="a")) == {}


def test_static_broker_setting_is_refused(run):
    with pytest.raises(ProtocolError, match="port needs a restart of the broker"):
        run("configs", "alter", "--broker", "1", "--config", "port=1")
    run("configs", "alter", "--broker-default", "--config", "log.cleaner.threads=2")
    assert "/config/brokers/<default>" in run("configs", "describe", "--brokers").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe"], "give an entity, such as --topic NAME"),
        (["describe", "--topic", "t", "--user", "u"], "only a user and a client go together"),
        (["describe", "--user", "u", "--users"], "give one of --user, --user-default and --users"),
        (["describe", "--user", ""], "--user is empty"),
        (["describe", "--users", "--all"], "--all needs -b"),
        (["alter", "--user", "u"], "give --config, --config-file or --delete-config"),
    ],
)
def test_incomplete_command_is_usage_error(run, arguments, message):
    ran = run("configs", *arguments)
    assert ran.exit_code == 2
    assert message in ran.output


@pytest.fixture(scope="module")
def cluster(local_cluster):
    with local_cluster(properties={"log.cleaner.threads": 1}) as running:
        running.create_topic("t")
        yield running


@pytest.fixture
def ask(cluster):
    def ask(*arguments):
        ran = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
        return ran.output

    return ask


def test_broker_settings_by_brokers_match_genuine_output(cluster, ask):
    """The lines are those of the genuine tool of 2.3, asked of the same settings."""
    tool = ("kafka-configs", "--bootstrap-server", cluster.bootstrap_servers)
    number = str(cluster.brokers[0].id)
    own = (*tool, "--entity-type", "brokers", "--entity-name", number)
    of_all = (*tool, "--entity-type", "brokers", "--entity-default")
    added = ("--alter", "--add-config", "log.cleaner.threads=2,message.max.bytes=900000")
    assert ask(*own, *added) == f"Completed updating config for broker: {number}.\n"
    assert ask(*of_all, "--alter", "--add-config", "background.threads=9") == (
        "Completed updating default config for brokers in the cluster,\n"
    )
    lines = ask(*own, "--describe").splitlines()
    assert lines[0] == f"Configs for broker {number} are:"
    assert (
        "  message.max.bytes=900000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:"
        "message.max.bytes=900000, DEFAULT_CONFIG:message.max.bytes=1000012}"
    ) in lines
    assert len(lines) == 3
    assert ask(*of_all, "--describe") == (
        "Default config for brokers in the cluster are:\n  background.threads=9 sensitive=false "
        "synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:background.threads=9}\n"
    )
    ask(*own, "--alter", "--delete-config", "log.cleaner.threads,message.max.bytes")
    assert ask(*own, "--describe") == f"Configs for broker {number} are:\n"
    with pytest.raises(ProtocolError, match=r"broker\.id needs a restart"):
        ask(*own, "--alter", "--add-config", "broker.id=5")


def test_topic_settings_by_brokers_show_sources(cluster, ask):
    where = ("-b", cluster.bootstrap_servers, "--topic", "t")
    ask("configs", "alter", *where, "--config", "retention.ms=1000")
    (only,) = json.loads(ask("configs", "describe", *where, "--json"))
    assert only == {
        "entity": "topic 't'", "setting": "retention.ms", "value": "1000", "source": "topic"
    }  # fmt: skip
    everything = json.loads(ask("configs", "describe", *where, "--all", "--json"))
    sources = {each["setting"]: each["source"] for each in everything}
    assert sources["retention.ms"] == "topic"
    assert sources["flush.ms"] == "default"
    with pytest.raises(ConfigError, match=r"flush\.ms is not set for topic 't'"):
        ask("configs", "alter", *where, "--delete-config", "flush.ms")
    ask("configs", "alter", *where, "--delete-config", "retention.ms")
    assert json.loads(ask("configs", "describe", *where, "--json")) == []


def test_quotas_by_brokers_point_to_zookeeper(cluster, ask):
    with pytest.raises(ConfigError, match="kept in ZooKeeper: give -z"):
        ask("configs", "describe", "-b", cluster.bootstrap_servers, "--users")
    with pytest.raises(ClientError, match="broker 77 is not running"):
        ask("configs", "describe", "-b", cluster.bootstrap_servers, "--broker", "77")
