import static org.apache.spark.sql.functions.count;
import static org.apache.spark.sql.functions.countDistinct;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.max;
import static org.apache.spark.sql.functions.min;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collector;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * A whole driver in Java: docs/job-contract.md in one file. Copy it; it needs what Spark and Spark's Kafka source bring.
 *
 * <p>The order is the promise: begin, look, read, write, look, report. A driver cannot be stopped from outside, so it looks whether it still
 * has its place.
 */
public final class ReportBatch {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Pattern DIGEST = Pattern.compile("(?s)(.*),\"sha256\":\"([0-9a-f]{64})\"}");
  private static final Pattern ENTRY = Pattern.compile("([1-9][0-9]*)\\.json");
  private static final Pattern BEGUN = Pattern.compile("([1-9][0-9]*)-([a-z0-9]+)\\.begun\\.json");

  /** Offsets of one partition; the end is not included. */
  private record Range(String topic, int partition, long start, long end) {}

  private final SparkSession spark;
  private final FileSystem files;
  private final Path folder;
  private final String output;
  private final int entry;
  private final JsonNode plan;
  private final List<Range> ranges, skips;
  private final Map<String, String> kafka = new HashMap<>();
  private Dataset<Row> records;
  private long attempt;
  private String random;

  /**
   * The batch that the arguments name. Arguments with other names are the job's own.
   *
   * @param output names what the job writes, such as <code>parquet:/lake/orders</code>; null: it has no name.
   */
  public ReportBatch(SparkSession spark, String[] arguments, String output) throws Exception {
    this.spark = spark;
    this.output = output;
    Map<String, String> given = named(arguments);
    if (!given.containsKey("--plan")) {
      throw new IllegalArgumentException("This job was started without arguments: give it what the resolve task returned.");
    }
    if (given.containsKey("--job")) {
      throw new IllegalArgumentException("The DAG has sink=, which this job cannot follow.");
    }
    Configuration hadoop = spark.sparkContext().hadoopConfiguration();
    Path header = new Path(asSparkNamesIt(given.get("--plan"), hadoop));
    folder = header.getParent();
    entry = Integer.parseInt(header.getName().replace(".json", ""));
    FileSystem found = folder.getFileSystem(hadoop);
    files = found instanceof LocalFileSystem local ? local.getRawFileSystem() : found; // without files of checksums
    plan = read(header.getName());
    JsonNode body = read(plan.get("ranges").get("name").asText());
    ranges = rangesOf(body.get("ranges"));
    skips = rangesOf(body.get("skips"));
    kafka.putAll(clientProperties(hadoop));
    kafka.putIfAbsent("bootstrap.servers", given.get("--bootstrap-servers"));
  }

  /** What each row has in its column <code>kafka_batch</code>. */
  public String key() {
    return plan.get("key").asText();
  }

  /** Begin the attempt. From here on the batch only verifies with the report of this attempt, or of a later one. */
  public Dataset<Row> records() throws Exception {
    List<String> names = list();
    requireCurrent(names);
    refuseOtherOutput();
    attempt = 1 + begun(names).stream().mapToLong(other -> Long.parseLong(other.group(1))).max().orElse(0);
    random = UUID.randomUUID().toString().substring(0, 8);
    write("begun", about());
    look();
    records = spark.sql("SELECT CAST(NULL AS BINARY) key, CAST(NULL AS BINARY) value, '' topic, 0 partition, 0L offset, "
          + "current_timestamp() timestamp, 0 timestampType WHERE false");
    Map<String, String> options = new HashMap<>();
    kafka.forEach((name, value) -> options.put("kafka." + name, value));
    options.put("kafka.isolation.level", plan.get("isolation_level").asText());
    options.put("failOnDataLoss", "true");
    List<Range> left = ranges;
    while (!left.isEmpty()) { // a partition once in each read: the source takes one range of it
      List<Range> now = left.stream().map(this::untilTheNextSkip).filter(range -> range.start() < range.end()).toList();
      if (!now.isEmpty()) {
        options.put("assign", byTopic(now, Collectors.mapping(Range::partition, Collectors.toList())));
        options.put("startingOffsets", byTopic(now, Collectors.toMap(Range::partition, Range::start)));
        options.put("endingOffsets", byTopic(now, Collectors.toMap(Range::partition, Range::end)));
        records = records.unionByName(spark.read().format("kafka").options(options).load());
      }
      left = left.stream().map(this::behindTheNextSkip).filter(range -> range.start() < range.end()).toList();
    }
    return records;
  }

