package main

import (
	"bytes"
	"log"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	pb "github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// kvServer is a store.
type kvServer struct {
	tikvpb.UnimplementedTikvServer
	cluster *cluster
	db      *mvcc
	faults  *faults
	store   uint64
	index   int
}

// BatchCommands answers each request as soon as it has its answer. A fault that
// ends the connection ends the stream, so that its other requests stay
// unanswered, too.
func (s *kvServer) BatchCommands(stream tikvpb.Tikv_BatchCommandsServer) error {
	var sending sync.Mutex
	ended := make(chan error, 1)
	end := func(err error) {
		select {
		case ended <- err:
		default:
		}
	}
	go func() {
		for {
			batch, err := stream.Recv()
			if err != nil {
				end(nil)
				return
			}
			for i, r := range batch.Requests {
				id := batch.RequestIds[i]
				go func() {
					defer func() {
						if p := recover(); p != nil {
							log.Printf("request %T: %v", r.Cmd, p)
							end(status.Errorf(codes.Internal, "the double panicked: %v", p))
						}
					}()
					answer, err := s.execute(r)
					time.Sleep(s.faults.late(methodOf(r)))
					if err != nil {
						end(err)
						return
					}
					sending.Lock()
					defer sending.Unlock()
					for range s.faults.answers() {
						if stream.Context().Err() == nil {
							_ = stream.Send(&tikvpb.BatchCommandsResponse{
								Responses: []*tikvpb.BatchCommandsResponse_Response{answer}, RequestIds: []uint64{id},
							})
						}
					}
				}()
			}
		}
	}()
	err := <-ended
	sending.Lock()
	defer sending.Unlock()
	return err
}

type response = tikvpb.BatchCommandsResponse_Response

var unavailable = status.Error(codes.Unavailable, "ended by command")

// admit plays the faults of a method and checks the region; `keys` are those of
// the request.
func (s *kvServer) admit(method string, k *pb.Context, keys ...[]byte) (low, high []byte, refused *errorpb.Error, err error) {
	count(method)
	s.faults.wait(s.index)
	time.Sleep(s.faults.delay())
	s.faults.wait(s.index)
	if s.faults.next(s.faults.refuse, method) {
		return nil, nil, nil, unavailable
	}
	if s.faults.next(s.faults.busy, method) {
		return nil, nil, &errorpb.Error{Message: "busy", ServerIsBusy: &errorpb.ServerIsBusy{Reason: "by command", BackoffMs: 20}}, nil
	}
	if (method == "KvPrewrite" || method == "KvPessimisticLock" || method == "KvCommit") && s.faults.isFull(s.index) {
		return nil, nil, &errorpb.Error{Message: "disk full", DiskFull: &errorpb.DiskFull{StoreId: []uint64{s.store}, Reason: "by command"}}, nil
	}
	s.faults.before(method)
	low, high, refused = s.cluster.check(s.store, k, keys)
	return low, high, refused, nil
}

// methodOf is the name of a request's method, of those whose answers may be late.
func methodOf(q *tikvpb.BatchCommandsRequest_Request) string {
	switch q.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_Get:
		return "KvGet"
	case *tikvpb.BatchCommandsRequest_Request_PessimisticLock:
		return "KvPessimisticLock"
	case *tikvpb.BatchCommandsRequest_Request_Prewrite:
		return "KvPrewrite"
	case *tikvpb.BatchCommandsRequest_Request_Commit:
		return "KvCommit"
	}
	return ""
}

func mutated(all []*pb.Mutation) [][]byte {
	var out [][]byte
	for _, m := range all {
		out = append(out, m.Key)
	}
	return out
}

