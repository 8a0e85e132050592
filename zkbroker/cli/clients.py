"""`zkbroker clients`: the API versions that each client uses."""

import http.client
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import click

from zkbroker.cli.output import json_option, print_json, print_table, say
from zkbroker.errors import ZkbrokerError

_FILE = "client-versions.json"
_TIMEOUT_S = 10


@click.command(
    "clients",
    epilog="\b\nExamples:\n"
    "  zkbroker clients 127.0.0.1:9990              # a broker's admin.port\n"
    "  zkbroker clients /var/lib/zkbroker --refused # a data directory",
)
@click.argument("sources", nargs=-1, required=True, metavar="HOST:PORT|DIRECTORY...")
@click.option("--refused", is_flag=True, help="Only requests that were not served.")
@json_option
def command(sources: tuple[str, ...], refused: bool, as_json: bool) -> None:
    """List client ids, and the requests and versions that they sent.

    Asks brokers at their admin.port, or reads the record in their data directories.
    """
    clients = [client for source in sources for client in _read(source)["clients"]]
    if refused:
        clients = [
            client | {"requests": [each for each in client["requests"] if not each["served"]]}
            for client in clients
        ]
        clients = [client for client in clients if client["requests"]]
    if as_json:
        print_json(clients)
        return
    print_table(
        ["client", "from", "request", "version", "count", ""],
        [
            [
                client["client_id"],
                ", ".join(client["addresses"]),
                each["api"] or f"key {each['api_key']}",
                each["version"],
                each["count"],
                "" if each["served"] else "refused",
            ]
            for client in clients
            for each in client["requests"]
        ],
        numbers=[3, 4],
    )
    for client in clients:
        if client.get("throttled"):
            say(
                f"{client['client_id']} was throttled by quotas: {client['throttled']} times, "
                f"{client['throttled_ms'] / 1000:g} s in all"
            )


def _read(source: str) -> Any:
    directory = Path(source)
    try:
        if directory.is_dir():
            return json.loads((directory / _FILE).read_text(encoding="utf-8"))
        # Connect directly: the environment's proxy is for the web.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"http://{source}/clients", timeout=_TIMEOUT_S) as answer:
            return json.load(answer)
    except FileNotFoundError as error:
        raise ZkbrokerError(f"{directory} holds no {_FILE}: no broker has run on it yet") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        if "/" in source:
            raise ZkbrokerError(f"there is no directory {source}") from error
        raise ZkbrokerError(
            f"{source} does not answer: {getattr(error, 'reason', error)}; give a broker's "
            "admin.port or its data directory"
        ) from error
