package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"sluice/scheduler/store/zkconn"
)

// zkTermValue is what the node of the term holds: "TERM CANDIDATE". The version of the node is what leaders are fenced with.
type zkTermValue struct {
	term      int64
	candidate string // name of the node of the one that began it; empty before the first
	version   int32
}

func readTerm(n znode) (t zkTermValue, err error) {
	if n.stat == nil {
		return t, fmt.Errorf("%w: the znode of the term is gone; open the store again", ErrDamaged)
	}
	t.version = n.stat.Version
	if len(n.data) == 0 {
		return t, nil
	}
	term, candidate, _ := strings.Cut(string(n.data), " ")
	t.candidate = candidate
	if t.term, err = strconv.ParseInt(term, 10, 64); err != nil || t.term <= 0 || candidate == "" {
		return t, fmt.Errorf("%w: the znode of the term holds %.100q", ErrDamaged, n.data)
	}
	return t, nil
}

// zkCandidate is a process that wants to lead: an ephemeral node ID-NUMBER. The lowest number leads.
type zkCandidate struct {
	z       *zkStore
	id      string
	name    string          // of the node, once it was found
	made    chan struct{}   // closed when the call that creates the node has ended
	session context.Context // ends with the session of the node
	seen    time.Time       // when the session was alive for certain
}

// errGone says that the node of a candidate is not there any more.
var errGone = errors.New("store: the candidate's znode is gone")

// Lead implements Store.
func (z *zkStore) Lead(ctx context.Context, about []byte) (Leadership, error) {
	if err := checkAbout(about); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for {
		l, err := z.campaign(ctx, about)
		switch {
		case err == nil:
			return l, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, errGone) || zkconn.Uncertain(err):
			// The session has ended: again with the next one.
			err = z.pause(ctx)
		}
		if err != nil {
			return nil, callError(z.in(zkLeaders), err)
		}
	}
}

// campaign is one candidate's way to the lead.
func (z *zkStore) campaign(ctx context.Context, about []byte) (*zkLeadership, error) {
	c := &zkCandidate{z: z, id: newID(), made: make(chan struct{}), session: z.conn.Session()}
	l, err := c.run(ctx, about)
	if err != nil {
		select {
		case <-c.withdraw():
		case <-time.After(withdrawWait):
		}
		return nil, err
	}
	return l, nil
}

// withdrawWait is how long Lead waits, when its context has ended, for its node to go.
const withdrawWait = time.Second / 2

func (c *zkCandidate) run(ctx context.Context, about []byte) (*zkLeadership, error) {
	if err := c.create(ctx, about); err != nil {
		return nil, err
	}
	for {
		own, before, err := c.find(ctx)
		if err != nil {
			return nil, err
		}
		c.name = own
		if before == "" {
			return c.begin(ctx)
		}
		if err := c.waitFor(ctx, before); err != nil {
			return nil, err
		}
	}
}

// create makes the node. A call that had no answer may have made it, which the id tells. The call ends with the
// connection only: what is sent later might make a node that nobody knows of.
func (c *zkCandidate) create(ctx context.Context, about []byte) error {
	prefix := c.z.in(zkLeaders, c.id+"-")
	var err error
	go func() {
		defer close(c.made)
		_, err = zkconn.Call(c.z.life, c.z.conn, func(z *zk.Conn) (string, error) {
			return z.Create(prefix, about, zk.FlagEphemeralSequential, c.z.acl)
		})
	}()
	select {
	case <-c.made:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.session.Err() != nil {
		return errGone
	}
	if err != nil && !zkconn.Uncertain(err) {
		return callError(prefix, err)
	}
	return nil
}

// number is the order of a candidate's node.
func number(name string) (int64, bool) {
	_, digits, found := strings.Cut(name, "-")
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, found && err == nil
}

// find returns the names of the candidate's own node and of the one that is next before it; that is empty for the first.
func (c *zkCandidate) find(ctx context.Context) (own, before string, err error) {
	if err := c.z.sync(ctx); err != nil {
		return "", "", err
	}
	names, _, err := c.z.children(ctx, c.z.in(zkLeaders))
	if err != nil {
		return "", "", err
	}
	names = slices.DeleteFunc(names, func(n string) bool { _, ok := number(n); return !ok })
	slices.SortFunc(names, func(a, b string) int {
		x, _ := number(a)
		y, _ := number(b)
		return cmp.Compare(x, y)
	})
	i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, c.id+"-") })
	switch i {
	case -1:
		return "", "", errGone
	case 0:
		return names[0], "", nil
	}
	return names[i], names[i-1], nil
}

