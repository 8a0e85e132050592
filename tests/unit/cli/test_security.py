from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from zkbroker.cli.security import (
    current_security,
    security_option,
    security_properties,
    use_security,
)
from zkbroker.errors import ClientError


@click.command()
@security_option
@click.option("-X", "settings", multiple=True)
def command(settings: tuple[str, ...]) -> None:
    use_security(dict(each.partition("=")[::2] for each in settings))
    found = current_security()
    click.echo(f"{found.protocol} {found.tls.truststore_location} {sorted(security_properties())}")


def test_security_comes_from_file_environment_and_options(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nssl.truststore.location=/ca.pem\nclient.id=a\n")
    runner = CliRunner()
    found = runner.invoke(command, ["--command-config", str(file)])
    expected = "SSL /ca.pem ['security.protocol', 'ssl.truststore.location']\n"
    assert found.output == expected
    by_environment = runner.invoke(command, [], env={"ZKBROKER_COMMAND_CONFIG": str(file)})
    assert by_environment.output == expected
    single = runner.invoke(
        command, ["--command-config", str(file), "-X", "ssl.truststore.location=/o", "-X", "acks=1"]
    )
    assert single.output.startswith("SSL /o ")


def test_unused_settings_of_the_file_are_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("retries=3\n")
    found = CliRunner().invoke(command, ["--command-config", str(file)])
    assert "not retries" in found.output
    assert "PLAINTEXT" in found.output


@pytest.mark.parametrize("given", [False, True])
def test_security_error_without_a_file_names_command_config(given: bool, tmp_path: Path) -> None:
    @click.command()
    @security_option
    def refused() -> None:
        raise ClientError("set security.protocol=SSL")

    file = tmp_path / "client.properties"
    file.write_text("security.protocol=PLAINTEXT\n")
    found = CliRunner().invoke(refused, ["--command-config", str(file)] if given else [])
    notes = getattr(found.exception, "__notes__", [])
    assert any("--command-config FILE" in each for each in notes) is not given


def test_default_outside_a_command_is_plaintext() -> None:
    assert security_properties() == {}
    assert current_security().protocol == "PLAINTEXT"
