package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/scheduler/store"
)

func (w *world) lead(s store.Store, about string) store.Leadership {
	w.Helper()
	l, err := s.Lead(w.ctx, []byte(about))
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// wantLost waits for the end of a leadership.
func (w *world) wantLost(l store.Leadership) {
	w.Helper()
	select {
	case <-l.Lost():
	case <-w.ctx.Done():
		w.Fatal("the leadership is not lost")
	}
}

func (w *world) wantHeld(l store.Leadership) {
	w.Helper()
	select {
	case <-l.Lost():
		w.Fatal("the leadership is lost")
	default:
	}
}

func (w *world) wantLeader(s store.Store, about string) {
	w.Helper()
	got, err := s.Leader(w.ctx)
	if err != nil || string(got) != about {
		w.Fatalf("Leader: %q error %v, want %q", got, err, about)
	}
}

func (w *world) wantNoLeader(s store.Store) {
	w.Helper()
	if got, err := s.Leader(w.ctx); !errors.Is(err, store.ErrNotFound) {
		w.Fatalf("Leader: %q error %v, want ErrNotFound", got, err)
	}
}

func leadership(w *world) {
	a, b := w.store(), w.store()
	w.wantNoLeader(a)
	first := w.lead(a, "http://a")
	if first.Term() <= 0 {
		w.Fatalf("term %d", first.Term())
	}
	w.wantLeader(a, "http://a")
	w.wantLeader(b, "http://a")
	w.wantHeld(first)
	if err := first.Resign(); err != nil {
		w.Fatal(err)
	}
	w.wantLost(first)
	if err := first.Resign(); err != nil {
		w.Fatalf("resigned twice: %v", err)
	}
	second := w.lead(b, "")
	if second.Term() <= first.Term() {
		w.Fatalf("term %d after %d", second.Term(), first.Term())
	}
	w.wantLeader(a, "")
	w.wantHeld(second)
	if err := second.Resign(); err != nil {
		w.Fatal(err)
	}
	w.wantNoLeader(b)
	if _, err := a.Lead(w.ctx, make([]byte, store.MaxAbout+1)); !errors.Is(err, store.ErrPath) {
		w.Fatalf("too much to say: %v", err)
	}
}

func waiting(w *world) {
	a, b := w.store(), w.store()
	first := w.lead(a, "a")
	// Who gives up waiting is not in the way of others.
	short, cancel := context.WithTimeout(w.ctx, 150*time.Millisecond)
	defer cancel()
	if _, err := b.Lead(short, []byte("b")); !errors.Is(err, context.DeadlineExceeded) {
		w.Fatalf("Lead beside a leader: %v", err)
	}
	got := make(chan store.Leadership)
	go func() {
		l, err := w.store().Lead(w.ctx, []byte("c"))
		if err != nil {
			w.Error(err)
		}
		got <- l
	}()
	select {
	case <-got:
		w.Fatal("two lead")
	case <-time.After(200 * time.Millisecond):
	}
	w.wantHeld(first)
	if err := first.Resign(); err != nil {
		w.Fatal(err)
	}
	second := <-got
	if second == nil || second.Term() <= first.Term() {
		w.Fatalf("the second leadership is %v", second)
	}
	w.wantLeader(a, "c")
}

func fencing(w *world) {
	a, b := w.store(), w.store()
	first := w.lead(a, "a")
	v := w.put(first.Store(), "x", "1", 0)
	large := w.put(first.Store(), "large", pattern(1, 1<<20), 0)
	w.wantPut(first.Store(), "x", v+1, store.ErrVersion)
	if err := first.Resign(); err != nil {
		w.Fatal(err)
	}
	// Refused whatever version is named, before and after another begins.
	w.wantPut(first.Store(), "x", v, store.ErrNotLeader)
	second := w.lead(b, "b")
	w.wantPut(first.Store(), "x", v, store.ErrNotLeader)
	w.wantPut(first.Store(), "x", v+1, store.ErrNotLeader)
	w.wantPut(first.Store(), "new", 0, store.ErrNotLeader)
	w.delete(first.Store(), "x", v, store.ErrNotLeader)
	w.delete(first.Store(), "none", 0, store.ErrNotLeader)
	if _, err := first.Store().Put(w.ctx, "large", []byte(pattern(2, 1<<20)), large); !errors.Is(err, store.ErrNotLeader) {
		w.Fatalf("a large value of an old leader: %v", err)
	}
	w.wantGet(first.Store(), "x", "1", v) // it may read
	w.wantNone(b, "new")
	v = w.put(second.Store(), "x", "2", v)
	w.wantGet(second.Store(), "large", pattern(1, 1<<20), large)
	w.wantList(second.Store(), "", "large", "x")
	w.delete(second.Store(), "large", large, nil)
	if err := second.Store().Close(); err != nil {
		w.Fatal(err)
	}
	w.wantGet(b, "x", "2", v)
}

// killedLeader: the leading process is killed, and a standby goes on.
func killedLeader(w *world) {
	c := w.child("lead", "the child")
	c.want("leading")
	s := w.store()
	w.wantLeader(s, "the child")
	value, _, err := s.Get(w.ctx, "beat")
	if err != nil {
		w.Fatal(err)
	}
	c.kill()
	began := time.Now()
	l := w.lead(s, "standby")
	w.Logf("it took %s to take over", time.Since(began))
	w.wantLeader(s, "standby")
	now, version, err := l.Store().Get(w.ctx, "beat")
	if err != nil || len(now) < len(value) {
		w.Fatalf("the new leader reads %q after %q, error %v", now, value, err)
	}
	w.put(l.Store(), "beat", "mine", version)
}

// termsRace: those who lead by turns never write at the same time, and each term is there once.
func termsRace(w *world) {
	var leading atomic.Int32
	var last atomic.Int64
	w.race(4, func(i int) error {
		s, err := w.open(w.name)
		if err != nil {
			return err
		}
		defer s.Close()
		for range 3 {
			l, err := s.Lead(w.ctx, fmt.Appendf(nil, "%d", i))
			if err != nil {
				return err
			}
			if leading.Add(1) != 1 {
				return errors.New("two lead")
			}
			if before := last.Swap(l.Term()); before >= l.Term() {
				return fmt.Errorf("term %d after %d", l.Term(), before)
			}
			if tries, err := increment(w.ctx, l.Store(), "led"); err != nil || tries != 1 {
				return fmt.Errorf("a leader had to try %d times: %w", tries, err)
			}
			leading.Add(-1)
			if err := l.Resign(); err != nil {
				return err
			}
		}
		return nil
	})
	w.wantCount("led", 12)
}

// Frozen is a test for stores whose leadership does not survive that the process stands still: another one takes
// over, and the first one's write is refused when it goes on.
func Frozen(t *testing.T, name string, open Open) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	w := &world{T: t, ctx: ctx, name: name, open: open}
	c := w.child("lead", "the child")
	c.want("leading")
	c.signal(syscall.SIGSTOP)
	s := w.store()
	l := w.lead(s, "standby")
	_, version, err := l.Store().Get(ctx, "beat")
	if err != nil {
		t.Fatal(err)
	}
	c.signal(syscall.SIGCONT)
	c.want("failed: " + store.ErrNotLeader.Error())
	w.wantHeld(l)
	w.put(l.Store(), "beat", "mine", version) // nobody has changed it
}
