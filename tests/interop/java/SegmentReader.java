import java.io.File;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;

/**
 * Reads segment files with Kafka's own classes: java SegmentReader FILE...
 *
 * <pre>
 *   file    PATH  bytes in the file  bytes of whole entries
 *   batch   magic  base offset  last offset  codec  timestamp type  max timestamp  producer id  epoch  sequence
 *   record  offset  timestamp  key  value  header=value,...
 * </pre>
 *
 * Bytes are hexadecimal, `null` is null. Every checksum is verified; a wrong one ends the program
 * with its exception.
 */
final class SegmentReader {
    public static void main(String[] paths) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String path : paths) {
            File file = new File(path);
            try (FileRecords records = FileRecords.open(file, false)) {
                int whole = 0;
                StringBuilder lines = new StringBuilder();
                for (RecordBatch batch : records.batches()) {
                    batch.ensureValid();
                    whole += batch.sizeInBytes();
                    line(lines, "batch", batch.magic(), batch.baseOffset(), batch.lastOffset(),
                            batch.compressionType().name, batch.timestampType().name, batch.maxTimestamp(),
                            batch.producerId(), batch.producerEpoch(), batch.baseSequence());
                    for (Record record : batch) {
                        record.ensureValid();
                        StringBuilder headers = new StringBuilder();
                        for (Header header : record.headers()) {
                            headers.append(headers.isEmpty() ? "" : ",").append(header.key()).append('=')
                                    .append(header.value() == null ? "null" : hex(ByteBuffer.wrap(header.value())));
                        }
                        line(lines, "record", record.offset(), record.timestamp(), hex(record.key()),
                                hex(record.value()), headers);
                    }
                }
                line(out, "file", path, file.length(), whole);
                out.append(lines);
            }
        }
        System.out.print(out);
    }

    private static void line(StringBuilder out, Object... columns) {
        for (int i = 0; i < columns.length; i++) {
            out.append(i == 0 ? "" : "\t").append(columns[i]);
        }
        out.append('\n');
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "null";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
