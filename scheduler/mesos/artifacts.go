package mesos

import (
	"archive/tar"
	"bufio"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ArtifactsPath is where Artifacts are to be served.
const ArtifactsPath = "/artifacts/"

// Artifacts is this program as agents fetch it: an archive that runs on a machine where nothing but the C library
// is installed. It holds sluice/sluice, and in sluice/lib the libraries that the program looks for there. It
// holds no secrets: agents fetch it without a token.
type Artifacts struct {
	name string // has the checksum
	path string
}

// program is what runs here, also if its file has been replaced since.
const program = "/proc/self/exe"

// NewArtifacts packs this program into a folder, unless it is there already.
func NewArtifacts(dir string) (*Artifacts, error) {
	libs, err := libraries()
	if err != nil {
		return nil, fmt.Errorf("mesos: packing the executor: %w", err)
	}
	name, err := fingerprint(libs)
	if err != nil {
		return nil, fmt.Errorf("mesos: packing the executor: %w", err)
	}
	a := &Artifacts{name: name, path: filepath.Join(dir, name)}
	if _, err := os.Stat(a.path); err == nil {
		return a, nil
	}
	if err := a.pack(dir, libs); err != nil {
		return nil, fmt.Errorf("mesos: packing the executor into %s: %w", dir, err)
	}
	return a, nil
}

// Path is the archive's file.
func (a *Artifacts) Path() string { return a.path }

// Executor is how an agent starts the executor: base is the scheduler's address as agents reach it,
// "http://10.0.0.1:8080".
func (a *Artifacts) Executor(base, control string, args ...string) ExecutorSpec {
	return ExecutorSpec{
		Command: ExecutorCommand("./sluice/sluice", args...), Control: control,
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
	http.ServeFile(w, r, a.path)
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

// pack writes the archive under another name and renames it when it is whole.
func (a *Artifacts) pack(dir string, libs map[string]string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "packing-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removed(os.Remove(f.Name())))
		}
	}()
	defer func() { err = cmp.Or(err, f.Close()) }()
	zip, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
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
	if err := errors.Join(out.Close(), zip.Close(), f.Chmod(0o644)); err != nil {
		return err
	}
	return os.Rename(f.Name(), a.path)
}

func removed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
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
