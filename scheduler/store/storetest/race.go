package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"sluice/scheduler/store"
)

// increment adds one to a counter, against all others who do, and says how often it had to try.
func increment(ctx context.Context, s store.Store, path string) (tries int, err error) {
	for tries = 1; ; tries++ {
		value, version, err := s.Get(ctx, path)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return tries, err
		}
		n := 0
		if err == nil {
			if n, err = strconv.Atoi(string(value)); err != nil {
				return tries, err
			}
		}
		_, err = s.Put(ctx, path, strconv.AppendInt(nil, int64(n+1), 10), version)
		if err == nil {
			return tries, nil
		}
		if !errors.Is(err, store.ErrVersion) {
			return tries, err
		}
	}
}

// race runs n functions at the same time and reports what they return.
func (w *world) race(n int, run func(i int) error) {
	w.Helper()
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			if err := run(i); err != nil {
				w.Errorf("%d: %v", i, err)
			}
		})
	}
	group.Wait()
}

func (w *world) wantCount(path string, want int) {
	w.Helper()
	value, _, err := w.store().Get(w.ctx, path)
	if err != nil || string(value) != strconv.Itoa(want) {
		w.Fatalf("the counter is %q, error %v, want %d", value, err, want)
	}
}

func goroutinesRace(w *world) {
	stores := []store.Store{w.store(), w.store(), w.store()}
	const each = 15
	w.race(6, func(i int) error {
		for range each {
			if _, err := increment(w.ctx, stores[i%3], "deep/counter"); err != nil {
				return err
			}
		}
		return nil
	})
	w.wantCount("deep/counter", 6*each)
}

// largeValuesRace: a value that is kept in several pieces is read whole while others replace it.
func largeValuesRace(w *world) {
	stores := []store.Store{w.store(), w.store(), w.store()}
	w.put(stores[0], "large", pattern(0, 1500<<10), 0)
	var writers sync.WaitGroup
	done := make(chan struct{})
	for i := range 2 {
		writers.Go(func() {
			for n := range 5 {
				_, version, err := stores[i].Get(w.ctx, "large")
				if err == nil {
					_, err = stores[i].Put(w.ctx, "large", []byte(pattern(10*n+i, 1500<<10+n)), version)
				}
				if err != nil && !errors.Is(err, store.ErrVersion) {
					w.Error(err)
				}
			}
		})
	}
	go func() { writers.Wait(); close(done) }()
	for reads := 0; ; reads++ {
		value, _, err := stores[2].Get(w.ctx, "large")
		if err != nil {
			w.Fatalf("read %d: %v", reads, err)
		}
		if string(value) != pattern(int(value[0]), len(value)) {
			w.Fatalf("read %d: a value that nobody wrote", reads)
		}
		select {
		case <-done:
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// removalsRace: values appear and go, with their folders, while others are put beside them.
func removalsRace(w *world) {
	stores := []store.Store{w.store(), w.store(), w.store()}
	w.race(3, func(i int) error {
		s := stores[i]
		for n := range 8 {
			path := fmt.Sprintf("a/b/c%d", i)
			v, err := s.Put(w.ctx, path, []byte(path), 0)
			if err != nil {
				return fmt.Errorf("put %d: %w", n, err)
			}
			if value, got, err := s.Get(w.ctx, path); err != nil || string(value) != path || got != v {
				return fmt.Errorf("get %d: %q version %d: %w", n, value, got, err)
			}
			if err := s.Delete(w.ctx, path, v); err != nil {
				return fmt.Errorf("delete %d: %w", n, err)
			}
		}
		return nil
	})
	w.wantList(stores[0], "")
	// One of those who put at the same version wins.
	winners := make([]int, 3)
	for n := range 10 {
		w.race(3, func(i int) error {
			_, err := stores[i].Put(w.ctx, fmt.Sprintf("new/%d", n), []byte{byte(i)}, 0)
			if err == nil {
				winners[i]++
			}
			if errors.Is(err, store.ErrVersion) {
				return nil
			}
			return err
		})
	}
	if winners[0]+winners[1]+winners[2] != 10 {
		w.Fatalf("%v values were new, want 10 in all", winners)
	}
}

func processesRace(w *world) {
	const each = 25
	var children []*child
	for range 3 {
		children = append(children, w.child("count", strconv.Itoa(each)))
	}
	for _, c := range children {
		c.want("done")
	}
	w.wantCount("counter", 3*each)
}

// killedWriters: what a killed process had been told is stored is there, and what it was doing is there whole or not at
// all.
func killedWriters(w *world) {
	for i := range 4 {
		acknowledged, err := strconv.ParseInt(w.child("write", "").killAfter(time.Duration(i*i)*10*time.Millisecond), 10, 64)
		if err != nil {
			w.Fatal(err)
		}
		s := w.store()
		value, version, err := s.Get(w.ctx, "kept")
		if err != nil || version < acknowledged {
			w.Fatalf("version %d error %v, and %d was acknowledged", version, err, acknowledged)
		}
		if string(value) != pattern(int(value[0]), len(value)) {
			w.Fatal("a value that nobody wrote")
		}
		w.put(s, "kept", "between", version)
	}
	rests, err := w.store().List(w.ctx, "gone")
	if err != nil || len(rests) > 4 {
		w.Fatalf("%d values were removed in part, error %v", len(rests), err)
	}
}
