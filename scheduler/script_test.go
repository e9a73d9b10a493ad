package scheduler_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"sluice/dataflow"
	"sluice/internal/protocol"
	"sluice/metaquery"
	"sluice/operators/catalog"
	"sluice/rewrite"
	"sluice/scheduler"
	"sluice/specs/xmlspec"
)

// spec is the query of all scripts; rules divide it.
const spec = `<dataflow name="flights">
  <type name="Flight"><column name="date" type="timestamp" eventtime="true"/><column name="delay" type="int" nullable="false"/><column name="origin" type="string" nullable="false"/></type>
  <operator name="source" type="reader"><output name="flights" type="Flight"/><param name="path" value="flights.csv"/></operator>
  <operator name="late" type="filter"><input name="flights"/><param name="condition" value="delay &gt; 60"/><output name="lateFlights"/></operator>
  <operator name="count" type="aggregate"><input name="lateFlights"/><param name="window" value="tumbling(1d)"/><param name="group-by" value="origin"/><param name="select">origin, count(*) AS flights</param><output name="counts"/></operator>
  <operator name="sink" type="writer"><input name="counts"/><param name="path" value="out.csv"/></operator>
  %s
</dataflow>`

func compileQuery(t testing.TB, rewrites string, needs ...string) *dataflow.Physical {
	text := fmt.Sprintf(spec, rewrites)
	for _, line := range needs {
		name, resources, _ := strings.Cut(line, " ")
		before, after, found := strings.Cut(text, fmt.Sprintf("<operator name=%q", name))
		begin, rest, _ := strings.Cut(after, ">")
		if !found {
			t.Fatalf("no operator %q", name)
		}
		text = before + fmt.Sprintf("<operator name=%q", name) + begin + ">" + resources + rest
	}
	g, diags := xmlspec.Parse("flights.xml", strings.NewReader(text), func(string) (string, bool) { return "", false })
	if !diags.HasErrors() {
		diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
	}
	if diags.HasErrors() {
		t.Fatal(diags.Error())
	}
	engine := &rewrite.Engine{Catalog: catalog.Operators}
	result, diags := engine.Run(g, rewrite.Builtin())
	if diags.HasErrors() {
		t.Fatal(diags.Error())
	}
	p, err := dataflow.BuildTasks(result.Graph, dataflow.TaskOptions{Network: true, Catalog: catalog.Operators})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rewritesOf makes rewrite elements of "hot-standby:count" or "partition:count:k=2".
func rewritesOf(list []string) string {
	var b strings.Builder
	for _, r := range list {
		rule, rest, _ := strings.Cut(r, ":")
		op, param, _ := strings.Cut(rest, ":")
		fmt.Fprintf(&b, `<rewrite rule="%s" operator="%s">`, rule, op)
		if name, value, ok := strings.Cut(param, "="); ok {
			fmt.Fprintf(&b, `<param name="%s" value="%s"/>`, name, value)
		}
		b.WriteString("</rewrite>")
	}
	return b.String()
}

// script drives one Core, and keeps what a shell and the tasks would know.
type script struct {
	t      testing.TB
	cfg    scheduler.Config
	core   *scheduler.Core
	now    int64
	saved  *scheduler.Record
	orders map[metaquery.TaskID]metaquery.Orders
	home   map[metaquery.TaskID]scheduler.WorkerID
	last   map[metaquery.TaskID]metaquery.Report
	b      strings.Builder
}

// TestScripts runs the scripts of testdata. A script is made of blocks:
//
//	query hot-standby:count partition:late:k=2     makes the query, and prints its tasks; each line below it,
//	late <resources cpus="1"/>                     adds what an operator needs
//	new [workers=2] [every=10] [checkpoints=off] [quiet=5s] [off=fence]    begins the first term
//	restart                                        begins another term with what was saved last
//	events                                         an event a line, printed with the actions that follow
//	status                                         prints the status
//
// The events are
//
//	up w1 [cpus=1] [mem=1GB] [gpus=1] [attributes=rack=r1]     what the worker was started with; also with gone
//	gone w1 | alive w1 [TASK/GEN ...] | tick 100ms [times]
//	pass 2s                                        with signs of life of all workers, all 200 ms
//	report TASK/GEN [epoch=5] [begun=6] [cut=6] [snap=KEY:LO-HI:REF] [front=SINK:EPOCH] [vote=1|late|error] ...
//	work EPOCH [stays=TASK]                        all tasks that run report that they have caught up at EPOCH, with
//	                                               snapshots and what sinks have written; their sources and sinks can
//	                                               go on elsewhere, but for those of TASK
//	obey [TASK ...]                                the last orders have been obeyed, by all or these
//	set ID OPERATOR.PARAM=VALUE ... | stop | end | decided ATTEMPT commit|cancel
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.b.Reset()
			switch d.Cmd {
			case "query":
				var list []string
				for _, a := range d.CmdArgs {
					list = append(list, a.String())
				}
				s.cfg.Query = compileQuery(t, rewritesOf(list), nonEmpty(strings.Split(d.Input, "\n"))...)
				return s.cfg.Query.Text()
			case "new":
				s.configure(d)
				s.begin(nil)
			case "restart":
				s.begin(s.saved)
			case "events":
				for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
					s.event(line)
				}
			case "status":
				return s.core.Status().String()
			default:
				t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
			}
			return s.b.String()
		})
	})
}

