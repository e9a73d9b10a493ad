package state

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
)

// childDir tells a process of this test binary that it is to write to a state directory for ever.
const childDir = "SLUICE_STATE_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Fprintln(os.Stderr, writeForEver(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func killPosition(i int64) []byte { return fmt.Appendf(nil, "position %d", i*i) }

func killPiece(i int64) []byte { return bytes.Repeat([]byte{byte(i)}, int(i%5000)) }

// writeForEver goes on from what the directory holds, and prints a line for whatever was acknowledged.
func writeForEver(dir string) error {
	s, err := Open(dir, Options{SegmentSize: 1 << 10})
	if err != nil {
		return err
	}
	next := int64(1)
	if list := s.Epochs("a"); len(list) > 0 {
		next = list[len(list)-1].Epoch + 1
	}
	for i := next; ; i++ {
		if err := s.AppendEpoch(Epoch{Source: "a", Epoch: i, Prev: i - 1, Rows: i, Position: killPosition(i)}); err != nil {
			return err
		}
		fmt.Println("epoch", i)
		if committed, _ := s.Sink("s"); i%3 == 0 && committed < i {
			if err := s.CommitSink("s", i, killPosition(i)); err != nil {
				return err
			}
			fmt.Println("commit", i)
		}
		if i%10 == 0 {
			if err := writeCheckpoint(s, i); err != nil {
				return err
			}
			fmt.Println("checkpoint", i)
			if err := s.Trim(i); err != nil {
				return err
			}
		}
	}
}

func writeCheckpoint(s *Store, i int64) error {
	w, err := s.BeginCheckpoint(i)
	if err != nil {
		return err
	}
	for _, name := range []string{"x", "y"} {
		op, err := w.Operator(name, "f")
		if err != nil {
			return err
		}
		if err := errors.Join(op.Piece(7, killPiece(i)), op.Close()); err != nil {
			return err
		}
	}
	return w.Complete(killPosition(i))
}

// Whatever a process had acknowledged when it was killed is there.
func TestKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "q")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	acked := map[string]int64{}
	for range 25 {
		killAfter(t, dir, random.IntN(150), acked)
		s, err := Open(dir, Options{SegmentSize: 1 << 10})
		must(t, err)
		checkAcked(t, s, acked)
		must(t, s.Close())
	}
	if acked["checkpoint"] == 0 {
		t.Error("no checkpoint was written")
	}
}

// killAfter starts a process and kills it after it has printed some lines.
func killAfter(t *testing.T, dir string, lines int, acked map[string]int64) {
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	r := bufio.NewReader(out)
	for i := 0; ; i++ {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			break
		}
		must(t, err)
		what, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		must(t, err)
		acked[what] = n
		if i == 0 {
			if _, err := Open(dir, Options{}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint("process ", cmd.Process.Pid)) {
				t.Errorf("open while process %d has it: %v", cmd.Process.Pid, err)
			}
		}
		if i == lines {
			must(t, cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err == nil || stderr.Len() > 0 {
		t.Fatalf("%v: %s", err, stderr.String())
	}
}

func checkAcked(t *testing.T, s *Store, acked map[string]int64) {
	t.Helper()
	list := s.Epochs("a")
	last := list[len(list)-1].Epoch
	if last < acked["epoch"] || last > acked["epoch"]+1 {
		t.Errorf("last epoch %d, acknowledged %d", last, acked["epoch"])
	}
	for i, e := range list {
		if e.Epoch != list[0].Epoch+int64(i) || e.Rows != e.Epoch || !bytes.Equal(e.Position, killPosition(e.Epoch)) {
			t.Errorf("entry %d is %+v, after %+v", i, e, list[0])
		}
	}
	commit, witness := s.Sink("s")
	if commit < acked["commit"] || commit > last || commit > 0 && !bytes.Equal(witness, killPosition(commit)) {
		t.Errorf("commit %d %q, acknowledged %d", commit, witness, acked["commit"])
	}
	c, err := s.Checkpoint()
	must(t, err)
	if c == nil {
		if acked["checkpoint"] > 0 || list[0].Epoch != 1 {
			t.Error("no checkpoint")
		}
		return
	}
	if c.Epoch() < acked["checkpoint"] || c.Epoch() > last || list[0].Epoch > c.Epoch() || !bytes.Equal(c.Meta(), killPosition(c.Epoch())) {
		t.Errorf("checkpoint %d, acknowledged %d, epochs %d to %d", c.Epoch(), acked["checkpoint"], list[0].Epoch, last)
	}
	for _, op := range []string{"x", "y"} {
		n := 0
		must(t, c.Pieces(op, func(group int, piece []byte) error {
			if n++; group != 7 || !bytes.Equal(piece, killPiece(c.Epoch())) {
				t.Errorf("operator %s: group %d, %d bytes", op, group, len(piece))
			}
			return nil
		}))
		if n != 1 {
			t.Errorf("operator %s: %d pieces", op, n)
		}
	}
}
