import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** A driver that does one batch for each line of JSON that it reads, as a job of ReportBatch.java would, and says how each ended. */
public final class Lines {
  public static void main(String[] arguments) throws Exception {
    ObjectMapper json = new ObjectMapper();
    SparkSession spark = SparkSession.builder().getOrCreate();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    System.out.println("READY");
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String answer = "";
      try {
        once(spark, json.readTree(line), json);
      } catch (Exception error) {
        answer = String.valueOf(error.getMessage());
      }
      System.out.println("ENDED " + json.writeValueAsString(answer));
    }
    spark.stop();
  }

  private static void once(SparkSession spark, JsonNode task, ObjectMapper json) throws Exception {
    String[] given = json.convertValue(task.get("arguments"), String[].class);
    ReportBatch batch = new ReportBatch(spark, given, task.get("output").asText());
    Dataset<Row> records = batch.records();
    batch.look();
    String folder = task.get("folder").asText() + "/kafka_batch=" + batch.key();
    records.selectExpr("topic", "partition", "offset").where(task.get("where").asText()).write().mode("overwrite").parquet(folder);
    for (Iterator<Map.Entry<String, JsonNode>> files = task.get("meanwhile").fields(); files.hasNext();) {
      Map.Entry<String, JsonNode> file = files.next();
      Files.writeString(Path.of(file.getKey()), file.getValue().asText());
    }
    batch.report(spark.read().parquet(folder));
  }
}
