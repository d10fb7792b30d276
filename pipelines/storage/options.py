"""Options of the stores, as given on the command line: `key=value`, or `s3.key=value` for one kind of store.

Credentials need no option: the stores' libraries read the usual environment variables and files, and fsspec reads its
configuration.
"""

import json
from collections.abc import Sequence
from typing import Any

from fsspec.config import conf
from fsspec.registry import available_protocols, registry

from pipelines.errors import PipelineError

#: Alternative schemes of each kind of store.
FAMILIES = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}

#: Defaults, which an option or fsspec's configuration overrides. Listings are not cached: a cached listing would be
#: outdated, and as large as the bucket. Timeouts are short and botocore does not retry, because s3fs and this program
#: (`pipelines.storage.faults.with_retries`) retry requests that may succeed.
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
    """Set the options of all stores used from now on in this process, replacing override ones.

    Args:
        options: `KEY=VALUE` for all stores, `PROTOCOL.KEY=VALUE` for one kind; a value that is JSON is parsed as JSON.

    Raises:
        PipelineError: `storage.bad_option`, which names keys and never values.
    """
    parsed: dict[str, dict[str, Any]] = {}
    for option in options:
        name, mark, value = option.partition("=")
        protocol, dot, key = name.rpartition(".")
        if not mark:  # Not shown in the error: it may be a value, hence a secret.
            raise PipelineError("storage.bad_option", option="…", reason="a value of --storage-option has no =")
        if not key.isidentifier():
            raise PipelineError("storage.bad_option", option=repr(name), reason="it does not name an option")
        if dot and not is_protocol(protocol):
            raise PipelineError("storage.bad_option", option=repr(name), reason=f"{protocol!r} is not a known store")
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
    """Return the options in use, in the form that `use_options` takes, to pass them to another process."""
    return _given


def is_protocol(name: str) -> bool:
    """Return whether a name is the protocol of a known kind of store.

    Args:
        name: the part of a URL before `://`.
    """
    return name in registry or name in available_protocols()


def option_names() -> list[str]:
    """Return the names of the options in use, without values, which may be secret. For reports."""
    return sorted(f"{kind}.{key}" if kind else key for kind, options in _options.items() for key in options)


def options_for(protocol: str) -> dict[str, Any]:
    """Return the options of a kind of store; a dictionary is merged into the default that it overrides.

    Args:
        protocol: the protocol of a URL.
    """
    kind = FAMILIES.get(protocol, protocol)
    given = _options.get("", {}) | _options.get(kind, {})
    configured = {key: value for name in (kind, protocol) for key, value in conf.get(name, {}).items()}
    defaults = {key: value for key, value in _DEFAULTS.get(kind, {}).items() if key not in configured | given}
    for key, value in _DEFAULTS.get(kind, {}).items():
        override = given.get(key, configured.get(key))
        if isinstance(value, dict) and isinstance(override, dict):
            given[key] = value | override
    return defaults | given