// lookAgain is when a candidate looks who is before it though no change was told.
const lookAgain = 10 * time.Second

// waitFor returns when another candidate's node may be gone.
func (c *zkCandidate) waitFor(ctx context.Context, name string) error {
	type watched struct {
		there  bool
		events <-chan zk.Event
	}
	w, err := zkconn.Read(ctx, c.z.conn, func(z *zk.Conn) (watched, error) {
		there, _, events, err := z.ExistsW(c.z.in(zkLeaders, name))
		return watched{there, events}, err
	})
	if err != nil || !w.there {
		return callError(c.z.in(zkLeaders), err)
	}
	select {
	case <-w.events:
		return nil
	case <-time.After(lookAgain):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.session.Done():
		return errGone
	}
}

// begin begins the next term, if the candidate's node is still there at that moment.
func (c *zkCandidate) begin(ctx context.Context) (*zkLeadership, error) {
	for {
		c.seen = time.Now()
		n, err := c.z.get(ctx, c.z.in(zkTerm))
		if err != nil {
			return nil, err
		}
		t, err := readTerm(n)
		if err != nil {
			return nil, err
		}
		if t.candidate == c.name {
			// An attempt without an answer has begun it. Whether the session lives a read does not tell.
			if err := c.begun(ctx, t); err != nil {
				return nil, err
			}
			return c.lead(ctx, t)
		}
		next := zkTermValue{t.term + 1, c.name, t.version + 1}
		_, err = c.z.multi(ctx, nil,
			&zk.CheckVersionRequest{Path: c.z.in(zkLeaders, c.name), Version: 0},
			&zk.SetDataRequest{Path: c.z.in(zkTerm), Data: fmt.Appendf(nil, "%d %s", next.term, next.candidate), Version: t.version})
		switch {
		case err == nil:
			return c.lead(ctx, next)
		case errors.Is(err, zk.ErrNoNode):
			return nil, errGone
		case errors.Is(err, zk.ErrBadVersion):
			continue
		case zkconn.Uncertain(err):
			err = c.z.pause(ctx)
		}
		if err != nil {
			return nil, callError(c.z.in(zkTerm), err)
		}
	}
}

// begun returns nil if the candidate's term is the present one.
func (c *zkCandidate) begun(ctx context.Context, t zkTermValue) error {
	err := c.ask(ctx, t)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) {
		return errGone
	}
	return callError(c.z.in(zkTerm), err)
}

// ask returns nil if the session lives and the term is the given one. It asks by a transaction without a change, on which
// most of the servers must agree.
func (c *zkCandidate) ask(ctx context.Context, t zkTermValue) error {
	_, err := zkconn.Read(ctx, c.z.conn, func(z *zk.Conn) ([]zk.MultiResponse, error) {
		return z.Multi(
			&zk.CheckVersionRequest{Path: c.z.in(zkLeaders, c.name), Version: 0},
			&zk.CheckVersionRequest{Path: c.z.in(zkTerm), Version: t.version})
	})
	return err
}

// lead is called when the term has begun.
func (c *zkCandidate) lead(ctx context.Context, t zkTermValue) (*zkLeadership, error) {
	rests, err := c.z.large.all(ctx)
	if err != nil {
		return nil, err
	}
	l := &zkLeadership{c: c, term: t, lost: make(chan struct{})}
	l.held, l.end = context.WithCancel(c.session)
	context.AfterFunc(c.z.life, l.end)
	l.fence = &zkFence{c.z, t, l.lost}
	c.z.leaders.Go(l.watch)
	c.z.leaders.Go(func() { c.z.large.clean(l.held, l.fence, rests) })
	return l, nil
}

// withdraw removes the candidate's node, however long the servers cannot be reached, for it keeps others from the
// lead. The channel is closed when it is gone, or the Store closed.
func (c *zkCandidate) withdraw() <-chan struct{} {
	gone := make(chan struct{})
	c.z.leaders.Go(func() {
		defer close(gone)
		c.removeNode()
	})
	return gone
}

