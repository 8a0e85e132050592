"""`zkbroker api-versions`: the versions of each API that brokers speak."""

import click

from zkbroker.cli.connection import cluster_options, open_cluster
from zkbroker.cli.output import json_option, print_json, print_table, say
from zkbroker.protocol import SUPPORTED_VERSIONS, ApiKey


@click.command(
    "api-versions",
    epilog="\b\nExamples:\n"
    "  zkbroker api-versions -b 127.0.0.1:9092\n"
    "  zkbroker api-versions -b 127.0.0.1:9092 --json",
)
@cluster_options
@click.option("--genuine-text", is_flag=True, hidden=True)
@json_option
def command(
    bootstrap: str | None, zookeeper: str | None, genuine_text: bool, as_json: bool
) -> None:
    """Show the versions of each API that every broker speaks, and those used by zkbroker.

    A broker before 0.10 cannot be asked: the versions of its generation are shown.
    """
    from zkbroker.admin.broker_queries import api_versions

    with open_cluster(bootstrap, zookeeper) as cluster:
        brokers = cluster.brokers()
        answers = api_versions(cluster)
    found = answers.found
    if as_json:
        print_json(
            {
                str(broker): {_name(key): list(span) for key, span in sorted(spoken.items())}
                for broker, spoken in found.items()
            }
        )
    elif genuine_text:
        for broker, spoken in found.items():
            where = brokers[broker]
            rack = "null" if where.rack is None else where.rack
            say(f"{where.host}:{where.port} (id: {broker} rack: {rack}) -> (")
            known = {int(key) for key in SUPPORTED_VERSIONS}
            lines = [
                f"{_name(key)}({key}): {_usable(key, spoken[key])}"
                if key in spoken
                else f"{_name(key)}({key}): UNSUPPORTED"
                for key in sorted(spoken.keys() | known)
            ]
            for line in lines[:-1]:
                say(f"\t{line},")
            say(f"\t{lines[-1]}")
            say(")")
    else:
        keys = sorted({key for spoken in found.values() for key in spoken})
        print_table(
            ["api", "name", *(f"broker {broker}" for broker in found), "here"],
            [
                [
                    key,
                    _name(key),
                    *(_span(spoken.get(key)) for spoken in found.values()),
                    _span(_ours(key)),
                ]
                for key in keys
            ],
            numbers=[0],
        )
    answers.require_all()


def _ours(key: int) -> tuple[int, int] | None:
    return SUPPORTED_VERSIONS.get(ApiKey(key)) if key in set(ApiKey) else None


def _name(key: int) -> str:
    if key not in set(ApiKey):
        return "UNKNOWN"
    return ApiKey(key).name.title().replace("_", "")


def _span(span: tuple[int, int] | None) -> str | None:
    return (
        None if span is None else f"{span[0]} to {span[1]}" if span[0] < span[1] else str(span[0])
    )


def _usable(key: int, span: tuple[int, int]) -> str:
    ours = _ours(key)
    shown = _span(span) or ""
    if ours is None:
        return shown
    highest = min(ours[1], span[1])
    if highest >= max(ours[0], span[0]):
        return f"{shown} [usable: {highest}]"
    return f"{shown} [unusable: node too {'old' if span[1] < ours[0] else 'new'}]"
