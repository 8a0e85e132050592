"""Configuration: frozen dataclasses, each built once from properties and validated once.

Old `.properties` files work unmodified: every option knows the spellings of each generation. An
unknown name is a warning that names the nearest known one; a bad value is a `ConfigError` that
names the key, the value and what is allowed.
"""

from zkbroker.config.properties import load_properties, parse_properties

__all__ = ["load_properties", "parse_properties"]
