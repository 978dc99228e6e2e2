// Readers of the binary log with go-mysql: BinlogSyncer by position and by GTIDs, and canal, while SQL and memcached write.
// At the end their copies equal the tables: no change is missing or applied twice.
package replication

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/go-mysql-org/go-mysql/canal"
	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	_ "github.com/go-sql-driver/mysql"
)

const (
	database = "steps_go_replication"
	wait     = 60 * time.Second
)

func setting(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set; run through tests/clients/run.py", name)
	}
	return value
}

func address(t *testing.T) (string, uint16) {
	t.Helper()
	port, err := strconv.ParseUint(setting(t, "CLIENTS_MYSQL_PORT"), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return setting(t, "CLIENTS_MYSQL_HOST"), uint16(port)
}

// fresh creates a database with the tables of the tests.
func fresh(t *testing.T) *sql.DB {
	t.Helper()
	host, port := address(t)
	db, err := sql.Open("mysql", fmt.Sprintf("root@tcp(%s:%d)/", host, port))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	create(t, db)
	return db
}

// create makes the tables over the only connection of a pool.
func create(t *testing.T, db *sql.DB) {
	t.Helper()
	run(t, db,
		"DROP DATABASE IF EXISTS "+database,
		"CREATE DATABASE "+database,
		"USE "+database,
		"CREATE TABLE parents (id INT PRIMARY KEY, n BIGINT, v VARCHAR(40))",
		`CREATE TABLE children (id INT PRIMARY KEY, parent INT, v VARCHAR(40),
			FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE ON UPDATE CASCADE)`,
		"CREATE TABLE kv (k VARCHAR(60) PRIMARY KEY, v VARCHAR(60))",
		"ALTER TABLE kv MEMCACHED PREFIX 'gorepl:'",
		`CREATE TABLE types (id INT PRIMARY KEY, a TINYINT UNSIGNED, b BIGINT UNSIGNED, d DECIMAL(20,5), e DOUBLE, f DATE, g TIME(3),
			h DATETIME(6), y YEAR, c CHAR(5), raw VARBINARY(20), big LONGTEXT, en ENUM('a','b'), se SET('x','y','z'), j JSON, bits BIT(11))`,
	)
}

func run(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func value(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	var found string
	if err := db.QueryRow(query).Scan(&found); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return found
}

// load changes rows by SQL and memcached.
func load(t *testing.T, db *sql.DB, rounds int) {
	t.Helper()
	cache := memcache.New(setting(t, "CLIENTS_MEMCACHED_HOST") + ":" + setting(t, "CLIENTS_MEMCACHED_PORT"))
	for n := 1; n <= rounds; n++ {
		run(t, db,
			fmt.Sprintf("INSERT INTO parents VALUES (%d, %d, 'p%d')", n, n, n),
			fmt.Sprintf("INSERT INTO children VALUES (%d, %d, 'c'), (%d, %d, NULL)", n*10, n, n*10+1, n),
			fmt.Sprintf("UPDATE parents SET n = n + 1 WHERE id <= %d", n),
		)
		if n%5 == 0 {
			run(t, db,
				fmt.Sprintf("UPDATE parents SET id = id + 100000 WHERE id = %d", n),
				fmt.Sprintf("DELETE FROM parents WHERE id = %d", n-1))
		}
		key := fmt.Sprintf("gorepl:k%d", n%7)
		if err := cache.Set(&memcache.Item{Key: key, Value: []byte(strconv.Itoa(n))}); err != nil {
			t.Fatal(err)
		}
		if _, err := cache.Increment(key, 3); err != nil {
			t.Fatal(err)
		}
	}
	if err := cache.Delete("gorepl:k1"); err != nil {
		t.Fatal(err)
	}
	run(t, db,
		`INSERT INTO types VALUES (1, 255, 18446744073709551615, -123456789012345.67891, -2.25e100, '2024-02-29', '-838:59:58.999',
			'2024-12-31 23:59:59.123456', 2155, 'abc', X'00FF10', REPEAT('large ', 50000), 'b', 'x,z', '{"a": [1, 2.5, null]}', b'10000000001')`,
		"INSERT INTO types (id) VALUES (2), (3)",
		"UPDATE types SET big = 'small', b = 1 WHERE id = 1",
		"DELETE FROM types WHERE id = 3")
}

// table is a copy of a table: rows by their first column.
type table map[string]string

func shown(row []any) string {
	parts := make([]string, len(row))
	for n, value := range row {
		switch value := value.(type) {
		case nil:
			parts[n] = "NULL"
		case []byte:
			parts[n] = string(value)
		default:
			parts[n] = fmt.Sprint(value)
		}
	}
	return strings.Join(parts, "|")
}

// copies has the tables that a reader has built. An insertion of a row that exists, and a change of one that does not, are errors.
type copies struct {
	sync.Mutex
	tables map[string]table
	errors []string
}

func newCopies() *copies { return &copies{tables: map[string]table{}} }

func (c *copies) change(name, kind string, rows [][]any) {
	c.Lock()
	defer c.Unlock()
	copied := c.tables[name]
	if copied == nil {
		copied = table{}
		c.tables[name] = copied
	}
	fail := func(row []any) { c.errors = append(c.errors, kind+" "+name+": "+shown(row)) }
	remove := func(row []any) {
		key := shown(row[:1])
		if copied[key] != shown(row) {
			fail(row)
		}
		delete(copied, key)
	}
	insert := func(row []any) {
		key := shown(row[:1])
		if _, known := copied[key]; known {
			fail(row)
		}
		copied[key] = shown(row)
	}
	switch kind {
	case "insert":
		for _, row := range rows {
			insert(row)
		}
	case "delete":
		for _, row := range rows {
			remove(row)
		}
	default:
		for n := 0; n+1 < len(rows); n += 2 {
			remove(rows[n])
			insert(rows[n+1])
		}
	}
}

// keys of the rows of a copy, and of the table itself.
func (c *copies) compare(t *testing.T, db *sql.DB) {
	t.Helper()
	c.Lock()
	defer c.Unlock()
	if len(c.errors) > 0 {
		t.Fatalf("%d events do not fit: %v", len(c.errors), c.errors[:min(5, len(c.errors))])
	}
	for name, columns := range map[string]string{
		"parents":  "id, n, v",
		"children": "id, parent, v",
		"kv":       "k, v",
		"types":    "id",
	} {
		rows, err := db.Query(fmt.Sprintf("SELECT CONCAT_WS('|', %s) FROM %s", nullable(columns), name))
		if err != nil {
			t.Fatal(err)
		}
		var wanted []string
		for rows.Next() {
			var row string
			if err := rows.Scan(&row); err != nil {
				t.Fatal(err)
			}
			wanted = append(wanted, row)
		}
		rows.Close()
		var found []string
		for key, row := range c.tables[name] {
			if name == "types" {
				row = key
			}
			found = append(found, row)
		}
		sort.Strings(wanted)
		sort.Strings(found)
		if strings.Join(found, "\n") != strings.Join(wanted, "\n") {
			t.Errorf("%s:\n%v\ninstead of\n%v", name, found, wanted)
		}
	}
}

func nullable(columns string) string {
	parts := strings.Split(columns, ", ")
	for n, column := range parts {
		parts[n] = "IFNULL(" + column + ", 'NULL')"
	}
	return strings.Join(parts, ", ")
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func syncer(t *testing.T, id uint32) *replication.BinlogSyncer {
	t.Helper()
	host, port := address(t)
	reader := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: id, Flavor: "mysql", Host: host, Port: port, User: "root", Charset: "utf8mb4",
		HeartbeatPeriod: time.Second, VerifyChecksum: true, Logger: quiet(),
	})
	t.Cleanup(reader.Close)
	return reader
}

// kinds of the changes in events of rows.
var kinds = map[replication.EventType]string{
	replication.WRITE_ROWS_EVENTv2:  "insert",
	replication.UPDATE_ROWS_EVENTv2: "update",
	replication.DELETE_ROWS_EVENTv2: "delete",
}

// follow applies events until the statement that ends the test.
func follow(t *testing.T, stream *replication.BinlogStreamer, copied *copies, end string) (gtids []string) {
	t.Helper()
	deadline, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for {
		event, err := stream.GetEvent(deadline)
		if err != nil {
			t.Fatal(err)
		}
		switch body := event.Event.(type) {
		case *replication.GTIDEvent:
			next, err := body.GTIDNext()
			if err != nil {
				t.Fatal(err)
			}
			gtids = append(gtids, next.String())
		case *replication.RowsEvent:
			if string(body.Table.Schema) != database {
				continue
			}
			copied.change(string(body.Table.Table), kinds[event.Header.EventType], body.Rows)
		case *replication.QueryEvent:
			if strings.Contains(string(body.Query), end) {
				return gtids
			}
		}
	}
}

// place returns the end of the log.
func place(t *testing.T, db *sql.DB) mysql.Position {
	t.Helper()
	var file, none string
	var position uint32
	if err := db.QueryRow("SHOW BINARY LOG STATUS").Scan(&file, &position, &none, &none, &none); err != nil {
		t.Fatal(err)
	}
	return mysql.Position{Name: file, Pos: position}
}

func TestASyncerByPositionAndByGtidsGetsEveryChangeOnce(t *testing.T) {
	db := fresh(t)
	begin := place(t, db)
	executed, err := mysql.ParseGTIDSet("mysql", value(t, db, "SELECT @@gtid_executed"))
	if err != nil {
		t.Fatal(err)
	}
	load(t, db, 25)
	run(t, db, "FLUSH BINARY LOGS", "CREATE TABLE the_end (id INT)")
	byPosition, byGtids := newCopies(), newCopies()
	stream, err := syncer(t, 901).StartSync(begin)
	if err != nil {
		t.Fatal(err)
	}
	first := follow(t, stream, byPosition, "the_end")
	byPosition.compare(t, db)
	stream, err = syncer(t, 902).StartSyncGTID(executed)
	if err != nil {
		t.Fatal(err)
	}
	second := follow(t, stream, byGtids, "the_end")
	byGtids.compare(t, db)
	if strings.Join(first, ",") != strings.Join(second, ",") {
		t.Errorf("by position %v, by GTIDs %v", first, second)
	}
	seen := map[string]bool{}
	for _, gtid := range first {
		if seen[gtid] {
			t.Errorf("%s came twice", gtid)
		}
		seen[gtid] = true
	}
}

// handler of canal: keeps copies, and the end.
type handler struct {
	canal.DummyEventHandler
	copied *copies
	done   chan struct{}
	once   sync.Once
}

func (h *handler) OnRow(event *canal.RowsEvent) error {
	if event.Table.Schema != database {
		return nil
	}
	if event.Table.Name == "marks" {
		h.once.Do(func() { close(h.done) })
		return nil
	}
	h.copied.change(event.Table.Name, event.Action, event.Rows)
	return nil
}

func (h *handler) String() string { return "copies" }

func TestCanalFollowsAMixedLoad(t *testing.T) {
	db := fresh(t)
	run(t, db, "CREATE TABLE marks (id INT PRIMARY KEY)")
	host, port := address(t)
	config := canal.NewDefaultConfig()
	config.Addr, config.User, config.Password = fmt.Sprintf("%s:%d", host, port), "root", ""
	config.Dump.ExecutionPath = ""
	config.ServerID, config.Logger = 903, quiet()
	config.IncludeTableRegex = []string{database + `\..*`}
	follower, err := canal.NewCanal(config)
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	copied := &handler{copied: newCopies(), done: make(chan struct{})}
	follower.SetEventHandler(copied)
	begin := place(t, db)
	failed := make(chan error, 1)
	go func() { failed <- follower.RunFrom(begin) }()
	load(t, db, 25)
	run(t, db,
		"ALTER TABLE parents ADD COLUMN extra INT",
		"INSERT INTO parents VALUES (5000, 1, 'later', 7)",
		"DELETE FROM parents WHERE id = 5000",
		"ALTER TABLE parents DROP COLUMN extra",
		"INSERT INTO marks VALUES (1)")
	select {
	case <-copied.done:
	case err := <-failed:
		t.Fatal(err)
	case <-time.After(wait):
		t.Fatal("canal has not reached the end of the log")
	}
	copied.copied.compare(t, db)
}
