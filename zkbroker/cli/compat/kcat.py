"""`zkbroker kcat`: kcat's own command line, translated into our commands.

Invariant: every option of kcat 1.7 does the same here, or has no effect that matters, or is refused
    with a hint at what to type instead.
"""

import getopt
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from zkbroker.cli.compat.kcat_habits import brokers_of
from zkbroker.cli.output import say

_OPTIONS = "CPG:LQt:p:b:z:o:eED:K:k:H:Od:qvF:X:c:Tuf:ZlVhs:r:Jm:"
_FOR_BOTH = {"-D", "-K", "-c", "-Z"}
_CONSUMER = {"-o", "-e", "-f", "-J", "-s", "-u"}
_PRODUCER = {"-k", "-H", "-T", "-l"}
_USUAL_PORT = 9092
_DEFAULT_FILES = ("kcat.conf", "kafkacat.conf")


@click.command(
    "kcat",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="\b\nExamples:\n"
    "  zkbroker kcat -b 127.0.0.1:9092 -L\n"
    "  zkbroker kcat -b 127.0.0.1:9092 -C -t visits -o -10 -e -f '%o %s\\n'\n"
    "  zkbroker kcat -b 127.0.0.1:9092 -Q -t visits:0:1431857100000",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Do what kcat (kafkacat) does, with its own options and modes -C -P -L -Q -G.

    See also: zkbroker produce, consume, metadata and offsets, which take the same letters.
    """
    try:
        given, rest = getopt.gnu_getopt(list(arguments), _OPTIONS)
    except getopt.GetoptError as error:
        raise click.UsageError(f"{error}; kcat -h lists its options") from None
    letters = [letter for letter, _ in given]
    if "-h" in letters:
        click.echo(context.get_help())
        return
    if "-V" in letters:
        from zkbroker import __version__

        say(f"zkbroker {__version__}, with the command line of kcat 1.7")
        return
    properties = _properties(given)
    servers = [value for letter, value in given if letter == "-b"]
    bootstrap = servers[-1] if servers else brokers_of(properties)
    if bootstrap is None:
        bootstrap = os.environ.get("ZKBROKER_BOOTSTRAP")
    if bootstrap is None:
        raise click.UsageError("-b HOST:PORT is missing")
    bootstrap = ",".join(
        each if ":" in each else f"{each}:{_USUAL_PORT}" for each in bootstrap.split(",")
    )
    topics = [value for letter, value in given if letter == "-t"]
    mode = _mode(letters)
    if mode in ("-L", "-Q"):
        from zkbroker.cli.compat.kcat_listing import list_metadata, query_offsets
        from zkbroker.cli.security import use_security

        use_security(properties)
        show = list_metadata if mode == "-L" else query_offsets
        show(bootstrap, topics, as_json="-J" in letters)
        return
    root = context.find_root().command
    root.main(
        [*_translated(mode, given, rest, topics, bootstrap, properties)],
        prog_name="zkbroker",
        standalone_mode=False,
    )


def _mode(letters: Sequence[str]) -> str:
    chosen = [letter for letter in letters if letter in ("-C", "-P", "-L", "-Q", "-G")]
    if chosen:
        return chosen[-1]
    mode, name = ("-C", "Consumer") if sys.stdin.isatty() else ("-P", "Producer")
    if "-q" not in letters:
        say(f"% Auto-selecting {name} mode (use -P or -C to override)", err=True)
    return mode


def _translated(
    mode: str,
    given: Sequence[tuple[str, str]],
    rest: Sequence[str],
    topics: Sequence[str],
    bootstrap: str,
    properties: dict[str, str],
) -> list[str]:
    producing = mode == "-P"
    if not topics and mode != "-G":
        raise click.UsageError("-t TOPIC is missing")
    if rest and mode == "-C":
        raise click.UsageError(f"{rest[0]!r}: only -P takes files, and only -G takes more topics")
    shown = ["produce" if producing else "consume", "-b", bootstrap]
    if producing:
        shown += ["--skip-empty"]
    wanted = _FOR_BOTH | (_PRODUCER if producing else _CONSUMER)
    for letter, value in given:
        if letter == "-r" or (value == "list" and letter == "-X"):
            raise click.UsageError(
                "-r needs Avro, which is not supported: print the bytes with -s or -f"
                if letter == "-r"
                else "-X list: see docs/configuration.md, or zkbroker consume --help"
            )
        if letter == "-z" and producing:
            shown += ["--codec", value]
        elif letter == "-p":
            shown += [f"-p{value}"]
        elif letter in wanted:
            shown += [f"{letter}{value}"] if value else _bare(letter)
        elif letter == "-G":
            shown += ["-G", value]
        # -q, -v, -d, -E, -m and -O have no effect here.
    for key, value in properties.items():
        shown += ["-X", f"{key.removeprefix('topic.')}={value}"]
    if mode == "-G":
        return [*shown, "--", *topics, *rest]
    return [*shown, "-t", topics[-1], "--", *rest]


def _bare(letter: str) -> list[str]:
    # An option that takes a value was given an empty one.
    return [letter, ""] if letter in ("-D", "-K", "-k", "-f", "-s", "-o") else [letter]


def _properties(given: Sequence[tuple[str, str]]) -> dict[str, str]:
    from zkbroker.config.properties import load_properties

    files = [value for letter, value in given if letter == "-F"]
    if not files:
        home = Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config"))
        usual = [str(home / name) for name in _DEFAULT_FILES if (home / name).is_file()]
        files = [os.environ["KCAT_CONFIG"]] if "KCAT_CONFIG" in os.environ else usual[:1]
    properties: dict[str, str] = {}
    for file in files:
        properties |= load_properties(file)
    for letter, value in given:
        if letter == "-X" and value not in ("list", "dump"):
            key, equals, text = value.partition("=")
            if not equals:
                raise click.UsageError(f"-X {value!r} is not KEY=VALUE")
            properties[key] = text
    return properties
