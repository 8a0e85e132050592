"""One genuine tool: its options, and their translation into arguments of our command.

Invariant: an option that is neither known nor known to have no effect is a usage error; a script
never runs with an option silently dropped.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass

import click

from zkbroker.cli.output import warn

ORDER = "*"
"""Key of the options whose order counts, as `name=value`, in that order."""

Translation = Callable[[dict[str, list[str]]], list[str]]


@dataclass(frozen=True)
class Tool:
    """A genuine tool.

    Args:
        summary: one line of help.
        translate: turns its options (name → values given) into arguments of ours.
        values: options that take a value.
        flags: options that take none.
        optional: options that take a value or none.
        ignored: options without effect here.
        example: its options, as in a script.
        positional: how many bare arguments it takes; they are under `""`.
        ordered: options whose order counts; they are under `ORDER` as well.
    """

    summary: str
    translate: Translation
    _: KW_ONLY
    example: str
    values: Collection[str] = ()
    flags: Collection[str] = ()
    optional: Collection[str] = ()
    ignored: Collection[str] = ()
    positional: int = 0
    ordered: Collection[str] = ()

    @property
    def _known(self) -> list[str]:
        return sorted({f"--{each}" for each in (*self.values, *self.flags, *self.optional)})

    def parse(self, arguments: Sequence[str]) -> dict[str, list[str]]:
        """Collect the options as the genuine parser does: `--name value` or `--name=value`.

        Raises:
            click.UsageError: an option is unknown or lacks its value.
        """
        given: dict[str, list[str]] = {}
        rest = list(arguments)
        while rest:
            argument = rest.pop(0)
            if not argument.startswith("--"):
                given.setdefault("", []).append(argument)
                continue
            name, equals, value = argument[2:].partition("=")
            if name in self.optional:
                bare = rest and not rest[0].startswith("--")
                given.setdefault(name, []).extend(
                    [value] if equals else [rest.pop(0)] if bare else []
                )
                continue
            if name in self.flags and not equals:
                given.setdefault(name, [])
            elif name in self.values or name in self.ignored:
                if not equals:
                    if not rest:
                        raise click.UsageError(f"--{name} needs a value")
                    value = rest.pop(0)
                given.setdefault(name, []).append(value)
            else:
                known = " ".join(self._known)
                raise click.UsageError(f"--{name} is not an option; there are {known}")
            if name in self.ordered:
                given.setdefault(ORDER, []).append(f"{name}={value}")
            if name in self.ignored:
                warn(f"--{name} has no effect here")
        if len(given.get("", [])) > self.positional:
            raise click.UsageError(f"unexpected argument {given[''][self.positional]!r}")
        return given

    def command(self, name: str) -> click.Command:
        """Make the click command of this tool."""

        @click.command(
            name,
            help=f"{self.summary}\n\nOptions are those of the genuine tool: "
            + ", ".join(self._known),
            epilog=f"\b\nExample:\n  zkbroker {name} {self.example}",
            context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        )
        @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
        @click.pass_context
        def run(context: click.Context, arguments: tuple[str, ...]) -> None:
            translated = self.translate(self.parse(arguments))
            root = context.find_root().command
            root.main(translated, prog_name="zkbroker", standalone_mode=False)

        return run
