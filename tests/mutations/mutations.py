"""One-line patches, each of which breaks one rule. A test that claims the rule must turn red.

The rules A to N are those of docs/rules.toml, and their tests are found by the ids that they carry. those of docs/log.md
are in ``house``, and name their tests.
"""

# ruff: noqa: E501 - what is searched for is as long as the lines of the code are

from __future__ import annotations

from tests.mutations.house import HOUSE
from tests.mutations.patch import Mutation as Mutation  # tests/model/broken.py takes it from here

RESOLVE = "offsets/plan/resolve.py"
POSITION = "offsets/plan/position.py"
SPLITS = "offsets/plan/splits.py"
DISCOVERY = "offsets/plan/discovery.py"
PLAN = "offsets/plan/plan.py"
BOUNDS = "offsets/request/bounds.py"
TIMES = "offsets/request/times.py"
MAPS = "offsets/request/offset_maps.py"
POLICIES = "offsets/request/policies.py"
PARSE = "offsets/request/parse.py"
SCOPE = "offsets/request/subscription.py"
PARAMETERS = "offsets/request/parameters.py"
DRAFT = "pipeline/draft.py"
PLANNING = "pipeline/plan.py"
COMMIT = "pipeline/commit.py"
GROUP = "pipeline/group.py"
REQUEST = "pipeline/request.py"
CONNECTION = "broker/connection.py"
CONFIG = "broker/config.py"
COMPLETE = "offsets/window/complete.py"
LOG, PREVIEW = "offsets/batch/log.py", "pipeline/preview.py"

