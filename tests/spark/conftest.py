"""One Spark session for all tests of this directory: starting a JVM takes longer than most of them."""

from __future__ import annotations

import os
import warnings

import pytest

from tests.spark.connect import REMOTE


@pytest.fixture(scope="session")
def spark():
    from omnigraph import pipeline

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        remote = os.environ.get(REMOTE)
        if remote is not None:
            session = pipeline.session(remote)
            yield session
            session.stop()
            return
        # Up to four attempts of a task: without the second number a local master has one. The variable is set by
        # the tests that run some of these tests on a cluster.
        session = pipeline.session(os.environ.get("SPARK_MASTER", "local[2,4]"))
    yield session
    session.stop()


@pytest.fixture
def few_tasks(spark):
    """Small graphs: one task after a shuffle is enough."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


def pytest_collection_modifyitems(items):
    for item in items:
        if "/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)
