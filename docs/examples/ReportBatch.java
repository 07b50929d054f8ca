import static org.apache.spark.sql.functions.col;
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
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * A Spark job in Java that reads a batch of airflow_kafka_offsets, writes it and reports it. docs/formats.md says what each step has to
 * hold. Copy this file: nothing of it is in a jar of ours. It needs Spark, Spark's Kafka source, and what Spark has itself.
 *
 * <p>The order is the promise: begin on record, look, write, look, report. A driver cannot be stopped from outside, so it looks whether
 * somebody has taken its place.
 */
public final class ReportBatch {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String CLIENT = "spark.kafka_offsets.client_properties", HANDED_OVER = "handed-over:";
  private static final Pattern DIGEST = Pattern.compile("(?s)(.*),\"sha256\":\"([0-9a-f]{64})\"}");
  private static final Pattern ENTRY = Pattern.compile("([1-9][0-9]*)\\.json");
  private static final Pattern ATTEMPT = Pattern.compile("([0-9]+)-([0-9]{6,17})-([a-z0-9]+)\\.(begun|report)\\.json");

  /** A range of the split, as the plan lists it. The end is the first offset that is not read. */
  private record Range(String topic, int partition, long start, long end) {}

  private final SparkSession spark;
  private final FileSystem files;
  private final Path root;
  private final String planObject, folder;
  private final JsonNode plan;
  private final int split;
  private final List<Range> ranges = new ArrayList<>();
  private final Map<String, String> kafka = new HashMap<>();
  private long attempt;
  private String random;

  /** The batch that the job's arguments name. Arguments with other names are the job's own. */
  public ReportBatch(SparkSession spark, String[] arguments) throws Exception {
    this.spark = spark;
    Map<String, String> given = named(arguments);
    if (given.containsKey("--rows")) {
      throw new IllegalArgumentException("The resolve task has value= or another parameter for rows, which this job cannot follow.");
    }
    planObject = given.get("--plan");
    folder = planObject.substring(0, planObject.lastIndexOf('/'));
    split = Integer.parseInt(given.get("--split"));
    Configuration hadoop = spark.sparkContext().hadoopConfiguration();
    root = new Path(asSparkNamesIt(given.get("--work-store"), hadoop));
    FileSystem found = root.getFileSystem(hadoop);
    // Hadoop's checksums beside local files are names that nobody expects in the work store.
    files = found instanceof LocalFileSystem local ? local.getRawFileSystem() : found;
    plan = read(planObject).get("plan");
    if (!plan.get("plan_id").asText().equals(given.get("--plan-id"))) {
      throw new IllegalStateException("Object " + planObject + " holds plan " + plan.get("plan_id") + ", not " + given.get("--plan-id"));
    }
    plan.get("topics").fields().forEachRemaining(topic -> takeRanges(topic.getKey(), topic.getValue()));
    kafka.putAll(clientProperties(hadoop));
    kafka.putIfAbsent("bootstrap.servers", given.get("--bootstrap-servers"));
  }

  /** What each row has in its column <code>kafka_batch</code>. */
  public String key() {
    return plan.get("batch").get("key").asText();
  }

  /** What each row has in its column <code>kafka_split</code>. */
  public int split() {
    return split;
  }

  /** The records of this split. From here on the commit waits for the report of this attempt, or of a later one. */
  public Dataset<Row> records() throws Exception {
    List<String> names = list();
    if (isReplaced(names)) {
      throw new IllegalStateException("Batch " + key() + " was planned anew: nothing was begun. The run's new arguments are for this.");
    }
    refuseOtherRecords(true);
    begin(names);
    look();
    if (ranges.isEmpty()) {
      return spark.sql("SELECT CAST(NULL AS BINARY) key, CAST(NULL AS BINARY) value, '' topic, 0 partition, 0L offset, "
          + "current_timestamp() timestamp, 0 timestampType WHERE false");
    }
    Map<String, String> options = new HashMap<>();
    kafka.forEach((name, value) -> options.put("kafka." + name, value));
    options.put("kafka.isolation.level", plan.get("isolation_level").asText());
    options.put("failOnDataLoss", "true");
    options.put("assign", JSON.writeValueAsString(byTopic(Collectors.mapping(Range::partition, Collectors.toList()))));
    options.put("startingOffsets", JSON.writeValueAsString(byTopic(Collectors.toMap(Range::partition, Range::start))));
    options.put("endingOffsets", JSON.writeValueAsString(byTopic(Collectors.toMap(Range::partition, Range::end))));
    return spark.read().format("kafka").options(options).load();
  }

