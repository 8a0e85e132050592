import base64
import random
from dataclasses import replace
from typing import ClassVar

import pytest

from tests.support.login_session import StoredUsers
from zkbroker.security.sasl.mechanism import LoginRefused
from zkbroker.security.sasl.scram import HASHES, SHA_256, ScramHash, make_credential, xor
from zkbroker.security.sasl.scram_client import ScramClient
from zkbroker.security.sasl.scram_server import ScramSecret, ScramServer

CREDENTIALS = {
    (name, user): make_credential(hashes, f"pw of {user}", 4096)
    for name, hashes in HASHES.items()
    for user in ("alice", "a,b=c", "é ü")
}
USERS = StoredUsers(CREDENTIALS)
SECRET = ScramSecret(b"k")


class RecordingHash(ScramHash):
    """Records the hashes and MACs that are computed."""

    __slots__ = ()
    made: ClassVar[list[str]] = []

    def hash(self, data):
        self.made.append("hash")
        return super().hash(data)

    def mac(self, key, data):
        self.made.append("mac")
        return super().mac(key, data)


def server(hashes=SHA_256):
    return ScramServer(hashes, USERS, SECRET, lambda: "own")


def log_in(hashes, user, password):
    client, broker = ScramClient(hashes, user, password), server(hashes)
    assert (
        client.evaluate(broker.evaluate(client.evaluate(broker.evaluate(client.first())))) is None
    )
    assert client.complete
    return broker.user


@pytest.mark.parametrize("hashes", HASHES.values())
@pytest.mark.parametrize("user", ["alice", "a,b=c", "é ü"])
def test_user_with_correct_password_logs_in(hashes, user):
    assert log_in(hashes, user, f"pw of {user}") == user


@pytest.mark.parametrize("hashes", HASHES.values())
@pytest.mark.parametrize("user", ["alice", "mallory"])
def test_unknown_user_is_indistinguishable_from_a_wrong_password(hashes, user):
    counted = RecordingHash(hashes.mechanism, hashes.digest, hashes.size)
    RecordingHash.made.clear()
    broker = server(counted)
    client = ScramClient(hashes, user, "wrong")
    first = broker.evaluate(client.first())
    proof = client.evaluate(first)
    with pytest.raises(LoginRefused) as raised:
        broker.evaluate(proof)
    assert str(raised.value) == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        f"mechanism {hashes.mechanism}"
    )
    assert RecordingHash.made == ["mac", "hash"]
    assert broker.user is None
    salt = base64.b64decode(first.split(b",")[1][2:])
    assert 15 < len(salt) <= 26
    assert salt.isalnum()


def test_unknown_user_has_a_stable_secret_salt():
    def salt(user, secret, hashes=SHA_256):
        broker = ScramServer(hashes, USERS, secret)
        return broker.evaluate(f"n,,n={user},r=x".encode()).split(b",")[1]

    assert salt("m", SECRET) == salt("m", SECRET)
    others = [
        salt("m2", SECRET),
        salt("m", ScramSecret(b"other")),
        salt("m", SECRET, HASHES["SCRAM-SHA-512"]),
    ]
    assert len({salt("m", SECRET), *others}) == 4


def test_proof_of_an_unknown_user_is_never_accepted():
    class Forged(ScramServer):
        def _stand_in(self, user):
            return CREDENTIALS["SCRAM-SHA-256", "alice"]

    broker = Forged(SHA_256, StoredUsers({}), SECRET)
    client = ScramClient(SHA_256, "alice", "pw of alice")
    with pytest.raises(LoginRefused):
        broker.evaluate(client.evaluate(broker.evaluate(client.first())))


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=alice",
        b"n,,r=x,n=alice",
        b"y,,n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,m=ext,n=alice,r=x",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=x",
        b"n,,n=alice,r=x\0",
        b"n,,n=ali\0ce,r=x",
        b"n,,n=alice,r=x,",
        b"n,,n=alice,r=x,1=2",
        b"n,,n=ali\xffce,r=x",
        b"n,a=bob,n=alice,r=x",
        b"n,,n=alice,r=x,tokenauth=true",
        b"n,,n=" + b"a" * 70_000 + b",r=x",
    ],
)
def test_malformed_first_message_is_refused(first):
    with pytest.raises(LoginRefused):
        server().evaluate(first)


def signed(first_bare, challenge, final):
    """Return a final message of alice with its proof."""
    stored = CREDENTIALS["SCRAM-SHA-256", "alice"]
    salted = SHA_256.salted_password("pw of alice", stored.salt, stored.iterations)
    signature = SHA_256.mac(stored.stored_key, f"{first_bare},{challenge},{final}".encode())
    proof = base64.b64encode(xor(SHA_256.mac(salted, b"Client Key"), signature)).decode()
    return f"{final},p={proof}".encode()


@pytest.mark.parametrize("bound", [b"n,a=alice,", b"n,,"])
def test_own_authorization_id_and_extensions_are_accepted(bound):
    broker, bare = server(), "n=alice,r=x,ext=1"
    challenge = broker.evaluate(f"n,a=alice,{bare}".encode()).decode()
    final = f"c={base64.b64encode(bound).decode()},r=xown"
    assert broker.evaluate(signed(bare, challenge, final)).startswith(b"v=")
    assert broker.user == "alice"


def final_message(change=lambda text: text):
    broker = server()
    client = ScramClient(SHA_256, "alice", "pw of alice", lambda: "x")
    final = client.evaluate(broker.evaluate(client.first()))
    return broker, change(final)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"",
        lambda text: text[:-1],
        lambda text: text.replace(b"r=xown", b"r=xowm"),
        lambda text: text.replace(b"r=xown", b"r=x"),
        lambda text: text.replace(b"c=biws", b"c=eSws"),
        lambda text: text.replace(b"c=biws", b"c=????"),
        lambda text: text.replace(b"c=biws,", b""),
        lambda text: text.split(b",p=")[0],
        lambda text: text.split(b",p=")[0] + b",p=" + base64.b64encode(b"x" * 31),
        lambda text: text.split(b",p=")[0] + b",p=" + base64.b64encode(b"x" * 32),
        lambda text: text + b",more=1",
    ],
)
def test_changed_final_message_is_refused(change):
    broker, final = final_message(change)
    with pytest.raises(LoginRefused, match="invalid credentials"):
        broker.evaluate(final)
    assert broker.user is None


def test_doubled_nonce_of_old_librdkafka_is_accepted():
    broker = server()
    challenge = broker.evaluate(b"n,,n=alice,r=x").decode()
    final = signed("n=alice,r=x", challenge, "c=biws,r=xxown")
    assert broker.evaluate(final).startswith(b"v=")
    assert broker.user == "alice"


def test_final_message_of_another_exchange_is_refused():
    _, final = final_message()
    other = ScramServer(SHA_256, USERS, SECRET, lambda: "fresh")
    other.evaluate(b"n,,n=alice,r=x")
    with pytest.raises(LoginRefused):
        other.evaluate(final)
    with pytest.raises(LoginRefused):
        other.evaluate(final)


def test_any_changed_bit_of_the_final_message_is_refused():
    chance = random.Random(1)
    broker, final = final_message()
    for _ in range(500):
        at, bit = chance.randrange(len(final)), 1 << chance.randrange(8)
        changed = bytearray(final)
        changed[at] ^= bit
        if at == len(final) - 2:
            continue  # two bits of the last base64 character belong to no byte
        asked = replace(broker._asked)  # the same exchange again
        again = server()
        again._asked = asked
        with pytest.raises(LoginRefused):
            again.evaluate(bytes(changed))
