package main

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

var (
	countMu sync.Mutex
	counts  = map[string]int{}
)

func count(name string) {
	countMu.Lock()
	counts[name]++
	countMu.Unlock()
}

// faults is what the control port sets and the stores obey.
type faults struct {
	mu             sync.Mutex
	latency        time.Duration  // before every request to a store
	pdLatency      time.Duration  // before every request to a placement driver
	secondaryDelay time.Duration  // before the commit of secondary keys
	dropCommits    int            // so many requests that commit are applied and not answered
	undetermined   int            // so many requests that commit are applied, and answered as if the store did not know
	refuse         map[string]int // method -> so many requests are not executed: the connection ends
	busy           map[string]int // method -> so many requests are refused because the server is busy
	decline        bool           // no one-phase and no asynchronous commit
	stopped        map[int]chan struct{}
	hooks          map[string]hook // method -> hook before its next request
	lateAnswers    map[string]int  // method -> number of requests that are answered late
	lateness       time.Duration
	duplicate      bool // each answer is sent twice
	full           map[int]bool
}

func newFaults() *faults {
	return &faults{
		refuse: map[string]int{}, busy: map[string]int{}, stopped: map[int]chan struct{}{},
		hooks: map[string]hook{}, lateAnswers: map[string]int{}, full: map[int]bool{},
	}
}

func (f *faults) delay() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latency
}

func (f *faults) pdDelay() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pdLatency
}

func (f *faults) next(from map[string]int, method string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if from[method] <= 0 {
		return false
	}
	from[method]--
	return true
}

func (f *faults) dropNextCommit() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dropCommits <= 0 {
		return false
	}
	f.dropCommits--
	return true
}

func (f *faults) declines() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.decline
}

func (f *faults) secondariesWait() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.secondaryDelay
}

// wait waits while a store is stopped.
func (f *faults) wait(store int) {
	f.mu.Lock()
	stopped := f.stopped[store]
	f.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
}