  /** Call it right before the output changes. It throws where somebody has taken this attempt's place. */
  public void look() throws Exception {
    if (isOvertaken()) {
      store("report", report("rows", Map.of(), false)); // takes nothing from a split that is finished
      throw new IllegalStateException("Another job does split " + split + " of batch " + key() + ": this one wrote nothing.");
    }
  }

  /** Call it where the write has failed: what a late driver may have spoilt is then verified by nobody. */
  public void writeFailed() throws Exception {
    if (isOvertaken()) {
      begin(list());
    }
  }

  /**
   * Count what was written, and report it.
   *
   * @param written reads the output back, with the columns topic, partition and offset of the source.
   * @param records what {@link #records} gave; compared where offsets have no record.
   */
  public void report(Dataset<Row> written, Dataset<Row> records) throws Exception {
    Dataset<Row> offsets = offsetsOf(written);
    Map<String, Map<Integer, long[]>> counts = new TreeMap<>();
    for (Row row : offsets.groupBy("topic", "partition")
        .agg(count(lit(1)), countDistinct("offset"), min("offset"), max("offset")).collectAsList()) {
      counts.computeIfAbsent(row.getString(0), topic -> new TreeMap<>())
          .put(row.getInt(1), new long[] {row.getLong(2), row.getLong(3), row.getLong(4), row.getLong(5)});
    }
    String proof = isWhole(counts) || !isSame(offsets, offsetsOf(records)) ? "rows" : "compared";
    refuseOtherRecords(false);
    if (isOvertaken()) {
      begin(list()); // an attempt that never reports: what both may have written is to be written anew
      throw new IllegalStateException("Another job does split " + split + " of batch " + key() + ": write it anew.");
    }
    store("report", report(proof, counts, true));
  }

  // What is said of the attempt

  private ObjectNode report(String proof, Map<String, Map<Integer, long[]>> counts, boolean wrote) {
    ObjectNode report = JSON.createObjectNode().put("version", 1).put("plan_id", plan.get("plan_id").asText()).put("split", split)
        .put("attempt", attempt).put("wrote", wrote).put("proof", proof);
    report.set("output", plan.get("output"));
    report.putNull("rows");
    ObjectNode topics = report.putObject("topics");
    counts.forEach((topic, partitions) -> {
      ObjectNode columns = topics.putObject(topic);
      ArrayNode numbers = columns.putArray("partition");
      partitions.keySet().forEach(numbers::add);
      String[] names = {"row_count", "offset_count", "first_offset", "last_offset"};
      for (int column = 0; column < names.length; column++) {
        ArrayNode values = columns.putArray(names[column]);
        for (long[] ofPartition : partitions.values()) {
          values.add(ofPartition[column]);
        }
      }
    });
    return report;
  }

  private void begin(List<String> names) throws Exception {
    attempt = 1 + attempts(names).stream().mapToLong(found -> Long.parseLong(found.group(2))).max().orElse(0);
    random = UUID.randomUUID().toString().substring(0, 8);
    ObjectNode begun = JSON.createObjectNode().put("version", 1).put("plan_id", plan.get("plan_id").asText());
    begun.set("output", plan.get("output"));
    store("begun", begun.putNull("set_aside"));
  }

  private boolean isOvertaken() throws Exception {
    List<String> names = list();
    for (Matcher other : attempts(names)) {
      if (Long.parseLong(other.group(2)) < attempt || other.group(3).equals(random)) {
        continue;
      }
      String name = other.group().replace(".begun.", ".report.");
      if (!names.contains(name) || read(folder + "/" + name).get("wrote").asBoolean()) {
        return true;
      }
    }
    return isReplaced(names);
  }

