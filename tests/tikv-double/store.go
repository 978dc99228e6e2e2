package main

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/tikv/client-go/v2/testutils"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/util/codec"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ---------------------------------------------------------------- TiKV

type kvServer struct {
	tikvpb.UnimplementedTikvServer
	cli    *testutils.MockClient
	tso    *tso
	addr   string // the address by which the mock cluster knows this store
	faults *faults
	write  *sync.Mutex // one writer at a time: some writes take several steps
	waits  waits       // under write
}

// encoded is a key in the form in which the placement driver keeps region borders.
func encoded(key []byte) []byte { return codec.EncodeBytes(nil, key) }

func call[T any](ctx context.Context, s *kvServer, t tikvrpc.CmdType, req interface{}, kc *kvrpcpb.Context) (T, error) {
	var zero T
	r := &tikvrpc.Request{Type: t, Req: req}
	if kc != nil {
		r.Context = *kc
	}
	resp, err := s.cli.SendRequest(ctx, s.addr, r, time.Minute)
	if err != nil {
		return zero, status.Error(codes.Unavailable, err.Error())
	}
	return resp.Resp.(T), nil
}

func (s *kvServer) KvGet(c context.Context, r *kvrpcpb.GetRequest) (*kvrpcpb.GetResponse, error) {
	v, err := call[*kvrpcpb.GetResponse](c, s, tikvrpc.CmdGet, r, r.Context)
	if err == nil && v.RegionError == nil && v.Error == nil && v.Value == nil {
		v.NotFound = true // mocktikv leaves this unset
	}
	return v, err
}
func (s *kvServer) KvScan(c context.Context, r *kvrpcpb.ScanRequest) (*kvrpcpb.ScanResponse, error) {
	v, err := call[*kvrpcpb.ScanResponse](c, s, tikvrpc.CmdScan, r, r.Context)
	if err == nil && r.KeyOnly {
		for _, p := range v.Pairs {
			p.Value = nil
		}
	}
	return v, err
}
func (s *kvServer) KvBatchGet(c context.Context, r *kvrpcpb.BatchGetRequest) (*kvrpcpb.BatchGetResponse, error) {
	return call[*kvrpcpb.BatchGetResponse](c, s, tikvrpc.CmdBatchGet, r, r.Context)
}
func (s *kvServer) KvPrewrite(c context.Context, r *kvrpcpb.PrewriteRequest) (*kvrpcpb.PrewriteResponse, error) {
	s.write.Lock()
	defer s.write.Unlock()
	v, err := call[*kvrpcpb.PrewriteResponse](c, s, tikvrpc.CmdPrewrite, r, r.Context)
	if err == nil && v.RegionError == nil && r.ForUpdateTs > 0 && len(v.Errors) > 0 {
		s.prewritePessimistic(r, v)
	}
	if err != nil || v.RegionError != nil || len(v.Errors) > 0 {
		return v, err
	}
	// mocktikv has neither 1PC nor async commit. When the whole transaction is in this one
	// request, both can be had by committing here: the locks are held, so ts is safe.
	if !r.TryOnePc && !r.UseAsyncCommit {
		return v, nil
	}
	if len(r.Mutations) != len(r.Secondaries)+1 {
		if r.UseAsyncCommit { // min_commit_ts 0 would make tikv-client commit at timestamp 0
			return nil, status.Error(codes.Unimplemented, "double: async commit across regions")
		}
		return v, nil
	}
	keys := make([][]byte, 0, len(r.Mutations))
	for _, m := range r.Mutations {
		if m.Op != kvrpcpb.Op_CheckNotExists {
			keys = append(keys, m.Key)
		}
	}
	ts := s.tso.ts()
	cr := &kvrpcpb.CommitRequest{Context: r.Context, StartVersion: r.StartVersion, Keys: keys, CommitVersion: ts}
	cv, err := call[*kvrpcpb.CommitResponse](c, s, tikvrpc.CmdCommit, cr, r.Context)
	if err != nil || cv.RegionError != nil || cv.Error != nil {
		return nil, status.Errorf(codes.Aborted, "double: commit in prewrite: %v %v", err, cv)
	}
	if r.TryOnePc {
		v.OnePcCommitTs = ts
	} else {
		v.MinCommitTs = ts
	}
	return v, nil
}

