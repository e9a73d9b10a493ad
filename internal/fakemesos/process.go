package fakemesos

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Process is what an executor inside the test's process gets.
type Process struct {
	// Context ends when the executor is killed.
	context.Context
	// Env is the environment, NAME=VALUE.
	Env []string
	// Dir is the sandbox, into which the URIs have been fetched.
	Dir string
	// Command is the executor's command.
	Command *mesos.CommandInfo
}

// process runs an executor: as a process, or as a function.
type process struct {
	ctx  context.Context
	stop context.CancelFunc

	mu     sync.Mutex
	pid    int  // 0 until it runs, and for a function
	killed bool // before it ran
	asked  bool // terminate was called
}

func (c *Cluster) startProcess(e *executor) *process {
	p := &process{}
	p.ctx, p.stop = context.WithCancel(c.ctx)
	env := e.environment()
	run := e.a.spec.Run
	if e.command {
		run = e.a.spec.Command
	}
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		defer p.stop()
		status := p.run(e, env, run)
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.closed {
			e.finish(status)
		}
	}()
	return p
}

// noStatus is the wait status of an executor that never ran.
const noStatus = -1

// run is the life of the executor; the result is its wait status.
func (p *process) run(e *executor, env []string, run func(Process) int) int {
	cmd := e.info.Command
	if err := prepare(p.ctx, e.dir, cmd); err != nil {
		e.a.c.failed(e, err)
		return noStatus
	}
	status := 0
	if run != nil {
		e.a.c.began(e, 0)
		status = p.runFunction(run, Process{Context: p.ctx, Env: env, Dir: e.dir, Command: cmd})
	} else {
		var err error
		status, err = p.runCommand(e, shell(cmd), env)
		switch {
		case err != nil && e.command: // Mesos' own executor runs, and finds no command
			e.a.c.began(e, 0)
			status = 1 << 8
		case err != nil:
			e.a.c.failed(e, err)
			return noStatus
		}
	}
	if e.command {
		e.a.c.commandEnded(e, status, p.wasAsked())
	}
	return status
}

func (p *process) runFunction(run func(Process) int, in Process) int {
	done := make(chan int, 1)
	go func() { done <- run(in) }()
	select {
	case code := <-done:
		if in.Err() == nil {
			return code << 8
		}
	case <-in.Done():
		<-done // a killed function must return
	}
	if p.wasAsked() {
		return int(syscall.SIGTERM)
	}
	return int(syscall.SIGKILL)
}

func (p *process) runCommand(e *executor, cmd *exec.Cmd, env []string) (int, error) {
	cmd.Dir, cmd.Env = e.dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for _, f := range []struct {
		name string
		to   *io.Writer
	}{{"stdout", &cmd.Stdout}, {"stderr", &cmd.Stderr}} {
		file, err := os.Create(filepath.Join(e.dir, f.name))
		if err != nil {
			return 0, err
		}
		defer file.Close()
		*f.to = file
	}
	if err := p.begin(cmd); err != nil {
		return 0, err
	}
	e.a.c.began(e, cmd.Process.Pid)
	done := make(chan struct{})
	go func() {
		select {
		case <-p.ctx.Done():
			p.signal(syscall.SIGKILL)
		case <-done:
		}
	}()
	err := cmd.Wait()
	close(done)
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return 0, fmt.Errorf("fakemesos: no wait status of %s", cmd)
	}
	return int(ws), nil
}

func (p *process) begin(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return errors.New("fakemesos: killed before it ran")
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("fakemesos: start executor: %w", err)
	}
	p.pid = cmd.Process.Pid
	return nil
}

// kill ends the whole process group.
func (p *process) kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	p.stop()
	p.signal(syscall.SIGKILL)
}

// terminate asks a command to end, as Mesos' command executor does at KILL, and ends it after the grace period.
func (p *process) terminate(grace time.Duration) {
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
	p.signal(syscall.SIGTERM)
	timer := time.AfterFunc(grace, p.kill)
	context.AfterFunc(p.ctx, func() { timer.Stop() })
}

func (p *process) wasAsked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid > 0 {
		_ = syscall.Kill(-p.pid, sig) // it may have ended
		return
	}
	p.stop()
}

