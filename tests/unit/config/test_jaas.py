import pytest

from zkbroker.config.jaas import load_jaas_file, parse_jaas_file, parse_jaas_line
from zkbroker.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_line_is_parsed_as_by_genuine_brokers():
    line = parse_jaas_line(
        f'{PLAIN} required\n username="admin"  password="a;b\\"c\\\\d" user_alice=pw // x\n'
        '/* more */ user_b-o_b="é=1";',
        "k",
    )
    assert line.module == PLAIN
    assert line.kind == "PlainLoginModule"
    assert line.options == {
        "username": "admin",
        "password": 'a;b"c\\d',
        "user_alice": "pw",
        "user_b-o_b": "é=1",
    }


def test_values_are_not_in_messages():
    line = parse_jaas_line(f'{PLAIN} required password="secret";', "k")
    assert "secret" not in repr(line)
    for bad in (
        f'{PLAIN} required password="secret"',
        f'{PLAIN} required password="secret" "secret";',
        f'{PLAIN} required password="secret" password="secret";',
        f'{PLAIN} required password "secret";',
        f'{PLAIN} required password="secret;',
        f'{PLAIN} secret password="secret";',
    ):
        with pytest.raises(ConfigError) as raised:
            parse_jaas_line(bad, "k")
        assert "secret" not in str(raised.value)
        assert "k" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the class of a login module, but it ends"),
        (PLAIN, "expected one of required"),
        (f"{PLAIN} perhaps;", "expected one of required"),
        (f"{PLAIN} required", "expected ';' at the end of"),
        (f"{PLAIN} required user_a;", "expected '=' after the option user_a"),
        (f"{PLAIN} required user_a=;", "expected the value of user_a"),
        (f'{PLAIN} required user_a="x', "a quote is not closed"),
        (f"{PLAIN} required /* x", "a comment is not closed"),
        (f"{PLAIN} required a=b a=c;", "option a of .* stands twice"),
        (f"{PLAIN} required; {PLAIN} required;", "nothing after the ';'"),
    ],
)
def test_invalid_line_is_refused_with_reason(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_jaas_line(text, "listener.name.x.plain.sasl.jaas.config")


def test_file_with_sections_is_parsed(tmp_path):
    path = tmp_path / "jaas.conf"
    path.write_text(
        f"""// users
KafkaServer {{
   {PLAIN} required
   username="admin"
   user_admin="x";
   org.apache.kafka.common.security.scram.ScramLoginModule required;
}};
external.KafkaServer {{ {PLAIN} required user_a="\\141\\n"; }};
Client {{ }};
"""
    )
    sections = load_jaas_file(str(path))
    assert [line.kind for line in sections["KafkaServer"]] == [
        "PlainLoginModule",
        "ScramLoginModule",
    ]
    assert sections["KafkaServer"][0].options == {"username": "admin", "user_admin": "x"}
    assert sections["external.KafkaServer"][0].options == {"user_a": "a\n"}
    assert sections["Client"] == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("KafkaServer", "expected '{' after KafkaServer"),
        ("KafkaServer { };KafkaServer { };", "section KafkaServer once"),
        (f"KafkaServer {{ {PLAIN} required; }}", "expected ';' after the closing brace"),
        (f"KafkaServer {{ {PLAIN} required;", "login module, but it ends"),
        (f'KafkaServer {{ {PLAIN} required p="${{x}}"; }};', "holds"),
        ('"KafkaServer" {};', "name of a section"),
    ],
)
def test_invalid_file_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_jaas_file(text, "jaas.conf")


def test_missing_file_is_refused_with_path(tmp_path):
    with pytest.raises(ConfigError, match="cannot read the JAAS file"):
        load_jaas_file(str(tmp_path / "none"))
