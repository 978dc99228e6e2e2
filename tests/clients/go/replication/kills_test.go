package replication

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/go-mysql-org/go-mysql/canal"
	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

const patience = 2 * time.Minute

// server runs on fixed ports, and can be killed and started again.
type server struct {
	t                *testing.T
	mysql, memcached int
	data             string
	process          *exec.Cmd
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func (s *server) start() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.data, "..", "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.process = exec.Command(setting(s.t, "CLIENTS_BINARY"), "serve", "--data-dir", s.data, "--log-bin", "--server-id", "78",
		"--mysql-listen", fmt.Sprintf("127.0.0.1:%d", s.mysql), "--memcached-listen", fmt.Sprintf("127.0.0.1:%d", s.memcached),
		"--http-listen", "127.0.0.1:0")
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	until(s.t, "the server", func() bool {
		connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.mysql))
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
}

func (s *server) kill() {
	s.process.Process.Kill()
	s.process.Wait()
}

// open connects to the database; each statement has a time limit.
func (s *server) open() *sql.DB {
	s.t.Helper()
	source := fmt.Sprintf("root@tcp(127.0.0.1:%d)/%s?timeout=2s&readTimeout=20s", s.mysql, database)
	db, err := sql.Open("mysql", source)
	if err != nil {
		s.t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	s.t.Cleanup(func() { db.Close() })
	return db
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come in time", what)
		}
	}
}

// writes until it is stopped, by SQL and memcached; what fails, because the server is away, is left out.
type writes struct {
	stop  atomic.Bool
	done  atomic.Int64
	ended sync.WaitGroup
}

func write(s *server) *writes {
	w := &writes{}
	db := s.open()
	cache := memcache.New(fmt.Sprintf("127.0.0.1:%d", s.memcached))
	cache.Timeout = 10 * time.Second
	random := rand.New(rand.NewSource(5))
	w.ended.Add(1)
	go func() {
		defer w.ended.Done()
		for !w.stop.Load() {
			if w.step(db, cache, random) != nil {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			w.done.Add(1)
		}
	}()
	return w
}

func (w *writes) step(db *sql.DB, cache *memcache.Client, random *rand.Rand) error {
	a, b := random.Intn(40), random.Intn(40)
	switch random.Intn(8) {
	case 0, 1:
		return execute(db, fmt.Sprintf("REPLACE INTO parents VALUES (%d, %d, 'p')", a, b))
	case 2:
		return execute(db, fmt.Sprintf("INSERT IGNORE INTO children SELECT %d, MIN(id), 'c' FROM parents WHERE id >= %d", a*40+b, b))
	case 3:
		return execute(db, fmt.Sprintf("UPDATE IGNORE parents SET id = %d, n = n + 1 WHERE id = %d", a, b))
	case 4:
		return execute(db, fmt.Sprintf("DELETE FROM parents WHERE id = %d", a))
	case 5:
		return cache.Set(&memcache.Item{Key: fmt.Sprintf("gorepl:k%d", a), Value: []byte(fmt.Sprint(b))})
	case 6:
		_, err := cache.Increment(fmt.Sprintf("gorepl:k%d", a), 1)
		if err == memcache.ErrCacheMiss {
			return nil
		}
		return err
	}
	transaction, err := db.Begin()
	if err != nil {
		return err
	}
	for n := 0; n < 5; n++ {
		if _, err := transaction.Exec(fmt.Sprintf("REPLACE INTO parents VALUES (%d, %d, 't')", (a+n)%40, b)); err != nil {
			transaction.Rollback()
			return err
		}
	}
	return transaction.Commit()
}

func execute(db *sql.DB, statement string) error {
	_, err := db.Exec(statement)
	return err
}

func (w *writes) more(t *testing.T) {
	t.Helper()
	before := w.done.Load()
	until(t, "more writes", func() bool { return w.done.Load() > before+150 })
}

// change of rows, which is applied with its transaction.
type change struct {
	table, kind string
	rows        [][]any
}

func (c *copies) all(changes []change) {
	for _, change := range changes {
		c.change(change.table, change.kind, change.rows)
	}
}

// follower is a reader that can be given up, and begins again behind the last complete transaction.
type follower struct {
	*copies
	opened       int
	stops, ended atomic.Bool
	giveUp       chan struct{}
	gone         chan struct{}
}

func newFollower() *follower {
	return &follower{copies: newCopies(), giveUp: make(chan struct{}, 1), gone: make(chan struct{})}
}

// follow opens readers until it is stopped. `once` returns when its reader has failed, or its context ends.
func (f *follower) follow(once func(context.Context)) {
	defer close(f.gone)
	for !f.stops.Load() {
		reader, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			select {
			case <-f.giveUp:
			case <-ended:
			}
			cancel()
		}()
		f.opened++
		once(reader)
		close(ended)
		time.Sleep(20 * time.Millisecond)
	}
}

func (f *follower) end() {
	f.stops.Store(true)
	select {
	case f.giveUp <- struct{}{}:
	default:
	}
	<-f.gone
}

