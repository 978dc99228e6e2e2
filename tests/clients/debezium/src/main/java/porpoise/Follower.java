package porpoise;

import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.BufferedWriter;
import java.io.FileWriter;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Runs Debezium's embedded engine with the properties of a file, and appends the value of each change event to another, a
 * line each. Ends when its standard input is closed.
 */
public final class Follower {
    private Follower() {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (Reader file = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(file);
        }
        ExecutorService threads = Executors.newSingleThreadExecutor();
        try (BufferedWriter out = new BufferedWriter(new FileWriter(arguments[1], true))) {
            DebeziumEngine<ChangeEvent<String, String>> engine =
                    DebeziumEngine.create(Json.class)
                            .using(properties)
                            .notifying(event -> write(out, event))
                            .using(
                                    (success, message, error) -> {
                                        System.err.println("ended: " + success + " " + message);
                                        if (error != null) {
                                            error.printStackTrace();
                                        }
                                        if (!success) {
                                            System.exit(1);
                                        }
                                    })
                            .build();
            threads.execute(engine);
            while (System.in.read() >= 0) {
                // Nothing is sent.
            }
            engine.close();
        }
        System.exit(0);
    }

    private static void write(BufferedWriter out, ChangeEvent<String, String> event) {
        if (event.value() == null) {
            return;
        }
        try {
            out.write(event.value().replace("\n", " "));
            out.newLine();
            out.flush();
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }
}
