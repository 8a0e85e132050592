import pytest

from zkbroker.config.jaas import load_jaas_file, parse_jaas_file, parse_jaas_line
from zkbroker.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_line_as_genuine_brokers_take_it():
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


def test_values_are_never_shown():
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
    ("text", "says"),
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
def test_what_is_no_line_is_refused_with_what_is_missing(text, says):
    with pytest.raises(ConfigError, match=says):
        parse_jaas_line(text, "listener.name.x.plain.sasl.jaas.config")


def test_a_file_has_sections(tmp_path):
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
    ("text", "says"),
    [
        ("KafkaServer", "expected '{' after KafkaServer"),
        ("KafkaServer { };KafkaServer { };", "section KafkaServer once"),
        (f"KafkaServer {{ {PLAIN} required; }}", "expected ';' after the closing brace"),
        (f"KafkaServer {{ {PLAIN} required;", "login module, but it ends"),
        (f'KafkaServer {{ {PLAIN} required p="${{x}}"; }};', "holds"),
        ('"KafkaServer" {};', "name of a section"),
    ],
)
def test_what_is_no_file_is_refused(text, says):
    with pytest.raises(ConfigError, match=says):
        parse_jaas_file(text, "jaas.conf")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot read the JAAS file"):
        load_jaas_file(str(tmp_path / "none"))
