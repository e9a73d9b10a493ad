package main

import (
	"errors"
	"fmt"
	"strings"

	"sluice/scheduler/local"
)

type setCommand struct {
	Query     string `arg:"" help:"The query's name."`
	Operator  string `arg:"" help:"The operator; of one with replicas, all of them."`
	Param     string `arg:"" help:"The parameter."`
	Value     string `arg:"" help:"Its new value."`
	State     string `help:"The folder with the state of the query; needed if several of this name run." placeholder:"DIR"`
	Scheduler string `help:"A scheduler that runs as a service." placeholder:"URL"`
}

// Run implements the command.
func (c *setCommand) Run(s streams) error {
	if c.Scheduler != "" {
		return usageErrorf("the option --scheduler is not part of this version yet")
	}
	r := local.Request{Query: c.Query, Set: &local.SetRequest{Operator: c.Operator, Param: c.Param, Value: c.Value}}
	a, err := askRun(c.Query, c.State, r)
	if err != nil {
		return err
	}
	if a.Epoch > 0 {
		fmt.Fprintf(s.out, "from epoch %d on\n", a.Epoch)
	} else {
		fmt.Fprintln(s.out, "set")
	}
	return nil
}

type statusCommand struct {
	Query     string `arg:"" optional:"" help:"The query's name."`
	State     string `help:"The folder with the state of the query." placeholder:"DIR"`
	Scheduler string `help:"A scheduler that runs as a service." placeholder:"URL"`
}

// Run implements the command.
func (c *statusCommand) Run(s streams) error {
	if c.Scheduler != "" {
		return usageErrorf("the option --scheduler is not part of this version yet")
	}
	if c.Query == "" && c.State == "" {
		return usageErrorf("status needs the name of a query, or --state DIR")
	}
	a, err := askRun(c.Query, c.State, local.Request{Query: c.Query, Status: true})
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(s.out, a.Text)
	return err
}

// askRun sends a request to the query that runs with the state, or else to the only one of that name.
func askRun(query, state string, r local.Request) (local.Response, error) {
	if state == "" {
		dirs, err := local.Find(query)
		switch {
		case err != nil:
			return local.Response{}, err
		case len(dirs) == 0:
			return local.Response{}, usageErrorf("no query %q of this user runs here with --nodes", query)
		case len(dirs) > 1:
			return local.Response{}, usageErrorf("several queries %q run here; choose one with --state: %s", query, strings.Join(dirs, ", "))
		}
		state = dirs[0]
	}
	a, err := local.Ask(state, r)
	if errors.Is(err, local.ErrNoRun) {
		return a, usageErrorf("%v", err)
	}
	if err == nil && a.Error != "" {
		err = usageErrorf("%s", a.Error)
	}
	return a, err
}
