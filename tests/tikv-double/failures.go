package main

import (
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
)

// processes are the parts of the cluster that can die.
type processes struct {
	pds, stores []*process
}

// hook is called once, just before a request is executed.
type hook func()

// before runs the hook of a method.
func (f *faults) before(method string) {
	f.mu.Lock()
	h := f.hooks[method]
	delete(f.hooks, method)
	f.mu.Unlock()
	if h != nil {
		h()
	}
}

// late returns the time by which the answer to a request is delayed.
func (f *faults) late(method string) time.Duration {
	if !f.next(f.lateAnswers, method) {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lateness
}

// answers returns the number of times that each answer is sent.
func (f *faults) answers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.duplicate {
		return 2
	}
	return 1
}

// undeterminedNext returns the refusal for a request that has committed, if its answer is to be that its outcome is
// undetermined. The field of the refusal has number 22, and is newer than the messages used here.
func (f *faults) undeterminedNext() *errorpb.Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.undetermined <= 0 {
		return nil
	}
	f.undetermined--
	return &errorpb.Error{Message: "undetermined by command", XXX_unrecognized: []byte{0xb2, 0x01, 0x00}}
}

// isFull reports whether a store refuses to write.
func (f *faults) isFull(store int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.full[store]
}

// elect ends the leadership of placement driver i; the next one leads after a while. Until then there is no leader.
func (p *placementDrivers) elect(i int, after time.Duration) {
	p.mu.Lock()
	leads := p.leader == i
	if leads {
		p.leader = -1
	}
	p.mu.Unlock()
	if leads {
		time.AfterFunc(after, func() {
			p.mu.Lock()
			p.leader = (i + 1) % len(p.addresses)
			p.mu.Unlock()
		})
	}
}

// controlFailures adds the commands about processes, and those in the middle of a request.
//
//	POST /kill-store?n=N&elect=MS      the store (from 0) dies; after a while the next one leads its regions
//	POST /full-store?n=N&on=1          the store refuses to write
//	POST /kill-pd?n=N&elect=MS         the placement driver (from 0) dies; after a while the next one leads
//	POST /depose-pd?n=N&elect=MS       it is cut off from the others: it no longer leads, and no other one does for a while
//	POST /restart-pds?ms=N             all placement drivers die, and start after a while
//	POST /late-answers?method=M&n=N&ms=T  the next N such requests are executed and answered after that time
//	POST /duplicate-answers?on=1       each answer is sent twice
//	POST /before?method=M&do=split|merge|lead&key=HEX&store=N  just before the next such request is executed
func controlFailures(m *http.ServeMux, f *faults, c *cluster, pds *placementDrivers, all *processes) {
	number := func(r *http.Request, name string) int {
		n, _ := strconv.Atoi(r.FormValue(name))
		return n
	}
	ms := func(r *http.Request, name string) time.Duration {
		return time.Duration(number(r, name)) * time.Millisecond
	}
	command := func(path string, run func(r *http.Request)) {
		m.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			run(r)
			_, _ = w.Write([]byte("ok\n"))
		})
	}
	command("/kill-store", func(r *http.Request) {
		n := number(r, "n")
		all.stores[n].kill()
		time.AfterFunc(ms(r, "elect"), func() { c.lead((n+1)%len(c.stores), nil, n) })
	})
	command("/full-store", func(r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.full[number(r, "n")] = number(r, "on") > 0
	})
	command("/kill-pd", func(r *http.Request) {
		n := number(r, "n")
		all.pds[n].kill()
		pds.elect(n, ms(r, "elect"))
	})
	command("/depose-pd", func(r *http.Request) { pds.elect(number(r, "n"), ms(r, "elect")) })
	command("/restart-pds", func(r *http.Request) {
		for _, p := range all.pds {
			p.kill()
		}
		time.AfterFunc(ms(r, "ms"), func() {
			for _, p := range all.pds {
				p.start()
			}
		})
	})
	command("/late-answers", func(r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lateAnswers[r.FormValue("method")], f.lateness = number(r, "n"), ms(r, "ms")
	})
	command("/duplicate-answers", func(r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.duplicate = number(r, "on") > 0
	})
	command("/before", func(r *http.Request) {
		key, _ := hex.DecodeString(r.FormValue("key"))
		store := number(r, "store")
		what := map[string]hook{
			"split": func() { c.split(key) },
			"merge": func() { c.merge(key) },
			"lead":  func() { c.lead(store, key, -1) },
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.hooks[r.FormValue("method")] = what[r.FormValue("do")]
	})
}
