// Command tikvdouble is a single-process stand-in for a TiKV cluster (one
// placement driver, one or more stores), built on the mock store of client-go
// and served over gRPC, so that any client can be tested against it. It keeps
// everything in memory. It writes a line "READY pd=ADDRESS control=ADDRESS" when
// it can be used.
//
// It is a double, not a TiKV: pd.go and store.go say where it differs, and
// faults.go which faults can be commanded.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/tikv/client-go/v2/testutils"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	countMu sync.Mutex
	counts  = map[string]int{}
)

func printCounts(w io.Writer) {
	countMu.Lock()
	defer countMu.Unlock()
	for k, v := range counts {
		fmt.Fprintf(w, "%d %s\n", v, k)
	}
}

// guard counts calls, plays the commanded faults, and turns the mock's panics
// into errors.
func guard(f *faults) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (out any, err error) {
		method := path.Base(info.FullMethod)
		defer func() {
			if p := recover(); p != nil {
				err = status.Errorf(codes.Internal, "mock store panic: %v", p)
			}
			countMu.Lock()
			counts[method]++
			countMu.Unlock()
			if err != nil {
				log.Printf("%s: %v", method, err)
			}
		}()
		if strings.HasPrefix(info.FullMethod, "/tikvpb.") {
			time.Sleep(f.delay())
			if f.refuseNext(method) {
				return nil, status.Error(codes.Unavailable, "refused by command")
			}
		}
		return h(ctx, req)
	}
}

func listen(addr string) net.Listener {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		log.Fatal(err)
	}
	return l
}

func serve(l net.Listener, f *faults, register func(*grpc.Server)) {
	s := grpc.NewServer(grpc.UnaryInterceptor(guard(f)), grpc.MaxRecvMsgSize(64<<20),
		grpc.MaxSendMsgSize(64<<20), grpc.MaxConcurrentStreams(1<<20))
	register(s)
	go func() { log.Println(l.Addr(), s.Serve(l)) }()
}

func main() {
	pdAddr := flag.String("pd", "127.0.0.1:0", "address of the placement driver")
	kvAddrs := flag.String("kv", "127.0.0.1:0", "addresses of the stores, comma-separated")
	controlAddr := flag.String("control", "127.0.0.1:0", "address of the HTTP control port")
	untilStdinEnds := flag.Bool("until-stdin-ends", false, "end when standard input does, so as not to outlive a starter that crashed")
	flag.Parse()

	cli, cluster, _, err := testutils.NewMockTiKV("", nil)
	if err != nil {
		log.Fatal(err)
	}
	pdListener, controlListener := listen(*pdAddr), listen(*controlAddr)
	var kvListeners []net.Listener
	for _, a := range strings.Split(*kvAddrs, ",") {
		kvListeners = append(kvListeners, listen(a))
	}
	stores, _, _, _ := testutils.BootstrapWithMultiStores(cluster, len(kvListeners))
	for i, l := range kvListeners {
		cluster.UpdateStoreAddr(stores[i], l.Addr().String())
	}
	f := &faults{refuse: map[string]int{}}
	clock := &tso{}
	pd := &pdServer{cluster: cluster, tso: clock, addr: pdListener.Addr().String()}
	serve(pdListener, f, func(s *grpc.Server) {
		pdpb.RegisterPDServer(s, pd)
		keyspacepb.RegisterKeyspaceServer(s, pd)
	})
	write, waiting := &sync.Mutex{}, waits{}
	var first *kvServer
	for _, l := range kvListeners {
		kv := &kvServer{cli: cli, tso: clock, addr: l.Addr().String(), faults: f, write: write, waits: waiting}
		if first == nil {
			first = kv
		}
		serve(l, f, func(s *grpc.Server) { tikvpb.RegisterTikvServer(s, kv) })
	}
	go func() {
		log.Println(http.Serve(controlListener, control(f, first, cluster, len(kvListeners))))
	}()
	fmt.Printf("READY pd=%s control=%s\n", pdListener.Addr(), controlListener.Addr())

	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	if *untilStdinEnds {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			end <- syscall.SIGTERM
		}()
	}
	<-end
	_ = cli.Close()
}
