// Writes rows with go-sql-driver to whichever of two servers takes writes, until standard input ends. The driver knows one
// address: its dialer goes through the list, and rejectReadOnly lets database/sql connect again after error 1290.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

const patience = 3 * time.Second

func main() {
	servers := strings.Split(os.Getenv("FAILOVER_MYSQL"), ",")
	var next atomic.Uint32
	mysql.RegisterDialContext("group", func(ctx context.Context, _ string) (net.Conn, error) {
		dialer := net.Dialer{Timeout: patience}
		at := next.Add(1) - 1
		return dialer.DialContext(ctx, "tcp", servers[int(at)%len(servers)])
	})
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.DBName = "root", "group", "group", "d"
	config.Timeout, config.ReadTimeout, config.RejectReadOnly = patience, patience, true
	connector, err := mysql.NewConnector(config)
	if err != nil {
		panic(err)
	}
	db := sql.OpenDB(connector)
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	for id := 0; !ended.Load(); id++ {
		_, err := db.Exec("INSERT INTO go VALUES (?)", id)
		if err == nil {
			fmt.Println("ack", id)
			continue
		}
		var refused *mysql.MySQLError
		if errors.As(err, &refused) {
			fmt.Println("error", refused.Number, refused.Message)
		} else {
			fmt.Println("error", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
