// Command tikvdouble is a single-process stand-in for a TiKV cluster (placement
// drivers and stores), served over gRPC, so that a client can be tested against
// it. It keeps everything in memory. It writes a line
// "READY pd=ADDRESSES control=ADDRESS" when it can be used.
//
//	cluster.go  regions, stores, leaders
//	mvcc.go     versions, locks, and the commands on them
//	kv.go       the stream of requests to a store
//	pd.go       timestamps, and where regions and stores are
//	gc.go       the safe point, and the collection of versions below it
//	faults.go   the faults that the control port commands
//	failures.go those of whole processes, and those in the middle of a request
//
// It is a double, not a TiKV: data are not replicated, the "stores" share one
// memory, and time is the machine's. Its rules for locks and versions are TiKV's
// as far as the client depends on them: one-phase and asynchronous commit,
// pessimistic locks that only PessimisticRollback removes, min_commit_ts,
// rollback records. As TiKV since 8.5 it ends when a request has a timestamp that
// was not given out.
package main

import (
	"crypto/tls"
	"crypto/x509"
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
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
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

// encryption reads the certificates of TLS; clients must have one of the same
// authority. Nil without files.
func encryption(ca, cert, key string) credentials.TransportCredentials {
	if ca == "" {
		return nil
	}
	authority, err := os.ReadFile(ca)
	if err != nil {
		log.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		log.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
}

// process is a server that can be killed and started again at its address.
type process struct {
	address  string
	tls      credentials.TransportCredentials
	register func(*grpc.Server)
	server   *grpc.Server
}

func newProcess(l net.Listener, tls credentials.TransportCredentials, register func(*grpc.Server)) *process {
	p := &process{address: l.Addr().String(), tls: tls, register: register}
	p.server = serve(l, tls, register)
	return p
}

// kill ends the process: its connections break, and its port is closed.
func (p *process) kill() { p.server.Stop() }

// start starts it again.
func (p *process) start() {
	for range 100 {
		if l, err := net.Listen("tcp", p.address); err == nil {
			p.server = serve(l, p.tls, p.register)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	log.Println("the port of", p.address, "is not free")
}

func serve(l net.Listener, tls credentials.TransportCredentials, register func(*grpc.Server)) *grpc.Server {
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(1 << 30), grpc.MaxSendMsgSize(1 << 30), grpc.MaxConcurrentStreams(1 << 20)}
	if tls != nil {
		options = append(options, grpc.Creds(tls))
	}
	s := grpc.NewServer(options...)
	register(s)
	go func() { log.Println(l.Addr(), s.Serve(l)) }()
	return s
}

func main() {
	pdAddrs := flag.String("pd", "127.0.0.1:0", "addresses of the placement drivers, comma-separated; the first one leads")
	kvAddrs := flag.String("kv", "127.0.0.1:0", "addresses of the stores, comma-separated")
	controlAddr := flag.String("control", "127.0.0.1:0", "address of the HTTP control port")
	untilStdinEnds := flag.Bool("until-stdin-ends", false, "end when standard input does, so as not to outlive a starter that crashed")
	ca := flag.String("ca", "", "file with the certificate of the authority; without it connections have no TLS")
	cert := flag.String("cert", "", "file with the certificate of placement drivers and stores")
	key := flag.String("key", "", "file with the private key of -cert")
	flag.Parse()
	creds := encryption(*ca, *cert, *key)

	pdListeners, kvListeners := listen(*pdAddrs), listen(*kvAddrs)
	controlListener := listen(*controlAddr)[0]
	c := newCluster(kvListeners)
	f := newFaults()
	db := newMvcc(&tso{})
	pds := newPlacementDrivers(c, db, f, pdListeners)
	var addresses []string
	all := &processes{}
	for i, l := range pdListeners {
		addresses = append(addresses, l.Addr().String())
		all.pds = append(all.pds, newProcess(l, creds, func(s *grpc.Server) { pdpb.RegisterPDServer(s, &pdServer{pds: pds, index: i}) }))
	}
	for i, l := range kvListeners {
		kv := &kvServer{cluster: c, db: db, faults: f, store: c.stores[i].Id, index: i}
		all.stores = append(all.stores, newProcess(l, creds, func(s *grpc.Server) { tikvpb.RegisterTikvServer(s, kv) }))
	}
	go func() { log.Println(http.Serve(controlListener, control(f, db, c, pds, all))) }()
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