  /** Call it right before the output changes. It throws where this driver has lost its place. */
  public void look() throws Exception {
    List<String> names = list();
    requireCurrent(names);
    for (Matcher other : begun(names)) {
      if (Long.parseLong(other.group(1)) >= attempt && !other.group(2).equals(random)) {
        throw new IllegalStateException("Attempt " + other.group(1) + " at batch " + key() + " has begun since: nothing is reported.");
      }
    }
  }

  /**
   * Count what was written, and report it.
   *
   * @param written reads the output back, with the source's topic, partition and offset.
   */
  public void report(Dataset<Row> written) throws Exception {
    Dataset<Row> offsets = offsetsOf(written);
    Map<String, Map<Integer, long[]>> counts = new TreeMap<>();
    for (Row row : offsets.groupBy("topic", "partition")
        .agg(count(lit(1)), countDistinct("offset"), min("offset"), max("offset")).collectAsList()) {
      counts.computeIfAbsent(row.getString(0), topic -> new TreeMap<>())
          .put(row.getInt(1), new long[] {row.getLong(2), row.getLong(3), row.getLong(4), row.getLong(5)});
    }
    // Offsets without a record: only what a scan of Kafka does not have either is a gap.
    boolean gaps = ranges.stream().anyMatch(range -> planned(range) > of(counts, range)[1]) && isSame(offsets, offsetsOf(records));
    ObjectNode report = about().putNull("snapshot").put("proof", "read back");
    ObjectNode topics = report.putObject("counts");
    for (Range range : ranges) {
      counts.computeIfAbsent(range.topic(), topic -> new TreeMap<>()).putIfAbsent(range.partition(), new long[4]);
    }
    Map<String, Map<Integer, Long>> sizes = ranges.stream().collect(
        Collectors.groupingBy(Range::topic, Collectors.toMap(Range::partition, this::planned)));
    counts.forEach((topic, partitions) -> {
      ObjectNode columns = topics.putObject(topic);
      Map<String, ArrayNode> column = new HashMap<>();
      for (String name : List.of("partition", "rows", "bad", "filtered", "offsets", "gaps", "first", "last")) {
        column.put(name, columns.putArray(name));
      }
      partitions.forEach((partition, counted) -> {
        long size = sizes.getOrDefault(topic, Map.of()).getOrDefault(partition, 0L);
        column.get("partition").add(partition);
        column.get("rows").add(counted[0]);
        column.get("bad").add(0);
        column.get("filtered").add(0);
        column.get("offsets").add(counted[1]);
        column.get("gaps").add(gaps ? size - counted[1] : 0);
        column.get("first").add(counted[1] == 0 ? null : counted[2]);
        column.get("last").add(counted[1] == 0 ? null : counted[3]);
      });
    });
    look();
    write("report", report);
  }

  // The place among the attempts

  private ObjectNode about() {
    return JSON.createObjectNode().put("version", 1).put("plan_id", plan.get("plan_id").asText()).putNull("job").put("output", output);
  }

  private void requireCurrent(List<String> names) throws Exception {
    String last = "plan";
    for (int k : entries(names)) {
      if (k > entry) {
        JsonNode later = read(k + ".json");
        last = later.get("entry").asText();
        if (last.equals("plan") && !later.path("plan_id").equals(plan.get("plan_id"))) { // else another run continues the batch
          throw new IllegalStateException("Entry " + k + " of batch " + key() + " is a newer plan: this job stops.");
        }
      }
    }
    if (last.equals("commit")) {
      throw new IllegalStateException("Batch " + key() + " is committed: this job stops.");
    }
  }

