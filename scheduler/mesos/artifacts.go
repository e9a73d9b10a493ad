package mesos

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// ArtifactsPath is where Artifacts are to be served.
const ArtifactsPath = "/artifacts/"

// Artifacts is this program as agents fetch it: an archive that runs on a machine where nothing but the C library
// is installed. It holds sluice/sluice, and in sluice/lib the libraries that the program looks for there. It
// holds no secrets: agents fetch it without a token.
type Artifacts struct {
	name     string   // has the checksum
	file     *os.File // has no name any more, so that nobody can remove it, and nothing is left of it
	size     int64
	machine  string // on which the program runs
	cLibrary string // the version that is needed, "" if none is
}

// program is what runs here, also if its file has been replaced since.
const program = "/proc/self/exe"

// NewArtifacts packs this program into a file of a folder. Nothing is left of it when it is closed, or when this process
// has ended. A worker needs it no longer than its launch takes: what it runs is in its sandbox.
func NewArtifacts(dir string) (*Artifacts, error) {
	a, err := pack(dir)
	if err != nil {
		return nil, fmt.Errorf("mesos: packing the executor into %s: %w", dir, err)
	}
	return a, nil
}

// Close gives the archive up.
func (a *Artifacts) Close() error { return a.file.Close() }

// Executor is how an agent starts the executor: base is the scheduler's address as agents reach it,
// "http://10.0.0.1:8080".
func (a *Artifacts) Executor(base, control string, args ...string) ExecutorSpec {
	return ExecutorSpec{
		Command: ExecutorCommand("./sluice/sluice", args...), Control: control, Machine: a.machine, CLibrary: a.cLibrary,
		URIs: []string{strings.TrimSuffix(base, "/") + ArtifactsPath + a.name},
	}
}

// ExecutorCommand is the command for an executor that is at a path on the agents.
func ExecutorCommand(path string, args ...string) string {
	command := "exec " + quote(path) + " executor"
	for _, a := range args {
		command += " " + quote(a)
	}
	return command
}

// quote writes a word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// ServeHTTP serves the archive below ArtifactsPath.
func (a *Artifacts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != ArtifactsPath+a.name {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/gzip")
	http.ServeContent(w, r, a.name, time.Time{}, io.NewSectionReader(a.file, 0, a.size))
}

// libraries are the files of the libraries that this process has loaded, by the name by which they are looked
// for, without those of the C library.
func libraries() (map[string]string, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	libs, needed := map[string]string{}, map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		at := strings.IndexByte(lines.Text(), '/')
		if at < 0 || !strings.Contains(filepath.Base(lines.Text()[at:]), ".so") {
			continue
		}
		path := lines.Text()[at:]
		name, needs, err := readLibrary(path)
		if err != nil {
			return nil, err
		}
		if name == "" || ofSystem(name) || libs[name] != "" {
			continue
		}
		libs[name] = path
		for _, n := range needs {
			needed[n] = path
		}
	}
	for n, path := range needed {
		if libs[n] == "" && !ofSystem(n) {
			return nil, fmt.Errorf("%s needs %s, which is not loaded", path, n)
		}
	}
	return libs, lines.Err()
}

func readLibrary(path string) (name string, needs []string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	names, err := f.DynString(elf.DT_SONAME)
	if err != nil || len(names) != 1 {
		return "", nil, errors.Join(err)
	}
	needs, err = f.ImportedLibraries()
	return names[0], needs, err
}

// neededCLibrary is the least version of the C library with which the program and its libraries run, "2.38"; "" if they
// ask for none.
func neededCLibrary(libs map[string]string) (string, error) {
	needed := []int{0, 0}
	for path := range maps.Values(libs) {
		if err := raiseCLibrary(&needed, path); err != nil {
			return "", err
		}
	}
	if err := raiseCLibrary(&needed, program); err != nil {
		return "", err
	}
	if needed[0] == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d.%d", needed[0], needed[1]), nil
}

// raiseCLibrary raises a version to what a file asks for.
func raiseCLibrary(needed *[]int, path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range symbols {
		var major, minor int
		if n, err := fmt.Sscanf(s.Version, "GLIBC_%d.%d", &major, &minor); err != nil || n != 2 {
			continue
		}
		if v := []int{major, minor}; slices.Compare(v, *needed) > 0 {
			*needed = v
		}
	}
	return nil
}

// systemLibraries belong to the C library, which must be that of the machine.
var systemLibraries = []string{
	"libc", "libm", "libpthread", "libdl", "librt", "libresolv", "libutil", "libnsl", "libanl", "libmvec", "libBrokenLocale",
	"libthread_db", "libc_malloc_debug", "linux-vdso", "linux-gate",
}

func ofSystem(name string) bool {
	base, _, _ := strings.Cut(name, ".so")
	return slices.Contains(systemLibraries, base) || strings.HasPrefix(base, "ld-linux") || strings.HasPrefix(base, "ld64") ||
		strings.HasPrefix(base, "libnss_")
}

// archiveFormat is part of the fingerprint, so that another layout has another name.
const archiveFormat = "sluice archive 1\n"

// fingerprint is the archive's name: a checksum of what is in it.
func fingerprint(libs map[string]string) (string, error) {
	sum := sha256.New()
	fmt.Fprint(sum, archiveFormat)
	if err := addSum(sum, "sluice", program); err != nil {
		return "", err
	}
	for _, name := range sortedLibraries(libs) {
		if err := addSum(sum, name, libs[name]); err != nil {
			return "", err
		}
	}
	return "sluice-" + hex.EncodeToString(sum.Sum(nil)[:16]) + ".tar.gz", nil
}

func sortedLibraries(libs map[string]string) []string { return slices.Sorted(maps.Keys(libs)) }

func addSum(sum hash.Hash, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintf(sum, "%s\n", name)
	_, err = io.Copy(sum, f)
	return err
}

// pack makes the archive.
func pack(dir string) (_ *Artifacts, err error) {
	libs, err := libraries()
	if err != nil {
		return nil, err
	}
	a := &Artifacts{machine: runtime.GOOS + "/" + runtime.GOARCH}
	if a.name, err = fingerprint(libs); err != nil {
		return nil, err
	}
	if a.cLibrary, err = neededCLibrary(libs); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if a.file, err = os.CreateTemp(dir, "packing-"); err != nil {
		return nil, err
	}
	err = errors.Join(os.Remove(a.file.Name()), a.write(libs))
	if err == nil {
		a.size, err = a.file.Seek(0, io.SeekCurrent)
	}
	if err != nil {
		return nil, errors.Join(err, a.file.Close())
	}
	return a, nil
}

func (a *Artifacts) write(libs map[string]string) error {
	zip, err := gzip.NewWriterLevel(a.file, gzip.BestSpeed)
	if err != nil {
		return err
	}
	out := tar.NewWriter(zip)
	if err := addFile(out, "sluice/sluice", program); err != nil {
		return err
	}
	for _, name := range sortedLibraries(libs) {
		if err := addFile(out, "sluice/lib/"+name, libs[name]); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), zip.Close())
}

func addFile(out *tar.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: info.Size(), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return err
}