// bySyncer follows with a BinlogSyncer by GTIDs.
func (f *follower) bySyncer(t *testing.T, s *server) {
	executed, err := mysql.ParseMysqlGTIDSet("")
	if err != nil {
		t.Error(err)
		return
	}
	f.follow(func(reader context.Context) {
		syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
			ServerID: 911, Flavor: "mysql", Host: "127.0.0.1", Port: uint16(s.mysql), User: "root", Charset: "utf8mb4",
			HeartbeatPeriod: time.Second, ReadTimeout: 5 * time.Second, VerifyChecksum: true, Logger: quiet(),
		})
		defer syncer.Close()
		stream, err := syncer.StartSyncGTID(executed.Clone())
		if err != nil {
			return
		}
		var gtid mysql.GTIDSet
		var changes []change
		for {
			event, err := stream.GetEvent(reader)
			if err != nil {
				return
			}
			isEnd := event.Header.EventType == replication.XID_EVENT
			switch body := event.Event.(type) {
			case *replication.GTIDEvent:
				if gtid, err = body.GTIDNext(); err != nil {
					t.Error(err)
					return
				}
				changes = nil
			case *replication.RowsEvent:
				if string(body.Table.Schema) == database {
					changes = append(changes, change{string(body.Table.Table), kinds[event.Header.EventType], body.Rows})
				}
			case *replication.QueryEvent:
				isEnd = string(body.Query) != "BEGIN"
			}
			// The library connects again by itself, too, and may repeat what it had sent.
			if isEnd && gtid != nil && !executed.Contain(gtid) {
				f.all(changes)
				if err := executed.Update(gtid.String()); err != nil {
					t.Error(err)
					return
				}
				f.note(changes)
			}
		}
	})
}

// note records the end of the test.
func (f *follower) note(changes []change) {
	for _, change := range changes {
		if change.table == "marks" {
			f.ended.Store(true)
		}
	}
}

// canalHandler applies each transaction at its end, and remembers the position.
type canalHandler struct {
	canal.DummyEventHandler
	f       *follower
	at      *mysql.Position
	changes []change
}

func (h *canalHandler) String() string { return "kills" }

func (h *canalHandler) OnRow(event *canal.RowsEvent) error {
	if event.Table.Schema == database {
		h.changes = append(h.changes, change{event.Table.Name, event.Action, event.Rows})
	}
	return nil
}

func (h *canalHandler) OnXID(_ *replication.EventHeader, next mysql.Position) error {
	h.f.all(h.changes)
	*h.at = next
	h.f.note(h.changes)
	h.changes = nil
	return nil
}

// byCanal follows with canal by position.
func (f *follower) byCanal(t *testing.T, s *server, at mysql.Position) {
	f.follow(func(reader context.Context) {
		config := canal.NewDefaultConfig()
		config.Addr, config.User, config.Password = fmt.Sprintf("127.0.0.1:%d", s.mysql), "root", ""
		config.Dump.ExecutionPath = ""
		config.ServerID, config.Logger = 912, quiet()
		config.HeartbeatPeriod, config.ReadTimeout = time.Second, 5*time.Second
		config.IncludeTableRegex = []string{database + `\..*`}
		opened, err := canal.NewCanal(config)
		if err != nil {
			return
		}
		opened.SetEventHandler(&canalHandler{f: f, at: &at})
		failed := make(chan struct{})
		go func() {
			defer close(failed)
			// A reader that is given up ends with an error, too.
			_ = opened.RunFrom(at)
		}()
		select {
		case <-reader.Done():
		case <-failed:
		}
		opened.Close()
		<-failed
	})
}

func TestSyncerAndCanalFollowThroughKillsOfEitherSide(t *testing.T) {
	s := &server{t: t, mysql: freePort(t), memcached: freePort(t), data: filepath.Join(t.TempDir(), "data")}
	s.start()
	t.Cleanup(func() { s.kill() })
	plain, err := sql.Open("mysql", fmt.Sprintf("root@tcp(127.0.0.1:%d)/", s.mysql))
	if err != nil {
		t.Fatal(err)
	}
	plain.SetMaxOpenConns(1)
	create(t, plain)
	run(t, plain, "CREATE TABLE marks (id INT PRIMARY KEY)")
	begin := place(t, plain)
	plain.Close()
	syncer, canalReader := newFollower(), newFollower()
	go syncer.bySyncer(t, s)
	go canalReader.byCanal(t, s, begin)
	load := write(s)
	for n := 0; n < 3; n++ {
		load.more(t)
		s.kill()
		s.start()
		load.more(t)
		syncer.giveUp <- struct{}{}
		canalReader.giveUp <- struct{}{}
	}
	load.more(t)
	load.stop.Store(true)
	load.ended.Wait()
	db := s.open()
	until(t, "the last write", func() bool { return execute(db, "REPLACE INTO marks VALUES (1)") == nil })
	for name, reader := range map[string]*follower{"syncer": syncer, "canal": canalReader} {
		until(t, "the end of the "+name, func() bool { return reader.ended.Load() || len(reader.failures()) > 0 })
		reader.end()
		if reader.opened < 4 {
			t.Errorf("the %s was opened %d times", name, reader.opened)
		}
		t.Logf("%s: opened %d times", name, reader.opened)
		reader.compare(t, db)
	}
}

func (c *copies) failures() string {
	c.Lock()
	defer c.Unlock()
	return strings.Join(c.errors, "\n")
}
