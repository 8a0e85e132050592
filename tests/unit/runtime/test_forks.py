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


def test_client_is_abandoned_only_in_the_child():
    client = Client()
    abandon_in_child(client)
    assert in_a_child(lambda: client.abandoned)
    assert not client.abandoned


def test_unused_client_is_not_kept_alive():
    seen = []
    client = Client()
    client.abandon_after_fork = lambda: seen.append(1)
    abandon_in_child(client)
    del client
    assert in_a_child(lambda: not seen)


def test_fork_error_names_the_process_and_the_remedy():
    assert f"process {os.getpid()}" in made_before_fork("consumer")
    assert "make a consumer in the child" in made_before_fork("consumer")
