package main

import (
	"fmt"
	"net/http"
	"strings"

	"sluice/scheduler/api"
)

// scaleCommand edits a query in nothing but what it is run with.
type scaleCommand struct {
	Query      string `arg:"" help:"The query's name."`
	Workers    *int   `help:"How many workers it is to have." placeholder:"N"`
	Partitions *int   `short:"p" help:"Run operators as N replicas wherever that is safe." placeholder:"N"`
	Checkpoint string `help:"Time between two checkpoints, or off." placeholder:"INTERVAL"`
	Transport  string `help:"How rows go between workers." placeholder:"NAME"`
	serviceOptions
}

// Run implements the command.
func (c *scaleCommand) Run(s streams) error {
	if c.Workers == nil && c.Partitions == nil && c.Checkpoint == "" && c.Transport == "" {
		return usageErrorf("scale needs --workers, -p, --checkpoint or --transport")
	}
	// Nothing else is to change: not what somebody else has changed in between either.
	var q api.Query
	if err := c.call(http.MethodGet, queryPath(c.Query), nil, &q, s); err != nil {
		return err
	}
	var sub api.Submission
	if err := c.call(http.MethodGet, queryPath(c.Query)+"/submission", nil, &sub, s); err != nil {
		return err
	}
	for _, o := range []struct {
		to, value *int
		flag      string
	}{{&sub.Workers, c.Workers, "--workers"}, {&sub.Partitions, c.Partitions, "-p"}} {
		if o.value == nil {
			continue
		}
		if *o.value < 1 {
			return usageErrorf("%s must be at least 1; it is %d", o.flag, *o.value)
		}
		*o.to = *o.value
	}
	if c.Checkpoint != "" {
		sub.Checkpoint = c.Checkpoint
	}
	if c.Transport != "" {
		sub.Transport = c.Transport
	}
	_, err := c.edit(c.Query, &sub, fmt.Sprintf("?revision=%d", q.Revision), s)
	return err
}

// several are the queries that a command is for: one that is named, or all in a state.
type several struct {
	Query string `arg:"" optional:"" help:"The query's name."`
	All   bool   `help:"All queries instead."`
}

// each calls f for each of the queries, of all with those in this state. It goes on after an error, and returns the last one.
func (a *several) each(o *serviceOptions, state string, s streams, f func(name string) error) error {
	if a.All == (a.Query != "") {
		return usageErrorf("this needs the name of a query, or --all")
	}
	if !a.All {
		return f(a.Query)
	}
	var list api.QueryList
	if err := o.call(http.MethodGet, "/queries", nil, &list, s); err != nil {
		return err
	}
	var last error
	for _, q := range list.Queries {
		if q.State != state && !(state == api.Running && q.State == api.Starting) {
			continue
		}
		if err := f(q.Name); err != nil {
			if last != nil {
				fmt.Fprintln(s.err, "sluice:", last)
			}
			last = err
			continue
		}
		fmt.Fprintln(s.out, q.Name)
	}
	return last
}

type stopCommand struct {
	several
	serviceOptions
}

// Run implements the command.
func (c *stopCommand) Run(s streams) error {
	return c.each(&c.serviceOptions, api.Running, s, func(name string) error { return c.stop(name, s) })
}

// stop stops a query, and waits until it is.
func (o *serviceOptions) stop(name string, s streams) error {
	q := &api.Query{}
	if err := o.call(http.MethodPost, queryPath(name)+"/stop", nil, q, s); err != nil {
		return err
	}
	if !api.Ended(q.State) {
		var err error
		if q, err = o.until(name, func(q *api.Query) bool { return api.Ended(q.State) }, "it is being stopped", 0, s); err != nil {
			return err
		}
	}
	if q.State != api.Stopped {
		return &exitError{exitFailed, strings.TrimRight(fmt.Sprintf("query %q: %s: %s", name, q.State, q.Error), ": ")}
	}
	return nil
}

type resumeCommand struct {
	several
	Wait bool `help:"Wait until it has ended."`
	serviceOptions
}

// Run implements the command.
func (c *resumeCommand) Run(s streams) error {
	if c.All && c.Wait {
		return usageErrorf("--wait is for one query")
	}
	return c.each(&c.serviceOptions, api.Stopped, s, func(name string) error {
		if err := c.call(http.MethodPost, queryPath(name)+"/resume", nil, nil, s); err != nil || !c.Wait {
			return err
		}
		return c.wait(name, s)
	})
}
