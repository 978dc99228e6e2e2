package main

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	pb "github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// write is a version of a key, or the record that a transaction ended without
// one (pb.Op_Lock, pb.Op_Rollback).
type write struct {
	commitTS, startTS uint64
	op                pb.Op
	value             []byte
}

type lock struct {
	startTS, ttl, forUpdateTS, minCommitTS, txnSize uint64
	primary, value                                  []byte
	op                                              pb.Op
	async                                           bool
	secondaries                                     [][]byte
}

type entry struct {
	writes []write // newest first
	lock   *lock
}

// mvcc is the data of all stores.
type mvcc struct {
	mu      sync.Mutex
	tso     *tso
	keys    []string // sorted
	data    map[string]*entry
	maxTS   uint64        // highest timestamp of a read: no commit chosen here is at or below it
	changed chan struct{} // closed whenever a lock goes
	waits   waits

	safePoint   uint64 // versions that only reads below it see are gone
	locksMissed int    // locks of older transactions that existed when it was moved
}

func newMvcc(t *tso) *mvcc {
	return &mvcc{tso: t, data: map[string]*entry{}, changed: make(chan struct{}), waits: waits{}}
}

func (d *mvcc) entry(key []byte) *entry {
	e := d.data[string(key)]
	if e == nil {
		e = &entry{}
		d.data[string(key)] = e
		at, _ := slices.BinarySearch(d.keys, string(key))
		d.keys = slices.Insert(d.keys, at, string(key))
	}
	return e
}

func (d *mvcc) unlock(e *entry) {
	e.lock = nil
	close(d.changed)
	d.changed = make(chan struct{})
}

func (e *entry) add(w write) {
	at := slices.IndexFunc(e.writes, func(o write) bool { return o.commitTS <= w.commitTS })
	if at < 0 {
		at = len(e.writes)
	}
	e.writes = slices.Insert(e.writes, at, w)
}

// newest is the highest commit timestamp of the key, or 0.
func (e *entry) newest() uint64 {
	for _, w := range e.writes {
		if w.op != pb.Op_Rollback {
			return w.commitTS
		}
	}
	return 0
}

func (e *entry) of(startTS uint64) *write {
	for i := range e.writes {
		if e.writes[i].startTS == startTS {
			return &e.writes[i]
		}
	}
	return nil
}

func (e *entry) value(ts uint64) []byte {
	for _, w := range e.writes {
		if w.commitTS > ts {
			continue
		}
		switch w.op {
		case pb.Op_Put:
			return w.value
		case pb.Op_Del:
			return nil
		}
	}
	return nil
}

func (l *lock) info(key []byte) *pb.LockInfo {
	return &pb.LockInfo{
		Key: key, PrimaryLock: l.primary, LockVersion: l.startTS, LockTtl: l.ttl, TxnSize: l.txnSize, LockType: l.op,
		LockForUpdateTs: l.forUpdateTS, UseAsyncCommit: l.async, MinCommitTs: l.minCommitTS, Secondaries: l.secondaries,
	}
}

func (d *mvcc) eachLock(f func(key []byte, l *lock)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range d.keys {
		if l := d.data[k].lock; l != nil {
			f([]byte(k), l)
		}
	}
}

func (d *mvcc) forget(key []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unlock(d.entry(key))
}

func (d *mvcc) forgetPessimistic() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, e := range d.data {
		if e.lock != nil && e.lock.op == pb.Op_PessimisticLock {
			d.unlock(e)
			n++
		}
	}
	return n
}

func physical(ts uint64) uint64 { return ts >> 18 }

// ---------------------------------------------------------------- reads

// read returns the value at ts, or the lock that is in the way.
func (d *mvcc) read(key []byte, ts uint64, k *pb.Context) ([]byte, *pb.KeyError) {
	if ts != math.MaxUint64 {
		d.tso.check(ts, "read")
		d.maxTS = max(d.maxTS, ts)
	}
	e := d.data[string(key)]
	if e == nil {
		return nil, nil
	}
	l := e.lock
	if l == nil || l.startTS > ts || (l.op != pb.Op_Put && l.op != pb.Op_Del) || l.minCommitTS > ts ||
		slices.Contains(k.GetResolvedLocks(), l.startTS) ||
		(ts == math.MaxUint64 && bytes.Equal(key, l.primary) && !l.async) {
		return e.value(ts), nil
	}
	if slices.Contains(k.GetCommittedLocks(), l.startTS) {
		return l.value, nil
	}
	return nil, &pb.KeyError{Locked: l.info(key)}
}

