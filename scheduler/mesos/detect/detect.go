package detect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"sluice/scheduler/store/zkconn"
)

// Options are the settings of a Detector.
type Options struct {
	// Session is the timeout of the ZooKeeper session; 4 s if it is 0.
	Session time.Duration
	// Hostnames makes Masters tell hostname:port, for which certificates are made, and not IP:port.
	Hostnames bool
	// Log takes what happens; nothing is logged if it is nil.
	Log *slog.Logger
}

// Detector watches which master leads.
type Detector struct {
	conn *zkconn.Conn
	path string
	host bool
	log  *slog.Logger
}

// lookAgain is when the nodes are read again though no change was told.
const lookAgain = time.Minute

// Open begins to connect. url is zk://[user:password@]host[:port],.../path, as masters are given it.
func Open(url string, o Options) (*Detector, error) {
	at, err := zkconn.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("detect: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	conn, err := zkconn.Open(at.Hosts, zkconn.Options{Session: o.Session, Auth: at.Auth, Log: o.Log})
	if err != nil {
		return nil, fmt.Errorf("detect: %w", err)
	}
	return &Detector{conn, at.Path, o.Hostnames, o.Log}, nil
}

// Close ends all that Detect began.
func (d *Detector) Close() { d.conn.Close() }

// Detect tells the leading master and each change until the context ends or the Detector is closed; then the
// channel is closed. A Master that is not Known says that none leads.
func (d *Detector) Detect(ctx context.Context) <-chan Master {
	masters := make(chan Master, 1)
	go func() {
		defer close(masters)
		var told *Master
		wrong := ""
		for {
			m, changed, err := d.look(ctx)
			if err != nil && (ctx.Err() != nil || errors.Is(err, zkconn.ErrClosed)) {
				return
			}
			before := wrong
			if wrong = ""; err != nil {
				wrong = explain(d.path, err)
			}
			if wrong != "" && wrong != before {
				d.log.Warn("detect: the leading master cannot be told", "error", wrong)
			}
			if told == nil || *told != m {
				told = &m
				tell(masters, m)
			}
			if !d.wait(ctx, changed) {
				return
			}
		}
	}()
	return masters
}

// Masters tells the address of the leading master as Detect tells the master, "" while there is none, until the Detector
// is closed.
func (d *Detector) Masters() <-chan string {
	addresses := make(chan string, 1)
	go func() {
		defer close(addresses)
		for m := range d.Detect(context.Background()) {
			tell(addresses, d.address(m))
		}
	}()
	return addresses
}

func (d *Detector) address(m Master) string {
	switch {
	case !m.Known():
		return ""
	case d.host:
		return m.HostAddr()
	}
	return m.Addr()
}

// tell replaces what nobody has read yet. There is one sender.
func tell[T any](to chan T, what T) {
	select {
	case <-to:
	default:
	}
	to <- what
}

// wait returns true when there may be something new.
func (d *Detector) wait(ctx context.Context, changed <-chan zk.Event) bool {
	again := lookAgain
	if changed == nil {
		again = time.Second // the nodes could not be watched
	}
	select {
	case <-changed:
		return true
	case <-time.After(again):
		return true
	case <-ctx.Done():
		return false
	case <-d.conn.Done():
		return false
	}
}

// look reads who leads, and watches for changes. With an error the Master is not Known.
func (d *Detector) look(ctx context.Context) (Master, <-chan zk.Event, error) {
	for {
		names, changed, err := d.nodes(ctx)
		if err != nil || len(names) == 0 {
			return Master{}, changed, err
		}
		name := lowest(names)
		if name == "" {
			return Master{}, changed, nil
		}
		data, err := zkconn.Read(ctx, d.conn, func(z *zk.Conn) ([]byte, error) {
			data, _, err := z.Get(d.path + "/" + name)
			return data, err
		})
		if errors.Is(err, zk.ErrNoNode) {
			continue // its master has ended just now
		}
		if err != nil {
			return Master{}, changed, err
		}
		m, err := parse(name, data)
		if err != nil {
			return Master{}, changed, fmt.Errorf("znode %s/%s: %w", d.path, name, err)
		}
		return m, changed, nil
	}
}

// watched are the names below a node, with a channel that tells when they have changed.
type watched struct {
	names   []string
	changed <-chan zk.Event
}

// nodes lists the nodes below the path. Where that is not there it is watched for.
func (d *Detector) nodes(ctx context.Context) ([]string, <-chan zk.Event, error) {
	for {
		w, err := zkconn.Read(ctx, d.conn, func(z *zk.Conn) (watched, error) {
			names, _, changed, err := z.ChildrenW(d.path)
			return watched{names, changed}, err
		})
		if !errors.Is(err, zk.ErrNoNode) {
			return w.names, w.changed, err
		}
		there := false
		w, err = zkconn.Read(ctx, d.conn, func(z *zk.Conn) (w watched, err error) {
			there, _, w.changed, err = z.ExistsW(d.path)
			return w, err
		})
		if err == nil && !there {
			err = errMissing
		}
		if err != nil {
			return nil, w.changed, err
		}
	}
}

// errMissing says that the path is not there.
var errMissing = errors.New("it is not there: no master has announced itself yet, or the path of the masters is another one")

// explain says which node is meant and, where it is known, what to do.
func explain(path string, err error) string {
	switch {
	case errors.Is(err, errMissing):
		return fmt.Sprintf("znode %s: %v", path, err)
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Sprintf("znode %s is not for this user, or the password is another one; write zk://USER:PASSWORD@HOST:PORT%s", path, path)
	}
	return err.Error()
}

// lowest is the node of the leader; empty if there is none.
func lowest(names []string) string {
	first, found := int64(0), ""
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, jsonPrefix)
		if !ok {
			digits, ok = strings.CutPrefix(name, protobufPrefix)
		}
		// Numbers are those of a counter of 32 bits, which may have come round.
		n, err := strconv.ParseInt(digits, 10, 32)
		if !ok || err != nil {
			continue
		}
		if found == "" || n < first {
			first, found = n, name
		}
	}
	return found
}
