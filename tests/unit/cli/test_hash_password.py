"""A line for a file of users, from a password that is no argument."""

import pytest
from click.testing import CliRunner

from zkbroker.cli.hash_password import command
from zkbroker.security.password_hashes import load_users


def test_the_line_is_one_of_a_file_of_users(tmp_path):
    done = CliRunner().invoke(command, ["alice"], input="pw word\n")
    assert done.exit_code == 0
    file = tmp_path / "users"
    file.write_text(done.stdout)
    assert load_users(str(file), "admin.users.file")["alice"].fits("pw word")


@pytest.mark.parametrize(
    ("user", "password", "said"),
    [("a:b", "pw", "no ':' and no '#'"), ("alice", "\n", "no password was given")],
)
def test_what_makes_no_line_is_refused(user, password, said):
    done = CliRunner().invoke(command, [user], input=password)
    assert done.exit_code == 2
    assert said in done.output