RULES = (
    # A: the five startup modes
    Mutation("A1", PARAMETERS, '        "group-offsets",\n        START,', '        "earliest-offset",\n        START,'),
    Mutation("A1", RESOLVE, "case None:  # Kafka's own default, latest, would skip records in silence (A1)\n            raise Refusal(",
             "case None:\n            return Resolved(snapshot.end_offset, reason, skipped=waiting)\n            raise Refusal("),
    Mutation("A2", RESOLVE, 'return Resolved(snapshot.log_start_offset, "earliest → log start")', 'return Resolved(0, "earliest → log start")'),
    Mutation("A3", RESOLVE, 'return Resolved(snapshot.end_offset, "latest → end", skipped=skipped)',
             'return Resolved(snapshot.high_watermark, "latest → end", skipped=skipped)'),
    Mutation("A3", RESOLVE, 'return Resolved(snapshot.end_offset, "latest → end", skipped=skipped)',
             'return Resolved(snapshot.end_offset, "latest → end", skipped=0)'),
    Mutation("A4", DRAFT, "return cluster.offsets_for_times({tp: mode.of(tp.topic) for tp in partitions}",
             "return cluster.offsets_for_times({tp: mode.of(tp.topic) for tp in partitions[:1]}"),
    Mutation("A5", RESOLVE, 'return Known(commit.offset, "committed", commit.leader_epoch)', "return NeedsReset(NO_COMMIT)"),
    Mutation("A6", RESOLVE, 'return Known(offsets[tp], "specific offset")', 'return Known(offsets[tp] + 1, "specific offset")'),
    Mutation("A7", BOUNDS, "if value is not None and mode != owner:", "if False:"),
    Mutation("A8", BOUNDS, '{self.problems.named(parameter)} is missing and {error}."', '{self.problems.named(parameter)} is odd and {error}."'),
    Mutation("A9", MAPS, '    -3: "committed",\n', ""),
    Mutation("A10", RESOLVE, 'return Resolved(snapshot.log_start_offset, "earliest → log start")',
             'return Resolved(snapshot.log_start_offset or snapshot.high_watermark + 1, "earliest → log start")'),
    Mutation("A11", RESOLVE, 'return Resolved(snapshot.log_start_offset, "earliest → log start")',
             'return Resolved(min(snapshot.log_start_offset, 9), "earliest → log start")'),
    # B: timestamps
    Mutation("B1", TIMES, '    if milliseconds < 0:\n        raise ValueError(f"is {value!r}, before',
             '    if milliseconds < -10:\n        raise ValueError(f"is {value!r}, before'),
    Mutation("B2", BOUNDS, "if moment > self.now_ms}", "if moment >= self.now_ms}"),
    Mutation("B2", BOUNDS, "if moment > self.now_ms}", "if moment > self.now_ms + 1}"),
    Mutation("B3", TIMES, '    if milliseconds < 0:\n        raise ValueError(f"is {value!r}, before',
             '    if milliseconds <= 0:\n        raise ValueError(f"is {value!r}, before'),
    Mutation("B4", RESOLVE, "offset = facts.start_times.get(tp)", "offset = facts.end_times.get(tp)"),
    Mutation("B5", DRAFT, "{tp: mode.of(tp.topic) for tp in partitions}", "{tp: mode.of(tp.topic) // 1000 * 1000 for tp in partitions}"),
    Mutation("B6", RESOLVE, "start = offset if request.window else min(offset, snapshot.end_offset)", "start = offset"),
    Mutation("B6", RESOLVE, "start = offset if request.window else min(offset, snapshot.end_offset)", "start = min(offset, snapshot.end_offset)"),
    Mutation("B7", DRAFT, "{tp: mode.of(tp.topic) for tp in partitions}", "{tp: mode.of(tp.topic) + 10_000 for tp in partitions}"),
    Mutation("B8", RESOLVE, "else min(offset, snapshot.end_offset)\n            return Resolved(start, f",
             "else min(offset, snapshot.end_offset)\n            return Resolved(start + 1, f"),
    Mutation("B9", RESOLVE, "if offset is None:\n                return Resolved(", "if True:\n                return Resolved("),
    Mutation("B10", TIMES, "return 0 < timestamp_ms < SECONDS_SUSPECTED_BELOW_MS", "return False"),
    Mutation("B11", RESOLVE, "    if position is None:  # Flink's F3 and F4", "    if True:  # Flink's F3 and F4"),
    Mutation("B12", DRAFT, "for tp in partitions}, request.scope.isolation_level)", 'for tp in partitions}, "read_uncommitted")'),
    Mutation("B13", RESOLVE, "else min(offset, snapshot.end_offset)\n            return",
             "else min(offset, snapshot.end_offset - 2)\n            return"),
    Mutation("B14", RESOLVE, 'return Resolved(snapshot.end_offset, f"no record at or after',
             'return Resolved(snapshot.log_start_offset, f"no record at or after'),
    Mutation("B15", CONNECTION, "    KafkaError.OFFSET_NOT_AVAILABLE,\n", ""),
    Mutation("B16", PLANNING, '        if records.gone and not records.another_log and request.policies.data_loss == "fail":\n', "        if False:\n"),
    # C: specific offsets
    Mutation("C1", DRAFT, "return tuple(sorted(named - set(partitions)))", "return ()"),
    Mutation("C2", RESOLVE, "            return _from_commit(request, facts, tp)\n        case GroupOffsets():",
             "            return NeedsReset(NO_COMMIT)\n        case GroupOffsets():"),
    Mutation("C3", RESOLVE, "f\"{tp}: {reason}, and auto_offset_reset is 'none'\"", 'f"{tp}: no start"'),
    Mutation("C4", RESOLVE, "            if tp in offsets:\n", '            if tp in offsets and request.auto_offset_reset != "none":\n'),
    Mutation("C5", RESOLVE, "    if facts.committed is None:", "    if False:"),
    Mutation("C6", RESOLVE, "if log_start <= offset <= snapshot.high_watermark:", "if log_start <= offset:"),
    Mutation("C7", RESOLVE, "if log_start <= offset <= snapshot.high_watermark:", "if offset <= snapshot.high_watermark:"),
    Mutation("C7", RESOLVE, "request, tp, snapshot, known, lost=log_start - offset,", "request, tp, snapshot, known, lost=0,"),
    Mutation("C8", RESOLVE, "if log_start <= offset <= snapshot.high_watermark:", "if log_start <= offset < snapshot.high_watermark:"),
    Mutation("C9", RESOLVE, "            if tp in offsets:\n", "            if offsets.get(tp):\n"),
    Mutation("C10", MAPS, "    if number < 0:\n        meaning", "    if number < -100:\n        meaning"),
    Mutation("C11", MAPS, '    -3: "committed",\n', ""),
    Mutation("C12", RESOLVE, 'return Known(offsets[tp], "specific offset")', 'return Known(offsets[tp] // 2 * 2 + 2, "specific offset")'),
    Mutation("C13", MAPS, 'text.removesuffix(";").split(";")', 'text.split(";")'),
    Mutation("C14", RESOLVE, "            return _from_commit(request, facts, tp)\n        case GroupOffsets():",
             "            return NeedsReset(NO_COMMIT)\n        case GroupOffsets():"),
    # D: group offsets and reset
    Mutation("D1", RESOLVE, 'return Known(commit.offset, "committed", commit.leader_epoch)',
             'return Known(commit.offset + 1, "committed", commit.leader_epoch)'),
    Mutation("D2", RESOLVE, "if log_start <= offset <= snapshot.high_watermark:", "if log_start <= offset < snapshot.high_watermark:"),
    Mutation("D3", RESOLVE, "    if commit is None:\n        return NeedsReset",
             "    if not commit or not commit.offset:\n        return NeedsReset"),
    Mutation("D4", RESOLVE, "case None:  # Kafka's own default, latest, would skip records in silence (A1)\n            raise Refusal(",
             "case None:\n            return Resolved(snapshot.log_start_offset, reason)\n            raise Refusal("),
    Mutation("D5", RESOLVE, 'return Resolved(snapshot.end_offset, f"{reason} → latest{whose}", skipped=waiting)',
             'return Resolved(snapshot.end_offset, f"{reason} → latest{whose}")'),
    Mutation("D5", RESOLVE, 'return Resolved(snapshot.log_start_offset, f"{reason} → earliest")', 'return Resolved(0, f"{reason} → earliest")'),
    Mutation("D6", PARSE, "if isinstance(mode, GroupOffsets | UntilGroupOffsets)", "if isinstance(mode, UntilLatest)"),
    Mutation("D7", SCOPE, "    if not value.strip():\n        raise ValueError(if_empty)", "    if False:\n        raise ValueError(if_empty)"),
    Mutation("D8", POLICIES, "_RESET_SYNONYMS.get(str(value).strip().lower())", '_RESET_SYNONYMS.get(str(value), "latest")'),
    Mutation("D9", REQUEST, 'if getattr(asked, name, "none") is None]', 'if hasattr(asked, name)]'),
    Mutation("D9", REQUEST, '"isolation_level": "isolation.level", "auto_offset_reset": "auto.offset.reset"}', '"isolation_level": "isolation.level"}'),
    Mutation("D10", POLICIES, "_RESET_SYNONYMS.get(str(value).strip().lower())", "_RESET_SYNONYMS.get(str(value).strip().lower(), str(value))"),
    Mutation("D11", DRAFT, 'if position is not None and recreated and request.policies.topic_recreated == "fail":', "if False:"),
    Mutation("D12", GROUP, "        for tp in partitions\n        if tp in position.offsets\n",
             "        for tp in held\n        if tp in position.offsets\n"),
    Mutation("D13", GROUP, 'if group.members or group.state not in ("Empty", "Dead"):', "if False:"),
    Mutation("D15", GROUP, "return cluster.committed(group_id, partitions), []",
             "return cluster.committed(group_id, [*partitions, TopicPartition('gone', 1)][1:]), []"),
    # E: out of range, truncation, epochs
    Mutation("E1", RESOLVE, "if log_start <= offset <= snapshot.high_watermark:", "if True:"),
    Mutation("E2", RESOLVE, 'case "reset" if reset in ("none", None):', 'case "reset" if False:'),
    Mutation("E3", RESOLVE, 'case "reset" if truncated and known.leader_epoch is not None:', 'case "reset" if truncated:'),
    Mutation("E4", RESOLVE, 'case "reset" if truncated and known.leader_epoch is not None:', 'case "reset" if False:'),
    Mutation("E5", RESOLVE, 'case "reset" if truncated and known.leader_epoch is not None:', 'case "reset" if False:'),
    Mutation("E6", RESOLVE, "and known.leader_epoch > snapshot.leader_epoch", "and known.leader_epoch < 0"),
    Mutation("E7", RESOLVE, "truncated = known.offset > end", "truncated = known.leader_epoch is not None"),
    Mutation("E8", RESOLVE, "        known.leader_epoch is not None\n        and snapshot", "        snapshot"),
    Mutation("E9", RESOLVE, 'return Known(offsets[tp], "specific offset")',
             'return Known(offsets[tp], "specific offset", ((facts.committed or {}).get(tp) or Known(0, "")).leader_epoch)'),
    Mutation("E11", RESOLVE, "log_start_offset=snapshot.log_start_offset,", "log_start_offset=snapshot.log_start_offset + 1,"),
    # F: position
    Mutation("F1", RESOLVE, "if facts.positions is not None and not request.window:", "if False:"),
    Mutation("F2", POSITION, "p.topic_partition: KeptOffset(p.end_offset,", "p.topic_partition: KeptOffset(p.end_offset + 1,"),
    Mutation("F3", RESOLVE, "    if position is None:  # Flink's F3 and F4", "    if position is None and False:  # Flink's F3 and F4"),
    Mutation("F3", RESOLVE, "lost = snapshot.log_start_offset if grown else 0", "lost = 0"),
    Mutation("F4", RESOLVE, "grown = tp.topic in facts.known_topics", "grown = True"),
    Mutation("F5", DRAFT, "if position is None or request.policies.filter_restored_partitions:", "if True:"),
    Mutation("F5", DRAFT, "if position is None or request.policies.filter_restored_partitions:", "if position is None:"),
    Mutation("F6", POSITION, "offsets = {**inherited, **offsets}", "offsets = dict(offsets)"),
    Mutation("F7", RESOLVE, "    return position\n\n\ndef _from_mode", "    return Resolved(position.offset, position.reason)\n\n\ndef _from_mode"),
    Mutation("F8", RESOLVE, "position=known.offset if known else start.offset", "position=known.offset if known else 0"),
    Mutation("F9", DRAFT, "    positions = None\n    if position is not None:\n", "    positions = None\n    if position is not None and position.offsets:\n"),
    Mutation("F10", SPLITS, "            for partition in plan.to_read():", "            for partition in plan.to_read()[1:]:"),
    Mutation("F11", LOG, "            return Do(take=log.holder != me)", "            return PlanNext()"),
    # G: discovery
    Mutation("G2", SCOPE, "return re.fullmatch(self.pattern, topic) is not None", "return re.match(self.pattern, topic) is not None"),
    Mutation("G4", SCOPE, "topic not in _INTERNAL_TOPICS and ", "", "internal"),
    Mutation("G5", DISCOVERY, 'if vanished and request.policies.topic_vanished == "fail":', "if False:"),
    Mutation("G6", SCOPE, "if len(given) != 1:", "if len(given) == 0:"),
    Mutation("G8", RESOLVE, "grown = tp.topic in facts.known_topics", "grown = False"),
    Mutation("G9", RESOLVE, "decide_each(sorted(facts.snapshots),", "decide_each(sorted(facts.snapshots, reverse=True),"),
    Mutation("G10", GROUP, "if plan.found.topic_ids.get(name) in (None, topic.topic_id)}", "}"),
    Mutation("G1", PLANNING, "description = asker.cluster.describe(request.scope.subscription)", "description = asker.cluster.discover(request.scope.subscription)"),
    Mutation("G3", PLANNING, "description = asker.cluster.describe(request.scope.subscription)", "description = asker.cluster.discover(request.scope.subscription)"),
    Mutation("G7", PLANNING, "description = asker.cluster.describe(request.scope.subscription)", "description = asker.cluster.discover(request.scope.subscription)"),
    Mutation("G11", PLANNING, "description = asker.cluster.describe(request.scope.subscription)", "description = asker.cluster.discover(request.scope.subscription)"),
    # H: splits
    Mutation("H1", SPLITS, "* 31) & 0x7FFFFFFF)", "* 31) & 0xFFFFFFFF)"),
    Mutation("H2", SPLITS, "return (start_index + tp.partition) % parallelism", "return start_index"),
    Mutation("H3", SPLITS, "for number, partitions in enumerate(plan.splits) if partitions}",
             "for number, partitions in enumerate(plan.splits)}"),
    Mutation("H4", SPLITS, "if parallelism < 1:", "if parallelism < 0:"),
    Mutation("H5", PARSE, "lambda: one_of(asked.split_by, get_args(SplitBy))", "lambda: asked.split_by"),
    Mutation("H6", RESOLVE, "decide_each(sorted(facts.snapshots),", "decide_each(facts.snapshots,"),
    # I: commit
    Mutation("I1", POLICIES, 'if isinstance(value, str) and "periodic" in value.lower():', "if False:"),
    Mutation("I1", PARSE, 'return self.policies.commit_mode == "on-success" and not self.window', "return not self.window"),
    Mutation("I2", CONFIG, '    "enable.auto.commit",\n', ""),
    Mutation("I3", POSITION, "KeptOffset(p.end_offset, p.leader_epoch)", "KeptOffset(p.end_offset - 1, p.leader_epoch)"),
    Mutation("I4", GROUP, "        if tp in position.offsets\n    }", "        if tp in position.offsets and position.offsets[tp].offset\n    }"),
    Mutation("I5", COMMIT, "        if batch.log.committed:\n            break\n", "        if batch.log.committed:\n            return CommitOutcome(batch, False, Mirrored())\n"),
    Mutation("I6", COMMIT, "    if require_report:\n", "    if False:\n"),
    Mutation("I7", PARSE, "and not self.window and self.scope.group_id is not None", "and not self.window"),
    Mutation("I8", GROUP, "            if not dry_run:\n                cluster.commit_offsets(", "            if False:\n                cluster.commit_offsets("),
    Mutation("I9", POSITION, "KeptOffset(p.end_offset, p.leader_epoch)", "KeptOffset(max(0, p.end_offset - 1), p.leader_epoch)"),
    Mutation("I10", GROUP, "text = signature.mark(batch.key if batch else None).encode()", 'text = ""'),
    Mutation("I10", GROUP, "position.offsets[tp].offset, position.offsets[tp].leader_epoch, text)", "position.offsets[tp].offset, None, text)"),
    Mutation("I11", COMMIT, "        _refuse_foreign(batch, cluster, me)\n", ""),
    # J: isolation
    Mutation("J1", SCOPE, '"read_uncommitted" if asked.isolation_level is None', '"read_committed" if asked.isolation_level is None'),
    Mutation("J1", REQUEST, '"isolation_level": "isolation.level", ', ""),
    Mutation("J2", DRAFT, "ends = cluster.end_offsets(partitions, isolation_level)", 'ends = cluster.end_offsets(partitions, "read_uncommitted")'),
    Mutation("J3", RESOLVE, '            return snapshot.end_offset, "latest"', '            return snapshot.end_offset - 1, "latest"'),
    Mutation("J4", RESOLVE, '            return snapshot.end_offset, "latest"',
             '            return max(start.offset, snapshot.end_offset - 3), "latest"'),
    Mutation("J5", DRAFT, "ends = cluster.end_offsets(partitions, isolation_level)", 'ends = cluster.end_offsets(partitions, "read_uncommitted")'),
    Mutation("J6", RESOLVE, "if log_start <= offset <= snapshot.high_watermark:", "if log_start <= offset <= snapshot.end_offset:"),
    Mutation("J7", RESOLVE, "if log_start <= offset <= snapshot.high_watermark:", "if log_start <= offset <= snapshot.end_offset:"),
    # K: where a plan ends
    Mutation("K1", RESOLVE, 'return _checked_end(tp, offsets[tp], "specific offset", start, snapshot), "specific offset"',
             'return _checked_end(tp, offsets[tp], "specific offset", start, snapshot) + 1, "specific offset"'),
    Mutation("K2", RESOLVE, '            return snapshot.end_offset, "latest"', '            return snapshot.end_offset - 1, "latest"'),
    Mutation("K3", COMPLETE, "return not self.waiting", "return True"),
    Mutation("K3", RESOLVE, "end = match_offset if request.window else min(match_offset, snapshot.end_offset)", "end = match_offset"),
    Mutation("K3", RESOLVE, "end = match_offset if request.window else min(match_offset, snapshot.end_offset)",
             "end = min(match_offset, snapshot.end_offset)"),
    Mutation("K4", RESOLVE, 'return _checked_end(tp, commit.offset, "committed", start, snapshot), "committed"',
             'return snapshot.end_offset, "committed"'),
    Mutation("K5", RESOLVE, "            if tp not in offsets:\n                raise Refusal(",
             "            if tp not in offsets:\n                return start.offset, ''\n                raise Refusal("),
    Mutation("K6", BOUNDS, "case UntilLatest.name:", "case UntilLatest.name | EarliestOffset.name:"),
    Mutation("K7", RESOLVE, "            if end < start.offset:\n                return start.offset,",
             "            if end < start.offset:\n                return start.offset + 1,"),
    Mutation("K8", RESOLVE, "    if end > snapshot.end_offset:\n", "    if end > snapshot.end_offset + 1:\n"),
    Mutation("K9", RESOLVE, "    if end < start.offset:\n        raise", "    if end < start.offset - 1:\n        raise"),
    Mutation("K10", RESOLVE, "            if tp not in offsets:\n                raise Refusal(",
             "            if not offsets.get(tp):\n                raise Refusal("),
    Mutation("K11", RESOLVE, "return Resolved(found.offset, found.reason + counted, lost, found.skipped)",
             "return Resolved(found.offset, found.reason + counted, 0, 0)"),
    Mutation("K12", RESOLVE, "    if end < start.offset:\n        raise", "    if False:\n        raise"),
    Mutation("K13", BOUNDS, "case UntilLatest.name:", 'case UntilLatest.name | "unbounded":'),
    Mutation("K14", BOUNDS, "case UntilLatest.name:", 'case UntilLatest.name | "unbounded":'),
    Mutation("K15", PLANNING, "    reason = _why_anew(asker, seen)\n    if reason is not None:\n        return _replan",
             "    reason = _why_anew(asker, seen) or 'again'\n    if reason is not None:\n        return _replan"),
    Mutation("K16", RESOLVE, 'return _checked_end(tp, offsets[tp], "specific offset", start, snapshot), "specific offset"',
             'return _checked_end(tp, offsets[tp] - 1, "specific offset", start, snapshot), "specific offset"'),
    Mutation("K17", PLANNING, "    reason = _why_anew(asker, seen)\n    if reason is not None:\n        return _replan",
             "    reason = _why_anew(asker, seen) or 'again'\n    if reason is not None:\n        return _replan"),
    Mutation("K18", RESOLVE, "    if kept > snapshot.high_watermark or tp in facts.cuts:\n", "    if False:\n"),
    # N: several clusters
    Mutation("N2", PLAN, "        plan.found.cluster_id,\n        plan.pipeline,\n", "        plan.pipeline,\n"),
    Mutation("N2", DRAFT, "if position is not None and position.cluster_id != description.cluster_id:", "if False:"),
    Mutation("N2", GROUP, "if description is None or description.cluster_id != plan.found.cluster_id:", "if description is None:"),
)  # fmt: skip

MUTATIONS = (*RULES, *HOUSE)

# Rules that no fast test can see broken, and why.
NO_MUTATION = {
    "D14": "the broker makes the reader wait (require_stable): only a real one shows it",
    "D16": "one request for both protocols: only a real broker shows it",
}
