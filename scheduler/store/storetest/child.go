package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/scheduler/store"
)

// childEnv tells a process of a test binary what it is to do: role, argument and name of the store.
const childEnv = "SLUICE_STORE_TEST_CHILD"

// Child is called first in TestMain. In a process that a test has started it does that process's part, and does
// not return.
func Child(open Open) {
	task := strings.SplitN(os.Getenv(childEnv), "|", 3)
	if len(task) < 3 {
		return
	}
	s, err := open(task[2])
	if err == nil {
		err = roles[task[0]](s, task[1])
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

var roles = map[string]func(s store.Store, argument string) error{
	"count": count,
	"lead":  leadForEver,
	"write": writeForEver,
}

func count(s store.Store, times string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	for range n {
		if _, err := increment(context.Background(), s, "counter"); err != nil {
			return err
		}
	}
	fmt.Println("done")
	return s.Close()
}

// writeForEver stores values that grow and shrink, in turn at two paths of which one is removed, until it is killed. It
// prints each that was acknowledged.
func writeForEver(s store.Store, _ string) error {
	ctx := context.Background()
	_, version, err := s.Get(ctx, "kept")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for n := 1; ; n++ {
		value := pattern(n, 1+n%3*300<<10)
		if version, err = s.Put(ctx, "kept", []byte(value), version); err != nil {
			return err
		}
		fmt.Println(version)
		gone := fmt.Sprintf("gone/%d/%d", version, n)
		other, err := s.Put(ctx, gone, []byte(value), 0)
		if err == nil {
			err = s.Delete(ctx, gone, other)
		}
		if err != nil {
			return err
		}
	}
}

// leadForEver leads and appends to a value until it is killed, or until a write is refused, which it tells.
func leadForEver(s store.Store, about string) error {
	ctx := context.Background()
	l, err := s.Lead(ctx, []byte(about))
	if err != nil {
		return err
	}
	var version int64
	for n := 1; ; n++ {
		next, err := l.Store().Put(ctx, "beat", []byte(strings.Repeat(".", n)), version)
		if err != nil {
			return err
		}
		version = next
		if n == 1 {
			fmt.Println("leading")
		}
		time.Sleep(time.Millisecond)
	}
}

// child is a process that does a part of a test.
type child struct {
	w   *world
	cmd *exec.Cmd
	out *bufio.Scanner
}

func (w *world) child(role, argument string) *child {
	w.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+role+"|"+argument+"|"+w.name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.Fatal(err)
	}
	c := &child{w, cmd, bufio.NewScanner(out)}
	w.Cleanup(c.kill)
	return c
}

// want waits for a line of the child that begins so.
func (c *child) want(line string) {
	c.w.Helper()
	if !c.out.Scan() || !strings.HasPrefix(c.out.Text(), line) {
		c.w.Fatalf("the process says %q, want %q", c.out.Text(), line)
	}
}

// killAfter ends the process some time after its first line, and returns its last whole one.
func (c *child) killAfter(wait time.Duration) (last string) {
	c.w.Helper()
	if !c.out.Scan() {
		c.w.Fatal("the process says nothing")
	}
	last = c.out.Text()
	timer := time.AfterFunc(wait, func() {
		// An error says that it has ended already.
		_ = c.cmd.Process.Kill()
	})
	defer timer.Stop()
	for c.out.Scan() {
		last = c.out.Text()
	}
	c.kill()
	return last
}

// kill ends the process as kill -9 does.
func (c *child) kill() {
	if c.cmd.ProcessState != nil {
		return
	}
	// Errors say that it has ended already.
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func (c *child) signal(s syscall.Signal) {
	c.w.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.w.Fatal(err)
	}
}
