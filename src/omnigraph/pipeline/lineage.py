"""Report runs of jobs as OpenLineage events: START, then COMPLETE, FAIL or ABORT, to an HTTP endpoint or a file.

Events are JSON as https://openlineage.io/spec/2-0-2/OpenLineage.json describes it, made and sent with the standard
library. An event that cannot be delivered never fails a load: the failure is logged, and is part of the summary of the
run.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from omnigraph import __version__, logs
from omnigraph.api.results import LoadResult
from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph
from omnigraph.pipeline.job_model import Job, JobSource, Lineage, NamedSource
from omnigraph.pipeline.job_sections import FILE_OPTIONS
from omnigraph.schema.catalog import Catalog, EdgeType, EntityType
from omnigraph.write.inputs.locations import expand_paths
from omnigraph.write.inputs.s3_access import S3Access
from omnigraph.write.inputs.source_files import Files
from omnigraph.write.inputs.suffixes import kind_of
from omnigraph.write.inputs.tables import JSON, JSONL, schema_of
from omnigraph.write.rows import ENDPOINTS

_PRODUCER = f"https://pypi.org/project/omnigraph/{__version__}"
_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = {
    "schema": "1-1-1/SchemaDatasetFacet", "version": "1-0-1/DatasetVersionDatasetFacet",
    "dataSource": "1-0-1/DatasourceDatasetFacet", "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
    "inputStatistics": "1-0-0/InputStatisticsInputDatasetFacet", "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "jobType": "2-0-3/JobTypeJobFacet", "processing_engine": "1-1-1/ProcessingEngineRunFacet",
}  # fmt: skip
_SECONDS = 10.0
_MAX_FAILURE = 2_000
START, COMPLETE, FAIL, ABORT = "START", "COMPLETE", "FAIL", "ABORT"


def lineage_of(job: Job) -> Lineage | None:
    """Return the target of a job's events: that of the job, else that of OpenLineage's variables, else none."""
    if job.lineage is not None:
        return job.lineage
    url = os.environ.get("OPENLINEAGE_URL", "").rstrip("/")
    if not url:
        return None
    endpoint = os.environ.get("OPENLINEAGE_ENDPOINT", "api/v1/lineage").strip("/")
    return Lineage(url=f"{url}/{endpoint}", namespace=os.environ.get("OPENLINEAGE_NAMESPACE", "default"))


class LineageRun:
    """The events of one run. Without a target nothing is sent."""

    def __init__(self, target: Lineage | None, job: Job, graph: Graph, run_id: str, access: S3Access | None) -> None:
        self._target = target
        self._job = job
        self._graph = graph
        self._run_id = run_id
        self._inputs = [] if target is None else list(_inputs(job, access))
        self.error: str | None = None

    def send(self, kind: str, result: LoadResult | None = None, failure: BaseException | None = None) -> None:
        """Deliver one event. A failure is recorded and logged."""
        if self._target is None:
            return
        try:
            body = json.dumps(self._event(kind, result, failure), default=str)
            _deliver(self._target, self._job, body)
        except (OSError, urllib.error.URLError, HTTPException, ValueError, OmnigraphError) as error:
            self.error = f"{kind} was not delivered: {error}"
            logs.event("pipeline.lineage_failed", logging.WARNING, job=self._job.name, event=kind, message=str(error))

    def _event(self, kind: str, result: LoadResult | None, failure: BaseException | None) -> dict[str, Any]:
        assert self._target is not None, "events have somewhere to go"
        facets = {"processing_engine": _facet("processing_engine", name="omnigraph", version=__version__)}
        if failure is not None:
            text = f"{type(failure).__name__}: {failure}"[:_MAX_FAILURE]
            facets["errorMessage"] = _facet("errorMessage", message=text, programmingLanguage="PYTHON")
        kinds = _facet("jobType", processingType="BATCH", integration="OMNIGRAPH", jobType="JOB")
        return {
            "eventType": kind, "eventTime": dt.datetime.now(dt.UTC).isoformat(), "producer": _PRODUCER,
            "schemaURL": _SCHEMA, "run": {"runId": self._run_id, "facets": facets},
            "job": {"namespace": self._target.namespace, "name": self._job.name, "facets": {"jobType": kinds}},
            "inputs": [_with_counts(each, result) for each in self._inputs],
            "outputs": list(self._outputs(result)),
        }  # fmt: skip

    def _outputs(self, result: LoadResult | None) -> Iterator[dict[str, Any]]:
        catalog = self._catalog()
        namespace, name = dataset_name(self._graph.uri)
        for types, sources in (("nodes", self._job.nodes), ("edges", self._job.edges)):
            for type_name in dict.fromkeys(source.type_name for source in sources):
                entity = None if catalog is None else getattr(catalog, types).get(type_name)
                facets = {"dataSource": _facet("dataSource", name=self._graph.uri, uri=self._graph.uri)}
                if entity is not None:
                    facets["schema"] = _facet("schema", fields=_fields(entity))
                found: dict[str, Any] = {"namespace": namespace, "name": f"{name}/{types}/{type_name}"}
                if result is not None and result.commit is not None:
                    facets["version"] = _facet("version", datasetVersion=result.commit.graph_commit_id)
                    written = getattr(result, types).get(type_name, 0)
                    size = result.bytes.get(f"{types[:-1]}:{type_name}", 0)
                    counts = _facet("outputStatistics", rowCount=written, size=size)
                    found["outputFacets"] = {"outputStatistics": counts}
                yield {**found, "facets": facets}

    def _catalog(self) -> Catalog | None:
        for branch in (self._job.branch, self._job.from_branch):
            try:
                return self._graph.catalog(branch)
            except OmnigraphError:
                continue
        return None


def dataset_name(uri: str) -> tuple[str, str]:
    """Return namespace and name of a path or a URI, by the conventions of OpenLineage.

    >>> dataset_name("/data/g"), dataset_name("s3://bucket/a/b")
    (('file', '/data/g'), ('s3://bucket', 'a/b'))
    """
    parts = urlsplit(uri)
    if not parts.scheme or parts.scheme == "file":
        return "file", os.path.abspath(parts.path if parts.scheme else uri)
    return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/")


def _facet(facet: str, **values: Any) -> dict[str, Any]:
    kind = _FACETS[facet]
    url = f"https://openlineage.io/spec/facets/{kind}.json#/$defs/{kind.partition('/')[2]}"
    return {"_producer": _PRODUCER, "_schemaURL": url, **values}


def _fields(entity: EntityType) -> list[dict[str, str]]:
    ends = [ENDPOINTS[end] for end in ENDPOINTS] if isinstance(entity, EdgeType) else []
    fixed = [{"name": name, "type": "String"} for name in ("id", *ends)]
    return [*fixed, *({"name": each.name, "type": str(each.type)} for each in entity.properties)]


def _inputs(job: Job, access: S3Access | None) -> Iterator[dict[str, Any]]:
    """Return the inputs of a job, each once. `_source` is the name by which the result counts its rows."""
    seen: set[tuple[str, str]] = set()
    sources: list[NamedSource | JobSource] = [*job.sources, *job.nodes, *job.edges]
    for source in sources:
        for (namespace, name), facets in _datasets(job, source, access):
            if (namespace, name) not in seen:
                seen.add((namespace, name))
                yield {"namespace": namespace, "name": name, "facets": facets, "_source": _counted_as(job, source)}


def _counted_as(job: Job, source: NamedSource | JobSource) -> str:
    if isinstance(source, NamedSource):
        return source.name
    return f"{source.type_name} from {job.located(source.paths[0])}" if source.paths else ""


def _datasets(
    job: Job, source: NamedSource | JobSource, access: S3Access | None
) -> Iterable[tuple[tuple[str, str], dict[str, Any]]]:
    for path in source.paths:
        yield dataset_name(job.located(path)), _schema_of_files(job, source, path, access)
    if isinstance(source, NamedSource):
        if source.table is not None:
            yield ("spark", source.table), {}
        elif source.reader is not None:
            given = source.reader_options
            name = next((given[key] for key in ("dbtable", "table", "path") if key in given), source.name)
            yield (source.reader, name), {}


def _schema_of_files(job: Job, source: NamedSource | JobSource, path: str, access: S3Access | None) -> dict[str, Any]:
    """Return the columns of the first file of a path, if its format declares them."""
    try:
        first = expand_paths([job.located(path)], access)[:1]
        kind = source.format or kind_of(first[0])
        if kind in (JSON, JSONL):
            return {}
        dialect = {name: value for name, value in source.options.items() if name in FILE_OPTIONS}
        [part] = Files("rows", first, kind, **dialect).parts(access)
        columns = [{"name": field.name, "type": str(field.type)} for field in schema_of(part)]
    except (OmnigraphError, OSError, pa.ArrowException, IndexError):
        return {}  # the load reports the errors of its files
    return {"schema": _facet("schema", fields=columns)}


def _with_counts(dataset: Mapping[str, Any], result: LoadResult | None) -> dict[str, Any]:
    shown = {name: value for name, value in dataset.items() if name != "_source"}
    if result is None:
        return shown
    rows = next((each.read for each in result.sources if each.name == dataset["_source"]), None)
    if rows is None:
        return shown
    return {**shown, "inputFacets": {"inputStatistics": _facet("inputStatistics", rowCount=rows)}}


def _deliver(target: Lineage, job: Job, body: str) -> None:
    if target.file is not None:
        with open(job.located(target.file), "a", encoding="utf-8") as out:
            out.write(body + "\n")
        return
    assert target.url is not None, "events go to a file or a URL"
    headers = {"Content-Type": "application/json"}
    key = os.environ.get("OPENLINEAGE_API_KEY")
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(target.url, body.encode(), headers, method="POST")
    with urllib.request.urlopen(request, timeout=_SECONDS):
        pass
