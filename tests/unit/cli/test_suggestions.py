from zkbroker.cli.suggestions import no_such_command


def test_names_that_are_close_are_suggested():
    said = no_such_command("stauts", ["load", "status", "audit"], None)
    assert said.format_message() == "No such command 'stauts'. Did you mean status?"


def test_nothing_is_suggested_where_nothing_is_close():
    assert no_such_command("fly", ["load"], None).format_message() == "No such command 'fly'."
