package main

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	pb "github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

// service is a program's registration: it reads nothing below the safe point.
type service struct {
	safePoint uint64
	until     time.Time
}

// safePoints is the state of garbage collection in the placement drivers.
type safePoints struct {
	mu       sync.Mutex
	services map[string]service
	gc       uint64
}

const collector = "gc_worker"

func forever(ttl int64) bool { return ttl > 1<<40 }

// register records the timestamp that a service needs, unless it is below the least that is kept,
// and returns that least timestamp.
func (p *safePoints) register(id string, ttl int64, safePoint uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for other, s := range p.services {
		if time.Now().After(s.until) {
			delete(p.services, other)
		}
	}
	if ttl <= 0 {
		delete(p.services, id)
		return p.least()
	}
	until := time.Now().AddDate(100, 0, 0)
	if !forever(ttl) {
		until = time.Now().Add(time.Duration(ttl) * time.Second)
	}
	least := p.least()
	if id == collector {
		for other, s := range p.services {
			if other != collector {
				safePoint = min(safePoint, s.safePoint)
			}
		}
		least = p.services[collector].safePoint
	}
	if safePoint >= least {
		p.services[id] = service{safePoint, until}
	}
	return p.least()
}

// least is the timestamp below which no service may register: that of the last announced collection,
// until all services need only later ones.
func (p *safePoints) least() uint64 {
	return p.services[collector].safePoint
}

func (s *pdServer) UpdateServiceGCSafePoint(_ context.Context, r *pdpb.UpdateServiceGCSafePointRequest) (*pdpb.UpdateServiceGCSafePointResponse, error) {
	if err := s.lead("UpdateServiceGCSafePoint"); err != nil {
		return nil, err
	}
	least := s.pds.safePoints.register(string(r.ServiceId), r.TTL, r.SafePoint)
	return &pdpb.UpdateServiceGCSafePointResponse{Header: hdr(), ServiceId: []byte(collector), TTL: r.TTL, MinSafePoint: least}, nil
}

func (s *pdServer) UpdateGCSafePoint(_ context.Context, r *pdpb.UpdateGCSafePointRequest) (*pdpb.UpdateGCSafePointResponse, error) {
	if err := s.lead("UpdateGCSafePoint"); err != nil {
		return nil, err
	}
	p := s.pds.safePoints
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.SafePoint > p.gc {
		p.gc = r.SafePoint
		s.pds.db.collect(p.gc)
	}
	return &pdpb.UpdateGCSafePointResponse{Header: hdr(), NewSafePoint: p.gc}, nil
}

func (s *pdServer) GetGCSafePoint(context.Context, *pdpb.GetGCSafePointRequest) (*pdpb.GetGCSafePointResponse, error) {
	if err := s.lead("GetGCSafePoint"); err != nil {
		return nil, err
	}
	p := s.pds.safePoints
	p.mu.Lock()
	defer p.mu.Unlock()
	return &pdpb.GetGCSafePointResponse{Header: hdr(), SafePoint: p.gc}, nil
}

func (s *pdServer) GetAllStores(context.Context, *pdpb.GetAllStoresRequest) (*pdpb.GetAllStoresResponse, error) {
	if err := s.lead("GetAllStores"); err != nil {
		return nil, err
	}
	return &pdpb.GetAllStoresResponse{Header: hdr(), Stores: s.pds.cluster.told()}, nil
}

// collect drops the versions that are not visible at the safe point or later. A
// lock of an older transaction must not exist then.
func (d *mvcc) collect(safePoint uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.safePoint = safePoint
	for _, e := range d.data {
		if e.lock != nil && e.lock.startTS <= safePoint && e.lock.op != pb.Op_PessimisticLock {
			d.locksMissed++
		}
		visible := slices.IndexFunc(e.writes, func(w write) bool {
			return w.commitTS <= safePoint && (w.op == pb.Op_Put || w.op == pb.Op_Del)
		})
		if visible < 0 {
			continue
		}
		end := visible + 1
		if e.writes[visible].op == pb.Op_Del {
			end = visible
		}
		kept := slices.Clone(e.writes[:end])
		e.writes = slices.DeleteFunc(kept, func(w write) bool {
			return w.commitTS <= safePoint && w.op != pb.Op_Put
		})
	}
}

// destroy removes all traces of a range.
func (d *mvcc) destroy(start, end []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys = slices.DeleteFunc(d.keys, func(k string) bool {
		in := bytes.Compare([]byte(k), start) >= 0 && bytes.Compare([]byte(k), end) < 0
		if in {
			delete(d.data, k)
		}
		return in
	})
}

// versions is the number of versions of keys with a prefix.
func (d *mvcc) versions(prefix []byte) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for k, e := range d.data {
		if bytes.HasPrefix([]byte(k), prefix) {
			n += len(e.writes)
		}
	}
	return n
}

func (s *kvServer) UnsafeDestroyRange(_ context.Context, r *pb.UnsafeDestroyRangeRequest) (*pb.UnsafeDestroyRangeResponse, error) {
	count("UnsafeDestroyRange")
	s.faults.wait(s.index)
	if s.faults.next(s.faults.refuse, "UnsafeDestroyRange") {
		return nil, unavailable
	}
	s.db.destroy(r.StartKey, r.EndKey)
	return &pb.UnsafeDestroyRangeResponse{}, nil
}

// write commits a value of a key as another program would.
func (d *mvcc) write(key []byte) {
	physical, logical := d.tso.next(1)
	ts := uint64(physical)<<18 | uint64(logical)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entry(key).add(write{commitTS: ts, startTS: ts, op: pb.Op_Put, value: []byte("x")})
}
