package main

import (
	"context"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/testutils"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const clusterID = 1

// ---------------------------------------------------------------- TSO

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
	now := time.Now().UnixMilli() + t.ahead
	if now > t.physical {
		t.physical, t.logical = now, 0
	}
	if t.logical+n >= 1<<18 {
		t.physical, t.logical = t.physical+1, 0
	}
	t.logical += n
	return t.physical, t.logical
}
func (t *tso) ts() uint64 { p, l := t.next(1); return oracle.ComposeTS(p, l) }

// ---------------------------------------------------------------- PD

type pdServer struct {
	pdpb.UnimplementedPDServer
	keyspacepb.UnimplementedKeyspaceServer
	cluster *testutils.MockCluster
	tso     *tso
	addr    string
	mu      sync.Mutex
	safe    uint64
}

func hdr() *pdpb.ResponseHeader { return &pdpb.ResponseHeader{ClusterId: clusterID} }

func (p *pdServer) GetMembers(context.Context, *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	m := &pdpb.Member{Name: "double", MemberId: 1, PeerUrls: []string{"http://" + p.addr}, ClientUrls: []string{"http://" + p.addr}}
	return &pdpb.GetMembersResponse{Header: hdr(), Members: []*pdpb.Member{m}, Leader: m, EtcdLeader: m}, nil
}
func (p *pdServer) GetClusterInfo(context.Context, *pdpb.GetClusterInfoRequest) (*pdpb.GetClusterInfoResponse, error) {
	return &pdpb.GetClusterInfoResponse{Header: hdr(), ServiceModes: []pdpb.ServiceMode{pdpb.ServiceMode_PD_SVC_MODE}}, nil
}
func (p *pdServer) IsBootstrapped(context.Context, *pdpb.IsBootstrappedRequest) (*pdpb.IsBootstrappedResponse, error) {
	return &pdpb.IsBootstrappedResponse{Header: hdr(), Bootstrapped: true}, nil
}
func (p *pdServer) AllocID(context.Context, *pdpb.AllocIDRequest) (*pdpb.AllocIDResponse, error) {
	return &pdpb.AllocIDResponse{Header: hdr(), Id: p.cluster.AllocID()}, nil
}
func (p *pdServer) Tso(s pdpb.PD_TsoServer) error {
	for {
		r, err := s.Recv()
		if err != nil {
			return nil
		}
		ph, lo := p.tso.next(int64(r.Count))
		if err := s.Send(&pdpb.TsoResponse{Header: hdr(), Count: r.Count, Timestamp: &pdpb.Timestamp{Physical: ph, Logical: lo}}); err != nil {
			return err
		}
	}
}
func region(r *metapb.Region, leader *metapb.Peer, b *metapb.Buckets) *pdpb.GetRegionResponse {
	return &pdpb.GetRegionResponse{Header: hdr(), Region: r, Leader: leader, Buckets: b}
}
func (p *pdServer) GetRegion(_ context.Context, r *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	return region(p.cluster.GetRegionByKey(r.RegionKey)), nil
}
func (p *pdServer) GetPrevRegion(_ context.Context, r *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	return region(p.cluster.GetPrevRegionByKey(r.RegionKey)), nil
}
func (p *pdServer) GetRegionByID(_ context.Context, r *pdpb.GetRegionByIDRequest) (*pdpb.GetRegionResponse, error) {
	return region(p.cluster.GetRegionByID(r.RegionId)), nil
}
func (p *pdServer) ScanRegions(_ context.Context, r *pdpb.ScanRegionsRequest) (*pdpb.ScanRegionsResponse, error) {
	out := &pdpb.ScanRegionsResponse{Header: hdr()}
	for _, x := range p.cluster.ScanRegions(r.StartKey, r.EndKey, int(r.Limit)) {
		out.Regions = append(out.Regions, &pdpb.Region{Region: x.Meta, Leader: x.Leader})
	}
	return out, nil
}
func (p *pdServer) GetStore(_ context.Context, r *pdpb.GetStoreRequest) (*pdpb.GetStoreResponse, error) {
	s := p.cluster.GetStore(r.StoreId)
	if s == nil {
		return nil, status.Errorf(codes.Unknown, "invalid store ID %d, not found", r.StoreId)
	}
	return &pdpb.GetStoreResponse{Header: hdr(), Store: s, Stats: &pdpb.StoreStats{}}, nil
}
func (p *pdServer) GetAllStores(context.Context, *pdpb.GetAllStoresRequest) (*pdpb.GetAllStoresResponse, error) {
	return &pdpb.GetAllStoresResponse{Header: hdr(), Stores: p.cluster.GetAllStores()}, nil
}
func (p *pdServer) GetGCSafePoint(context.Context, *pdpb.GetGCSafePointRequest) (*pdpb.GetGCSafePointResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &pdpb.GetGCSafePointResponse{Header: hdr(), SafePoint: p.safe}, nil
}
func (p *pdServer) UpdateGCSafePoint(_ context.Context, r *pdpb.UpdateGCSafePointRequest) (*pdpb.UpdateGCSafePointResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.safe = max(p.safe, r.SafePoint)
	return &pdpb.UpdateGCSafePointResponse{Header: hdr(), NewSafePoint: p.safe}, nil
}
func (p *pdServer) LoadKeyspace(_ context.Context, r *keyspacepb.LoadKeyspaceRequest) (*keyspacepb.LoadKeyspaceResponse, error) {
	return &keyspacepb.LoadKeyspaceResponse{Header: hdr(), Keyspace: &keyspacepb.KeyspaceMeta{Id: 1, Name: r.Name, State: keyspacepb.KeyspaceState_ENABLED}}, nil
}
