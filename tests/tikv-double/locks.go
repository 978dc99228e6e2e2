package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/testutils"
	"github.com/tikv/client-go/v2/util/codec"
)

// The mock store keeps its locks in an ordinary key-value table that its raw
// interface reaches. What the mock lacks (see store.go) is done on the lock
// records themselves.

type rawTable interface {
	RawGet(cf string, key []byte) []byte
	RawPut(cf string, key, value []byte)
	RawDelete(cf string, key []byte)
}

// lockRecord has the fields of a lock in the order in which they are stored.
type lockRecord struct {
	startTS     uint64
	primary     []byte
	value       []byte
	op          kvrpcpb.Op
	ttl         uint64
	forUpdateTS uint64
	txnSize     uint64
	minCommitTS uint64
}

func lockKey(key []byte) []byte {
	return codec.EncodeUintDesc(codec.EncodeBytes(nil, key), math.MaxUint64)
}

func readSlice(r *bytes.Reader) []byte {
	n, err := binary.ReadUvarint(r)
	if err != nil || n > uint64(r.Len()) {
		return nil
	}
	out := make([]byte, n)
	_, _ = io.ReadFull(r, out)
	return out
}

func getLock(t rawTable, key []byte) *lockRecord {
	data := t.RawGet("", lockKey(key))
	if data == nil {
		return nil
	}
	l, r := &lockRecord{}, bytes.NewReader(data)
	num := func(p any) { _ = binary.Read(r, binary.LittleEndian, p) }
	num(&l.startTS)
	l.primary = readSlice(r)
	l.value = readSlice(r)
	num(&l.op)
	num(&l.ttl)
	num(&l.forUpdateTS)
	num(&l.txnSize)
	num(&l.minCommitTS)
	return l
}

func putLock(t rawTable, key []byte, l *lockRecord) {
	var b bytes.Buffer
	num := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	slice := func(s []byte) { b.Write(binary.AppendUvarint(nil, uint64(len(s)))); b.Write(s) }
	num(l.startTS)
	slice(l.primary)
	slice(l.value)
	num(l.op)
	num(l.ttl)
	num(l.forUpdateTS)
	num(l.txnSize)
	num(l.minCommitTS)
	t.RawPut("", lockKey(key), b.Bytes())
}

func table(s testutils.MVCCStore) rawTable { return s.(rawTable) }

// allLocks calls f for every lock of the store.
func allLocks(s testutils.MVCCStore, f func(key []byte, l *lockRecord)) {
	found, err := s.ScanLock(nil, nil, math.MaxUint64)
	if err != nil {
		return
	}
	for _, x := range found {
		if l := getLock(table(s), x.Key); l != nil {
			f(x.Key, l)
		}
	}
}

// waits is who waits for whom now, by start timestamp, with the number of
// requests that do.
type waits map[uint64]map[uint64]int

// add notes that from waits for each of to, unless that closes a circle; then
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