var rulesByName = map[string]protocol.Rule{
	"fence": protocol.Fence, "restate": protocol.Restate, "endstay": protocol.EndStay, "controllog": protocol.ControlLog,
	"allvote": protocol.AllVote, "attempt": protocol.Attempt, "ranges": protocol.Ranges,
}

func (s *script) configure(d *datadriven.TestData) {
	s.cfg = scheduler.Config{Query: s.cfg.Query, Every: 10, Flight: 4, Checkpoints: true, Workers: 2}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "workers":
			s.cfg.Workers, _ = strconv.Atoi(a.Vals[0])
		case "every":
			s.cfg.Every, _ = strconv.ParseInt(a.Vals[0], 10, 64)
		case "checkpoints":
			s.cfg.Checkpoints = a.Vals[0] == "on"
		case "gather":
			gather, err := time.ParseDuration(a.Vals[0])
			if err != nil {
				d.Fatalf(s.t, "%v", err)
			}
			s.cfg.Gather = gather.Microseconds()
		case "quiet":
			quiet, err := time.ParseDuration(a.Vals[0])
			if err != nil {
				d.Fatalf(s.t, "%v", err)
			}
			s.cfg.Quiet = quiet.Microseconds()
		case "fresh":
			s.cfg.Fresh = true
		case "off":
			s.cfg.Off = s.cfg.Off.With(rulesByName[a.Vals[0]])
		default:
			d.Fatalf(s.t, "unknown option %q", a.Key)
		}
	}
}

func (s *script) begin(rec *scheduler.Record) {
	if rec == nil {
		s.saved = &scheduler.Record{}
		s.now = 1_000_000_000_000_000
		s.home = make(map[metaquery.TaskID]scheduler.WorkerID)
		s.last = make(map[metaquery.TaskID]metaquery.Report)
	}
	s.orders = make(map[metaquery.TaskID]metaquery.Orders)
	core, actions := scheduler.New(s.cfg, rec)
	s.core = core
	s.print(actions)
}

