package fakemesos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	exec "github.com/mesos/mesos-go/api/v1/lib/executor"
)

// rexec is the raw executor of the transcripts, inside the test's process.
type rexec struct {
	ctx        context.Context
	env        map[string]string
	mode       string
	finish     time.Duration
	unit       time.Duration // a second of the recording
	mu         sync.Mutex
	unacked    map[string]map[string]any // updates by uuid
	tasks      map[string]bool           // launched, without an acknowledged update
	exit       chan int
	subscribed bool
}

// runRexec makes the function that agents run as executor. The scale is that of the cluster.
func runRexec(scale float64) func(Process) int {
	return func(p Process) int {
		x := &rexec{
			ctx: p, env: map[string]string{}, unit: time.Duration(scale * float64(time.Second)),
			unacked: map[string]map[string]any{}, tasks: map[string]bool{}, exit: make(chan int, 100),
		}
		for _, v := range p.Env {
			name, val, _ := strings.Cut(v, "=")
			x.env[name] = val
		}
		fs := flag.NewFlagSet("rexec", flag.ContinueOnError)
		fs.StringVar(&x.mode, "mode", "normal", "")
		fs.String("out", "", "")
		finish := fs.Duration("finish", 0, "")
		fields := strings.Fields(p.Command.GetValue())
		for len(fields) > 0 && !strings.HasPrefix(fields[0], "-") {
			fields = fields[1:]
		}
		if err := fs.Parse(fields); err != nil {
			return 99
		}
		x.finish = time.Duration(float64(*finish) * scale)
		return x.run(p.Command.GetValue())
	}
}

func (x *rexec) run(p string) int {
	switch x.mode {
	case "exit-now":
		return 3
	case "never":
		<-x.ctx.Done()
		return 0
	}
	ctx, stop := context.WithCancel(x.ctx)
	defer stop()
	go func() {
		for ctx.Err() == nil {
			x.subscribe(ctx)
			if x.subscribed && strings.Contains(p, "exec12-too-late") { // it was stopped by SIGSTOP
				return
			}
			if x.subscribed && (x.env["MESOS_CHECKPOINT"] != "1" || strings.Contains(p, "exec12-killed")) {
				x.exit <- 0
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(x.unit):
			}
		}
	}()
	select {
	case code := <-x.exit:
		return code
	case <-x.ctx.Done():
		return 0
	}
}

func (x *rexec) call(body map[string]any) (*http.Response, error) {
	return x.post(x.ctx, body)
}

func (x *rexec) post(ctx context.Context, body map[string]any) (*http.Response, error) {
	body["executor_id"] = map[string]any{"value": x.env["MESOS_EXECUTOR_ID"]}
	body["framework_id"] = map[string]any{"value": x.env["MESOS_FRAMEWORK_ID"]}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+x.env["MESOS_AGENT_ENDPOINT"]+"/api/v1/executor", bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	return http.DefaultClient.Do(req)
}

func (x *rexec) subscribe(ctx context.Context) {
	x.mu.Lock()
	updates := []any{}
	for _, st := range x.unacked {
		updates = append(updates, map[string]any{"status": st})
	}
	tasks := []any{}
	x.mu.Unlock()
	resp, err := x.post(ctx, map[string]any{"type": "SUBSCRIBE", "subscribe": map[string]any{
		"unacknowledged_tasks": tasks, "unacknowledged_updates": updates,
	}})
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return
	}
	r := bufio.NewReader(resp.Body)
	for {
		raw, err := readRecord(r)
		if err != nil {
			return
		}
		var ev exec.Event
		if _, err := decode("mesos.executor.Event", true, raw, &ev); err != nil {
			x.exit <- 98
			return
		}
		x.event(&ev)
	}
}

func readRecord(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSuffix(line, "\n"))
	if err != nil {
		return nil, err
	}
	raw := make([]byte, n)
	_, err = io.ReadFull(r, raw)
	return raw, err
}

func (x *rexec) event(ev *exec.Event) {
	switch ev.Type {
	case exec.Event_SUBSCRIBED:
		x.subscribed = true
	case exec.Event_LAUNCH:
		id := ev.Launch.Task.TaskID.Value
		x.update(id, "TASK_RUNNING", map[string]any{
			"message": "hello from rexec", "data": "AAEC", "healthy": true,
			"labels": map[string]any{"labels": []any{map[string]any{"key": "k", "value": "v"}}},
		})
		if x.finish > 0 {
			time.AfterFunc(x.finish, func() { x.update(id, "TASK_FINISHED", nil) })
		}
	case exec.Event_KILL:
		x.update(ev.Kill.TaskID.Value, "TASK_KILLED", map[string]any{"message": "killed by rexec"})
	case exec.Event_ACKNOWLEDGED:
		x.mu.Lock()
		delete(x.unacked, string(ev.Acknowledged.UUID))
		x.mu.Unlock()
	case exec.Event_MESSAGE:
		x.message(string(ev.Message.Data))
	case exec.Event_SHUTDOWN:
		if x.mode != "ignore-shutdown" {
			x.exit <- 0
		}
	}
}

func (x *rexec) message(text string) {
	if code, ok := strings.CutPrefix(text, "exit"); ok {
		n, err := strconv.Atoi(code)
		if err != nil {
			n = 97
		}
		x.exit <- n
		return
	}
	if resp, err := x.call(map[string]any{"type": "MESSAGE", "message": map[string]any{"data": []byte("echo: " + text)}}); err == nil {
		resp.Body.Close()
	}
}

func (x *rexec) update(task, state string, more map[string]any) {
	id := newUUID()
	st := map[string]any{
		"task_id": map[string]any{"value": task}, "executor_id": map[string]any{"value": x.env["MESOS_EXECUTOR_ID"]},
		"state": state, "source": "SOURCE_EXECUTOR", "timestamp": seconds(time.Now()), "uuid": id,
	}
	for k, v := range more {
		st[k] = v
	}
	x.mu.Lock()
	x.unacked[string(id)] = st
	x.mu.Unlock()
	if resp, err := x.call(map[string]any{"type": "UPDATE", "update": map[string]any{"status": st}}); err == nil {
		resp.Body.Close()
	}
}
