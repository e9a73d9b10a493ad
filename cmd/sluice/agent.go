package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"os/user"
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
	sockets, bad := socketOptions(c.Keys)
	if bad != nil {
		bad = fmt.Errorf("%w; --mesos-keys of the scheduler names the file of its --keys as it is on the agents, which the user of the executors must be able to read", bad)
	}
	status, err := mesos.Run(ctx, mesos.Config{
		Control: func() (transport.Transport, error) {
			if bad != nil {
				return nil, bad // which the scheduler is told, by way of Mesos
			}
			return transport.NewZMQ(sockets)
		},
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
		return "", &worker.EverywhereError{Err: fmt.Errorf("rows cannot go by %s between machines; use tcp", name)}
	}
	port := "*"
	if len(l.Ports) > 0 {
		port = strconv.FormatUint(l.Ports[0], 10)
	}
	return name + "://" + net.JoinHostPort(l.Host, port), nil
}

// stateError says what is to be done if a worker on an agent does not have the state of the query.
func stateError(dir string, err error) error {
	who := "user " + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		dir += " on " + host
	}
	return fmt.Errorf("%w: the folder of --state-root must be one that all agents and the scheduler share, at the same path, and executors must run as the user of the scheduler, "+
		"who may write there; this one runs as %s, and looked at %s", err, who, dir)
}