// execute runs one request. An error ends the connection.
func (s *kvServer) execute(q *tikvpb.BatchCommandsRequest_Request) (*response, error) {
	switch c := q.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_Get:
		out := &pb.GetResponse{}
		_, _, refused, err := s.admit("KvGet", c.Get.Context, c.Get.Key)
		if out.RegionError = refused; refused == nil && err == nil {
			s.db.mu.Lock()
			out.Value, out.Error = s.db.read(c.Get.Key, c.Get.Version, c.Get.Context)
			out.NotFound = out.Value == nil
			s.db.mu.Unlock()
		}
		return &response{Cmd: &tikvpb.BatchCommandsResponse_Response_Get{Get: out}}, err
	case *tikvpb.BatchCommandsRequest_Request_BatchGet:
		out := &pb.BatchGetResponse{}
		_, _, refused, err := s.admit("KvBatchGet", c.BatchGet.Context, c.BatchGet.Keys...)
		if out.RegionError = refused; refused == nil && err == nil {
			s.db.mu.Lock()
			for _, key := range c.BatchGet.Keys {
				if v, e := s.db.read(key, c.BatchGet.Version, c.BatchGet.Context); v != nil || e != nil {
					out.Pairs = append(out.Pairs, &pb.KvPair{Key: key, Value: v, Error: e})
				}
			}
			s.db.mu.Unlock()
		}
		return &response{Cmd: &tikvpb.BatchCommandsResponse_Response_BatchGet{BatchGet: out}}, err
	case *tikvpb.BatchCommandsRequest_Request_Scan:
		out := &pb.ScanResponse{}
		low, high, refused, err := s.admit("KvScan", c.Scan.Context)
		if out.RegionError = refused; refused == nil && err == nil {
			s.db.mu.Lock()
			out.Pairs = s.db.scan(c.Scan, low, high)
			s.db.mu.Unlock()
		}
		return &response{Cmd: &tikvpb.BatchCommandsResponse_Response_Scan{Scan: out}}, err
	case *tikvpb.BatchCommandsRequest_Request_PessimisticLock:
		out := &pb.PessimisticLockResponse{}
		_, _, refused, err := s.admit("KvPessimisticLock", c.PessimisticLock.Context, mutated(c.PessimisticLock.Mutations)...)
		if refused == nil && err == nil {
			out = s.db.lock(c.PessimisticLock)
		}
		out.RegionError = refused
		return &response{Cmd: &tikvpb.BatchCommandsResponse_Response_PessimisticLock{PessimisticLock: out}}, err
	case *tikvpb.BatchCommandsRequest_Request_PessimisticRollback:
		out := &pb.PessimisticRollbackResponse{}
		_, _, refused, err := s.admit("KVPessimisticRollback", c.PessimisticRollback.Context, c.PessimisticRollback.Keys...)
		if out.RegionError = refused; refused == nil && err == nil {
			s.db.mu.Lock()
			s.db.pessimisticRollback(c.PessimisticRollback)
			s.db.mu.Unlock()
		}
		return &response{Cmd: &tikvpb.BatchCommandsResponse_Response_PessimisticRollback{PessimisticRollback: out}}, err
	case *tikvpb.BatchCommandsRequest_Request_Prewrite:
		return s.prewrite(c.Prewrite)
	case *tikvpb.BatchCommandsRequest_Request_Commit:
		return s.commit(c.Commit)
	}
	return s.executeResolving(q)
}

func (s *kvServer) prewrite(r *pb.PrewriteRequest) (*response, error) {
	out := &pb.PrewriteResponse{}
	_, _, refused, err := s.admit("KvPrewrite", r.Context, mutated(r.Mutations)...)
	if refused == nil && err == nil {
		s.db.mu.Lock()
		out = s.db.prewrite(r, s.faults.declines())
		s.db.mu.Unlock()
		if out.OnePcCommitTs > 0 || out.MinCommitTs > 0 {
			if s.faults.dropNextCommit() {
				err = unavailable
			} else if refused = s.faults.undeterminedNext(); refused != nil {
				out = &pb.PrewriteResponse{}
			}
		}
	}
	out.RegionError = refused
	return &response{Cmd: &tikvpb.BatchCommandsResponse_Response_Prewrite{Prewrite: out}}, err
}

func (s *kvServer) commit(r *pb.CommitRequest) (*response, error) {
	out := &pb.CommitResponse{}
	_, _, refused, err := s.admit("KvCommit", r.Context, r.Keys...)
	if wait := s.faults.secondariesWait(); wait > 0 && s.onlySecondaries(r) {
		time.Sleep(wait)
	}
	if out.RegionError = refused; refused == nil && err == nil {
		s.db.mu.Lock()
		out.Error = s.db.commit(r.Keys, r.StartVersion, r.CommitVersion)
		s.db.mu.Unlock()
		if out.Error == nil {
			out.CommitVersion = r.CommitVersion
			if s.faults.dropNextCommit() {
				err = unavailable
			} else if out.RegionError = s.faults.undeterminedNext(); out.RegionError != nil {
				out.CommitVersion = 0
			}
		}
	}
	return &response{Cmd: &tikvpb.BatchCommandsResponse_Response_Commit{Commit: out}}, err
}

