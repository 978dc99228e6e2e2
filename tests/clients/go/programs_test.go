// LOAD DATA LOCAL from readers and files, and several results, as go-sql-driver's own tests use them.
package firststeps

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// loads gives a database with a table for loaded lines, on a server that takes files of clients.
func loads(t *testing.T) *sql.DB {
	t.Helper()
	db := fresh(t)
	var allowed int
	if err := db.QueryRow("SELECT @@global.local_infile").Scan(&allowed); err != nil {
		t.Fatal(err)
	}
	must(t, db, "SET GLOBAL local_infile = 1")
	t.Cleanup(func() { must(t, db, fmt.Sprintf("SET GLOBAL local_infile = %d", allowed)) })
	must(t, db, "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, value TEXT NOT NULL) CHARACTER SET utf8mb4")
	return db
}

// lines writes rows as LOAD DATA reads them by default.
func lines(rows int) string {
	var text strings.Builder
	for id := 1; id <= rows; id++ {
		fmt.Fprintf(&text, "%d\ta string \\t with %d\n", id, id)
	}
	return text.String()
}

func expectRows(t *testing.T, db *sql.DB, rows int) {
	t.Helper()
	var count, sum int
	if err := db.QueryRow("SELECT COUNT(*), COALESCE(SUM(id), 0) FROM t WHERE value LIKE '%\t%'").Scan(&count, &sum); err != nil {
		t.Fatal(err)
	}
	if count != rows || sum != rows*(rows+1)/2 {
		t.Fatalf("%d rows with the sum %d, expected %d rows", count, sum, rows)
	}
}

func TestLoadDataFromAReader(t *testing.T) {
	db := loads(t)
	mysql.RegisterReaderHandler("lines", func() io.Reader { return strings.NewReader(lines(20_000)) })
	defer mysql.DeregisterReaderHandler("lines")
	result := must(t, db, "LOAD DATA LOCAL INFILE 'Reader::lines' INTO TABLE t")
	if rows, _ := result.RowsAffected(); rows != 20_000 {
		t.Fatalf("%d rows loaded", rows)
	}
	expectRows(t, db, 20_000)
	mysql.RegisterReaderHandler("empty", func() io.Reader { return strings.NewReader("") })
	defer mysql.DeregisterReaderHandler("empty")
	if rows, _ := must(t, db, "LOAD DATA LOCAL INFILE 'Reader::empty' INTO TABLE t").RowsAffected(); rows != 0 {
		t.Fatalf("%d rows of an empty file", rows)
	}
}

func TestLoadDataFromAFile(t *testing.T) {
	db := loads(t)
	path := filepath.Join(t.TempDir(), "lines.tsv")
	if err := os.WriteFile(path, []byte(lines(100)), 0o600); err != nil {
		t.Fatal(err)
	}
	load := fmt.Sprintf("LOAD DATA LOCAL INFILE %q INTO TABLE t", path)
	if _, err := db.Exec(load); err == nil || !strings.Contains(err.Error(), "not registered") {
		t.Fatalf("a file that is not registered gave %v", err)
	}
	mysql.RegisterLocalFile(path)
	defer mysql.DeregisterLocalFile(path)
	must(t, db, load)
	expectRows(t, db, 100)
}

type brokenReader struct{ left int }

var errBroken = errors.New("the file broke")

func (r *brokenReader) Read(into []byte) (int, error) {
	if r.left == 0 {
		return 0, errBroken
	}
	r.left--
	return copy(into, "7\tbefore\tit broke\n"), nil
}

func TestLoadDataThatFails(t *testing.T) {
	db := loads(t)
	db.SetMaxOpenConns(1)
	mysql.RegisterReaderHandler("broken", func() io.Reader { return &brokenReader{left: 1} })
	defer mysql.DeregisterReaderHandler("broken")
	if _, err := db.Exec("LOAD DATA LOCAL INFILE 'Reader::broken' INTO TABLE t"); !errors.Is(err, errBroken) {
		t.Fatalf("a broken reader gave %v", err)
	}
	if _, err := db.Exec("LOAD DATA LOCAL INFILE 'Reader::missing' INTO TABLE t"); err == nil {
		t.Fatal("a reader that is not registered was read")
	}
	_, err := db.Exec("LOAD DATA LOCAL INFILE 'Reader::broken' INTO TABLE missing")
	failsWith(t, err, 1146)
	var one int
	if err := db.QueryRow("SELECT 1").Scan(&one); err != nil || one != 1 {
		t.Fatalf("the connection gave %d, %v", one, err)
	}
}

// several opens a pool that may send several statements in one text.
func several(t *testing.T, parameters map[string]string) *sql.DB {
	t.Helper()
	config := mysql.NewConfig()
	config.User, config.Net, config.DBName = "root", "tcp", database
	config.Addr = os.Getenv("CLIENTS_MYSQL_HOST") + ":" + os.Getenv("CLIENTS_MYSQL_PORT")
	config.MultiStatements, config.Params = true, parameters
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// results reads all results of a query: the values of the only column of each.
func results(t *testing.T, found *sql.Rows) [][]int {
	t.Helper()
	defer found.Close()
	var all [][]int
	for {
		values := []int{}
		for found.Next() {
			var value int
			if err := found.Scan(&value); err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		all = append(all, values)
		if !found.NextResultSet() {
			break
		}
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSeveralResults(t *testing.T) {
	fresh(t)
	db := several(t, nil)
	must(t, db, "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)")
	found, err := db.Query("SELECT id FROM t ORDER BY id; SELECT id FROM t WHERE id > 9; SELECT COUNT(*) FROM t")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(results(t, found)); got != "[[1 2 3] [] [3]]" {
		t.Fatalf("results %s", got)
	}
	// Those that are left unread are passed over.
	found, err = db.Query("SELECT 1; SELECT 2; SELECT 3")
	if err != nil || !found.Next() {
		t.Fatal(err)
	}
	if err := found.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec("INSERT INTO t VALUES (4); INSERT INTO t VALUES (4); INSERT INTO t VALUES (5)")
	failsWith(t, err, 1062)
	var count int
	if err := db.QueryRow("SELECT COUNT(*) FROM t").Scan(&count); err != nil || count != 4 {
		t.Fatalf("%d rows, %v", count, err)
	}
}

func TestCallsOfProcedures(t *testing.T) {
	db := fresh(t)
	must(t, db, `CREATE PROCEDURE p(IN least INT, OUT total INT) BEGIN
		SELECT least; SELECT least + 1 UNION ALL SELECT least + 2; SET total = least * 10; END`)
	connection, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	for _, statement := range []string{"CALL p(7, @total)", "CALL p(?, @total)"} {
		var values []any
		if strings.Contains(statement, "?") {
			values = append(values, 7)
		}
		found, err := connection.QueryContext(context.Background(), statement, values...)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(results(t, found)); !strings.HasPrefix(got, "[[7] [8 9]") {
			t.Fatalf("%s gave %s", statement, got)
		}
		var total int
		if err := connection.QueryRowContext(context.Background(), "SELECT @total").Scan(&total); err != nil || total != 70 {
			t.Fatalf("%s: total %d, %v", statement, total, err)
		}
	}
	must(t, db, "CREATE PROCEDURE failing() BEGIN SELECT 1; SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 5000; END")
	found, err := connection.QueryContext(context.Background(), "CALL failing()")
	if err != nil {
		t.Fatal(err)
	}
	for found.Next() {
	}
	if found.NextResultSet() {
		t.Fatal("a result came after an error")
	}
	failsWith(t, found.Err(), 5000)
	found.Close()
}
