package main

import (
	"bytes"
	"net"
	"sync"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
)

// region is a range of raw keys; an empty end is the end of the key space.
type region struct {
	id, version uint64
	start, end  []byte
	peers       []*metapb.Peer
	leader      int // index of a peer
}

// cluster is which store leads which region.
type cluster struct {
	mu      sync.Mutex
	nextID  uint64
	stores  []*metapb.Store
	regions []*region // sorted by start
}

func newCluster(listeners []net.Listener) *cluster {
	c := &cluster{nextID: 100}
	for i, l := range listeners {
		c.stores = append(c.stores, &metapb.Store{Id: uint64(i + 1), Address: l.Addr().String(), Version: "8.5.0"})
	}
	c.regions = []*region{{id: c.id(), version: 1, peers: c.newPeers()}}
	return c
}

// told returns the stores as the placement driver tells them.
func (c *cluster) told() []*metapb.Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*metapb.Store
	for _, s := range c.stores {
		out = append(out, &metapb.Store{Id: s.Id, Address: s.Address, Version: s.Version})
	}
	return out
}

// setVersion makes the store with this index one of another release.
func (c *cluster) setVersion(store int, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores[store].Version = version
}

func (c *cluster) id() uint64 { c.nextID++; return c.nextID }

func (c *cluster) newPeers() []*metapb.Peer {
	var out []*metapb.Peer
	for _, s := range c.stores {
		out = append(out, &metapb.Peer{Id: c.id(), StoreId: s.Id})
	}
	return out
}

// encodeKey is the order-preserving form in which region borders are told.
func encodeKey(key []byte) []byte {
	if len(key) == 0 {
		return nil
	}
	var out []byte
	for {
		group := key[:min(8, len(key))]
		out = append(out, group...)
		out = append(out, make([]byte, 8-len(group))...)
		out = append(out, 0xff-byte(8-len(group)))
		if len(group) < 8 {
			return out
		}
		key = key[8:]
	}
}

func decodeKey(b []byte) []byte {
	var out []byte
	for len(b) >= 9 {
		padding := int(0xff - b[8])
		out = append(out, b[:8-padding]...)
		if padding > 0 {
			break
		}
		b = b[9:]
	}
	return out
}

func (r *region) meta() *metapb.Region {
	return &metapb.Region{
		Id: r.id, StartKey: encodeKey(r.start), EndKey: encodeKey(r.end), Peers: r.peers,
		RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: r.version},
	}
}

func (r *region) contains(key []byte) bool {
	return bytes.Compare(r.start, key) <= 0 && (len(r.end) == 0 || bytes.Compare(key, r.end) < 0)
}

// find returns the region of a key, or with before that of the keys below it.
func (c *cluster) find(key []byte, before bool) *region {
	for _, r := range c.regions {
		if r.contains(key) && !(before && bytes.Equal(r.start, key)) {
			return r
		}
		if before && len(r.end) > 0 && bytes.Equal(r.end, key) {
			return r
		}
	}
	return nil
}

// split makes a new region that begins at the key, led by the last store.
func (c *cluster) split(key []byte) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range c.regions {
		if !r.contains(key) || bytes.Equal(r.start, key) {
			continue
		}
		right := &region{id: c.id(), version: r.version + 1, start: key, end: r.end, peers: c.newPeers(), leader: len(c.stores) - 1}
		r.end, r.version = key, r.version+1
		c.regions = append(c.regions[:i+1], append([]*region{right}, c.regions[i+1:]...)...)
		return right.id
	}
	return 0
}

// merge makes the region of the key and the next one into one.
func (c *cluster) merge(key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range c.regions {
		if r.contains(key) && i+1 < len(c.regions) {
			next := c.regions[i+1]
			r.end, r.version = next.end, max(r.version, next.version)+1
			c.regions = append(c.regions[:i+1], c.regions[i+2:]...)
			return
		}
	}
}

// lead makes the store with this index the leader of the key's region, or of
// all regions that the store `from` leads.
func (c *cluster) lead(store int, key []byte, from int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.regions {
		if (from >= 0 && r.leader == from) || (from < 0 && r.contains(key)) {
			r.leader = store
		}
	}
}

// check is what a store checks before a request: the region, its version, its
// leader, and the keys. It returns the region's end.
func (c *cluster) check(store uint64, k *kvrpcpb.Context, keys [][]byte) ([]byte, []byte, *errorpb.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var r *region
	for _, x := range c.regions {
		if x.id == k.GetRegionId() {
			r = x
		}
	}
	if r == nil {
		return nil, nil, &errorpb.Error{Message: "no such region", RegionNotFound: &errorpb.RegionNotFound{RegionId: k.GetRegionId()}}
	}
	if leader := r.peers[r.leader]; leader.StoreId != store {
		return nil, nil, &errorpb.Error{Message: "not leader", NotLeader: &errorpb.NotLeader{RegionId: r.id, Leader: leader}}
	}
	if k.GetRegionEpoch().GetVersion() != r.version {
		e := &errorpb.EpochNotMatch{}
		for _, x := range c.regions {
			e.CurrentRegions = append(e.CurrentRegions, x.meta())
		}
		return nil, nil, &errorpb.Error{Message: "epoch not match", EpochNotMatch: e}
	}
	for _, key := range keys {
		if !r.contains(key) {
			return nil, nil, &errorpb.Error{Message: "key not in region", KeyNotInRegion: &errorpb.KeyNotInRegion{RegionId: r.id, Key: key}}
		}
	}
	return r.start, r.end, nil
}
