package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/executor/state"
	"sluice/executor/state/shared"
)

// Whatever an instance was told to be logged is there for its successor, however close they come.
func testRaceSeal(t *testing.T, open Shared) {
	coordinated(t, open)
	s := worker(t, open, "a")
	const generations = 30
	acked := make([]int64, generations+1) // last epoch that was acknowledged, by generation
	var wg sync.WaitGroup
	for gen := int64(1); gen <= generations; gen++ {
		log, list, err := s.OpenSource("src", gen)
		must(t, err)
		last := int64(0)
		if len(list) > 0 {
			last = list[len(list)-1].Epoch
		}
		begun := make(chan bool)
		wg.Go(func() {
			defer log.Close()
			acked[gen] = last
			for e := last + 1; ; e++ {
				if e == last+20 {
					close(begun)
				}
				err := log.Append(epochOf("src", e, e-1))
				if errors.Is(err, state.ErrSealed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				acked[gen] = e
			}
		})
		<-begun
	}
	_, list := openSource(t, s, generations+1)
	wg.Wait()
	for i, e := range list {
		if e.Epoch != int64(i+1) {
			t.Fatalf("entry %d is epoch %d", i, e.Epoch)
		}
	}
	for gen, last := range acked {
		if last > int64(len(list)) {
			t.Errorf("generation %d was told that epoch %d is logged, and the last one is %d", gen, last, len(list))
		}
	}
	// Each goes on from what it was given, so that the next can have at most one more than was acknowledged.
	for gen := 1; gen < generations; gen++ {
		if acked[gen] > acked[gen+1] {
			t.Errorf("generation %d was told that epoch %d is logged, and the next one ended with %d", gen, acked[gen], acked[gen+1])
		}
	}
}

// Of generations that open at the same time, all but the highest end up sealed, and nothing acknowledged
// is lost.
func testRaceOpen(t *testing.T, open Shared) {
	coordinated(t, open)
	s := worker(t, open, "a")
	for round := range int64(30) {
		source := fmt.Sprintf("src%d", round)
		var wg sync.WaitGroup
		var acked, sealed atomic.Int64
		for gen := range int64(4) {
			wg.Go(func() {
				log, list, err := s.OpenSource(source, gen)
				if err == nil {
					defer log.Close()
					// Everyone's epochs are his own, so that what was acknowledged can be told.
					n := int64(0)
					if len(list) > 0 {
						n = list[len(list)-1].Epoch
					}
					err = log.Append(epochOf(source, n/10*10+10+gen, n))
				}
				switch {
				case err == nil:
					acked.Add(1)
				case errors.Is(err, state.ErrSealed):
					sealed.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		log, list, err := s.OpenSource(source, 9)
		must(t, err)
		must(t, log.Close())
		if n := acked.Load(); n < 1 || int64(len(list)) < n || n+sealed.Load() != 4 {
			t.Errorf("%d acknowledged, %d sealed, and %d entries", n, sealed.Load(), len(list))
		}
	}
}

func testRaceDecide(t *testing.T, open Shared) {
	coordinated(t, open)
	workers := []shared.State{worker(t, open, "a"), worker(t, open, "b"), worker(t, open, "c"), worker(t, open, "d")}
	for attempt := range int64(100) {
		got := make([]bool, len(workers))
		var wg sync.WaitGroup
		for i, s := range workers {
			wg.Go(func() {
				var err error
				if got[i], err = s.Decide(attempt, i%2 == 0); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		committed, known, err := workers[0].Decided(attempt)
		must(t, err)
		if !known || got[0] != committed || got[1] != committed || got[2] != committed || got[3] != committed {
			t.Errorf("attempt %d: %v, and then %v", attempt, got, committed)
		}
	}
}

// Of coordinators that save at the same time each version is one's, and no one's is lost after a later
// one has been read.
func testRaceRecord(t *testing.T, open Shared) {
	coordinated(t, open)
	var mu sync.Mutex
	saved := map[int64]string{}
	var wg sync.WaitGroup
	for i := range 4 {
		s := worker(t, open, fmt.Sprintf("w%d", i))
		wg.Go(func() {
			for term := int64(i + 1); term < 60; term += 4 {
				err := s.Claim(term)
				for round := 0; err == nil && round < 5; round++ {
					var version int64
					if _, version, err = s.Load(); err != nil {
						break
					}
					record := fmt.Sprintf("%d of term %d", round, term)
					if version, err = s.Save([]byte(record), version); err != nil {
						break
					}
					mu.Lock()
					if other, twice := saved[version]; twice {
						t.Errorf("version %d is %q and %q", version, other, record)
					}
					saved[version] = record
					mu.Unlock()
				}
				if err != nil && !errors.Is(err, shared.ErrSuperseded) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	s := worker(t, open, "last")
	record, version, err := s.Load()
	must(t, err)
	if want, ok := saved[version]; ok && want != string(record) || len(saved) == 0 {
		t.Errorf("version %d is %q, and %q was saved; %d saved", version, record, want, len(saved))
	}
}