// control serves the test commands. Every command answers 200 and one line.
//
//	POST /forget-pessimistic-locks     all pessimistic locks vanish, as after a leader change
//	POST /drop-commit-answers?n=N      the next N requests that commit are applied; their connection ends unanswered
//	POST /undetermined-commits?n=N     the next N requests that commit are applied; the answer says that the outcome is undetermined
//	POST /delay-secondaries?ms=N       commits of secondary keys wait
//	POST /latency?ms=N&us=N            every request to a store waits
//	POST /pd-latency?ms=N&us=N         every request to a placement driver waits
//	POST /refuse?method=KvGet&n=N      the next N such requests end their connection, unapplied
//	POST /busy?method=KvGet&n=N        the next N such requests are refused because the server is busy
//	POST /decline?on=1                 no one-phase and no asynchronous commit
//	POST /split?key=HEX                a new region begins at the key, on the last store
//	POST /merge?key=HEX                the key's region takes over the next one
//	POST /lead?key=HEX&store=N         the store (from 0) leads the key's region
//	POST /stop-store?n=N&elect=MS      the store (from 0) answers nothing; after a while the next one leads its regions
//	POST /stop-pd?n=N&elect=MS&behind=MS  the placement driver (from 0) answers nothing; after a while the next one leads,
//	                                   and the other members learn of it after another while
//	POST /store-version?n=N&v=VERSION  the store (from 0) is of this release
//	POST /advance-clock?ms=N           timestamps jump ahead, so that locks expire
//	POST /forget-lock?key=HEX          one lock vanishes, of whatever kind
//	POST /write?key=HEX                another program writes a key
//	GET  /versions?key=HEX             number of versions of keys with the prefix
//	GET  /missed-locks                 locks that existed when the safe point passed their transactions
//	POST /reset                        no faults any more
//	GET  /locks                        one line a lock: key in hex, kind, start timestamp
//	GET  /counts                       one line a method: calls so far
func control(f *faults, db *mvcc, c *cluster, pds *placementDrivers, all *processes) http.Handler {
	number := func(r *http.Request, name string) int {
		n, _ := strconv.Atoi(r.FormValue(name))
		return n
	}
	ms := func(r *http.Request, name string) time.Duration {
		return time.Duration(number(r, name)) * time.Millisecond
	}
	m := http.NewServeMux()
	controlFailures(m, f, c, pds, all)
	set := func(path string, change func(r *http.Request)) {
		m.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			change(r)
			f.mu.Unlock()
			fmt.Fprintln(w, "ok")
		})
	}
	keyed := func(path string, change func(r *http.Request, key []byte) any) {
		m.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			key, err := hex.DecodeString(r.FormValue("key"))
			if err != nil {
				http.Error(w, "key: hex digits expected", http.StatusBadRequest)
				return
			}
			fmt.Fprintln(w, change(r, key))
		})
	}
	set("/drop-commit-answers", func(r *http.Request) { f.dropCommits = number(r, "n") })
	set("/undetermined-commits", func(r *http.Request) { f.undetermined = number(r, "n") })
	set("/delay-secondaries", func(r *http.Request) { f.secondaryDelay = ms(r, "ms") })
	wait := func(r *http.Request) time.Duration {
		return ms(r, "ms") + time.Duration(number(r, "us"))*time.Microsecond
	}
	set("/latency", func(r *http.Request) { f.latency = wait(r) })
	set("/pd-latency", func(r *http.Request) { f.pdLatency = wait(r) })
	set("/refuse", func(r *http.Request) { f.refuse[r.FormValue("method")] = number(r, "n") })
	set("/busy", func(r *http.Request) { f.busy[r.FormValue("method")] = number(r, "n") })
	set("/decline", func(r *http.Request) { f.decline = number(r, "on") > 0 })
	set("/stop-store", func(r *http.Request) {
		n := number(r, "n")
		f.stopped[n] = make(chan struct{})
		time.AfterFunc(ms(r, "elect"), func() { c.lead((n+1)%len(c.stores), nil, n) })
	})
	set("/store-version", func(r *http.Request) { c.setVersion(number(r, "n"), r.FormValue("v")) })
	set("/stop-pd", func(r *http.Request) { pds.stop(number(r, "n"), ms(r, "elect"), ms(r, "behind")) })
	set("/reset", func(*http.Request) {
		f.latency, f.pdLatency, f.secondaryDelay, f.dropCommits, f.decline = 0, 0, 0, 0, false
		f.undetermined = 0
		f.refuse, f.busy = map[string]int{}, map[string]int{}
		f.hooks, f.lateAnswers, f.full, f.duplicate = map[string]hook{}, map[string]int{}, map[int]bool{}, false
		for i, stopped := range f.stopped {
			close(stopped)
			delete(f.stopped, i)
		}
		pds.resume()
	})
	keyed("/forget-lock", func(_ *http.Request, key []byte) any { db.forget(key); return "ok" })
	keyed("/split", func(_ *http.Request, key []byte) any { return c.split(key) })
	keyed("/merge", func(_ *http.Request, key []byte) any { c.merge(key); return "ok" })
	keyed("/lead", func(r *http.Request, key []byte) any { c.lead(number(r, "store"), key, -1); return "ok" })
	keyed("/write", func(_ *http.Request, key []byte) any { db.write(key); return "ok" })
	m.HandleFunc("GET /versions", func(w http.ResponseWriter, r *http.Request) {
		prefix, _ := hex.DecodeString(r.FormValue("key"))
		fmt.Fprintln(w, db.versions(prefix))
	})
	m.HandleFunc("GET /missed-locks", func(w http.ResponseWriter, _ *http.Request) {
		db.mu.Lock()
		defer db.mu.Unlock()
		fmt.Fprintln(w, db.locksMissed)
	})
	m.HandleFunc("POST /forget-pessimistic-locks", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, db.forgetPessimistic())
	})
	m.HandleFunc("POST /advance-clock", func(w http.ResponseWriter, r *http.Request) {
		db.tso.mu.Lock()
		db.tso.ahead += int64(number(r, "ms"))
		db.tso.mu.Unlock()
		fmt.Fprintln(w, "ok")
	})
	m.HandleFunc("GET /locks", func(w http.ResponseWriter, _ *http.Request) {
		db.eachLock(func(key []byte, l *lock) { fmt.Fprintf(w, "%x %v %d\n", key, kvrpcpb.Op(l.op), l.startTS) })
	})
	m.HandleFunc("GET /counts", func(w http.ResponseWriter, _ *http.Request) {
		countMu.Lock()
		defer countMu.Unlock()
		for k, v := range counts {
			fmt.Fprintf(w, "%d %s\n", v, k)
		}
	})
	return m
}
