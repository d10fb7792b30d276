"""Options of the stores, as the command line gives them: `key=value`, or `s3.key=value` for one kind of store.

Credentials need none: the stores' libraries read the usual environment and files, and fsspec its own configuration.
"""

import json
from collections.abc import Sequence
from typing import Any

from fsspec.config import conf
from fsspec.registry import available_protocols, registry

from pipelines.errors import PipelineError

#: Schemes that name the same kind of store.
FAMILIES = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}

#: What is set unless an option or fsspec's configuration says otherwise. Listings are not to be remembered: they would
#: be old, and as large as the bucket. A store that does not answer is given up soon, since what is worth another try is
#: tried again by s3fs, and by this program (`faults.with_retries`).
_DEFAULTS: dict[str, dict[str, Any]] = {
    "s3": {
        "use_listings_cache": False,
        "config_kwargs": {"connect_timeout": 3, "retries": {"mode": "standard", "total_max_attempts": 1}},
    },
    "gs": {"use_listings_cache": False},
    "az": {"use_listings_cache": False},
}

_given: tuple[str, ...] = ()
_options: dict[str, dict[str, Any]] = {}  # kind of store, "" for all -> option -> value


def use_options(options: Sequence[str]) -> None:
    """Take these options, and no others, for all stores that are used from now on in this process.

    Args:
        options: `KEY=VALUE` for all stores, `PROTOCOL.KEY=VALUE` for one kind; a value that is JSON is read as JSON.

    Raises:
        PipelineError: `storage.bad_option`, which names keys and never values.
    """
    parsed: dict[str, dict[str, Any]] = {}
    for option in options:
        name, mark, value = option.partition("=")
        protocol, dot, key = name.rpartition(".")
        if not mark:  # What stands there may be the value alone.
            raise PipelineError("storage.bad_option", option="one without a =", reason="it is no KEY=VALUE")
        if not key.isidentifier():
            raise PipelineError("storage.bad_option", option=repr(name), reason="it does not name an option")
        if dot and not is_protocol(protocol):
            raise PipelineError("storage.bad_option", option=repr(name), reason=f"no store is called {protocol!r}")
        try:
            content = json.loads(value)
        except (ValueError, RecursionError):
            content = value
        parsed.setdefault(FAMILIES.get(protocol, protocol), {})[key] = content
    global _given
    _given = tuple(options)
    _options.clear()
    _options.update(parsed)


def given_options() -> tuple[str, ...]:
    """Return the options in use, as `use_options` takes them, for another process."""
    return _given


def is_protocol(name: str) -> bool:
    """Tell whether URLs may begin so."""
    return name in registry or name in available_protocols()


def option_names() -> list[str]:
    """Return the names of the options in use, for reports: values may be secrets."""
    return sorted(f"{kind}.{key}" if kind else key for kind, options in _options.items() for key in options)


def options_for(protocol: str) -> dict[str, Any]:
    """Return the options of a kind of store; a dictionary adds to the defaults that it replaces in part."""
    kind = FAMILIES.get(protocol, protocol)
    given = _options.get("", {}) | _options.get(kind, {})
    configured = {key: value for name in (kind, protocol) for key, value in conf.get(name, {}).items()}
    defaults = {key: value for key, value in _DEFAULTS.get(kind, {}).items() if key not in configured | given}
    for key, value in _DEFAULTS.get(kind, {}).items():
        wanted = given.get(key, configured.get(key))
        if isinstance(value, dict) and isinstance(wanted, dict):
            given[key] = value | wanted
    return defaults | given
