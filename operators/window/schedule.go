package window

// schedule is a heap of small numbers by time. A number's time may be put forward at no cost: it then
// comes out at the old time, and whoever takes it out finds that it is too early.
type schedule struct {
	heap []appointment
	at   []int32 // by number: 1 + its place in heap; 0: it is not there
}

type appointment struct {
	time int64
	id   int32
}

// set makes id come out at time, or earlier if it is there with an earlier time.
func (s *schedule) set(id int32, time int64) {
	s.at = extend(s.at, int(id)+1)
	i := int(s.at[id]) - 1
	if i < 0 {
		i = len(s.heap)
		s.heap = append(s.heap, appointment{time, id})
		s.at[id] = int32(i + 1)
	} else if s.heap[i].time <= time {
		return
	}
	s.heap[i].time = time
	s.up(i)
}

// earliest is the time of the first number.
func (s *schedule) earliest() (int64, bool) {
	if len(s.heap) == 0 {
		return 0, false
	}
	return s.heap[0].time, true
}

// popAt takes out a number whose time is exactly the earliest, now.
func (s *schedule) popAt(now int64) (int32, bool) {
	if len(s.heap) == 0 || s.heap[0].time != now {
		return 0, false
	}
	id := s.heap[0].id
	s.remove(id)
	return id, true
}

// remove takes out id, if it is there.
func (s *schedule) remove(id int32) {
	if int(id) >= len(s.at) || s.at[id] == 0 {
		return
	}
	i, last := int(s.at[id])-1, len(s.heap)-1
	s.at[id] = 0
	if i != last {
		s.heap[i] = s.heap[last]
		s.at[s.heap[i].id] = int32(i + 1)
	}
	s.heap = s.heap[:last]
	if i != last {
		s.down(i)
		s.up(i)
	}
}

func (s *schedule) up(i int) {
	for i > 0 && s.heap[i].time < s.heap[(i-1)/2].time {
		s.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (s *schedule) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(s.heap) {
			return
		}
		if c+1 < len(s.heap) && s.heap[c+1].time < s.heap[c].time {
			c++
		}
		if s.heap[c].time >= s.heap[i].time {
			return
		}
		s.swap(i, c)
		i = c
	}
}

func (s *schedule) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.at[s.heap[i].id], s.at[s.heap[j].id] = int32(i+1), int32(j+1)
}
