package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"sluice/dataflow"
	"sluice/executor/transport"
	"sluice/metaquery"
	"sluice/scheduler"
	"sluice/scheduler/shell"
)

// Options say what is to be run, and how.
type Options struct {
	Config  scheduler.Config
	Deploy  metaquery.Deploy
	Catalog dataflow.Catalog
	Store   shell.Store
	// Transport carries the control stream. The scheduler listens at Listen.
	Transport transport.Transport
	Listen    string
	// Tag is the part of the workers' names by which those of different runs differ.
	Tag string
	// Held is a file with a lock that the workers are to hold as well; nil for none.
	Held *os.File
	// Command is the command of a worker, which is to connect to control.
	Command func(id scheduler.WorkerID, control string) *exec.Cmd
	// Stop gives requests to end the query.
	Stop <-chan scheduler.StopRequest
	// Requests are those of users; nil for none.
	Requests <-chan Request
	// Alert takes messages for the user.
	Alert func(text string)
	// Reported is called with each report of a task, if not nil.
	Reported func(worker scheduler.WorkerID, r *metaquery.Report)
}

// Run runs a query until it is over, and then ends the workers; no worker of an earlier run may be left. If
// ctx is done before, they are killed and the error is that of ctx. Other errors say that the workers
// cannot run.
func Run(ctx context.Context, o Options) (scheduler.Outcome, error) {
	requests, done := make(chan shell.Request), make(chan struct{})
	defer close(done)
	if o.Requests != nil {
		go translate(o, requests, done)
	}
	return shell.Run(ctx, shell.Options{
		Config: o.Config, Fresh: true, Deploy: o.Deploy, Catalog: o.Catalog, Store: o.Store,
		Transport: o.Transport, Listen: o.Listen, Stop: o.Stop, Requests: requests,
		Observer: shell.Observer{Alert: o.Alert, Reported: o.Reported},
		Cluster: func(control string) (shell.Cluster, error) {
			return NewCluster(o.Tag, o.Held, func(id scheduler.WorkerID) *exec.Cmd { return o.Command(id, control) }), nil
		},
	})
}

// translate hands requests to the shell until that has ended.
func translate(o Options, requests chan<- shell.Request, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case r := <-o.Requests:
			ask, err := r.forShell(o.Config.Query.Graph.Name)
			if err != nil {
				r.Answer <- Response{Error: err.Error()}
				continue
			}
			answer := make(chan shell.Response, 1)
			ask.Answer = answer
			select {
			case requests <- ask:
				go func() { r.Answer <- toUser(<-answer) }()
			case <-done:
				r.Answer <- Response{Error: shell.ErrEnded.Error()}
				return
			}
		}
	}
}

// forShell is the request of a user as the shell of the query has it.
func (r *Request) forShell(query string) (shell.Request, error) {
	switch {
	case r.Query != "" && r.Query != query:
		return shell.Request{}, fmt.Errorf("the query that runs here is %q", query)
	case r.Set != nil:
		return shell.Request{Set: &metaquery.Tuple{
			Query: query, Operator: r.Set.Operator, Param: r.Set.Param, Value: r.Set.Value,
		}}, nil
	case r.Status:
		return shell.Request{}, nil
	}
	return shell.Request{}, fmt.Errorf("a request is either set or status")
}

// toUser is the shell's answer as a user gets it.
func toUser(a shell.Response) Response {
	r := Response{Epoch: a.Epoch}
	if a.Err != nil {
		r.Error = a.Err.Error()
	}
	if a.Status != nil {
		r.Text = a.Status.String()
		for _, w := range a.Status.Workers {
			r.Text += fmt.Sprintf("%s: worker %s\n", a.Status.About[w.ID], w.ID)
		}
	}
	return r
}
