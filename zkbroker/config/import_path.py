"""Objects that settings name by their import path.

    package.module:Name      package.module:Outer.Name      package.module.Name

Invariant: a name that cannot be imported is an error with the setting's name and the reason.
"""

import importlib
from typing import Any

from zkbroker.errors import ConfigError


def is_import_path(name: str) -> bool:
    """Whether a text has the form of an import path, and not of a plain name."""
    return ":" in name or "." in name


def import_object(key: str, name: str) -> Any:
    """Return the object at an import path.

    Raises:
        ConfigError: it cannot be imported.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon:
        module_name, _, attribute = name.rpartition(".")
    try:
        target: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            target = getattr(target, part)
    # Importing runs the module's code, which may raise anything.
    except Exception as error:
        raise ConfigError(
            f"{key}={name!r} is not allowed: it cannot be imported ({error}); give "
            "package.module:Name"
        ) from error
    return target


def import_instance(key: str, name: str) -> Any:
    """Return the object that an import path names; a class is instantiated without arguments.

    Raises:
        ConfigError: it cannot be imported or made.
    """
    found = import_object(key, name)
    if not isinstance(found, type):
        return found
    try:
        return found()
    except Exception as error:
        raise ConfigError(f"{key}={name!r} cannot be made: {error!r}") from error


def import_function(key: str, name: str) -> Any:
    """Return the function that `package.module:name` names; a class is made without arguments.

    Names without a colon, as those of Java classes, are not looked for.

    Raises:
        ConfigError: it cannot be imported or made, or cannot be called.
    """
    if ":" not in name:
        raise ConfigError(
            f"{key}={name} is not allowed: give package.module:function, since classes of Java are "
            "not run"
        )
    made = import_instance(key, name)
    if not callable(made):
        raise ConfigError(f"{key}={name!r} is not allowed: it is not a function")
    return made