// prewritePessimistic does what TiKV does where the mock differs: with its
// pessimistic lock in place a key is prewritten whatever was committed between
// the transaction's start and the lock, and another transaction's lock on it
// means that ours is gone, not that the other is to be rolled back.
func (s *kvServer) prewritePessimistic(r *kvrpcpb.PrewriteRequest, v *kvrpcpb.PrewriteResponse) {
	t := table(s.cli.MvccStore)
	found := make([]*lockRecord, len(r.Mutations))
	for i, m := range r.Mutations {
		l := getLock(t, m.Key)
		if l == nil || l.startTS != r.StartVersion {
			v.Errors = []*kvrpcpb.KeyError{{Abort: "pessimistic lock not found"}}
			return
		}
		found[i] = l
	}
	for _, e := range v.Errors {
		if e.Conflict == nil {
			return
		}
	}
	for i, m := range r.Mutations {
		l := found[i]
		if l.op != kvrpcpb.Op_PessimisticLock {
			continue // prewritten before
		}
		l.op, l.value, l.primary, l.txnSize = m.Op, m.Value, r.PrimaryLock, r.TxnSize
		if l.op == kvrpcpb.Op_Insert {
			l.op = kvrpcpb.Op_Put
		}
		l.ttl, l.forUpdateTS = max(l.ttl, r.LockTtl), 0
		putLock(t, m.Key, l)
	}
	v.Errors = nil
}

// KvPessimisticLock waits as TiKV's lock manager does. The mock itself answers
// at once, and its deadlock detector keeps edges of waits that are over, so
// both are done here and the mock is asked only when the keys are free.
func (s *kvServer) KvPessimisticLock(c context.Context, r *kvrpcpb.PessimisticLockRequest) (*kvrpcpb.PessimisticLockResponse, error) {
	wait := time.Second
	if r.WaitTimeout > 0 {
		wait = time.Duration(r.WaitTimeout) * time.Millisecond
	}
	for end := time.Now().Add(wait); ; {
		s.write.Lock()
		blocked := s.inTheWay(r)
		if len(blocked) == 0 {
			v, err := call[*kvrpcpb.PessimisticLockResponse](c, s, tikvrpc.CmdPessimisticLock, r, r.Context)
			s.write.Unlock()
			return v, err
		}
		edges := make([]uint64, len(blocked))
		for i, b := range blocked {
			edges[i] = b.Locked.LockVersion
		}
		circle := s.waits.add(r.StartVersion, edges)
		s.write.Unlock()
		if circle != 0 {
			return &kvrpcpb.PessimisticLockResponse{Errors: []*kvrpcpb.KeyError{{
				Deadlock: &kvrpcpb.Deadlock{LockTs: circle, LockKey: blocked[0].Locked.Key},
			}}}, nil
		}
		if r.WaitTimeout >= 0 {
			time.Sleep(2 * time.Millisecond)
		}
		s.write.Lock()
		s.waits.remove(r.StartVersion, edges)
		s.write.Unlock()
		if r.WaitTimeout < 0 || time.Now().After(end) || c.Err() != nil {
			return &kvrpcpb.PessimisticLockResponse{Errors: blocked}, nil
		}
	}
}