func (c *zkCandidate) removeNode() {
	ctx := c.z.life
	select {
	case <-c.made:
	case <-ctx.Done():
		return
	}
	for {
		own, _, err := c.find(ctx)
		if errors.Is(err, errGone) {
			return
		}
		if err == nil {
			_, err = zkconn.Call(ctx, c.z.conn, func(z *zk.Conn) (struct{}, error) {
				return struct{}{}, z.Delete(c.z.in(zkLeaders, own), -1)
			})
		}
		if err == nil || errors.Is(err, zk.ErrNoNode) || c.z.pause(ctx) != nil {
			return
		}
	}
}

// zkLeadership is held as long as the session of its candidate lives for certain.
type zkLeadership struct {
	c     *zkCandidate
	term  zkTermValue
	fence *zkFence

	held context.Context // ends with the session, or by Resign
	end  context.CancelFunc
	lost chan struct{} // closed by watch

	gone <-chan struct{} // closed when the candidate's node has gone; there once lost is closed
}

// Term implements Leadership.
func (l *zkLeadership) Term() int64 { return l.term.term }

// Lost implements Leadership.
func (l *zkLeadership) Lost() <-chan struct{} { return l.lost }

// Store implements Leadership.
func (l *zkLeadership) Store() Store { return &zkFenced{l.c.z, l.fence} }

// watch asks the servers again and again, and closes lost when they could not be reached for two thirds of the
// session timeout, counted from the sending of the last question that was answered. Until then nobody else can lead, for the
// servers count from when they got it.
func (l *zkLeadership) watch() {
	alive := l.c.seen
	for l.held.Err() == nil {
		granted := l.c.z.conn.Granted()
		ctx, cancel := context.WithDeadline(l.held, alive.Add(granted*2/3))
		asked := time.Now()
		err := l.c.ask(ctx, l.term)
		cancel()
		if err != nil {
			break
		}
		alive = asked
		select {
		case <-l.held.Done():
		case <-time.After(granted / 6):
		}
	}
	l.end()
	gone := make(chan struct{})
	l.gone = gone
	close(l.lost)
	// The session may live on, and with it the node.
	<-l.c.withdraw()
	close(gone)
}

// Resign implements Leadership.
func (l *zkLeadership) Resign() error {
	l.end()
	<-l.lost
	wait := l.c.z.conn.Granted()
	select {
	case <-l.gone:
		return nil
	case <-time.After(wait):
		return errors.New("store: ZooKeeper cannot be reached; another scheduler leads when the session ends, or this one is connected again")
	}
}

// zkFence is what a change of a leader must pass: the node of the term is as it was when the leader's began.
type zkFence struct {
	z    *zkStore
	term zkTermValue
	lost <-chan struct{}
}

func (f *zkFence) refusal() error {
	return fmt.Errorf("%w: the term %d is over", ErrNotLeader, f.term.term)
}

// check says what this process knows.
func (f *zkFence) check() error {
	if f == nil {
		return nil
	}
	select {
	case <-f.lost:
		return f.refusal()
	default:
		return nil
	}
}

// operation is what the servers check together with the change.
func (f *zkFence) operation() any {
	return &zk.CheckVersionRequest{Path: f.z.in(zkTerm), Version: f.term.version}
}

// verify asks the servers.
func (f *zkFence) verify(ctx context.Context) error {
	if f == nil {
		return nil
	}
	if err := f.check(); err != nil {
		return err
	}
	stat, err := f.z.stat(ctx, f.z.in(zkTerm))
	if err != nil {
		return err
	}
	if stat == nil || stat.Version != f.term.version {
		return f.refusal()
	}
	return nil
}

// zkFenced is the store of a leader.
type zkFenced struct {
	*zkStore
	fence *zkFence
}

// Put implements Store.
func (z *zkFenced) Put(ctx context.Context, path string, value []byte, version int64) (int64, error) {
	return z.put(ctx, z.fence, path, value, version)
}

// Delete implements Store.
func (z *zkFenced) Delete(ctx context.Context, path string, version int64) error {
	return z.remove(ctx, z.fence, path, version)
}

// Close does nothing: the Store that leads is closed itself.
func (z *zkFenced) Close() error { return nil }
