"""Decides from the log of operations and from the store whether anything went wrong.

Commit ids tie operations to versions. Commits are replayed by the model from the first one on; wherever a version is
still there, it is read and has to hold the same rows. Every operation that was acknowledged has to be in the lineage of
its branch; every one that failed has to be nowhere; every read has to have seen what the model has at its commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from omnigraph.api.commits import LOGICAL, GraphCommit
from omnigraph.versioning.commits import parse_commit
from tests.history import model
from tests.history.log import FAIL, OK, Operation
from tests.history.model import EVENT, Rows, State, digest
from tests.history.process import COMMITS

CONFLICTS = frozenset({
    "expected_version_mismatch", "schema_moved", "drop_not_allowed", "key_conflict", "constraint_conflict",
    "endpoint_conflict", "precondition_failed", "publish_contention", "name_taken", "branch_gone",
    "branch_in_use", "merge_conflict", "missing_endpoint", "plan_expired",
})  # fmt: skip
MISSING = frozenset({
    "not_found", "branch_not_found", "tag_not_found", "commit_not_found", "version_not_found", "type_not_found",
    "historical_version_reclaimed",
})  # fmt: skip
EXPECTED = CONFLICTS | MISSING | {"outcome_unknown"}
EXPECTED_OF_FAULTS = frozenset({"store_unavailable", "storage_error"})
EXPECTED_OF_MOVES = EXPECTED_OF_FAULTS | {
    "store_replaced", "staged_data_gone", "graph_not_found", "missing_data", "corrupt_graph",
}  # fmt: skip


@dataclass(frozen=True)
class Away:
    """A time in which the store was somewhere else. `copied`: when the copy was taken that is there since."""

    begun: float
    ended: float
    copied: float | None = None


@dataclass
class Store:
    """What the store says at the end. `read` gives the rows of a retained version, None for a reclaimed one."""

    commits: dict[str, GraphCommit]
    lineages: dict[str | None, set[str]]
    """Commits by incarnation of a branch that is there."""
    names: dict[str, str | None]
    """Incarnations by name of a branch that is there."""
    tags: dict[str, str]
    """Tag ids by name."""
    read: Callable[[GraphCommit], tuple[State, list[str]] | None]


@dataclass
class Report:
    """What was looked at, and what was found wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def find(self, what: str, about: object = "") -> None:
        self.findings.append(f"{what}: {about}"[:1500])