// environment is what an agent gives to an executor (rule 44).
func (e *executor) environment() []string {
	t := e.a.c.opts.Times
	checkpoint, own := "0", "0"
	if e.fw.info.GetCheckpoint() {
		checkpoint = "1"
	}
	if e.command {
		own = "1"
	}
	env := []string{
		"LIBPROCESS_IP=127.0.0.1",
		"LIBPROCESS_PORT=0",
		"MESOS_AGENT_ENDPOINT=" + e.a.addr,
		"MESOS_CHECKPOINT=" + checkpoint,
		"MESOS_DIRECTORY=" + e.dir,
		"MESOS_EXECUTOR_ID=" + e.id,
		"MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD=" + mesosDuration(t.ShutdownGrace),
		"MESOS_FRAMEWORK_ID=" + e.fw.info.GetID().GetValue(),
		"MESOS_HTTP_COMMAND_EXECUTOR=" + own,
		"MESOS_SANDBOX=" + e.dir,
		"MESOS_SLAVE_ID=" + e.a.id,
		"MESOS_SLAVE_PID=slave(1)@" + e.a.addr,
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	if checkpoint == "1" {
		env = append(env, "MESOS_RECOVERY_TIMEOUT="+mesosDuration(t.RecoveryTimeout),
			"MESOS_SUBSCRIPTION_BACKOFF_MAX="+mesosDuration(t.BackoffMax))
	}
	for _, v := range e.info.GetCommand().GetEnvironment().GetVariables() {
		env = append(env, v.Name+"="+v.GetValue())
	}
	return env
}

// began notes the process; a command task is running from then on.
func (c *Cluster) began(e *executor, pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.pid = uint32(pid)
	if !e.command || len(e.tasks) == 0 || c.closed {
		return
	}
	id := e.tasks[0].info.TaskID.Value
	e.own(id, mesos.TASK_STARTING, "")
	e.own(id, mesos.TASK_RUNNING, "")
}

// commandEnded makes the last update of a command task (rule 34).
func (c *Cluster) commandEnded(e *executor, status int, asked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(e.tasks) == 0 || c.closed {
		return
	}
	ws := syscall.WaitStatus(status)
	state, text := mesos.TASK_FINISHED, fmt.Sprintf("Command exited with status %d", ws.ExitStatus())
	switch {
	case ws.Signaled():
		name := ws.Signal().String()
		text = "Command terminated with signal " + strings.ToUpper(name[:1]) + name[1:]
		state = mesos.TASK_FAILED
	case status != 0:
		state = mesos.TASK_FAILED
	}
	if asked {
		state = mesos.TASK_KILLED
	}
	e.own(e.tasks[0].info.TaskID.Value, state, text)
}

// failed is a container that could not be made.
func (c *Cluster) failed(e *executor, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.end = ending{mesos.TASK_FAILED, mesos.REASON_CONTAINER_LAUNCH_FAILED, "Failed to launch container: " + err.Error()}
}

// prepare makes the sandbox and fetches the URIs into it.
func prepare(ctx context.Context, dir string, cmd *mesos.CommandInfo) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, u := range cmd.GetURIs() {
		if err := fetch(ctx, dir, u); err != nil {
			return refusal("Failed to fetch all URIs for container '" + filepath.Base(dir) + "': exited with status 1")
		}
	}
	return nil
}

func fetch(ctx context.Context, dir string, u mesos.CommandInfo_URI) error {
	name := u.GetOutputFile()
	if name == "" {
		path, _, _ := strings.Cut(u.Value, "?")
		name = filepath.Base(path)
	}
	to := filepath.Join(dir, filepath.FromSlash(name))
	if !strings.HasPrefix(to, dir+string(filepath.Separator)) {
		return errors.New("the file would be outside of the sandbox")
	}
	mode := os.FileMode(0o644)
	if u.GetExecutable() {
		mode = 0o755
	}
	from, err := open(ctx, u.Value)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := save(to, from, mode); err != nil {
		return err
	}
	extract := (u.Extract == nil || *u.Extract) && !u.GetExecutable()
	if extract && (strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz")) {
		return untar(to, dir)
	}
	return nil
}

func open(ctx context.Context, uri string) (io.ReadCloser, error) {
	if !strings.HasPrefix(uri, "http://") && !strings.HasPrefix(uri, "https://") {
		return os.Open(strings.TrimPrefix(uri, "file://"))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		cancel()
		return nil, errors.New(resp.Status)
	}
	return body{resp.Body, cancel}, nil
}

// body ends its request when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

func save(to string, from io.Reader, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// untar extracts regular files and folders.
func untar(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	tr := tar.NewReader(zr)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("%q is outside of the sandbox", h.Name)
		}
		to := filepath.Join(dir, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(to, 0o755)
		case tar.TypeReg:
			err = save(to, tr, os.FileMode(h.Mode)&0o777)
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, to)
		}
		if err != nil {
			return err
		}
	}
}
