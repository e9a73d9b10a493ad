package shared

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sluice/executor/state"
)

// What tells a process of this test binary that it is to write to a directory for ever, as a generation.
const (
	childDir = "SLUICE_SHARED_TEST_DIR"
	childGen = "SLUICE_SHARED_TEST_GEN"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		err := writeForEver(dir, os.Getenv(childGen))
		fmt.Printf("error %v %q\n", errors.Is(err, state.ErrSealed) || errors.Is(err, ErrSuperseded), err.Error())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// killed is what a process does: it goes on from what the directory holds, and prints a line for whatever
// was acknowledged.
type killed struct {
	s      *Store
	gen    int64
	source *sourceLog
	sink   *sinkLog
	commit int64
}

func writeForEver(dir, generation string) error {
	gen, err := strconv.ParseInt(generation, 10, 64)
	if err != nil {
		return err
	}
	k := &killed{gen: gen}
	if k.s, err = Open(dir, Options{SegmentSize: 1 << 10}); err != nil {
		return err
	}
	log, list, err := k.s.OpenSource("src", gen)
	if err != nil {
		return err
	}
	k.source = log.(*sourceLog)
	sink, commit, _, err := k.s.OpenSink("snk", gen)
	if err != nil {
		return err
	}
	k.sink, k.commit = sink.(*sinkLog), commit
	if err := k.s.Claim(gen); err != nil {
		return err
	}
	next := int64(1)
	if len(list) > 0 {
		next = list[len(list)-1].Epoch + 1
	}
	for i := next; ; i++ {
		if err := k.step(i); err != nil {
			return err
		}
	}
}

func (k *killed) step(i int64) error {
	if err := errors.Join(k.source.AppendRows(i, rowsAt(i)), k.source.Append(epoch(i))); err != nil {
		return err
	}
	fmt.Println("epoch", i)
	if i%3 == 0 && i > k.commit {
		if err := k.sink.Commit(i, rowsAt(i)); err != nil {
			return err
		}
		fmt.Println("commit", i)
	}
	if _, err := k.s.Decide(i, i%2 == 0); err != nil {
		return err
	}
	fmt.Println("decision", i)
	if i%10 != 0 {
		return nil
	}
	ref, err := k.s.WriteSnapshot("agg", k.gen, i, i, "f", func(keep func(int, []byte) error) error { return keep(7, rowsAt(i)) })
	if err != nil {
		return err
	}
	_, version, err := k.s.Load()
	if err == nil {
		_, err = k.s.Save(fmt.Appendf(nil, "%d %s", i, ref), version)
	}
	if err != nil {
		return err
	}
	fmt.Println("record", i)
	return errors.Join(k.source.Trim(i), k.s.Trim(i, []string{ref}))
}

func rowsAt(i int64) []byte { return bytes.Repeat([]byte{byte(i)}, int(i%700)) }

// A generation after the other is killed or replaced while it runs. Whatever was acknowledged is there.
func TestKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "q")
	coordinator, err := Open(dir, Options{Coordinator: true})
	must(t, err)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	acked := map[string]int64{}
	var zombie *child
	for gen := int64(2); gen < 50; gen += 2 {
		c := start(t, dir, gen)
		if zombie != nil {
			// It has been writing until now, and finds itself replaced.
			zombie.read(t, acked, -1)
			zombie.wait(t, true)
			zombie = nil
		}
		c.read(t, acked, 1+random.IntN(200))
		if gen%3 == 0 {
			zombie = c
			continue
		}
		must(t, c.cmd.Process.Kill())
		c.read(t, acked, -1)
		c.wait(t, false)
		checkAcked(t, dir, gen+1, acked)
	}
	if acked["record"] == 0 {
		t.Error("no record was saved")
	}
	must(t, coordinator.disk.sweep())
	left, err := coordinator.disk.names(tmpDir)
	must(t, err)
	if len(left) > 0 {
		t.Errorf("temporary files %q", left)
	}
	must(t, coordinator.Close())
}

