"""The parts of a Spark task by the driver's own clock, as a line of JSON.

Arguments: when it was submitted (seconds of the epoch), where to write, and then ``bare``, servers and topic; or the
batch's arguments.
"""

import json
import sys
import time
from itertools import pairwise

BEGAN, OUTPUT, *WORDS = sys.argv[1:]
moments = [("", float(BEGAN)), ("until Python runs", time.time())]


def done(part: str) -> None:
    moments.append((part, time.time()))


from pyspark.sql import SparkSession  # noqa: E402

if WORDS[0] != "bare":
    from airflow_kafka_offsets.spark import planned_batch, read_batch, report_batch
    from airflow_kafka_offsets.spark.sinks import files
done("imports")
spark = SparkSession.builder.getOrCreate()
done("session")
if WORDS[0] == "bare":
    servers, topic = WORDS[1:]
    records = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic).load()
    done("source, looks at Kafka, attempt")
    records.write.parquet(OUTPUT)
    done("write")
else:
    batch = planned_batch(WORDS, spark)
    done("plan")
    records = read_batch(spark, batch)
    done("source, looks at Kafka, attempt")
    written = files(OUTPUT)(records, batch)
    done("write")
    report_batch(batch, written)
    done("count and report")
spark.stop()
done("stop")
print("PARTS", json.dumps({part: end - before for (_, before), (part, end) in pairwise(moments)}))