func (d *mvcc) scan(r *pb.ScanRequest, low, high []byte) []*pb.KvPair {
	from, to := string(low), string(high)
	if r.Reverse {
		from = max(from, string(r.EndKey))
		to = lower(to, string(r.StartKey))
	} else {
		from = max(from, string(r.StartKey))
		to = lower(to, string(r.EndKey))
	}
	if r.Version != math.MaxUint64 {
		d.maxTS = max(d.maxTS, r.Version) // also where there is nothing to read
	}
	begin, _ := slices.BinarySearch(d.keys, from)
	end := len(d.keys)
	if to != "" {
		end, _ = slices.BinarySearch(d.keys, to)
	}
	var out []*pb.KvPair
	for i := begin; i < end && len(out) < int(r.Limit); i++ {
		key := d.keys[i]
		if r.Reverse {
			key = d.keys[begin+end-1-i]
		}
		v, e := d.read([]byte(key), r.Version, r.Context)
		if e != nil {
			out = append(out, &pb.KvPair{Error: e})
		} else if v != nil {
			if r.KeyOnly {
				v = nil
			}
			out = append(out, &pb.KvPair{Key: []byte(key), Value: v})
		}
	}
	return out
}

// lower is the lower of two ends, of which an empty one is the end of all keys.
func lower(a, b string) string {
	if a == "" || (b != "" && b < a) {
		return b
	}
	return a
}

// ---------------------------------------------------------------- pessimistic locks

// lockOnce takes all locks of a request, or none.
func (d *mvcc) lockOnce(r *pb.PessimisticLockRequest) *pb.PessimisticLockResponse {
	out := &pb.PessimisticLockResponse{}
	force := r.WakeUpMode == pb.PessimisticLockWakeUpMode_WakeUpModeForceLock
	if force && len(r.Mutations) != 1 {
		out.Errors = append(out.Errors, &pb.KeyError{Abort: "force lock of several keys"})
		return out
	}
	conflictTS := uint64(0)
	for _, m := range r.Mutations {
		e := d.entry(m.Key)
		if l := e.lock; l != nil && l.startTS != r.StartVersion {
			out.Errors = append(out.Errors, &pb.KeyError{Locked: l.info(m.Key)})
		} else if l != nil && l.op != pb.Op_PessimisticLock {
			out.Errors = append(out.Errors, &pb.KeyError{Abort: "lock type does not match"})
		} else if w := e.of(r.StartVersion); w != nil && l == nil {
			out.Errors = append(out.Errors, &pb.KeyError{Abort: "the transaction has ended: " + w.op.String()})
		} else if newest := e.newest(); newest > r.ForUpdateTs && l == nil {
			conflictTS = newest
			if !force {
				out.Errors = append(out.Errors, &pb.KeyError{Conflict: &pb.WriteConflict{
					StartTs: r.StartVersion, ConflictTs: newest, ConflictCommitTs: newest, Key: m.Key, Primary: r.PrimaryLock,
				}})
			}
		}
	}
	if len(out.Errors) > 0 {
		return out
	}
	for _, m := range r.Mutations {
		e := d.entry(m.Key)
		if e.lock == nil {
			e.lock = &lock{startTS: r.StartVersion, primary: r.PrimaryLock, op: pb.Op_PessimisticLock, minCommitTS: r.MinCommitTs}
		}
		e.lock.ttl = max(e.lock.ttl, r.LockTtl)
		e.lock.forUpdateTS = max(e.lock.forUpdateTS, r.ForUpdateTs, conflictTS)
		v := e.value(math.MaxUint64)
		if force {
			out.Results = append(out.Results, &pb.PessimisticLockKeyResult{Value: v, Existence: v != nil, LockedWithConflictTs: conflictTS})
		} else {
			out.Values, out.NotFounds = append(out.Values, v), append(out.NotFounds, v == nil)
		}
	}
	return out
}

