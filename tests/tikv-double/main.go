// Command tikvdouble is a single-process stand-in for a TiKV cluster (placement
// drivers and stores), served over gRPC, so that a client can be tested against
// it. It keeps everything in memory. It writes a line
// "READY pd=ADDRESSES control=ADDRESS" when it can be used.
//
//	cluster.go  regions, stores, leaders
//	mvcc.go     versions, locks, and the commands on them
//	kv.go       the stream of requests to a store
//	pd.go       timestamps, and where regions and stores are
//	faults.go   the faults that the control port commands
//
// It is a double, not a TiKV: data are not replicated, the "stores" share one
// memory, and time is the machine's. Its rules for locks and versions are TiKV's
// as far as the client depends on them: one-phase and asynchronous commit,
// pessimistic locks that only PessimisticRollback removes, min_commit_ts,
// rollback records.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc"
)

func listen(addresses string) []net.Listener {
	var out []net.Listener
	for _, a := range strings.Split(addresses, ",") {
		l, err := net.Listen("tcp", a)
		if err != nil {
			log.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

func serve(l net.Listener, register func(*grpc.Server)) {
	s := grpc.NewServer(grpc.MaxRecvMsgSize(1<<30), grpc.MaxSendMsgSize(1<<30), grpc.MaxConcurrentStreams(1<<20))
	register(s)
	go func() { log.Println(l.Addr(), s.Serve(l)) }()
}

func main() {
	pdAddrs := flag.String("pd", "127.0.0.1:0", "addresses of the placement drivers, comma-separated; the first one leads")
	kvAddrs := flag.String("kv", "127.0.0.1:0", "addresses of the stores, comma-separated")
	controlAddr := flag.String("control", "127.0.0.1:0", "address of the HTTP control port")
	untilStdinEnds := flag.Bool("until-stdin-ends", false, "end when standard input does, so as not to outlive a starter that crashed")
	flag.Parse()

	pdListeners, kvListeners := listen(*pdAddrs), listen(*kvAddrs)
	controlListener := listen(*controlAddr)[0]
	c := newCluster(kvListeners)
	f := newFaults()
	clock := &tso{}
	db := newMvcc(clock)
	pds := newPlacementDrivers(c, clock, f, pdListeners)
	var addresses []string
	for i, l := range pdListeners {
		addresses = append(addresses, l.Addr().String())
		serve(l, func(s *grpc.Server) { pdpb.RegisterPDServer(s, &pdServer{pds: pds, index: i}) })
	}
	for i, l := range kvListeners {
		kv := &kvServer{cluster: c, db: db, faults: f, store: c.stores[i].Id, index: i}
		serve(l, func(s *grpc.Server) { tikvpb.RegisterTikvServer(s, kv) })
	}
	go func() { log.Println(http.Serve(controlListener, control(f, db, c, pds))) }()
	fmt.Printf("READY pd=%s control=%s\n", strings.Join(addresses, ","), controlListener.Addr())

	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	if *untilStdinEnds {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			end <- syscall.SIGTERM
		}()
	}
	<-end
}
