"""The parts of a Spark task by the driver's own clock, as a line of JSON.

Arguments: when it was submitted (seconds of the epoch), where to write, and then ``bare``, servers and topic; or the
batch's arguments.
"""

import json
import sys
import time
from itertools import pairwise

PYTHON_RUNS = time.time()


def main(began: str, output: str, *words: str) -> None:
    moments = [("", float(began)), ("until Python runs", PYTHON_RUNS)]

    def done(part: str) -> None:
        moments.append((part, time.time()))

    from pyspark.sql import SparkSession  # it is timed, too

    if words[0] != "bare":
        from airflow_kafka_offsets.spark import planned_batch, read_batch, report_batch
        from airflow_kafka_offsets.spark.sinks import files
    done("imports")
    spark = SparkSession.builder.getOrCreate()
    done("session")
    if words[0] == "bare":
        _, servers, topic = words
        source = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
        records = source.load()
        done("source, looks at Kafka, attempt")
        records.write.parquet(output)
        done("write")
    else:
        batch = planned_batch(words, spark)
        done("plan")
        records = read_batch(spark, batch)
        done("source, looks at Kafka, attempt")
        written = files(output)(records, batch)
        done("write")
        report_batch(batch, written)
        done("count and report")
    spark.stop()
    done("stop")
    print("PARTS", json.dumps({part: end - before for (_, before), (part, end) in pairwise(moments)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