  private void refuseOtherOutput() {
    String planned = plan.get("output").asText(null);
    if (planned != null && !planned.equals(output)) {
      throw new IllegalStateException("This job writes " + output + ", and the pipeline writes " + planned + ". Write that again, "
          + "or acknowledge the change: trigger a run with the conf {\"kafka_offsets\": {\"pipeline\": "
          + JSON.valueToTree(plan.get("pipeline").asText().split("/")[0]) + ", \"after\": " + plan.get("identity") + ", \"reason\": \"why\", "
          + "\"acknowledge\": {\"output\": " + JSON.valueToTree(output) + "}}}");
    }
  }

  private static List<Matcher> begun(List<String> names) {
    return names.stream().map(BEGUN::matcher).filter(Matcher::matches).toList();
  }

  private static List<Integer> entries(List<String> names) {
    return names.stream().map(ENTRY::matcher).filter(Matcher::matches).map(name -> Integer.parseInt(name.group(1))).sorted().toList();
  }

  // What is read and counted

  private static List<Range> rangesOf(JsonNode topics) {
    List<Range> found = new ArrayList<>();
    topics.fields().forEachRemaining(topic -> {
      JsonNode columns = topic.getValue();
      for (int row = 0; row < columns.get("partition").size(); row++) {
        found.add(new Range(topic.getKey(), columns.get("partition").get(row).asInt(), columns.get("start").get(row).asLong(),
            columns.get("end").get(row).asLong()));
      }
    });
    return found;
  }

  private Range untilTheNextSkip(Range range) {
    long end = skipsIn(range).mapToLong(Range::start).min().orElse(range.end());
    return new Range(range.topic(), range.partition(), range.start(), Math.max(range.start(), end));
  }

  private Range behindTheNextSkip(Range range) {
    long start = skipsIn(range).min(Comparator.comparingLong(Range::start)).map(Range::end).orElse(range.end());
    return new Range(range.topic(), range.partition(), start, range.end());
  }

  private Stream<Range> skipsIn(Range range) {
    return skips.stream().filter(skip -> skip.topic().equals(range.topic()) && skip.partition() == range.partition()
        && skip.end() > range.start() && skip.start() < range.end());
  }

  private long planned(Range range) {
    return range.end() - range.start() - skips.stream()
        .filter(skip -> skip.topic().equals(range.topic()) && skip.partition() == range.partition())
        .mapToLong(skip -> skip.end() - skip.start()).sum();
  }

  private static long[] of(Map<String, Map<Integer, long[]>> counts, Range range) {
    return counts.getOrDefault(range.topic(), Map.of()).getOrDefault(range.partition(), new long[4]);
  }

  private static <T> String byTopic(List<Range> ranges, Collector<Range, ?, T> ofTopic) throws IOException {
    return JSON.writeValueAsString(ranges.stream().collect(Collectors.groupingBy(Range::topic, ofTopic)));
  }

  private static Dataset<Row> offsetsOf(Dataset<Row> frame) {
    return frame.selectExpr("CAST(topic AS STRING) topic", "CAST(partition AS INT) partition", "CAST(offset AS BIGINT) offset");
  }

  private static boolean isSame(Dataset<Row> one, Dataset<Row> other) {
    return one.exceptAll(other).isEmpty() && other.exceptAll(one).isEmpty();
  }

  // The checkpoint location, by the file systems that Spark has

  private List<String> list() throws IOException {
    return Arrays.stream(files.listStatus(folder)).map(FileStatus::getPath).map(Path::getName).toList();
  }