// lock waits as TiKV's lock manager does: at most a second.
func (d *mvcc) lock(r *pb.PessimisticLockRequest) *pb.PessimisticLockResponse {
	wait := time.Second
	if r.WaitTimeout > 0 {
		wait = min(wait, time.Duration(r.WaitTimeout)*time.Millisecond)
	}
	end := time.After(wait)
	for {
		d.mu.Lock()
		out := d.lockOnce(r)
		var edges []uint64
		for _, e := range out.Errors {
			if e.Locked != nil {
				edges = append(edges, e.Locked.LockVersion)
			}
		}
		if len(edges) == 0 || r.WaitTimeout < 0 {
			d.mu.Unlock()
			return out
		}
		cycle := d.waits.add(r.StartVersion, edges)
		changed := d.changed
		d.mu.Unlock()
		if cycle != 0 {
			return &pb.PessimisticLockResponse{Errors: []*pb.KeyError{{Deadlock: &pb.Deadlock{LockTs: cycle}}}}
		}
		late := false
		select {
		case <-changed:
		case <-end:
			late = true
		}
		d.mu.Lock()
		d.waits.remove(r.StartVersion, edges)
		d.mu.Unlock()
		if late {
			return out
		}
	}
}

func (d *mvcc) pessimisticRollback(r *pb.PessimisticRollbackRequest) {
	for _, k := range r.Keys {
		e := d.data[string(k)]
		if e != nil && e.lock != nil && e.lock.op == pb.Op_PessimisticLock && e.lock.startTS == r.StartVersion &&
			e.lock.forUpdateTS <= r.ForUpdateTs {
			d.unlock(e)
		}
	}
}

// ---------------------------------------------------------------- commit

// prewriteCheck returns why a key cannot be prewritten, and the commit
// timestamp if the transaction is committed already.
func (d *mvcc) prewriteCheck(r *pb.PrewriteRequest, i int) (*pb.KeyError, uint64) {
	m := r.Mutations[i]
	e := d.entry(m.Key)
	l := e.lock
	action := pb.PrewriteRequest_DO_CONSTRAINT_CHECK
	if r.ForUpdateTs > 0 && i < len(r.PessimisticActions) {
		action = r.PessimisticActions[i]
	}
	checked := action == pb.PrewriteRequest_DO_PESSIMISTIC_CHECK
	skipped := action == pb.PrewriteRequest_SKIP_PESSIMISTIC_CHECK && !r.Context.GetIsRetryRequest()
	gone := &pb.KeyError{Abort: "PessimisticLockNotFound"}
	if l != nil && l.startTS != r.StartVersion {
		if checked {
			return gone, 0
		}
		return &pb.KeyError{Locked: l.info(m.Key)}, 0
	}
	if l != nil {
		return nil, 0
	}
	if w := e.of(r.StartVersion); w != nil && w.op != pb.Op_Rollback {
		return nil, w.commitTS
	} else if w != nil {
		if checked {
			return gone, 0
		}
		if !skipped {
			return conflict(r, m.Key, w.commitTS), 0
		}
	}
	newest := e.newest()
	switch {
	case checked && newest >= r.StartVersion:
		return gone, 0
	case !checked && !skipped && newest > r.StartVersion:
		return conflict(r, m.Key, newest), 0
	}
	return nil, 0
}

func conflict(r *pb.PrewriteRequest, key []byte, ts uint64) *pb.KeyError {
	return &pb.KeyError{Conflict: &pb.WriteConflict{
		StartTs: r.StartVersion, ConflictTs: ts, ConflictCommitTs: ts, Key: key, Primary: r.PrimaryLock,
	}}
}

func (d *mvcc) prewrite(r *pb.PrewriteRequest, declines bool) *pb.PrewriteResponse {
	out := &pb.PrewriteResponse{}
	for i := range r.Mutations {
		e, committed := d.prewriteCheck(r, i)
		if e != nil {
			out.Errors = append(out.Errors, e)
		}
		if committed > 0 {
			out.MinCommitTs = committed
			if r.TryOnePc {
				out.OnePcCommitTs = committed
			}
		}
	}
	if len(out.Errors) > 0 || out.MinCommitTs > 0 {
		return out
	}
	least := max(d.maxTS, r.StartVersion, r.ForUpdateTs, r.MinCommitTs-1) + 1
	if declines || (r.MaxCommitTs > 0 && least > r.MaxCommitTs) {
		r.TryOnePc, r.UseAsyncCommit = false, false
	}
	for _, m := range r.Mutations {
		e := d.entry(m.Key)
		op := m.Op
		if op == pb.Op_Insert {
			op = pb.Op_Put
		}
		if r.TryOnePc {
			e.add(write{commitTS: least, startTS: r.StartVersion, op: op, value: m.Value})
			d.unlock(e)
			continue
		}
		if l := e.lock; l != nil && l.op != pb.Op_PessimisticLock {
			l.async = l.async && r.UseAsyncCommit
			if l.async {
				least = max(least, l.minCommitTS)
			}
			continue
		}
		l := &lock{startTS: r.StartVersion, ttl: r.LockTtl, primary: r.PrimaryLock, value: m.Value, op: op,
			txnSize: r.TxnSize, minCommitTS: r.MinCommitTs, async: r.UseAsyncCommit}
		if e.lock != nil {
			l.ttl = max(l.ttl, e.lock.ttl)
		}
		if l.async {
			l.minCommitTS = least
			if bytes.Equal(m.Key, r.PrimaryLock) {
				l.secondaries = r.Secondaries
			}
		}
		e.lock = l
	}
	if r.TryOnePc {
		out.OnePcCommitTs = least
	} else if r.UseAsyncCommit {
		out.MinCommitTs = least
	}
	return out
}