  private boolean isReplaced(List<String> names) throws Exception {
    long own = Long.parseLong(planObject.substring(folder.length() + 1, planObject.length() - ".json".length()));
    for (String name : names) {
      Matcher entry = ENTRY.matcher(name);
      if (entry.matches() && Long.parseLong(entry.group(1)) > own) {
        String kind = read(folder + "/" + name).get("entry").asText();
        if (kind.equals("plan") || kind.equals("cleaned")) {
          return true;
        }
      }
    }
    return false;
  }

  private List<Matcher> attempts(List<String> names) {
    return names.stream().map(ATTEMPT::matcher).filter(Matcher::matches)
        .filter(found -> Integer.parseInt(found.group(1)) == split).collect(Collectors.toList());
  }

  // What is read

  private void takeRanges(String topic, JsonNode columns) {
    for (int row = 0; row < columns.get("partition").size(); row++) {
      JsonNode readers = columns.get("split").get(row);
      int partition = columns.get("partition").get(row).asInt();
      if (readers.isInt() && readers.asInt() == split) {
        ranges.add(new Range(topic, partition, columns.get("start_offset").get(row).asLong(), columns.get("end_offset").get(row).asLong()));
      } else if (readers.isArray()) { // pieces: [split, start_offset, end_offset]
        for (JsonNode piece : readers) {
          if (piece.get(0).asInt() == split) {
            ranges.add(new Range(topic, partition, piece.get(1).asLong(), piece.get(2).asLong()));
          }
        }
      }
    }
    ranges.sort(Comparator.comparing(Range::topic).thenComparing(Range::partition));
  }

  private <T> Map<String, T> byTopic(Collector<Range, ?, T> ofTopic) {
    return ranges.stream().collect(Collectors.groupingBy(Range::topic, ofTopic));
  }

  /** Throws where a topic was made anew: Spark would read the new one. Before the write also where records are gone. */
  private void refuseOtherRecords(boolean before) throws Exception {
    if (ranges.isEmpty()) {
      return;
    }
    try (Admin admin = Admin.create(new HashMap<String, Object>(kafka))) {
      List<String> names = ranges.stream().map(Range::topic).distinct().toList();
      for (TopicDescription topic : admin.describeTopics(names).allTopicNames().get().values()) {
        JsonNode planned = plan.get("topics").get(topic.name()).get("topic_id");
        if (!planned.isNull() && !planned.asText().replace('+', '-').replace('/', '_').equals(topic.topicId().toString())) {
          throw new IllegalStateException("Topic " + topic.name() + " was made anew since the plan: nothing is reported.");
        }
      }
      if (before) {
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        ranges.forEach(range -> asked.put(new TopicPartition(range.topic(), range.partition()), OffsetSpec.earliest()));
        Map<TopicPartition, ListOffsetsResult.ListOffsetsResultInfo> starts = admin.listOffsets(asked).all().get();
        for (Range range : ranges) {
          if (starts.get(new TopicPartition(range.topic(), range.partition())).offset() > range.start()) {
            throw new IllegalStateException(range + ": records are gone from Kafka. Nothing was begun, the output stays as it is.");
          }
        }
      }
    }
  }

  private static Dataset<Row> offsetsOf(Dataset<Row> frame) {
    return frame.select(col("topic").cast("string").as("topic"), col("partition").cast("int").as("partition"),
        col("offset").cast("bigint").as("offset"));
  }

  private boolean isWhole(Map<String, Map<Integer, long[]>> counts) {
    long found = counts.values().stream().mapToLong(Map::size).sum();
    return found == ranges.size() && ranges.stream().allMatch(range -> {
      long size = range.end() - range.start();
      long[] ofPartition = counts.getOrDefault(range.topic(), Map.of()).get(range.partition());
      return Arrays.equals(ofPartition, new long[] {size, size, range.start(), range.end() - 1});
    });
  }

