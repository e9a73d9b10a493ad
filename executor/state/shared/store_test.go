package shared_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/executor/state"
	"sluice/executor/state/shared"
	"sluice/executor/state/shared/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Shared {
		m := shared.NewMemory(nil)
		return func(process string, coordinator bool) (shared.State, error) { return m.Open(process, coordinator) }
	})
}

// memoryDir is a temporary directory in memory where there is such a thing.
func memoryDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "sluice-shared-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestDirectory(t *testing.T) {
	for name, opts := range map[string]shared.Options{
		"Never":   {SegmentSize: 1 << 10},
		"Grouped": {SegmentSize: 1 << 10, Fsync: state.FsyncGrouped, Interval: time.Millisecond},
		"Always":  {SegmentSize: 1 << 10, Fsync: state.FsyncAlways},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t testing.TB) storetest.Shared {
				dir := filepath.Join(memoryDir(t), "q")
				return func(_ string, coordinator bool) (shared.State, error) {
					o := opts
					o.Coordinator = coordinator
					return shared.Open(dir, o)
				}
			})
		})
	}
}