type child struct {
	cmd *exec.Cmd
	out *bufio.Reader
	end string // the error it ended with
}

// start starts a generation, which has taken over when it returns.
func start(t *testing.T, dir string, gen int64) *child {
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childDir+"="+dir, fmt.Sprintf("%s=%d", childGen, gen))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	c := &child{cmd: cmd, out: bufio.NewReader(out)}
	_, err = c.out.Peek(1)
	must(t, err)
	return c
}

// read notes what is printed, some lines or all that there will be.
func (c *child) read(t *testing.T, acked map[string]int64, lines int) {
	for i := 0; i != lines; i++ {
		line, err := c.out.ReadString('\n')
		if err == io.EOF {
			return
		}
		must(t, err)
		what, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if what == "error" {
			c.end = number
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		must(t, err)
		acked[what] = max(n, acked[what])
	}
}

func (c *child) wait(t *testing.T, replaced bool) {
	if err := c.cmd.Wait(); err == nil {
		t.Error("the process ended well")
	}
	if replaced != strings.HasPrefix(c.end, "true ") || !replaced && c.end != "" {
		t.Errorf("the process ended with %q", c.end)
	}
}

func checkAcked(t *testing.T, dir string, gen int64, acked map[string]int64) {
	t.Helper()
	s, err := Open(dir, Options{SegmentSize: 1 << 10})
	must(t, err)
	log, list, err := s.OpenSource("src", gen)
	must(t, err)
	last := list[len(list)-1].Epoch
	// One epoch may have been under way, in this generation and in each that was sealed before it.
	if last < acked["epoch"] {
		t.Errorf("last epoch %d, acknowledged %d", last, acked["epoch"])
	}
	for i, e := range list {
		if e.Epoch != list[0].Epoch+int64(i) || !bytes.Equal(e.Position, epoch(e.Epoch).Position) {
			t.Errorf("entry %d is %+v, after %+v", i, e, list[0])
		}
		must(t, log.(state.RowLog).Rows(e.Epoch, func(rows []byte) error {
			if !bytes.Equal(rows, rowsAt(e.Epoch)) {
				t.Errorf("rows of epoch %d: %d bytes", e.Epoch, len(rows))
			}
			return nil
		}))
	}
	sink, commit, witness, err := s.OpenSink("snk", gen)
	must(t, err)
	if commit < acked["commit"] || commit > last || commit > 0 && len(rowsAt(commit)) != len(witness) {
		t.Errorf("commit %d of %d bytes, acknowledged %d", commit, len(witness), acked["commit"])
	}
	if n := acked["decision"]; n > 0 {
		committed, known, err := s.Decided(n)
		if must(t, err); !known || committed != (n%2 == 0) {
			t.Errorf("decision of %d: %v %v", n, committed, known)
		}
	}
	checkRecord(t, s, list[0].Epoch, acked["record"])
	must(t, errors.Join(log.Close(), sink.Close(), s.Close()))
}

func checkRecord(t *testing.T, s *Store, first, acked int64) {
	t.Helper()
	record, _, err := s.Load()
	must(t, err)
	var at int64
	var ref string
	if len(record) > 0 {
		if _, err := fmt.Sscanf(string(record), "%d %s", &at, &ref); err != nil {
			t.Fatalf("record %q: %v", record, err)
		}
	}
	if at < acked || first > max(at, 1) {
		t.Errorf("record of %d, acknowledged %d, and the log begins with %d", at, acked, first)
	}
	if at == 0 {
		return
	}
	_, err = s.ReadSnapshot(ref, func(group int, piece []byte) error {
		if group != 7 || !bytes.Equal(piece, rowsAt(at)) {
			t.Errorf("snapshot of %d: group %d, %d bytes", at, group, len(piece))
		}
		return nil
	})
	must(t, err)
}
