package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/dataflow"
	"sluice/rewrite"
)

func (h *handler) submit(w http.ResponseWriter, r *http.Request) error {
	s, err := submissionBody(r)
	if err != nil {
		return err
	}
	ctx, done := during(r, callTime)
	defer done()
	q, err := h.b.Submit(ctx, s)
	if err != nil {
		return err
	}
	w.Header().Set("Location", Prefix+"/queries/"+q.Name)
	return reply(w, http.StatusCreated, q)
}

func (h *handler) list(w http.ResponseWriter, r *http.Request) error {
	ctx, done := during(r, callTime)
	defer done()
	all, err := h.b.Queries(ctx)
	if err != nil {
		return err
	}
	list := QueryList{Queries: []Query{}}
	for _, q := range all {
		q.Tasks, q.Operators, q.Processes, q.Alerts = nil, nil, nil, nil
		list.Queries = append(list.Queries, q)
	}
	return reply(w, http.StatusOK, list)
}

func (h *handler) show(w http.ResponseWriter, r *http.Request) error {
	ctx, done := during(r, callTime)
	defer done()
	q, err := h.b.Query(ctx, r.PathValue("name"))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, q)
}

func (h *handler) submission(w http.ResponseWriter, r *http.Request) error {
	ctx, done := during(r, callTime)
	defer done()
	s, err := h.b.Submission(ctx, r.PathValue("name"))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, s)
}

// replaceTime is how long an answer waits for an edit: for a stop at a checkpoint, and the conversion.
const replaceTime = 60 * time.Second

func (h *handler) replace(w http.ResponseWriter, r *http.Request) error {
	s, err := submissionBody(r)
	if err != nil {
		return err
	}
	var o ReplaceOptions
	if o.AllowDrop, err = flag(r, "allowDrop", false); err != nil {
		return err
	}
	if text := r.URL.Query().Get("revision"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return Errorf(BadRequest, "revision must be a number; it is %q", text)
		}
		o.Revision = &n
	}
	ctx, done := during(r, replaceTime)
	defer done()
	q, err := h.b.Replace(ctx, r.PathValue("name"), s, o)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if q.Edit != nil && q.Edit.State == EditPending {
		status = http.StatusAccepted
	}
	return reply(w, status, q)
}

// flag is a parameter that is true or false.
func flag(r *http.Request, name string, usual bool) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return usual, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, Errorf(BadRequest, "%s must be true or false; it is %q", name, text)
	}
	return value, nil
}

// change answers with the query as it is after a change of its state.
func (h *handler) change(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, name string) (*Query, error)) error {
	ctx, done := during(r, callTime)
	defer done()
	q, err := do(ctx, r.PathValue("name"))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, q)
}

func (h *handler) cancel(w http.ResponseWriter, r *http.Request) error {
	return h.change(w, r, h.b.Cancel)
}

func (h *handler) drain(w http.ResponseWriter, r *http.Request) error {
	return h.change(w, r, h.b.Drain)
}

func (h *handler) stop(w http.ResponseWriter, r *http.Request) error { return h.change(w, r, h.b.Stop) }

func (h *handler) resume(w http.ResponseWriter, r *http.Request) error {
	return h.change(w, r, h.b.Resume)
}

func (h *handler) set(w http.ResponseWriter, r *http.Request) error {
	var s Setting
	if err := body(r, &s); err != nil {
		return err
	}
	if s.Operator == "" || s.Param == "" {
		return Errorf(BadRequest, "operator and param must be given")
	}
	ctx, done := during(r, setTime)
	defer done()
	a, err := h.b.Set(ctx, r.PathValue("name"), s)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, a)
}

func (h *handler) rules(w http.ResponseWriter, _ *http.Request) error {
	list := RuleList{Rules: []Rule{}}
	for _, r := range rewrite.Builtin().Rules() {
		list.Rules = append(list.Rules, ruleOf(r))
	}
	return reply(w, http.StatusOK, list)
}

func (h *handler) rule(w http.ResponseWriter, r *http.Request) error {
	rules := rewrite.Builtin()
	name := r.PathValue("name")
	found := rules.Rule(name)
	if found == nil {
		d := dataflow.Diagnostic{Message: "there is no rule \"" + name + "\"", Suggestion: dataflow.Nearest(name, rules.Names())}
		return Errorf(UnknownRule, "%s", d)
	}
	rule := ruleOf(found)
	rule.Source = found.Source
	return reply(w, http.StatusOK, rule)
}

func ruleOf(r *rewrite.Rule) Rule {
	rule := Rule{Name: r.Name, Doc: strings.TrimSpace(r.Doc), Params: []RuleParam{}}
	for _, p := range r.Params {
		rule.Params = append(rule.Params, RuleParam{Name: p.Name, Default: p.Default, Required: p.Required})
	}
	return rule
}

func (h *handler) health(w http.ResponseWriter, r *http.Request) error {
	ctx, done := during(r, callTime)
	defer done()
	state := h.b.Health(ctx)
	status := http.StatusOK
	if state.Status == StatusTrouble {
		status = http.StatusServiceUnavailable
	}
	return reply(w, status, state)
}

func (h *handler) live(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, http.StatusOK, Live{Live: true})
}
