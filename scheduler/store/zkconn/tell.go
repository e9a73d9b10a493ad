package zkconn

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	// tellAgain is when it is told again that no server can be reached.
	tellAgain = time.Minute
	// mostTexts bounds the messages of the library that are remembered.
	mostTexts = 100
)

// teller logs what happens to a connection: that it is away for longer than wait, and back; that the session has expired;
// and, each once a minute, what the library says, which repeats itself with each attempt.
type teller struct {
	log     *slog.Logger
	servers string
	wait    time.Duration

	mu     sync.Mutex
	away   time.Time   // since when there is no connection; zero if there is one
	timer  *time.Timer // tells that it is away
	told   bool
	closed bool
	texts  map[string]time.Time // of the library, with the time when each was logged
}

func newTeller(log *slog.Logger, servers []string, wait time.Duration) *teller {
	t := &teller{log: log, servers: strings.Join(servers, ","), wait: wait, texts: map[string]time.Time{}}
	t.lost()
	return t
}

// event notes what the library tells.
func (t *teller) event(s zk.State) {
	switch s {
	case zk.StateHasSession:
		t.connected()
	case zk.StateDisconnected:
		t.lost()
	case zk.StateExpired:
		t.log.Warn("zookeeper: the session has expired; a new one begins", "servers", t.servers)
	}
}

func (t *teller) lost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || !t.away.IsZero() {
		return
	}
	t.away = time.Now()
	t.timer = time.AfterFunc(t.wait, t.tell)
}

// tell is called by the timer.
func (t *teller) tell() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.away.IsZero() {
		return
	}
	t.told = true
	t.log.Warn("zookeeper: no server serves this client, which goes on trying", "servers", t.servers,
		"for", time.Since(t.away).Round(time.Second/10))
	t.timer.Reset(tellAgain)
}

func (t *teller) connected() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.away.IsZero() {
		return
	}
	if t.told {
		t.log.Info("zookeeper: connected again", "servers", t.servers, "after", time.Since(t.away).Round(time.Second/10))
	}
	t.timer.Stop()
	t.away, t.told = time.Time{}, false
}

func (t *teller) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// Printf takes the library's messages.
func (t *teller) Printf(format string, arguments ...any) {
	text := "zookeeper: " + fmt.Sprintf(format, arguments...)
	if t.fresh(text) {
		t.log.Info(text)
	}
}

// fresh says whether a text was not logged a short time ago.
func (t *teller) fresh(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if at, known := t.texts[text]; known && now.Sub(at) < tellAgain {
		return false
	}
	if len(t.texts) == mostTexts {
		clear(t.texts)
	}
	t.texts[text] = now
	return true
}
