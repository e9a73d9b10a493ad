package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"sluice/dataflow"
	"sluice/scheduler/api"
	"sluice/specs/xmlspec"
)

type submitCommand struct {
	Spec       string   `arg:"" help:"The spec, - for standard input."`
	Name       string   `help:"The query's name; that of the spec by default." placeholder:"NAME"`
	Set        []string `help:"Set a parameter of an operator: OPERATOR.PARAMETER=VALUE." sep:"none" placeholder:"OP.PARAM=VALUE"`
	Env        []string `help:"A variable that the spec names; those of this command's environment by default." sep:"none" placeholder:"NAME=VALUE"`
	Partitions int      `short:"p" help:"Run operators as N replicas wherever that is safe." default:"1" placeholder:"N"`
	Workers    *int     `help:"How many workers the query is to have." placeholder:"N"`
	Checkpoint string   `help:"Time between two checkpoints, or off; 1s by default." placeholder:"INTERVAL"`
	Fsync      string   `help:"When what is kept is brought to the disk: never, grouped or always." placeholder:"MODE"`
	Transport  string   `help:"How rows go between workers." placeholder:"NAME"`
	Limit      int64    `help:"Stop when each writer has written so many rows." default:"-1" placeholder:"N"`
	Replace    bool     `help:"Edit a query that the scheduler has, of this name: it goes on with its state."`
	AllowDrop  bool     `help:"With --replace: though some of the state fits no operator any more."`
	Wait       bool     `help:"Wait until the query has ended."`
	serviceOptions
}

// Run implements the command.
func (c *submitCommand) Run(s streams) error {
	if c.Partitions < 1 || c.Partitions > dataflow.KeyGroups {
		return usageErrorf("-p must be from 1 to %d", dataflow.KeyGroups)
	}
	if c.Workers != nil && *c.Workers < 1 {
		return usageErrorf("--workers must be at least 1")
	}
	if c.Limit < -1 {
		return usageErrorf("--limit must not be negative")
	}
	text, err := readSpec(c.Spec, s)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(filepath.Dir(c.Spec))
	if err != nil {
		return err
	}
	env, err := givenEnv(string(text), c.Env)
	if err != nil {
		return err
	}
	sub := api.Submission{
		Name: c.Name, Spec: string(text), File: c.Spec, Dir: dir, Set: c.Set, Env: env, Partitions: c.Partitions,
		Checkpoint: c.Checkpoint, Fsync: c.Fsync, Transport: c.Transport,
	}
	if c.Workers != nil {
		sub.Workers = *c.Workers
	}
	if c.Limit >= 0 {
		sub.Limit = &c.Limit
	}
	q := &api.Query{}
	switch {
	case c.Replace:
		q, err = c.replace(&sub, s)
	case c.AllowDrop:
		err = usageErrorf("--allow-drop is for --replace")
	default:
		err = c.call(http.MethodPost, "/queries", &sub, q, s)
		printProblems(q.Diagnostics, s)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, q.Name)
	if c.Wait {
		return c.wait(q.Name, s)
	}
	return nil
}

// replace replaces the query of its name by the submission.
func (c *submitCommand) replace(sub *api.Submission, s streams) (*api.Query, error) {
	name := sub.Name
	if name == "" {
		var err error
		if name, err = specName(sub); err != nil {
			return nil, err
		}
	}
	options := ""
	if c.AllowDrop {
		options = "?allowDrop=true"
	}
	return c.edit(name, sub, options, s)
}

// edit replaces a query by the submission, and tells what has become of its state. options are those of the address.
func (o *serviceOptions) edit(name string, sub *api.Submission, options string, s streams) (*api.Query, error) {
	q := &api.Query{}
	if err := o.call(http.MethodPut, queryPath(name)+options, sub, q, s); err != nil {
		return nil, err
	}
	printProblems(q.Diagnostics, s)
	if q.Edit == nil {
		fmt.Fprintln(s.err, "nothing has changed")
		return q, nil
	}
	asked := q.Edit.Asked
	if q.Edit.State == api.EditPending {
		fmt.Fprintf(s.err, "the edit of query %q is under way\n", name)
		next, err := o.until(name, func(q *api.Query) bool { return q.Edit == nil || q.Edit.State != api.EditPending }, "the edit goes on", 0, s)
		if err != nil {
			return nil, err
		}
		q = next
	}
	e := q.Edit
	switch {
	case e == nil || !e.Asked.Equal(asked):
		return q, nil // there has been another one since
	case e.State == api.EditRefused:
		return nil, &exitError{exitUsage, e.Reason}
	}
	printEdit(e, s)
	return q, nil
}

// specName is the name of the query of a submission. What is wrong with the spec is for the scheduler to say.
func specName(sub *api.Submission) (string, error) {
	g, _ := xmlspec.Parse(sub.File, strings.NewReader(sub.Spec), only(sub.Env))
	if g == nil || g.Name == "" {
		return "", usageErrorf("the spec does not say which query it replaces; say it with --name")
	}
	return g.Name, nil
}

// printEdit tells what has become of the state of a query that has been edited, as run --state does.
func printEdit(e *api.Edit, s streams) {
	for _, name := range e.Kept {
		fmt.Fprintf(s.err, "the query has changed: operator %q goes on with its state\n", name)
	}
	for _, name := range e.New {
		fmt.Fprintf(s.err, "the query has changed: operator %q begins without state\n", name)
	}
	for _, d := range e.Dropped {
		fmt.Fprintf(s.err, "warning: the state of operator %q is lost: %s\n", d.Operator, d.Why)
	}
	if len(e.Unset) > 0 {
		fmt.Fprintf(s.err, "warning: what was set while the query ran holds no longer: %s\n", strings.Join(e.Unset, ", "))
	}
}
