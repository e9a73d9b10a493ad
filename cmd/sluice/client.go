package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"sluice/dataflow"
	"sluice/scheduler/api"
)

// serviceOptions say which scheduler a command is for. Those that need one take that of this machine if
// none is named.
type serviceOptions struct {
	Scheduler string `help:"The scheduler's address, http://127.0.0.1:8090 by default; several are separated by commas. The token goes to no other hosts." env:"SLUICE_SCHEDULER" placeholder:"URL"`
	Token     string `help:"File with the token for it; or the token is in SLUICE_TOKEN." placeholder:"FILE"`
	CA        string `name:"ca" help:"File with the certificate by which an https address is known." placeholder:"FILE"`
}

// usualScheduler is the scheduler of this machine.
var usualScheduler = "http://127.0.0.1:8090"

func (o *serviceOptions) client() (*api.Client, error) {
	address, token := o.Scheduler, os.Getenv("SLUICE_TOKEN")
	if address == "" {
		address = usualScheduler
	}
	if o.Token != "" {
		text, err := os.ReadFile(o.Token)
		if err != nil {
			return nil, usageErrorf("the token: %v", err)
		}
		token, _, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	if o.CA != "" {
		text, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, usageErrorf("the certificate: %v", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, usageErrorf("%s holds no certificate in PEM form", o.CA)
		}
		base.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	c, err := api.NewClient(address, token, base)
	if err != nil {
		return nil, usageErrorf("%v", err)
	}
	return c, nil
}

// call calls the API once. What the scheduler dislikes about a request is a wrong command line.
func (o *serviceOptions) call(method, path string, in, out any, s streams) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	return serviceError(c.Do(context.Background(), method, path, in, out), s)
}

func serviceError(err error, s streams) error {
	var e *api.Error
	if !errors.As(err, &e) {
		return err
	}
	printProblems(e.Diagnostics, s)
	if len(e.Diagnostics) > 0 {
		return &exitError{status: exitUsage}
	}
	switch e.Code {
	case api.Unauthorized:
		return &exitError{exitUsage, e.Message + "; name a file that has it with --token FILE, or put it into SLUICE_TOKEN"}
	case api.Internal, api.NoLeader, api.Unavailable, api.TooMany:
		return &exitError{exitFailed, e.Message}
	}
	return &exitError{exitUsage, e.Message}
}

// printProblems prints what is wrong with a spec as validate does.
func printProblems(list []api.Diagnostic, s streams) {
	for _, p := range list {
		d := dataflow.Diagnostic{Pos: dataflow.Pos{File: p.File, Line: p.Line, Col: p.Column}, Operator: p.Operator, Message: p.Message, Suggestion: p.Suggestion}
		if p.Severity == "warning" {
			d.Severity = dataflow.Warning
		}
		fmt.Fprintln(s.err, d)
	}
}

func queryPath(name string) string { return "/queries/" + url.PathEscape(name) }

// waitPause is how long a command waits before it asks again whether a query has ended.
const waitPause = 200 * time.Millisecond

// until waits until something is so of a query. A scheduler that does not answer any more, since another one takes over, is
// asked again; one that has never answered is an error. otherwise is what is said of the query if a signal comes first, or if it
// is not so within limit, unless that is 0.
func (o *serviceOptions) until(name string, so func(*api.Query) bool, otherwise string, limit time.Duration, s streams) (*api.Query, error) {
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer restore()
	begin := time.Now()
	var there time.Time // when a scheduler has answered last
	told := false
	for last := ""; ; {
		q := &api.Query{}
		err := look(ctx, c, name, begin.Add(limit), limit > 0, q)
		var known *api.Error
		answered := err == nil || errors.As(err, &known)
		switch {
		case ctx.Err() != nil:
			return nil, &exitError{exitFailed, fmt.Sprintf("query %q: %s%s", name, last, otherwise)}
		case known != nil && !passing(known.Code), !answered && there.IsZero():
			return nil, serviceError(err, s)
		case err == nil && so(q):
			return q, nil
		case answered:
			there, told = time.Now(), false
			if err == nil {
				last = strings.TrimRight(q.State+": "+q.Error, ": ") + "; "
			}
		case time.Since(there) > takeOverTime && !told:
			fmt.Fprintf(s.err, "warning: %v; waiting for one that does\n", err)
			told = true
		}
		if limit > 0 && time.Since(begin) >= limit {
			return nil, &exitError{exitFailed, fmt.Sprintf("query %q: %s%s", name, last, otherwise)}
		}
		select {
		case <-ctx.Done():
		case <-time.After(waitPause):
		}
	}
}

// look asks how a query is. If that is limited an answer may take until end, and a moment in any case.
func look(ctx context.Context, c *api.Client, name string, end time.Time, limited bool, q *api.Query) error {
	if limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(time.Until(end), askTime))
		defer cancel()
	}
	return c.Do(ctx, http.MethodGet, queryPath(name), nil, q)
}

