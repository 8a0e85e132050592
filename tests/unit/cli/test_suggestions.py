from zkbroker.cli.suggestions import no_such_command


def test_similar_command_is_suggested():
    error = no_such_command("stauts", ["load", "status", "audit"], None)
    assert error.format_message() == "No such command 'stauts'. Did you mean status?"


def test_no_suggestion_without_a_similar_command():
    assert no_such_command("fly", ["load"], None).format_message() == "No such command 'fly'."
