package waterclock;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution$;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.types.StructType;
import scala.Some;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;

/**
 * The rows of a query, in bounded memory: each task sends what is little with its result, and
 * writes more than that to a file of its own, batch by batch.
 *
 * All tasks of a query together write no more than a bound; beyond it the query fails with 54000.
 * Tasks in other processes have a bound each, and the sum is checked at the end. Every batch is an
 * Arrow stream of its own, with its length before it.
 */
public final class Results {
    /** The message that waterclock.compute.faults knows by heart. */
    static final String TOO_LARGE = "the result is too large";
    private static final long BATCH_ROWS = 16384;
    private static final long BATCH_BYTES = 4L << 20;
    /** The bytes of each query that runs, by the number that it was given. */
    private static final Map used = new ConcurrentHashMap();

    private Results() {}

    /**
     * The parts of the result in their order. Each is a flag and four bytes of length; then either
     * the batches, or the name of the file with them, which is the caller's to remove.
     */
    public static byte[] collect(Object frame, String folder, long inline, long most) {
        Dataset rows = (Dataset) frame;
        QueryExecution execution = rows.queryExecution();
        String query = UUID.randomUUID().toString();
        boolean complete = false;
        try {
            Body body = new Body(execution, rows.schema(), folder, query, inline, most);
            List parts = (List) SQLExecution$.MODULE$.withNewExecutionId(
                execution, new Some("collect"), body);
            byte[] joined = join(parts, most);
            complete = true;
            return joined;
        } finally {
            used.remove(query);
            if (!complete) remove(new File(folder), query);
        }
    }

    private static byte[] join(List parts, long most) {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        long bytes = 0;
        try {
            DataOutputStream out = new DataOutputStream(all);
            for (int i = 0; i < parts.size(); i++) {
                Object[] part = (Object[]) parts.get(i);
                bytes += ((Long) part[2]).longValue();
                if (part[0] == null && part[1] == null) continue;
                byte[] content = part[0] != null
                    ? (byte[]) part[0] : ((String) part[1]).getBytes("UTF-8");
                out.writeByte(part[0] != null ? 0 : 1);
                out.writeInt(content.length);
                out.write(content);
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        if (bytes > most) throw Faults.raised("54000", TOO_LARGE);
        return all.toByteArray();
    }

    /** Remove the files of a query that failed. */
    private static void remove(File folder, String query) {
        File[] files = folder.listFiles();
        for (int i = 0; files != null && i < files.length; i++) {
            if (files[i].getName().startsWith(query)) files[i].delete();
        }
    }

    /** What runs the job, with everything set as it is for Spark's own actions. */
    static final class Body extends AbstractFunction0 {
        private final QueryExecution execution;
        private final Collector collector;

        Body(QueryExecution execution, StructType schema, String folder, String query,
                long inline, long most) {
            this.execution = execution;
            this.collector = new Collector(schema, folder, query, inline, most);
        }

        public Object apply() {
            execution.executedPlan().resetMetrics();
            RDD rows = execution.executedPlan().execute();
            return new ArrayList(
                rows.toJavaRDD().mapPartitionsWithIndex(collector, false).collect());
        }
    }

    /** Takes the rows of one task. */
    static final class Collector implements Function2 {
        private final StructType schema;
        private final String folder;
        private final String query;
        private final long inline;
        private final long most;

        Collector(StructType schema, String folder, String query, long inline, long most) {
            this.schema = schema;
            this.folder = folder;
            this.query = query;
            this.inline = inline;
            this.most = most;
        }

        public Object call(Object number, Object rows) throws Exception {
            scala.collection.Iterator batches = ArrowConverters$.MODULE$.toBatchWithSchemaIterator(
                CollectionConverters.asScala((Iterator) rows), schema,
                BATCH_ROWS, BATCH_BYTES, "UTC", true, false);
            ByteArrayOutputStream few = new ByteArrayOutputStream();
            File file = new File(folder, query + "-" + number);
            OutputStream out = few;
            long bytes = 0;
            try {
                while (batches.hasNext()) {
                    byte[] batch = (byte[]) batches.next();
                    bytes += batch.length;
                    require(batch.length);
                    if (out == few && bytes > inline) {
                        out = new FileOutputStream(file);
                        few.writeTo(out);
                    }
                    DataOutputStream measured = new DataOutputStream(out);
                    measured.writeInt(batch.length);
                    measured.write(batch);
                    measured.flush();
                }
            } finally {
                out.close();
            }
            boolean filed = out != few;
            Object[] part = new Object[] {
                filed || bytes == 0 ? null : few.toByteArray(),
                filed ? file.getPath() : null,
                Long.valueOf(bytes)};
            return Collections.singletonList(part).iterator();
        }

        private void require(long more) {
            AtomicLong fresh = new AtomicLong();
            AtomicLong sum = (AtomicLong) used.putIfAbsent(query, fresh);
            if ((sum == null ? fresh : sum).addAndGet(more) > most) {
                throw Faults.raised("54000", TOO_LARGE);
            }
        }
    }
}