// event runs one line.
func (s *script) event(line string) {
	s.b.WriteString(line + "\n")
	words := strings.Fields(line)
	e := scheduler.Event{Now: s.now}
	switch words[0] {
	case "up":
		e.Worker = &scheduler.WorkerUp{ID: scheduler.WorkerID(words[1]), Addr: words[1] + ":1", Capacity: s.capacity(words[2:])}
	case "gone":
		e.Gone, e.Had = scheduler.WorkerID(words[1]), s.capacity(words[2:])
	case "alive":
		e.Alive = &scheduler.Alive{Worker: scheduler.WorkerID(words[1]), Addr: words[1] + ":1"}
		for _, w := range words[2:] {
			e.Alive.Tasks = append(e.Alive.Tasks, taskID(w))
		}
	case "tick":
		s.tick(words[1:])
		return
	case "pass":
		s.pass(words[1])
		return
	case "report":
		e.Report = s.reportOf(words[1:])
	case "obey":
		s.obey(words[1:])
		return
	case "work":
		s.work(words[1:])
		return
	case "set":
		id, _ := strconv.ParseInt(words[1], 10, 64)
		e.Set = &scheduler.SetRequest{ID: id}
		for _, w := range words[2:] {
			name, value, _ := strings.Cut(w, "=")
			i := strings.LastIndexByte(name, '.')
			e.Set.Tuples = append(e.Set.Tuples, metaquery.Tuple{Operator: name[:i], Param: name[i+1:], Value: value})
		}
	case "stop", "end":
		e.Stop = &scheduler.StopRequest{End: words[0] == "end"}
	case "catch-up":
		logged, _ := strconv.ParseInt(words[1], 10, 64)
		e.Stop = &scheduler.StopRequest{CatchUp: true, Logged: logged}
	case "decided":
		attempt, _ := strconv.ParseInt(words[1], 10, 64)
		commit := words[2] == "commit"
		s.print(s.core.Decided(scheduler.Decision{Attempt: attempt, Commit: commit}, commit))
		return
	default:
		s.t.Fatalf("unknown event %q", line)
	}
	s.print(s.core.Handle(e))
}

func nonEmpty(lines []string) []string {
	return slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
}

// capacity reads words as in <resources>.
func (s *script) capacity(words []string) (r dataflow.Resources) {
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		var err error
		switch name {
		case "cpus":
			r.CPUs, err = dataflow.ParseCPUs(value)
		case "mem":
			r.Mem, err = dataflow.ParseByteSize(value)
		case "gpus":
			r.GPUs, err = dataflow.ParseCount(value, name, dataflow.MaxGPUs)
		case "attributes":
			r.Attributes, _ = dataflow.ParseAttributes(value)
		default:
			err = fmt.Errorf("unknown resource %q", w)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return r
}

// pass lets time pass in which all workers that are up are alive, with what has been launched there.
func (s *script) pass(text string) {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	for end := s.now + d.Microseconds(); s.now < end; {
		s.tick([]string{"200ms"})
		for _, w := range s.core.Status().Workers {
			a := &scheduler.Alive{Worker: w.ID, Addr: w.Addr}
			for id, home := range s.home {
				if home == w.ID && id.Gen == s.saved.Generations[id.Task] {
					a.Tasks = append(a.Tasks, id)
				}
			}
			s.print(s.core.Handle(scheduler.Event{Now: s.now, Alive: a}))
		}
	}
}

// tick lets time pass. Workers whose tasks have no silence to keep are heard by their own events only.
func (s *script) tick(words []string) {
	d, err := time.ParseDuration(words[0])
	if err != nil {
		s.t.Fatal(err)
	}
	times := 1
	if len(words) > 1 {
		times, _ = strconv.Atoi(words[1])
	}
	for range times {
		s.now += d.Microseconds()
		s.print(s.core.Handle(scheduler.Event{Now: s.now, Tick: true}))
	}
}

func taskID(text string) metaquery.TaskID {
	name, gen, _ := strings.Cut(text, "/")
	n, _ := strconv.ParseInt(gen, 10, 64)
	return metaquery.TaskID{Task: name, Gen: n}
}

// reportOf changes the last report of an instance, so a script says only what is new.
func (s *script) reportOf(words []string) *scheduler.TaskReport {
	id := taskID(words[0])
	r := s.last[id]
	r.From = id
	r.Seq++
	r.Term, r.Obeyed = s.orders[id].Term, s.orders[id].Seq
	worker := s.home[id]
	if worker == "" && !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "on=") }) {
		s.t.Fatalf("no instance %s has been launched", words[0])
	}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "epoch":
			r.Epoch = epoch(value)
		case "begun":
			r.Begun = epoch(value)
		case "cut":
			r.Cut = epoch(value)
		case "snap":
			parts := strings.Split(value, ":")
			lo, hi, _ := strings.Cut(parts[1], "-")
			r.Snapshots = append(slices.Clone(r.Snapshots), metaquery.Snapshot{Key: parts[0], Lo: epoch(lo), Hi: epoch(hi), Ref: parts[2]})
		case "front":
			sink, at, _ := strings.Cut(value, ":")
			r.Frontiers = map[string]int64{sink: epoch(at)}
		case "vote":
			r.Vote = &metaquery.Vote{Attempt: s.saved.Attempt, Late: value == "late"}
			if value == "error" {
				r.Vote.Error = "the value is refused"
			}
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				r.Vote.Attempt = n
			}
		case "obeyed":
			r.Obeyed = epoch(value)
		case "seq":
			r.Seq = epoch(value)
		case "on":
			worker = scheduler.WorkerID(value)
		case "caughtup":
			r.CaughtUp = true
		case "stopped":
			r.Stopped = true
		case "replays":
			r.Replays = true
		case "trimmed":
			r.Trimmed = true
		case "retry":
			r.Retry = value
		case "waits":
			r.Waits = value
		case "done":
			r.Done = true
		case "failure":
			r.Failure = &metaquery.Failure{Error: value}
		default:
			s.t.Fatalf("unknown word %q of a report", w)
		}
	}
	s.last[id] = r
	return &scheduler.TaskReport{Worker: worker, Report: r}
}

