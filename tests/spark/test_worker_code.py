"""Workers that have the libraries and not omnigraph: its code comes from the driver, and S3 is all that they share."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.pipeline.worker_code import pack_code
from tests.spark.cluster import Driver, cluster
from tests.support.s3 import s3_server

WITHOUT_OMNIGRAPH = """
import sys
sys.path[:] = [path for path in sys.path if not path.endswith("/src")]
"""
"""As `sitecustomize`, it takes the checkout that is installed for development off the path."""


def test_the_same_code_makes_the_same_file(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    first, second = pack_code(one), pack_code(two)
    assert (first.name, first.read_bytes()) == (second.name, second.read_bytes())
    names = zipfile.ZipFile(io.BytesIO(first.read_bytes())).namelist()
    assert "omnigraph/__init__.py" in names
    assert "omnigraph/pipeline/worker_code.py" in names
    assert not [name for name in names if "__pycache__" in name]
    assert first.name.startswith(f"omnigraph-{omnigraph.__version__}-")


@pytest.mark.s3
@pytest.mark.processes
@pytest.mark.timeout(600)
@pytest.mark.parametrize("sends", ["yes", pytest.param("no", marks=pytest.mark.slow)])
def test_workers_without_omnigraph_load_into_s3(tmp_path: Path, sends: str) -> None:
    hiding = tmp_path / "hiding"
    hiding.mkdir()
    (hiding / "sitecustomize.py").write_text(WITHOUT_OMNIGRAPH)
    with s3_server(tmp_path) as server:
        server.create_bucket("shared")
        env = server.environment()
        store = pafs.S3FileSystem(
            access_key=env["AWS_ACCESS_KEY_ID"], secret_key=env["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=server.endpoint, region="us-east-1",
        )  # fmt: skip
        for part in range(3):
            names = [f"p{number}" for number in range(part * 50, part * 50 + 50)]
            pq.write_table(pa.table({"name": names}), f"shared/in/p{part}.parquet", filesystem=store)
        with cluster(tmp_path, str(hiding), env) as made:
            found = Driver(made, "sent", "s3://shared/graph", "s3://shared/in/", sends, **env).result()
    if sends == "yes":
        assert found == {"rows": 150, "ranked": 150}
    else:
        assert "No module named 'omnigraph'" in found["error"]
