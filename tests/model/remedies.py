"""What people do about an error: what its own message names, and nothing else.

Each error of ``errors.py`` that can stop a pipeline leads to a word in the next run's conf, or to something
done by hand.
"""

from __future__ import annotations

from typing import Any

from airflow_kafka_offsets import errors
from tests.model.world import Run, World


def words_for(world: World, run: Run, error: Exception) -> dict[str, Any]:
    """The words of the next run's conf; empty where it needs none."""
    chosen = world.choices[run.pipeline]
    match error:
        case errors.GroupMoved() if run.ask.get("group_moved") == "adopt-group":  # a committed batch adopts nothing
            word, value = "group_moved", "keep-checkpoint"
        case errors.GroupMoved() | errors.StoreBehindGroup():
            word, value = "group_moved", chosen["group_moved"]
        case errors.ClusterChanged():
            word, value = "cluster_changed", chosen["cluster_changed"]
        case errors.DataLoss() if "commit offsets of this log" in str(error):
            return {"cluster_changed": "earliest"}  # the group's offsets are of another log: nothing adopts them
        case errors.DataLoss() if "its id is" in str(error) and '"topic_recreated": "earliest"' in str(error):
            return {"topic_recreated": "earliest"}
        case errors.DataLoss() if "adopt-group would replace" in str(error):
            word, value = "group_moved", "keep-checkpoint"
        case errors.DataLoss():
            word, value = "data_loss", "advance"
        case errors.TopicRecreated():
            word, value = "topic_recreated", "earliest"
        case errors.TopicVanished():
            word, value = "topic_vanished", "drop"
        case errors.AnotherAirflow():
            word, value = "another_airflow", "take-over"
        case errors.WorkStoreLost():
            world.restarts += 1
            assert '"restart": true' in str(error)
            return {"restart": f"after a loss, {world.restarts}"}
        case errors.InvalidRequest() if '"output_changed": "accept"' in str(error):
            return {"output_changed": "accept"} if chosen["output_changed"] == "accept" else {}
        case errors.ReadNotVerified() if run.handed and not run.handed.splits:
            assert '"redo": true' in str(error)
            return {"redo": True}
        case _:
            return {}
    named = word in str(error) and f'"{value}"' in str(error)
    return {word: value} if named else {}


def act(world: World, run: Run, error: Exception) -> None:
    """What is done by hand."""
    match error:
        case errors.UnknownOutput(keys=keys):
            world.remove_unknown(run, list(keys))
        case errors.DataLoss() if "Put the path back" in str(error):
            world.edits[run.pipeline] += 1
        case errors.InvalidRequest() if "The DAG's output is" in str(error):
            put_back = world.choices[run.pipeline]["output_changed"] != "accept"
            if put_back or '"output_changed": "accept"' not in str(error):
                world.edits[run.pipeline] += 1
        case errors.AnotherPipeline():
            world.modes[run.pipeline]["group_id"] = f"{world.modes[run.pipeline]['group_id']}-{run.pipeline}"
        case errors.GroupActive():
            world.members_leave()