  private JsonNode read(String name) throws Exception {
    String text;
    try (InputStream stream = files.open(new Path(folder, name))) {
      text = new String(stream.readAllBytes(), StandardCharsets.UTF_8);
    } catch (FileNotFoundException absent) {
      throw new IOException("Object " + name + " of " + folder + " is not there: this driver must reach the checkpoint location.");
    }
    Matcher whole = DIGEST.matcher(text);
    if (!whole.matches() || !whole.group(2).equals(digest(whole.group(1)))) {
      throw new IOException("Object " + name + " of " + folder + " was cut off or altered.");
    }
    return JSON.readTree(text);
  }

  private void write(String kind, ObjectNode value) throws Exception {
    String body = JSON.writeValueAsString(value);
    body = body.substring(0, body.length() - 1);
    byte[] data = (body + ",\"sha256\":\"" + digest(body) + "\"}").getBytes(StandardCharsets.UTF_8);
    Path object = new Path(folder, attempt + "-" + random + "." + kind + ".json");
    // An object store shows an object when it is whole; a file is visible while it is written.
    boolean isWhole = List.of("s3a", "s3", "gs", "abfs", "abfss").contains(files.getUri().getScheme());
    Path draft = isWhole ? object : new Path(folder, "." + UUID.randomUUID().toString().replace("-", "") + ".draft");
    try (OutputStream stream = files.create(draft, true)) {
      stream.write(data);
    }
    if (!isWhole && !files.rename(draft, object)) {
      throw new IOException("Could not rename " + draft + " to " + object);
    }
  }

  private static String digest(String text) throws Exception {
    return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8)));
  }

  private static String asSparkNamesIt(String uri, Configuration hadoop) {
    return uri.startsWith("s3://") && hadoop.get("fs.s3.impl") == null ? "s3a" + uri.substring(2) : uri.replaceFirst("^/", "file:///");
  }

  /** The settings of the Kafka client: a file that the Spark task hands over, or one that lies where the driver runs. */
  private Map<String, String> clientProperties(Configuration hadoop) throws IOException {
    String where = spark.conf().get("spark.kafka_offsets.client_properties", null);
    Map<String, String> found = new HashMap<>();
    if (where != null) {
      Path file = new Path(where.replace("one-time-file:", "").replaceFirst("^/", "file:///"));
      Properties properties = new Properties();
      try (InputStream stream = file.getFileSystem(hadoop).open(file)) {
        properties.load(stream);
      }
      properties.stringPropertyNames().forEach(name -> found.put(name, properties.getProperty(name)));
      if (where.startsWith("one-time-file:")) {
        file.getFileSystem(hadoop).delete(file, false); // it holds secrets, and was made for this driver alone
      }
    }
    return found;
  }

  /** The values of <code>--name value</code> and <code>--name=value</code>. */
  private static Map<String, String> named(String[] arguments) {
    Map<String, String> found = new HashMap<>();
    for (int at = 0; at < arguments.length; at++) {
      String[] parts = arguments[at].split("=", 2);
      if (parts[0].startsWith("--")) {
        found.put(parts[0], parts.length == 2 ? parts[1] : at + 1 < arguments.length && !arguments[at + 1].startsWith("--")
            ? arguments[++at] : "");
      }
    }
    return found;
  }

  /** A whole job: <code>--output FOLDER</code>, and the arguments of the batch. */
  public static void main(String[] arguments) throws Exception {
    SparkSession spark = SparkSession.builder().getOrCreate();
    Map<String, String> given = named(arguments);
    if (!given.containsKey("--nothing-to-do")) { // the batch is verified, and its records are gone
      ReportBatch batch = new ReportBatch(spark, arguments, "parquet:" + given.get("--output"));
      String folder = given.get("--output") + "/kafka_batch=" + batch.key();
      Dataset<Row> records = batch.records();
      batch.look();
      records.selectExpr("CAST(value AS STRING) AS body", "topic", "partition", "offset").write().mode("overwrite").parquet(folder);
      batch.report(spark.read().parquet(folder));
    }
    spark.stop();
  }
}