func epoch(text string) int64 {
	if text == "last" {
		return metaquery.LastEpoch
	}
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// obey lets tasks report that they have carried out their orders.
func (s *script) obey(tasks []string) {
	ids := slices.SortedFunc(maps.Keys(s.orders), func(a, b metaquery.TaskID) int { return strings.Compare(a.Task, b.Task) })
	for _, id := range ids {
		if id.Gen != s.saved.Generations[id.Task] || len(tasks) > 0 && !slices.Contains(tasks, id.Task) {
			continue
		}
		r := s.reportOf([]string{id.Task + "/" + strconv.FormatInt(id.Gen, 10)})
		s.print(s.core.Handle(scheduler.Event{Now: s.now, Report: r}))
	}
}

// work lets all tasks that run report how far they are, as if nothing went wrong.
func (s *script) work(words []string) {
	at, stays := words[0], ""
	if len(words) > 1 {
		stays = strings.TrimPrefix(words[1], "stays=")
	}
	keys := dataflow.StateKeys(s.cfg.Query.Graph)
	for _, t := range s.cfg.Query.Tasks {
		id := metaquery.TaskID{Task: t.Name, Gen: s.saved.Generations[t.Name]}
		if _, runs := s.orders[id]; !runs {
			continue
		}
		report := []string{idText(id), "epoch=" + at, "begun=" + at, "caughtup"}
		if t.Name != stays {
			report = append(report, "replays")
		}
		for _, op := range t.Operators {
			switch {
			case op.Desc.Sink():
				report = append(report, "front="+op.Name+":"+at)
			case op.Type != dataflow.NetReader && op.Type != dataflow.NetWriter && !op.Desc.Source():
				report = append(report, fmt.Sprintf("snap=%s:%s-%s:%s%s", keys[op], at, at, op.Name, at))
			}
		}
		s.print(s.core.Handle(scheduler.Event{Now: s.now, Report: s.reportOf(report)}))
	}
}
