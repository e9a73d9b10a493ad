package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Names in the directory. Those in values that are no names of paths begin with "+".
const (
	dirMark    = "sluice-store" // marks the directory
	dirLock    = "lock"         // locked for each change
	dirLeader  = "leader"       // locked by the leader
	dirTerm    = "term"         // the last term and what its leader says of itself
	dirDeleted = "deleted"      // the highest version that was ever removed
	dirValues  = "values"
	dirTmp     = "tmp"
	valueFile  = "+value"
)

// dirStore keeps the tree in a directory. Its methods may be called at the same time, also by other processes.
type dirStore struct {
	root string

	turn chan struct{} // a token, held with the lock of the directory: flock knows no goroutines
	lock *os.File      // of dirLock

	closed     chan struct{}
	closeOnce  sync.Once
	leaders    sync.WaitGroup // goroutines that watch over leaderships
	nextInTemp int64          // guarded by turn
}

// OpenDir opens the store in a directory, which it creates if it is not there. The directory must be seen in the
// same way by all processes, as it is on one machine.
func OpenDir(root string) (Store, error) {
	d := &dirStore{root: root, turn: make(chan struct{}, 1), closed: make(chan struct{})}
	if err := d.prepare(); err != nil {
		return nil, fmt.Errorf("store: %s: %w", root, err)
	}
	return d, nil
}

// prepare makes the folders. Two processes may do it at the same time.
func (d *dirStore) prepare() error {
	if err := os.MkdirAll(d.root, 0o755); err != nil {
		return err
	}
	if err := d.refuseOthers(); err != nil {
		return err
	}
	for _, folder := range []string{dirValues, dirTmp} {
		if err := os.MkdirAll(d.in(folder), 0o755); err != nil {
			return err
		}
	}
	lock, err := os.OpenFile(d.in(dirLock), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	d.lock = lock
	unlock, err := d.hold(context.Background())
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	defer unlock()
	if err := d.clean(); err != nil {
		return errors.Join(err, lock.Close())
	}
	return nil
}

// refuseOthers returns an error for a directory with files of somebody else.
func (d *dirStore) refuseOthers() error {
	entries, err := os.ReadDir(d.root)
	if err != nil {
		return err
	}
	own := []string{dirMark, dirLock, dirLeader, dirTerm, dirDeleted, dirValues, dirTmp}
	for _, e := range entries {
		if e.Name() == dirMark {
			return nil
		}
	}
	for _, e := range entries {
		if !slices.Contains(own, e.Name()) {
			return fmt.Errorf("the directory holds %s and is no store; name an empty or a new one", e.Name())
		}
	}
	return nil
}

// clean removes what killed processes were writing or removing, and marks the directory. The lock is held.
func (d *dirStore) clean() error {
	entries, err := os.ReadDir(d.in(dirTmp))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(d.in(dirTmp, e.Name())); err != nil {
			return err
		}
	}
	if _, err := os.Stat(d.in(dirMark)); err == nil {
		return nil
	}
	return d.write(d.in(dirMark), seal("store", nil))
}

func (d *dirStore) in(names ...string) string {
	return filepath.Join(append([]string{d.root}, names...)...)
}

// folder is where a path has its value and what is below it.
func (d *dirStore) folder(path string) string {
	return d.in(dirValues, filepath.FromSlash(path))
}

// lockPause is how long a process waits for the lock of another one between two attempts.
const lockPause = 2 * time.Millisecond

// hold takes the lock of the directory.
func (d *dirStore) hold(ctx context.Context) (unlock func(), err error) {
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		if err := d.usable(ctx); err != nil {
			<-d.turn
			return nil, err
		}
		err := flock(d.lock)
		if err == nil {
			return d.release, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			<-d.turn
			return nil, fmt.Errorf("lock of %s: %w", d.root, err)
		}
		time.Sleep(lockPause)
	}
}

func (d *dirStore) release() {
	// Unlocking an open file does not fail.
	_ = syscall.Flock(int(d.lock.Fd()), syscall.LOCK_UN)
	<-d.turn
}

// usable returns an error if the store is closed or the context has ended.
func (d *dirStore) usable(ctx context.Context) error {
	select {
	case <-d.closed:
		return ErrClosed
	default:
		return ctx.Err()
	}
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// write gives a file its content, whole and on the disk. The lock is held.
func (d *dirStore) write(path string, content []byte) error {
	tmp := d.temporary()
	if err := writeSynced(tmp, content); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	return syncDir(filepath.Dir(path))
}

// temporary is a name in tmp that nobody has. The lock is held.
func (d *dirStore) temporary() string {
	d.nextInTemp++
	return d.in(dirTmp, fmt.Sprintf("%d.%p.%d", os.Getpid(), d, d.nextInTemp))
}

func writeSynced(path string, content []byte) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}

// syncDir brings the names in a folder to the disk.
func syncDir(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readVersioned reads a sealed file whose id is a number. A file that is not there gives 0.
func readVersioned(path string) (id int64, value []byte, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	b, err := readBounded(f)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", path, err)
	}
	text, value, err := unseal(b)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", path, err)
	}
	id, err = strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, nil, fmt.Errorf("%s: %w: the version is %q", path, ErrDamaged, text)
	}
	return id, value, nil
}

// readBounded reads a file that was written whole.
func readBounded(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > MaxValue+maxHead {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrDamaged, info.Size())
	}
	b := make([]byte, info.Size())
	_, err = io.ReadFull(f, b)
	return b, err
}

