package zktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// members is how many servers an ensemble has: one may fail.
const members = 3

// settle bounds how long an ensemble may take until it has a leader: an election on a busy machine.
const settle = time.Minute

// Ensemble is three servers that agree on what is stored. They know each other through proxies, as far as the leader's
// messages to its followers go; elections have their own connections, which are never disturbed.
type Ensemble struct {
	Members [members]*Server
	// links are the ways from a follower to a leader, by their numbers.
	links [members][members]*Proxy
}

// syncLimit is after how many ticks of silence a leader and a follower give each other up.
const syncLimit = 10

// linkPatience is how long a link waits for a leader that has just been elected to listen. A follower takes a connection
// that ends at once for the end of that leader.
const linkPatience = 2 * time.Second

const memberSettings = `initLimit=50
syncLimit=%d
`

// StartEnsemble runs an ensemble that ends with the test.
func StartEnsemble(t testing.TB) *Ensemble {
	t.Helper()
	if err := installed(); err != nil {
		t.Fatal(err)
	}
	var err error
	// Another process may take a port that was free a moment ago.
	for range 3 {
		var e *Ensemble
		if e, err = newEnsemble(t); err == nil {
			return e
		}
	}
	t.Fatal(err)
	return nil
}

func newEnsemble(t testing.TB) (*Ensemble, error) {
	e := &Ensemble{}
	var quorum, election [members]int
	for i := range members {
		e.Members[i] = &Server{dir: t.TempDir()}
		for _, port := range []*int{&e.Members[i].port, &quorum[i], &election[i]} {
			var err error
			if *port, err = freePort(); err != nil {
				return nil, err
			}
		}
	}
	for i, s := range e.Members {
		text := fmt.Sprintf(memberSettings, syncLimit)
		for j := range members {
			to := quorum[j]
			if i != j {
				e.links[i][j] = newProxy(t, fmt.Sprintf("127.0.0.1:%d", quorum[j]), linkPatience)
				to = e.links[i][j].port()
			}
			text += fmt.Sprintf("server.%d=127.0.0.1:%d:%d\n", j+1, to, election[j])
		}
		s.ensemble = text
		if err := os.MkdirAll(s.data(), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(s.data(), "myid"), fmt.Append(nil, i+1), 0o644); err != nil {
			return nil, err
		}
	}
	for _, s := range e.Members {
		if err := s.begin(); err != nil {
			return nil, err
		}
		t.Cleanup(s.Kill)
	}
	for _, s := range e.Members {
		if err := s.await(); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// Addrs are host:port of all members.
func (e *Ensemble) Addrs() []string {
	var all []string
	for _, s := range e.Members {
		all = append(all, s.Addr())
	}
	return all
}

// leads tells whether a server says that it leads its ensemble, or follows. A paused one says nothing.
func (s *Server) leads() (leader, follower bool) {
	if s.paused {
		return false, false
	}
	answer := s.ask("srvr")
	return strings.Contains(answer, "Mode: leader"), strings.Contains(answer, "Mode: follower")
}

// Leader waits until the ensemble has a leader with a follower, and returns its number and those of its followers.
func (e *Ensemble) Leader(t testing.TB) (leader int, followers []int) {
	t.Helper()
	for deadline := time.Now().Add(settle); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		leader, followers = -1, nil
		for i, s := range e.Members {
			leads, follows := s.leads()
			if leads {
				leader = i
			}
			if follows {
				followers = append(followers, i)
			}
		}
		if leader >= 0 && len(followers) > 0 {
			return leader, followers
		}
	}
	t.Fatalf("the ensemble has no leader after %s", settle)
	return 0, nil
}

// Whole waits until all members serve, and returns the leader's number and those of its followers.
func (e *Ensemble) Whole(t testing.TB) (leader int, followers []int) {
	t.Helper()
	for _, s := range e.Members {
		if err := s.await(); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(settle); time.Now().Before(deadline); {
		if leader, followers = e.Leader(t); len(followers) == members-1 {
			return leader, followers
		}
	}
	t.Fatalf("the ensemble is not whole after %s", settle)
	return 0, nil
}

// Lag holds back what a leader and a follower tell each other, until Heal of what is returned. For a second the
// follower serves on, without what is stored meanwhile.
func (e *Ensemble) Lag(follower, leader int) *Proxy {
	link := e.links[follower][leader]
	link.Freeze()
	return link
}
