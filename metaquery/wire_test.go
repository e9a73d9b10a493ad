package metaquery

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func toWorkers() []*ToWorker {
	id := TaskID{Task: "late.1", Gen: 3}
	tuples := []Tuple{{Operator: "f", Param: "condition", Value: "a > \"1\" & b < 2\n", Epoch: 7, Seq: 2}}
	orders := Orders{
		To: id, Seq: 9, Term: 2, Complete: LastEpoch, Fences: map[string]int64{"source": 2}, Now: tuples, Changes: tuples,
		Plan: &Plan{Attempt: 4, Epoch: 800, Tuples: tuples}, Stop: -1,
	}
	return []*ToWorker{
		{Deploy: &Deploy{Spec: []byte("<dataflow name=\"\xff\"/>"), File: "q.xml", Dir: "/data", Sets: []string{"a.b=c"}, Partitions: 2, Nodes: 3, Replicas: map[string]int{"total": 1}, Graph: "sum", Limit: -1, State: "/state", Fsync: "grouped", Transport: "tcp"}},
		{Launch: &Launch{ID: id, Checkpoint: 300, State: map[string]Snapshot{"late": {Key: "late", Lo: 300, Hi: 303, Ref: "r", Meta: []byte{0, 255}}}, Every: 100, Flight: 4, Interval: 10000, Orders: orders}},
		{End: &id}, {Orders: &orders}, {Here: true}, {Exit: true},
	}
}

func toSchedulers() []*ToScheduler {
	return []*ToScheduler{
		{Hello: &Hello{Worker: "w1", PID: 17, Error: "no such rule", Final: true}},
		{Alive: &Alive{Worker: "w1", PID: 17, Addr: "tcp://127.0.0.1:5000", Tasks: []TaskID{{"source", 1}, {"late.1", 3}}}},
		{Report: &Report{
			From: TaskID{"late.1", 3}, Seq: 8, Term: 2, Obeyed: 9, Epoch: LastEpoch, Begun: LastEpoch, Cut: 12,
			Snapshots: []Snapshot{{Key: "late", Lo: 5, Hi: LastEpoch}}, Frontiers: map[string]int64{"sink": LastEpoch},
			Vote: &Vote{Attempt: 4, Late: true, Error: "no"}, CaughtUp: true, Stopped: true, Trimmed: true,
			Failure:   &Failure{Error: "line 3: bad", Input: true},
			Operators: []OperatorReport{{Name: "late.1", In: 1, Out: 2, Skipped: 3, Dead: 4, Late: 5, Lost: 6, Gaps: 7}},
			Base:      3, Passed: []Passed{{Operator: "late.1", Lo: 5, Hi: LastEpoch, Rows: 1, Out: 2, Skipped: 3, Dead: 4, Late: 5, Lost: 6, Gaps: 7}},
			Watermark: -1 << 63, Backlog: 1, Retained: 2, Received: 3,
		}},
	}
}

