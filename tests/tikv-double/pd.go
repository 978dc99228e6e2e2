package main

import (
	"context"
	"log"
	"math"
	"net"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const clusterID = 1

// tso is the clock of the cluster.
type tso struct {
	mu       sync.Mutex
	physical int64
	logical  int64
	ahead    int64 // milliseconds that the clock is ahead of the machine's
}

// next reserves n timestamps and returns the last one.
func (t *tso) next(n int64) (int64, int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now().UnixMilli()
	// As a placement driver, it moves on in steps, and is behind the machine's clock.
	now += t.ahead - now%50
	if now > t.physical {
		t.physical, t.logical = now, 0
	}
	if t.logical+n >= 1<<18 {
		t.physical, t.logical = t.physical+1, 0
	}
	t.logical += n
	return t.physical, t.logical
}

// check ends the process if a timestamp of a request was never given out, as stores do.
func (t *tso) check(ts uint64, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if newest := uint64(t.physical)<<18 + uint64(t.logical); ts != math.MaxUint64 && ts > newest {
		log.Fatalf("%s: timestamp %d is above the newest one, %d", what, ts, newest)
	}
}

// placementDrivers share everything but which of them leads and which is stopped.
type placementDrivers struct {
	cluster    *cluster
	tso        *tso
	faults     *faults
	db         *mvcc
	safePoints *safePoints
	addresses  []string
	mu         sync.Mutex
	leader     int
	stopped    map[int]chan struct{}
	// Until this time the members other than the leader name this one instead of it.
	formerLeader int
	behindUntil  time.Time
}

func newPlacementDrivers(c *cluster, db *mvcc, f *faults, listeners []net.Listener) *placementDrivers {
	p := &placementDrivers{
		cluster: c, tso: db.tso, faults: f, db: db, stopped: map[int]chan struct{}{},
		safePoints: &safePoints{services: map[string]service{}},
	}
	for _, l := range listeners {
		p.addresses = append(p.addresses, l.Addr().String())
	}
	return p
}

// stop makes a placement driver accept connections and answer nothing, as a
// stopped process does. If it leads, another is elected after a while, and the
// others name it as the leader for some time after that.
func (p *placementDrivers) stop(i int, election, behind time.Duration) {
	p.mu.Lock()
	p.stopped[i] = make(chan struct{})
	leads := p.leader == i
	if behind > 0 {
		p.formerLeader, p.behindUntil = i, time.Now().Add(election+behind)
	}
	p.mu.Unlock()
	if leads && len(p.addresses) > 1 {
		time.AfterFunc(election, func() {
			p.mu.Lock()
			p.leader = (i + 1) % len(p.addresses)
			p.mu.Unlock()
		})
	}
}

func (p *placementDrivers) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range p.stopped {
		close(c)
		delete(p.stopped, i)
	}
	p.behindUntil = time.Time{}
}

// named returns the leader that member i names.
func (p *placementDrivers) named(i, leader int) int {
	p.mu.Lock()
	isBehind := time.Now().Before(p.behindUntil)
	former := p.formerLeader
	p.mu.Unlock()
	if !isBehind {
		return leader
	}
	if i == leader {
		// Its answer comes after that of a member that is behind.
		time.Sleep(100 * time.Millisecond)
		return leader
	}
	return former
}

type pdServer struct {
	pdpb.UnimplementedPDServer
	pds   *placementDrivers
	index int
}

// enter waits while this placement driver is stopped, and tells who leads.
func (s *pdServer) enter(name string) int {
	s.pds.mu.Lock()
	stopped := s.pds.stopped[s.index]
	s.pds.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
	time.Sleep(s.pds.faults.pdDelay())
	count(name)
	s.pds.mu.Lock()
	defer s.pds.mu.Unlock()
	return s.pds.leader
}

func (s *pdServer) lead(name string) error {
	if s.enter(name) != s.index {
		return status.Error(codes.Unavailable, "not leader")
	}
	return nil
}

func hdr() *pdpb.ResponseHeader { return &pdpb.ResponseHeader{ClusterId: clusterID} }

func (s *pdServer) GetMembers(context.Context, *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	leader := s.pds.named(s.index, s.enter("GetMembers"))
	out := &pdpb.GetMembersResponse{Header: hdr()}
	for i, a := range s.pds.addresses {
		url := []string{"http://" + a}
		m := &pdpb.Member{Name: a, MemberId: uint64(i + 1), PeerUrls: url, ClientUrls: url}
		out.Members = append(out.Members, m)
		if i == leader {
			out.Leader, out.EtcdLeader = m, m
		}
	}
	return out, nil
}

func (s *pdServer) Tso(stream pdpb.PD_TsoServer) error {
	for {
		r, err := stream.Recv()
		if err != nil {
			return nil
		}
		if err := s.lead("Tso"); err != nil {
			return err
		}
		ph, lo := s.pds.tso.next(int64(r.Count))
		if err := stream.Send(&pdpb.TsoResponse{Header: hdr(), Count: r.Count, Timestamp: &pdpb.Timestamp{Physical: ph, Logical: lo}}); err != nil {
			return err
		}
	}
}

func (s *pdServer) region(name string, r *pdpb.GetRegionRequest, before bool) (*pdpb.GetRegionResponse, error) {
	if err := s.lead(name); err != nil {
		return nil, err
	}
	c := s.pds.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	out := &pdpb.GetRegionResponse{Header: hdr()}
	if x := c.find(decodeKey(r.RegionKey), before); x != nil {
		out.Region, out.Leader = x.meta(), x.peers[x.leader]
	}
	return out, nil
}

func (s *pdServer) GetRegion(_ context.Context, r *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	return s.region("GetRegion", r, false)
}

func (s *pdServer) GetPrevRegion(_ context.Context, r *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	return s.region("GetPrevRegion", r, true)
}

func (s *pdServer) GetStore(_ context.Context, r *pdpb.GetStoreRequest) (*pdpb.GetStoreResponse, error) {
	if err := s.lead("GetStore"); err != nil {
		return nil, err
	}
	for _, x := range s.pds.cluster.told() {
		if x.Id == r.StoreId {
			return &pdpb.GetStoreResponse{Header: hdr(), Store: x}, nil
		}
	}
	return nil, status.Errorf(codes.Unknown, "invalid store ID %d, not found", r.StoreId)
}