class Checker:
    """One check of one history."""

    def __init__(
        self, operations: Iterable[Operation], store: Store, aways: Iterable[Away] = (), *, has_faults: bool = False
    ) -> None:
        self.operations = list(operations)
        self.store = store
        self.aways = list(aways)
        self.has_faults = has_faults
        self.report = Report()
        self.states: dict[str, State] = {}
        self.of_commit: dict[str, list[Operation]] = {}
        self.open_events: dict[str, Operation] = {}
        self._ancestors: dict[str, frozenset[str]] = {}
        self._digests: dict[int, tuple[Rows, str]] = {}

    def run(self) -> Report:
        """Every check, in the order in which one relies on the other."""
        self._check_errors()
        self._attribute()
        self._replay()
        self._check_acknowledged()
        self._check_names()
        self._check_reads()
        self.report.counts["operations"] = len(self.operations)
        self.report.counts.update(f"outcome {each.outcome}" for each in self.operations)
        self.report.counts.update(f"ok {each.do}" for each in self.operations if each.outcome == OK)
        return self.report

    # --- errors ---------------------------------------------------------------------------------------------------

    def _check_errors(self) -> None:
        for each in self.operations:
            code = each.result.get("error")
            if code is None:
                continue
            self.report.counts[f"error {code}"] += 1
            expected = EXPECTED | (EXPECTED_OF_FAULTS if self.has_faults else frozenset())
            if self._overlaps_away(each):
                expected |= EXPECTED_OF_MOVES
            if any(each.ended > away.begun for away in self.aways):  # a handle may have seen what was written meanwhile
                expected |= {"store_replaced"}
            if each.do == "tag" and self._overlaps_untag(each):  # it was deleted before its creator looked for it
                expected |= {"store_replaced"}
            if code not in expected:
                self.report.find(f"unexpected error {code}", each)

    def _overlaps_untag(self, tag: Operation) -> bool:
        rivals = (o for o in self.operations if o.do == "untag" and o.arguments["name"] == tag.arguments["name"])
        return any(rival.invoked < tag.ended and rival.ended > tag.invoked for rival in rivals)

    def _overlaps_away(self, each: Operation) -> bool:
        return any(each.invoked < away.ended and each.ended > away.begun for away in self.aways)

    def _is_forgotten(self, each: Operation) -> bool:
        """Whether a copy that was taken before it ended was put in place after it began."""
        return any(
            away.copied is not None and each.ended > away.copied and each.invoked < away.ended for away in self.aways
        )

    # --- which operation is in which commit -----------------------------------------------------------------------

    def _attribute(self) -> None:
        by_op = {each.op: each for each in self.operations}
        tagged: dict[str, str] = {}
        for commit_id, commit in self.store.commits.items():
            each = by_op.get(commit.message or "")
            if each is None:
                continue
            if each.op in tagged:
                self.report.find("duplicated write: one operation in two commits", f"{tagged[each.op]} {commit} {each}")
            tagged[each.op] = commit_id
            self._tie(each, commit_id)
        for each in self.operations:
            if each.do not in COMMITS or each.op in tagged:
                continue
            commit = self.store.commits.get(each.commit or "")
            if commit is not None and each.may_have_happened:
                if "message" in each.arguments:
                    self.report.find("acknowledged with the commit of another operation", f"{commit} {each}")
                self._tie(each, commit.graph_commit_id)
            elif each.may_have_happened and each.commit is None and each.outcome != OK and _is_event(each):
                self.open_events[each.op] = each

    def _tie(self, each: Operation, commit_id: str) -> None:
        self.of_commit.setdefault(commit_id, []).append(each)
        if each.outcome == FAIL:
            self.report.find("failed and is visible", f"{self.store.commits[commit_id]} {each}")
        if each.outcome == OK and each.commit != commit_id:
            self.report.find("acknowledged with another commit than the one it is in", f"{commit_id} {each}")

    # --- replay ---------------------------------------------------------------------------------------------------

    def _replay(self) -> None:
        for commit in _oldest_first(self.store.commits):
            state = self._state_after(commit)
            held = self.store.read(commit)
            if held is None:
                self.report.counts["versions reclaimed"] += 1
            else:
                self.report.counts["versions checked"] += 1
                state = self._compare(commit, state, *held)
            self.states[commit.graph_commit_id] = state

    def _state_after(self, commit: GraphCommit) -> State:
        if commit.parent_commit_id is None:
            return model.empty_state()
        state = self.states[commit.parent_commit_id]
        operations = self.of_commit.get(commit.graph_commit_id, [])
        if commit.op_class != LOGICAL:
            if operations:
                self.report.find("maintenance holds a write", f"{commit} {operations}")
            return state
        if not operations and commit.kind != "load" and commit.kind != "mutate":
            self.report.find("a commit of nobody", commit)
        for each in operations:
            self._check_expected_head(commit, each)
            state = self._merged(commit, each) if each.do == "merge" else model.apply(state, each.arguments)
        return state

    def _check_expected_head(self, commit: GraphCommit, each: Operation) -> None:
        expected, parent = each.result.get("expected"), commit.parent_commit_id
        if expected is None:
            return
        while parent is not None and parent != expected and self.store.commits[parent].op_class != LOGICAL:
            parent = self.store.commits[parent].parent_commit_id
        if parent != expected:
            self.report.find("lost update: the head was not the expected one", f"{commit} {each}")

    def _merged(self, commit: GraphCommit, each: Operation) -> State:
        parent, merged = commit.parent_commit_id, commit.merged_parent_commit_id
        if parent is None or merged is None:
            self.report.find("a merge without two parents", f"{commit} {each}")
            return self.states[parent or ""]
        common = self._ancestry(parent) & self._ancestry(merged)
        beaten = {older for each_id in common for older in self._ancestry(each_id) if older != each_id}
        candidates = [self.store.commits[each_id] for each_id in common - beaten]
        base = max(candidates, key=lambda c: (c.manifest_version, c.created_at, c.graph_commit_id)).graph_commit_id
        self.report.counts["merges with several bases"] += len(candidates) > 1
        # Another merge may have come between the heads that this one read and its commit: its base is an older one.
        if each.result.get("base", base) not in common:
            self.report.find("merged from a base that is not an ancestor of both", f"{commit} {each}")
        strategy = each.arguments["strategy"]
        ours, theirs = self.states[parent], self.states[merged]
        try:
            state, conflicts = model.merge(self.states[base], ours, theirs, strategy)
        except model.merge_model.Clash:
            self.report.find("merged although the schemas exclude each other", f"{commit} {each}")
            return ours
        if conflicts and strategy is None:
            self.report.find(f"merged in spite of {sorted(conflicts)}", f"{commit} {each}")
        return state

    def _ancestry(self, commit_id: str) -> frozenset[str]:
        """A commit and all before it."""
        if commit_id not in self._ancestors:
            found, waiting = set(), [commit_id]
            while waiting:
                each = waiting.pop()
                if each not in found:
                    found.add(each)
                    commit = self.store.commits[each]
                    waiting += [p for p in (commit.parent_commit_id, commit.merged_parent_commit_id) if p is not None]
            self._ancestors[commit_id] = frozenset(found)
        return self._ancestors[commit_id]

    def _compare(self, commit: GraphCommit, state: State, held: State, twice: list[str]) -> State:
        """The rows of a version against the model's; from here on the store's own are the ones to go on with."""
        where = f"{commit.manifest_branch} version {commit.manifest_version} ({commit.kind} {commit.graph_commit_id})"
        if twice:
            self.report.find("duplicated write: a row is there twice", f"{where}: {twice[:5]}")
        if held.keys() != state.keys():
            self.report.find("other types than the model", f"{where}: {sorted(held.keys() ^ state.keys())}")
        for key in held.keys() & state.keys():
            if held[key] != state[key]:
                state = {**state, key: self._explain(where, key, state[key], held[key])}
        return held

    def _explain(self, where: str, table_key: str, expected: Rows, held: Rows) -> Rows:
        """Rows that nobody has acknowledged may be there if their writer was killed or told that nobody knows."""
        wrong = {key for key in expected.keys() | held.keys() if expected.get(key) != held.get(key)}
        if table_key == EVENT:
            opened = {key for key in wrong if key not in expected and held[key]["op"] in self.open_events}
            for key in opened:
                self.report.counts["unknown events found"] += key.endswith("#0")
            wrong -= opened
        if wrong:
            shown = [(key, expected.get(key), held.get(key)) for key in sorted(wrong)[:4]]
            self.report.find("wrong rows", f"{where} {table_key}: {len(wrong)}, (key, model, store) {shown}")
        return held

    # --- acknowledgements -----------------------------------------------------------------------------------------

    def _check_acknowledged(self) -> None:
        for each in self.operations:
            if each.outcome != OK or each.do not in COMMITS or each.commit is None:
                continue
            if self._is_forgotten(each):
                self.report.counts["acknowledged and forgotten by a restore"] += 1
                continue
            line = parse_commit(each.result["line"])
            lineage = self.store.lineages.get(line.native_branch)
            if lineage is not None:
                self.report.counts["acknowledged and checked"] += 1
                if line.graph_commit_id not in lineage:
                    self.report.find("lost acknowledgement", each)
            elif self._explains_deletion(line.manifest_branch, each):
                self.report.counts["acknowledged on a deleted branch"] += 1
            else:
                self.report.find("lost branch with an acknowledged write", each)

    def _explains_deletion(self, name: str, since: Operation) -> bool:
        """Whether somebody may have deleted a branch, or a copy without it was restored."""
        return any(
            each.ended > since.invoked and each.may_have_happened and _deletes(each) == name for each in self.operations
        ) or any(away.copied is not None and away.ended > since.invoked for away in self.aways)

    def _check_names(self) -> None:
        live = set(self.store.names.values())
        for each in self.operations:
            if each.outcome != OK or self._is_forgotten(each):
                continue
            if each.do == "branch":
                deleted = self._certainly_deleted(each)
                if each.result["native"] in live:
                    if deleted is not None:
                        self.report.find("deleted and there", f"{deleted} {each}")
                elif not self._explains_deletion(each.arguments["name"], each):
                    self.report.find("lost branch", each)
            elif each.do == "tag" and self.store.tags.get(each.arguments["name"]) != each.result["tag"]:
                removed = (
                    o for o in self.operations if o.do == "untag" and o.arguments["name"] == each.arguments["name"]
                )
                if not any(o.ended > each.invoked and o.may_have_happened for o in removed):
                    self.report.find("lost tag", each)

    def _certainly_deleted(self, created: Operation) -> Operation | None:
        name = created.arguments["name"]
        for each in self.operations:
            is_after = each.invoked > created.ended and each.outcome == OK and not self._is_forgotten(each)
            if is_after and each.do == "unbranch" and each.arguments["name"] == name:
                return each
        return None

    # --- reads ----------------------------------------------------------------------------------------------------

    def _check_reads(self) -> None:
        newest: dict[str | None, list[tuple[float, int]]] = {}
        for each in self.operations:
            if each.outcome == OK and each.do in COMMITS and each.commit and not self._is_forgotten(each):
                line = parse_commit(each.result["line"])
                newest.setdefault(line.native_branch, []).append((each.ended, line.manifest_version))
        for each in self.operations:
            if each.outcome == OK and each.do == "read" and not self._is_forgotten(each):
                self._check_rows_read(each)
                if each.arguments.get("at") == each.result["branch"]:
                    known = [
                        version for ended, version in newest.get(each.result["native"], ()) if ended < each.invoked
                    ]
                    if max(known, default=0) > each.result["version"]:
                        self.report.find(f"stale read: version {max(known)} was acknowledged before", each)

    def _check_rows_read(self, each: Operation) -> None:
        state = self.states.get(each.result["head"])
        if state is None:
            self.report.counts["reads of commits that are gone"] += 1
            return
        commit = self.store.commits.get(each.result["head"])
        line = None if commit is None else (commit.native_branch, commit.manifest_version)
        moved = line is not None and line[0] == each.result["native"] and line[1] != each.result["version"]
        if moved and any(away.copied is not None and each.invoked < away.ended for away in self.aways):
            # A copy that was restored later held the intent of the commit, and recovery has published it there again.
            self.report.counts["reads of a line that a restore replaced"] += 1
            return
        wrong = [key for key, seen in each.result["digests"].items() if self._digest(state.get(key)) != seen]
        if wrong == [EVENT] and self.open_events:
            self.report.counts["reads beside unknown events"] += 1
        elif wrong or state.keys() != each.result["digests"].keys():
            self.report.find(f"wrong read of {wrong or 'types'}", each)
        else:
            self.report.counts["reads checked"] += 1

    def _digest(self, rows: Rows | None) -> str | None:
        if rows is None:
            return None
        if id(rows) not in self._digests:
            self._digests[id(rows)] = (rows, digest(rows))
        return self._digests[id(rows)][1]


def _deletes(each: Operation) -> str | None:
    """The branch that an operation deletes, if it does."""
    if each.do == "unbranch":
        return str(each.arguments["name"])
    if each.do == "merge" and each.arguments["delete_branch"]:
        return str(each.arguments["source"])
    return None


def _is_event(each: Operation) -> bool:
    return "message" not in each.arguments and each.do in ("load", "mutate")


def _oldest_first(commits: dict[str, GraphCommit]) -> Iterable[GraphCommit]:
    """Commits after all their parents."""
    done: set[str] = set()
    for start in commits.values():
        waiting = [start]
        while waiting:
            commit = waiting[-1]
            parents = (commit.parent_commit_id, commit.merged_parent_commit_id)
            missing = [commits[p] for p in parents if p is not None and p not in done]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if commit.graph_commit_id not in done:
                done.add(commit.graph_commit_id)
                yield commit
