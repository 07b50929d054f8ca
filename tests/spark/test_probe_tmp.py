import time, pytest
from airflow_kafka_offsets.spark import plan_job, read_plan, report_read


def test_del(spark, plans, filled, broker):
    name = filled(10)
    job = plans.job({(name, 0): (0, 10)})
    broker.delete_records({(name, 0): 5})
    try:
        read_plan(spark, job).count()
    except Exception as e:
        print("DEL", type(e), str(e)[:700])
    print(
        sorted(
            r[0]
            for r in spark.read.format("kafka")
            .options(
                **{
                    "kafka.bootstrap.servers": broker.bootstrap_servers,
                    "assign": '{"%s":[0]}' % name,
                    "startingOffsets": '{"%s":{"0":0}}' % name,
                    "endingOffsets": '{"%s":{"0":10}}' % name,
                    "failOnDataLoss": "false",
                }
            )
            .load()
            .select("offset")
            .collect()
        )
    )


@pytest.mark.parametrize("o", [{}, {"minPartitions": 3}])
def test_short(spark, plans, filled, broker, o):
    name = filled(10)
    job = plans.job({(name, 0): (0, 10)})
    broker.delete_topic(name)
    broker.create_topic(name)
    broker.produce_many(name, 5)
    t = time.time()
    try:
        print("SHORT", read_plan(spark, job, **{"kafkaConsumer.pollTimeoutMs": 6000}, **o).count())
    except Exception as e:
        print("SHORT", time.time() - t, type(e), str(e)[:900])


def test_gone(spark, plans, filled, broker):
    name = filled(10, 2)
    job = plans.job({(name, 0): (0, 5), (name, 1): (0, 5)})
    broker.delete_topic(name)
    broker.create_topic(name)
    broker.produce_many(name, 20)
    t = time.time()
    try:
        print("GONE partition", read_plan(spark, job, **{"kafkaConsumer.pollTimeoutMs": 6000}).count())
    except Exception as e:
        print("GONE", time.time() - t, type(e), str(e)[:900])
