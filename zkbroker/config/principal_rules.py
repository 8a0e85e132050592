"""From the name of a certificate to the name of a user: `ssl.principal.mapping.rules`.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),.*$/$1@$2/L,DEFAULT

Invariant: the first rule whose regular expression fits the whole name decides; a name that no rule
fits has no user, and its connection is refused.
"""

import re
from dataclasses import dataclass

from zkbroker.errors import ConfigError

_KEY = "ssl.principal.mapping.rules"
_DEFAULT = "DEFAULT"
# A pattern and its replacement, in which a backslash keeps a slash from ending them.
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)(?:,|$)")
_REFERENCE = re.compile(r"\\(.)|\$(\d+)")


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule; without a pattern the name stays as it is."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None

        def part(reference: re.Match[str]) -> str:
            if reference[1] is not None:
                return reference[1]
            return found[int(reference[2])] or ""

        made = _REFERENCE.sub(part, self.replacement)
        return {"L": made.lower(), "U": made.upper()}.get(self.case, made)


@dataclass(frozen=True, slots=True)
class PrincipalRules:
    """The rules of a listener."""

    rules: tuple[_Rule, ...]

    def user(self, name: str) -> str | None:
        """Return the user for a certificate's name, None where no rule fits."""
        for rule in self.rules:
            made = rule.apply(name)
            if made is not None:
                return made
        return None

    @classmethod
    def parse(cls, text: str) -> "PrincipalRules":
        """Parse the text of the setting.

        Raises:
            ConfigError: it is not of that form.
        """
        rest = text.strip() or _DEFAULT
        rules: list[_Rule] = []
        while rest:
            if rest == _DEFAULT or rest.startswith(f"{_DEFAULT},"):
                rules.append(_Rule(None))
                rest = rest[len(_DEFAULT) + 1 :].lstrip()
                continue
            found = _RULE.match(rest)
            if found is None:
                raise ConfigError(
                    f"{_KEY}={text!r} is not allowed at {rest[:40]!r}: give "
                    "RULE:regex/name/ (with L or U behind it) or DEFAULT, separated by commas"
                )
            rules.append(_rule(text, *found.groups()))
            rest = rest[found.end() :].lstrip()
        return cls(tuple(rules))


def _rule(text: str, pattern: str, replacement: str, case: str) -> _Rule:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"{_KEY}={text!r}: {pattern!r} is no regular expression: {error}"
        ) from None
    most = max((int(each) for _, each in _REFERENCE.findall(replacement) if each), default=0)
    if most > compiled.groups:
        raise ConfigError(
            f"{_KEY}={text!r}: {replacement!r} names group {most}, and {pattern!r} has "
            f"{compiled.groups}"
        )
    return _Rule(compiled, replacement, case)
