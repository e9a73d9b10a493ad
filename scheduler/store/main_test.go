package store_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/zktest"
	"sluice/scheduler/store"
	"sluice/scheduler/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child(open)
	os.Exit(zktest.Main(m))
}

// testSession is short, so that the death of a process is noticed soon.
const testSession = 2 * time.Second

// open opens "dir:PATH", "zk:HOST:PORT/ROOT" or "zk:HOST:PORT/ROOT|DIRECTORY".
func open(name string) (store.Store, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch kind {
	case "dir":
		return store.OpenDir(rest)
	case "zk":
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		rest, dir, _ := strings.Cut(rest, "|")
		host, root, _ := strings.Cut(rest, "/")
		return store.OpenZooKeeper(ctx, []string{host}, "/"+root, store.Options{Session: testSession, LargeDir: dir})
	}
	return nil, fmt.Errorf("no store %q", name)
}

func TestDir(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) string { return "dir:" + t.TempDir() }, open)
}

var roots atomic.Int64

// freshRoot is a root that no other test has.
func freshRoot() string { return fmt.Sprintf("/test/%d-%d", os.Getpid(), roots.Add(1)) }

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	addr := zktest.Shared(t)
	storetest.Run(t, func(*testing.T) string { return "zk:" + addr + freshRoot() }, open)
}

func TestZooKeeperWithFiles(t *testing.T) {
	t.Parallel()
	addr := zktest.Shared(t)
	storetest.RunLarge(t, func(t *testing.T) string { return "zk:" + addr + freshRoot() + "|" + t.TempDir() }, open)
}
