package porpoise;

import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.math.BigDecimal;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.Objects;

/** Stored programs and LOAD DATA LOCAL with Connector/J, as the driver's own tests use them. */
public final class Programs {
    private interface Test {
        void run(Connection connection) throws Exception;
    }

    private static int number;
    private static boolean failed;

    private Programs() {}

    public static void main(String[] arguments) throws Exception {
        System.out.println("TAP version 13");
        String address = System.getenv("CLIENTS_MYSQL_HOST") + ":" + System.getenv("CLIENTS_MYSQL_PORT");
        String url = "jdbc:mysql://" + address + "/?allowPublicKeyRetrieval=true&sslMode=PREFERRED";
        for (String options : new String[] {"", "&useServerPrepStmts=true", "&noAccessToProcedureBodies=true"}) {
            try (Connection connection = DriverManager.getConnection(url + options, "root", "")) {
                begin(connection);
                check("parameters" + options, connection, Programs::parameters);
                check("functions" + options, connection, Programs::functions);
                check("results" + options, connection, Programs::results);
                check("errors" + options, connection, Programs::errors);
                check("batches" + options, connection, Programs::batches);
            }
        }
        try (Connection connection = DriverManager.getConnection(url, "root", "")) {
            begin(connection);
            check("metadata of programs", connection, Programs::metadata);
        }
        files(url);
        System.out.println("1.." + number);
        System.exit(failed ? 1 : 0);
    }

    private static void begin(Connection connection) throws SQLException {
        run(connection, "DROP DATABASE IF EXISTS jdbc_programs", "CREATE DATABASE jdbc_programs");
        connection.setCatalog("jdbc_programs");
    }