// inTheWay lists the locks of other transactions on the keys of a request.
func (s *kvServer) inTheWay(r *kvrpcpb.PessimisticLockRequest) []*kvrpcpb.KeyError {
	var out []*kvrpcpb.KeyError
	for _, m := range r.Mutations {
		l := getLock(table(s.cli.MvccStore), m.Key)
		if l == nil || l.startTS == r.StartVersion {
			continue
		}
		out = append(out, &kvrpcpb.KeyError{Locked: &kvrpcpb.LockInfo{
			Key: m.Key, PrimaryLock: l.primary, LockVersion: l.startTS, LockTtl: l.ttl,
			TxnSize: l.txnSize, LockType: l.op, LockForUpdateTs: l.forUpdateTS,
		}})
	}
	return out
}
func (s *kvServer) KVPessimisticRollback(c context.Context, r *kvrpcpb.PessimisticRollbackRequest) (*kvrpcpb.PessimisticRollbackResponse, error) {
	s.write.Lock()
	defer s.write.Unlock()
	return call[*kvrpcpb.PessimisticRollbackResponse](c, s, tikvrpc.CmdPessimisticRollback, r, r.Context)
}
func (s *kvServer) KvTxnHeartBeat(c context.Context, r *kvrpcpb.TxnHeartBeatRequest) (*kvrpcpb.TxnHeartBeatResponse, error) {
	s.write.Lock()
	defer s.write.Unlock()
	return call[*kvrpcpb.TxnHeartBeatResponse](c, s, tikvrpc.CmdTxnHeartBeat, r, r.Context)
}
func (s *kvServer) KvCheckTxnStatus(c context.Context, r *kvrpcpb.CheckTxnStatusRequest) (*kvrpcpb.CheckTxnStatusResponse, error) {
	s.write.Lock()
	defer s.write.Unlock()
	v, err := call[*kvrpcpb.CheckTxnStatusResponse](c, s, tikvrpc.CmdCheckTxnStatus, r, r.Context)
	if err == nil && v.RegionError == nil && v.Error == nil && v.LockTtl > 0 && v.CommitVersion == 0 && v.LockInfo == nil {
		// TiKV returns the primary lock; tikv-client 0.4.0 panics without it
		v.LockInfo = &kvrpcpb.LockInfo{PrimaryLock: r.PrimaryKey, Key: r.PrimaryKey, LockVersion: r.LockTs, LockTtl: v.LockTtl}
	}
	return v, err
}
func (s *kvServer) KvCommit(c context.Context, r *kvrpcpb.CommitRequest) (*kvrpcpb.CommitResponse, error) {
	if wait := s.faults.secondariesWait(); wait > 0 && s.onlySecondaries(r) {
		time.Sleep(wait)
	}
	s.write.Lock()
	v, err := call[*kvrpcpb.CommitResponse](c, s, tikvrpc.CmdCommit, r, r.Context)
	s.write.Unlock()
	if err == nil && v.RegionError == nil && v.Error == nil {
		v.CommitVersion = r.CommitVersion
		if s.faults.dropNextCommit() {
			return nil, status.Error(codes.Unavailable, "answer dropped by command")
		}
	}
	return v, err
}

// onlySecondaries says whether the request names keys whose primary is elsewhere.
func (s *kvServer) onlySecondaries(r *kvrpcpb.CommitRequest) bool {
	for _, k := range r.Keys {
		l := getLock(table(s.cli.MvccStore), k)
		if l == nil || bytes.Equal(l.primary, k) {
			return false
		}
	}
	return true
}
func (s *kvServer) KvCleanup(c context.Context, r *kvrpcpb.CleanupRequest) (*kvrpcpb.CleanupResponse, error) {
	s.write.Lock()
	defer s.write.Unlock()
	return call[*kvrpcpb.CleanupResponse](c, s, tikvrpc.CmdCleanup, r, r.Context)
}
func (s *kvServer) KvBatchRollback(c context.Context, r *kvrpcpb.BatchRollbackRequest) (*kvrpcpb.BatchRollbackResponse, error) {
	s.write.Lock()
	defer s.write.Unlock()
	return call[*kvrpcpb.BatchRollbackResponse](c, s, tikvrpc.CmdBatchRollback, r, r.Context)
}

