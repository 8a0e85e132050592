import pytest

from zkbroker.config.sasl_listeners import MODULES, inter_broker_mechanism, listener_sasl
from zkbroker.errors import ConfigError

PLAIN = (
    f'{MODULES["PLAIN"]} required username="broker" password="b" user_broker="b" user_alice="a";'
)
SCRAM = f'{MODULES["SCRAM-SHA-256"]} required username="broker" password="b";'
OAUTH = f'{MODULES["OAUTHBEARER"]} required unsecuredValidatorPrincipalClaimName="sub";'
KEY = "listener.name.external.plain.sasl.jaas.config"


def read(properties, environment=None, warnings=None):
    return listener_sasl(
        "EXTERNAL",
        properties,
        environment=environment or {},
        warn=[].append if warnings is None else warnings.append,
    )


def test_mechanisms_and_jaas_lines_are_read():
    sasl = read(
        {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512, plain,OAUTHBEARER",
            KEY: PLAIN,
            "listener.name.external.scram-sha-512.sasl.jaas.config": SCRAM,
            "listener.name.external.oauthbearer.sasl.jaas.config": OAUTH,
            "listener.name.other.plain.sasl.jaas.config": "not read",
        }
    )
    assert [each.name for each in sasl.mechanisms] == ["SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"]
    assert sasl.mechanism("PLAIN").users == {"broker": "b", "alice": "a"}
    assert "alice" not in repr(sasl)


def test_most_specific_setting_is_used():
    key = "sasl.oauthbearer.expected.issuer"
    properties = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.external.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.external.oauthbearer.sasl.jaas.config": OAUTH,
        key: "one",
    }
    for expected, more in (
        ("one", {}),
        ("two", {f"listener.name.external.{key}": "two"}),
        ("three", {f"listener.name.external.oauthbearer.{key}": "three"}),
    ):
        properties |= more
        assert read(properties).mechanisms[0].options.issuer == expected


@pytest.mark.parametrize("by", ["setting", "environment"])
@pytest.mark.parametrize("section", ["KafkaServer", "external.KafkaServer"])
def test_jaas_file_is_read(tmp_path, by, section):
    path = tmp_path / "jaas.conf"
    path.write_text(f"other.KafkaServer {{ }};\n{section} {{\n{SCRAM}\n{PLAIN}\n}};")
    properties = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}
    environment = {}
    if by == "setting":
        properties["java.security.auth.login.config"] = str(path)
    else:
        environment["KAFKA_OPTS"] = f"-Xmx1g -Djava.security.auth.login.config={path} -Da=b"
    sasl = read(properties, environment)
    assert sasl.mechanism("PLAIN").users["alice"] == "a"
    own = PLAIN.replace("user_alice", "user_carol")
    assert "carol" in read(properties | {KEY: own}, environment).mechanism("PLAIN").users


def test_kerberos_beside_other_mechanisms_is_warned_about():
    warnings = []
    read({"sasl.enabled.mechanisms": "GSSAPI,PLAIN", KEY: PLAIN}, warnings=warnings)
    assert len(warnings) == 1
    assert "GSSAPI, which is refused to clients" in warnings[0]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, r"GSSAPI \(the default\).*Kerberos.*set sasl.enabled.mechanisms=SCRAM-SHA-512"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "Kerberos, which is not supported"),
        ({"sasl.enabled.mechanisms": ""}, "names no mechanism"),
        ({"sasl.enabled.mechanisms": "PLAIN,CRAM-MD5"}, "names CRAM-MD5.*give some of PLAIN"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, rf"enables PLAIN without.*set {KEY}=org"),
        (
            {"sasl.enabled.mechanisms": "SCRAM-SHA-256", KEY: PLAIN},
            r"set listener\.name\.external\.scram-sha-256\.sasl\.jaas\.config=.*ScramLoginModule",
        ),
        ({"sasl.enabled.mechanisms": "PLAIN", KEY: SCRAM}, "is for another mechanism"),
        ({"sasl.enabled.mechanisms": "PLAIN", KEY: PLAIN[:-1]}, f"{KEY} is no JAAS configuration"),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                KEY: f'{MODULES["PLAIN"]} required username="broker" password="b";',
            },
            "names no user",
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "listener.name.external.oauthbearer.sasl.jaas.config": (
                    f"{MODULES['OAUTHBEARER']} required;"
                ),
            },
            r"which tokens.*set sasl\.oauthbearer\.jwks\.endpoint\.url",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "java.security.auth.login.config": "/none"},
            "cannot read the JAAS file /none",
        ),
    ],
)
def test_listener_without_possible_login_is_refused(properties, message):
    with pytest.raises(ConfigError, match=message) as raised:
        read(properties)
    assert '"b"' not in str(raised.value)


def test_jaas_file_without_line_is_refused_with_path(tmp_path):
    path = tmp_path / "jaas.conf"
    path.write_text(f"Client {{ {PLAIN} }};")
    with pytest.raises(ConfigError, match=r"jaas\.conf has no such line for this listener"):
        read({"sasl.enabled.mechanisms": "PLAIN", "java.security.auth.login.config": str(path)})


def test_inter_broker_mechanism_is_enabled_and_has_user():
    properties = {"sasl.enabled.mechanisms": "PLAIN", KEY: PLAIN}
    found = inter_broker_mechanism(
        read(properties), {"sasl.mechanism.inter.broker.protocol": "PLAIN"}
    )
    assert (found.name, found.line.options["username"]) == ("PLAIN", "broker")
    for more, message in (
        ({}, r"GSSAPI \(the default\).*set sasl\.mechanism\.inter\.broker\.protocol=PLAIN"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "Kerberos"),
        (
            {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
            r"not enabled on the listener EXTERNAL.*mechanisms=PLAIN,SCRAM-SHA-256",
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            inter_broker_mechanism(read(properties), more)
    without = PLAIN.replace('username="broker" password="b"', 'username="broker"')
    with pytest.raises(ConfigError, match=rf"add password to {KEY}"):
        inter_broker_mechanism(
            read(properties | {KEY: without}), {"sasl.mechanism.inter.broker.protocol": "PLAIN"}
        )
