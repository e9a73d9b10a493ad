package transport

// lostBeats is after how many beats without a word of the other side a connection is given up.
const lostBeats = 5

// silence finds connections whose other side says nothing any more: its machine has gone, its process stands
// still, or what lies between drops all. Each side of a connection says something at every beat, if only that it is
// there, and counts the beats in which it has heard nothing. It counts beats and no time, so a process that has
// stood still itself does not blame the others: the beats that it has missed do not count.
type silence struct{ beats int }

// heard is called when something has come.
func (s *silence) heard() { s.beats = 0 }

// beat is called at every beat. It reports whether the connection is to be given up.
func (s *silence) beat() (lost bool) {
	s.beats++
	return s.beats >= lostBeats
}
