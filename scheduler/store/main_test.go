package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/zktest"
	"sluice/scheduler/store"
	"sluice/scheduler/store/storetest"
	"sluice/scheduler/store/zkconn"
)

func TestMain(m *testing.M) {
	storetest.Child(open)
	os.Exit(zktest.Main(m))
}

// testSession is short, so that the death of a process is noticed soon; and long enough for a busy machine.
const testSession = 3 * time.Second

// open opens a folder or zk://HOST:PORT/ROOT; what stands behind "|" is the directory for large values.
func open(place string) (store.Store, error) {
	if !strings.HasPrefix(place, "zk://") {
		return store.OpenDir(place)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	url, large, _ := strings.Cut(place, "|")
	at, err := zkconn.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return store.OpenZooKeeper(ctx, at.Hosts, at.Path, store.Options{Session: testSession, LargeDir: large})
}

func TestDir(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) string { return t.TempDir() }, open)
}

var roots atomic.Int64

// freshRoot is a root that no other test has.
func freshRoot() string { return fmt.Sprintf("/test/%d-%d", os.Getpid(), roots.Add(1)) }

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	addr := zktest.Shared(t)
	storetest.Run(t, func(*testing.T) string { return "zk://" + addr + freshRoot() }, open)
}

func TestZooKeeperWithFiles(t *testing.T) {
	t.Parallel()
	addr := zktest.Shared(t)
	storetest.RunLarge(t, func(t *testing.T) string { return "zk://" + addr + freshRoot() + "|" + t.TempDir() }, open)
}

// TestNothingIsLeft: a store that was closed has no goroutines, also one whose leader and candidates were under way.
func TestNothingIsLeft(t *testing.T) {
	for _, place := range []string{t.TempDir(), "zk://" + zktest.Shared(t) + freshRoot()} {
		ignore := goleak.IgnoreCurrent()
		ctx, cancel := context.WithCancel(context.Background())
		var stores []store.Store
		for range 2 {
			s, err := open(place)
			if err != nil {
				t.Fatal(err)
			}
			stores = append(stores, s)
		}
		l, err := stores[0].Lead(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Store().Put(ctx, "x", make([]byte, 1<<20), 0); err != nil {
			t.Fatal(err)
		}
		waited := make(chan error, 1)
		go func() {
			_, err := stores[1].Lead(ctx, nil)
			waited <- err
		}()
		time.Sleep(100 * time.Millisecond)
		for _, s := range []store.Store{stores[1], stores[0]} {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := <-waited; !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: Lead: %v", place, err)
		}
		cancel()
		goleak.VerifyNone(t, ignore)
	}
}