// Get implements Store.
func (d *dirStore) Get(ctx context.Context, path string) ([]byte, int64, error) {
	if err := checkPath(path); err != nil {
		return nil, 0, err
	}
	if err := d.usable(ctx); err != nil {
		return nil, 0, err
	}
	version, value, err := readVersioned(filepath.Join(d.folder(path), valueFile))
	if err != nil {
		return nil, 0, fmt.Errorf("store: %q: %w", path, err)
	}
	if version == 0 {
		return nil, 0, fmt.Errorf("%w: %q", ErrNotFound, path)
	}
	return value, version, nil
}

// Put implements Store.
func (d *dirStore) Put(ctx context.Context, path string, value []byte, version int64) (int64, error) {
	return d.put(ctx, nil, path, value, version)
}

func (d *dirStore) put(ctx context.Context, f *dirFence, path string, value []byte, version int64) (int64, error) {
	if err := checkPut(path, value); err != nil {
		return 0, err
	}
	unlock, err := d.hold(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if err := f.check(); err != nil {
		return 0, err
	}
	file := filepath.Join(d.folder(path), valueFile)
	current, _, err := readVersioned(file)
	if err != nil {
		return 0, fmt.Errorf("store: %q: %w", path, err)
	}
	if current != version {
		return 0, fmt.Errorf("%w: %q has version %d, not %d", ErrVersion, path, current, version)
	}
	next, err := d.nextVersion(current)
	if err == nil {
		err = d.makeFolder(d.folder(path))
	}
	if err == nil {
		err = d.write(file, seal(strconv.FormatInt(next, 10), value))
	}
	if err != nil {
		return 0, fmt.Errorf("store: %q: %w", path, err)
	}
	return next, nil
}

// nextVersion is above the current one and, for a new value, above all that were ever removed.
func (d *dirStore) nextVersion(current int64) (int64, error) {
	if current > 0 {
		return current + 1, nil
	}
	removed, _, err := readVersioned(d.in(dirDeleted))
	return removed + 1, err
}

// makeFolder makes a folder below values, with its parents, on the disk.
func (d *dirStore) makeFolder(folder string) error {
	err := os.Mkdir(folder, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.makeFolder(filepath.Dir(folder)); err != nil {
			return err
		}
		err = os.Mkdir(folder, 0o755)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(folder))
}

// Delete implements Store.
func (d *dirStore) Delete(ctx context.Context, path string, version int64) error {
	return d.remove(ctx, nil, path, version)
}

func (d *dirStore) remove(ctx context.Context, f *dirFence, path string, version int64) error {
	if err := checkPath(path); err != nil {
		return err
	}
	unlock, err := d.hold(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.check(); err != nil {
		return err
	}
	folder := d.folder(path)
	current, _, err := readVersioned(filepath.Join(folder, valueFile))
	if err != nil {
		return fmt.Errorf("store: %q: %w", path, err)
	}
	highest, err := highestBelow(folder)
	switch {
	case err != nil:
		return fmt.Errorf("store: %q: %w", path, err)
	case highest == 0:
		return fmt.Errorf("%w: %q", ErrNotFound, path)
	case current != version:
		return fmt.Errorf("%w: %q has version %d, not %d", ErrVersion, path, current, version)
	}
	if err := d.removeFolder(folder, highest); err != nil {
		return fmt.Errorf("store: %q: %w", path, err)
	}
	return nil
}

// removeFolder takes a folder away whole, with the parents that hold nothing else.
func (d *dirStore) removeFolder(folder string, highest int64) error {
	removed, _, err := readVersioned(d.in(dirDeleted))
	if err != nil {
		return err
	}
	if highest > removed {
		if err := d.write(d.in(dirDeleted), seal(strconv.FormatInt(highest, 10), nil)); err != nil {
			return err
		}
	}
	tmp := d.temporary()
	if err := os.Rename(folder, tmp); err != nil {
		return err
	}
	parent := filepath.Dir(folder)
	if err := syncDir(parent); err != nil {
		return err
	}
	// Remove fails on a folder that is not empty, and there the parents end that are of no use.
	for parent != d.in(dirValues) && os.Remove(parent) == nil {
		parent = filepath.Dir(parent)
	}
	return os.RemoveAll(tmp)
}

// highestBelow is the highest version of a folder and all below it; 0 if there is no value.
func highestBelow(folder string) (int64, error) {
	var highest int64
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return ignoreMissing(err)
		}
		if e.Name() != valueFile {
			return nil
		}
		version, _, err := readVersioned(path)
		highest = max(highest, version)
		return err
	})
	return highest, err
}

// errFound ends a walk.
var errFound = errors.New("found")

// holdsValue says whether there is a value in a folder or below it.
func holdsValue(folder string) (bool, error) {
	err := filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return ignoreMissing(err)
		}
		if e.Name() == valueFile {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

// List implements Store.
func (d *dirStore) List(ctx context.Context, path string) ([]string, error) {
	if err := checkFolder(path); err != nil {
		return nil, err
	}
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(d.folder(path))
	if err = ignoreMissing(err); err != nil {
		return nil, fmt.Errorf("store: %q: %w", path, err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "+") || !e.IsDir() {
			continue
		}
		found, err := holdsValue(filepath.Join(d.folder(path), e.Name()))
		if err != nil {
			return nil, fmt.Errorf("store: %q: %w", path, err)
		}
		if found {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Close implements Store.
func (d *dirStore) Close() error {
	err := error(nil)
	d.closeOnce.Do(func() {
		close(d.closed)
		d.leaders.Wait()
		d.turn <- struct{}{}
		err = d.lock.Close()
		<-d.turn
	})
	return err
}
