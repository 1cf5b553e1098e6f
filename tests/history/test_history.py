"""Random histories of many processes, decided by a checker: nothing acknowledged is lost, nothing that failed is there,
every version that is retained holds what its lineage says, and every read has seen one of them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.history.checker import Report
from tests.history.driver import Driver, Plan
from tests.support.s3 import S3Server
from tests.support.s3_faults import FaultProxy, fault_proxy

OPERATIONS = "OMNIGRAPH_TEST_HISTORY_OPERATIONS"
KILLS = "OMNIGRAPH_TEST_HISTORY_KILLS"
SECONDS = "OMNIGRAPH_TEST_HISTORY_SECONDS"
SEED = "OMNIGRAPH_TEST_HISTORY_SEED"

pytestmark = pytest.mark.processes


@pytest.fixture
def proxy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    with fault_proxy(s3.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


def number(variable: str, default: int) -> int:
    return int(os.environ.get(variable, default))


def show(report: Report, plan: Plan) -> None:
    print(f"\nseed {plan.seed}: {len(report.findings)} findings")
    for name, count in sorted(report.counts.items()):
        print(f"  {name}: {count}")


def require_clean(report: Report, plan: Plan) -> None:
    show(report, plan)
    assert not report.findings, f"seed {plan.seed}:\n" + "\n".join(report.findings[:20])
    assert report.counts["acknowledged and checked"] > 0
    assert report.counts["versions checked"] > 0
    assert report.counts["reads checked"] > 0


@pytest.mark.timeout(280)
def test_a_short_history(tmp_path: Path) -> None:
    plan = Plan(operations=400, kills=5, seconds=20, seed=8, processes=3, moves=True, interval=(0.3, 1.0))
    require_clean(Driver(str(tmp_path / "graph"), tmp_path, plan).run(), plan)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_long_history(tmp_path: Path) -> None:
    plan = Plan(
        operations=number(OPERATIONS, 8_000), kills=number(KILLS, 80), seconds=number(SECONDS, 7200), moves=True,
        seed=number(SEED, random.randrange(1 << 30)), interval=(0.3, 1.0),
    )  # fmt: skip
    require_clean(Driver(str(tmp_path / "graph"), tmp_path, plan).run(), plan)


@pytest.mark.s3
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_long_history_on_s3_with_faults(tmp_path: Path, proxy: FaultProxy) -> None:
    plan = Plan(
        operations=number(OPERATIONS, 8_000) // 4, kills=number(KILLS, 80) // 4, seconds=number(SECONDS, 7200),
        seed=number(SEED, random.randrange(1 << 30)),
    )  # fmt: skip
    uri = f"s3://graphs/history-{plan.seed}"
    require_clean(Driver(uri, tmp_path, plan, proxy).run(), plan)