    private static void run(Connection connection, String... statements) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String text : statements) {
                statement.execute(text);
            }
        }
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

    /** IN, INOUT and OUT by position, and by name where the driver may read the body. */
    private static void parameters(Connection connection) throws SQLException {
        run(connection, "CREATE PROCEDURE p(IN a INT, INOUT b DECIMAL(10,2), OUT c VARCHAR(50), OUT d DATETIME)"
                + " BEGIN SET b = a * b; SET c = CONCAT('Zoë ', a); SET d = '2024-02-29 12:34:56'; END");
        try (CallableStatement call = connection.prepareCall("{CALL p(?, ?, ?, ?)}")) {
            for (int factor = 2; factor <= 3; factor++) {
                call.setInt(1, factor);
                call.setBigDecimal(2, new BigDecimal("1.25"));
                call.registerOutParameter(2, Types.DECIMAL);
                call.registerOutParameter(3, Types.VARCHAR);
                call.registerOutParameter(4, Types.TIMESTAMP);
                call.execute();
                same(new BigDecimal("1.25").multiply(new BigDecimal(factor)), call.getBigDecimal(2));
                same("Zoë " + factor, call.getString(3));
                same(Timestamp.valueOf("2024-02-29 12:34:56"), call.getTimestamp(4));
                same(false, call.wasNull());
            }
        }
        boolean named = !connection.getMetaData().getURL().contains("noAccessToProcedureBodies");
        if (named) {
            try (CallableStatement call = connection.prepareCall("{CALL p(?, ?, ?, ?)}")) {
                call.setInt("a", 4);
                call.setNull("b", Types.DECIMAL);
                call.registerOutParameter("b", Types.DECIMAL);
                call.registerOutParameter("c", Types.VARCHAR);
                call.execute();
                same(null, call.getBigDecimal("b"));
                same(true, call.wasNull());
                same("Zoë 4", call.getString("c"));
            }
            try (CallableStatement call = connection.prepareCall("{CALL p(?, ?, ?, ?)}")) {
                same(4, call.getParameterMetaData().getParameterCount());
                same(java.sql.ParameterMetaData.parameterModeInOut, call.getParameterMetaData().getParameterMode(2));
                same("VARCHAR", call.getParameterMetaData().getParameterTypeName(3));
            }
        }
    }

    private static void functions(Connection connection) throws SQLException {
        run(connection, "CREATE FUNCTION f(a INT, b VARCHAR(20)) RETURNS VARCHAR(60) DETERMINISTIC"
                + " RETURN CONCAT(b, ' ', a + 1)");
        try (CallableStatement call = connection.prepareCall("{? = CALL f(?, ?)}")) {
            call.registerOutParameter(1, Types.VARCHAR);
            call.setInt(2, 41);
            call.setString(3, "it's");
            call.execute();
            same("it's 42", call.getString(1));
        }
    }

    private static void results(Connection connection) throws SQLException {
        run(connection, "CREATE TABLE r (id INT PRIMARY KEY)", "INSERT INTO r VALUES (1), (2), (3)",
                "CREATE PROCEDURE several(IN least INT, OUT n INT) BEGIN SELECT id FROM r WHERE id >= least ORDER BY id;"
                        + " SELECT 'second' AS word, NULL AS nothing; SELECT COUNT(*) INTO n FROM r; END");
        try (CallableStatement call = connection.prepareCall("{CALL several(?, ?)}")) {
            call.setInt(1, 2);
            call.registerOutParameter(2, Types.INTEGER);
            same(true, call.execute());
            try (ResultSet rows = call.getResultSet()) {
                same(true, rows.next());
                same(2, rows.getInt("id"));
                same(true, rows.next());
                same(false, rows.next());
            }
            same(true, call.getMoreResults());
            try (ResultSet rows = call.getResultSet()) {
                same(true, rows.next());
                same("second", rows.getString("word"));
                same(null, rows.getString("nothing"));
                same(2, rows.getMetaData().getColumnCount());
            }
            same(3, call.getInt(2));
        }
    }

    private static void errors(Connection connection) throws SQLException {
        run(connection, "CREATE PROCEDURE failing(IN a INT) BEGIN SIGNAL SQLSTATE '45000'"
                + " SET MESSAGE_TEXT = 'refused', MYSQL_ERRNO = 5002; END");
        try (CallableStatement call = connection.prepareCall("CALL failing(?)")) {
            call.setInt(1, 1);
            call.execute();
            throw new AssertionError("a signal was not raised");
        } catch (SQLException error) {
            same(5002, error.getErrorCode());
            same("45000", error.getSQLState());
            same("refused", error.getMessage());
        }
        try (Statement statement = connection.createStatement()) {
            statement.execute("CALL missing()");
            throw new AssertionError("a missing procedure was called");
        } catch (SQLException error) {
            same(1305, error.getErrorCode());
        }
    }

    private static void batches(Connection connection) throws SQLException {
        run(connection, "CREATE TABLE b (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20))",
                "CREATE PROCEDURE add_one(IN n VARCHAR(20)) INSERT INTO b (name) VALUES (n)");
        try (CallableStatement call = connection.prepareCall("{CALL add_one(?)}")) {
            for (int n = 0; n < 20; n++) {
                call.setString(1, "name " + n);
                call.addBatch();
            }
            same(20, call.executeBatch().length);
        }
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT COUNT(DISTINCT name) FROM b")) {
            rows.next();
            same(20, rows.getInt(1));
        }
    }

    private static void metadata(Connection connection) throws SQLException {
        run(connection, "CREATE PROCEDURE p(IN a INT UNSIGNED, INOUT b DECIMAL(10,2)) COMMENT 'what it does' SET b = a",
                "CREATE FUNCTION f(x VARCHAR(7)) RETURNS BIGINT DETERMINISTIC RETURN 1");
        StringBuilder found = new StringBuilder();
        try (ResultSet rows = connection.getMetaData().getProcedures("jdbc_programs", null, "%")) {
            while (rows.next()) {
                found.append(rows.getString("PROCEDURE_NAME")).append(' ').append(rows.getString("REMARKS")).append(' ')
                        .append(rows.getShort("PROCEDURE_TYPE")).append("; ");
            }
        }
        same("f  2; p what it does 1; ", found.toString());
        found.setLength(0);
        try (ResultSet rows = connection.getMetaData().getProcedureColumns("jdbc_programs", null, "p", "%")) {
            while (rows.next()) {
                found.append(rows.getString("COLUMN_NAME")).append(' ').append(rows.getShort("COLUMN_TYPE")).append(' ')
                        .append(rows.getString("TYPE_NAME")).append("; ");
            }
        }
        same("a 1 INT UNSIGNED; b 2 DECIMAL; ", found.toString());
    }

    private static void files(String url) throws Exception {
        try (Connection connection = DriverManager.getConnection(url, "root", "")) {
            begin(connection);
            long allowed;
            try (Statement statement = connection.createStatement();
                    ResultSet rows = statement.executeQuery("SELECT @@global.local_infile")) {
                rows.next();
                allowed = rows.getLong(1);
            }
            run(connection, "SET GLOBAL local_infile = 1", "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(40))");
            try (Connection loads = DriverManager.getConnection(url + "&allowLoadLocalInfile=true", "root", "")) {
                loads.setCatalog("jdbc_programs");
                check("a stream is loaded", loads, Programs::stream);
                check("a file is loaded", loads, Programs::file);
            }
            check("a driver that does not offer files is not asked for one", connection, Programs::refused);
            run(connection, "SET GLOBAL local_infile = " + allowed);
        }
    }

    private static void stream(Connection connection) throws Exception {
        StringBuilder lines = new StringBuilder();
        for (int id = 1; id <= 5000; id++) {
            lines.append(id).append("\tZoë ").append(id).append('\n');
        }
        try (Statement statement = connection.createStatement()) {
            byte[] bytes = lines.toString().getBytes(StandardCharsets.UTF_8);
            var files = statement.unwrap(com.mysql.cj.jdbc.JdbcStatement.class);
            files.setLocalInfileInputStream(new ByteArrayInputStream(bytes));
            same(5000, statement.executeUpdate("LOAD DATA LOCAL INFILE '' INTO TABLE t CHARACTER SET utf8mb4 (id, name)"));
            files.setLocalInfileInputStream(null);
            try (ResultSet rows = statement.executeQuery("SELECT name FROM t WHERE id = 4999")) {
                rows.next();
                same("Zoë 4999", rows.getString(1));
            }
        }
    }

    private static void file(Connection connection) throws Exception {
        Path file = Files.createTempFile("porpoise", ".tsv");
        try {
            Files.writeString(file, "1\tagain\n9001\tnew\n");
            try (Statement statement = connection.createStatement()) {
                same(3, statement.executeUpdate("LOAD DATA LOCAL INFILE '" + file + "' REPLACE INTO TABLE t"));
            }
        } finally {
            Files.delete(file);
        }
    }

    private static void refused(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE t");
            throw new AssertionError("a file was sent");
        } catch (SQLException error) {
            same(true, error.getErrorCode() == 1148 || error.getErrorCode() == 3948 || error.getErrorCode() == 4166);
        }
    }
}
