package porpoise;

import java.io.IOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;

/** Writes rows by a URL with several hosts until standard input ends. After an error it connects again by the same URL. */
public final class Failover {
    private static volatile boolean ended;

    private Failover() {}

    public static void main(String[] arguments) throws Exception {
        String url = System.getenv("FAILOVER_URL").replace("{hosts}", System.getenv("FAILOVER_MYSQL"));
        String insert = "INSERT INTO " + System.getenv("FAILOVER_TABLE") + " VALUES (?)";
        Thread input = new Thread(Failover::awaitEnd);
        input.setDaemon(true);
        input.start();
        long first = System.currentTimeMillis();
        Connection connection = null;
        for (long id = first; !ended; id++) {
            try {
                if (connection == null) {
                    connection = DriverManager.getConnection(url + "&connectTimeout=3000&socketTimeout=3000", "root", "");
                }
                try (PreparedStatement statement = connection.prepareStatement(insert)) {
                    statement.setLong(1, id);
                    statement.executeUpdate();
                }
                System.out.println("ack " + id);
            } catch (SQLException error) {
                System.out.println("error " + error.getErrorCode() + " " + error.getSQLState() + " " + line(error));
                close(connection);
                connection = null;
                Thread.sleep(50);
            }
        }
        close(connection);
        System.exit(0);
    }

    private static String line(SQLException error) {
        return String.valueOf(error.getMessage()).replace('\n', ' ');
    }

    private static void close(Connection connection) {
        try {
            if (connection != null) {
                connection.close();
            }
        } catch (SQLException error) {
            System.out.println("error " + error.getErrorCode() + " on close: " + line(error));
        }
    }

    private static void awaitEnd() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException error) {
            System.out.println("input: " + error);
        }
        ended = true;
    }
}
