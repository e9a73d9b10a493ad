/*
Package store keeps what a scheduler must not forget, for one machine in a directory and for a cluster in
ZooKeeper, and says who leads.

	s, err := store.OpenDir("/var/lib/sluice")
	s, err := store.OpenZooKeeper(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"}, "/sluice", store.Options{})
	defer s.Close()

	l, err := s.Lead(ctx, []byte("http://10.0.0.1:8080")) // waits
	value, version, err := l.Store().Get(ctx, "queries/q1/record")
	version, err = l.Store().Put(ctx, "queries/q1/record", value, version)
	switch {
	case errors.Is(err, store.ErrNotLeader): // stop all work
	case errors.Is(err, store.ErrVersion): // somebody else was first; nothing was stored
	case err != nil: // stored or not: Get tells
	}
	<-l.Lost() // stop all work, then Lead again: under a higher term

# What holds

  - A value is whole or not there, and acknowledged is kept: what a Put has returned is there for all processes,
    until it is replaced or removed.
  - Of several Puts or Deletes that name the same version one succeeds.
  - Versions of a path grow, also over its removal, so that no old version ever fits again.
  - A Get or List sees all that had been acknowledged, by whatever process, before it began.
  - Of a removal all is gone or nothing, up to the limits named below.
  - There is one leader at a time, as far as processes look at Lost. A process that does not look, since it stood still or
    its messages were late, cannot write: its changes are refused by the store itself, in the same step in which they would
    be made.
  - A leader reads all that earlier leaders have written.

# What a failed call means

ErrNotFound, ErrVersion, ErrNotLeader and ErrPath: nothing has happened. ErrClosed, the error of the context, and
any other one: it may have happened, or may yet happen for as long as the Store is open. A Get that comes later through the same
Store tells. A call that did happen though its answer was lost is found out by reading back, and returns as if nothing
had been lost; only where somebody else has changed the value meanwhile this is not possible, and an error says so.
ErrDamaged: somebody else has changed files or znodes; the values that it names must be removed or restored by hand.

Calls wait as long as their context allows while ZooKeeper cannot be reached, or while another process holds the lock of the
directory. Give them a deadline.

# Directory

	sluice-store         marks the directory
	lock                 locked with flock for each change
	leader               locked with flock by the leading process as long as it leads
	term                 the last term, with what its leader says of itself
	deleted              the highest version that was ever removed
	values/a/b/+value    the value of the path a/b
	tmp/                 what is being written or removed; the next OpenDir empties it

Files are sealed (below); the id of a value is its version. A change is made under the lock: the file is written to tmp,
synced, renamed, and its folder synced. A removal renames the folder away. So it holds also when the machine loses
power. The term is read under the same lock before each change of a leader, and begun under it.

The lock on leader ends with the process, however it ends, and another one leads within 50 ms. A leader whose file was
removed or replaced loses the lead within 100 ms. A process that stands still (SIGSTOP) keeps it: on one
machine nobody can tell whether it will go on. All processes must see the directory in the same way at the same
time; network file systems do not do. Processes wait for each other's lock by trying again each 2 ms.

# ZooKeeper

	ROOT/values/a/b              the value of the path a/b; a node without data holds no value
	ROOT/large/ID                a large value: data is the path; its version is 0 until it is marked for removal
	ROOT/large/ID/0000 ...       its pieces of 512 KiB, if it is not in a file
	ROOT/leaders/ID-0000000007   who leads or waits to: ephemeral, numbered; data is what it says of itself
	ROOT/term                    "TERM CANDIDATE": the last term and the node that began it
	ROOT/deletions               its version counts removals

Nodes of values are sealed. Each Put has a random id, by which it recognises its own value when an answer was lost. The version of
a value is the id of the transaction that stored it (mzxid), which no other has. A change is one transaction that checks
the version of the znode; and that of deletions, as the versions of a znode begin anew when it is created again; and for a
leader that of term. Reads are preceded by a transaction that changes nothing, which most of the servers must confirm: a read alone
is answered by one server from what it has, which may be behind, and so is one after a sync where that server led once and has
not noticed that another one leads. Which of 2 to 20 server ticks the session
timeout is, the servers decide, and what they grant counts.

Values of more than 512 KiB are large: they are written under an id of their own before the transaction that names it, and what is
replaced is removed after it. With Options.LargeDir the bytes are in a file ID there, sealed with the path, and all schedulers
must see this directory; else they are in pieces below the node of the id. That node is created first and removed last, by the leader in
its term; so a stale leader gets no further than that node, writes no file and removes none. What is to be removed is marked, and
the transaction that names an id checks that it is not. A reader that finds a large value gone reads again. What processes leave
that are killed in between is removed when the next term begins. Files that have no node are left alone.

Removals of up to 100 nodes are one transaction. Of more, those deepest down go first; the value that the call names
is the last, so that an interrupted one can be repeated. Nodes that hold nothing any more are removed; List passes over any that is left.

The candidate with the lowest number leads. It begins its term by a transaction in which its own node must be there. Its lead is a lease: six times
a session timeout it asks, by a transaction that changes nothing, whether its node is there and the term is its own; and when no question that it
sent in the last two thirds of the timeout has been answered, it closes Lost. The servers give its node up after all of the
timeout, counted from when they last got something; then the next one leads. So with a session of 3 s a standby leads
about 3 s after the leader was killed. A leadership that has ended, and a Lead that was given up, remove their nodes as soon as a
server can be reached; until then, or until the session ends, nobody else leads.

With Options.Auth all nodes may be used by that user alone (digest). ZooKeeper sends passwords in the clear.

# Sealed

	sluice-value 1 ID KIND LENGTH CRC32C
	bytes

LENGTH is that of the value, in bytes, and the checksum, eight hexadecimal digits, that of ID with the value behind it. KIND is "here" where the bytes follow,
"nodes" or "file" where a node names a large value.

# Limits

Names have up to 200 bytes, paths up to 12 names, values up to 64 MiB, what a leader says of itself up to 64 KiB. A node lists about
10,000 names in ZooKeeper, whose answers have at most 1 MiB.

# What is not covered

There are no watches: who waits for a change asks again. There are no changes of several paths at once.
*/
package store
