package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	leadPause  = 50 * time.Millisecond  // between two attempts to lead
	leaveTime  = time.Second            // for the address of a leader that leads no longer to be removed
	watchPause = 100 * time.Millisecond // between two looks whether the leader's file is still there
)

// Lead implements Store.
func (d *dirStore) Lead(ctx context.Context, about []byte) (Leadership, error) {
	if err := checkAbout(about); err != nil {
		return nil, err
	}
	for {
		if err := d.usable(ctx); err != nil {
			return nil, err
		}
		file, err := d.takeLeaderFile()
		if err != nil {
			return nil, fmt.Errorf("store: %s: %w", d.root, err)
		}
		if file != nil {
			return d.beginTerm(ctx, file, about)
		}
		select {
		case <-ctx.Done():
		case <-d.closed:
		case <-time.After(leadPause):
		}
	}
}

// takeLeaderFile locks the leader's file; nil if somebody else has it.
func (d *dirStore) takeLeaderFile() (*os.File, error) {
	file, err := os.OpenFile(d.in(dirLeader), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = flock(file)
	if err == nil && !d.isLeaderFile(file) {
		// Removed between opening and locking: the lock is worth nothing.
		return nil, file.Close()
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, file.Close()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// isLeaderFile says whether an open file is still the one that has the name.
func (d *dirStore) isLeaderFile(file *os.File) bool {
	own, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(d.in(dirLeader))
	return err == nil && os.SameFile(own, named)
}

// beginTerm records the next term. It owns file, which is locked.
func (d *dirStore) beginTerm(ctx context.Context, file *os.File, about []byte) (Leadership, error) {
	unlock, err := d.hold(ctx)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	defer unlock()
	term, _, err := readVersioned(d.in(dirTerm))
	if err == nil {
		err = d.write(d.in(dirTerm), seal(strconv.FormatInt(term+1, 10), about))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store: %s: %w", d.root, err), file.Close())
	}
	l := &dirLeadership{d: d, file: file, term: term + 1, lost: make(chan struct{}), gone: make(chan struct{}), resigned: make(chan struct{})}
	d.leaders.Add(1)
	go l.watch()
	return l, nil
}

// Leader implements Store.
func (d *dirStore) Leader(ctx context.Context) ([]byte, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	led, err := d.led()
	if err != nil {
		return nil, fmt.Errorf("store: %s: %w", d.root, err)
	}
	term, about, err := readVersioned(d.in(dirTerm))
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if !led || term == 0 {
		return nil, fmt.Errorf("%w: no scheduler leads", ErrNotFound)
	}
	return about, nil
}

// led says whether somebody has the leader's file locked.
func (d *dirStore) led() (bool, error) {
	file, err := os.Open(d.in(dirLeader))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// dirLeadership is held by the lock on the leader's file.
type dirLeadership struct {
	d    *dirStore
	file *os.File
	term int64

	resigned   chan struct{}
	resignOnce sync.Once
	lost       chan struct{} // closed by watch, which ends then
	gone       chan struct{} // closed when the file is no longer locked
}

// watch closes lost when the leader's file has gone, and then lets go of it.
func (l *dirLeadership) watch() {
	defer l.d.leaders.Done()
	// The lock is released after lost is closed, so that nobody leads before.
	defer close(l.gone)
	defer l.file.Close()
	defer l.forgetAbout()
	defer close(l.lost)
	ticker := time.NewTicker(watchPause)
	defer ticker.Stop()
	for l.d.isLeaderFile(l.file) {
		select {
		case <-ticker.C:
		case <-l.resigned:
			return
		case <-l.d.closed:
			return
		}
	}
}

// forgetAbout removes where this leader is found, so that nobody looks for it there while the next one has the lock and has
// not said yet where it is. If that fails some calls go to the old address for a moment.
func (l *dirLeadership) forgetAbout() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	unlock, err := l.d.hold(ctx)
	if err != nil {
		return
	}
	defer unlock()
	if term, _, err := readVersioned(l.d.in(dirTerm)); err == nil && term == l.term {
		_ = l.d.write(l.d.in(dirTerm), seal(strconv.FormatInt(term, 10), nil))
	}
}

// Term implements Leadership.
func (l *dirLeadership) Term() int64 { return l.term }

// Lost implements Leadership.
func (l *dirLeadership) Lost() <-chan struct{} { return l.lost }

// Store implements Leadership.
func (l *dirLeadership) Store() Store { return &dirFenced{l.d, &dirFence{l}} }

// Resign implements Leadership.
func (l *dirLeadership) Resign() error {
	l.resignOnce.Do(func() { close(l.resigned) })
	<-l.gone
	return nil
}

// dirFence is what a change of a leader must pass.
type dirFence struct{ l *dirLeadership }

// check is called with the lock of the directory held, under which terms begin.
func (f *dirFence) check() error {
	if f == nil {
		return nil
	}
	select {
	case <-f.l.lost:
		return fmt.Errorf("%w: the term %d is over", ErrNotLeader, f.l.term)
	default:
	}
	term, _, err := readVersioned(f.l.d.in(dirTerm))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if term != f.l.term {
		return fmt.Errorf("%w: this is term %d, and the last one is %d", ErrNotLeader, f.l.term, term)
	}
	return nil
}

// dirFenced is the store of a leader.
type dirFenced struct {
	*dirStore
	fence *dirFence
}

// Put implements Store.
func (d *dirFenced) Put(ctx context.Context, path string, value []byte, version int64) (int64, error) {
	return d.put(ctx, d.fence, path, value, version)
}

// Delete implements Store.
func (d *dirFenced) Delete(ctx context.Context, path string, version int64) error {
	return d.remove(ctx, d.fence, path, version)
}

// Close does nothing: the Store that leads is closed itself.
func (d *dirFenced) Close() error { return nil }