// passing reports whether what a scheduler says may be different in a moment.
func passing(code api.Code) bool {
	return code == api.NoLeader || code == api.Unavailable || code == api.TooMany || code == api.Internal
}

// wait waits until a query has ended. That it has not finished is an error.
func (o *serviceOptions) wait(name string, s streams) error {
	q, err := o.until(name, func(q *api.Query) bool { return api.Ended(q.State) }, "it goes on", 0, s)
	if err == nil {
		for _, o := range q.Operators {
			reportOperator(s.err, &o)
		}
	}
	if err == nil && q.State != api.Finished {
		err = &exitError{exitFailed, strings.TrimRight(fmt.Sprintf("query %q: %s: %s", name, q.State, q.Error), ": ")}
	}
	return err
}

type listCommand struct {
	State  []string `help:"Only those in these states." placeholder:"STATE"`
	Format string   `help:"Form of the output: text or json." enum:"text,json" default:"text"`
	serviceOptions
}

// Run implements the command.
func (c *listCommand) Run(s streams) error {
	for _, state := range c.State {
		if !slices.Contains(api.States, state) {
			return usageErrorf("--state must be one of %s; it is %q", strings.Join(api.States, ", "), state)
		}
	}
	var list api.QueryList
	if err := c.call(http.MethodGet, "/queries", nil, &list, s); err != nil {
		return err
	}
	list.Queries = slices.DeleteFunc(list.Queries, func(q api.Query) bool { return len(c.State) > 0 && !slices.Contains(c.State, q.State) })
	if c.Format == "json" {
		return printJSON(list.Queries, s)
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tWORKERS\tCHECKPOINT\tSUBMITTED\tREASON")
	for _, q := range list.Queries {
		workers := fmt.Sprint(q.Workers)
		if !api.Ended(q.State) && q.Present != q.Workers {
			workers = fmt.Sprintf("%d of %d", q.Present, q.Workers)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", q.Name, q.State, workers, epochText(q.Checkpoint), timeText(q.Submitted), shortReason(q.Error))
	}
	return w.Flush()
}

// timeText is a time; "-" if it is not known.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// longestReason bounds what a list says of a query, in characters; status says all.
const longestReason = 100

// shortReason is the beginning of the first line.
func shortReason(text string) string {
	line, _, more := strings.Cut(text, "\n")
	if runes := []rune(line); len(runes) > longestReason {
		line, more = string(runes[:longestReason]), true
	}
	if more {
		line += "..."
	}
	return line
}

func printJSON(v any, s streams) error {
	enc := json.NewEncoder(s.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func epochText(epoch int64) string {
	if epoch == api.Last {
		return "end"
	}
	return fmt.Sprint(epoch)
}

// printQuery shows how a query is.
func printQuery(q *api.Query, s streams) error {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "query %s: %s, checkpoint %s, %d restarts\n", q.Name, q.State, epochText(q.Checkpoint), q.Restarts)
	if q.Error != "" {
		fmt.Fprintf(w, "%s\n", q.Error)
	}
	if e := q.Edit; e != nil {
		fmt.Fprintf(w, "edit of %s: %s\n", e.Asked.UTC().Format(time.RFC3339), strings.TrimRight(e.State+": "+e.Reason, ": "))
	}
	if q.Watermark != nil {
		fmt.Fprintf(w, "watermark %s\n", q.Watermark.UTC().Format(time.RFC3339Nano))
	}
	for _, set := range q.Settings {
		fmt.Fprintf(w, "set: %s.%s=%s\n", set.Operator, set.Param, set.Value)
	}
	if len(q.Tasks) > 0 {
		fmt.Fprintln(w, "\nTASK\tSTATE\tROLE\tGENERATION\tEPOCH\tWORKER\t")
	}
	for _, t := range q.Tasks {
		note := ""
		if t.Unprotected {
			note = "unprotected"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", t.Name, t.State, t.Role, t.Generation, epochText(t.Epoch), t.Worker, strings.TrimSpace(note+" "+t.Waits))
	}
	if len(q.Processes) > 0 {
		fmt.Fprintln(w, "\nWORKER\tADDRESS\tRUNS AS")
	}
	for _, p := range q.Processes {
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.ID, p.Addr, p.About)
	}
	if len(q.Operators) > 0 {
		fmt.Fprintln(w, "\nOPERATOR\tTYPE\tIN\tOUT\tLATE\tBAD")
	}
	for _, o := range q.Operators {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\n", o.Name, o.Type, o.In, o.Out, o.Late, o.Skipped+o.Dead)
	}
	for _, a := range q.Alerts {
		fmt.Fprintf(w, "\n%s %s", a.Time.UTC().Format(time.RFC3339), a.Text)
	}
	if len(q.Alerts) > 0 {
		fmt.Fprintln(w)
	}
	return w.Flush()
}

type showCommand struct {
	Query  string `arg:"" help:"The query's name."`
	Format string `help:"What is printed: text, the spec as it was submitted, or json, with all options." enum:"text,json" default:"text"`
	serviceOptions
}

// Run implements the command.
func (c *showCommand) Run(s streams) error {
	var sub api.Submission
	if err := c.call(http.MethodGet, queryPath(c.Query)+"/submission", nil, &sub, s); err != nil {
		return err
	}
	if c.Format == "json" {
		return printJSON(&sub, s)
	}
	_, err := fmt.Fprint(s.out, strings.TrimSuffix(sub.Spec, "\n")+"\n")
	return err
}

type cancelCommand struct {
	Query string `arg:"" help:"The query's name."`
	serviceOptions
}

// Run implements the command.
func (c *cancelCommand) Run(s streams) error {
	return c.call(http.MethodDelete, queryPath(c.Query), nil, nil, s)
}

type drainCommand struct {
	Query string `arg:"" help:"The query's name."`
	Wait  bool   `help:"Wait until all is written."`
	serviceOptions
}

// Run implements the command.
func (c *drainCommand) Run(s streams) error {
	if err := c.call(http.MethodPost, queryPath(c.Query)+"/drain", nil, nil, s); err != nil || !c.Wait {
		return err
	}
	return c.wait(c.Query, s)
}

type waitCommand struct {
	Query   string        `arg:"" help:"The query's name."`
	Running bool          `help:"Wait until it runs, not until it has ended."`
	Timeout time.Duration `help:"How long to wait at most; for ever by default." placeholder:"TIME"`
	serviceOptions
}

// Run implements the command.
func (c *waitCommand) Run(s streams) error {
	if c.Timeout < 0 {
		return usageErrorf("--timeout must not be negative; it is %v", c.Timeout)
	}
	otherwise := "it goes on"
	if c.Timeout > 0 {
		otherwise = fmt.Sprintf("waited for %v", c.Timeout)
	}
	q, err := c.until(c.Query, func(q *api.Query) bool { return api.Ended(q.State) || c.Running && q.State != api.Starting }, otherwise, c.Timeout, s)
	switch {
	case err != nil:
		return err
	case api.Ended(q.State) && q.State != api.Finished:
		return &exitError{exitFailed, strings.TrimRight(fmt.Sprintf("query %q: %s: %s", c.Query, q.State, q.Error), ": ")}
	}
	return nil
}

type eventsCommand struct {
	Query  string `arg:"" optional:"" help:"The query's name; all queries by default."`
	Follow bool   `help:"With --no-follow: those that there are, from the oldest that is kept, and no more." default:"true" negatable:""`
	After  string `help:"Begin after the event with this ID; with those that come from now on by default." placeholder:"ID"`
	Format string `help:"Form of the output: text, or json with an event a line." enum:"text,json" default:"text"`
	serviceOptions
}

// Run implements the command.
func (c *eventsCommand) Run(s streams) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer restore()
	return c.follow(ctx, client, s, func(e api.Event) error {
		if c.Format == "json" {
			return json.NewEncoder(s.out).Encode(e)
		}
		about := e.Type
		if e.Query != "" {
			about += " " + e.Query
		}
		_, err := fmt.Fprintf(s.out, "%s %s %s: %s\n", e.Time.UTC().Format(time.RFC3339), e.ID, about, e.Text)
		return err
	})
}

// takeOverTime is how long events wait for another scheduler.
const takeOverTime = 30 * time.Second

// follow calls f with each event. When a scheduler ends the stream, or has ended itself, it goes on with the one that leads
// then, behind the last event that it has had.
func (c *eventsCommand) follow(ctx context.Context, client *api.Client, s streams, f func(api.Event) error) error {
	o := &api.EventsOptions{Query: c.Query, After: c.After, Once: !c.Follow}
	var there time.Time // when the stream was there last
	for {
		var failure error
		err := client.Events(ctx, o, func(e api.Event) error {
			failure = f(e)
			return failure
		})
		var known *api.Error
		broken := err == nil || errors.Is(err, api.ErrBroken)
		switch {
		case ctx.Err() != nil:
			return nil
		case failure != nil:
			return failure
		case broken && o.Once:
			return err
		case broken:
			there = time.Now()
		case there.IsZero() || time.Since(there) > takeOverTime,
			errors.As(err, &known) && known.Code != api.NoLeader && known.Code != api.Unavailable:
			return serviceError(err, s)
		}
		select {
		case <-ctx.Done():
		case <-time.After(waitPause):
		}
	}
}
