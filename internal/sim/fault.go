package sim

// faults tells whether there are faults to come.
func (w *world) faults() bool { return w.plan.Faults > 0 }

// fault counts one.
func (w *world) fault() { w.plan.Faults-- }

// faultLater plans the next fault. Around a change of the query there are more of them.
func (w *world) faultLater() {
	if !w.faults() {
		return
	}
	every := w.plan.FaultEvery
	if w.changing() {
		every /= 4
	}
	w.after(w.between(every/10, 2*every), func() {
		if w.faults() {
			w.fault()
			w.strike()
		}
		w.faultLater()
	})
}

// changing tells whether a change has been asked for and not answered.
func (w *world) changing() bool {
	for _, c := range w.changes {
		if c.asked && !c.answered {
			return true
		}
	}
	return false
}

// strike does one fault, or several at once.
func (w *world) strike() {
	alive := w.alive()
	if w.shell != nil && w.chance(w.plan.Depose) {
		w.shell.depose(w.chance(0.6), nil)
		return
	}
	switch x := w.rand.Float64(); {
	case x < w.plan.Zombies:
		w.cutOff(w.oneOf(alive))
	case x < w.plan.Zombies+0.15:
		w.endScheduler("it crashes")
	case x < w.plan.Zombies+0.2:
		for _, s := range w.shells() {
			s.end("everything crashes")
		}
		for _, k := range alive {
			k.kill("everything crashes")
		}
	case x < w.plan.Zombies+0.3:
		for range 2 {
			w.oneOf(alive).kill("crash, one of several")
		}
	default:
		w.oneOf(alive).kill("crash")
	}
}

func (w *world) alive() []*worker {
	var list []*worker
	for _, k := range w.workers {
		if !k.dead {
			list = append(list, k)
		}
	}
	return list
}

// oneOf draws a worker; of none it gives one that has ended, to which nothing can happen.
func (w *world) oneOf(list []*worker) *worker {
	if len(list) == 0 {
		return &worker{world: w, dead: true}
	}
	return list[w.rand.IntN(len(list))]
}

func (w *world) endScheduler(why string) {
	if w.shell != nil {
		w.shell.end(why)
	}
}

// cutOff lets a worker and the scheduler hear nothing of each other: for good, or for a while.
func (w *world) cutOff(k *worker) {
	if k.dead || k.cut {
		return
	}
	w.tracef("%s is cut off from the scheduler", k.id)
	k.cut = true
	if w.chance(0.3) {
		w.after(w.between(100*millisecond, 3*second), func() {
			w.tracef("%s is no longer cut off", k.id)
			k.cut = false
		})
	}
}