// KvScanLock keeps to the range and fills in what the mock leaves out.
func (s *kvServer) KvScanLock(c context.Context, r *kvrpcpb.ScanLockRequest) (*kvrpcpb.ScanLockResponse, error) {
	v, err := call[*kvrpcpb.ScanLockResponse](c, s, tikvrpc.CmdScanLock, r, r.Context)
	if err != nil || v.RegionError != nil || v.Error != nil {
		return v, err
	}
	var kept []*kvrpcpb.LockInfo
	for _, x := range v.Locks {
		l := getLock(table(s.cli.MvccStore), x.Key)
		if l == nil || bytes.Compare(x.Key, r.StartKey) < 0 ||
			(len(r.EndKey) > 0 && bytes.Compare(x.Key, r.EndKey) >= 0) ||
			(r.Limit > 0 && len(kept) == int(r.Limit)) {
			continue
		}
		x.LockTtl, x.LockType, x.TxnSize, x.LockForUpdateTs = l.ttl, l.op, l.txnSize, l.forUpdateTS
		kept = append(kept, x)
	}
	v.Locks = kept
	return v, nil
}
func (s *kvServer) KvResolveLock(c context.Context, r *kvrpcpb.ResolveLockRequest) (*kvrpcpb.ResolveLockResponse, error) {
	s.write.Lock()
	defer s.write.Unlock()
	txns := map[uint64]bool{r.StartVersion: r.CommitVersion > 0}
	for _, t := range r.TxnInfos {
		txns[t.Txn] = t.Status > 0
	}
	// The mock commits a pessimistic lock as a deletion; TiKV lets it go.
	allLocks(s.cli.MvccStore, func(key []byte, l *lockRecord) {
		if txns[l.startTS] && l.op == kvrpcpb.Op_PessimisticLock {
			table(s.cli.MvccStore).RawDelete("", lockKey(key))
		}
	})
	if len(r.TxnInfos) > 0 { // mocktikv knows only the single-transaction form
		for _, t := range r.TxnInfos {
			one := &kvrpcpb.ResolveLockRequest{Context: r.Context, StartVersion: t.Txn, CommitVersion: t.Status}
			if v, err := call[*kvrpcpb.ResolveLockResponse](c, s, tikvrpc.CmdResolveLock, one, r.Context); err != nil || v.RegionError != nil || v.Error != nil {
				return v, err
			}
		}
		return &kvrpcpb.ResolveLockResponse{}, nil
	}
	return call[*kvrpcpb.ResolveLockResponse](c, s, tikvrpc.CmdResolveLock, r, r.Context)
}
func (s *kvServer) KvGC(c context.Context, r *kvrpcpb.GCRequest) (*kvrpcpb.GCResponse, error) {
	return call[*kvrpcpb.GCResponse](c, s, tikvrpc.CmdGC, r, r.Context)
}
func (s *kvServer) KvDeleteRange(c context.Context, r *kvrpcpb.DeleteRangeRequest) (*kvrpcpb.DeleteRangeResponse, error) {
	return call[*kvrpcpb.DeleteRangeResponse](c, s, tikvrpc.CmdDeleteRange, r, r.Context)
}
func (s *kvServer) UnsafeDestroyRange(_ context.Context, r *kvrpcpb.UnsafeDestroyRangeRequest) (*kvrpcpb.UnsafeDestroyRangeResponse, error) {
	out := &kvrpcpb.UnsafeDestroyRangeResponse{}
	if err := s.cli.MvccStore.DeleteRange(r.StartKey, r.EndKey); err != nil {
		out.Error = err.Error()
	}
	return out, nil
}
func (s *kvServer) SplitRegion(c context.Context, r *kvrpcpb.SplitRegionRequest) (*kvrpcpb.SplitRegionResponse, error) {
	return call[*kvrpcpb.SplitRegionResponse](c, s, tikvrpc.CmdSplitRegion, r, r.Context)
}
