"""The environment variables for S3: `AWS_*` variables to the option names of lance and obstore."""

from __future__ import annotations

import os
from collections.abc import Mapping

from omnigraph.errors import InvalidArgument
from omnigraph.errors.base import show_value

MAX_SECONDS = 10.0 * 365 * 86_400

_DIRECT = {
    "AWS_REGION": "aws_region",
    "AWS_DEFAULT_REGION": "aws_region",
    "AWS_ACCESS_KEY_ID": "aws_access_key_id",
    "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key",
    "AWS_SESSION_TOKEN": "aws_session_token",
}
_FALSE = {"", "0", "false", "no", "off"}
_TRUE = {"1", "true", "yes", "on"}


_RETRY_TIMEOUT = "client_retry_timeout"
_DEFAULT_TIMEOUT = 30


def is_truthy(text: str | None) -> bool:
    """The reading of every on/off variable."""
    return text is not None and text.strip().lower() not in _FALSE


def switch(name: str, default: bool = True) -> bool:
    """An on/off variable; any other word is refused, because either reading of it could be the wrong one."""
    text = os.environ.get(name, "").strip().lower()
    if not text:
        return default
    if text not in _TRUE | _FALSE:
        raise InvalidArgument(f"{name} is {show_value(text)}", hint="set it to `on` or `off`")
    return text in _TRUE


def seconds(name: str) -> float | None:
    """A variable that holds a number of seconds; None where it is not set."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < MAX_SECONDS:
        raise InvalidArgument(f"{name} is {show_value(text)}", hint="set it to a number of seconds, not below 0")
    return value


def whole_number(name: str, default: int) -> int:
    """A variable that holds a number of parallel tasks."""
    text = os.environ.get(name, "").strip() or str(default)
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and int(text) >= 1):
        raise InvalidArgument(f"{name} is {show_value(text)}", hint="use a whole number above 0")
    return int(text)


def s3_options(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Storage options for an `s3://` graph. `AWS_ENDPOINT_URL_S3` wins over `AWS_ENDPOINT_URL`."""
    env = os.environ if env is None else env
    options: dict[str, str] = {}
    for name, option in _DIRECT.items():
        if env.get(name) and option not in options:
            options[option] = env[name]
    endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL")
    if endpoint:
        options["aws_endpoint"] = endpoint
    # A custom endpoint rarely resolves bucket host names, so path style is its default.
    force_path = env.get("AWS_S3_FORCE_PATH_STYLE")
    path_style = is_truthy(force_path) if force_path is not None else bool(endpoint)
    options["aws_virtual_hosted_style_request"] = "false" if path_style else "true"
    if is_truthy(env.get("AWS_ALLOW_HTTP")) or (endpoint or "").startswith("http://"):
        options["allow_http"] = "true"
    return options


def with_client_timeout(options: Mapping[str, str], seconds: float) -> dict[str, str]:
    """Options under which no request, and no repetition of one, goes on for longer than about `seconds`.

    Without them a store that accepts connections and never answers blocks a caller for minutes.
    """
    whole = str(max(1, round(seconds)))
    timeouts = {
        "timeout": f"{whole}s",
        "connect_timeout": f"{whole}s",
        _RETRY_TIMEOUT: whole,
        "client_max_retries": "3",
        "download_retry_count": "1",
    }
    return {**options, **timeouts}


def client_timeout(options: Mapping[str, str]) -> int:
    """The seconds that `with_client_timeout` has put into some options."""
    return int(options.get(_RETRY_TIMEOUT, _DEFAULT_TIMEOUT))
