// First steps with gomemcache, which speaks ASCII and meta commands.
package gomemcache

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

func client(t *testing.T) (*memcache.Client, string) {
	t.Helper()
	host, port := os.Getenv("CLIENTS_MEMCACHED_HOST"), os.Getenv("CLIENTS_MEMCACHED_PORT")
	if host == "" || port == "" {
		t.Fatal("run these tests through tests/clients/run.py")
	}
	c := memcache.New(net.JoinHostPort(host, port))
	c.Timeout = 30 * time.Second
	return c, fmt.Sprintf("go-%d-%s-", time.Now().UnixNano(), t.Name())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, err, wanted error) {
	t.Helper()
	if !errors.Is(err, wanted) {
		t.Fatalf("expected %v, got %v", wanted, err)
	}
}

func TestSetGetDelete(t *testing.T) {
	c, p := client(t)
	_, err := c.Get(p + "a")
	expect(t, err, memcache.ErrCacheMiss)
	must(t, c.Set(&memcache.Item{Key: p + "a", Value: []byte("one"), Flags: 7}))
	item, err := c.Get(p + "a")
	must(t, err)
	if string(item.Value) != "one" || item.Flags != 7 {
		t.Fatalf("%+v", item)
	}
	must(t, c.Delete(p+"a"))
	expect(t, c.Delete(p+"a"), memcache.ErrCacheMiss)
}

func TestConditions(t *testing.T) {
	c, p := client(t)
	item := &memcache.Item{Key: p + "a", Value: []byte("x")}
	expect(t, c.Replace(item), memcache.ErrNotStored)
	must(t, c.Add(item))
	expect(t, c.Add(item), memcache.ErrNotStored)
	must(t, c.Replace(item))
	must(t, c.Append(&memcache.Item{Key: p + "a", Value: []byte("y")}))
	must(t, c.Prepend(&memcache.Item{Key: p + "a", Value: []byte("w")}))
	got, err := c.Get(p + "a")
	must(t, err)
	if string(got.Value) != "wxy" {
		t.Fatalf("%q", got.Value)
	}
}

func TestCompareAndSwap(t *testing.T) {
	c, p := client(t)
	must(t, c.Set(&memcache.Item{Key: p + "a", Value: []byte("0")}))
	first, err := c.Get(p + "a")
	must(t, err)
	second, err := c.Get(p + "a")
	must(t, err)
	first.Value = []byte("1")
	must(t, c.CompareAndSwap(first))
	second.Value = []byte("2")
	expect(t, c.CompareAndSwap(second), memcache.ErrCASConflict)
}

func TestCounting(t *testing.T) {
	c, p := client(t)
	_, err := c.Increment(p+"n", 1)
	expect(t, err, memcache.ErrCacheMiss)
	must(t, c.Set(&memcache.Item{Key: p + "n", Value: []byte("10")}))
	n, err := c.Increment(p+"n", 5)
	must(t, err)
	if n != 15 {
		t.Fatal(n)
	}
	n, err = c.Decrement(p+"n", 20)
	must(t, err)
	if n != 0 {
		t.Fatal(n)
	}
}

func TestManyKeysAndTouch(t *testing.T) {
	c, p := client(t)
	var keys []string
	for n := range 50 {
		key := fmt.Sprintf("%s%d", p, n)
		must(t, c.Set(&memcache.Item{Key: key, Value: bytes.Repeat([]byte{byte(n)}, n)}))
		keys = append(keys, key)
	}
	found, err := c.GetMulti(append(keys, p+"absent"))
	must(t, err)
	if len(found) != 50 || len(found[keys[7]].Value) != 7 {
		t.Fatalf("%d found", len(found))
	}
	must(t, c.Touch(keys[0], 100))
	item, err := c.GetAndTouch(keys[1], 100)
	must(t, err)
	if len(item.Value) != 1 {
		t.Fatalf("%+v", item)
	}
	must(t, c.Ping())
}
