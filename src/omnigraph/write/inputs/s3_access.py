"""Credentials and endpoint of S3 for input files: those of the environment, else those that a caller gives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from omnigraph.storage.options import s3_options

_HADOOP = "fs.s3a."


@dataclass(frozen=True, slots=True)
class S3Access:
    """Settings for S3 that are used where the environment has none. Its text form omits the secret ones."""

    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    path_style: bool | None = None
    region: str | None = None

    @classmethod
    def of_hadoop(cls, setting: Mapping[str, str]) -> S3Access | None:
        """The access that settings named as Hadoop names them (`fs.s3a.access.key` ...) describe, if any."""
        endpoint = setting.get(f"{_HADOOP}endpoint")
        if endpoint and "://" not in endpoint:
            is_plain = setting.get(f"{_HADOOP}connection.ssl.enabled", "true").lower() == "false"
            endpoint = f"{'http' if is_plain else 'https'}://{endpoint}"
        style = setting.get(f"{_HADOOP}path.style.access")
        found = cls(
            access_key=setting.get(f"{_HADOOP}access.key"),
            secret_key=setting.get(f"{_HADOOP}secret.key"),
            session_token=setting.get(f"{_HADOOP}session.token"),
            endpoint=endpoint,
            path_style=None if style is None else style.lower() == "true",
            region=setting.get(f"{_HADOOP}endpoint.region"),
        )
        return None if found == cls() else found


HADOOP_SETTINGS = tuple(
    f"{_HADOOP}{name}"
    for name in (
        "access.key", "secret.key", "session.token", "endpoint", "endpoint.region", "path.style.access",
        "connection.ssl.enabled",
    )
)  # fmt: skip


def s3_filesystem(bucket: str, access: S3Access | None) -> Any:
    """The Arrow filesystem for a bucket. Each group of settings (keys, endpoint, region) comes from one place."""
    arguments = filesystem_arguments(access)
    if "region" not in arguments and "endpoint_override" not in arguments:
        arguments["region"] = _region_of(bucket)
    return _filesystem(tuple(sorted(arguments.items())), os.getpid())


def filesystem_arguments(access: S3Access | None, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The arguments for `pyarrow.fs.S3FileSystem`."""
    given, access = s3_options(env), access or S3Access()
    arguments: dict[str, Any] = {}
    keys = (given.get("aws_access_key_id"), given.get("aws_secret_access_key"), given.get("aws_session_token"))
    if not (keys[0] and keys[1]):
        keys = (access.access_key, access.secret_key, access.session_token)
    if keys[0] and keys[1]:
        arguments.update(access_key=keys[0], secret_key=keys[1])
        if keys[2]:
            arguments["session_token"] = keys[2]
    endpoint, hosted = given.get("aws_endpoint"), given["aws_virtual_hosted_style_request"] == "true"
    if not endpoint and access.endpoint:
        endpoint, hosted = access.endpoint, access.path_style is False
    if endpoint:
        parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        arguments.update(endpoint_override=parts.netloc, scheme=parts.scheme, force_virtual_addressing=hosted)
    region = given.get("aws_region") or access.region
    if region:
        arguments["region"] = region
    return arguments


@lru_cache(maxsize=64)
def _region_of(bucket: str) -> str:
    return str(pafs.resolve_s3_region(bucket))


@lru_cache(maxsize=16)
def _filesystem(arguments: tuple[tuple[str, Any], ...], _process: int) -> Any:
    """A client of S3; one per process, because it does not survive a fork."""
    return pafs.S3FileSystem(**dict(arguments))
