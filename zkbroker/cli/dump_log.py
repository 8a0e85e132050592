"""`zkbroker dump-log`: the contents of segments and indexes, with the genuine tool's options."""

import sys
from pathlib import Path

import click

from zkbroker.cli.output import say


@click.command(
    "dump-log",
    epilog="\b\nExamples:\n"
    "  zkbroker dump-log --print-data-log data/visits-0/00000000000000000000.log\n"
    "  zkbroker dump-log --deep-iteration --files visits-0/0.log,visits-0/0.index",
)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--files", help="Files separated by commas, as the genuine tool takes them.")
@click.option("--print-data-log", is_flag=True, help="Print keys and payloads too.")
@click.option("--deep-iteration", is_flag=True, help="Print each record of compressed sets.")
@click.option("--verify-index-only", is_flag=True, help="Compare indexes with the log only.")
@click.option("--index-sanity-check", is_flag=True, help="Check indexes as a broker's start does.")
@click.option(
    "--max-message-size",
    type=click.IntRange(1),
    default=5 * 1024 * 1024,
    show_default=True,
    help="An entry larger than this, in bytes, ends the dump of its file.",
)
@click.option(
    "--value-decoder-class", metavar="NAME", help="Decoder of payloads: a class name or path."
)
@click.option("--key-decoder-class", metavar="NAME", help="Decoder of keys.")
@click.option("--offsets-decoder", is_flag=True, help="Decode records of __consumer_offsets.")
def command(
    paths: tuple[Path, ...],
    files: str | None,
    print_data_log: bool,
    deep_iteration: bool,
    verify_index_only: bool,
    index_sanity_check: bool,
    max_message_size: int,
    value_decoder_class: str | None,
    key_decoder_class: str | None,
    offsets_decoder: bool,
) -> None:
    """Print the contents of segments (.log, .kafka), indexes (.index, .timeindex), maps, snapshots.

    The output is that of the DumpLogSegments tool of Kafka 2.3.
    """
    from zkbroker.admin.dump_decoders import decode_offsets, named_decoder, record_decoder
    from zkbroker.admin.dump_log import DumpOptions, dump_log

    chosen = [*paths, *(Path(part.strip()) for part in (files or "").split(",") if part.strip())]
    if not chosen:
        raise click.UsageError("name at least one file")
    for path in chosen:
        if not path.is_file():
            raise click.BadParameter(f"there is no file {path}", param_hint="--files")
    decoder = (
        decode_offsets
        if offsets_decoder
        else record_decoder(
            named_decoder(key_decoder_class or "string"),
            named_decoder(value_decoder_class or "string"),
        )
    )
    options = DumpOptions(
        print_data_log=print_data_log or offsets_decoder,
        deep_iteration=deep_iteration,
        verify_index_only=verify_index_only,
        index_sanity_check=index_sanity_check,
        max_message_size=max_message_size,
        decoder=decoder,
    )
    # Keys and payloads go unchanged to files and programs, but escaped to a terminal.
    show = say if sys.stdout.isatty() else click.echo
    for line in dump_log(chosen, options, report=lambda text: say(text, err=True)):
        show(line)