func (d *mvcc) commit(keys [][]byte, start, commit uint64) *pb.KeyError {
	for _, k := range keys {
		e := d.entry(k)
		if l := e.lock; l != nil && l.startTS == start && l.op != pb.Op_PessimisticLock {
			if commit < l.minCommitTS {
				return &pb.KeyError{CommitTsExpired: &pb.CommitTsExpired{
					StartTs: start, AttemptedCommitTs: commit, Key: k, MinCommitTs: l.minCommitTS,
				}}
			}
			continue
		}
		if w := e.of(start); w == nil || w.op == pb.Op_Rollback {
			return &pb.KeyError{Retryable: "TxnLockNotFound"}
		}
	}
	for _, k := range keys {
		e := d.entry(k)
		if l := e.lock; l != nil && l.startTS == start {
			e.add(write{commitTS: commit, startTS: start, op: l.op, value: l.value})
			d.unlock(e)
		}
	}
	return nil
}

// rollback leaves a record, so that the transaction cannot come back.
func (d *mvcc) rollback(key []byte, start uint64) *pb.KeyError {
	e := d.entry(key)
	if w := e.of(start); w != nil && w.op != pb.Op_Rollback {
		return &pb.KeyError{Abort: "committed"}
	} else if w == nil {
		e.add(write{commitTS: start, startTS: start, op: pb.Op_Rollback})
	}
	if e.lock != nil && e.lock.startTS == start {
		d.unlock(e)
	}
	return nil
}

func (d *mvcc) heartBeat(r *pb.TxnHeartBeatRequest) *pb.TxnHeartBeatResponse {
	l := d.entry(r.PrimaryLock).lock
	if l == nil || l.startTS != r.StartVersion {
		return &pb.TxnHeartBeatResponse{Error: &pb.KeyError{TxnNotFound: &pb.TxnNotFound{StartTs: r.StartVersion, PrimaryKey: r.PrimaryLock}}}
	}
	l.ttl = max(l.ttl, r.AdviseLockTtl)
	return &pb.TxnHeartBeatResponse{LockTtl: l.ttl}
}

// ---------------------------------------------------------------- locks of others

func (d *mvcc) checkStatus(r *pb.CheckTxnStatusRequest) *pb.CheckTxnStatusResponse {
	d.tso.check(r.CurrentTs, "current time of a check")
	d.tso.check(r.CallerStartTs, "start of the asking transaction")
	e := d.entry(r.PrimaryKey)
	l := e.lock
	if l == nil || l.startTS != r.LockTs {
		if w := e.of(r.LockTs); w != nil {
			if w.op == pb.Op_Rollback {
				return &pb.CheckTxnStatusResponse{}
			}
			return &pb.CheckTxnStatusResponse{CommitVersion: w.commitTS}
		}
		if !r.RollbackIfNotExist {
			return &pb.CheckTxnStatusResponse{Error: &pb.KeyError{TxnNotFound: &pb.TxnNotFound{StartTs: r.LockTs, PrimaryKey: r.PrimaryKey}}}
		}
		if r.ResolvingPessimisticLock {
			return &pb.CheckTxnStatusResponse{Action: pb.Action_LockNotExistDoNothing}
		}
		d.rollback(r.PrimaryKey, r.LockTs)
		return &pb.CheckTxnStatusResponse{Action: pb.Action_LockNotExistRollback}
	}
	if l.async && !r.ForceSyncCommit {
		return &pb.CheckTxnStatusResponse{LockTtl: l.ttl, LockInfo: l.info(r.PrimaryKey)}
	}
	if physical(l.startTS)+l.ttl < physical(r.CurrentTs) {
		if l.op == pb.Op_PessimisticLock && r.ResolvingPessimisticLock {
			d.unlock(e)
			return &pb.CheckTxnStatusResponse{Action: pb.Action_TTLExpirePessimisticRollback}
		}
		d.rollback(r.PrimaryKey, r.LockTs)
		return &pb.CheckTxnStatusResponse{Action: pb.Action_TTLExpireRollback}
	}
	out := &pb.CheckTxnStatusResponse{LockTtl: l.ttl}
	if l.minCommitTS > 0 && r.CallerStartTs != math.MaxUint64 && r.CallerStartTs >= l.minCommitTS {
		l.minCommitTS = max(r.CallerStartTs+1, r.CurrentTs)
		out.Action = pb.Action_MinCommitTSPushed
	}
	out.LockInfo = l.info(r.PrimaryKey)
	return out
}