  private static boolean isSame(Dataset<Row> one, Dataset<Row> other) {
    return one.exceptAll(other).isEmpty() && other.exceptAll(one).isEmpty();
  }

  // The work store, through the file systems that Spark has

  private JsonNode read(String name) throws Exception {
    String text;
    try (InputStream stream = files.open(new Path(root + "/" + name))) {
      text = new String(stream.readAllBytes(), StandardCharsets.UTF_8);
    }
    Matcher whole = DIGEST.matcher(text);
    if (!whole.matches() || !whole.group(2).equals(digest(whole.group(1)))) {
      throw new IOException("Object " + name + " of the work store is torn, or was altered.");
    }
    JsonNode value = JSON.readTree(text);
    if (value.get("version").asInt() != 1) {
      throw new IOException("Object " + name + " has version " + value.get("version") + ", which this job does not know.");
    }
    return value;
  }

  private void store(String kind, ObjectNode value) throws Exception {
    String body = JSON.writeValueAsString(value);
    body = body.substring(0, body.length() - 1);
    byte[] data = (body + ",\"sha256\":\"" + digest(body) + "\"}").getBytes(StandardCharsets.UTF_8);
    Path object = new Path(String.format("%s/%s/%d-%06d-%s.%s.json", root, folder, split, attempt, random, kind));
    // An object store shows an object when it is whole; a file is visible while it is written.
    boolean atOnce = List.of("s3a", "s3", "gs", "abfs", "abfss").contains(files.getUri().getScheme());
    Path draft = atOnce ? object : new Path(object.getParent(), "." + UUID.randomUUID().toString().replace("-", "") + ".draft");
    try (OutputStream stream = files.create(draft, true)) {
      stream.write(data);
    }
    if (!atOnce && !files.rename(draft, object)) {
      throw new IOException("Could not rename " + draft + " to " + object);
    }
  }

  private List<String> list() throws IOException {
    try {
      return Arrays.stream(files.listStatus(new Path(root + "/" + folder))).map(FileStatus::getPath).map(Path::getName).toList();
    } catch (FileNotFoundException nothing) {
      return List.of();
    }
  }

  private static String digest(String text) throws Exception {
    return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8)));
  }

  private static String asSparkNamesIt(String uri, Configuration hadoop) {
    if (uri.startsWith("s3://") && hadoop.get("fs.s3.impl") == null) {
      return "s3a" + uri.substring(2);
    }
    return uri.contains(":") ? uri : "file:" + uri;
  }

  /** The settings that SparkSubmitPlanOperator hands over, or that lie where the driver runs: a file as Kafka's own tools take it. */
  private Map<String, String> clientProperties(Configuration hadoop) throws IOException {
    String where = spark.conf().get(CLIENT, null);
    Map<String, String> found = new HashMap<>();
    if (where != null) {
      String path = where.replace(HANDED_OVER, "");
      Path file = new Path(path.contains(":") ? path : "file:" + path);
      Properties properties = new Properties();
      try (InputStream stream = file.getFileSystem(hadoop).open(file)) {
        properties.load(stream);
      }
      properties.stringPropertyNames().forEach(name -> found.put(name, properties.getProperty(name)));
      if (where.startsWith(HANDED_OVER)) {
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
        found.put(parts[0], parts.length == 2 ? parts[1] : at + 1 < arguments.length ? arguments[++at] : "");
      }
    }
    return found;
  }

  /** A whole job: <code>--output PATH</code>, and the arguments of the batch. */
  public static void main(String[] arguments) throws Exception {
    SparkSession spark = SparkSession.builder().getOrCreate();
    ReportBatch batch = new ReportBatch(spark, arguments);
    String output = named(arguments).get("--output") + "/kafka_batch=" + batch.key() + "/kafka_split=" + batch.split();
    Dataset<Row> records = batch.records();
    batch.look();
    try {
      records.selectExpr("CAST(value AS STRING) AS body", "topic", "partition", "offset").write().mode("overwrite").parquet(output);
    } catch (Exception error) {
      batch.writeFailed();
      throw error;
    }
    batch.report(spark.read().parquet(output), records);
    spark.stop();
  }
}
