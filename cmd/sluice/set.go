package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sluice/scheduler/api"
	"sluice/scheduler/local"
)

// target is what set and status are for: a run of this machine with its state in a folder, or a query of a scheduler.
//
// --state means the run, --scheduler the service. Without either a run of that name that this user has here counts, and
// else the scheduler of this machine; if both have such a query nobody can know which is meant.
type target struct {
	state string // of the run; "" for a query of the scheduler
}

// askTime is how long the scheduler of this machine may take to say whether it has a query that runs here too.
const askTime = 2 * time.Second

func (o *serviceOptions) target(query, state string) (target, error) {
	switch {
	case state != "":
		return target{state}, nil
	case o.Scheduler != "" || query == "":
		return target{}, nil
	}
	dirs, err := local.Find(query)
	switch {
	case err != nil:
		return target{}, err
	case len(dirs) == 0:
		return target{}, nil
	case len(dirs) > 1:
		return target{}, usageErrorf("several queries %q run here; choose one with --state: %s", query, strings.Join(dirs, ", "))
	case o.has(query):
		return target{}, usageErrorf("a query %q runs here with --nodes, and another one at the scheduler; choose one with --state %s or with --scheduler %s", query, dirs[0], usualScheduler)
	}
	return target{dirs[0]}, nil
}

// has tells whether the scheduler of this machine says that a query of this name runs.
func (o *serviceOptions) has(query string) bool {
	c, err := o.client()
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	var q api.Query
	err = c.Do(ctx, http.MethodGet, queryPath(query), nil, &q)
	return err == nil && !api.Ended(q.State)
}

// elsewhere says where else a query has been looked for, if the scheduler of this machine does not have it.
func (o *serviceOptions) elsewhere(query string, err error) error {
	var exit *exitError
	var known *api.Error
	switch {
	case err == nil || o.Scheduler != "" || query == "":
		return err
	case errors.As(err, &known) && known.Code == api.UnknownQuery:
		return usageErrorf("no query %q of this user runs here with --nodes, and the scheduler at %s has none either; --scheduler URL names another one", query, usualScheduler)
	case !errors.As(err, &exit) && !errors.As(err, &known):
		return usageErrorf("no query %q of this user runs here with --nodes, and %v; --scheduler URL names another one", query, err)
	}
	return err
}

// ask calls the API about a query that may run elsewhere.
func (o *serviceOptions) ask(query, method, path string, in, out any, s streams) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	return serviceError(o.elsewhere(query, c.Do(context.Background(), method, path, in, out)), s)
}

type setCommand struct {
	Query    string `arg:"" help:"The query's name: of a run of this user with --nodes here if there is one, else of a query of the scheduler."`
	Operator string `arg:"" help:"The operator; of one with replicas, all of them."`
	Param    string `arg:"" help:"The parameter."`
	Value    string `arg:"" help:"Its new value."`
	State    string `help:"The folder with the state of the run; needed if several of this name run." placeholder:"DIR"`
	serviceOptions
}

// Run implements the command.
func (c *setCommand) Run(s streams) error {
	t, err := c.target(c.Query, c.State)
	if err != nil {
		return err
	}
	if t.state == "" {
		var a api.SetResult
		set := &api.Setting{Operator: c.Operator, Param: c.Param, Value: c.Value}
		if err := c.ask(c.Query, http.MethodPost, queryPath(c.Query)+"/set", set, &a, s); err != nil {
			return err
		}
		return printSet(a.Epoch, s)
	}
	a, err := askRun(t.state, local.Request{Query: c.Query, Set: &local.SetRequest{Operator: c.Operator, Param: c.Param, Value: c.Value}})
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
	Query  string `arg:"" optional:"" help:"The query's name, as for set; without one the queries of the scheduler are listed."`
	State  string `help:"The folder with the state of a run with --nodes." placeholder:"DIR"`
	Format string `help:"Form of what a scheduler says: text or json." enum:"text,json" default:"text"`
	serviceOptions
}

// Run implements the command.
func (c *statusCommand) Run(s streams) error {
	t, err := c.target(c.Query, c.State)
	if err != nil {
		return err
	}
	if t.state == "" {
		return c.ofService(s)
	}
	if c.Format == "json" {
		return usageErrorf("--format json is for queries of a scheduler; query %q runs here, with the state in %s", c.Query, t.state)
	}
	a, err := askRun(t.state, local.Request{Query: c.Query, Status: true})
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
	if err := c.ask(c.Query, http.MethodGet, queryPath(c.Query), nil, &q, s); err != nil {
		return err
	}
	if c.Format == "json" {
		return printJSON(&q, s)
	}
	return printQuery(&q, s)
}

// askRun sends a request to the query that runs with the state in a folder.
func askRun(state string, r local.Request) (local.Response, error) {
	a, err := local.Ask(state, r)
	if errors.Is(err, local.ErrNoRun) {
		return a, usageErrorf("%v", err)
	}
	if err == nil && a.Error != "" {
		err = usageErrorf("%s", a.Error)
	}
	return a, err
}