func (d *mvcc) checkSecondaries(r *pb.CheckSecondaryLocksRequest) *pb.CheckSecondaryLocksResponse {
	out := &pb.CheckSecondaryLocksResponse{}
	for _, k := range r.Keys {
		e := d.entry(k)
		if l := e.lock; l != nil && l.startTS == r.StartVersion && l.op != pb.Op_PessimisticLock {
			out.Locks = append(out.Locks, l.info(k))
			continue
		}
		out.Locks = nil
		if w := e.of(r.StartVersion); w != nil && w.op != pb.Op_Rollback {
			out.CommitTs = w.commitTS
		} else {
			d.rollback(k, r.StartVersion)
		}
		return out
	}
	return out
}

func (d *mvcc) scanLocks(r *pb.ScanLockRequest, low, high []byte) []*pb.LockInfo {
	from, to := max(string(low), string(r.StartKey)), lower(string(high), string(r.EndKey))
	var out []*pb.LockInfo
	for _, k := range d.keys {
		l := d.data[k].lock
		if l == nil || l.startTS > r.MaxVersion || strings.Compare(k, from) < 0 || (to != "" && k >= to) {
			continue
		}
		if r.Limit > 0 && len(out) == int(r.Limit) {
			break
		}
		out = append(out, l.info([]byte(k)))
	}
	return out
}

// resolve ends the locks of a transaction, except pessimistic ones, which are
// in memory where it does not look.
func (d *mvcc) resolve(r *pb.ResolveLockRequest, low, high []byte) *pb.KeyError {
	keys := r.Keys
	if len(keys) == 0 {
		for _, k := range d.keys {
			if k >= string(low) && (len(high) == 0 || k < string(high)) {
				keys = append(keys, []byte(k))
			}
		}
	}
	for _, k := range keys {
		l := d.entry(k).lock
		if l == nil || l.startTS != r.StartVersion || l.op == pb.Op_PessimisticLock {
			continue
		}
		if r.CommitVersion == 0 {
			d.rollback(k, r.StartVersion)
		} else if e := d.commit([][]byte{k}, r.StartVersion, r.CommitVersion); e != nil {
			return e
		}
	}
	return nil
}

// ---------------------------------------------------------------- deadlocks

// waits is who waits for whom now, by start timestamp, with the number of
// requests that do.
type waits map[uint64]map[uint64]int

// add notes that from waits for each of to, unless that closes a cycle; then
// it returns whom from must not wait for.
func (w waits) add(from uint64, to []uint64) uint64 {
	for _, t := range to {
		if w.reaches(t, from, map[uint64]bool{}) {
			return t
		}
	}
	for _, t := range to {
		if w[from] == nil {
			w[from] = map[uint64]int{}
		}
		w[from][t]++
	}
	return 0
}

func (w waits) reaches(from, to uint64, seen map[uint64]bool) bool {
	if from == to {
		return true
	}
	if seen[from] {
		return false
	}
	seen[from] = true
	for next := range w[from] {
		if w.reaches(next, to, seen) {
			return true
		}
	}
	return false
}

func (w waits) remove(from uint64, to []uint64) {
	for _, t := range to {
		if w[from][t]--; w[from][t] <= 0 {
			delete(w[from], t)
		}
	}
	if len(w[from]) == 0 {
		delete(w, from)
	}
}
