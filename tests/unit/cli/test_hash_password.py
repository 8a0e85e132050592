import pytest
from click.testing import CliRunner

from zkbroker.cli.hash_password import command
from zkbroker.security.password_hashes import load_users


def test_printed_line_fits_a_file_of_users(tmp_path):
    done = CliRunner().invoke(command, ["alice"], input="pw word\n")
    assert done.exit_code == 0
    file = tmp_path / "users"
    file.write_text(done.stdout)
    assert load_users(str(file), "admin.users.file")["alice"].fits("pw word")


@pytest.mark.parametrize(
    ("user", "password", "message"),
    [("a:b", "pw", "no ':' and no '#'"), ("alice", "\n", "no password was given")],
)
def test_invalid_user_or_password_is_refused(user, password, message):
    done = CliRunner().invoke(command, [user], input=password)
    assert done.exit_code == 2
    assert message in done.output
