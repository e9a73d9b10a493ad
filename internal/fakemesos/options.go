package fakemesos

import (
	"crypto/tls"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Options says what cluster New makes. The zero value is one master without agents.
type Options struct {
	// Masters is the number of masters; the first one leads. 0 means 1.
	Masters int
	// Agents are started and registered before New returns.
	Agents []AgentSpec
	// Scale multiplies every time of Mesos, those that frameworks ask for (refuse_seconds, failover_timeout) too.
	// 0 means 0.02: a heartbeat every 300 ms, an allocation every 20 ms, an agent lost after 1.5 s.
	Scale float64
	// Times overrides single times; they are used as they are.
	Times Times
	// Users are the credentials (principal to secret) for HTTP basic authentication. Nil asks for none.
	Users map[string]string
	// TLS makes masters speak HTTPS. Nil is plain HTTP.
	TLS *tls.Config
	// OfferTimeout takes unanswered offers back after this time; 0 is never, as with Mesos.
	OfferTimeout time.Duration
	// WorkDir is where the sandboxes are; "" means a temporary directory of the test.
	WorkDir string
	// AllowUnknown makes calls that no transcript shows only be recorded; otherwise they fail the test.
	AllowUnknown bool
}

// Times are the intervals of masters and agents. A zero one is Mesos' own times Options.Scale.
type Times struct {
	Heartbeat        time.Duration // 15 s
	Allocation       time.Duration // 1 s
	PingTimeout      time.Duration // 75 s: an agent that does not answer so long is unreachable
	Resend           time.Duration // 10 s: the first re-send of an unacknowledged update; it doubles
	ResendMax        time.Duration // 10 min
	Register         time.Duration // 1 min: an executor that has not subscribed by then is killed
	Reregister       time.Duration // 2 s: the same after the recovery of an agent
	ShutdownGrace    time.Duration // 5 s
	RecoveryTimeout  time.Duration // 15 min, told to checkpointing executors
	BackoffMax       time.Duration // 2 s, told to checkpointing executors
	LeaderExpiration time.Duration // 10 s: other masters redirect to a dead leader so long
}

// AgentSpec is one agent.
type AgentSpec struct {
	// Hostname is the agent's name in offers; "" means localhost.
	Hostname string
	// Resources and Attributes are written as for the flags of an agent.
	// "" means cpus:4;mem:2048;disk:4096;ports:[31000-31009,31020-31029].
	Resources, Attributes string
	// Run is the executor inside the test's process: it is called instead of starting the executor's command, with the
	// environment that the process would have, and speaks to the agent over HTTP. Its context ends when it is killed.
	// The result is its exit status. Nil starts real processes.
	Run func(p Process) int
	// Command does the same for the commands of tasks without an executor. Nil runs them for real.
	Command func(p Process) int
	// Simulate runs each task without process and HTTP: TASK_RUNNING at once, TASK_KILLED when it is killed. For many agents.
	Simulate bool
}

const defaultResources = "cpus:4;mem:2048;disk:4096;ports:[31000-31009,31020-31029]"

func (o Options) withDefaults() Options {
	if o.Masters == 0 {
		o.Masters = 1
	}
	if o.Scale == 0 {
		o.Scale = 0.02
	}
	for _, d := range []struct {
		to  *time.Duration
		own time.Duration
	}{
		{&o.Times.Heartbeat, 15 * time.Second},
		{&o.Times.Allocation, time.Second},
		{&o.Times.PingTimeout, 75 * time.Second},
		{&o.Times.Resend, 10 * time.Second},
		{&o.Times.ResendMax, 10 * time.Minute},
		{&o.Times.Register, time.Minute},
		{&o.Times.Reregister, 2 * time.Second},
		{&o.Times.ShutdownGrace, 5 * time.Second},
		{&o.Times.RecoveryTimeout, 15 * time.Minute},
		{&o.Times.BackoffMax, 2 * time.Second},
		{&o.Times.LeaderExpiration, 10 * time.Second},
	} {
		if *d.to == 0 {
			*d.to = time.Duration(float64(d.own) * o.Scale)
		}
	}
	return o
}

// scaled converts seconds that a framework asks for.
func (o Options) scaled(seconds float64) time.Duration {
	return time.Duration(seconds * o.Scale * float64(time.Second))
}

// mesosDuration writes a duration as Mesos does: 5secs, 15mins.
func mesosDuration(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{
		{time.Hour, "hrs"}, {time.Minute, "mins"}, {time.Second, "secs"}, {time.Millisecond, "ms"},
		{time.Microsecond, "us"},
	} {
		if d >= u.unit {
			return strconv.FormatFloat(float64(d)/float64(u.unit), 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatInt(int64(d), 10) + "ns"
}

// parseResources reads the --resources flag of an agent: name:4, name(role):4, name:[1-2,5-6].
func parseResources(s string) (resources, error) {
	var out resources
	for part := range strings.SplitSeq(s, ";") {
		key, val, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok {
			return nil, fmt.Errorf("fakemesos: resources %q: expecting name:value in %q", s, part)
		}
		r := resource{name: key}
		if name, role, ok := strings.Cut(key, "("); ok {
			r.name, r.reserved = name, strings.TrimSuffix(role, ")")
		}
		spans, num, err := parseValue(val)
		if err != nil {
			return nil, fmt.Errorf("fakemesos: resources %q: %s: %w", s, key, err)
		}
		r.ranges, r.isRanges, r.milli = spans, spans != nil, int64(num*1000)
		out = out.plus(resources{r})
	}
	return out, nil
}

func parseValue(val string) ([]span, float64, error) {
	if !strings.HasPrefix(val, "[") {
		num, err := strconv.ParseFloat(val, 64)
		return nil, num, err
	}
	var spans []span
	for s := range strings.SplitSeq(strings.Trim(val, "[]"), ",") {
		lo, hi, ok := strings.Cut(strings.TrimSpace(s), "-")
		if !ok {
			return nil, 0, fmt.Errorf("range %q has no '-'", s)
		}
		l, err := strconv.ParseUint(lo, 10, 64)
		if err != nil {
			return nil, 0, err
		}
		h, err := strconv.ParseUint(hi, 10, 64)
		if err != nil {
			return nil, 0, err
		}
		spans = append(spans, span{l, h})
	}
	return spans, 0, nil
}

// parseAttributes reads the --attributes flag of an agent.
func parseAttributes(s string) []mesos.Attribute {
	if s == "" {
		return nil
	}
	var out []mesos.Attribute
	for part := range strings.SplitSeq(s, ";") {
		name, val, _ := strings.Cut(part, ":")
		a := mesos.Attribute{Name: name}
		spans, num, err := parseValue(val)
		switch {
		case err != nil:
			a.Type = mesos.TEXT
			a.Text = &mesos.Value_Text{Value: val}
		case spans != nil:
			a.Type = mesos.RANGES
			a.Ranges = &mesos.Value_Ranges{}
			for _, s := range spans {
				a.Ranges.Range = append(a.Ranges.Range, mesos.Value_Range{Begin: s.lo, End: s.hi})
			}
		default:
			a.Type = mesos.SCALAR
			a.Scalar = &mesos.Value_Scalar{Value: num}
		}
		out = append(out, a)
	}
	return out
}

// shell is the command line of a CommandInfo.
func shell(c *mesos.CommandInfo) *exec.Cmd {
	if c.Shell == nil || *c.Shell {
		return exec.Command("/bin/sh", "-c", c.GetValue())
	}
	cmd := exec.Command(c.GetValue())
	if len(c.Arguments) > 0 { // the first argument is argv[0]
		cmd.Args = c.Arguments
	}
	return cmd
}
