// Package pending keeps track of commits that somebody else confirms later.
//
// A sink may give rows away without knowing that they have arrived: it writes a file that another process
// collects. Its commit of the epochs is then pending, and has a witness: the file and the length that it has
// once it has arrived. Anybody may look whether the witness has come true (Checker), since that is a fact
// that all see.
//
//	t := pending.New(0)
//	t.Add(pending.Group{First: 1, Last: 3, Witness: pending.Witness{File: "a", Length: 10}}, now)
//	t.Add(pending.Group{First: 4, Last: 4, Witness: pending.Witness{File: "b", Length: 20}}, now)
//	t.Confirm(4)  // the frontier stays at 0, for the epochs 1 to 3 may yet be lost
//	t.Confirm(1)  // now it is 4
//
// The frontier is the epoch up to which everything is confirmed; it alone counts for a checkpoint. That a
// later group is confirmed says nothing of an earlier one. A group that has not been confirmed in time is
// sent again, it alone: those that were committed after it are kept in mind, and passed over (Passed). Before
// that its witness is revoked, so that the rows cannot arrive twice: whatever there is of the file is
// removed. Where that is impossible the rows may come twice, and the sink has to say so (ErrMayDouble).
//
// The groups follow each other without a gap: each begins with the epoch after the end of the one before.
//
// A Tracker is a pure core: it looks at no file and no clock. Its text form is kept with the sink's commits,
// except for when a group was sent: the process that reads it gives them all their time anew.
package pending
