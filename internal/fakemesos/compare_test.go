package fakemesos

import (
	"fmt"
	"math"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ids maps what a recording calls something to what the double calls it.
type ids struct {
	scale    float64 // of time
	anyGrace bool    // the shutdown grace period is not the recorded one
	mu       sync.Mutex
	plain    map[string]string // uuids in text
	base64   map[string]string // uuids of updates
	offers   map[string]string // O0 to the whole id of an offer
	dirs     map[string]string // path prefixes
}

func newIDs(scale float64) *ids {
	return &ids{scale: scale, plain: map[string]string{}, base64: map[string]string{}, offers: map[string]string{}, dirs: map[string]string{}}
}

var (
	uuidText   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	offerText  = regexp.MustCompile(uuidText.String() + `-(O\d+)`)
	base64Text = regexp.MustCompile(`"([A-Za-z0-9+/]{22}==)"`)
	sleepText  = regexp.MustCompile(`sleep (\d+)`)
	secsText   = regexp.MustCompile(`(\d+)(secs|mins)`)
)

// time is how long these seconds of the recording take.
func (m *ids) time(secs float64) time.Duration {
	return time.Duration(secs * m.scale * float64(time.Second))
}

// request translates a recorded request.
func (m *ids) request(s string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	s = offerText.ReplaceAllStringFunc(s, func(x string) string {
		if to := m.offers[x[37:]]; to != "" {
			return to
		}
		return x
	})
	s = uuidText.ReplaceAllStringFunc(s, func(x string) string {
		if to := m.plain[x]; to != "" {
			return to
		}
		return x
	})
	s = base64Text.ReplaceAllStringFunc(s, func(x string) string {
		if to := m.base64[strings.Trim(x, `"`)]; to != "" {
			return `"` + to + `"`
		}
		return x
	})
	return sleepText.ReplaceAllStringFunc(s, func(x string) string {
		n, _ := strconv.ParseFloat(strings.TrimPrefix(x, "sleep "), 64)
		return fmt.Sprintf("sleep %g", n*m.scale)
	})
}

// text compares a recorded text with the double's and learns ids from it.
func (m *ids) text(want, got string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := offerText.FindStringSubmatch(want); o != nil && o[0] == want && offerText.MatchString(got) {
		m.offers[o[1]] = got
		m.learn(want[:36], got[:36])
		return true
	}
	if i := strings.IndexByte(want, '\n'); i >= 0 && strings.Contains(want, "ExecutorInfo") { // only the first line of long messages
		got, _, _ = strings.Cut(got, "\n")
		want = want[:i]
	}
	wantIDs, gotIDs := uuidText.FindAllString(want, -1), uuidText.FindAllString(got, -1)
	if len(wantIDs) != len(gotIDs) {
		return false
	}
	want = offerText.ReplaceAllStringFunc(want, func(x string) string {
		if to := m.offers[x[37:]]; to != "" {
			return to
		}
		return x
	})
	for i := range wantIDs {
		m.learn(wantIDs[i], gotIDs[i])
	}
	want = uuidText.ReplaceAllStringFunc(want, func(x string) string {
		if to := m.plain[x]; to != "" {
			return to
		}
		return x
	})
	want = secsText.ReplaceAllStringFunc(want, m.scaleText)
	for from, to := range m.dirs {
		want = strings.ReplaceAll(want, from, to)
	}
	return want == got
}

func (m *ids) scaleText(x string) string {
	parts := secsText.FindStringSubmatch(x)
	n, _ := strconv.ParseFloat(parts[1], 64)
	if parts[2] == "mins" {
		n *= 60
	}
	return mesosDuration(time.Duration(n * m.scale * float64(time.Second)))
}

func (m *ids) learn(want, got string) {
	if m.plain[want] == "" {
		m.plain[want] = got
	}
}

// ignored are the fields of which only the presence is compared.
var ignored = map[string]bool{
	"timestamp": true, "nanoseconds": true, "executor_pid": true, "port": true, "pid": true, "start_time": true, "elected_time": true,
	"build_date": true, "build_time": true, "build_user": true, "git_sha": true, "ip": true,
}

// absent are the fields that mesos-go's schema does not have, and so the double cannot send.
var absent = map[string]bool{"checkpoint@agent_info": true, "build_date": true, "build_time": true, "build_user": true, "git_sha": true}

// differs compares JSON values; the result names what differs.
func (m *ids) differs(path string, want, got any) []string {
	name := path[strings.LastIndexByte(path, '.')+1:]
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: want an object, got %v", path, got)}
		}
		return m.objectDiffers(path, w, g)
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return []string{fmt.Sprintf("%s: want %d elements, got %v", path, len(w), got)}
		}
		var out []string
		for i := range w {
			out = append(out, m.differs(path, w[i], g[i])...)
		}
		return out
	case string:
		return m.stringDiffers(path, name, w, got)
	case float64:
		g, ok := got.(float64)
		if name == "heartbeat_interval_seconds" {
			w *= m.scale
		}
		switch {
		case ok && ignored[name]:
			return nil
		case ok && math.Abs(g-w) < 1e-9:
			return nil
		}
		return []string{fmt.Sprintf("%s: want %v, got %v", path, w, got)}
	}
	if want != got {
		return []string{fmt.Sprintf("%s: want %v, got %v", path, want, got)}
	}
	return nil
}

func (m *ids) objectDiffers(path string, w, g map[string]any) []string {
	var out []string
	name := path[strings.LastIndexByte(path, '.')+1:]
	for k, v := range w {
		if _, ok := g[k]; !ok {
			if !absent[k] && !absent[k+"@"+name] {
				out = append(out, fmt.Sprintf("%s.%s: missing, want %v", path, k, v))
			}
			continue
		}
		out = append(out, m.differs(path+"."+k, v, g[k])...)
	}
	for k, v := range g {
		if _, ok := w[k]; !ok {
			out = append(out, fmt.Sprintf("%s.%s: not recorded, got %v", path, k, v))
		}
	}
	sort.Strings(out)
	return out
}

func (m *ids) stringDiffers(path, name, want string, got any) []string {
	g, ok := got.(string)
	switch {
	case !ok:
	case ignored[name]:
		return nil
	case name == "uuid" || name == "status_update_uuid":
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.base64[want] == "" {
			m.base64[want] = g
		}
		if m.base64[want] == g {
			return nil
		}
	case name == "value" && sleepText.MatchString(want):
		return nil
	case m.text(want, g):
		return nil
	}
	return []string{fmt.Sprintf("%s: want %q, got %v", path, want, got)}
}
