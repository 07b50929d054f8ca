import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.common.model.HoodieCommitMetadata;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.HoodieTableVersion;
import org.apache.hudi.common.table.timeline.HoodieActiveTimeline;
import org.apache.hudi.common.table.timeline.HoodieInstant;
import org.apache.hudi.common.table.timeline.HoodieInstant.State;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.storage.hadoop.HadoopStorageConfiguration;

/**
 * The commits of a table by Hudi itself: {@code <folder> <table version> <commit> ...}. A commit is {@code
 * deltacommit=<key>=<value>} with that in its extra metadata, or {@code deltacommit} for one that never ends.
 */
public final class WriteHudiCommits {
  private WriteHudiCommits() {}

  public static void main(String[] arguments) throws Exception {
    HoodieTableMetaClient table =
        HoodieTableMetaClient.newTableBuilder()
            .setTableType("MERGE_ON_READ")
            .setTableName("orders")
            .setTableVersion(HoodieTableVersion.fromVersionCode(Integer.parseInt(arguments[1])))
            .initTable(new HadoopStorageConfiguration(new Configuration()), arguments[0]);
    for (int number = 2; number < arguments.length; number++) {
      String[] words = arguments[number].split("=", 3);
      String time = table.createNewInstantTime(false);
      HoodieActiveTimeline timeline = table.reloadActiveTimeline();
      HoodieInstant requested = instant(table, State.REQUESTED, words[0], time);
      timeline.createNewInstant(requested);
      timeline.transitionRequestedToInflight(requested, Option.empty());
      if (words.length == 3) {
        HoodieCommitMetadata metadata = new HoodieCommitMetadata();
        metadata.addMetadata(words[1], words[2]);
        timeline.saveAsComplete(
            false, instant(table, State.INFLIGHT, words[0], time), Option.of(metadata));
      }
    }
  }

  private static HoodieInstant instant(
      HoodieTableMetaClient table, State state, String action, String time) {
    return table.getInstantGenerator().createNewInstant(state, action, time);
  }
}
