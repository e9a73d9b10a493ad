package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"sluice/executor/mesos"
	"sluice/executor/transport"
	"sluice/executor/worker"
)

// runForAgent is the executor that an agent of Mesos has started.
func (c *executorCommand) runForAgent(s streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	signal.Ignore(os.Interrupt, syscall.SIGPIPE)
	sockets, err := socketOptions(c.Keys)
	if err != nil {
		return err
	}
	status, err := mesos.Run(ctx, mesos.Config{
		Control: func() (transport.Transport, error) { return transport.NewZMQ(sockets) },
		Work: func(ctx context.Context, l mesos.Launch) error {
			e := &executorProcess{id: l.Worker, s: s, sockets: sockets, place: &l, dir: l.Dir}
			cfg := e.config()
			cfg.Control, cfg.Scheduler, cfg.Silence = l.Control, l.Scheduler, l.Silence
			return worker.Run(ctx, cfg)
		},
		Log: func(text string) { fmt.Fprintln(s.err, text) },
	})
	if err == nil && status != 0 {
		err = errors.New("ended before the worker had")
	}
	if err != nil {
		return &exitError{max(status, exitFailed), err.Error()}
	}
	return nil
}

// addressOn is where a worker on an agent listens for rows: at the first port that it was given, or any.
func addressOn(l *mesos.Launch, name string) (string, error) {
	if strings.HasSuffix(name, "ipc") {
		return "", fmt.Errorf("rows cannot go by %s between machines; use tcp", name)
	}
	port := "*"
	if len(l.Ports) > 0 {
		port = strconv.FormatUint(l.Ports[0], 10)
	}
	return name + "://" + net.JoinHostPort(l.Host, port), nil
}
