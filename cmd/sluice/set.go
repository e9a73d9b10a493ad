package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"sluice/scheduler/api"
	"sluice/scheduler/local"
)

type setCommand struct {
	Query    string `arg:"" help:"The query's name."`
	Operator string `arg:"" help:"The operator; of one with replicas, all of them."`
	Param    string `arg:"" help:"The parameter."`
	Value    string `arg:"" help:"Its new value."`
	State    string `help:"The folder with the state of the query; needed if several of this name run." placeholder:"DIR"`
	serviceOptions
}

// Run implements the command.
func (c *setCommand) Run(s streams) error {
	if c.Scheduler != "" && c.State == "" {
		var a api.SetResult
		if err := c.call(http.MethodPost, queryPath(c.Query)+"/set", &api.Setting{Operator: c.Operator, Param: c.Param, Value: c.Value}, &a, s); err != nil {
			return err
		}
		return printSet(a.Epoch, s)
	}
	r := local.Request{Query: c.Query, Set: &local.SetRequest{Operator: c.Operator, Param: c.Param, Value: c.Value}}
	a, err := askRun(c.Query, c.State, r)
	if err != nil {
		return err
	}
	return printSet(a.Epoch, s)
}

// printSet says when a setting takes effect.
func printSet(epoch int64, s streams) error {
	text := "set\n"
	if epoch > 0 {
		text = fmt.Sprintf("from epoch %d on\n", epoch)
	}
	return printResult(s, text)
}

type statusCommand struct {
	Query  string `arg:"" optional:"" help:"The query's name."`
	State  string `help:"The folder with the state of the query." placeholder:"DIR"`
	Format string `help:"Form of the output of a scheduler: text or json." enum:"text,json" default:"text"`
	serviceOptions
}

// Run implements the command.
func (c *statusCommand) Run(s streams) error {
	if c.Scheduler != "" && c.State == "" {
		return c.ofService(s)
	}
	if c.Format == "json" {
		return usageErrorf("--format json is for queries of a service; name it with --scheduler URL")
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

// ofService shows a query of a service, or all of them.
func (c *statusCommand) ofService(s streams) error {
	if c.Query == "" {
		return (&listCommand{Format: c.Format, serviceOptions: c.serviceOptions}).Run(s)
	}
	var q api.Query
	if err := c.call(http.MethodGet, queryPath(c.Query), nil, &q, s); err != nil {
		return err
	}
	if c.Format == "json" {
		return printJSON(&q, s)
	}
	return printQuery(&q, s)
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