// onlySecondaries says whether the request names keys whose primary is elsewhere.
func (s *kvServer) onlySecondaries(r *pb.CommitRequest) bool {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	for _, k := range r.Keys {
		if l := s.db.entry(k).lock; l == nil || bytes.Equal(l.primary, k) {
			return false
		}
	}
	return true
}

// executeResolving runs the requests that end or ask for transactions.
func (s *kvServer) executeResolving(q *tikvpb.BatchCommandsRequest_Request) (*response, error) {
	switch c := q.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_BatchRollback:
		out := &pb.BatchRollbackResponse{}
		_, _, refused, err := s.admit("KvBatchRollback", c.BatchRollback.Context, c.BatchRollback.Keys...)
		if out.RegionError = refused; refused == nil && err == nil {
			s.db.mu.Lock()
			for _, k := range c.BatchRollback.Keys {
				if e := s.db.rollback(k, c.BatchRollback.StartVersion); e != nil {
					out.Error = e
				}
			}
			s.db.mu.Unlock()
		}
		return &response{Cmd: &tikvpb.BatchCommandsResponse_Response_BatchRollback{BatchRollback: out}}, err
	case *tikvpb.BatchCommandsRequest_Request_TxnHeartBeat:
		out := &pb.TxnHeartBeatResponse{}
		_, _, refused, err := s.admit("KvTxnHeartBeat", c.TxnHeartBeat.Context, c.TxnHeartBeat.PrimaryLock)
		if refused == nil && err == nil {
			s.db.mu.Lock()
			out = s.db.heartBeat(c.TxnHeartBeat)
			s.db.mu.Unlock()
		}
		out.RegionError = refused
		return &response{Cmd: &tikvpb.BatchCommandsResponse_Response_TxnHeartBeat{TxnHeartBeat: out}}, err
	case *tikvpb.BatchCommandsRequest_Request_CheckTxnStatus:
		out := &pb.CheckTxnStatusResponse{}
		_, _, refused, err := s.admit("KvCheckTxnStatus", c.CheckTxnStatus.Context, c.CheckTxnStatus.PrimaryKey)
		if refused == nil && err == nil {
			s.db.mu.Lock()
			out = s.db.checkStatus(c.CheckTxnStatus)
			s.db.mu.Unlock()
		}
		out.RegionError = refused
		return &response{Cmd: &tikvpb.BatchCommandsResponse_Response_CheckTxnStatus{CheckTxnStatus: out}}, err
	case *tikvpb.BatchCommandsRequest_Request_CheckSecondaryLocks:
		out := &pb.CheckSecondaryLocksResponse{}
		_, _, refused, err := s.admit("KvCheckSecondaryLocks", c.CheckSecondaryLocks.Context, c.CheckSecondaryLocks.Keys...)
		if refused == nil && err == nil {
			s.db.mu.Lock()
			out = s.db.checkSecondaries(c.CheckSecondaryLocks)
			s.db.mu.Unlock()
		}
		out.RegionError = refused
		return &response{Cmd: &tikvpb.BatchCommandsResponse_Response_CheckSecondaryLocks{CheckSecondaryLocks: out}}, err
	case *tikvpb.BatchCommandsRequest_Request_ScanLock:
		out := &pb.ScanLockResponse{}
		low, high, refused, err := s.admit("KvScanLock", c.ScanLock.Context)
		if out.RegionError = refused; refused == nil && err == nil {
			s.db.mu.Lock()
			out.Locks = s.db.scanLocks(c.ScanLock, low, high)
			s.db.mu.Unlock()
		}
		return &response{Cmd: &tikvpb.BatchCommandsResponse_Response_ScanLock{ScanLock: out}}, err
	case *tikvpb.BatchCommandsRequest_Request_ResolveLock:
		out := &pb.ResolveLockResponse{}
		low, high, refused, err := s.admit("KvResolveLock", c.ResolveLock.Context, c.ResolveLock.Keys...)
		if out.RegionError = refused; refused == nil && err == nil {
			s.db.mu.Lock()
			out.Error = s.db.resolve(c.ResolveLock, low, high)
			s.db.mu.Unlock()
		}
		return &response{Cmd: &tikvpb.BatchCommandsResponse_Response_ResolveLock{ResolveLock: out}}, err
	}
	return nil, status.Errorf(codes.Unimplemented, "the double does not know %T", q.Cmd)
}
