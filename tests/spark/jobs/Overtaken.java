import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** Two attempts at one split: the first wakes up after the second has begun, and again after it has written. */
public final class Overtaken {
  public static void main(String[] arguments) throws Exception {
    SparkSession spark = SparkSession.builder().getOrCreate();
    ReportBatch first = new ReportBatch(spark, arguments), second = new ReportBatch(spark, arguments);
    Dataset<Row> ofFirst = first.records(), ofSecond = second.records();
    String output = arguments[1] + "/kafka_batch=" + second.key() + "/kafka_split=" + second.split();
    if (arguments[arguments.length - 1].equals("before")) {
      try {
        first.look();
      } catch (IllegalStateException late) {
        System.out.println("late: " + late.getMessage());
      }
    }
    ofSecond.select("topic", "partition", "offset").write().parquet(output);
    second.report(spark.read().parquet(output), ofSecond);
    if (arguments[arguments.length - 1].equals("after")) {
      first.report(spark.read().parquet(output), ofFirst);
    }
  }
}