func TestWire(t *testing.T) {
	for _, m := range toWorkers() {
		text, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeToWorker(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if d := cmp.Diff(m, got); d != "" {
			t.Error(d)
		}
		if _, err := DecodeToScheduler(text); err == nil {
			t.Errorf("%s is taken for a message to the scheduler", text)
		}
	}
	for _, m := range toSchedulers() {
		text, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeToScheduler(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if d := cmp.Diff(m, got); d != "" {
			t.Error(d)
		}
	}
}

func TestHostileMessages(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	for want, text := range map[string]string{
		"exactly one field":       `{}`,
		"behind the message":      `{"here":true} {"here":true}`,
		"unknown field":           `{"here":true,"there":1}`,
		"unexpected EOF":          `{"here":true`,
		"EOF":                     ``,
		"not UTF-8":               "{\"here\":true,\"\xff\":1}",
		"nest deeper":             `{"orders":` + strings.Repeat("[", 1000),
		"more than 1048576":       `{"deploy":{"sets":[` + strings.Repeat(`"",`, maxList) + `""]}}`,
		"task: no name":           `{"end":{"task":"","gen":1}}`,
		"a name of 4097 bytes":    `{"end":{"task":"` + long + `","gen":1}}`,
		"negative number -1":      `{"end":{"task":"a","gen":-1}}`,
		"cannot unmarshal":        `{"end":{"task":"a","gen":1e3}}`,
		"must be positive":        `{"deploy":{"spec":"","partitions":0,"nodes":1}}`,
		"the time between":        `{"launch":{"id":{"task":"a","gen":1},"every":0,"orders":{"to":{"task":"a","gen":1}}}}`,
		"from 4 to 3":             `{"launch":{"id":{"task":"a","gen":1},"every":1,"state":{"a":{"key":"a","lo":4,"hi":3}},"orders":{"to":{"task":"a","gen":1}}}}`,
		"operator: no name":       `{"orders":{"to":{"task":"a","gen":1},"now":[{"operator":"","param":"p","value":"v"}]}}`,
		"parameter: no name":      `{"orders":{"to":{"task":"a","gen":1},"plan":{"tuples":[{"operator":"o","param":"","value":"v"}]}}}`,
		"stop at -2":              `{"orders":{"to":{"task":"a","gen":1},"stop":-2}}`,
		"fence: negative":         `{"orders":{"to":{"task":"a","gen":1},"fences":{"b":-1}}}`,
		"illegal base64":          `{"deploy":{"spec":"?","partitions":1,"nodes":1}}`,
		"invalid character '\\x0": "{\"end\":{\"task\":\"a\x00\"}}",
	} {
		_, err := DecodeToWorker(addVersion([]byte(text)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	for want, text := range map[string]string{
		"exactly one field":   `{"hello":{"worker":"a"},"alive":{"worker":"a","addr":"b"}}`,
		"worker: no name":     `{"hello":{"pid":1}}`,
		"address: no name":    `{"alive":{"worker":"a","pid":1}}`,
		"report: negative":    `{"report":{"from":{"task":"a","gen":1},"seq":-1}}`,
		"frontier: negative":  `{"report":{"from":{"task":"a","gen":1},"frontiers":{"s":-1}}}`,
		"snapshot: no name":   `{"report":{"from":{"task":"a","gen":1},"snapshots":[{}]}}`,
		"operator: no name":   `{"report":{"from":{"task":"a","gen":1},"operators":[{}]}}`,
		"vote: negative":      `{"report":{"from":{"task":"a","gen":1},"vote":{"attempt":-1}}}`,
		"task a: negative":    `{"alive":{"worker":"a","addr":"b","tasks":[{"task":"a","gen":-1}]}}`,
		"cannot unmarshal st": `{"report":"x"}`,
	} {
		_, err := DecodeToScheduler(addVersion([]byte(text)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestEncodeRefuses: what the other side would refuse, or read as something else, is not sent.
func TestEncodeRefuses(t *testing.T) {
	for want, m := range map[string]*ToWorker{
		"exactly one field":    {},
		"0 replicas of \"a\"":  {Deploy: &Deploy{Partitions: 1, Nodes: 1, Replicas: map[string]int{"a": 0}}},
		"is not UTF-8":         {Deploy: &Deploy{Dir: "\xff", Partitions: 1, Nodes: 1}},
		`"\xff" is not UTF-8`:  {End: &TaskID{Task: "\xff"}},
		"of a.b is not UTF-8":  {Orders: &Orders{To: TaskID{Task: "a"}, Now: []Tuple{{Operator: "a", Param: "b", Value: "\xff"}}}},
		"the most is 67108864": {Deploy: &Deploy{Spec: make([]byte, MaxWire), Partitions: 1, Nodes: 1}},
	} {
		if _, err := m.Encode(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := (&ToScheduler{}).Encode(); err == nil {
		t.Error("an empty message is sent")
	}
}

// FuzzWire: whatever comes, it is an error or a message that encodes to itself.
func FuzzWire(f *testing.F) {
	for _, m := range toWorkers() {
		text, err := m.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, m := range toSchedulers() {
		text, err := m.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{`null`, `[]`, `{"here":null}`, `{"orders":{"fences":{"":1}}}`, "{\"a\\\"[[[[\":1}", `{"exit":true,"exit":false}`} {
		f.Add(addVersion([]byte(text)))
	}
	f.Add([]byte("v2 {}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, err := DecodeToWorker(text); err == nil {
			again(t, m.Encode, func(text []byte) (any, error) { return DecodeToWorker(text) }, m)
		}
		if m, err := DecodeToScheduler(text); err == nil {
			again(t, m.Encode, func(text []byte) (any, error) { return DecodeToScheduler(text) }, m)
		}
	})
}

func again(t *testing.T, encode func() ([]byte, error), decode func([]byte) (any, error), m any) {
	first, err := encode()
	if err != nil {
		t.Fatalf("%+v cannot be sent: %v", m, err)
	}
	got, err := decode(first)
	if err != nil {
		t.Fatalf("%s is not read: %v", first, err)
	}
	var second []byte
	switch got := got.(type) {
	case *ToWorker:
		second, err = got.Encode()
	case *ToScheduler:
		second, err = got.Encode()
	}
	if err != nil || !bytes.Equal(first, second) {
		t.Fatalf("%s becomes %s, error %v", first, second, err)
	}
}
