package main

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/testutils"
)

// faults is what the control port sets and the store obeys.
type faults struct {
	mu             sync.Mutex
	latency        time.Duration  // before every request to the store
	secondaryDelay time.Duration  // before the commit of secondary keys
	dropCommits    int            // so many commits are applied and not answered
	refuse         map[string]int // method -> so many requests are refused unapplied
}

func (f *faults) delay() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latency
}

func (f *faults) refuseNext(method string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse[method] <= 0 {
		return false
	}
	f.refuse[method]--
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

func (f *faults) secondariesWait() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.secondaryDelay
}

// control serves the test commands. Every command answers 200 and one line.
//
//	POST /forget-pessimistic-locks     all pessimistic locks vanish, as after a leader change
//	POST /drop-commit-answers?n=N      the next N commits are applied but not answered
//	POST /delay-secondaries?ms=N       commits of secondary keys wait
//	POST /latency?ms=N                 every request to the store waits
//	POST /refuse?method=KvGet&n=N      the next N such requests fail, unapplied
//	POST /split?key=HEX                a new region begins at the key, on the last store
//	POST /advance-clock?ms=N           timestamps jump ahead, so that locks expire
//	POST /forget-lock?key=HEX          one lock vanishes, of whatever kind
//	POST /reset                        no faults any more
//	GET  /locks                        one line a lock: key in hex, kind, start timestamp
//	GET  /counts                       one line a method: calls so far
func control(f *faults, kv *kvServer, cluster *testutils.MockCluster, stores int) http.Handler {
	number := func(r *http.Request, name string) int {
		n, _ := strconv.Atoi(r.FormValue(name))
		return n
	}
	set := func(change func(r *http.Request)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			change(r)
			f.mu.Unlock()
			fmt.Fprintln(w, "ok")
		}
	}
	m := http.NewServeMux()
	m.HandleFunc("POST /drop-commit-answers", set(func(r *http.Request) { f.dropCommits = number(r, "n") }))
	m.HandleFunc("POST /delay-secondaries", set(func(r *http.Request) {
		f.secondaryDelay = time.Duration(number(r, "ms")) * time.Millisecond
	}))
	m.HandleFunc("POST /latency", set(func(r *http.Request) {
		f.latency = time.Duration(number(r, "ms")) * time.Millisecond
	}))
	m.HandleFunc("POST /refuse", set(func(r *http.Request) { f.refuse[r.FormValue("method")] = number(r, "n") }))
	m.HandleFunc("POST /reset", set(func(*http.Request) {
		f.latency, f.secondaryDelay, f.dropCommits, f.refuse = 0, 0, 0, map[string]int{}
	}))
	m.HandleFunc("POST /forget-pessimistic-locks", func(w http.ResponseWriter, _ *http.Request) {
		kv.write.Lock()
		defer kv.write.Unlock()
		n := 0
		allLocks(kv.cli.MvccStore, func(key []byte, l *lockRecord) {
			if l.op == kvrpcpb.Op_PessimisticLock {
				table(kv.cli.MvccStore).RawDelete("", lockKey(key))
				n++
			}
		})
		fmt.Fprintln(w, n)
	})
	m.HandleFunc("POST /advance-clock", func(w http.ResponseWriter, r *http.Request) {
		kv.tso.mu.Lock()
		kv.tso.ahead += int64(number(r, "ms"))
		kv.tso.mu.Unlock()
		fmt.Fprintln(w, "ok")
	})
	m.HandleFunc("POST /forget-lock", func(w http.ResponseWriter, r *http.Request) {
		key, err := hex.DecodeString(r.FormValue("key"))
		if err != nil {
			http.Error(w, "key: hex digits expected", http.StatusBadRequest)
			return
		}
		kv.write.Lock()
		table(kv.cli.MvccStore).RawDelete("", lockKey(key))
		kv.write.Unlock()
		fmt.Fprintln(w, "ok")
	})
	m.HandleFunc("POST /split", func(w http.ResponseWriter, r *http.Request) {
		key, err := hex.DecodeString(r.FormValue("key"))
		if err != nil || len(key) == 0 {
			http.Error(w, "key: hex digits expected", http.StatusBadRequest)
			return
		}
		region, _, _ := cluster.GetRegionByKey(encoded(key))
		id, peers := cluster.AllocID(), cluster.AllocIDs(stores)
		cluster.Split(region.Id, id, key, peers, peers[len(peers)-1])
		fmt.Fprintln(w, id)
	})
	m.HandleFunc("GET /locks", func(w http.ResponseWriter, _ *http.Request) {
		allLocks(kv.cli.MvccStore, func(key []byte, l *lockRecord) {
			fmt.Fprintf(w, "%x %v %d\n", key, l.op, l.startTS)
		})
	})
	m.HandleFunc("GET /counts", func(w http.ResponseWriter, _ *http.Request) { printCounts(w) })
	return m
}
