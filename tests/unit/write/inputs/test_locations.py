"""Paths, patterns and URIs to files; where the settings of S3 come from."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from omnigraph.errors import InvalidArgument, Unsupported
from omnigraph.write.inputs.locations import expand_braces, expand_paths, locate
from omnigraph.write.inputs.s3_access import S3Access, filesystem_arguments


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a{b,c}d", ["abd", "acd"]),
        ("{a,b}/{c,d}", ["a/c", "a/d", "b/c", "b/d"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"]),
        ("{a}", ["{a}"]),
        ("a}b{", ["a}b{"]),
        ("{,x}", ["", "x"]),
        ("{a{b}c,d}", ["a{b}c", "d"]),
        ("{a", ["{a"]),
    ],
)
def test_braces(pattern: str, found: list[str]) -> None:
    assert expand_braces(pattern) == found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "a.csv", "b.csv", "c.txt", "d/e.csv", "d/f/g.csv", "_SUCCESS", "_delta_log/0.json", ".x.crc", "_k=1/h.csv",
        "[1].csv", "{p,q}.csv", "with space.csv", "%41.csv",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a.csv", "a.csv"),
        ("[ab].csv", "a.csv b.csv"),
        ("[!a].csv", "b.csv"),
        ("[^a].csv", "b.csv"),
        ("?.csv", "a.csv b.csv"),
        ("d", "d/e.csv d/f/g.csv"),
        ("d*", "d/e.csv d/f/g.csv"),
        ("*/*.csv", "_k=1/h.csv d/e.csv"),
        ("d/**", "d/e.csv d/f/g.csv"),
        ("**/g.csv", "d/f/g.csv"),
        ("d/**/*.csv", "d/e.csv d/f/g.csv"),
        ("{a,d/e}.csv", "a.csv d/e.csv"),
        ("_*", "_SUCCESS _delta_log/0.json _k=1/h.csv"),
        ("[1].csv", "[1].csv"),
        ("{p,q}.csv", "{p,q}.csv"),
        ("%41.csv", "%41.csv"),
    ],
)
def test_files_behind_patterns(folder: Path, pattern: str, found: str) -> None:
    names = expand_paths(f"{folder}/{pattern}")
    assert " ".join(str(Path(name).relative_to(folder)) for name in names) == found
    assert expand_paths(f"file://{folder}/{pattern}") == expand_paths(f"file:{folder}/{pattern}") == names


def test_a_directory_leaves_out_markers_and_unfinished_files(folder: Path) -> None:
    names = [str(Path(name).relative_to(folder)) for name in expand_paths(folder)]
    assert names == sorted(
        ["%41.csv", "[1].csv", "a.csv", "b.csv", "c.txt", "d/e.csv", "d/f/g.csv", "with space.csv", "{p,q}.csv",
         "_k=1/h.csv"]
    )  # fmt: skip


def test_relative_patterns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert expand_paths(["?.csv", "d/e.csv"]) == tuple(str(folder / name) for name in ("a.csv", "b.csv", "d/e.csv"))


@pytest.mark.parametrize("name", ["none.csv", "*.none", "{x,y}.none", "none/*"])
def test_nothing_there(folder: Path, name: str) -> None:
    with pytest.raises(InvalidArgument, match="there is no such file"):
        expand_paths(f"{folder}/{name}")


def test_schemes_that_cannot_be_read() -> None:
    with pytest.raises(InvalidArgument, match="there is no filesystem for 'http'"):
        expand_paths("http://host/a.csv")
    with pytest.raises(InvalidArgument, match="another machine"):
        expand_paths("file://host/a.csv")
    with pytest.raises(Unsupported, match="hdfs needs libhdfs"):
        expand_paths("hdfs://host:9000/a.csv")


def test_names_on_s3_are_not_decoded() -> None:
    place = locate("s3a://bucket/a=x%2Fy/b c.csv", S3Access(endpoint="http://127.0.0.1:1", region="us-east-1"))
    assert place.path == "bucket/a=x%2Fy/b c.csv"
    assert place.uri(place.path) == "s3a://bucket/a=x%2Fy/b c.csv"


HADOOP = {
    "fs.s3a.access.key": "id", "fs.s3a.secret.key": "hidden", "fs.s3a.session.token": "token",
    "fs.s3a.endpoint": "store:9000", "fs.s3a.connection.ssl.enabled": "false", "fs.s3a.path.style.access": "true",
    "fs.s3a.endpoint.region": "eu-north-1",
}  # fmt: skip
GIVEN = {
    "access_key": "id", "secret_key": "hidden", "session_token": "token", "endpoint_override": "store:9000",
    "scheme": "http", "force_virtual_addressing": False, "region": "eu-north-1",
}  # fmt: skip


def test_settings_of_hadoop_are_used_where_the_environment_has_none() -> None:
    access = S3Access.of_hadoop(HADOOP)
    assert access is not None
    assert filesystem_arguments(access, {}) == GIVEN
    env = {"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "own"}
    keys = {"access_key": "mine", "secret_key": "own"}
    assert filesystem_arguments(access, env) == {k: v for k, v in GIVEN.items() if k != "session_token"} | keys
    assert filesystem_arguments(access, {"AWS_REGION": "x", "AWS_ENDPOINT_URL": "https://y"}) == GIVEN | {
        "region": "x", "endpoint_override": "y", "scheme": "https",
    }  # fmt: skip
    assert S3Access.of_hadoop({}) is None


def test_secrets_are_not_in_texts() -> None:
    access = S3Access.of_hadoop(HADOOP)
    assert pickle.loads(pickle.dumps(access)) == access
    for secret in ("id'", "hidden", "token'"):
        assert secret not in repr(access)
