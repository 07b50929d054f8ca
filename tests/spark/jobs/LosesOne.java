import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** A job whose output has offset 1 twice and offset 2 not at all: as many rows as there are records. */
public final class LosesOne {
  public static void main(String[] arguments) throws Exception {
    SparkSession spark = SparkSession.builder().getOrCreate();
    ReportBatch batch = new ReportBatch(spark, arguments);
    Dataset<Row> records = batch.records();
    String output = arguments[1] + "/kafka_batch=" + batch.key() + "/kafka_split=" + batch.split();
    records.where("offset <> 2").union(records.where("offset = 1")).select("topic", "partition", "offset").write().parquet(output);
    batch.report(spark.read().parquet(output), records);
  }
}
