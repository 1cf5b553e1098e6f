"""The Lance side of `__manifest`: a dataset whose every version is written whole and swapped strictly.

`compare_and_swap` is the only operation in the system that makes anything visible. It succeeds only when the slot after
the version that was read is free. That alone is not enough (a slot can be free because cleanup emptied it), so the
caller also keeps the time rules of the publisher.

On a local disk each version records, in the metadata of its schema, its number and the checksums of its data file and
of the version file before it. Number and data file are compared whenever the rows are read, both checksums by `fsck
--deep`. A file cannot hold its own checksum, so the newest version file has a record only after the next commit. Until
then it is checked indirectly: it must have its own number, and lead to rows of the recorded checksum.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.errors import (
    CommitLost,
    CorruptGraph,
    FormatUnsupported,
    GraphNotFound,
    MissingData,
    StagedDataGone,
    StorageError,
    VersionNotFound,
)
from omnigraph.errors.store import REBUILD
from omnigraph.storage.calls import record
from omnigraph.storage.checksums import damaged_object
from omnigraph.storage.data_files import DataFiles
from omnigraph.storage.decode import decoding
from omnigraph.storage.digests import Digest, FileDigester
from omnigraph.storage.durability import Durability
from omnigraph.storage.failpoints import Point, hit
from omnigraph.storage.faults import translate_faults
from omnigraph.storage.layout import FOREIGN, MANIFEST, GraphRoot, version_file
from omnigraph.storage.objects import ObjectInfo, ObjectStore
from omnigraph.storage.presence import missing_files
from omnigraph.storage.tables import data_file

_MAGIC = b"LANC"
_DATA_DIGEST, _PREVIOUS_DIGEST, _NUMBER = b"omnigraph:data", b"omnigraph:previous", b"omnigraph:version"
_CREATE_ATTEMPTS = 3
_VERSION_FILE = re.compile(r"/\d{20}\.manifest$")
_BLOCK_BYTES = 4 << 20
"""Manifest files are small: one request reads one whole, however many types a graph has."""


@dataclass(frozen=True, slots=True)
class ManifestVersion:
    """One version of one manifest: its location, number and open handle. `damaged` names a newer file that was cut
    short.
    """

    location: str
    version: int
    dataset: LanceDataset
    damaged: str | None = None
    digester: FileDigester | None = None

    @property
    def schema(self) -> pa.Schema:
        """Columns and metadata; the format stamp is in the metadata."""
        with translate_faults(f"reading the schema of {self.location} version {self.version}"):
            return self.dataset.schema

    @property
    def path(self) -> str:
        """Its version file, relative to the root."""
        return f"{self.location}/{version_file(self.version)}"

    @property
    def file(self) -> str | None:
        """The name of its data file, which is never reused; None where there is not exactly one."""
        with translate_faults(f"reading {self.location} version {self.version}"):
            fragments = self.dataset.get_fragments()
        return data_file(fragments[0].metadata) if len(fragments) == 1 else None

    def rows(self, columns: list[str]) -> pa.Table:
        """The rows of the state, in the order they were written."""
        record("manifest read")
        self._require_intact()
        with translate_faults(f"reading {self.location} version {self.version}"):
            fragments = self.dataset.get_fragments()
            if len(fragments) == 1:  # the usual case: taking its rows by number needs no plan and half the time
                return fragments[0].take(range(fragments[0].count_rows()), columns=columns)
            return self.dataset.scanner(columns=columns, scan_in_order=True).to_table()

    def _require_intact(self) -> None:
        wanted = self.data_digest
        if wanted is None or self.digester is None or not self.digester.is_recording:
            return
        number = (self.schema.metadata or {}).get(_NUMBER)
        if number is not None and number != str(self.version).encode():
            raise CorruptGraph(
                f"a version file of {self.location} is damaged: it says that it is version {self.version} and version "
                f"{number.decode(errors='replace')}",
                hint=f"restore the newest files of {self.location}/_versions from a copy of the store",
            )
        for path in self.data_files():
            if self.digester.measure(path) != wanted:
                raise damaged_object(path)

    @property
    def data_digest(self) -> Digest | None:
        """The recorded digest of its data file."""
        return self._digest(_DATA_DIGEST)

    @property
    def previous_digest(self) -> Digest | None:
        """The recorded digest of the version file before it."""
        return self._digest(_PREVIOUS_DIGEST)

    def _digest(self, name: bytes) -> Digest | None:
        text = (self.schema.metadata or {}).get(name)
        with decoding(f"{self.location} version {self.version}"):
            return None if text is None else Digest.parse(text.decode())

    def data_files(self) -> frozenset[str]:
        """The data files, relative to the root, that this version is made of."""
        with translate_faults(f"reading {self.location} version {self.version}"):
            fragments = [fragment.metadata for fragment in self.dataset.get_fragments()]
        return frozenset(f"{self.location}/data/{file.path}" for f in fragments for file in f.files)


class ManifestStore:
    """Opens, creates and swaps manifests below one root."""

    def __init__(
        self,
        root: GraphRoot,
        options: dict[str, str],
        objects: ObjectStore,
        durability: Durability,
        session: lance.Session,
        files: DataFiles,
        digester: FileDigester,
    ) -> None:
        self._root = root
        self._options = options or None
        self._objects = objects
        self._durability = durability
        self._session = session
        self._files = files
        self._digester = digester

    def create(self, location: str, rows: pa.Table) -> ManifestVersion:
        """Create a manifest whose first version already holds a complete state; raises `CommitLost` when one exists.

        If the store's answer was lost, the store is read to see whether the commit was applied.
        """
        uri = self._root.join(location)
        fragments = self._first_fragments(location, uri, rows)
        names = [str(file.path) for fragment in fragments for file in fragment.files]
        schema = self._labelled(rows.schema, f"{location}/data/{names[0]}", 1)
        for attempt in range(_CREATE_ATTEMPTS):
            try:
                with translate_faults(f"creating {location}"):
                    created = self._create_first(location, uri, schema, fragments)
                break
            except StorageError as error:
                found = self._first_version(location)
                if found is not None and found.file in names:
                    created = found
                    break
                if found is not None:
                    raise CommitLost(f"creating {location} failed: another one is there") from error
                if self._root.is_local or attempt + 1 == _CREATE_ATTEMPTS:
                    raise
        files = [f"{location}/data/{name}" for name in names]
        self._durability.sync_files([*files, f"{location}/{version_file(created.version)}"])
        self._durability.sync_ancestors(location)
        return created

    def _first_fragments(self, location: str, uri: str, rows: pa.Table) -> list[FragmentMetadata]:
        try:
            with translate_faults(f"creating {location}"):
                written: list[FragmentMetadata] = write_fragments(
                    rows, uri, mode="create", enable_stable_row_ids=True, storage_options=self._options
                )
        except StorageError as error:
            if self._version_files(location):
                raise CommitLost(f"creating {location} failed: another one is there") from error
            raise
        return written

    def _create_first(
        self, location: str, uri: str, schema: pa.Schema, fragments: list[FragmentMetadata]
    ) -> ManifestVersion:
        # Lance's own "create" writes version 2 over a rival's version 1; this is strict, like every other swap.
        dataset = LanceDataset.commit(
            uri,
            LanceOperation.Overwrite(schema, fragments),
            read_version=0,
            max_retries=0,
            enable_stable_row_ids=True,
            storage_options=self._options,
        )
        return ManifestVersion(location, int(dataset.version), dataset, digester=self._digester)

    def _first_version(self, location: str) -> ManifestVersion | None:
        try:
            return self.at(location, 1)
        except VersionNotFound:
            return None

    def latest(self, location: str) -> ManifestVersion:
        """The newest version. One that was cut short was never acknowledged: it is passed over, with a warning."""
        try:
            with translate_faults(f"opening {location}"):
                dataset = self._open(location, None)
        except StorageError as error:
            return self._latest_intact(location, error)
        return ManifestVersion(location, int(dataset.version), dataset, digester=self._digester)

    def at(self, location: str, version: int) -> ManifestVersion:
        """One version by number."""
        if version < 1 or version >= 2**63:
            raise VersionNotFound(
                f"{location} has no version {version}", hint="`omnigraph commit list` shows the versions"
            )
        try:
            with translate_faults(f"opening {location} version {version}"):
                dataset = self._open(location, version)
        except MissingData as error:
            raise VersionNotFound(
                f"{location} has no version {version}", hint="`omnigraph commit list` shows the versions"
            ) from error
        return ManifestVersion(location, version, dataset, digester=self._digester)

    def has_version(self, location: str, version: int) -> bool:
        """Whether the file of a version exists: one cheap probe."""
        return self._objects.exists(f"{location}/{version_file(version)}")

    def identity(self, location: str, version: int) -> str | None:
        """A text that changes when the file of a version is replaced by another; None when it is gone. One probe."""
        return self._objects.identity(f"{location}/{version_file(version)}")

    def compare_and_swap(
        self, base: ManifestVersion, rows: pa.Table, flush_first: Sequence[str], needed: Sequence[str] = ()
    ) -> ManifestVersion:
        """Make `rows` version `base.version + 1`, or raise `CommitLost` and change nothing.

        `needed` are the files that the new state names for the first time: all of them have to be in the store.
        `flush_first` are those of them that are not known to be on disk yet.
        """
        with translate_faults(f"writing {base.location}"):
            fragment = self._files.write(base.dataset, base.location, rows)
        hit(Point.MANIFEST_WRITTEN)
        data = f"{base.location}/data/{data_file(fragment)}"
        schema = self._labelled(rows.schema, data, base.version + 1, base.path)
        self._require_in_store(base, [*needed, data])
        self._durability.sync_files([*flush_first, data])
        hit(Point.BEFORE_SWAP)
        self._require_in_store(base, [*needed, data])  # again, since flushing takes time
        record("manifest swap")
        with translate_faults(f"swapping {base.location}"):
            # max_retries=0 is what makes Overwrite strict: with retries a stale one would win.
            dataset = LanceDataset.commit(
                base.dataset,
                LanceOperation.Overwrite(schema, [fragment]),
                read_version=base.version,
                max_retries=0,
                storage_options=self._options,
            )
        hit(Point.SWAPPED)
        version = int(dataset.version)
        self._durability.sync_files((f"{base.location}/{version_file(version)}",))
        hit(Point.BEFORE_ACK)
        return ManifestVersion(base.location, version, dataset, digester=self._digester)

    def _require_in_store(self, base: ManifestVersion, needed: Sequence[str]) -> None:
        """Refuse a swap that would name files which are not in the store of the version it builds on.

        A base that is gone itself was collected, or the store is away: the check after the swap decides which.
        """
        missing = missing_files(self._root, [base.path, *needed])
        if missing and base.path not in missing:
            raise StagedDataGone(
                f"{missing[0]}, which this write has made, is not in {self._root.uri}: the store was moved or "
                "unmounted for a moment, or cleanup has collected what was staged too long ago",
                hint="nothing was published: repeat the write",
            )

    def _labelled(self, schema: pa.Schema, data: str, number: int, previous: str | None = None) -> pa.Schema:
        """The schema of a version with its number and the digests of its data file and of the previous version file."""
        if not self._digester.is_recording:
            return schema
        labels = {**(schema.metadata or {}), _DATA_DIGEST: str(self._digester.measure(data)), _NUMBER: str(number)}
        if previous is not None:
            with suppress(MissingData):  # a collector has just removed it: the swap decides
                labels[_PREVIOUS_DIGEST] = str(self._digester.measure(previous))
        return schema.with_metadata(labels)

    def _open(self, location: str, version: int | None) -> LanceDataset:
        record("manifest open")
        return lance.dataset(
            self._root.join(location),
            version=version,
            storage_options=self._options,
            session=self._session,
            block_size=_BLOCK_BYTES,
        )

    def _latest_intact(self, location: str, error: StorageError) -> ManifestVersion:
        self._refuse_foreign(location, error)
        versions = self._version_files(location)
        if not versions:
            if isinstance(error, MissingData):
                raise self._no_manifest(location) from error
            raise error
        newest, *older = versions
        if not older or not self._is_cut_short(newest):
            raise error
        number = 2**64 - 1 - int(older[0].path.rsplit("/", 1)[-1].removesuffix(".manifest"))
        warnings.warn(
            f"{newest.path} is cut short and was never acknowledged; reading version {number} instead. "
            "`omnigraph repair` quarantines the damaged file; writes are refused until then",
            RuntimeWarning,
            stacklevel=2,
        )
        return replace(self.at(location, number), damaged=newest.path)

    def damaged_newest(self, location: str) -> str | None:
        """The newest version file if it was cut short and an older one exists to fall back on."""
        versions = self._version_files(location)
        return versions[0].path if len(versions) > 1 and self._is_cut_short(versions[0]) else None

    def _version_files(self, location: str) -> list[ObjectInfo]:
        """Version files of a manifest, newest first (their names sort that way)."""
        return [i for i in self._objects.list(f"{location}/_versions") if _VERSION_FILE.search(i.path)]

    def _is_cut_short(self, info: ObjectInfo) -> bool:
        if info.size == 0:
            return True
        body = self._objects.get(info.path)
        return body is not None and not body.endswith(_MAGIC)

    def _refuse_foreign(self, location: str, error: StorageError) -> None:
        """Main's manifest is missing or unreadable: raise `FormatUnsupported` if the root is another omnigraph's."""
        if location == MANIFEST:
            for name in FOREIGN:
                if self._objects.exists(name) or self._objects.list(f"{name}/"):
                    raise FormatUnsupported(
                        f"{self._root.uri} holds {name}: a layout of another omnigraph", hint=REBUILD
                    ) from error

    def _no_manifest(self, location: str) -> StorageError | GraphNotFound:
        uri = self._root.uri
        if location == MANIFEST and not self._objects.list("nodes") and not self._objects.list("__schema"):
            return GraphNotFound(
                f"there is no graph at {uri}", hint="create one with `omnigraph init`, or check the path"
            )
        if location != MANIFEST:  # a branch that was deleted and collected, if its claim is gone as well
            return MissingData(f"{location} is gone", hint="the branch was deleted, or its files were lost")
        return CorruptGraph(
            f"{uri} holds tables but {location} is gone",
            hint=f"restore {location} from a copy of the store; nothing was changed",
        )
