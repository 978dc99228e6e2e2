package porpoise;

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLIntegrityConstraintViolationException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.Objects;

/** Connector/J's first steps, with statements prepared by the client and by the server. */
public final class FirstSteps {
    private interface Test {
        void run(Connection connection) throws Exception;
    }

    private static int number;
    private static boolean failed;

    private FirstSteps() {}

    public static void main(String[] arguments) throws Exception {
        System.out.println("TAP version 13");
        String address = System.getenv("CLIENTS_MYSQL_HOST") + ":" + System.getenv("CLIENTS_MYSQL_PORT");
        String url = "jdbc:mysql://" + address + "/?allowPublicKeyRetrieval=true&sslMode=PREFERRED";
        for (String options : new String[] {"", "&useServerPrepStmts=true", "&rewriteBatchedStatements=true"}) {
            try (Connection connection = DriverManager.getConnection(url + options, "root", "")) {
                try (Statement statement = connection.createStatement()) {
                    statement.execute("DROP DATABASE IF EXISTS jdbc");
                    statement.execute("CREATE DATABASE jdbc");
                }
                connection.setCatalog("jdbc");
                try (Statement statement = connection.createStatement()) {
                    statement.execute("CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50) UNIQUE,"
                            + " money DECIMAL(10,2), born DATETIME(3), data BLOB, ok BOOLEAN)");
                }
                check("values go and come back" + options, connection, FirstSteps::values);
                check("errors have their class and number" + options, connection, FirstSteps::errors);
                check("transactions" + options, connection, FirstSteps::transactions);
                check("batches" + options, connection, FirstSteps::batches);
                check("metadata" + options, connection, FirstSteps::metadata);
            }
        }
        String cursors = url + "&useCursorFetch=true&defaultFetchSize=7&allowMultiQueries=true";
        try (Connection connection = DriverManager.getConnection(cursors, "root", "")) {
            connection.setCatalog("jdbc");
            check("cursors of the server", connection, FirstSteps::cursors);
            check("several results", connection, FirstSteps::severalResults);
        }
        System.out.println("1.." + number);
        System.exit(failed ? 1 : 0);
    }

    private static void check(String name, Connection connection, Test test) {
        number++;
        try {
            test.run(connection);
            System.out.println("ok " + number + " - " + name);
        } catch (Exception | AssertionError error) {
            failed = true;
            System.out.println("not ok " + number + " - " + name + ": " + error);
        }
    }

    private static void same(Object wanted, Object found) {
        if (!Objects.deepEquals(wanted, found)) {
            throw new AssertionError("wanted " + wanted + ", found " + found);
        }
    }

