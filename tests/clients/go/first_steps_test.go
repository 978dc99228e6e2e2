// First steps with go-sql-driver: prepared statements on the wire, typed rows, transactions,
// errors by number, and several connections at once.
package firststeps

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

const database = "steps_go"

// open connects as root, to the given database if any.
func open(t *testing.T, name string) *sql.DB {
	t.Helper()
	host, port := os.Getenv("CLIENTS_MYSQL_HOST"), os.Getenv("CLIENTS_MYSQL_PORT")
	if host == "" || port == "" {
		t.Fatal("CLIENTS_MYSQL_HOST and CLIENTS_MYSQL_PORT are not set; run through tests/clients/run.py")
	}
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.DBName = "root", "tcp", host+":"+port, name
	config.ParseTime = true
	config.Timeout, config.ReadTimeout = 30*time.Second, 60*time.Second
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// fresh gives an empty database.
func fresh(t *testing.T) *sql.DB {
	t.Helper()
	server := open(t, "")
	must(t, server, "DROP DATABASE IF EXISTS "+database)
	must(t, server, "CREATE DATABASE "+database)
	return open(t, database)
}

func must(t *testing.T, db *sql.DB, statement string, values ...any) sql.Result {
	t.Helper()
	result, err := db.Exec(statement, values...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return result
}

// failsWith expects an error of the server with this number, and returns its message.
func failsWith(t *testing.T, err error, number uint16) string {
	t.Helper()
	var failure *mysql.MySQLError
	if !errors.As(err, &failure) || failure.Number != number {
		t.Fatalf("expected error %d, got %v", number, err)
	}
	return failure.Message
}

func TestConnectsAndAnswers(t *testing.T) {
	db := open(t, "")
	if err := db.Ping(); err != nil {
		t.Fatal(err)
	}
	var one int
	if err := db.QueryRow("SELECT 1").Scan(&one); err != nil || one != 1 {
		t.Fatalf("SELECT 1 gave %d, %v", one, err)
	}
}

func TestPreparedStatements(t *testing.T) {
	db := fresh(t)
	must(t, db, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50))")
	insert, err := db.Prepare("INSERT INTO t (name) VALUES (?)")
	if err != nil {
		t.Fatal(err)
	}
	defer insert.Close()
	for want := int64(1); want <= 20; want++ {
		result, err := insert.Exec(fmt.Sprintf("name %d", want))
		if err != nil {
			t.Fatal(err)
		}
		if id, _ := result.LastInsertId(); id != want {
			t.Fatalf("id %d, expected %d", id, want)
		}
	}
	query, err := db.Prepare("SELECT name FROM t WHERE id = ?")
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	for _, id := range []int{20, 1, 7} {
		var name string
		if err := query.QueryRow(id).Scan(&name); err != nil || name != fmt.Sprintf("name %d", id) {
			t.Fatalf("id %d gave %q, %v", id, name, err)
		}
	}
	var name string
	if err := query.QueryRow(999).Scan(&name); !errors.Is(err, sql.ErrNoRows) {
		t.Fatalf("an absent id gave %v", err)
	}
	if _, err := db.Prepare("SELEC ?"); err == nil {
		t.Fatal("nonsense was prepared")
	} else {
		failsWith(t, err, 1064)
	}
}

func TestValuesComeBackTyped(t *testing.T) {
	db := fresh(t)
	must(t, db, `CREATE TABLE t (id INT PRIMARY KEY, big BIGINT UNSIGNED, small SMALLINT, price DECIMAL(10,2),
		ratio DOUBLE, words VARCHAR(100), raw VARBINARY(300), day DATE, moment DATETIME) DEFAULT CHARSET = utf8mb4`)
	raw := make([]byte, 256)
	for index := range raw {
		raw[index] = byte(index)
	}
	words := "O'Neil \\ 汉字 🐬"
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	moment := time.Date(1999, 12, 31, 23, 59, 58, 0, time.UTC)
	must(t, db, "INSERT INTO t VALUES (?,?,?,?,?,?,?,?,?)",
		1, uint64(1<<64-1), -32768, "-12345678.90", 0.1, words, raw, day, moment)
	must(t, db, "INSERT INTO t (id) VALUES (?)", 2)

	var (
		big       uint64
		small     int16
		price     string
		ratio     float64
		gotWords  string
		gotRaw    []byte
		gotDay    time.Time
		gotMoment time.Time
	)
	err := db.QueryRow("SELECT big, small, price, ratio, words, raw, day, moment FROM t WHERE id = ?", 1).
		Scan(&big, &small, &price, &ratio, &gotWords, &gotRaw, &gotDay, &gotMoment)
	if err != nil {
		t.Fatal(err)
	}
	if big != 1<<64-1 || small != -32768 || price != "-12345678.90" || ratio != 0.1 {
		t.Errorf("numbers: %d %d %s %v", big, small, price, ratio)
	}
	if gotWords != words || !bytes.Equal(gotRaw, raw) {
		t.Errorf("text and bytes: %q %x", gotWords, gotRaw)
	}
	if !gotDay.Equal(day) || !gotMoment.Equal(moment) {
		t.Errorf("dates: %v %v", gotDay, gotMoment)
	}
	var (
		noNumber sql.NullInt64
		noText   sql.NullString
		noTime   sql.NullTime
	)
	if err := db.QueryRow("SELECT small, words, moment FROM t WHERE id = ?", 2).Scan(&noNumber, &noText, &noTime); err != nil {
		t.Fatal(err)
	}
	if noNumber.Valid || noText.Valid || noTime.Valid {
		t.Error("NULLs came back as values")
	}
	must(t, db, "UPDATE t SET words = ? WHERE id = ?", nil, 1)
	var count int
	if err := db.QueryRow("SELECT COUNT(*) FROM t WHERE words IS NULL").Scan(&count); err != nil || count != 2 {
		t.Fatalf("%d rows without words, %v", count, err)
	}
}

func TestTransactions(t *testing.T) {
	db := fresh(t)
	must(t, db, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
	count := func() (count int) {
		if err := db.QueryRow("SELECT COUNT(*) FROM t").Scan(&count); err != nil {
			t.Fatal(err)
		}
		return count
	}
	for _, keep := range []bool{false, true} {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO t VALUES (?, ?)", 1, 1); err != nil {
			t.Fatal(err)
		}
		if got := count(); got != 0 {
			t.Fatalf("another connection sees %d uncommitted rows", got)
		}
		finish, want := tx.Rollback, 0
		if keep {
			finish, want = tx.Commit, 1
		}
		if err := finish(); err != nil {
			t.Fatal(err)
		}
		if got := count(); got != want {
			t.Fatalf("%d rows, expected %d", got, want)
		}
	}
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("UPDATE t SET n = n + 1 WHERE id = ?", 1); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestConstraints(t *testing.T) {
	db := fresh(t)
	must(t, db, "CREATE TABLE parent (id INT PRIMARY KEY)")
	must(t, db, `CREATE TABLE child (id INT PRIMARY KEY, parent_id INT,
		CONSTRAINT fk_go FOREIGN KEY (parent_id) REFERENCES parent(id) ON DELETE CASCADE)`)
	must(t, db, "INSERT INTO parent VALUES (?), (?)", 1, 2)
	must(t, db, "INSERT INTO child VALUES (?, ?), (?, ?)", 10, 1, 11, 2)
	_, err := db.Exec("INSERT INTO child VALUES (?, ?)", 12, 99)
	if message := failsWith(t, err, 1452); !strings.Contains(message, "fk_go") {
		t.Errorf("the message does not name the constraint: %s", message)
	}
	_, err = db.Exec("INSERT INTO parent VALUES (?)", 1)
	failsWith(t, err, 1062)
	result := must(t, db, "DELETE FROM parent WHERE id = ?", 1)
	if rows, _ := result.RowsAffected(); rows != 1 {
		t.Errorf("%d rows deleted, expected 1", rows)
	}
	var left int
	if err := db.QueryRow("SELECT COUNT(*) FROM child").Scan(&left); err != nil || left != 1 {
		t.Errorf("%d children left, expected 1, %v", left, err)
	}
}

func TestManyRowsStream(t *testing.T) {
	db := fresh(t)
	must(t, db, "CREATE TABLE t (id INT PRIMARY KEY, body VARCHAR(200))")
	const rows = 5000
	for from := 0; from < rows; from += 500 {
		var values []any
		for id := from; id < from+500; id++ {
			values = append(values, id, strings.Repeat("x", id%200))
		}
		must(t, db, "INSERT INTO t VALUES "+strings.TrimSuffix(strings.Repeat("(?,?),", 500), ","), values...)
	}
	found, err := db.Query("SELECT id, body FROM t WHERE id >= ? ORDER BY id", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	next := 0
	for found.Next() {
		var id int
		var body string
		if err := found.Scan(&id, &body); err != nil {
			t.Fatal(err)
		}
		if id != next || len(body) != id%200 {
			t.Fatalf("row %d has id %d and %d bytes", next, id, len(body))
		}
		next++
	}
	if err := found.Err(); err != nil || next != rows {
		t.Fatalf("%d rows, %v", next, err)
	}
}

func TestManyConnectionsCountTogether(t *testing.T) {
	db := fresh(t)
	must(t, db, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
	must(t, db, "INSERT INTO t VALUES (1, 0)")
	const workers, each = 8, 25
	var wait sync.WaitGroup
	failures := make(chan error, workers)
	for range workers {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range each {
				if _, err := db.Exec("UPDATE t SET n = n + 1 WHERE id = ?", 1); err != nil {
					failures <- err
					return
				}
			}
		}()
	}
	wait.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	var n int
	if err := db.QueryRow("SELECT n FROM t WHERE id = 1").Scan(&n); err != nil || n != workers*each {
		t.Fatalf("counted %d of %d, %v", n, workers*each, err)
	}
}
