"""The page of each error: what it means, how to look, and each way out.

The texts are here and nowhere else: ``kafka-offsets explain AKO-101`` prints one without a network, and ``make docs``
writes all of them to ``docs/errors``. Every class that has a code has a page; a test holds that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_offsets import errors
from airflow_kafka_offsets.errors import KafkaOffsetsError


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """What a person needs who has the message on the screen.

    :ivar meaning: what happened, what was not done because of it, and why it is refused.
    :ivar look: commands and places that show more.
    :ivar ways: each way out with its command, and at its end what it costs: ``Cost: …``.
    """

    meaning: str
    look: tuple[str, ...]
    ways: tuple[str, ...]


_SHOW = "`kafka-offsets show --pipeline-id PIPELINE` shows the newest batch and its log; `--history 10` the last ten."
_LAG = (
    "`kafka-offsets lag --kafka-config-id kafka_default --group-id GROUP` shows what the group holds in each "
    "partition, and who wrote it."
)
_PARTITIONS = (
    "`kafka-offsets partitions --kafka-config-id kafka_default --topics TOPIC` shows both ends of each partition's log."
)
_VERIFY = "`kafka-offsets verify --pipeline-id PIPELINE --batch NUMBER` shows each split and what speaks against it."
_HOW_TO_CLEAR = (
    "A task: in Airflow's grid, the task, *Clear*, with *Downstream*; or `airflow tasks clear DAG --task-regex TASK "
    "--downstream --start-date 2026-11-22 --end-date 2026-11-23`, with the days around the run's logical date.",
    "A whole run: in Airflow's grid, the run, *Clear*; or the same command without `--task-regex`.",
)
_PLAN = "`kafka-offsets plan`, with the DAG's parameters, shows what the next run would read. It writes nothing."


def _in_the_conf(words: str) -> str:
    """How a person tells one run what to do; the run does what the red one left."""
    return f"`airflow dags trigger DAG --conf '{{\"kafka_offsets\": {{{words}}}}}'`"


PAGES: Mapping[type[KafkaOffsetsError], ErrorPage] = {
    # ── the request ───────────────────────────────────────────────────────────────────────────────────────────────────
    errors.InvalidRequest: ErrorPage(
        "One or more parameters are wrong, or do not go together. The message names all of them, each with what to "
        "write instead. Nothing was asked of Kafka, nothing was written. A retry cannot help, so Airflow makes none.",
        (
            "Airflow's tab *Rendered Templates* shows what a template became.",
            _PLAN,
        ),
        (
            "Correct the parameter in the DAG, in the run's conf (`kafka_offsets`), or on the command line. "
            "Then clear the task. Cost: none.",
            "If the message names `auto.offset.reset`, `group.id` or `isolation.level`, the Kafka connection "
            "has it: correct it there, or give the parameter of that name. Cost: the connection's other users "
            "see the change.",
        ),
    ),
    # ── topics and records ────────────────────────────────────────────────────────────────────────────────────────────
    errors.TopicRecreated: ErrorPage(
        "The topic was deleted and created again under its old name. That is another log, with another id. The "
        "offsets that this pipeline has kept mean nothing in it: to go on from them would skip records.",
        (_PARTITIONS, _SHOW),
        (
            _in_the_conf('"on_recreated": "earliest"')
            + ' reads the new topic from its start. In the DAG, `on_recreated="earliest"` does so each time. '
            "Cost: what was unread of the old topic is gone with it.",
            "If the topic should not have been re-created: restore its records under another name, and point "
            "the pipeline at that one. Cost: a restore, and a change of the DAG.",
        ),
    ),
    errors.TopicVanished: ErrorPage(
        "`topic_pattern` does not find a topic any more that this pipeline has read. It was deleted, or this client "
        "may not see it any more. Without this refusal its unread records would be left out in silence.",
        (_PARTITIONS, _SHOW),
        (
            "If an ACL is missing, grant it: `kafka-acls --add --allow-principal User:NAME --operation Read "
            "--topic TOPIC`. Read implies Describe. Cost: none.",
            _in_the_conf('"on_topic_vanished": "ignore"')
            + " goes on without it. Its offsets are kept. Cost: its unread records are not read, unless it "
            "comes back.",
        ),
    ),
    errors.DataLoss: ErrorPage(
        "Records that the run has to read are not in Kafka any more: retention or DeleteRecords removed them, or the "
        "log was cut after an unclean leader election. The message says how many, for each partition, or from which "
        "offset on the log is another one. Or a window would end at a record that has a time in the future: the "
        "message names it, and docs/time.md says what then.",
        (_PARTITIONS, _SHOW),
        (
            _in_the_conf('"on_data_loss": "advance"')
            + " starts at the oldest record that is left; where the log was cut, at the first offset that differs. "
            "Cost: what is gone stays lost; what retention removed is counted as lost.",
            _in_the_conf('"on_data_loss": "reset"')
            + " does what `auto_offset_reset` says. Cost: with `latest` it also skips what is still there; "
            "both are counted.",
            "Restore the records first, from a mirror or a backup, and clear the task. Cost: a restore; "
            "retention goes on meanwhile.",
            "To keep it from coming back: a longer `retention.ms` (`kafka-configs --alter --topic TOPIC "
            "--add-config retention.ms=MS`), or more frequent runs. Cost: disk space of the brokers.",
        ),
    ),
    errors.ClusterChanged: ErrorPage(
        "The Kafka connection leads to another cluster than the one that this pipeline has read. Offsets of one "
        "cluster mean nothing in another. Nothing was planned.",
        ("Compare the connection's `bootstrap.servers` with those of before.", _SHOW),
        (
            "If the connection is wrong: correct its `bootstrap.servers`, and clear the task. Cost: none.",
            _in_the_conf('"on_cluster_changed": "earliest"')
            + " for a cluster that was replaced: reads the new one from its log starts. Cost: records that "
            "were copied there and had been read before are read again, and are in the output twice.",
            _in_the_conf('"on_cluster_changed": "adopt-group"')
            + " for a cluster that was mirrored: goes on at the group's offsets there, which mirroring tools "
            "translate. Cost: translated offsets are often a little behind; those records are read again.",
        ),
    ),
    errors.NothingToDiscover: ErrorPage(
        "No topic, or no partition, matches what the pipeline subscribes to. It does not exist, is spelled in another "
        "way, or this client may not see it.",
        (_PARTITIONS, "`kafka-topics --list` shows what this client may see, with the same credentials."),
        (
            "Correct the name or the pattern. A pattern has to match the whole name. Cost: none.",
            "Grant Describe: `kafka-acls --add --allow-principal User:NAME --operation Describe --topic "
            "TOPIC`. Cost: none.",
            "If it is created later: put a `PartitionDiscoverySensor` before the resolve task. "
            '`kafka_spark_batch` has one; `sensor={"timeout": 3600}` makes it wait longer. Cost: the run waits.',
        ),
    ),
    errors.EndBeforeStart: ErrorPage(
        "The end that was asked for lies below the start, or beyond the end of the log. A batch has to end at a record "
        "that exists, and not before it begins.",
        (_PARTITIONS, _PLAN),
        (
            "Correct `bounded_offsets`, or commit a later end where `bounded_mode` is `group-offsets`. Cost: none.",
            "If the end is still to come: run later. Cost: the run is late.",
        ),
    ),
    errors.WindowIncomplete: ErrorPage(
        "The run reads a window of time that has to be complete (`require_complete_window`), and in some partition "
        "records of before its end may still arrive.",
        (_PLAN, _PARTITIONS),
        (
            "Run later, or put a `WindowCompleteSensor` before the resolve task: it waits by the same rule. "
            "Cost: the run is late.",
            "If a partition is silent for good: lower `idle_timeout`. Cost: a producer that is later than that "
            "is in no window.",
            "Say `require_complete_window=False`: read what is there. Cost: what arrives later is in no "
            "window; the next plan counts it as `late`.",
        ),
    ),
    # ── the group ─────────────────────────────────────────────────────────────────────────────────────────────────────
    errors.NoCommittedOffset: ErrorPage(
        "The run has to start, or to end, at a committed offset, and the group has none there. Nobody has said what "
        "that means: Kafka's own default, `latest`, would skip all records that are there.",
        (_LAG, _PARTITIONS),
        (
            'Set `startup_mode="earliest-offset"` or `auto_offset_reset="earliest"`: read everything that is '
            "there. Cost: the first batch may be large; `max_records` limits it.",
            'Set `startup_mode="latest-offset"` or `auto_offset_reset="latest"`: begin with what comes. Cost: '
            "what is there is skipped; the plan counts it.",
            "Commit a start for the group, before the pipeline's first batch: `kafka-consumer-groups "
            "--reset-offsets --group GROUP --topic TOPIC --to-datetime TIME --execute`. Cost: what is before "
            "it is not read.",
        ),
    ),
    errors.GroupMoved: ErrorPage(
        "The consumer group holds offsets that this pipeline did not write. Somebody has reset the group, or another "
        "consumer uses it. They were not overwritten.",
        (_LAG, _SHOW),
        (
            _in_the_conf('"on_group_moved": "keep-checkpoint"')
            + " goes on from the pipeline's own position, and sets the group to it. Cost: none for this "
            "pipeline; whoever moved the group finds it moved back.",
            _in_the_conf('"on_group_moved": "adopt-group"')
            + " goes on from the group's offsets. Cost: if the group was set back, the records in between are "
            "read again, and readers of the output find them twice; if it was set forward, they are left "
            "out.",
            "To move a pipeline on purpose, the next time: `kafka-offsets reset` says before what would be read "
            "twice or left out. Cost: none.",
            "If another consumer uses the group: give one of the two a `group_id` of its own. Cost: the "
            "pipeline's default name has the group in it; give the old one as `pipeline_id`, so that its "
            "position stays.",
        ),
    ),
    errors.GroupActive: ErrorPage(
        "The consumer group has live members. Kafka refuses offsets from outside as long as they are there, and they "
        "would commit their own on top.",
        ("`kafka-consumer-groups --describe --group GROUP --members` shows who they are.", _LAG),
        (
            "Stop that consumer, then clear the task. Cost: that consumer stands still.",
            "If it is gone already: retry when its session is over (`session.timeout.ms`, 45 s by default). "
            "Until then a consumer that crashed is a member, and so is a static one (`group.instance.id`) that "
            "was stopped. Cost: a minute.",
            "Leave the group to its member: give the resolve task a `group_id` that nothing else uses and, in the same "
            "change, the `pipeline_id` that the message names; then clear the task. The unfinished batch goes over "
            "to the new group with its offsets. Without that `pipeline_id` it would be a new pipeline, which begins "
            "where `startup_mode` says. Cost: lag monitors have to watch another group.",
            "A commit task under live members is no error: it commits the batch in the log, publishes its asset "
            "event, warns, and succeeds. The next commit lets the group follow. Cost: lag monitors show an old "
            "position until then.",
        ),
    ),
    errors.AnotherPipeline: ErrorPage(
        "This pipeline has no batch yet, and the group carries the marks of another one. Usually that is the same "
        "pipeline under an earlier name: its default name is made of the group, the DAG and the task.",
        (_LAG, "`kafka-offsets pipelines` lists the pipelines that the work store has."),
        (
            "If the DAG or the task was renamed: give the resolve task the `pipeline_id` that the message "
            "names. Cost: none; the position goes on.",
            "If these are two pipelines: give this one a `group_id` of its own. Cost: its startup mode decides "
            "where it begins.",
        ),
    ),
    # ── the log of batches ────────────────────────────────────────────────────────────────────────────────────────────
    errors.NoPosition: ErrorPage(
        "The work store has no pipeline, no batch or no offset by that name.",
        ("`kafka-offsets pipelines` lists the pipelines that the work store has.", _SHOW),
        (
            "Correct the name. A resolve task inside of a task group is `group.resolve`. Cost: none.",
            "Name the work store that the pipeline uses: `kafka-offsets pipelines --work-store URI`. Cost: none.",
        ),
    ),
    errors.WorkStoreLost: ErrorPage(
        "Airflow knows that this task has succeeded before, and the work store knows no batch of it. Its position is "
        "lost, or it is looked for in the wrong place. To apply the startup mode again would skip records, or read "
        "them twice.",
        ("`kafka-offsets pipelines` lists what the work store has.", _LAG),
        (
            "If `pipeline_id` or `work_store` was changed: set it back, and clear the task. Cost: none.",
            "Restore the work store from a backup, and clear the task. Cost: batches since the backup are read "
            "again, if the group does not tell of them.",
            _in_the_conf('"restart": true')
            + " lets the startup mode decide once more. Cost: with `earliest-offset` records are read again "
            "under new keys, and are in the output twice; with `latest-offset` they are skipped.",
        ),
    ),
    errors.StoreBehindGroup: ErrorPage(
        "The consumer group carries the mark of a later batch than the work store has. The work store is an older "
        "copy: it was restored from a backup, or two stores are in use.",
        (_SHOW, _LAG),
        (
            "Restore the newest copy of the work store, and clear the task. Cost: none.",
            _in_the_conf('"on_group_moved": "adopt-group"')
            + " goes on from the group. Nothing is read twice. Cost: the log has no record of the batches in "
            "between.",
            _in_the_conf('"on_group_moved": "keep-checkpoint"')
            + " goes on from the work store. Cost: what the lost batches read is read again, and is in the "
            "output twice.",
        ),
    ),
    errors.AnotherAirflow: ErrorPage(
        "Another Airflow wrote this pipeline's log, or its marks in the group. Staging and production on one work "
        "store would do each other's batches. Nothing was planned or committed.",
        (_SHOW, "`[kafka_offsets] instance` names an Airflow; by default that is its base URL."),
        (
            "If both are in use: give this Airflow a work store and a `group_id` of its own. Cost: its startup "
            "mode decides where it begins.",
            _in_the_conf('"on_another_airflow": "take-over"')
            + " once: this Airflow takes the other's place. Cost: the other one is then refused.",
            "If only the base URL was changed: set `[kafka_offsets] instance` to the old name. Cost: none.",
        ),
    ),
    errors.OverlappingRun: ErrorPage(
        "Another run that is running works on the same batch. Only one run at a time does a batch. This task waits, "
        "without a worker slot, for as long as `overlap_timeout` says.",
        ("Open the run that the message names in Airflow.", _SHOW),
        (
            "Wait: it ends when that run ends. Cost: none; the wait takes no worker slot.",
            "If that run is stuck: mark it as failed in Airflow. The next try takes the batch over. Cost: what "
            "its Spark job has read is read again.",
        ),
    ),
    errors.BatchClosed: ErrorPage(
        "A word such as `re_plan` or `skip` names a batch that it cannot change. Only the newest batch of a log can be "
        "planned anew or skipped, and only as long as it is not committed. A window can be planned anew at any time.",
        (_SHOW,),
        (
            "To write a committed batch again: clear its run (`kafka-offsets redo --kafka-config-id "
            "kafka_default --pipeline-id PIPELINE --batch NUMBER` names it). Cost: Spark reads the batch "
            "again.",
            "To skip: name the key of the unfinished batch, which `kafka-offsets show --pipeline-id "
            "PIPELINE` prints. Cost: what is skipped is not read.",
        ),
    ),
    errors.ResetRefused: ErrorPage(
        "`kafka-offsets reset` was to set a pipeline's position. Either a batch of the pipeline is not committed yet, "
        "and only one is done at a time. Or the position would go back: records which are in the output already would "
        "be read and written again.",
        (_SHOW, "Leave out `--execute`: the command then shows each partition before and after."),
        (
            "An unfinished batch: let the next run finish it, or `kafka-offsets skip --pipeline-id PIPELINE "
            "--batch KEY --execute`, then reset. Cost: a skip leaves its records out.",
            "A batch without records, of a reset that was cut off: `kafka-offsets commit --kafka-config-id "
            "kafka_default --pipeline-id PIPELINE --batch KEY --execute`. Cost: none.",
            "Back over records: add `--allow-duplicates`. Cost: readers of the same output find these records "
            "twice; remove the old rows first, or give the pipeline another output.",
        ),
    ),
    errors.BatchGone: ErrorPage(
        "A run was cleared, and its batch is no longer in the work store. It was cleaned away, or passed by when the "
        "group was adopted. Its output was left as it is.",
        (_SHOW, "The message names the output that has its rows."),
        (
            "Mark the run as successful. Cost: none; its rows are there.",
            "To read the records once more: use a window, with both bounds as times, and an output of its own. "
            "Cost: they are in two outputs; only what Kafka still has is read.",
            "To keep it from coming back: a longer `--keep`, or `[kafka_offsets] retention_days`. Cost: a few "
            "small objects a batch.",
        ),
    ),
    errors.WindowOverlaps: ErrorPage(
        "Another window of the same pipeline has records of this one. Both outputs would hold them, and readers would "
        "count them twice.",
        ("`kafka-offsets show --pipeline-id PIPELINE --windows` lists the pipeline's windows.",),
        (
            "To write the other window again: clear its run. Cost: Spark reads it again.",
            "To do without it: `kafka-offsets skip --pipeline-id PIPELINE --window NAME --execute`, then "
            "clear its run. Cost: its rows are removed from the output.",
            "For a second purpose: use a `pipeline_id` and an output of its own. Cost: the records are in two outputs.",
            "If two runs planned in the same moment: try again. Cost: none.",
        ),
    ),
    errors.OutputTaken: ErrorPage(
        "The output belongs to another pipeline, or to the other kind of batches of this one (windows or the log). "
        "Its readers would find records twice.",
        ("`kafka-offsets release-output --output-name OUTPUT` shows whose it is. It is a dry run.",),
        (
            "Give this pipeline an output of its own. Cost: none.",
            "If the owner is no longer used: `kafka-offsets release-output --output-name OUTPUT --execute`. "
            "Cost: if it is used after all, its next run is refused; and records that both have read are there "
            "twice.",
        ),
    ),
    errors.UnknownOutput: ErrorPage(
        "The output holds batches that the log does not know, with this batch's number or a higher one. They were "
        "written under a log that is lost or older, and this batch may repeat their records. Nothing was written.",
        (_SHOW, "The message names their keys: rows with that `kafka_batch`."),
        (
            "Remove those rows from the output, then clear the Spark task. Cost: rows whose records Kafka no "
            "longer has are gone for good; keep a copy until the batch is committed.",
            "Give this pipeline another output. Cost: readers have two places.",
        ),
    ),
    # ── reads ─────────────────────────────────────────────────────────────────────────────────────────────────────────
    errors.ReadNotVerified: ErrorPage(
        "The Spark jobs' reports do not show that exactly this batch was read and written: a report is missing, or the "
        "rows are not the batch's records. Nothing was committed, so no record is lost.",
        (_VERIFY, "The Spark driver's log says how its job ended."),
        (
            "Clear the run from its Spark task on: Spark writes the batch again, into the same place. Cost: Spark "
            "reads the batch again.",
            "If rows are missing or doubled each time: the job drops or multiplies records, by a filter or a "
            "join. Persist what was read and return `batch.scanned`, or correct the job. Cost: a report of the "
            "scan does not say what was written.",
            "If the job makes no reports at all: `require_report=False`. Cost: the commit then trusts that "
            "Spark succeeded.",
        ),
    ),
    errors.PlanReplaced: ErrorPage(
        "A Spark job, or a commit, works by a plan that its batch does not have any more. The batch was planned anew "
        "meanwhile, by a person or because records were gone. The old plan read and committed nothing.",
        (_SHOW,),
        (
            "Clear the run's resolve task with what comes after it: Spark and commit then run with the batch's "
            "plan. Cost: Spark reads the batch again.",
        ),
    ),
    errors.LateAttempt: ErrorPage(
        "A Spark job finds that another attempt has taken its place at the same split. It was taken for dead, and was "
        "only slow. If it had not begun to write, there is nothing to do. If it had, the split counts as not verified.",
        (_VERIFY,),
        (
            "If nothing was written: do nothing. The newer attempt does the split. Cost: none.",
            "If the message says that rows of both may be there: clear the run from its Spark task on. Cost: "
            "Spark reads the batch again.",
        ),
    ),
    errors.FormerDriverRuns: ErrorPage(
        "The run has a new plan, and the Spark driver of its former plan is still running. It would overwrite what the "
        "new driver writes, so the new one was not started.",
        ("Open the driver that the message names in Spark's own UI.",),
        (
            "Let the task's retries wait until it has ended. Cost: the run is late.",
            "Kill that driver, then clear the Spark task. Cost: what it has read is read again.",
        ),
    ),
    # ── what does not answer ──────────────────────────────────────────────────────────────────────────────────────────
    errors.ClusterUnavailable: ErrorPage(
        "The Kafka cluster could not be asked: nobody answers at the address, a partition has no leader, or no answer "
        "came within the deadline. Nothing was written. If time may heal it, sensors wait and tasks are tried again.",
        (
            _PARTITIONS,
            "The message has the reason: what the client library says, what the listener at the address is (TLS or "
            "not, SASL or not, why its certificate is not trusted), or what `oauth_cb` said when it gave no token.",
        ),
        (
            "Check the address, `security.protocol` and the credentials. If the message says what to set them "
            "to, set them in the Kafka connection. Cost: none.",
            "If there was no token: see the token server's log. The callback is asked again for ten seconds, "
            "then the task is tried again. Cost: the run is late.",
            "If the token is not accepted: compare its issuer, audience and expiry, which the message has if this "
            "client sees the token, with the broker's settings `sasl.oauthbearer.expected.issuer` and "
            "`sasl.oauthbearer.expected.audience`. The broker's log says what is wrong. Cost: none.",
            'If the message begins with "Spark cannot ask", it is Spark\'s client that was not let in. It was '
            "given the Kafka connection of the resolve task, or what `kafka=` of the Spark task names. `unable "
            "to find valid certification path`: the CA is missing (`ssl.ca.location`). `Timed out waiting for "
            "a node assignment`: nobody answers, or the listener speaks TLS and `security.protocol` says "
            "otherwise. docs/secured-kafka.md has the settings. Cost: none.",
            "Check that the brokers are up, that every partition has a leader (`kafka-topics --describe "
            "--unavailable-partitions`), and that this machine reaches all of them (`advertised.listeners`), "
            "then clear the task. Cost: the run is late.",
        ),
    ),
    errors.NotAuthorized: ErrorPage(
        "The cluster answers, and does not let this client do what it asked for. The message names the right, and who "
        "lacks it: the user of SASL, the subject of the client's certificate, or the claim `sub` of its token. Brokers "
        "that map names (`ssl.principal.mapping.rules`) know it by another one; their authorizer's log says which.",
        ("`kafka-acls --list --principal User:NAME` shows the rights of a principal.",),
        (
            "Grant the right that the message names: `kafka-acls --add --allow-principal User:NAME --operation "
            "Describe --topic TOPIC`. Cost: none.",
            "If Spark lacks it: it needs Read on the topics and nothing on the group. Its principal is the one "
            "of the Kafka connection that `kafka=` of the Spark task names; by default that of the resolve "
            "task. Cost: none.",
            'If the group is not to be written: `commit_mode="checkpoint-only"` needs no right on it, unless '
            "the startup mode reads it. Cost: lag monitors see nothing.",
        ),
    ),
    errors.StoreUnavailable: ErrorPage(
        "The work store could not be read or written: no credentials, no such bucket, no route, a missing package, or "
        "a folder that this machine does not have.",
        ("`kafka-offsets pipelines --work-store URI`, on the same machine, asks the store the same way.",),
        (
            "Do what the message says: it names the object, and what the store has answered. Then clear the "
            "task. Cost: none.",
            "A local folder works on one machine: set `[kafka_offsets] work_store` to a place that all workers "
            "reach. Cost: copy the old folder there first, or the position is lost.",
        ),
    ),
    errors.StoreDamaged: ErrorPage(
        "An object of the work store is torn, altered, missing, or was written by a newer version. Each object ends in "
        "a digest, so this is never taken for a valid one.",
        ("The message names the object.", "`kafka-offsets pipelines` shows which pipelines can be read."),
        (
            "Restore the object, or the whole store, from a backup. Cost: batches since the backup are read "
            "again, if the group does not tell of them.",
            "If a newer version wrote it: run that version here too. Cost: none.",
        ),
    ),
}


def explained() -> list[type[KafkaOffsetsError]]:
    """Every class with a page, by its code."""
    return sorted(PAGES, key=lambda kind: kind.code)


def find_explained(asked: str) -> type[KafkaOffsetsError] | None:
    """The class of a code (``AKO-101``, ``101``) or of a name (``TopicRecreated``), in small letters or large ones."""
    wanted = asked.strip().lower()
    names = {name.lower(): kind for kind in PAGES for name in (kind.code, kind.code[4:], kind.__name__)}
    return names.get(wanted)


def first_sentence(kind: type[KafkaOffsetsError]) -> str:
    """What the error means, for a list of them."""
    return PAGES[kind].meaning.partition(". ")[0].rstrip(".") + "."


def page_of(kind: type[KafkaOffsetsError]) -> str:
    """The page, in Markdown that is readable as it stands; ends with a line end."""
    page = PAGES[kind]
    status = (
        f"Exit status {kind.exit_status}."
        if not kind.retriable
        else f"Exit status {kind.exit_status}. Another try may succeed."
    )
    parts = [
        f"# {kind.code} {kind.__name__}",
        f"{page.meaning} {status}",
        "## How to look",
        "\n".join(f"- {line}" for line in page.look),
        "## Ways out",
        "\n".join(f"- {line}" for line in page.ways),
    ]
    if any(re.search(r"\bclear (the|its)\b", way, re.IGNORECASE) for way in page.ways):
        parts += ["## How to clear", "\n".join(f"- {line}" for line in _HOW_TO_CLEAR)]
    return "\n\n".join(parts) + "\n"
