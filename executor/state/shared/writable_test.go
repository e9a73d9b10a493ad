package shared

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestWritable: who cannot write is told before anything is lost; room may come.
func TestWritable(t *testing.T) {
	disk := smallDisk(t, 256)
	dir := filepath.Join(disk, "q")
	s, err := Open(dir, Options{Coordinator: true})
	must(t, err)
	must(t, s.Writable())
	free := fill(t, disk)
	must(t, s.Writable())
	free()
	left, err := os.ReadDir(s.disk.path(tmpDir))
	if err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, error %v", left, err)
	}
	must(t, s.Close())
	must(t, syscall.Mount("none", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	worker, err := Open(dir, Options{})
	must(t, err)
	if err := worker.Writable(); !errors.Is(err, syscall.EROFS) {
		t.Errorf("error %v", err)
	}
	must(t, worker.Close())
}
