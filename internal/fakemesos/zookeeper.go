package fakemesos

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"
)

// Announce registers the masters in a ZooKeeper as Mesos does: each holds an ephemeral node json.info_ with its MasterInfo
// under the path, and the one with the lowest number leads. The node of a master that dies goes when another one leads,
// as by the end of its session. Call it before any fail-over.
func (c *Cluster) Announce(servers []string, root string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	order := []*front{c.masters[c.leader]}
	for _, f := range c.masters {
		if f.index != c.leader {
			order = append(order, f)
		}
	}
	c.zkServers, c.zkRoot = servers, root
	for _, f := range order {
		if err := c.announceFront(f); err != nil {
			return err
		}
	}
	return nil
}

// announceFront makes the node of a master, when there is a ZooKeeper.
func (c *Cluster) announceFront(f *front) error {
	if len(c.zkServers) == 0 {
		return nil
	}
	conn, _, err := zk.Connect(c.zkServers, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return fmt.Errorf("fakemesos: announce master %d: %w", f.index, err)
	}
	if err := c.makeNode(conn, f); err != nil {
		conn.Close()
		return fmt.Errorf("fakemesos: announce master %d in %s: %w", f.index, c.zkRoot, err)
	}
	f.session = conn
	return nil
}

func (c *Cluster) makeNode(conn *zk.Conn, f *front) error {
	for at := ""; at != c.zkRoot; {
		rest := strings.TrimPrefix(strings.TrimPrefix(c.zkRoot, at), "/")
		name, _, _ := strings.Cut(rest, "/")
		at = path.Join("/", at, name)
		if _, err := conn.Create(at, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
			return err
		}
	}
	info := (&masterState{front: f, id: uuid.NewString()}).info()
	if f.index == c.leader && c.m != nil {
		info = c.m.info()
	}
	raw, err := encode("mesos.MasterInfo", true, &info)
	if err != nil {
		return err
	}
	_, err = conn.Create(path.Join(c.zkRoot, "json.info_"), raw, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	return err
}

// retire ends the session of a master.
func (f *front) retire() {
	if f.session != nil {
		f.session.Close()
		f.session = nil
	}
}
