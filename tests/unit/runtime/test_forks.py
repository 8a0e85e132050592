import os

from zkbroker.runtime.forks import abandon_in_child, made_before_fork


class Client:
    abandoned = False

    def abandon_after_fork(self):
        self.abandoned = True


def in_a_child(question):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if question() else 1)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == 0


def test_a_client_is_abandoned_in_the_child_alone():
    client = Client()
    abandon_in_child(client)
    assert in_a_child(lambda: client.abandoned)
    assert not client.abandoned


def test_a_client_that_is_not_used_any_more_is_not_kept():
    seen = []
    client = Client()
    client.abandon_after_fork = lambda: seen.append(1)
    abandon_in_child(client)
    del client
    assert in_a_child(lambda: not seen)


def test_the_message_names_the_process_and_what_to_make():
    assert f"process {os.getpid()}" in made_before_fork("consumer")
    assert "make a consumer in the child" in made_before_fork("consumer")