    private static void values(Connection connection) throws SQLException {
        Timestamp born = Timestamp.valueOf("2024-02-29 12:34:56.789");
        byte[] data = {0, 1, (byte) 255, '\'', '\\'};
        String insert = "INSERT INTO t (name, money, born, data, ok) VALUES (?, ?, ?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert, Statement.RETURN_GENERATED_KEYS)) {
            statement.setString(1, "Zoë 😀");
            statement.setBigDecimal(2, new BigDecimal("12.30"));
            statement.setTimestamp(3, born);
            statement.setBytes(4, data);
            statement.setBoolean(5, true);
            same(1, statement.executeUpdate());
            try (ResultSet keys = statement.getGeneratedKeys()) {
                same(true, keys.next());
                same(1L, keys.getLong(1));
            }
            for (int at = 1; at <= 5; at++) {
                statement.setObject(at, null);
            }
            same(1, statement.executeUpdate());
        }
        String select = "SELECT id, name, money, born, data, ok FROM t WHERE id >= ? ORDER BY id";
        try (PreparedStatement statement = connection.prepareStatement(select)) {
            statement.setInt(1, 1);
            try (ResultSet rows = statement.executeQuery()) {
                same(true, rows.next());
                same("Zoë 😀", rows.getString("name"));
                same(new BigDecimal("12.30"), rows.getBigDecimal("money"));
                same(born, rows.getTimestamp("born"));
                same(data, rows.getBytes("data"));
                same(true, rows.getBoolean("ok"));
                same(true, rows.next());
                same(null, rows.getString("name"));
                same(null, rows.getTimestamp("born"));
                same(false, rows.next());
            }
        }
    }

    /** Two cursors at a time, each fetched seven rows at a time; the rows are those of their execution. */
    private static void cursors(Connection connection) throws SQLException {
        String numbers = "WITH RECURSIVE n AS (SELECT ? AS a UNION ALL SELECT a + 1 FROM n WHERE a < 100) SELECT a FROM n";
        try (PreparedStatement first = connection.prepareStatement(numbers);
                PreparedStatement second = connection.prepareStatement(numbers)) {
            first.setInt(1, 1);
            second.setInt(1, 51);
            try (ResultSet low = first.executeQuery(); ResultSet high = second.executeQuery()) {
                for (int n = 51; n <= 100; n++) {
                    same(true, low.next());
                    same(n - 50, low.getInt(1));
                    same(true, high.next());
                    same(n, high.getInt(1));
                }
                same(false, high.next());
                same(true, low.next());
                same(51, low.getInt(1));
            }
            first.setInt(1, 98);
            try (ResultSet again = first.executeQuery()) {
                same(true, again.next());
                same(98, again.getInt(1));
            }
        }
    }

    private static void severalResults(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            same(true, statement.execute("SELECT 1; DO 1; SELECT 2, 3"));
            try (ResultSet rows = statement.getResultSet()) {
                same(true, rows.next());
            }
            same(false, statement.getMoreResults());
            same(0, statement.getUpdateCount());
            same(true, statement.getMoreResults());
            same(2, statement.getResultSet().getMetaData().getColumnCount());
            same(false, statement.getMoreResults());
            same(-1, statement.getUpdateCount());
        }
    }

    private static void errors(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("INSERT INTO t (name) VALUES ('twice')");
            try {
                statement.executeUpdate("INSERT INTO t (name) VALUES ('twice')");
                throw new AssertionError("a duplicate was taken");
            } catch (SQLIntegrityConstraintViolationException error) {
                same(1062, error.getErrorCode());
                same("23000", error.getSQLState());
            }
            try {
                statement.executeQuery("SELECT nosuch FROM t");
                throw new AssertionError("an unknown column was found");
            } catch (SQLException error) {
                same(1054, error.getErrorCode());
                same("42S22", error.getSQLState());
            }
        }
    }

    private static void transactions(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("DELETE FROM t");
            connection.rollback();
            same(3L, count(statement));
            statement.executeUpdate("DELETE FROM t WHERE name IS NULL");
            connection.commit();
            same(2L, count(statement));
        }
        connection.setAutoCommit(true);
    }

    private static void batches(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO t (name) VALUES (?)")) {
            for (int n = 0; n < 100; n++) {
                statement.setString(1, "batch " + n);
                statement.addBatch();
            }
            same(100, statement.executeBatch().length);
        }
        try (Statement statement = connection.createStatement()) {
            same(102L, count(statement));
            statement.setMaxRows(5);
            int rows = 0;
            try (ResultSet found = statement.executeQuery("SELECT id FROM t")) {
                while (found.next()) {
                    rows++;
                }
            }
            same(5, rows);
        }
    }

    private static long count(Statement statement) throws SQLException {
        try (ResultSet rows = statement.executeQuery("SELECT COUNT(*) FROM t")) {
            rows.next();
            return rows.getLong(1);
        }
    }

    private static void metadata(Connection connection) throws SQLException {
        same(true, connection.isValid(5));
        same("jdbc", connection.getCatalog());
        StringBuilder names = new StringBuilder();
        try (ResultSet columns = connection.getMetaData().getColumns("jdbc", null, "t", null)) {
            while (columns.next()) {
                names.append(columns.getString("COLUMN_NAME")).append(' ');
            }
        }
        same("id name money born data ok ", names.toString());
        try (ResultSet keys = connection.getMetaData().getPrimaryKeys("jdbc", null, "t")) {
            same(true, keys.next());
            same("id", keys.getString("COLUMN_NAME"));
        }
    }
}
